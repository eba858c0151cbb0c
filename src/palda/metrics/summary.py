"""All measures of labels at once, and the scores of constant predictions for comparison."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation
from palda.errors import DataError
from palda.metrics.calibration import EPS, N_BINS, cell_log_likelihoods, curve_of
from palda.metrics.inputs import mean_of_known, prediction_table, probability_table, ratio, truth_table
from palda.metrics.labels import LabelCounts, jaccard_of, subset_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.inputs import Floats, Labels


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Measures of each class, arrays of shape (classes,); NaN for a class whose truth is never known.

    Measures with a zero denominator have the value of ``zero_division``: ``precision`` of a class that is never
    predicted, ``recall`` of one that is never present, ``f1`` of one that is neither.
    """

    accuracy: Floats
    precision: Floats
    recall: Floats
    f1: Floats
    log_likelihood: Floats
    calibration_error: Floats
    prevalence: Floats
    n_known: NDArray[np.int64]

    def as_dict(self) -> dict[str, NDArray[Any]]:
        """Columns of a table with one row per class."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}


@dataclass(frozen=True, eq=False)
class LabelScores:
    """All measures of one method on one set of documents, overall and by class.

    Higher is better, except for ``calibration_error``. ``log_likelihood`` and ``calibration_error`` are NaN without
    probabilities. ``n_docs`` is the number of documents with a known cell, ``n_known`` the number of known cells.
    """

    hamming_accuracy: float
    jaccard_accuracy: float
    micro_f1: float
    macro_f1: float
    subset_accuracy: float
    log_likelihood: float
    calibration_error: float
    n_docs: int
    n_known: int
    by_class: ClassScores

    def as_dict(self) -> dict[str, float]:
        """The overall measures by name."""
        not_measures = {"n_docs", "n_known", "by_class"}
        return {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name not in not_measures}


def scores(
    Y_true: Any,
    probs: Any = None,
    predictions: Any = None,
    thresholds: Any = 0.5,
    *,
    eps: float = EPS,
    n_bins: int = N_BINS,
    zero_division: float = 0.0,
) -> LabelScores:
    """All measures at once, overall and for each class.

    Parameters
    ----------
    Y_true : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.
    probs : array of shape (documents, classes), optional
        Probabilities of presence; without them, log-likelihood and calibration are NaN.
    predictions : array of shape (documents, classes), optional
        Predicted labels; by default 1 where ``probs`` reach ``thresholds``.
    thresholds : float or array of shape (classes,), default 0.5
        Thresholds of the probabilities.
    eps, n_bins
        As in :func:`class_log_likelihood` and :func:`calibration_curve`.
    zero_division : float, default 0
        Value of measures with a zero denominator.

    Returns
    -------
    LabelScores
        The measures.

    Examples
    --------
    >>> from palda import metrics
    >>> scores = metrics.scores([[1, 0], [1, 1]], [[0.9, 0.2], [0.4, 0.8]])
    >>> scores.micro_f1, scores.hamming_accuracy, scores.by_class.recall
    (0.8, 0.75, array([0.5, 1. ]))
    """
    truth, table, predicted = _tables(Y_true, probs, predictions, thresholds)
    counts = LabelCounts.of(truth, predicted)
    return LabelScores(
        hamming_accuracy=counts.hamming_accuracy(),
        jaccard_accuracy=jaccard_of(truth, predicted),
        micro_f1=counts.micro_f1(zero_division),
        macro_f1=counts.macro_f1(zero_division),
        subset_accuracy=subset_of(truth, predicted),
        log_likelihood=float("nan") if table is None else mean_of_known(cell_log_likelihoods(truth, table, eps)),
        calibration_error=float("nan") if table is None else curve_of(truth, table, n_bins).expected_error,
        n_docs=int(np.count_nonzero((truth >= 0).any(axis=1))),
        n_known=int(counts.known.sum()),
        by_class=_class_scores(truth, table, counts, eps, n_bins, zero_division),
    )


def per_class(
    Y_true: Any,
    probs: Any = None,
    predictions: Any = None,
    thresholds: Any = 0.5,
    *,
    eps: float = EPS,
    n_bins: int = N_BINS,
    zero_division: float = 0.0,
) -> ClassScores:
    """Measures of each class.

    Parameters
    ----------
    Y_true, probs, predictions, thresholds, eps, n_bins, zero_division
        As in :func:`scores`.

    Returns
    -------
    ClassScores
        The measures, arrays of shape (classes,).

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.per_class([[1, 0], [1, 1]], predictions=[[1, 0], [0, 1]]).f1.round(3)
    array([0.667, 1.   ])
    """
    truth, table, predicted = _tables(Y_true, probs, predictions, thresholds)
    return _class_scores(truth, table, LabelCounts.of(truth, predicted), eps, n_bins, zero_division)


def apply_thresholds(probs: Any, thresholds: Any = 0.5) -> Labels:
    """Predicted labels: 1 where the probability is at least the threshold.

    Parameters
    ----------
    probs : array of shape (documents, classes)
        Probabilities of presence.
    thresholds : float or array of shape (classes,), default 0.5
        One threshold, or one per class.

    Returns
    -------
    array of shape (documents, classes)
        0 or 1.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.apply_thresholds([[0.5, 0.4]], [0.6, 0.3])
    array([[0, 1]], dtype=int8)
    """
    table = probability_table(probs)
    cuts = validation.as_floats(thresholds, "thresholds")
    if cuts.shape not in ((), (table.shape[1],)) or np.isnan(cuts).any():
        raise DataError(f"thresholds must be one number, or {table.shape[1]} numbers (one per class), without NaN")
    return (table >= cuts).astype(np.int8)


def base_rates(Y: Any) -> Floats:
    """Share of the documents with known truth that have each class.

    Parameters
    ----------
    Y : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.

    Returns
    -------
    array of shape (classes,)
        The shares; NaN for a class whose truth is never known.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.base_rates([[1, 0], [0, -1]])
    array([0.5, 0. ])
    """
    truth = truth_table(Y, "Y")
    return ratio(np.count_nonzero(truth == 1, axis=0), np.count_nonzero(truth >= 0, axis=0))


def nothing_baseline(n_docs: int, n_classes: int) -> Labels:
    """Predictions without any label; their Hamming accuracy is what a data set gives for free.

    Parameters
    ----------
    n_docs, n_classes : int
        Shape of the predictions.

    Returns
    -------
    array of shape (documents, classes)
        Zeros.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.nothing_baseline(1, 2)
    array([[0, 0]], dtype=int8)
    """
    return np.zeros((n_docs, n_classes), dtype=np.int8)


def majority_baseline(Y_train: Any, n_docs: int) -> Labels:
    """Predictions of the more frequent value of each class in training; 0 for ties and unknown classes.

    Parameters
    ----------
    Y_train : array of shape (training documents, classes)
        Training labels: 1, 0, or -1 or NaN for unknown.
    n_docs : int
        Number of documents to predict.

    Returns
    -------
    array of shape (documents, classes)
        Equal rows of 0 and 1.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.majority_baseline([[1, 0], [1, 1]], 1)
    array([[1, 0]], dtype=int8)
    """
    return np.tile((base_rates(Y_train) > 0.5).astype(np.int8), (n_docs, 1))


def baseline_scores(Y_train: Any, Y_true: Any, **options: Any) -> dict[str, LabelScores]:
    """Scores of the predictions of :func:`nothing_baseline` and :func:`majority_baseline`, for comparison.

    Both use the training base rates as probabilities (½ for a class without training labels), which give the best
    log-likelihood without reading a document.

    Parameters
    ----------
    Y_train : array of shape (training documents, classes)
        Training labels: 1, 0, or -1 or NaN for unknown.
    Y_true : array of shape (documents, classes)
        True labels of the test documents.
    **options
        Options of :func:`scores`.

    Returns
    -------
    dict of str to LabelScores
        Scores of ``"nothing"`` and ``"majority"``.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.baseline_scores([[1, 0], [1, 0]], [[1, 0], [0, 0]])["nothing"].hamming_accuracy
    0.75
    """
    truth = truth_table(Y_true)
    rates = base_rates(Y_train)
    if len(rates) != truth.shape[1]:
        raise DataError(f"Y_train has {len(rates)} classes, Y_true has {truth.shape[1]}")
    probs = np.tile(np.where(np.isnan(rates), 0.5, rates), (len(truth), 1))
    return {
        "nothing": scores(truth, probs, nothing_baseline(*truth.shape), **options),
        "majority": scores(truth, probs, majority_baseline(Y_train, len(truth)), **options),
    }


def _tables(Y_true: Any, probs: Any, predictions: Any, thresholds: Any) -> tuple[Labels, Floats | None, Labels]:
    truth = truth_table(Y_true)
    table = None if probs is None else probability_table(probs, truth.shape)
    if predictions is not None:
        return truth, table, prediction_table(predictions, truth.shape)
    if table is None:
        raise DataError("give probs, predictions, or both")
    return truth, table, apply_thresholds(table, thresholds)


def _class_scores(
    truth: Labels, probs: Floats | None, counts: LabelCounts, eps: float, n_bins: int, zero_division: float
) -> ClassScores:
    n_classes = truth.shape[1]
    log_likelihood = calibration_error = np.full(n_classes, np.nan)
    if probs is not None:
        cells = np.nan_to_num(cell_log_likelihoods(truth, probs, eps))
        log_likelihood = ratio(cells.sum(axis=0), counts.known)
        calibration_error = np.array(
            [curve_of(truth[:, i], probs[:, i], n_bins).expected_error for i in range(n_classes)], dtype=np.float64
        )
    known = counts.known > 0
    return ClassScores(
        accuracy=ratio(counts.right, counts.known),
        precision=np.where(known, ratio(counts.hits, counts.predicted, zero_division), np.nan),
        recall=np.where(known, ratio(counts.hits, counts.present, zero_division), np.nan),
        f1=counts.f1(zero_division),
        log_likelihood=log_likelihood,
        calibration_error=calibration_error,
        prevalence=ratio(counts.present, counts.known),
        n_known=counts.known,
    )
