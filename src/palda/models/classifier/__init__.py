"""The classifier of documents: features, logistic regression, calibration, combination with label-set profiles."""

from __future__ import annotations

from palda.models.classifier.calibration import (
    base_log_odds,
    cross_calibrate,
    fit_platt,
    log_likelihoods,
    minority_counts,
)
from palda.models.classifier.combination import (
    MIN_STANDARD_ERRORS,
    Combination,
    CombinationInputs,
    HeldOut,
    choose_combination,
    choose_share,
    likeliest_combination,
    recalibrated,
    refitted,
)
from palda.models.classifier.external import ExternalClassifier, ExternalFit, check_classifier, fit_external
from palda.models.classifier.features import (
    Features,
    Scale,
    compact,
    cut_blocks,
    inverse_document_frequencies,
    learn_features,
    learn_scale,
    tf_idf,
)
from palda.models.classifier.folds import NO_FOLD, Problems, assign_folds
from palda.models.classifier.fourier import KERNEL_GAMMA, MIN_FOURIER_DOCS, FourierFeatures, fit_fourier_features
from palda.models.classifier.label_prior import LabelPrior, combination_arrays, combination_from_arrays
from palda.models.classifier.lbfgs import LbfgsLimits
from palda.models.classifier.logistic import (
    ClassifierFit,
    ClassifierSettings,
    Coefficients,
    LogisticClassifier,
    fit_classifier,
    fit_columns,
    loss_and_gradient,
)
from palda.models.classifier.update import ClassifierSummary, summarize_classifier, update_classifier

__all__ = [
    "KERNEL_GAMMA",
    "MIN_FOURIER_DOCS",
    "MIN_STANDARD_ERRORS",
    "NO_FOLD",
    "ClassifierFit",
    "ClassifierSettings",
    "ClassifierSummary",
    "Coefficients",
    "Combination",
    "CombinationInputs",
    "ExternalClassifier",
    "ExternalFit",
    "Features",
    "FourierFeatures",
    "HeldOut",
    "LabelPrior",
    "LbfgsLimits",
    "LogisticClassifier",
    "Problems",
    "Scale",
    "assign_folds",
    "base_log_odds",
    "check_classifier",
    "choose_combination",
    "choose_share",
    "combination_arrays",
    "combination_from_arrays",
    "compact",
    "cross_calibrate",
    "cut_blocks",
    "fit_classifier",
    "fit_columns",
    "fit_external",
    "fit_fourier_features",
    "fit_platt",
    "inverse_document_frequencies",
    "learn_features",
    "learn_scale",
    "likeliest_combination",
    "log_likelihoods",
    "loss_and_gradient",
    "minority_counts",
    "recalibrated",
    "refitted",
    "summarize_classifier",
    "tf_idf",
    "update_classifier",
]
