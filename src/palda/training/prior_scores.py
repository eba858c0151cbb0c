"""What a fitted label prior says about documents, shard by shard, wherever they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from palda.data import count_blocks
from palda.models.classifier import LogisticClassifier
from palda.models.topics import unlabelled_shards, word_evidence_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import CountRows, Counts
    from palda.models.classifier import LabelPrior
    from palda.models.topics import DocumentShard, EMSettings

    Array = NDArray[np.float64]

__all__ = ["classifier_evidence", "prior_log_odds"]


class _Voice(NamedTuple):
    """A label prior, what it says about documents without any word it knows, and whether votes are to join it."""

    prior: LabelPrior
    without_words: Array  # (classes,)
    joins_votes: bool


def prior_log_odds(counts: CountRows, prior: LabelPrior, base: Array, settings: EMSettings) -> Array:
    """Log-odds (documents, classes) of documents that nobody has voted on; ``base`` where no word is known."""
    return _said(counts, _Voice(prior, base, joins_votes=False), settings)


def classifier_evidence(counts: CountRows, prior: LabelPrior, settings: EMSettings) -> Array:
    """What words add to the votes on documents (documents, classes), in nats; nothing where no word is known."""
    return _said(counts, _Voice(prior, np.zeros(len(prior.for_votes.base)), joins_votes=True), settings)


def _said(counts: CountRows, voice: _Voice, settings: EMSettings) -> Array:
    if not isinstance(
        voice.prior.classifier, LogisticClassifier
    ):  # somebody else's classifiers, which may want many documents at a time
        return np.concatenate([_of_rows(some, None, voice) for _, some in count_blocks(counts)])
    shards = unlabelled_shards(counts, len(voice.without_words))
    return np.concatenate(list(settings.engine.each(_of_shard, shards, voice)))


def _of_shard(shard: DocumentShard, voice: _Voice) -> Array:
    bags, prior = shard.bags, voice.prior
    n_words = (
        len(prior.classifier.idf)
        if isinstance(prior.classifier, LogisticClassifier) and prior.classifier.idf is not None
        else None
    )
    if n_words is None and prior.evidence_model is not None:
        n_words = len(prior.evidence_model.word_probs.present)
    shape = (len(shard.known), n_words or 0)
    counts: Counts = sparse.csr_array((bags.counts, bags.words, bags.starts), shape=shape)
    evidence = None if prior.evidence_model is None else word_evidence_of(bags, prior.evidence_model).evidence
    return _of_rows(counts, evidence, voice)


def _of_rows(counts: Counts, evidence: Array | None, voice: _Voice) -> Array:
    prior = voice.prior
    head = prior.classifier_log_odds(counts, evidence)
    said = prior.for_votes.evidence(head) if voice.joins_votes else prior.for_words.log_odds(head)
    return np.where(_is_silent(counts, prior), voice.without_words, said)


def _is_silent(counts: Counts, prior: LabelPrior) -> NDArray[np.bool_]:
    """(documents, 1): whether a document has no word that the label prior has seen."""
    idf = getattr(prior.classifier, "idf", None)
    seen = counts.sum(axis=1) if idf is None else counts @ (idf > 0).astype(np.float64)
    silent: NDArray[np.bool_] = np.asarray(seen).reshape(-1, 1) == 0
    return silent
