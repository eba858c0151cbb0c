"""The kernel of changes.py in plain NumPy; reference.py has it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


def n_orders_above(
    scores: Array, orders: NDArray[np.int64], splits: NDArray[np.int64], factor: Array, cost: float, limit: float
) -> int:
    """Number of ``orders`` (orders, documents) in which the statistic of a change reaches ``limit`` at some split.

    ``scores`` (documents, 2) are summed in each order; ``splits`` are ascending numbers of documents before a change
    (maths, eq. 77).
    """
    sums = np.cumsum(scores[orders], axis=1)[:, splits - 1]
    common, opposite = np.moveaxis(np.square(sums) * factor[:, None], -1, 0)
    return int(np.sum((common + np.maximum(opposite - cost, 0.0)).max(axis=1) >= limit))
