"""Kernels give the same bits wherever their arrays lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from palda.kernels import (
    Bags,
    Beliefs,
    ClassWordProbs,
    GridEvidence,
    GridPrior,
    Labels,
    LabelVotes,
    PassLimits,
    Topics,
    VoteArrays,
    compiled,
)

N_DOCS, N_CLASSES, N_TOPICS, N_WORDS = 12, 4, 5, 40
N_RUNS = 300


class Inputs(NamedTuple):
    bags: Bags
    known: np.ndarray
    log_odds: np.ndarray
    topics: Topics
    class_word_probs: ClassWordProbs
    votes: VoteArrays
    log_ratios: np.ndarray
    weights: np.ndarray
    rates: np.ndarray
    by_label: LabelVotes
    probs: np.ndarray
    grid: GridPrior
    given: GridEvidence


def inputs() -> Inputs:
    rng = np.random.default_rng(4)
    words = [np.sort(rng.choice(N_WORDS, rng.integers(5, 20), replace=False)) for _ in range(N_DOCS)]
    starts = np.concatenate(([0], np.cumsum([len(doc) for doc in words])))
    return Inputs(
        Bags(starts, np.concatenate(words).astype(np.int32), rng.integers(1, 4, starts[-1]).astype(np.float64)),
        rng.integers(-1, 2, (N_DOCS, N_CLASSES)).astype(np.int8),
        rng.normal(size=(N_DOCS, N_CLASSES)),
        Topics(rng.uniform(0.1, 2.0, (N_CLASSES, 2, N_TOPICS)), rng.dirichlet(np.ones(N_WORDS), N_TOPICS).T.copy()),
        ClassWordProbs(*rng.dirichlet(np.ones(N_WORDS), (2, N_CLASSES)).transpose(0, 2, 1).copy()),
        VoteArrays(
            3 * np.arange(N_DOCS + 1),
            rng.integers(0, 4, 3 * N_DOCS).astype(np.int32),
            rng.integers(0, N_CLASSES, 3 * N_DOCS).astype(np.int32),
            rng.integers(0, 2, 3 * N_DOCS).astype(np.int8),
        ),
        rng.normal(size=(4, 1, 2)),
        rng.dirichlet(np.ones(9)),
        rng.uniform(0.05, 0.95, (N_CLASSES, 9)),
        LabelVotes(
            3 * np.arange(N_DOCS * N_CLASSES + 1),
            rng.integers(0, 8 * N_CLASSES, 3 * N_DOCS * N_CLASSES).astype(np.int32),
        ),
        rng.uniform(0.1, 0.9, (4 * N_CLASSES, 2, 17)),
        GridPrior(np.linspace(-4, 4, 17), *rng.dirichlet(np.ones(17), (3, N_CLASSES))),
        GridEvidence(
            np.empty((0, 0)), np.empty((0, 0)), rng.normal(size=(N_DOCS, N_CLASSES)), np.full(N_CLASSES, 0.1), 0.0
        ),
    )


def copied(value: Any) -> Any:
    """The same arrays at other addresses."""
    if isinstance(value, bool | float):
        return value
    return value.copy() if isinstance(value, np.ndarray) else type(value)(*map(copied, value))


def run_kernel(kernel: str, given: Inputs) -> Any:
    limits = PassLimits(8, 1e-3, extrapolate=True)
    if kernel == "joint":
        carried = np.zeros((0, N_CLASSES, N_TOPICS))
        return compiled.joint(given.bags, Labels(given.known, given.log_odds), given.topics, limits, carried)
    if kernel == "mean_field":
        beliefs = Beliefs(np.zeros((0, N_CLASSES, 2, N_TOPICS)), np.zeros((0, N_CLASSES)), np.zeros((0, N_CLASSES)))
        return compiled.mean_field(given.bags, Labels(given.known, given.log_odds), given.topics, limits, beliefs)
    if kernel == "explain_away":
        return compiled.explain_away(given.bags, given.log_odds, np.ones(N_DOCS), given.class_word_probs, limits)
    if kernel == "support_step":
        rates = given.rates[:, 0].copy()
        return compiled.support_step(
            given.by_label, given.probs, given.grid, given.given, given.log_odds, given.known, rates
        )
    return compiled.label_sets(given.votes, given.log_ratios, given.log_odds, given.known, given.weights, given.rates)


def results_at_many_addresses(kernel: str) -> Iterator[bytes]:
    """Blocks of many sizes are taken and freed between runs, so that arrays land in different places."""
    rng = np.random.default_rng(0)
    given, blocks = inputs(), []
    for _ in range(N_RUNS):
        blocks += [np.empty(size) for size in rng.integers(1, 60, 5)]
        yield b"".join(np.asarray(part).tobytes() for part in run_kernel(kernel, copied(given)))
        del blocks[:: rng.integers(2, 5)]


@pytest.mark.parametrize("kernel", ["joint", "mean_field", "explain_away", "label_sets", "support_step"])
def test_results_do_not_depend_on_memory_addresses(kernel: str) -> None:
    assert len(set(results_at_many_addresses(kernel))) == 1
