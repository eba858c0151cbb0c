"""Measures of labels, probabilities and annotator qualities, and of the agreement within a crowd.

Labels have shape (documents, classes) with 1, 0, and -1 or NaN for unknown; unknown cells are left out. Arrays may be
dense, sparse or boolean; a 1-D array is one class. A measure that cannot be computed is NaN.
"""

from __future__ import annotations

from palda.metrics.agreement import SetAgreement, krippendorff_alpha, label_set_alpha
from palda.metrics.annotators import AnnotatorPairs, annotator_pairs, annotator_rmse, oracle_quality, oracle_rmse
from palda.metrics.calibration import (
    CalibrationCurve,
    calibration_curve,
    class_log_likelihood,
    expected_calibration_error,
)
from palda.metrics.labels import hamming_accuracy, jaccard_accuracy, macro_f1, micro_f1, subset_accuracy
from palda.metrics.summary import (
    ClassScores,
    LabelScores,
    apply_thresholds,
    base_rates,
    baseline_scores,
    majority_baseline,
    nothing_baseline,
    per_class,
    scores,
)
from palda.metrics.thresholds import Measure, choose_thresholds, expected_measure

__all__ = [
    "AnnotatorPairs",
    "CalibrationCurve",
    "ClassScores",
    "LabelScores",
    "Measure",
    "SetAgreement",
    "annotator_pairs",
    "annotator_rmse",
    "apply_thresholds",
    "base_rates",
    "baseline_scores",
    "calibration_curve",
    "choose_thresholds",
    "class_log_likelihood",
    "expected_calibration_error",
    "expected_measure",
    "hamming_accuracy",
    "jaccard_accuracy",
    "krippendorff_alpha",
    "label_set_alpha",
    "macro_f1",
    "majority_baseline",
    "micro_f1",
    "nothing_baseline",
    "oracle_quality",
    "oracle_rmse",
    "per_class",
    "scores",
    "subset_accuracy",
]
