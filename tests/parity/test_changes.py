"""The statistic of changes over time under random orders: the compiled kernel equals the reference."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
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
    draws = rng.integers(2**32, size=(n_orders, n_docs), dtype=np.uint32)
    factor = n_docs / (splits * (n_docs - splits))
    found, truth = (
        kernel.n_orders_above(scores, draws, splits, factor, 3.0, limit) for kernel in (compiled, reference)
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
            in_order = np.zeros((1, 50), dtype=np.uint32)
            assert kernel.n_orders_above(scores, in_order, splits, factor, 3.0, limit) == 1


def test_every_order_is_as_probable() -> None:
    """Which of four documents comes first, and which second."""
    draws, splits = np.random.default_rng(0).integers(2**32, size=(24_000, 4), dtype=np.uint32), np.array([2])
    for pair in combinations(range(4), 2):
        scores = np.zeros((4, 2))
        scores[list(pair), 0] = 1.0  # the sum over both reaches 2 if they come first
        for kernel in (compiled, reference):
            assert kernel.n_orders_above(scores, draws, splits, np.ones(1), 0.0, 4.0) == pytest.approx(4000, abs=250)
