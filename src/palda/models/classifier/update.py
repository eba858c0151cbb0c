"""Updates a classifier with later documents, without the documents it was trained on.

New documents stand in for the earlier ones: besides its own label, each is trained on the classifier's own prediction,
with the weight of the earlier documents (maths, eq. 60). Around the old coefficients this is the loss of the earlier
documents to second order, with the curvature of the new ones: a natural-gradient step. (A stored diagonal curvature per
word forgets: on held-out training documents of Reuters, five batches ended at the micro-F1 of one.)
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
from palda.models.classifier.kernel_features import kernel_rows
from palda.models.classifier.lbfgs import LbfgsLimits
from palda.models.classifier.logistic_loss import fit_columns

if TYPE_CHECKING:
    from palda.data import Array, EncodedFeatures
    from palda.engine import Engine
    from palda.models.classifier.features import Block
    from palda.models.classifier.logistic import LogisticClassifier

_MAX_RECALIBRATION_DOCS = 1000.0  # weight of the earlier documents in the recalibration


@dataclass(frozen=True, eq=False)
class ClassifierSummary:
    """What is kept of the documents that a classifier was trained on."""

    positives: Array  # (classes,): expected number of documents with the class
    n_labelled: Array  # (classes,): number of documents whose label is known or has votes
    n_docs: int


def summarize_classifier(targets: Any, weights: Any) -> ClassifierSummary:
    """Summary of the training documents of a classifier."""
    labels, known = checked_targets(targets, weights)
    zeros = np.zeros(labels.shape[1])
    return _add_documents(ClassifierSummary(zeros, zeros, 0), labels, np.ones_like(labels) if known is None else known)


def update_classifier(
    classifier: LogisticClassifier,
    summary: ClassifierSummary,
    counts: Any,
    dense: Any,
    targets: Any,
    weights: Any,
    engine: Engine,
    columns: EncodedFeatures | None = None,
) -> tuple[LogisticClassifier, ClassifierSummary]:
    """Classifier and summary after one more batch of documents; targets and weights as in ``fit_classifier``.

    Penalties and the scale of dense columns are kept. The recalibration is fitted to scores of the documents before
    they are trained on. Document frequencies are updated, so that words without earlier documents get a weight.
    """
    labels, known = checked_targets(targets, weights)
    if classifier.idf is not None:
        classifier = _with_frequencies(classifier, summary, sparse.csr_array(counts))
    before = np.vstack((classifier.coef, classifier.intercept))
    own = np.ones_like(labels) if known is None else known
    limits = LbfgsLimits()
    features = _features(classifier, counts, dense, columns, limits.dtype)
    scores = np.concatenate([block.scores(before) for block in _blocks(features, labels, own)])
    platt = _recalibrate(classifier, summary, scores, labels, own)
    targets, weights = _with_earlier_documents(labels, own, expit(scores), summary.n_labelled)
    coef = fit_columns(
        _blocks(features, targets, weights),
        Problems(np.arange(labels.shape[1]), np.full(labels.shape[1], NO_FOLD)),
        _ridge(classifier),
        before,
        engine,
        limits,
        centre=before,
    )
    summary = _add_documents(summary, labels, own)
    return (
        replace(
            classifier,
            coef=coef[:-1],
            intercept=coef[-1],
            slope=platt.slope,
            offset=platt.offset,
            limit=platt.limit,
            base_rates=expit(_base_log_odds(summary)),
        ),
        summary,
    )


def _with_earlier_documents(labels: Array, own: Array, predicted: Array, n_earlier: Array) -> tuple[Array, Array]:
    """Targets and weights of new documents that also stand in for ``n_earlier`` ones with ``predicted`` labels."""
    extra = n_earlier / max(len(labels), 1)
    weights = own + extra
    targets = (own * labels + extra * predicted) / np.where(weights > 0, weights, 1.0)
    return targets, weights


def _ridge(classifier: LogisticClassifier) -> Array:
    """(features + 1, classes): penalties, 0 for the intercepts."""
    sizes = (classifier.n_words, classifier.n_dense, classifier.n_fourier, classifier.n_columns, classifier.n_kernel)
    rows = (*sizes[: len(classifier.penalties)], 1)
    return np.repeat(np.vstack([classifier.penalties, np.zeros(classifier.coef.shape[1])]), rows, axis=0)


def _add_documents(summary: ClassifierSummary, labels: Array, weights: Array) -> ClassifierSummary:
    return ClassifierSummary(
        summary.positives + np.sum(weights * labels, axis=0),
        summary.n_labelled + weights.sum(axis=0),
        summary.n_docs + len(labels),
    )


def _base_log_odds(summary: ClassifierSummary) -> Array:
    log_odds: Array = np.log(summary.positives + 0.5) - np.log(summary.n_labelled - summary.positives + 0.5)
    return log_odds


def _features(
    classifier: LogisticClassifier, counts: Any, dense: Any, columns: EncodedFeatures | None, dtype: Any
) -> Features:
    """Features of new documents, as the classifier was trained on."""
    features = Features(None, None, None, None, dtype=dtype)
    if classifier.idf is not None:
        rows = sparse.csr_array(counts)
        values = fourier_rows(rows, classifier.idf, classifier.fourier, dtype)
        words = tf_idf(rows, classifier.idf, dtype)
        features = Features(words, classifier.idf, None, None, classifier.fourier, values, dtype)
    if columns is not None:
        values_of_kernel = kernel_rows(columns, classifier.kernel, dtype)
        features = replace(features, columns=columns, kernel=classifier.kernel, kernel_values=values_of_kernel)
    if classifier.dense_mean is None or classifier.dense_spread is None:
        return features
    scale = Scale(classifier.dense_mean, classifier.dense_spread)
    return replace(features, dense=np.asarray(dense, dtype=np.float64), scale=scale)


def _blocks(features: Features, labels: Array, known: Array) -> list[Block]:
    return cast("list[Block]", cut_blocks(features, labels, known, np.zeros(len(labels), dtype=np.int64))[0])


def _with_frequencies(classifier: LogisticClassifier, summary: ClassifierSummary, counts: Any) -> LogisticClassifier:
    """The classifier with updated document frequencies; rescaled coefficients keep its scores."""
    old = np.asarray(classifier.idf)
    doc_counts = np.where(old > 0, (1.0 + summary.n_docs) * np.exp(1.0 - old) - 1.0, 0.0)
    doc_counts = doc_counts + np.bincount(counts.indices[counts.data > 0], minlength=len(old))
    n_docs = summary.n_docs + counts.shape[0]
    idf = np.where(doc_counts > 0.5, 1.0 + np.log((1.0 + n_docs) / (1.0 + doc_counts)), 0.0)
    ratio = np.divide(old, idf, out=np.ones_like(old), where=(idf > 0) & (old > 0))
    scale = np.append(ratio, np.ones(len(classifier.coef) - len(ratio)))
    fourier = None if classifier.fourier is None else classifier.fourier.rescaled(ratio)
    return replace(classifier, idf=idf, coef=classifier.coef * scale[:, None], fourier=fourier)


def _recalibrate(
    classifier: LogisticClassifier, summary: ClassifierSummary, scores: Array, labels: Array, own: Array
) -> Platt:
    """Recalibration on scores of new documents before they are trained on.

    The earlier recalibration counts as at most ``_MAX_RECALIBRATION_DOCS`` documents, because a classifier that was
    trained on more documents needs another slope.
    """
    before = Platt(classifier.slope, classifier.offset, classifier.limit)
    predicted = expit(before.apply(scores))
    targets, weights = _with_earlier_documents(
        labels, own, predicted, np.minimum(summary.n_labelled, _MAX_RECALIBRATION_DOCS)
    )
    platt = fit_platt(scores, targets, weights)
    n_docs = float((summary.n_labelled + own.sum(axis=0)).max(initial=0.0))
    return replace(platt, limit=float(np.log(2.0 * n_docs + 1.0)))
