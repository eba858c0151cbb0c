"""The published model recovers the parameters that simulated the data: annotators, class rates and topics.

``python -m benchmarks recovery`` does the same on twice as many documents with five seeds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from palda import metrics, simulate
from palda.data import Votes
from palda.engine import Threads
from palda.estimators import PALDA, CrowdPALDA
from palda.models.topics import EMSettings, Params, cut_shards, run_em
from palda.simulate import SimulatedAnnotators, SimulatedDocuments

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]

N_DOCS, N_CLASSES, N_TOPICS, N_WORDS, N_TOKENS = 1500, 6, 12, 600, 80
SEEDS = [(0,), pytest.param((0, 1), marks=pytest.mark.long)]
EACH_SEED = [0, pytest.param(1, marks=pytest.mark.long)]


def own_topics(emphasis: float = 0.9, concentration: float = 3.0) -> Array:
    """α with one dominant topic per class and state; without one, topics are not identified."""
    mix = np.full((N_CLASSES, 2, N_TOPICS), (1 - emphasis) / N_TOPICS)
    for place in range(N_CLASSES):
        mix[place, 1, place] += emphasis
        mix[place, 0, N_CLASSES + place] += emphasis
    return concentration * mix


@cache
def documents(seed: int) -> SimulatedDocuments:
    return simulate.documents(
        N_DOCS,
        N_CLASSES,
        N_TOPICS,
        N_WORDS,
        seed=seed,
        doc_length=N_TOKENS,
        topic_prior=own_topics(),
        word_concentration=0.02,
    )


@cache
def crowd(profile: str, seed: int) -> tuple[Votes, SimulatedAnnotators]:
    return simulate.crowd(documents(seed), profile, seed=seed, votes_per_doc=5)


@cache
def crowd_fit(profile: str, seed: int) -> CrowdPALDA:
    """The published model after a few iterations: enough for ρ, ξ and topics."""
    model = CrowdPALDA.as_published(N_TOPICS, tol=3e-3, n_jobs=1, random_state=seed)
    return model.fit(documents(seed).corpus, crowd(profile, seed)[0])


@cache
def clean_fit(seed: int) -> PALDA:
    model = PALDA.as_published(N_TOPICS, tol=1e-3, n_jobs=1, random_state=seed)
    return model.fit(documents(seed).corpus, documents(seed).labels)


def matched_cosines(found: Array, true: Array) -> Array:
    """Cosine of every true topic with its match, for the best one-to-one matching; shape (n_topics,)."""
    cosines = true @ found.T / np.outer(np.linalg.norm(true, axis=1), np.linalg.norm(found, axis=1))
    matched: Array = cosines[linear_sum_assignment(-cosines)]
    return matched


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("profile", ["paper", "adversarial"])
def test_annotator_quality_is_nearly_as_exact_as_with_known_labels(profile: str, seeds: tuple[int, ...]) -> None:
    errors, floors = [], []
    for seed in seeds:
        votes, people = crowd(profile, seed)
        errors.append(metrics.annotator_rmse(crowd_fit(profile, seed).annotator_quality_["quality"], people.quality))
        floors.append(metrics.oracle_rmse(votes, documents(seed).labels, people.quality))
    assert np.mean(errors) <= 1.3 * np.mean(floors)


@pytest.mark.parametrize(("profile", "largest_error"), [("paper", 0.03), ("adversarial", 0.05)])
@pytest.mark.parametrize("seed", EACH_SEED)
def test_class_rates_are_recovered_from_votes(profile: str, largest_error: float, seed: int) -> None:
    found = crowd_fit(profile, seed).class_prior_
    np.testing.assert_allclose(found, documents(seed).class_prior, atol=largest_error)


def test_class_rates_of_known_labels_are_their_frequencies() -> None:
    np.testing.assert_allclose(clean_fit(0).class_prior_, documents(0).labels.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", EACH_SEED)
def test_topics_are_recovered_from_known_labels(seed: int) -> None:
    assert matched_cosines(clean_fit(seed).topic_words_, documents(seed).topic_words).mean() > 0.95


@pytest.mark.parametrize("seed", EACH_SEED)
@pytest.mark.parametrize("profile", ["paper", "adversarial"])
def test_topics_are_recovered_from_votes(profile: str, seed: int) -> None:
    assert matched_cosines(crowd_fit(profile, seed).topic_words_, documents(seed).topic_words).mean() > 0.9


@pytest.mark.parametrize("profile", ["paper", "adversarial"])
def test_the_consensus_is_more_accurate_than_the_majority_vote(profile: str) -> None:
    votes, _ = crowd(profile, 0)
    truth = documents(0).labels
    majority = 2 * votes.yes_per_pair() > votes.per_pair()
    consensus = crowd_fit(profile, 0).consensus_ > 0.5
    assert metrics.hamming_accuracy(truth, consensus.astype(int)) > 0.95
    assert metrics.hamming_accuracy(truth, majority.astype(int)) < 0.95


def test_em_started_at_the_true_parameters_stays_near_them() -> None:
    simulated = documents(0)
    truth = Params(simulated.topic_prior.copy(), simulated.topic_words, simulated.class_prior)
    shards = cut_shards(simulated.corpus.counts, simulated.labels)
    params = run_em(shards, truth, EMSettings(max_iter=10, tol=0.0, engine=Threads(1))).params
    assert params is not None
    assert matched_cosines(params.topic_words, simulated.topic_words).mean() > 0.95


def test_the_first_iterations_raise_the_bound_clearly() -> None:
    bounds = clean_fit(0).lower_bounds_
    growth = np.diff(bounds) / np.abs(bounds[1:])
    assert growth[0] > 0.01
    assert (growth[:3] > 1e-4).all()
