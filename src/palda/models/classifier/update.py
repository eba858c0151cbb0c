"""A head that goes on with documents that arrive later, without those it has seen.

New documents stand in for earlier ones: besides its own label, each is taught what the head says about it already, with
the weight of the documents seen before (maths, eq. 60). Around the old coefficients that is their loss to second order,
its curvature being taken from documents like them: a natural-gradient step. (A diagonal curvature that is remembered
word by word forgets: on held-back training documents of Reuters, five batches ended at the micro-F1 of one.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from scipy.special import expit

from palda.models.classifier.calibration import Platt, fit_platt
from palda.models.classifier.features import Features, Scale, cut_blocks, fourier_rows, tf_idf
from palda.models.classifier.folds import NO_FOLD, Problems, checked_targets
from palda.models.classifier.logistic import LbfgsLimits, LogisticClassifier, fit_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.engine import Engine
    from palda.models.classifier.features import Block

    Array = NDArray[np.float64]

_RECENT = 1000.0  # documents that the recalibration remembers

__all__ = ["ClassifierSummary", "summarize_classifier", "update_classifier"]


@dataclass(frozen=True, eq=False)
class ClassifierSummary:
    """What a head keeps of the documents that it has seen."""

    positives: Array  # (classes,): expected number of documents that have the class
    n_spoken: Array  # (classes,): documents that speak of the class at all
    n_docs: int


def summarize_classifier(targets: Any, weights: Any) -> ClassifierSummary:
    """Memory of the documents that a head was fitted to."""
    labels, known = checked_targets(targets, weights)
    nothing = np.zeros(labels.shape[1])
    return _grown(ClassifierSummary(nothing, nothing, 0), labels, np.ones_like(labels) if known is None else known)


def update_classifier(
    head: LogisticClassifier,
    memory: ClassifierSummary,
    counts: Any,
    dense: Any,
    targets: Any,
    weights: Any,
    engine: Engine,
) -> tuple[LogisticClassifier, ClassifierSummary]:
    """Classifier and summary after one more batch of documents; targets and weights as in ``fit_classifier``.

    Penalties and the scale of dense columns are kept. The recalibration follows the scores of documents before
    they are learned from. Document frequencies of words are counted on, so that words that nobody had used begin to
    count.
    """
    labels, known = checked_targets(targets, weights)
    if head.idf is not None:
        head = _with_frequencies(head, memory, sparse.csr_array(counts))
    before = np.vstack((head.coef, head.intercept))
    own = np.ones_like(labels) if known is None else known
    scores = np.concatenate([block.scores(before) for block in _blocks(head, counts, dense, labels, own)])
    platt = _recalibrated(head, memory, scores, labels, own)
    targets, weights = _with_the_past(labels, own, expit(scores), memory.n_spoken)
    coef = fit_columns(
        _blocks(head, counts, dense, targets, weights),
        Problems(np.arange(labels.shape[1]), np.full(labels.shape[1], NO_FOLD)),
        _ridge(head),
        before,
        engine,
        LbfgsLimits(),
        centre=before,
    )
    memory = _grown(memory, labels, own)
    return (
        replace(
            head,
            coef=coef[:-1],
            intercept=coef[-1],
            slope=platt.slope,
            offset=platt.offset,
            limit=platt.limit,
            base_rates=expit(_base_log_odds(memory)),
        ),
        memory,
    )


def _with_the_past(labels: Array, own: Array, said: Array, n_past: Array) -> tuple[Array, Array]:
    """Targets and weights of new documents that speak for ``n_past`` earlier ones as well, as ``said`` of them."""
    past = n_past / max(len(labels), 1)
    weights = own + past
    targets = (own * labels + past * said) / np.where(weights > 0, weights, 1.0)
    return targets, weights


def _ridge(head: LogisticClassifier) -> Array:
    """(features + 1, classes): penalties, and none on the intercepts."""
    rows = (head.n_words, head.n_dense, len(head.coef) - head.n_words - head.n_dense, 1)
    return np.repeat(np.vstack([head.penalties, np.zeros(head.coef.shape[1])]), rows, axis=0)


def _grown(memory: ClassifierSummary, labels: Array, weights: Array) -> ClassifierSummary:
    return ClassifierSummary(
        memory.positives + np.sum(weights * labels, axis=0),
        memory.n_spoken + weights.sum(axis=0),
        memory.n_docs + len(labels),
    )


def _base_log_odds(memory: ClassifierSummary) -> Array:
    log_odds: Array = np.log(memory.positives + 0.5) - np.log(memory.n_spoken - memory.positives + 0.5)
    return log_odds


def _blocks(head: LogisticClassifier, counts: Any, dense: Any, labels: Array, known: Array | None) -> list[Block]:
    words = None if head.idf is None else tf_idf(sparse.csr_array(counts), head.idf)
    columns = scale = None
    if head.dense_mean is not None and head.dense_spread is not None:
        columns, scale = np.asarray(dense, dtype=np.float64), Scale(head.dense_mean, head.dense_spread)
    fourier_values = None if head.idf is None else fourier_rows(sparse.csr_array(counts), head.idf, head.fourier)
    features = Features(words, head.idf, columns, scale, head.fourier, fourier_values)
    return cast("list[Block]", cut_blocks(features, labels, known, np.zeros(len(labels), dtype=np.int64))[0])


def _with_frequencies(head: LogisticClassifier, memory: ClassifierSummary, counts: Any) -> LogisticClassifier:
    """Document frequencies of all documents so far; coefficients keep what a word says, on its new scale."""
    old = np.asarray(head.idf)
    n_had = np.where(old > 0, (1.0 + memory.n_docs) * np.exp(1.0 - old) - 1.0, 0.0)
    n_had = n_had + np.bincount(counts.indices[counts.data > 0], minlength=len(old))
    n_docs = memory.n_docs + counts.shape[0]
    idf = np.where(n_had > 0.5, 1.0 + np.log((1.0 + n_docs) / (1.0 + n_had)), 0.0)
    ratio = np.divide(old, idf, out=np.ones_like(old), where=(idf > 0) & (old > 0))
    scale = np.append(ratio, np.ones(len(head.coef) - len(ratio)))
    fourier = None if head.fourier is None else head.fourier.rescaled(ratio)
    return replace(head, idf=idf, coef=head.coef * scale[:, None], fourier=fourier)


def _recalibrated(
    head: LogisticClassifier, memory: ClassifierSummary, scores: Array, labels: Array, own: Array
) -> Platt:
    """Recalibration of scores that the head gave new documents before it learned from them.

    Of the past it keeps what the last documents said: a head that has seen more needs another slope than it did.
    """
    before = Platt(head.slope, head.offset, head.limit)
    said = expit(before.apply(scores))
    targets, weights = _with_the_past(labels, own, said, np.minimum(memory.n_spoken, _RECENT))
    platt = fit_platt(scores, targets, weights)
    n_docs = float((memory.n_spoken + own.sum(axis=0)).max(initial=0.0))
    return replace(platt, limit=float(np.log(2.0 * n_docs + 1.0)))
