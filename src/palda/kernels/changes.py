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
    scores: Array, draws: NDArray[np.uint32], splits: NDArray[np.int64], factor: Array, cost: float, limit: float
) -> int:
    """Number of random orders in which the statistic of a change reaches ``limit`` at some split.

    ``scores`` (documents, 2) are summed in each order; ``splits`` are ascending numbers of documents before a change.
    ``draws`` (orders, documents) tell which of the remaining documents is next, by its share of the range of numbers;
    with zeros the order is that of the data. An order ends at the split that reaches the limit. Sums are added as
    NumPy's cumsum does, so that the order of the data itself has the very statistic of the reference.
    """
    n_above, n_docs = 0, len(scores)
    rows = np.empty(n_docs, dtype=np.uint32)
    for number in range(len(draws)):
        for row in range(n_docs):
            rows[row] = row
        common, opposite, place = 0.0, 0.0, 0
        for at in range(len(splits)):
            while place < splits[at]:
                chosen = place + np.int64(
                    (np.uint64(draws[number, place]) * np.uint64(n_docs - place)) >> np.uint64(32)
                )
                row = rows[chosen]
                rows[chosen] = rows[place]
                common += scores[row, 0]
                opposite += scores[row, 1]
                place += 1
            statistic = common * common * factor[at] + max(opposite * opposite * factor[at] - cost, 0.0)
            if statistic >= limit:
                n_above += 1
                break
    return n_above
