"""L-BFGS for many independent columns at once, each with its own step length and stop."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.int64]
    Objective: TypeAlias = Callable[[Array, Indices], tuple[Array, Array]]

_MEMORY = 6
_SUFFICIENT_SHARE = 1e-4  # share of the expected decrease that a step must reach (Armijo rule)
_MIN_STEP = 2.0**-30  # below this only rounding is left to gain
_MIN_SHARE_TO_DROP = 0.2  # share of finished columns from which copying the others pays


@dataclass(frozen=True)
class LbfgsLimits:
    """A column stops when the next step promises less than ``tolerance`` times (1 + its loss)."""

    tolerance: float = 1e-4
    max_iter: int = 200


def column_dots(one: Array, other: Array) -> Array:
    """Scalar product of each column with its counterpart."""
    products: Array = np.einsum("pm,pm->m", one, other)
    return products


class _Step(NamedTuple):
    """Moves of the columns and changes of their gradients; ``inverse`` = 1 / (move · change), 0 for a failed step."""

    move: Array
    change: Array
    inverse: Array


@dataclass
class _Search:
    """State of the columns that are still optimised."""

    columns: Indices
    point: Array
    loss: Array
    gradient: Array
    direction: Array
    curvature: Array
    step: Array
    done: NDArray[np.bool_]
    memory: list[_Step]

    def expected_decrease(self) -> Array:
        """Decrease of the loss by a full step to first order: twice what it gains if the curvature is right."""
        return -column_dots(self.gradient, self.direction)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Drop the other columns."""
        for spec in fields(self):
            if spec.name != "memory":
                setattr(self, spec.name, getattr(self, spec.name)[..., which])
        self.memory = [_Step(*(part[..., which] for part in step)) for step in self.memory]

    def finish(self, done: NDArray[np.bool_], solution: Array) -> None:
        """Store columns as soon as they are done; what they do until they are dropped depends on the others."""
        solution[:, self.columns[done]] = self.point[:, done]
        self.done = self.done | done


def minimise(objective: Objective, start: Array, curvature: Array, limits: LbfgsLimits) -> Array:
    """Minimum of each column; a column whose step gains too little tries half of it in the next pass."""
    columns = np.arange(start.shape[1])
    loss, gradient = objective(start, columns)
    step, done = np.ones(len(columns)), np.zeros(len(columns), dtype=bool)
    search = _Search(columns, start, loss, gradient, -gradient / curvature, curvature, step, done, [])
    solution = start.copy()
    for _ in range(limits.max_iter):
        done = (search.expected_decrease() <= limits.tolerance * (1.0 + search.loss)) | (search.step < _MIN_STEP)
        search.finish(done & ~search.done, solution)
        if search.done.all():
            return solution
        if search.done.mean() >= _MIN_SHARE_TO_DROP:
            search.keep(~search.done)
        _advance(search, objective)
    search.finish(~search.done, solution)
    return solution


def _advance(search: _Search, objective: Objective) -> None:
    """One step of all columns; those that gain too little stay where they are and halve their step."""
    move = search.step * search.direction
    point = search.point + move
    loss, gradient = objective(point, search.columns)
    max_loss = search.loss - _SUFFICIENT_SHARE * search.step * search.expected_decrease() + 1e-14 * search.loss
    improved = loss <= max_loss
    change = gradient - search.gradient
    product = column_dots(move, change)
    inverse = np.where(improved & (product > 0), 1.0 / np.where(product > 0, product, 1.0), 0.0)
    search.memory = [*search.memory[1 - _MEMORY :], _Step(move, change, inverse)]
    failed = ~improved
    if failed.any():
        point[:, failed], gradient[:, failed] = search.point[:, failed], search.gradient[:, failed]
    direction = _quasi_newton(gradient, search.memory, search.curvature)
    if failed.any():
        direction[:, failed] = search.direction[:, failed]
    search.point, search.gradient, search.direction = point, gradient, direction
    search.loss = np.where(improved, loss, search.loss)
    search.step = np.where(improved, 1.0, search.step / 2.0)


def _quasi_newton(gradient: Array, memory: Sequence[_Step], curvature: Array) -> Array:
    """L-BFGS direction by the two-loop recursion, from the diagonal of the Hessian at the start."""
    direction = -gradient
    shares = []
    for move, change, inverse in reversed(memory):
        share = inverse * column_dots(move, direction)
        direction -= share * change
        shares.append(share)
    direction /= curvature
    _, change, inverse = memory[-1]
    scale = inverse * column_dots(change / curvature, change)
    direction *= np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 1.0)
    for (move, change, inverse), share in zip(memory, reversed(shares), strict=True):
        direction += (share - inverse * column_dots(change, direction)) * move
    return direction
