"""Parameters do not depend on the number of shards or threads."""

from __future__ import annotations

import numpy as np
import pytest

from palda import simulate
from palda.engine import Threads
from palda.models.crowd import TwoCoinModel
from palda.models.topics import (
    EMSettings,
    Params,
    StepInfo,
    cut_shards,
    estimate_base_rates,
    label_probs,
    params_to_arrays,
    run_em,
)

WORLD = simulate.documents(120, 4, 5, 60, seed=6, doc_length=40, lengths="poisson")
VOTES, _ = simulate.crowd(WORLD, [0.9, 0.8, 0.7, 0.4], seed=6, votes_per_doc=3)
UNKNOWN = np.full(WORLD.labels.shape, -1, dtype=np.int8)


def fitted(
    n_shards: int | None, n_jobs: int, *, crowd: bool, smoothed: bool, inference: str
) -> tuple[Params, np.ndarray, list[float]]:
    counts = WORLD.corpus.counts
    votes = VOTES if crowd else None
    rng = np.random.default_rng(0)
    word_counts = rng.gamma(1.0, 1.0, (5, counts.shape[1])) + 0.1
    start = Params(
        topic_prior=rng.uniform(0.5, 1.5, (4, 2, 5)),
        topic_words=word_counts / word_counts.sum(axis=1, keepdims=True),
        class_prior=estimate_base_rates(WORLD.labels.sum(axis=0), len(WORLD)),
        word_counts=word_counts if smoothed else None,
        word_prior=0.1 if smoothed else None,
        annotators=TwoCoinModel().start(4, 4) if crowd else None,
    )
    shards = cut_shards(counts, UNKNOWN if crowd else WORLD.labels, votes, n_shards)
    annotators = TwoCoinModel() if crowd else None
    settings = EMSettings(engine=Threads(n_jobs), annotators=annotators, inference=inference, max_iter=8, tol=0.0)
    steps: list[StepInfo] = []
    run_em(shards, start, settings, steps.append)
    params = steps[-1].params
    assert params is not None
    return params, label_probs(shards, params, settings), [step.bound for step in steps]


def arrays_of(params: Params) -> dict[str, np.ndarray]:
    return params_to_arrays(params)


@pytest.mark.parametrize("inference", ["joint", "mean_field"])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("crowd", [False, True])
def test_one_two_and_seven_shards_give_the_same_parameters(crowd: bool, smoothed: bool, inference: str) -> None:
    whole, consensus, bounds = fitted(1, 1, crowd=crowd, smoothed=smoothed, inference=inference)
    for n_shards in (2, 7):
        params, probs, their_bounds = fitted(n_shards, 1, crowd=crowd, smoothed=smoothed, inference=inference)
        np.testing.assert_allclose(their_bounds, bounds, rtol=1e-9)
        rtol = 1e-6 if crowd else 1e-9  # Newton's method of the pool ends near the maximum
        np.testing.assert_allclose(probs, consensus, rtol=rtol, atol=1e-12)
        for name, array in arrays_of(params).items():
            np.testing.assert_allclose(array, arrays_of(whole)[name], rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("inference", ["joint", "mean_field"])
@pytest.mark.parametrize("crowd", [False, True])
def test_one_and_two_threads_give_the_same_bits(crowd: bool, inference: str) -> None:
    alone, consensus, bounds = fitted(7, 1, crowd=crowd, smoothed=True, inference=inference)
    params, probs, their_bounds = fitted(7, 2, crowd=crowd, smoothed=True, inference=inference)
    assert their_bounds == bounds
    np.testing.assert_array_equal(probs, consensus)
    for name, array in arrays_of(params).items():
        np.testing.assert_array_equal(array, arrays_of(alone)[name], err_msg=name)


def test_shards_contain_every_document_once_in_order_with_its_votes() -> None:
    shards = cut_shards(WORLD.corpus.counts, WORLD.labels, VOTES, 7)
    assert len(shards) == 7
    np.testing.assert_array_equal(np.concatenate([shard.known for shard in shards]), WORLD.labels)
    np.testing.assert_array_equal(np.concatenate([shard.bags.counts for shard in shards]), WORLD.corpus.counts.data)
    assert sum(len(shard.votes) for shard in shards if shard.votes is not None) == len(VOTES)
    ids = np.concatenate([shard.votes.doc_ids for shard in shards if shard.votes is not None])
    np.testing.assert_array_equal(ids, WORLD.doc_ids)


def test_more_shards_than_documents_leave_no_shard_without_documents() -> None:
    shards = cut_shards(WORLD.corpus.counts[:3], WORLD.labels[:3], None, 7)
    assert sum(len(shard.known) for shard in shards) == 3
    assert all(len(shard.known) for shard in shards)


def test_shards_in_memory_are_views_of_one_table() -> None:
    shards = cut_shards(WORLD.corpus.counts.astype(np.float64), WORLD.labels, None, 4)
    first, last = shards[0].bags, shards[-1].bags
    assert first.words.base is last.words.base is not None
    assert first.counts.base is last.counts.base is not None
    assert first.starts[0] == last.starts[0] == 0


def test_shards_have_about_the_same_number_of_entries() -> None:
    shards = cut_shards(WORLD.corpus.counts, WORLD.labels, None, 4)
    sizes = [len(shard.bags.words) for shard in shards]
    assert max(sizes) < 1.2 * min(sizes)
