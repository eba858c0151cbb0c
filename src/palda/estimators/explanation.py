"""Which words spoke for and against a class: plain tables of documents, words and nats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.models.classifier import LogisticClassifier, Scale, tf_idf
from palda.models.topics import evidence_of_shards, joined_bags, word_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Counts
    from palda.kernels import Bags
    from palda.models.classifier import LabelPrior
    from palda.models.topics import DocumentShard, EMSettings, WordEvidenceModel

    Array = NDArray[np.float64]

__all__ = ["REST", "WordTable", "head_weights", "topic_weights"]

REST = "(rest)"
"""Stands in the column of words for what no single word says: the head's offset against the base rate, what was cut
off where evidence was beyond belief, and what the other classes say through the label-set profiles."""


class WordTable(NamedTuple):
    """Entries (document, word), and how many nats each adds to the log-odds of a class."""

    doc: NDArray[np.int64]
    word: NDArray[np.int64]  # column of X; -1 for what no word says
    weight: Array


class _Topics(NamedTuple):
    """What topics say about the words of some documents."""

    bags: Bags
    doc: NDArray[np.int64]
    beliefs: Array
    evidence: Array
    reader: WordEvidenceModel

    @classmethod
    def of(cls, shards: Sequence[DocumentShard], reader: WordEvidenceModel, settings: EMSettings) -> _Topics:
        found = evidence_of_shards(shards, reader, settings)
        bags = joined_bags([shard.bags for shard in shards])
        doc = np.repeat(np.arange(len(found.beliefs)), np.diff(bags.starts))
        return cls(bags, doc, found.beliefs, found.evidence, reader)

    def weights(self, label: int) -> Array:
        return word_weights(self.bags, self.beliefs, self.reader, label)


def topic_weights(
    shards: Sequence[DocumentShard], reader: WordEvidenceModel, settings: EMSettings, chosen: Sequence[int]
) -> list[WordTable]:
    """A table for each chosen class; the weights of a document sum to its evidence."""
    topics = _Topics.of(shards, reader, settings)
    word = topics.bags.words.astype(np.int64)
    return [WordTable(topics.doc, word, topics.weights(label)) for label in chosen]


def head_weights(
    counts: Counts,
    prior: LabelPrior,
    log_odds: Array,
    topics: tuple[Sequence[DocumentShard], WordEvidenceModel, EMSettings] | None,
    chosen: Sequence[int],
) -> list[WordTable]:
    """A table for each chosen class; the weights of a document sum to ``log_odds`` (documents, classes).

    A word speaks through its own coefficient, through its share in columns that bend, and through the topics: what they
    say is itself a sum over words.
    """
    head = prior.classifier
    if not isinstance(head, LogisticClassifier):
        reason = "explain needs a label prior that weighs words one by one, not a plugged-in classifier"
        raise ValueError(reason)  # noqa: TRY004 - the setting is wrong, not a type
    doc = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    word = counts.indices.astype(np.int64)
    slope = head.slope * prior.for_words.slope
    own = np.zeros((counts.nnz, len(chosen)))
    lifted = head.n_words + head.n_dense
    if head.idf is not None:
        words = tf_idf(counts, head.idf)
        own += words.data[:, None] * head.coef[word][:, chosen]
        if head.fourier is not None:
            own += head.fourier.word_shares(words, head.coef[lifted:][:, chosen])
    if topics is not None and head.dense_mean is not None and head.dense_spread is not None:
        scale = Scale(head.dense_mean, head.dense_spread)
        own += _through_topics(_Topics.of(*topics), scale, head.coef[head.n_words : lifted][:, chosen])
    own *= slope[chosen]
    tables = []
    for position, label in enumerate(chosen):
        rest = log_odds[:, label] - np.bincount(doc, own[:, position], minlength=len(log_odds))
        tables.append(
            WordTable(
                np.concatenate((doc, np.arange(len(log_odds)))),
                np.concatenate((word, np.full(len(log_odds), -1))),
                np.concatenate((own[:, position], rest)),
            )
        )
    return tables


def _through_topics(topics: _Topics, scale: Scale, coef: Array) -> Array:
    """(entries, chosen): what each word adds to the head's scores through topic log-odds that are not cut off."""
    inside = scale.apply(topics.evidence) == (topics.evidence - scale.mean) / scale.spread
    per_nat = coef / scale.spread[:, None]
    total = np.zeros((len(topics.doc), coef.shape[1]))
    for label in np.flatnonzero(np.abs(per_nat).max(axis=1) > 0):
        total += (topics.weights(int(label)) * inside[topics.doc, label])[:, None] * per_nat[label]
    return total
