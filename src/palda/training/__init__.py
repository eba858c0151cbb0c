"""Fits whole models from topic model, classifier and crowd model."""

from __future__ import annotations

from palda.training.alternating import TrainingPlan, TrainingResult, fit_alternating
from palda.training.base_rate import fit_base_rates, word_probs
from palda.training.incremental import (
    Batch,
    ModelState,
    PastSummary,
    RevisitedDocuments,
    UpdateResult,
    summarize_past,
    update_model,
)
from palda.training.prior_scores import classifier_evidence, prior_log_odds

__all__ = [
    "Batch",
    "ModelState",
    "PastSummary",
    "RevisitedDocuments",
    "TrainingPlan",
    "TrainingResult",
    "UpdateResult",
    "classifier_evidence",
    "fit_alternating",
    "fit_base_rates",
    "prior_log_odds",
    "summarize_past",
    "update_model",
    "word_probs",
]
