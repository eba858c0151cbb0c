"""Platt recalibration: out-of-fold scores become log-odds that mean what they say.

A score s of class i becomes the log-odds a_i s + b_i. Slope and offset maximise the likelihood of the soft targets,
drawn a little towards a = 1 and b = 0. The fewer documents speak for a class, the less is fitted for it:

- fewer than ``FEW`` expected positives (or negatives): only its offset; the slope is the one that suits all classes,
- fewer than ``NONE``: nothing; its log-odds are those of its base rate. So are those of a class whose slope would be
  negative: scores that point the wrong way out of fold know nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "FEW",
    "NONE",
    "Platt",
    "base_log_odds",
    "cross_calibrate",
    "fit_platt",
    "log_likelihoods",
    "minority_counts",
]

FEW = 10.0
"""Expected positives (and negatives) from which on a class gets a slope of its own."""

NONE = 2.0
"""Expected positives (and negatives) from which on a class is learned at all."""

_SLOPE_PULL = 1.0  # precision of the prior on the slope: worth about four documents with scores around 1
_OFFSET_PULL = 0.01  # hardly any: it decides how many documents a rare class is expected in
_MAX_STEPS = 50
_SETTLED = 1e-4  # a step in slope or offset that is not worth another one
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Platt:
    """Slope and offset of each class, and how sure anybody may be.

    ``limit`` bounds the log-odds. What never happened in n documents has probability ½ / (n + 1) by Jeffreys' rule, so
    a score, however high, is not believed beyond the log-odds of that.
    """

    slope: Array
    offset: Array
    limit: float

    def apply(self, scores: Array) -> Array:
        """Log-odds of scores (documents, classes)."""
        return np.clip(self.slope * scores + self.offset, -self.limit, self.limit)


def _sums(weights: Array, values: Array) -> Array:
    """Weighted sum over documents for each class."""
    totals: Array = np.einsum("di,di->i", weights, values)
    return totals


def minority_counts(targets: Array, weights: Array) -> Array:
    """Expected positives or expected negatives of each class, whichever is fewer."""
    positives = _sums(weights, targets)
    fewer: Array = np.minimum(positives, weights.sum(axis=0) - positives)
    return fewer


def base_log_odds(targets: Array, weights: Array) -> Array:
    """Log-odds of each class's base rate, with half a document added to either side."""
    positives = _sums(weights, targets)
    log_odds: Array = np.log(positives + 0.5) - np.log(weights.sum(axis=0) - positives + 0.5)
    return log_odds


def log_likelihoods(log_odds: Array, targets: Array, weights: Array) -> Array:
    """Weighted log-likelihood of the soft targets, summed over documents, of each class."""
    softplus = np.maximum(log_odds, 0.0) + np.log(1.0 + np.exp(-np.abs(log_odds)))
    return _sums(weights, targets * log_odds - softplus)


def fit_platt(scores: Array, targets: Array, weights: Array, start: Platt | None = None) -> Platt:
    """Slope and offset of each class, from scores by models that have not seen the documents (maths, eq. 49)."""
    evidence = minority_counts(targets, weights)
    learned, few = evidence >= NONE, evidence < FEW
    line = np.array([np.ones(len(evidence)), np.zeros(len(evidence))] if start is None else [start.slope, start.offset])
    if (learned & few).any():
        line[0, few] = _shared_slope(scores[:, learned], targets[:, learned], weights[:, learned])
    slope, offset = _newton(scores, targets, weights, line, slope_moves=~few)
    n_docs = float(weights.sum(axis=0).max(initial=0.0))
    informed = learned & (slope > 0.0)
    return Platt(
        np.where(informed, slope, 0.0),
        np.where(informed, offset, base_log_odds(targets, weights)),
        limit=float(np.log(2.0 * n_docs + 1.0)),
    )


def _shared_slope(scores: Array, targets: Array, weights: Array) -> float:
    """Slope that suits the documents of all classes, taken as documents of one."""
    scores, targets, weights = (table.reshape(-1, 1) for table in (scores, targets, weights))
    line = _newton(scores, targets, weights, np.array([[1.0], [0.0]]), slope_moves=np.ones(1, dtype=bool))
    return float(line[0, 0])


def _newton(scores: Array, targets: Array, weights: Array, line: Array, slope_moves: NDArray[np.bool_]) -> Array:
    """Slopes and offsets (2, classes) by Newton's method; a class that a step made worse goes back half of it."""
    loss, move = _loss(scores, targets, weights, line), np.zeros_like(line)
    for _ in range(_MAX_STEPS):
        move = _newton_move(scores, targets, weights, line, slope_moves)
        if np.abs(move).max(initial=0.0) < _SETTLED:
            break
        trial = line + move
        trial_loss = _loss(scores, targets, weights, trial)
        while (worse := trial_loss > loss + _ROUNDING * (1.0 + loss)).any():
            move[:, worse] /= 2.0
            trial = line + move
            trial_loss = _loss(scores, targets, weights, trial)
        line, loss = trial, trial_loss
    return line


def _loss(scores: Array, targets: Array, weights: Array, line: Array) -> Array:
    slope, offset = line
    prior = 0.5 * (_SLOPE_PULL * np.square(slope - 1.0) + _OFFSET_PULL * np.square(offset))
    loss: Array = prior - log_likelihoods(slope * scores + offset, targets, weights)
    return loss


def _newton_move(scores: Array, targets: Array, weights: Array, line: Array, slope_moves: NDArray[np.bool_]) -> Array:
    slope, offset = line
    probs = expit(slope * scores + offset)
    residuals = weights * (probs - targets)
    spread = weights * probs * (1.0 - probs)
    spread_scores = spread * scores
    by_slope = _sums(residuals, scores) + _SLOPE_PULL * (slope - 1.0)
    by_offset = residuals.sum(axis=0) + _OFFSET_PULL * offset
    both = spread_scores.sum(axis=0) * slope_moves
    twice_slope = _sums(spread_scores, scores) + _SLOPE_PULL
    twice_offset = spread.sum(axis=0) + _OFFSET_PULL
    determinant = twice_slope * twice_offset - both**2
    return -np.array(
        [
            slope_moves * (twice_offset * by_slope - both * by_offset) / determinant,
            (twice_slope * by_offset - both * by_slope) / determinant,
        ]
    )


def cross_calibrate(scores: Array, targets: Array, weights: Array, folds: NDArray[np.int64]) -> tuple[Platt, Array]:
    """Recalibration for new documents, and log-odds of the training documents.

    The log-odds of a fold come from a recalibration that saw the other folds only.
    """
    platt = fit_platt(scores, targets, weights)
    log_odds = np.empty_like(scores)
    for fold in np.unique(folds):
        inside = folds == fold
        others = fit_platt(scores[~inside], targets[~inside], weights[~inside], start=platt)
        log_odds[inside] = others.apply(scores[inside])
    return platt, log_odds
