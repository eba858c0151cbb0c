"""Prediction as published: the E-step on the words alone, with topics at their posterior mean."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palda.model.state import Params

__all__ = ["for_prediction"]


def for_prediction(params: Params) -> Params:
    """Parameters that new documents are judged by: χ / Σχ in place of q(β) (maths, eq. 25), and nobody's votes."""
    return replace(params, word_counts=None, word_prior=None, annotator_rates=None)
