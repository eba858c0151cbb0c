"""Weights of words for and against a class, per document."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.models.classifier import LogisticClassifier, Scale, tf_idf
from palda.models.topics import concatenate_bags, evidence_of_shards, word_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, Counts, EncodedFeatures
    from palda.kernels import Bags
    from palda.models.classifier import LabelPrior
    from palda.models.topics import DocumentShard, EMSettings, WordEvidenceModel

REST = "(rest)"
"""In place of a word, for what belongs to no single word: the classifier's offset against the base rate, clipped
evidence, and the influence of other classes through the label-set profiles."""


class WordTable(NamedTuple):
    """Entries (document, word), and what each adds to the log-odds of a class, in nats."""

    doc: NDArray[np.int64]
    word: NDArray[np.int64]  # column of X, then group of features; -1 for the rest
    weight: Array


class _TopicEvidence(NamedTuple):
    """Word evidence of the topic model in some documents."""

    bags: Bags
    doc: NDArray[np.int64]
    beliefs: Array
    evidence: Array
    model: WordEvidenceModel

    @classmethod
    def of(cls, shards: Sequence[DocumentShard], model: WordEvidenceModel, settings: EMSettings) -> _TopicEvidence:
        result = evidence_of_shards(shards, model, settings)
        bags = concatenate_bags([shard.bags for shard in shards])
        doc = np.repeat(np.arange(len(result.beliefs)), np.diff(bags.starts))
        return cls(bags, doc, result.beliefs, result.evidence, model)

    def weights(self, label: int) -> Array:
        return word_weights(self.bags, self.beliefs, self.model, label)


def topic_weights(
    shards: Sequence[DocumentShard], model: WordEvidenceModel, settings: EMSettings, columns: Sequence[int]
) -> list[WordTable]:
    """One table per class in ``columns``; the weights of a document sum to its evidence (maths, eq. 35)."""
    topics = _TopicEvidence.of(shards, model, settings)
    word = topics.bags.words.astype(np.int64)
    return [WordTable(topics.doc, word, topics.weights(label)) for label in columns]


def classifier_weights(
    counts: Counts,
    features: EncodedFeatures | None,
    prior: LabelPrior,
    log_odds: Array,
    topics: tuple[Sequence[DocumentShard], WordEvidenceModel, EMSettings] | None,
    columns: Sequence[int],
) -> list[WordTable]:
    """One table per class in ``columns``; the weights of a document sum to ``log_odds`` (documents, classes).

    A word contributes through its own coefficient, through its share in the random Fourier features, and through the
    evidence of the topic model, which is a sum over words. A column of the feature table contributes through its
    coefficient and its share in the kernel features; columns are summed by group.
    """
    classifier = prior.classifier
    if not isinstance(classifier, LogisticClassifier):
        reason = "explain needs a label prior that weighs single words, not an external classifier"
        raise ValueError(reason)  # noqa: TRY004 - the parameter is wrong, not a type
    doc = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    word = counts.indices.astype(np.int64)
    slope = classifier.slope * prior.for_words.slope
    weights = np.zeros((counts.nnz, len(columns)))
    if classifier.idf is not None:
        words = tf_idf(counts, classifier.idf)
        weights += words.data[:, None] * classifier.coef[word][:, columns]
        if classifier.fourier is not None:
            weights += classifier.fourier.word_shares(words, classifier.part("fourier")[:, columns])
    if topics is not None and classifier.dense_mean is not None and classifier.dense_spread is not None:
        scale = Scale(classifier.dense_mean, classifier.dense_spread)
        weights += _through_topics(_TopicEvidence.of(*topics), scale, classifier.part("dense")[:, columns])
    if features is not None:
        by_group = _group_weights(features, classifier, columns)  # (documents, groups, columns)
        doc = np.concatenate((doc, np.repeat(np.arange(counts.shape[0]), by_group.shape[1])))
        groups = counts.shape[1] + np.tile(np.arange(by_group.shape[1]), counts.shape[0])
        word = np.concatenate((word, groups))
        weights = np.concatenate((weights, by_group.reshape(-1, len(columns))))
    weights *= slope[columns]
    tables = []
    for position, label in enumerate(columns):
        rest = log_odds[:, label] - np.bincount(doc, weights[:, position], minlength=len(log_odds))
        tables.append(
            WordTable(
                np.concatenate((doc, np.arange(len(log_odds)))),
                np.concatenate((word, np.full(len(log_odds), -1))),
                np.concatenate((weights[:, position], rest)),
            )
        )
    return tables


def _group_weights(features: EncodedFeatures, classifier: LogisticClassifier, columns: Sequence[int]) -> Array:
    """(documents, groups, columns): what each group of feature columns adds to the scores."""
    table = features.standardised()
    weights = table[:, :, None] * classifier.part("columns")[:, columns]
    if classifier.kernel is not None:
        weights += classifier.kernel.column_shares(table, classifier.part("kernel")[:, columns])
    names = list(features.columns.groups)
    groups = list(dict.fromkeys(names))
    membership = np.array([[name == group for name in names] for group in groups], dtype=np.float64)
    by_group: Array = np.einsum("gc,dcl->dgl", membership, weights)
    return by_group


def _through_topics(topics: _TopicEvidence, scale: Scale, coef: Array) -> Array:
    """(entries, columns): what each word adds to the scores through topic evidence that is not clipped."""
    inside = scale.apply(topics.evidence) == (topics.evidence - scale.mean) / scale.spread
    per_nat = coef / scale.spread[:, None]
    total = np.zeros((len(topics.doc), coef.shape[1]))
    for label in np.flatnonzero(np.abs(per_nat).max(axis=1) > 0):
        total += (topics.weights(int(label)) * inside[topics.doc, label])[:, None] * per_nat[label]
    return total
