"""With every document's beliefs carried from round to round, no round of EM lowers the bound."""

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
from palda.io import read_reuters
from palda.kernels import PassLimits
from palda.models.crowd import AnnotatorModel, OneCoinModel, PerClassModel, PublishedCoin, TwoCoinModel
from palda.models.topics import EMSettings, Params, base_rate, carried_beliefs, cut_shards, em_rounds

pytestmark = pytest.mark.slow

N_TOPICS = 6
ROUNDS = 60
STOPPING = PassLimits(max_passes=4, tolerance=1e-4)
INFERENCE = pytest.mark.parametrize("inference", ["joint", "mean_field"])


def start_of(counts: sparse.csr_array, labels: NDArray[np.int8], *, smoothed: bool) -> Params:
    """Random parameters, without any symmetry that EM would first have to break."""
    rng = np.random.default_rng(5)
    n_words, n_classes = counts.shape[1], labels.shape[1]
    word_counts = rng.gamma(1.0, 1.0, (N_TOPICS, n_words)) + 0.1
    return Params(
        topic_prior=rng.uniform(0.5, 1.5, (n_classes, 2, N_TOPICS)),
        topic_words=word_counts / word_counts.sum(axis=1, keepdims=True),
        class_prior=base_rate.update(labels.sum(axis=0), len(labels)),
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
    given: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    shards = cut_shards(counts, known, votes, n_shards=2, given=given)
    settings = EMSettings(None, inference, max_iter=ROUNDS, tol=0.0, stopping=STOPPING)
    if votes is not None:
        model = model or PublishedCoin()
        settings = replace(settings, annotators=model)
        start = replace(start, annotators=model.start(votes.n_annotators, votes.n_classes))
    rounds = em_rounds(shards, start, settings, carried_beliefs(shards, start, inference))
    return np.array([info.bound for _, info in rounds])


def assert_never_falls(bounds: NDArray[np.float64]) -> None:
    growth = np.diff(bounds) / np.abs(bounds[1:])
    assert growth.min() >= -1e-9, f"round {growth.argmin() + 2} lowered the bound by {-growth.min():.1e} of its size"
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
def test_the_bound_never_falls_with_beliefs_about_annotators(model: AnnotatorModel, inference: str) -> None:
    world = simulate.documents(100, 4, N_TOPICS, 50, seed=2, doc_length=40)
    votes = simulate.crowd(world, [0.9, 0.8, 0.7, 0.6, 0.3], seed=3, votes_per_doc=3)[0]
    start = start_of(world.corpus.counts, world.labels, smoothed=True)
    unknown = np.full_like(world.labels, -1)
    assert_never_falls(bounds_of_fit(world.corpus.counts, unknown, votes, start, inference, model))


@INFERENCE
def test_the_bound_never_falls_when_labels_are_settled(inference: str) -> None:
    world = simulate.documents(100, 4, N_TOPICS, 50, seed=2, doc_length=40)
    given = np.random.default_rng(1).normal(0.0, 2.0, world.labels.shape)
    start = start_of(world.corpus.counts, world.labels, smoothed=True)
    unknown = np.full_like(world.labels, -1)
    assert_never_falls(bounds_of_fit(world.corpus.counts, unknown, None, start, inference, given=given))


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
    """Stories of one file that have one of its six most frequent topics."""
    stories = read_reuters(folder / "reuters21578" / "reut2-000.sgm.gz")
    classes = np.argsort(-(stories.gold == 1).sum(axis=0), kind="stable")[:6]
    rows = np.flatnonzero((stories.gold[:, classes] == 1).any(axis=1))[:n_docs]
    counts = TextWords(min_docs=3).fit_transform(stories.corpus.take(rows))
    return sparse.csr_array(counts), stories.gold[np.ix_(rows, classes)]


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
