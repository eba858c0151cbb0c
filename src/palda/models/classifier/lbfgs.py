"""L-BFGS for many independent problems at once, each with its own step length and stop.

The last steps of a search can be the memory of a later one, which then needs fewer iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palda.kernels import StepRing, active

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.int64]
    Objective: TypeAlias = Callable[[Array, Indices], tuple[Array, Array]]

_MEMORY = 10
_SUFFICIENT_SHARE = 1e-4  # share of the expected decrease that a step must reach (Armijo rule)
_MIN_STEP = 2.0**-30  # below this only rounding is left to gain
_MIN_SHARE_TO_DROP = 0.2  # share of finished problems from which copying the others pays
_MIN_TOLERANCE_IN_SINGLE_PRECISION = 1e-6


@dataclass(frozen=True)
class LbfgsLimits:
    """A problem stops when the next step promises less than ``tolerance`` times (1 + its loss)."""

    tolerance: float = 1e-4
    max_iter: int = 200

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Precision of features, products and stored steps that reaches the tolerance."""
        return np.float32 if self.tolerance >= _MIN_TOLERANCE_IN_SINGLE_PRECISION else np.float64


def row_dots(one: Array, other: Array) -> Array:
    """Scalar product of each row with its counterpart."""
    products: Array = np.einsum("mp,mp->m", one, other)
    return products


class StepHistory:
    """The last steps of many problems: moves, and changes of the gradient.

    The Hessian of logistic regression does not depend on the labels, and a penalty adds its multiple of the move to
    the change of the gradient. So the steps of a search remain useful in the next one, with other penalties.
    """

    def __init__(self, n_problems: int, n_coef: int, dtype: Any) -> None:
        shape = (_MEMORY, n_problems, n_coef)
        self.ring = StepRing(
            np.zeros(shape, dtype),
            np.zeros(shape, dtype),
            np.zeros((_MEMORY, n_problems)),
            np.full(n_problems, _MEMORY - 1),
        )
        self.penalties = np.zeros((n_problems, n_coef), dtype)  # those that the changes of the gradient include

    def add(self, problems: Indices, move: Array, change: Array) -> None:
        """Store a step of some problems in place of their oldest."""
        ring, slots = self.ring, (self.ring.newest[problems] + 1) % _MEMORY
        ring.newest[problems] = slots
        ring.moves[slots, problems], ring.changes[slots, problems] = move, change
        ring.inverse[slots, problems] = _positive_inverse(row_dots(move, change))

    def set_penalties(self, problems: Indices, penalties: Array) -> None:
        """Correct the steps of some problems for other penalties (problems, coefficients)."""
        growth = penalties.astype(self.penalties.dtype) - self.penalties[problems]
        changed = np.flatnonzero(growth.any(axis=0))
        self.penalties[problems] += growth
        if not len(changed):
            return
        span = slice(changed[0], changed[-1] + 1)
        for moves, changes, inverse in zip(*self.ring[:3], strict=True):
            if not inverse[problems].any():
                continue
            moved = moves[problems, span]
            own = changes[problems]
            own[:, span] += growth[:, span] * moved
            changes[problems] = own
            inverse[problems] = _positive_inverse(np.einsum("mp,mp->m", moves[problems], own, dtype=np.float64))


def _positive_inverse(values: Array) -> Array:
    """1 / value; 0 where it is not positive."""
    inverse: Array = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
    return inverse


@dataclass
class _Search:
    """State of the problems that are still optimised, one row each."""

    problems: Indices
    point: Array
    loss: Array
    gradient: Array
    direction: Array
    decrease: Array  # of the loss by a full step, to first order: twice what it gains if the curvature is right
    curvature: Array
    step: Array
    done: NDArray[np.bool_]

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Drop the other problems."""
        for spec in fields(self):
            setattr(self, spec.name, getattr(self, spec.name)[which])


def minimise(
    objective: Objective,
    start: Array,
    curvature: Array,
    limits: LbfgsLimits,
    history: StepHistory,
    places: Indices,
) -> Array:
    """Minimum of each problem, a row of coefficients.

    A problem whose step gains too little tries half of it in the next pass. ``curvature`` is the diagonal of the
    Hessian, roughly. Steps are added to ``history``, where the problems are at ``places``.
    """
    problems = np.arange(len(start))
    loss, gradient = objective(start, problems)
    direction, decrease = active().lbfgs_direction(history.ring, places, gradient, curvature)
    step, done = np.ones(len(start)), np.zeros(len(start), dtype=bool)
    search = _Search(problems, start, loss, gradient, direction, decrease, curvature, step, done)
    solution = start.copy()
    for _ in range(limits.max_iter):
        done = (search.decrease <= limits.tolerance * (1.0 + search.loss)) | (search.step < _MIN_STEP)
        # what a problem does after it is done, until it is dropped, depends on the others
        finished = done & ~search.done
        solution[search.problems[finished]] = search.point[finished]
        search.done |= done
        if search.done.all():
            return solution
        if search.done.mean() >= _MIN_SHARE_TO_DROP:
            search.keep(~search.done)
        _advance(search, objective, history, places)
    solution[search.problems[~search.done]] = search.point[~search.done]
    return solution


def _advance(search: _Search, objective: Objective, history: StepHistory, places: Indices) -> None:
    """One step of all problems; those that gain too little stay where they are and halve their step."""
    move = search.step[:, None] * search.direction
    point = search.point + move
    loss, gradient = objective(point, search.problems)
    max_loss = search.loss - _SUFFICIENT_SHARE * search.step * search.decrease + 1e-14 * search.loss
    improved = loss <= max_loss
    added, failed = improved & ~search.done, ~improved
    history.add(places[search.problems[added]], move[added], (gradient - search.gradient)[added])
    point[failed], gradient[failed] = search.point[failed], search.gradient[failed]
    direction, decrease = active().lbfgs_direction(history.ring, places[search.problems], gradient, search.curvature)
    direction[failed] = search.direction[failed]
    search.point, search.gradient, search.direction = point, gradient, direction
    search.decrease = np.where(improved, decrease, search.decrease)
    search.loss = np.where(improved, loss, search.loss)
    search.step = np.where(improved, 1.0, search.step / 2.0)
