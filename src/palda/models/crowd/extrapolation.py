"""Anderson acceleration of EM: where the last steps point to (maths, eq. 101).

Plain EM moves slowly along directions in which the data say little. The steps of the last few states tell how a step
changes with the state, and so where it would be 0 (Walker and Ni 2011; Henderson and Varadhan 2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from palda.data import Array

_MAX_STEPS = 7
_RIDGE, _MORE_RIDGE, _LESS_RIDGE = 1e-6, 100.0, 0.1  # relative; after a point that was refused, and one that was not
_TINY = 1e-300


class Extrapolation:
    """The last steps of EM, and where they point to."""

    def __init__(self) -> None:
        self.ridge = _RIDGE
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.ends: list[Array] = []
        self.moves: list[Array] = []

    def add(self, before: Array, after: Array) -> None:
        """Join a step of plain EM."""
        self.ends = [*self.ends[1 - _MAX_STEPS :], after]
        self.moves = [*self.moves[1 - _MAX_STEPS :], after - before]

    def refuse(self) -> None:
        """The last point had a lower objective: only the last step counts, and the next points are nearer to it."""
        self.ends, self.moves, self.ridge = self.ends[-1:], self.moves[-1:], self.ridge * _MORE_RIDGE

    def accept(self) -> None:
        """The last point had a higher objective."""
        self.ridge = max(self.ridge * _LESS_RIDGE, _RIDGE)

    def point(self, information: Array) -> Array:
        """The point at which the step would be shortest; the end of the last step if there is no other.

        Steps are compared in units of standard errors: ``information`` is about that of each coordinate. Sums do not
        use BLAS, in which their order depends on the number of threads.
        """
        if len(self.moves) < 2:
            return self.ends[-1]
        changes = np.diff(self.moves, axis=0)
        weighted = changes * information
        products = np.einsum("ap,bp->ab", weighted, changes)
        diagonal = np.diag_indices(len(products))
        products[diagonal] = products[diagonal] * (1.0 + self.ridge) + 1e-12 * products.trace() + _TINY
        shares = np.linalg.solve(products, np.einsum("ap,p->a", weighted, self.moves[-1]))
        point: Array = self.ends[-1] - np.einsum("a,ap->p", shares, np.diff(self.ends, axis=0))
        return point
