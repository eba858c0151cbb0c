"""Log-odds of documents under a fitted label prior, for documents in memory or stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import count_blocks, take_counts
from palda.models.classifier import LogisticClassifier
from palda.models.topics import bags_of, shard_ranges, word_evidence_of

if TYPE_CHECKING:
    from palda.data import Array, CountRows, Counts
    from palda.models.classifier import LabelPrior
    from palda.models.topics import EMSettings


class _Scorer(NamedTuple):
    """A label prior, the scores of documents without known words, and whether the scores are to join votes."""

    prior: LabelPrior
    without_words: Array  # (classes,)
    for_votes: bool

    def scores(self, counts: Counts, topic_evidence: Array | None) -> Array:
        """Log-odds, or evidence to join votes, (documents, classes)."""
        prior = self.prior
        log_odds = prior.classifier_log_odds(counts, topic_evidence)
        scores = prior.for_votes.evidence(log_odds) if self.for_votes else prior.for_words.log_odds(log_odds)
        idf = getattr(prior.classifier, "idf", None)
        n_known = counts.sum(axis=1) if idf is None else counts @ (idf > 0).astype(np.float64)
        has_no_word = np.asarray(n_known).reshape(-1, 1) == 0
        return np.where(has_no_word, self.without_words, scores)


def prior_log_odds(counts: CountRows, prior: LabelPrior, base: Array, settings: EMSettings) -> Array:
    """Log-odds (documents, classes) of documents without votes; ``base`` for documents without a known word."""
    return _score(counts, _Scorer(prior, base, for_votes=False), settings)


def classifier_evidence(counts: CountRows, prior: LabelPrior, settings: EMSettings) -> Array:
    """Evidence (documents, classes) that words add to votes, in nats; 0 for documents without a known word."""
    return _score(counts, _Scorer(prior, np.zeros(len(prior.for_votes.base)), for_votes=True), settings)


def _score(counts: CountRows, scorer: _Scorer, settings: EMSettings) -> Array:
    if not isinstance(scorer.prior.classifier, LogisticClassifier):  # may need many documents at a time
        return np.concatenate([scorer.scores(some, None) for _, some in count_blocks(counts)])
    parts = [take_counts(counts, np.arange(start, stop)) for start, stop in shard_ranges(counts)]
    return np.concatenate(list(settings.engine.each(_score_rows, parts, scorer)))


def _score_rows(rows: CountRows, scorer: _Scorer) -> Array:
    counts, model = rows[slice(None)], scorer.prior.evidence_model
    return scorer.scores(counts, None if model is None else word_evidence_of(bags_of(counts), model).evidence)
