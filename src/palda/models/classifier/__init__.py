"""The text classifier: features, logistic regression, calibration, combination with label-set profiles."""

from __future__ import annotations

from palda.models.classifier.calibration import base_log_odds, fit_platt, log_likelihoods
from palda.models.classifier.combination import (
    COMBINATION_ARRAYS,
    Combination,
    CombinationInputs,
    HeldOut,
    choose_combination,
    choose_for_new_documents,
)
from palda.models.classifier.external import (
    EXTERNAL_ARRAYS,
    ExternalClassifier,
    ExternalFit,
    check_classifier,
    fit_external,
)
from palda.models.classifier.external_input import check_column_names, external_input, takes_named_columns
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
from palda.models.classifier.label_prior import LabelPrior
from palda.models.classifier.lbfgs import LbfgsLimits
from palda.models.classifier.logistic import (
    CLASSIFIER_ARRAYS,
    EVIDENCE_SOURCES,
    ClassifierFit,
    CrossFit,
    LogisticClassifier,
    cross_fit_classifier,
    evidence_shares,
    fit_classifier,
    fit_final_classifier,
)
from palda.models.classifier.logistic_loss import fit_columns
from palda.models.classifier.training_set import ClassifierSettings
from palda.models.classifier.update import ClassifierSummary, summarize_classifier, update_classifier
from palda.models.classifier.vote_share import VOTE_SHARE_ARRAYS, VoteNumbers, VoteShares

__all__ = [
    "CLASSIFIER_ARRAYS",
    "COMBINATION_ARRAYS",
    "EVIDENCE_SOURCES",
    "EXTERNAL_ARRAYS",
    "NO_FOLD",
    "VOTE_SHARE_ARRAYS",
    "ClassifierFit",
    "ClassifierSettings",
    "ClassifierSummary",
    "Combination",
    "CombinationInputs",
    "CrossFit",
    "ExternalClassifier",
    "ExternalFit",
    "Features",
    "HeldOut",
    "LabelPrior",
    "LbfgsLimits",
    "LogisticClassifier",
    "Problems",
    "Scale",
    "VoteNumbers",
    "VoteShares",
    "assign_folds",
    "base_log_odds",
    "check_classifier",
    "check_column_names",
    "choose_combination",
    "choose_for_new_documents",
    "compact",
    "cross_fit_classifier",
    "cut_blocks",
    "evidence_shares",
    "external_input",
    "fit_classifier",
    "fit_columns",
    "fit_external",
    "fit_final_classifier",
    "fit_platt",
    "inverse_document_frequencies",
    "learn_features",
    "learn_scale",
    "log_likelihoods",
    "summarize_classifier",
    "takes_named_columns",
    "tf_idf",
    "update_classifier",
]
