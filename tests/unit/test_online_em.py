"""Online EM reaches nearly the bound of batch EM in fewer passes, with the same bits on any number of threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palda import simulate
from palda.engine import Threads
from palda.errors import PaldaError
from palda.io import catalog
from palda.models.crowd import TwoCoinModel, initial_label_probs
from palda.models.topics import (
    DocumentShard,
    EMSettings,
    Params,
    StepInfo,
    TopicPlan,
    TrainingData,
    cut_pieces,
    default_n_topics,
    implied_stats,
    labelled_shards,
    run_em,
    start_params,
    total_statistics,
    update_params,
)

WORLD = simulate.documents(600, 4, 6, 60, seed=3, doc_length=40)
COUNTS, LABELS = WORLD.corpus.counts[:450], WORLD.labels[:450].astype(float)
HELD_OUT = labelled_shards(WORLD.corpus.counts[450:], WORLD.labels[450:].astype(float))
SETTINGS = EMSettings(engine=Threads(1), max_iter=60, tol=1e-4)


def first_params(*, smoothing: bool = True, settings: EMSettings = SETTINGS) -> Params:
    return start_params(COUNTS, LABELS, TopicPlan(6, smoothing, settings, [0]), 0)


def held_out_bound(shards: list[DocumentShard], params: Params, settings: EMSettings = SETTINGS) -> float:
    """Bound per document under fixed parameters."""
    stats = total_statistics(shards, params, settings)
    return stats.bound / stats.n_docs + float(np.log1p(-params.class_prior).sum())


@pytest.mark.parametrize("inference", ["joint", "mean_field"])
@pytest.mark.parametrize("smoothing", [True, False])
def test_five_passes_come_within_one_percent_of_batch_em(inference: str, smoothing: bool) -> None:
    settings = replace(SETTINGS, inference=inference)
    start, shards = first_params(smoothing=smoothing), labelled_shards(COUNTS, LABELS)
    batch = run_em(shards, start, settings).params
    online = run_em(shards, start, replace(settings, online_seed=0, max_iter=5)).params
    assert batch is not None
    assert online is not None
    expected = held_out_bound(HELD_OUT, batch, settings)
    assert held_out_bound(HELD_OUT, online, settings) > expected - 0.01 * abs(expected)


def test_online_em_converges_and_reports_estimated_bounds() -> None:
    shards, steps = labelled_shards(COUNTS, LABELS), list[StepInfo]()
    run_em(shards, first_params(), replace(SETTINGS, tol=1e-3, online_seed=0), steps.append)
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert 1 < len(steps) < 60
    assert steps[-1].converged
    assert all(step.is_estimate for step in steps)
    assert steps[-1].params is not None
    exact = run_em(shards, steps[-1].params, replace(SETTINGS, max_iter=1)).bound
    assert abs(steps[-1].bound - exact) < 0.02 * abs(exact)


def test_results_depend_on_the_seed_and_not_on_the_number_of_threads() -> None:
    shards = labelled_shards(COUNTS, LABELS)

    def found(n_jobs: int, seed: int) -> np.ndarray:
        settings = replace(SETTINGS, max_iter=2, tol=0.0, engine=Threads(n_jobs), online_seed=seed)
        params = run_em(shards, first_params(), settings).params
        assert params is not None
        return params.topic_words

    np.testing.assert_array_equal(found(1, 0), found(3, 0))
    assert not np.array_equal(found(1, 0), found(1, 1))


def test_the_posterior_of_an_annotator_counts_each_of_their_votes_once() -> None:
    votes, _ = simulate.crowd(WORLD.labels[:450], [0.95, 0.8, 0.6], seed=1, votes_per_doc=2)
    known = np.full(LABELS.shape, -1, dtype=np.int8)
    model = TwoCoinModel()
    data = TrainingData(COUNTS, known, initial_label_probs(votes, known), votes, model.start(3, LABELS.shape[1]))
    settings = replace(SETTINGS, annotators=model, online_seed=0, max_iter=5, tol=0.0)
    start = replace(
        start_params(COUNTS, data.guess, TopicPlan(6, True, settings, [0]), 0),
        annotators=model.update(model.count(votes, data.guess), data.belief),
    )
    params = run_em(data.shards(), start, settings).params
    assert params is not None
    belief = params.annotators
    assert belief is not None
    np.testing.assert_allclose((belief.posterior - belief.pool).sum(axis=(1, 2)), votes.per_annotator(), rtol=1e-9)
    sensitivity = belief.posterior[:, 1, 0] / belief.posterior[:, 1].sum(axis=-1)
    assert sensitivity[0] > sensitivity[2]


def test_pieces_contain_all_documents_in_order() -> None:
    shards = labelled_shards(COUNTS, LABELS)
    pieces = cut_pieces(shards, 16)
    assert len(pieces) >= 16
    np.testing.assert_array_equal(np.concatenate([p.bags.words for p in pieces]), COUNTS.indices)
    np.testing.assert_array_equal(np.concatenate([p.known for p in pieces]), np.concatenate([s.known for s in shards]))


def test_the_m_step_of_implied_statistics_gives_the_parameters_back() -> None:
    for smoothing in (True, False):
        params = run_em(labelled_shards(COUNTS, LABELS), first_params(smoothing=smoothing), SETTINGS).params
        assert params is not None
        again, _ = update_params(params, implied_stats(params, len(LABELS), float(COUNTS.sum())), SETTINGS)
        np.testing.assert_allclose(again.topic_prior, params.topic_prior, rtol=1e-5)
        np.testing.assert_allclose(again.topic_words, params.topic_words, atol=1e-4)


@pytest.mark.long
@pytest.mark.data
def test_five_passes_over_reuters_come_within_one_percent_of_batch_em() -> None:
    try:
        train, test = catalog.load("reuters")
    except PaldaError as missing:
        pytest.skip(str(missing))
    counts, labels = train.X[:600], train.Y[:600].astype(float)
    held_out = labelled_shards(test.X[:200], test.Y[:200].astype(float))
    settings = EMSettings(engine=Threads(1), max_iter=200, tol=1e-4)
    start = start_params(counts, labels, TopicPlan(default_n_topics(counts, 10, "topics"), True, settings, [0]), 0)
    shards = labelled_shards(counts, labels)
    batch = run_em(shards, start, settings).params
    online = run_em(shards, start, replace(settings, online_seed=0, max_iter=5, tol=0.0)).params
    assert batch is not None
    assert online is not None
    expected = held_out_bound(held_out, batch)
    assert held_out_bound(held_out, online) > expected - 0.01 * abs(expected)
