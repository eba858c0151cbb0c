"""All measures of labels at once, and the two rows that every table of results needs for comparison."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.errors import DataError
from palda.metrics import labels
from palda.metrics.calibration import EPS, N_BINS, cell_log_likelihoods, curve_of
from palda.metrics.tables import mean_of_known, number_list, prediction_table, probability_table, ratio, truth_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.tables import Floats, Labels

__all__ = [
    "ClassScores",
    "LabelScores",
    "apply_thresholds",
    "base_rates",
    "baseline_scores",
    "majority_baseline",
    "nothing_baseline",
    "per_class",
    "scores",
]


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Measures of each class, over the documents where its truth is known; NaN for a class known nowhere.

    ``precision`` of a class never predicted, ``recall`` of one never present and ``f1`` of one that is neither are the
    ``zero_division`` asked for.
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
        """Columns of a table with one row a class."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Every measure of one method on one set of documents.

    Higher is better, except for ``calibration_error``. ``log_likelihood`` and ``calibration_error`` are NaN for a
    method that gives no probabilities.
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
        """Row of a table: the overall measures under their names."""
        left_out = {"n_docs", "n_known", "by_class"}
        return {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name not in left_out}


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

    Without ``predictions``, a class is predicted where its probability reaches its threshold. Without ``probs``,
    the measures of probabilities are NaN. ``n_docs`` counts the documents with a known cell, ``n_known`` those cells.
    """
    truth, given, predicted = _tables(Y_true, probs, predictions, thresholds)
    counts = labels.count_classes(truth, predicted)
    return LabelScores(
        hamming_accuracy=labels.hamming_of(counts),
        jaccard_accuracy=labels.jaccard_of(truth, predicted),
        micro_f1=labels.micro_f1_of(counts, zero_division),
        macro_f1=labels.macro_f1_of(counts, zero_division),
        subset_accuracy=labels.subset_of(truth, predicted),
        log_likelihood=float("nan") if given is None else mean_of_known(cell_log_likelihoods(truth, given, eps)),
        calibration_error=float("nan") if given is None else curve_of(truth, given, n_bins).expected_error,
        n_docs=int(np.count_nonzero((truth >= 0).any(axis=1))),
        n_known=int(counts.known.sum()),
        by_class=_class_scores(truth, given, counts, eps, n_bins, zero_division),
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
    """Measures of each class; arguments as for ``scores``."""
    truth, given, predicted = _tables(Y_true, probs, predictions, thresholds)
    return _class_scores(truth, given, labels.count_classes(truth, predicted), eps, n_bins, zero_division)


def apply_thresholds(probs: Any, thresholds: Any = 0.5) -> Labels:
    """Predict 1 where the probability reaches the threshold: one number, or one for each class."""
    given = probability_table(probs)
    cuts = number_list(thresholds, "thresholds")
    if cuts.shape not in ((), (given.shape[1],)) or np.isnan(cuts).any():
        raise DataError(f"thresholds need one number, or {given.shape[1]} of them (one a class), none of them NaN")
    return (given >= cuts).astype(np.int8)


def base_rates(Y: Any) -> Floats:
    """Share of documents that have each class, where that is known; NaN for a class known nowhere."""
    truth = truth_table(Y, "Y")
    return ratio(np.count_nonzero(truth == 1, axis=0), np.count_nonzero(truth >= 0, axis=0))


def nothing_baseline(n_docs: int, n_classes: int) -> Labels:
    """Predict no label at all: the row that shows what Hamming accuracy is worth on a data set."""
    return np.zeros((n_docs, n_classes), dtype=np.int8)


def majority_baseline(Y_train: Any, n_docs: int) -> Labels:
    """Predict for every document each class's more frequent value in training; ties and unknown classes are absent."""
    return np.tile((base_rates(Y_train) > 0.5).astype(np.int8), (n_docs, 1))


def baseline_scores(Y_train: Any, Y_true: Any, **options: Any) -> dict[str, LabelScores]:
    """Scores of the rows ``"nothing"`` and ``"majority"``, to be printed in every table of results.

    Both carry the training base rates as probabilities (½ for a class that training says nothing about): the best
    log-likelihood to be had without looking at a document. ``options`` as for ``scores``.
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
    given = None if probs is None else probability_table(probs, truth.shape)
    if predictions is not None:
        return truth, given, prediction_table(predictions, truth.shape)
    if given is None:
        raise DataError("give probs, predictions, or both; there is nothing to score")
    return truth, given, apply_thresholds(given, thresholds)


def _class_scores(
    truth: Labels, given: Floats | None, counts: labels.ClassCounts, eps: float, n_bins: int, zero_division: float
) -> ClassScores:
    n_classes = truth.shape[1]
    log_likelihood = calibration_error = np.full(n_classes, np.nan)
    if given is not None:
        cells = np.nan_to_num(cell_log_likelihoods(truth, given, eps))
        log_likelihood = ratio(cells.sum(axis=0), counts.known)
        calibration_error = np.array(
            [curve_of(truth[:, i], given[:, i], n_bins).expected_error for i in range(n_classes)], dtype=np.float64
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
