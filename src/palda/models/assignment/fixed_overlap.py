"""What a fixed number of votes per document would have brought, from votes drawn under the model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_expit

from palda.models.crowd import SupportBelief, profile_e_step
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    annotators: Rates | SupportBelief,
    weights: Array,
    enough: float,
    seed: int = 0,
) -> Array:
    """Expected wrong labels per document after 0, 1, 2, ... votes of random annotators on every document.

    Labels are drawn from ``label_probs``, votes from the rates, or from the traits of the support model, annotators in
    proportion to ``weights``. ``evidence`` is what the model has besides votes. The list ends with the first number
    that is at most ``enough``, or with ``MAX_OVERLAP`` votes.
    """
    rng = np.random.default_rng(seed)
    docs = np.sort(rng.choice(len(label_probs), min(len(label_probs), _MAX_DOCS), replace=False))
    labels = rng.random((len(docs), label_probs.shape[1])) < label_probs[docs]
    given, known = evidence[docs].astype(np.float64), known[docs]
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1.0 / len(weights))
    draws = _votes_of_supports if isinstance(annotators, SupportBelief) else _votes_of_rates
    errors: list[float] = []
    for log_odds in draws(labels, given, annotators, weights, rng):  # type: ignore[arg-type]
        probs = profile_e_step(log_odds, known, profiles).label_probs
        errors.append(float(np.minimum(probs, 1.0 - probs).sum()) / max(len(docs), 1))
        if errors[-1] <= enough or len(errors) > MAX_OVERLAP:
            break
    return np.array(errors)


def _votes_of_rates(
    labels: NDArray[np.bool_], log_odds: Array, rates: Rates, weights: Array, rng: np.random.Generator
) -> Iterator[Array]:
    """Evidence (documents, classes) in nats after 0, 1, 2, ... votes that are independent given the labels."""
    while True:
        yield log_odds
        who = rng.choice(len(weights), len(labels), p=weights)
        sensitivity, specificity = rates.sensitivity[who], rates.specificity[who]
        yes = rng.random(labels.shape) < np.where(labels, sensitivity, 1.0 - specificity)
        log_odds = log_odds + np.where(
            yes, np.log(sensitivity / (1.0 - specificity)), np.log((1.0 - sensitivity) / specificity)
        )


def _votes_of_supports(
    labels: NDArray[np.bool_], given: Array, belief: SupportBelief, weights: Array, rng: np.random.Generator
) -> Iterator[Array]:
    """The same under the support model, with supports drawn given the labels and the answers of a classifier."""
    present, absent, traits = belief.grid.present, belief.grid.absent, belief.traits
    logs, nats = np.zeros((*labels.shape, len(POINTS))), given
    if belief.sharpness is not None:
        tilt = given[..., None] * POINTS - 0.5 * belief.sharpness[:, None] * POINTS**2
        logs, nats = np.where(given[..., None] != 0.0, tilt, 0.0), np.zeros_like(given)
    supports = np.where(labels[..., None], present, absent) * np.exp(logs - logs.max(axis=2, keepdims=True))
    shares = np.cumsum(supports, axis=2) / supports.sum(axis=2, keepdims=True)
    drawn = POINTS[np.minimum((shares < rng.random(labels.shape)[..., None]).sum(axis=2), len(POINTS) - 1)]
    while True:
        likelihoods = np.exp(logs - logs.max(axis=2, keepdims=True))
        yield nats + np.log(np.sum(likelihoods * present, axis=2) / np.sum(likelihoods * absent, axis=2))
        who = rng.choice(len(weights), len(labels), p=weights)
        slope, offset = traits.slopes[who, None], traits.offsets[who, None] + traits.by_class[who]
        yes = rng.random(labels.shape) < expit(slope * drawn + offset)
        logs = logs + log_expit(np.where(yes, 1.0, -1.0)[..., None] * (slope[..., None] * POINTS + offset[..., None]))


def votes_needed(errors: Array, enough: float) -> float:
    """Number of votes per document at which the errors are ``enough``, between whole numbers; inf if never."""
    if errors[-1] > enough:
        return float("inf")
    last = len(errors) - 1
    if last == 0:
        return 0.0
    before, after = np.log(np.maximum(errors[last - 1 :], 1e-12))
    return last - 1 + float((before - np.log(max(enough, 1e-12))) / max(before - after, 1e-12))
