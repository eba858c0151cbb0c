"""L-BFGS of many columns at once, each with its own step length and its own end."""

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

__all__ = ["LbfgsLimits", "dots", "minimise"]

_MEMORY = 6
_ENOUGH = 1e-4  # share of what the slope promises that a step must gain
_SMALLEST_STEP = 2.0**-30  # below this only rounding is left to gain
_WORTH_DROPPING = 0.2  # share of finished columns from which on it pays to copy the others


@dataclass(frozen=True)
class LbfgsLimits:
    """A column is done when the next step promises less than ``tolerance`` times its loss (and a nat)."""

    tolerance: float = 1e-4
    max_iter: int = 200


def dots(one: Array, other: Array) -> Array:
    """Scalar product of each column with its counterpart."""
    products: Array = np.einsum("pm,pm->m", one, other)
    return products


class _Step(NamedTuple):
    """Where columns went and how their gradients changed; ``inverse`` = 1 / (moved · change), 0 for a failed step."""

    moved: Array
    change: Array
    inverse: Array


@dataclass
class _Search:
    """Columns still under way."""

    columns: Indices
    point: Array
    loss: Array
    gradient: Array
    direction: Array
    curvature: Array
    step: Array
    done: NDArray[np.bool_]
    memory: list[_Step]

    def promise(self) -> Array:
        """Twice what a full step gains if the curvature is estimated well."""
        return -dots(self.gradient, self.direction)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Forget the other columns."""
        for spec in fields(self):
            if spec.name != "memory":
                setattr(self, spec.name, getattr(self, spec.name)[..., which])
        self.memory = [_Step(*(part[..., which] for part in step)) for step in self.memory]


def minimise(objective: Objective, start: Array, curvature: Array, limits: LbfgsLimits) -> Array:
    """Minimum of each column. A column whose step does not gain enough tries half of it in the next pass."""
    columns = np.arange(start.shape[1])
    loss, gradient = objective(start, columns)
    step, done = np.ones(len(columns)), np.zeros(len(columns), dtype=bool)
    search = _Search(columns, start, loss, gradient, -gradient / curvature, curvature, step, done, [])
    solution = start.copy()
    for _ in range(limits.max_iter):
        done = (search.promise() <= limits.tolerance * (1.0 + search.loss)) | (search.step < _SMALLEST_STEP)
        _note(search, done & ~search.done, solution)
        if search.done.all():
            return solution
        if search.done.mean() >= _WORTH_DROPPING:
            search.keep(~search.done)
        _advance(search, objective)
    _note(search, ~search.done, solution)
    return solution


def _note(search: _Search, done: NDArray[np.bool_], solution: Array) -> None:
    """Write down columns the moment they are done: what they do until they are dropped depends on the others."""
    solution[:, search.columns[done]] = search.point[:, done]
    search.done = search.done | done


def _advance(search: _Search, objective: Objective) -> None:
    moved = search.step * search.direction
    trial = search.point + moved
    loss, gradient = objective(trial, search.columns)
    gained = loss <= search.loss - _ENOUGH * search.step * search.promise() + 1e-14 * search.loss
    change = gradient - search.gradient
    bend = dots(moved, change)
    inverse = np.where(gained & (bend > 0), 1.0 / np.where(bend > 0, bend, 1.0), 0.0)
    search.memory = [*search.memory[1 - _MEMORY :], _Step(moved, change, inverse)]
    failed = ~gained
    if failed.any():
        trial[:, failed], gradient[:, failed] = search.point[:, failed], search.gradient[:, failed]
    direction = _quasi_newton(gradient, search.memory, search.curvature)
    if failed.any():
        direction[:, failed] = search.direction[:, failed]
    search.point, search.gradient, search.direction = trial, gradient, direction
    search.loss = np.where(gained, loss, search.loss)
    search.step = np.where(gained, 1.0, search.step / 2.0)


def _quasi_newton(gradient: Array, memory: Sequence[_Step], curvature: Array) -> Array:
    """L-BFGS direction by the two-loop recursion, from the diagonal of the Hessian at the start."""
    direction = -gradient
    shares = []
    for moved, change, inverse in reversed(memory):
        share = inverse * dots(moved, direction)
        direction -= share * change
        shares.append(share)
    direction /= curvature
    _, change, inverse = memory[-1]
    scaled = inverse * dots(change / curvature, change)
    direction *= np.where(scaled > 0, 1.0 / np.where(scaled > 0, scaled, 1.0), 1.0)
    for (moved, change, inverse), share in zip(memory, reversed(shares), strict=True):
        direction += (share - inverse * dots(change, direction)) * moved
    return direction
