"""Prediction as published: the E-step on the words alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palda.kernels import Bags, Labels, Stopping
from palda.model.e_step import e_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.model.state import Params

    Array = NDArray[np.float64]

__all__ = ["predict_labels", "topics_for_prediction"]


def topics_for_prediction(params: Params) -> Params:
    """Parameters with topics at their posterior mean χ / Σχ, which unseen documents are judged by."""
    return replace(params, word_counts=None, word_prior=None)


def predict_labels(bags: Bags, log_odds: Array, params: Params, stopping: Stopping) -> Array:
    """Δ of documents of whose labels nothing is known but ``log_odds``; a document without known words keeps those."""
    known = np.full(log_odds.shape, -1, dtype=np.int8)
    _, label_probs = e_step(bags, Labels(known, log_odds), topics_for_prediction(params), stopping)
    return label_probs
