"""Fits whole models from topic model, classifier and crowd model."""

from __future__ import annotations

from palda.training.alternating import TrainingPlan, TrainingResult, compare_with_gold, fit_alternating
from palda.training.base_rate import fit_base_rates, fit_votes_alone, word_probs
from palda.training.incremental import (
    PAST_ARRAYS,
    Batch,
    ModelState,
    PastSummary,
    UpdateResult,
    summarize_past,
    update_model,
)

__all__ = [
    "PAST_ARRAYS",
    "Batch",
    "ModelState",
    "PastSummary",
    "TrainingPlan",
    "TrainingResult",
    "UpdateResult",
    "compare_with_gold",
    "fit_alternating",
    "fit_base_rates",
    "fit_votes_alone",
    "summarize_past",
    "update_model",
    "word_probs",
]
