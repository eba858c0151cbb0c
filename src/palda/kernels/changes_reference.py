"""The kernel of changes.py in plain NumPy; reference.py has it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


def n_orders_above(
    scores: Array, draws: NDArray[np.uint32], splits: NDArray[np.int64], factor: Array, cost: float, limit: float
) -> int:
    """Number of random orders in which the statistic of a change reaches ``limit`` at some split.

    ``scores`` (documents, 2) are summed in each order; ``splits`` are ascending numbers of documents before a change
    (maths, eq. 77). ``draws`` (orders, documents) tell which of the remaining documents is next, by its share of the
    range of numbers; with zeros the order is that of the data.
    """
    n_docs, every = len(scores), np.arange(len(draws))
    orders = np.tile(np.arange(n_docs), (len(draws), 1))
    for place in range(n_docs):
        chosen = place + (draws[:, place].astype(np.uint64) * np.uint64(n_docs - place) >> np.uint64(32)).astype(int)
        orders[every, place], orders[every, chosen] = orders[every, chosen], orders[every, place]
    sums = np.cumsum(scores[orders], axis=1)[:, splits - 1]
    common, opposite = np.moveaxis(np.square(sums) * factor[:, None], -1, 0)
    return int(np.sum((common + np.maximum(opposite - cost, 0.0)).max(axis=1) >= limit))
