"""No iteration of EM lowers the bound if documents start each E-step where they ended the one before."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from palda import simulate
from palda.data import TextWords, Votes
from palda.engine import Threads
from palda.io import read_reuters
from palda.kernels import Beliefs, PassLimits
from palda.models.crowd import AnnotatorModel, OneCoinModel, PerClassModel, PublishedCoin, TwoCoinModel
from palda.models.topics import (
    DocumentShard,
    EMSettings,
    EStepInputs,
    Params,
    cut_shards,
    estimate_base_rates,
    lower_bound,
    shard_statistics,
    update_params,
)

pytestmark = pytest.mark.slow

N_TOPICS = 6
N_ITERATIONS = 40
PASS_LIMITS = PassLimits(max_passes=4, tolerance=1e-4)
INFERENCE = pytest.mark.parametrize("inference", ["joint", "mean_field"])


def start_of(counts: sparse.csr_array, labels: NDArray[np.int8], *, smoothed: bool) -> Params:
    """Random parameters: EM does not have to break a symmetry first."""
    rng = np.random.default_rng(5)
    n_words, n_classes = counts.shape[1], labels.shape[1]
    word_counts = rng.gamma(1.0, 1.0, (N_TOPICS, n_words)) + 0.1
    return Params(
        topic_prior=rng.uniform(0.5, 1.5, (n_classes, 2, N_TOPICS)),
        topic_words=word_counts / word_counts.sum(axis=1, keepdims=True),
        class_prior=estimate_base_rates(labels.sum(axis=0), len(labels)),
        word_counts=word_counts if smoothed else None,
        word_prior=0.1 if smoothed else None,
    )


def bounds_of_fit(
    counts: sparse.csr_array,
    known: NDArray[np.int8],
    votes: Votes | None,
    start: Params,
    inference: str,
    model: AnnotatorModel | None = None,
    fixed_log_odds: NDArray[np.float64] | None = None,
    shared_absence: bool = False,
) -> NDArray[np.float64]:
    """EM in which every document's beliefs are kept from iteration to iteration; fits start them afresh instead."""
    shards = cut_shards(counts, known, votes, n_shards=2, fixed_log_odds=fixed_log_odds)
    params = start
    if shared_absence:
        topic_prior = params.topic_prior.copy()
        topic_prior[:, 0] = topic_prior[0, 0]
        params = replace(params, topic_prior=topic_prior)
    if votes is not None:
        model = model or PublishedCoin()
        params = replace(params, annotators=model.start(votes.n_annotators, votes.n_classes))
    settings = EMSettings(
        engine=Threads(1),
        annotators=model,
        inference=inference,
        shared_absence=shared_absence,
        pass_limits=PASS_LIMITS,
    )
    beliefs = [first_beliefs(shard, params, inference) for shard in shards]
    bounds = []
    for _ in range(N_ITERATIONS):
        inputs = EStepInputs.of(params, settings)
        first, second = (shard_statistics(shards[k], inputs, beliefs[k]) for k in (0, 1))
        bounds.append(lower_bound(first + second, params, model))
        params, _ = update_params(params, first + second, settings)
    return np.array(bounds)


def first_beliefs(shard: DocumentShard, params: Params, inference: str) -> Beliefs | NDArray[np.float64]:
    n_docs, (n_classes, _, n_topics) = len(shard.known), params.topic_prior.shape
    if inference == "joint":
        return np.full((n_docs, n_classes, n_topics), 1.0 / n_topics)
    return Beliefs(
        np.broadcast_to(params.topic_prior + 1.0 / n_topics, (n_docs, *params.topic_prior.shape)).copy(),
        np.full((len(shard.bags.words), n_classes), 1.0 / n_classes),
        np.where(shard.known >= 0, shard.known, 0.5),
    )


def assert_never_falls(bounds: NDArray[np.float64]) -> None:
    growth = np.diff(bounds) / np.abs(bounds[1:])
    assert growth.min() >= -1e-9, (
        f"iteration {growth.argmin() + 2} lowered the bound by {-growth.min():.1e} of its size"
    )
    assert bounds[-1] > bounds[0]


