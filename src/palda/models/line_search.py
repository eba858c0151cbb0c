"""A backtracking line search for many independent maximisations at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]

_SUFFICIENT_SHARE = 1e-4  # share of the expected gain that a step must reach (Armijo rule)


def line_search(
    start: Array,
    before: Array,
    gradient: Array,
    objective: Callable[[Array, Indices], Array],
    step: Callable[[float, Indices], tuple[Array, Array]],
    min_length: float,
) -> tuple[Array, NDArray[np.bool_]]:
    """Points after the longest step of 1, ½, ¼, ... that gains enough, and whether each row found one.

    ``start`` and ``gradient`` are (rows, parameters); ``before`` (rows,) is the objective at ``start``. ``step``
    returns, for a length and some rows, the new points and how far they moved in the gradient's coordinates. Rows
    without a sufficient step stay at ``start``.
    """
    result = start.copy()
    improved = np.zeros(len(start), dtype=bool)
    length = 1.0
    while length > min_length and not improved.all():
        rows = np.flatnonzero(~improved)
        candidate, change = step(length, rows)
        expected = np.sum(gradient[rows] * change, axis=1)
        accepted = (expected > 0) & (objective(candidate, rows) >= before[rows] + _SUFFICIENT_SHARE * expected)
        result[rows[accepted]] = candidate[accepted]
        improved[rows[accepted]] = True
        length /= 2
    return result, improved
