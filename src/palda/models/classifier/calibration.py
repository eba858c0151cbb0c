"""Platt recalibration: turns out-of-fold scores into calibrated log-odds.

A score s of class i becomes the log-odds a_i s + b_i. Slope and offset maximise the likelihood of the soft targets with
a weak prior at a = 1 and b = 0. Rare classes get fewer parameters:

- fewer than ``MIN_FOR_SLOPE`` expected positives (or negatives): only an offset; the slope is common to all classes,
- fewer than ``MIN_TO_LEARN``: none; the log-odds are those of the base rate. The same holds for a class whose slope
  would be negative, because its out-of-fold scores carry no information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import ArraySpec
from palda.kernels import active

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]

MIN_FOR_SLOPE = 10.0
"""Minimum of expected positives and negatives for a class to have its own slope."""

MIN_TO_LEARN = 2.0
"""Minimum of expected positives and negatives for a class to be learned at all."""

_SLOPE_PRECISION = 1.0  # of the prior of the slope: worth about four documents with scores around 1
_OFFSET_PRECISION = 0.01  # weak: the offset decides how many documents are expected to have a rare class
_MAX_STEPS = 50
_TOLERANCE = 1e-4  # of a Newton step in slope or offset
_ROUNDING = 1e-12
_DOCS_PER_BLOCK = 4096

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

    def log_likelihoods(self, scores: Array, targets: Array, weights: Array | None) -> Array:
        """(classes,): log-likelihood of the targets under recalibrated scores, a block of documents at a time."""
        total = np.zeros(scores.shape[1])
        for first in range(0, len(scores), _DOCS_PER_BLOCK):
            rows = slice(first, first + _DOCS_PER_BLOCK)
            own_weights = None if weights is None else weights[rows]
            total += log_likelihoods(self.apply(scores[rows]), targets[rows], own_weights)
        return total

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


def _sums(weights: Array | None, values: Array) -> Array:
    """Weighted sum over documents, per class."""
    totals: Array = values.sum(axis=0) if weights is None else np.einsum("di,di->i", weights, values)
    return totals


def _totals(weights: Array | None, targets: Array) -> Array:
    """(classes,): sum of the weights; without weights, the number of documents."""
    totals: Array = np.full(targets.shape[1], float(len(targets))) if weights is None else weights.sum(axis=0)
    return totals


def minority_counts(targets: Array, weights: Array | None) -> Array:
    """(classes,): expected positives or expected negatives, whichever is fewer."""
    positives = _sums(weights, targets)
    fewer: Array = np.minimum(positives, _totals(weights, targets) - positives)
    return fewer


def base_log_odds(targets: Array, weights: Array | None) -> Array:
    """(classes,): log-odds of the base rates, with half a document added to either side."""
    positives = _sums(weights, targets)
    log_odds: Array = np.log(positives + 0.5) - np.log(_totals(weights, targets) - positives + 0.5)
    return log_odds


def log_likelihoods(log_odds: Array, targets: Array, weights: Array | None) -> Array:
    """(classes,): weighted log-likelihood of the soft targets, summed over documents."""
    softplus = np.maximum(log_odds, 0.0) + np.log(1.0 + np.exp(-np.abs(log_odds)))
    return _sums(weights, targets * log_odds - softplus)


def fit_platt(
    scores: Array, targets: Array, weights: Array | None, start: Platt | None = None, rows: Indices | None = None
) -> Platt:
    """Slope and offset per class, from scores by models that did not see the documents (maths, eq. 49).

    Without ``weights`` all are 1. ``rows`` are the documents that count, by default all.
    """
    data = _Scores.of(scores, targets, weights, rows)
    own_targets, own_weights = (targets, weights) if rows is None else data.labels(rows)
    n_minority = minority_counts(own_targets, own_weights)
    learned, few = n_minority >= MIN_TO_LEARN, n_minority < MIN_FOR_SLOPE
    line = np.array([np.ones(len(few)), np.zeros(len(few))])
    if start is not None:
        line = np.where(start.slope > 0.0, [start.slope, start.offset], line)
    if (learned & few).any():
        line[0, few] = _shared_slope(data, learned)
    slope, offset = _newton(data.sums, line, free_slope=~few)
    n_docs = float(_totals(own_weights, own_targets).max(initial=0.0))
    informed = learned & (slope > 0.0)
    return Platt(
        np.where(informed, slope, 0.0),
        np.where(informed, offset, base_log_odds(own_targets, own_weights)),
        limit=float(np.log(2.0 * n_docs + 1.0)),
    )


class _Scores(NamedTuple):
    """Scores and labels as the kernel reads them."""

    scores: Array
    targets: Array
    weights: Array  # of length 0 if all are 1
    rows: Indices

    @classmethod
    def of(cls, scores: Array, targets: Array, weights: Array | None, rows: Indices | None) -> _Scores:
        """The same tables; read-only ones are copied, because Numba would compile the kernel again for them."""
        return cls(
            np.require(scores, np.float64, ["C", "W"]),
            np.require(targets, np.float64, ["C", "W"]),
            np.empty((0, 0)) if weights is None else np.require(weights, np.float64, ["C", "W"]),
            np.arange(len(scores)) if rows is None else rows,
        )

    def labels(self, rows: Indices) -> tuple[Array, Array | None]:
        """Targets and weights of some documents."""
        return self.targets[rows], self.weights[rows] if len(self.weights) else None

    def sums(self, line: Array) -> Array:
        """(6, classes): cross-entropy of the recalibrated scores, and its derivatives."""
        totals: Array = active().platt_sums(*self, np.ascontiguousarray(line))
        return totals


def _shared_slope(data: _Scores, learned: NDArray[np.bool_]) -> float:
    """Slope fitted to the documents of all classes as if they were one class."""

    def sums(line: Array) -> Array:
        everywhere = np.repeat(line, len(learned), axis=1)
        totals: Array = data.sums(everywhere)[:, learned].sum(axis=1, keepdims=True)
        return totals

    return float(_newton(sums, np.array([[1.0], [0.0]]), free_slope=np.ones(1, dtype=bool))[0, 0])


def _newton(sums: Callable[[Array], Array], line: Array, free_slope: NDArray[np.bool_]) -> Array:
    """Slopes and offsets (2, classes) by Newton's method; a step that makes a class worse is halved.

    ``sums`` are those of the kernel. A class whose step is short stays where it is.
    """
    at = _with_prior(sums(line), line)
    for _ in range(_MAX_STEPS):
        move = _newton_move(at, free_slope)
        move[:, np.abs(move).max(axis=0) < _TOLERANCE] = 0.0
        if not move.any():
            break
        trial = _with_prior(sums(line + move), line + move)
        while (worse := trial[0] > at[0] + _ROUNDING * (1.0 + at[0])).any():
            move[:, worse] /= 2.0
            trial = _with_prior(sums(line + move), line + move)
        line, at = line + move, trial
    return line


def _with_prior(sums: Array, line: Array) -> Array:
    """Loss and derivatives with those of the prior added."""
    slope, offset = line
    prior = [
        0.5 * (_SLOPE_PRECISION * np.square(slope - 1.0) + _OFFSET_PRECISION * np.square(offset)),
        _SLOPE_PRECISION * (slope - 1.0),
        _OFFSET_PRECISION * offset,
        np.full_like(slope, _SLOPE_PRECISION),
        np.zeros_like(slope),
        np.full_like(slope, _OFFSET_PRECISION),
    ]
    total: Array = sums + prior
    return total


def _newton_move(at: Array, free_slope: NDArray[np.bool_]) -> Array:
    _, by_slope, by_offset, slope_curvature, cross, offset_curvature = at
    cross = cross * free_slope
    determinant = slope_curvature * offset_curvature - cross**2
    return -np.array(
        [
            free_slope * (offset_curvature * by_slope - cross * by_offset) / determinant,
            (slope_curvature * by_offset - cross * by_slope) / determinant,
        ]
    )


def cross_calibrate(scores: Array, targets: Array, weights: Array | None, folds: Indices) -> tuple[Platt, Array]:
    """Recalibration for new documents, and log-odds of the training documents.

    The recalibration applied to a fold is fitted to the other folds only.
    """
    platt = fit_platt(scores, targets, weights)
    log_odds = np.empty_like(scores)
    for fold in np.unique(folds):
        inside = folds == fold
        others = fit_platt(scores, targets, weights, platt, np.flatnonzero(~inside))
        log_odds[inside] = others.apply(scores[inside])
    return platt, log_odds