@INFERENCE
@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("crowd", [False, True])
def test_the_bound_never_falls_on_simulated_documents(
    monkeypatch: pytest.MonkeyPatch, kernel: str, smoothed: bool, crowd: bool, inference: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    n_docs, length = (100, 40) if kernel == "compiled" else (10, 20)
    world = simulate.documents(n_docs, 4, N_TOPICS, 50, seed=2, doc_length=length)
    votes = simulate.crowd(world, [0.9, 0.8, 0.7, 0.6, 0.3], seed=3, votes_per_doc=3)[0] if crowd else None
    known = np.full_like(world.labels, -1) if crowd else world.labels
    start = start_of(world.corpus.counts, world.labels, smoothed=smoothed)
    assert_never_falls(bounds_of_fit(world.corpus.counts, known, votes, start, inference))


@INFERENCE
@pytest.mark.parametrize("model", [OneCoinModel(), TwoCoinModel(), PerClassModel()], ids=lambda m: type(m).__name__)
def test_the_bound_never_falls_with_any_annotator_model(model: AnnotatorModel, inference: str) -> None:
    world = simulate.documents(100, 4, N_TOPICS, 50, seed=2, doc_length=40)
    votes = simulate.crowd(world, [0.9, 0.8, 0.7, 0.6, 0.3], seed=3, votes_per_doc=3)[0]
    start = start_of(world.corpus.counts, world.labels, smoothed=True)
    unknown = np.full_like(world.labels, -1)
    assert_never_falls(bounds_of_fit(world.corpus.counts, unknown, votes, start, inference, model))


@INFERENCE
def test_the_bound_never_falls_when_label_probabilities_are_fixed(inference: str) -> None:
    world = simulate.documents(100, 4, N_TOPICS, 50, seed=2, doc_length=40)
    log_odds = np.random.default_rng(1).normal(0.0, 2.0, world.labels.shape)
    start = start_of(world.corpus.counts, world.labels, smoothed=True)
    unknown = np.full_like(world.labels, -1)
    assert_never_falls(bounds_of_fit(world.corpus.counts, unknown, None, start, inference, fixed_log_odds=log_odds))


@INFERENCE
@pytest.mark.parametrize("labels", ["known", "partly known", "unknown", "fixed probabilities"])
def test_the_bound_never_falls_with_one_absence_prior_for_all_classes(labels: str, inference: str) -> None:
    world = simulate.documents(80, 4, N_TOPICS, 50, seed=4, doc_length=40)
    rng = np.random.default_rng(0)
    known = world.labels.astype(np.int8).copy()
    known[rng.random(known.shape) < {"known": 0.0, "partly known": 0.5}.get(labels, 1.0)] = -1
    fixed = rng.normal(0.0, 2.0, known.shape) if labels == "fixed probabilities" else None
    start = start_of(world.corpus.counts, world.labels, smoothed=True)
    assert_never_falls(
        bounds_of_fit(world.corpus.counts, known, None, start, inference, fixed_log_odds=fixed, shared_absence=True)
    )


@INFERENCE
@pytest.mark.parametrize("crowd", [False, True])
@pytest.mark.parametrize("smoothed", [False, True])
def test_the_bound_never_falls_when_labels_are_partly_known(smoothed: bool, crowd: bool, inference: str) -> None:
    world = simulate.documents(80, 4, N_TOPICS, 50, seed=4, doc_length=40)
    labels = world.labels.astype(np.int8).copy()
    labels[np.random.default_rng(0).random(labels.shape) < 0.5] = -1
    votes = simulate.crowd(world, [0.9, 0.8, 0.7, 0.6, 0.3], seed=3, votes_per_doc=3)[0] if crowd else None
    start = start_of(world.corpus.counts, world.labels, smoothed=smoothed)
    assert_never_falls(bounds_of_fit(world.corpus.counts, labels, votes, start, inference))


@cache
def reuters_subset(folder: Path, n_docs: int) -> tuple[sparse.csr_array, NDArray[np.int8]]:
    """Documents of one file that have one of its six most frequent topics."""
    news = read_reuters(folder / "reuters21578" / "reut2-000.sgm.gz")
    classes = np.argsort(-(news.gold == 1).sum(axis=0), kind="stable")[:6]
    rows = np.flatnonzero((news.gold[:, classes] == 1).any(axis=1))[:n_docs]
    counts = TextWords(min_docs=3).fit_transform(news.corpus.take(rows))
    return sparse.csr_array(counts), news.gold[np.ix_(rows, classes)]


@pytest.mark.data
@INFERENCE
@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("crowd", [False, True])
def test_the_bound_never_falls_on_reuters(
    monkeypatch: pytest.MonkeyPatch, data_folder: Path, kernel: str, smoothed: bool, crowd: bool, inference: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    counts, labels = reuters_subset(data_folder, 120 if kernel == "compiled" else 6)
    votes = simulate.crowd(labels, [0.9, 0.8, 0.7, 0.6, 0.3], seed=1, votes_per_doc=3)[0] if crowd else None
    known = np.full_like(labels, -1) if crowd else labels
    start = start_of(counts, labels, smoothed=smoothed)
    assert_never_falls(bounds_of_fit(counts, known, votes, start, inference))
