"""What a fixed number of votes per document would have brought, from votes drawn under the model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.models.crowd import profile_e_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.assignment.gain import Rates
    from palda.models.crowd import Profiles

_MAX_DOCS = 1000  # that are drawn
MAX_OVERLAP = 20
"""Votes per document that are tried."""


def fixed_overlap_errors(
    label_probs: Array,
    evidence: NDArray[np.floating[Any]],
    known: NDArray[np.int8],
    profiles: Profiles,
    rates: Rates,
    weights: Array,
    enough: float,
    seed: int = 0,
) -> Array:
    """Expected wrong labels per document after 0, 1, 2, ... votes of random annotators on every document.

    Labels are drawn from ``label_probs``, votes from the rates, annotators in proportion to ``weights``. The list ends
    with the first number that is at most ``enough``, or with ``MAX_OVERLAP`` votes.
    """
    rng = np.random.default_rng(seed)
    docs = np.sort(rng.choice(len(label_probs), min(len(label_probs), _MAX_DOCS), replace=False))
    labels = rng.random((len(docs), label_probs.shape[1])) < label_probs[docs]
    log_odds, known = evidence[docs].astype(np.float64), known[docs]
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1.0 / len(weights))
    errors: list[float] = []
    while True:
        probs = profile_e_step(log_odds, known, profiles).label_probs
        errors.append(float(np.minimum(probs, 1.0 - probs).sum()) / max(len(docs), 1))
        if errors[-1] <= enough or len(errors) > MAX_OVERLAP:
            return np.array(errors)
        who = rng.choice(len(weights), len(docs), p=weights)
        sensitivity, specificity = rates.sensitivity[who], rates.specificity[who]
        yes = rng.random(labels.shape) < np.where(labels, sensitivity, 1.0 - specificity)
        log_odds = log_odds + np.where(
            yes, np.log(sensitivity / (1.0 - specificity)), np.log((1.0 - sensitivity) / specificity)
        )


def votes_needed(errors: Array, enough: float) -> float:
    """Number of votes per document at which the errors are ``enough``, between whole numbers; inf if never."""
    if errors[-1] > enough:
        return float("inf")
    last = len(errors) - 1
    if last == 0:
        return 0.0
    before, after = np.log(np.maximum(errors[last - 1 :], 1e-12))
    return last - 1 + float((before - np.log(max(enough, 1e-12))) / max(before - after, 1e-12))
