"""The statistic of changes over time under random orders: the compiled kernel equals the reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from palda.kernels import compiled, reference


@given(st.integers(3, 60), st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 4.0, 12.0]))
@settings(max_examples=60)
def test_numbers_of_orders_equal_the_reference(n_docs: int, n_orders: int, seed: int, limit: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_docs, 2))
    splits = np.flatnonzero(rng.random(n_docs - 1) < 0.7) + 1
    splits = splits if len(splits) else np.array([1])
    orders = rng.permuted(np.tile(np.arange(n_docs), (n_orders, 1)), axis=1)
    factor = n_docs / (splits * (n_docs - splits))
    found, truth = (
        kernel.n_orders_above(scores, orders, splits, factor, 3.0, limit) for kernel in (compiled, reference)
    )
    assert found == truth


def test_an_order_reaches_its_own_statistic() -> None:
    """A p-value counts the orders that are as extreme as the data, to the last bit."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores, splits = rng.normal(size=(50, 2)) * 3.0, np.arange(5, 46)
        factor = 50 / (splits * (50 - splits))
        common, opposite = (np.cumsum(scores, axis=0)[splits - 1] ** 2 * factor[:, None]).T
        limit = float((common + np.maximum(opposite - 3.0, 0.0)).max())
        for kernel in (compiled, reference):
            assert kernel.n_orders_above(scores, np.arange(50)[None], splits, factor, 3.0, limit) == 1
