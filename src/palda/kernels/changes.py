"""Compiled test statistic of changes over time under random orders; the same function as in changes_reference.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


@njit(nogil=True, cache=True, error_model="numpy")
def n_orders_above(
    scores: Array, orders: NDArray[np.int64], splits: NDArray[np.int64], factor: Array, cost: float, limit: float
) -> int:
    """Number of ``orders`` (orders, documents) in which the statistic of a change reaches ``limit`` at some split.

    ``scores`` (documents, 2) are summed in each order; ``splits`` are ascending numbers of documents before a change.
    Sums are added as NumPy's cumsum does, so that the order of the data itself has the very statistic of the reference.
    """
    n_above = 0
    for number in range(len(orders)):
        common, opposite, place = 0.0, 0.0, 0
        for at in range(len(splits)):
            while place < splits[at]:
                row = np.uint64(orders[number, place])
                common += scores[row, np.uint64(0)]
                opposite += scores[row, np.uint64(1)]
                place += 1
            statistic = common * common * factor[at] + max(opposite * opposite * factor[at] - cost, 0.0)
            if statistic >= limit:
                n_above += 1
                break
    return n_above
