"""The text classifier: features, logistic regression, calibration, combination with label-set profiles."""

from __future__ import annotations

from palda.models.classifier.calibration import (
    base_log_odds,
    cross_calibrate,
    fit_platt,
    log_likelihoods,
    minority_counts,
)
from palda.models.classifier.combination import (
    Combination,
    CombinationInputs,
    HeldOut,
    HeldOutLabels,
    HeldOutVotes,
    choose_combination,
    choose_for_new_documents,
    choose_share,
    most_likely_combination,
    recalibrate,
    refit_profiles,
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
from palda.models.classifier.label_prior import LabelPrior
from palda.models.classifier.lbfgs import LbfgsLimits
from palda.models.classifier.logistic import (
    ClassifierFit,
    ClassifierSettings,
    LogisticClassifier,
    fit_classifier,
)
from palda.models.classifier.logistic_loss import Coefficients, fit_columns, loss_and_gradient
from palda.models.classifier.update import ClassifierSummary, summarize_classifier, update_classifier

__all__ = [
    "KERNEL_GAMMA",
    "MIN_FOURIER_DOCS",
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
    "HeldOutLabels",
    "HeldOutVotes",
    "LabelPrior",
    "LbfgsLimits",
    "LogisticClassifier",
    "Problems",
    "Scale",
    "assign_folds",
    "base_log_odds",
    "check_classifier",
    "choose_combination",
    "choose_for_new_documents",
    "choose_share",
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
    "log_likelihoods",
    "loss_and_gradient",
    "minority_counts",
    "most_likely_combination",
    "recalibrate",
    "refit_profiles",
    "summarize_classifier",
    "tf_idf",
    "update_classifier",
]
