"""L-BFGS for many independent problems at once, each with its own step length and stop.

The last steps of a search can be the memory of a later one, which then needs fewer iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palda.kernels import active

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


@dataclass(frozen=True, eq=False)
class StepHistory:
    """The last steps of each problem: moves, and changes of the gradient; zeros where there are fewer.

    ``steps`` is (2, steps, problems, coefficients), oldest first. The Hessian of logistic regression does not depend on
    the labels, and a penalty adds its multiple of the move to the change of the gradient. So steps remain useful when
    labels change, and can be corrected when penalties do.
    """

    steps: NDArray[Any]

    @classmethod
    def empty(cls, n_problems: int, n_coef: int, dtype: Any) -> StepHistory:
        """No steps."""
        return cls(np.zeros((2, _MEMORY, n_problems, n_coef), dtype))

    def take(self, problems: Indices | NDArray[np.bool_] | slice) -> StepHistory:
        """The steps of some problems."""
        return StepHistory(self.steps[:, :, problems])

    def with_penalties(self, penalties: Array) -> StepHistory:
        """The same steps with penalties (problems, coefficients) added to the curvature."""
        steps = self.steps.copy()
        steps[1] += penalties.astype(steps.dtype) * steps[0]
        return StepHistory(steps)

    def inverse_products(self) -> Array:
        """(steps, problems): 1 / (move · change); 0 where that is not positive."""
        return _positive_inverse(np.einsum("smp,smp->sm", *self.steps, dtype=np.float64))


def _positive_inverse(values: Array) -> Array:
    """1 / value; 0 where it is not positive."""
    inverse: Array = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
    return inverse


@dataclass
class _Search:
    """State of the problems that are still optimised: one row each, if there are no steps."""

    problems: Indices
    point: Array
    loss: Array
    gradient: Array
    direction: Array
    decrease: Array  # of the loss by a full step, to first order: twice what it gains if the curvature is right
    curvature: Array
    step: Array
    done: NDArray[np.bool_]
    history: NDArray[Any]  # as in StepHistory, but a ring whose last entry is ``newest``
    inverse: Array  # (steps, problems): 1 / (move · change), 0 for a step that does not count
    newest: int = _MEMORY - 1

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Drop the other problems."""
        for spec in fields(self):
            name = spec.name
            if name != "newest":
                axis = {"history": 2, "inverse": 1}.get(name, 0)
                setattr(self, name, np.compress(which, getattr(self, name), axis=axis))


def minimise(
    objective: Objective, start: Array, curvature: Array, limits: LbfgsLimits, history: StepHistory
) -> tuple[Array, StepHistory]:
    """Minimum of each problem, a row of coefficients, and its last steps.

    A problem whose step gains too little tries half of it in the next pass. ``curvature`` is the diagonal of the
    Hessian, roughly; ``history`` are the last steps of an earlier search.
    """
    problems = np.arange(len(start))
    loss, gradient = objective(start, problems)
    inverse = history.inverse_products()
    direction, decrease = active().lbfgs_direction(history.steps, inverse, _MEMORY - 1, gradient, curvature)
    step, done = np.ones(len(start)), np.zeros(len(start), dtype=bool)
    search = _Search(
        problems, start, loss, gradient, direction, decrease, curvature, step, done, history.steps.copy(), inverse
    )
    solution, last_steps = start.copy(), history.steps.copy()

    def finish(done: NDArray[np.bool_]) -> None:
        """Store problems as soon as they are done; what they do until they are dropped depends on the others."""
        finished = search.problems[done]
        solution[finished] = search.point[done]
        last_steps[:, :, finished] = np.roll(search.history[:, :, done], -1 - search.newest, axis=1)
        search.done |= done

    for _ in range(limits.max_iter):
        done = (search.decrease <= limits.tolerance * (1.0 + search.loss)) | (search.step < _MIN_STEP)
        finish(done & ~search.done)
        if search.done.all():
            break
        if search.done.mean() >= _MIN_SHARE_TO_DROP:
            search.keep(~search.done)
        _advance(search, objective)
    finish(~search.done)
    return solution, StepHistory(last_steps)


def _advance(search: _Search, objective: Objective) -> None:
    """One step of all problems; those that gain too little stay where they are and halve their step."""
    move = search.step[:, None] * search.direction
    point = search.point + move
    loss, gradient = objective(point, search.problems)
    max_loss = search.loss - _SUFFICIENT_SHARE * search.step * search.decrease + 1e-14 * search.loss
    improved = loss <= max_loss
    failed, change = ~improved, gradient - search.gradient
    if failed.any():
        move[failed], change[failed] = 0.0, 0.0
        point[failed], gradient[failed] = search.point[failed], search.gradient[failed]
    search.newest = (search.newest + 1) % _MEMORY
    search.history[:, search.newest] = move, change
    search.inverse[search.newest] = _positive_inverse(row_dots(move, change))
    direction, decrease = active().lbfgs_direction(
        search.history, search.inverse, search.newest, gradient, search.curvature
    )
    direction[failed] = search.direction[failed]
    search.point, search.gradient, search.direction = point, gradient, direction
    search.decrease = np.where(improved, decrease, search.decrease)
    search.loss = np.where(improved, loss, search.loss)
    search.step = np.where(improved, 1.0, search.step / 2.0)
