"""Platt recalibration: turns out-of-fold scores into calibrated log-odds.

A score s of class i becomes the log-odds a_i s + b_i. Slope and offset maximise the likelihood of the soft targets with
a weak prior at a = 1 and b = 0. Rare classes get fewer parameters:

- fewer than ``MIN_FOR_SLOPE`` expected positives (or negatives): only an offset; the slope is common to all classes,
- fewer than ``MIN_TO_LEARN``: none; the log-odds are those of the base rate. The same holds for a class whose slope
  would be negative, because its out-of-fold scores carry no information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from palda.data import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array

MIN_FOR_SLOPE = 10.0
"""Minimum of expected positives and negatives for a class to have its own slope."""

MIN_TO_LEARN = 2.0
"""Minimum of expected positives and negatives for a class to be learned at all."""

_SLOPE_PRECISION = 1.0  # of the prior of the slope: worth about four documents with scores around 1
_OFFSET_PRECISION = 0.01  # weak: the offset decides how many documents are expected to have a rare class
_MAX_STEPS = 50
_TOLERANCE = 1e-4  # of a Newton step in slope or offset
_ROUNDING = 1e-12
_MAX_SHARE_TO_DROP = 0.5  # of unfinished classes: below it, copying their columns pays

PLATT_ARRAYS = {
    "slope": ArraySpec(("classes",)),
    "offset": ArraySpec(("classes",)),
    "limit": ArraySpec((), low=0.0),
}
"""Schema of a recalibration in a file."""


@dataclass(frozen=True, eq=False)
class Platt:
    """Slope and offset of each class, and a bound of the log-odds.

    By Jeffreys' rule, an event that never happened in n documents has probability ½ / (n + 1). ``limit`` is the
    absolute log-odds of that probability.
    """

    slope: Array
    offset: Array
    limit: float

    def apply(self, scores: Array) -> Array:
        """Log-odds of scores (documents, classes)."""
        return np.clip(self.slope * scores + self.offset, -self.limit, self.limit)

    def take(self, classes: NDArray[Any]) -> Platt:
        """The recalibration of some classes."""
        return Platt(self.slope[classes], self.offset[classes], self.limit)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields as arrays of a file."""
        return {"slope": self.slope, "offset": self.offset, "limit": np.array(self.limit)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Platt:
        """The recalibration among arrays of a file."""
        return cls(arrays["slope"], arrays["offset"], float(arrays["limit"]))


def _sums(weights: Array, values: Array) -> Array:
    """Weighted sum over documents, per class."""
    totals: Array = np.einsum("di,di->i", weights, values)
    return totals


def minority_counts(targets: Array, weights: Array) -> Array:
    """(classes,): expected positives or expected negatives, whichever is fewer."""
    positives = _sums(weights, targets)
    fewer: Array = np.minimum(positives, weights.sum(axis=0) - positives)
    return fewer


def base_log_odds(targets: Array, weights: Array) -> Array:
    """(classes,): log-odds of the base rates, with half a document added to either side."""
    positives = _sums(weights, targets)
    log_odds: Array = np.log(positives + 0.5) - np.log(weights.sum(axis=0) - positives + 0.5)
    return log_odds


def log_likelihoods(log_odds: Array, targets: Array, weights: Array) -> Array:
    """(classes,): weighted log-likelihood of the soft targets, summed over documents."""
    softplus = np.maximum(log_odds, 0.0) + np.log(1.0 + np.exp(-np.abs(log_odds)))
    return _sums(weights, targets * log_odds - softplus)


def fit_platt(scores: Array, targets: Array, weights: Array, start: Platt | None = None) -> Platt:
    """Slope and offset per class, from scores by models that did not see the documents (maths, eq. 49)."""
    n_minority = minority_counts(targets, weights)
    learned, few = n_minority >= MIN_TO_LEARN, n_minority < MIN_FOR_SLOPE
    line = np.array([np.ones(len(few)), np.zeros(len(few))])
    if start is not None:
        line = np.where(start.slope > 0.0, [start.slope, start.offset], line)
    if (learned & few).any():
        line[0, few] = _shared_slope(scores[:, learned], targets[:, learned], weights[:, learned])
    slope, offset = _newton(scores, targets, weights, line, free_slope=~few)
    n_docs = float(weights.sum(axis=0).max(initial=0.0))
    informed = learned & (slope > 0.0)
    return Platt(
        np.where(informed, slope, 0.0),
        np.where(informed, offset, base_log_odds(targets, weights)),
        limit=float(np.log(2.0 * n_docs + 1.0)),
    )


def _shared_slope(scores: Array, targets: Array, weights: Array) -> float:
    """Slope fitted to the documents of all classes as if they were one class."""
    scores, targets, weights = (table.reshape(-1, 1) for table in (scores, targets, weights))
    line = _newton(scores, targets, weights, np.array([[1.0], [0.0]]), free_slope=np.ones(1, dtype=bool))
    return float(line[0, 0])


def _newton(scores: Array, targets: Array, weights: Array, line: Array, free_slope: NDArray[np.bool_]) -> Array:
    """Slopes and offsets (2, classes) by Newton's method; a step that makes a class worse is halved.

    A class is done when its step is short. Classes are dropped when at least half of those in work are done.
    """
    line, classes = line.copy(), np.arange(line.shape[1])
    loss = _loss(scores, targets, weights, line)
    for _ in range(_MAX_STEPS):
        move = _newton_move(scores, targets, weights, line[:, classes], free_slope[classes])
        unfinished = np.abs(move).max(axis=0) >= _TOLERANCE
        if not unfinished.any():
            break
        if unfinished.mean() <= _MAX_SHARE_TO_DROP:
            scores, targets, weights = scores[:, unfinished], targets[:, unfinished], weights[:, unfinished]
            classes, loss, move = classes[unfinished], loss[unfinished], move[:, unfinished]
        else:
            move[:, ~unfinished] = 0.0
        before = line[:, classes]
        trial_loss = _loss(scores, targets, weights, before + move)
        while (worse := trial_loss > loss + _ROUNDING * (1.0 + loss)).any():
            move[:, worse] /= 2.0
            trial_loss = _loss(scores, targets, weights, before + move)
        line[:, classes], loss = before + move, trial_loss
    return line


def _loss(scores: Array, targets: Array, weights: Array, line: Array) -> Array:
    slope, offset = line
    prior = 0.5 * (_SLOPE_PRECISION * np.square(slope - 1.0) + _OFFSET_PRECISION * np.square(offset))
    loss: Array = prior - log_likelihoods(slope * scores + offset, targets, weights)
    return loss


def _newton_move(scores: Array, targets: Array, weights: Array, line: Array, free_slope: NDArray[np.bool_]) -> Array:
    slope, offset = line
    probs = expit(slope * scores + offset)
    residuals = weights * (probs - targets)
    spread = weights * probs * (1.0 - probs)
    spread_scores = spread * scores
    by_slope = _sums(residuals, scores) + _SLOPE_PRECISION * (slope - 1.0)
    by_offset = residuals.sum(axis=0) + _OFFSET_PRECISION * offset
    cross = spread_scores.sum(axis=0) * free_slope
    slope_curvature = _sums(spread_scores, scores) + _SLOPE_PRECISION
    offset_curvature = spread.sum(axis=0) + _OFFSET_PRECISION
    determinant = slope_curvature * offset_curvature - cross**2
    return -np.array(
        [
            free_slope * (offset_curvature * by_slope - cross * by_offset) / determinant,
            (slope_curvature * by_offset - cross * by_slope) / determinant,
        ]
    )


def cross_calibrate(scores: Array, targets: Array, weights: Array, folds: NDArray[np.int64]) -> tuple[Platt, Array]:
    """Recalibration for new documents, and log-odds of the training documents.

    The recalibration applied to a fold is fitted to the other folds only.
    """
    platt = fit_platt(scores, targets, weights)
    log_odds = np.empty_like(scores)
    for fold in np.unique(folds):
        inside = folds == fold
        others = fit_platt(scores[~inside], targets[~inside], weights[~inside], start=platt)
        log_odds[inside] = others.apply(scores[inside])
    return platt, log_odds
