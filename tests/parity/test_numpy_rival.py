"""The NumPy code that benchmarks compare with computes the published E-step."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palda.kernels import Bags, Beliefs, Labels, PassLimits, Topics, reference

N_DOCS, N_CLASSES, N_TOPICS, N_WORDS, N_PASSES = 7, 3, 4, 12, 10


@pytest.fixture(scope="module")
def rivals() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "lda_peers.py"))


def tiny_corpus(rng: np.random.Generator) -> Bags:
    """Documents with 1 to all distinct words."""
    words = [np.sort(rng.choice(N_WORDS, rng.integers(1, N_WORDS + 1), replace=False)) for _ in range(N_DOCS)]
    starts = np.concatenate(([0], np.cumsum([len(doc) for doc in words])))
    counts = rng.integers(1, 5, starts[-1]).astype(np.float64)
    return Bags(starts.astype(np.int64), np.concatenate(words).astype(np.int32), counts)


@pytest.mark.parametrize("layout", ["padded_batches", "flat_batches"])
@pytest.mark.parametrize("docs_per_batch", [1, 3, 100])
def test_ten_passes_equal_those_of_the_reference(rivals: dict[str, Any], layout: str, docs_per_batch: int) -> None:
    rng = np.random.default_rng(5)
    bags = tiny_corpus(rng)
    known = rng.integers(0, 2, (N_DOCS, N_CLASSES)).astype(np.int8)
    topics = Topics(rng.uniform(0.05, 2.0, (N_CLASSES, 2, N_TOPICS)), rng.dirichlet(np.full(N_WORDS, 0.3), N_TOPICS).T)
    nothing = Beliefs(np.zeros((0, N_CLASSES, 2, N_TOPICS)), np.zeros((0, N_CLASSES)), np.zeros((0, N_CLASSES)))
    expected = reference.mean_field(
        bags, Labels(known, np.zeros(known.shape)), topics, PassLimits(N_PASSES, -1.0), nothing
    )
    found = rivals["numpy_mean_field"](rivals[layout](bags, docs_per_batch), known, topics, N_PASSES)
    for name in found._fields:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12, err_msg=name)
