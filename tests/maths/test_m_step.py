"""The M-step gives the parameters that maximise the bound under the posterior of the E-step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from palda.data import Votes
from palda.engine import Threads
from palda.models.crowd import PublishedCoin
from palda.models.topics import EMSettings, Params, SufficientStats, estimate_base_rates, fit_dirichlet, update_params

RNG = np.random.default_rng(0)
PARAMS = Params(np.ones((2, 2, 3)), np.full((3, 5), 0.2), np.array([0.3, 0.6]))
WORD_COUNTS = RNG.gamma(1.0, 4.0, (5, 3))
SETTINGS = EMSettings(engine=Threads(1))


def stats_of(word_counts: np.ndarray) -> SufficientStats:
    blocks = np.full((2, 2), 10.0)
    log_theta = 10.0 * np.log(RNG.dirichlet(np.ones(3), (2, 2)))
    return SufficientStats(word_counts, log_theta, blocks, np.array([3.0, 6.0]), np.zeros(0), 0.0, 10, 0, 0)


def test_quality_is_the_expected_share_of_correct_votes() -> None:
    votes = Votes.from_array([[[1, 0], [-1, 1]], [[0, -1], [-1, -1]]], annotators=["a", "b"])
    label_probs = np.array([[0.9, 0.2], [0.4, 0.5]])
    coins = PublishedCoin()
    found = coins.update(coins.count(votes, label_probs), coins.start(2, 2)).posterior
    np.testing.assert_allclose(found[:, 0] / found.sum(axis=1), [(0.9 + 0.8 + 0.6) / 3, 0.2], rtol=1e-14)


def test_base_rates_are_mean_label_probabilities_within_limits() -> None:
    np.testing.assert_allclose(estimate_base_rates(np.array([3.0, 0.0, 10.0]), 10), [0.3, 1e-6, 1 - 1e-6], rtol=1e-12)


def test_topics_are_normalised_word_counts() -> None:
    topics, _ = update_params(PARAMS, stats_of(WORD_COUNTS), SETTINGS)
    np.testing.assert_allclose(topics.topic_words, (WORD_COUNTS / WORD_COUNTS.sum(axis=0)).T, rtol=1e-14)
    assert topics.word_counts is None
    assert topics.word_prior is None


def test_a_topic_without_words_keeps_its_distribution() -> None:
    counts = WORD_COUNTS.copy()
    counts[:, 1] = 0.0
    topics, _ = update_params(PARAMS, stats_of(counts), SETTINGS)
    np.testing.assert_array_equal(topics.topic_words[1], PARAMS.topic_words[1])


def test_smoothed_topics_are_the_counts_plus_the_prior() -> None:
    smoothed = Params(PARAMS.topic_prior, PARAMS.topic_words, PARAMS.class_prior, np.ones((3, 5)), 0.25)
    topics, _ = update_params(smoothed, stats_of(WORD_COUNTS), SETTINGS)
    assert topics.word_counts is not None
    np.testing.assert_allclose(topics.word_counts, WORD_COUNTS.T + 0.25, rtol=1e-14)
    np.testing.assert_allclose(topics.topic_words.sum(axis=1), 1.0, rtol=1e-14)


def test_the_word_prior_maximises_its_part_of_the_bound() -> None:
    smoothed = Params(PARAMS.topic_prior, PARAMS.topic_words, PARAMS.class_prior, np.ones((3, 5)), 0.25)
    topics, _ = update_params(smoothed, stats_of(WORD_COUNTS), SETTINGS)
    assert topics.word_counts is not None
    assert topics.word_prior is not None
    chi = topics.word_counts
    log_sum = float(np.sum(digamma(chi) - digamma(chi.sum(axis=1, keepdims=True))))

    def part(eta: float) -> float:
        return float(3 * (gammaln(5 * eta) - 5 * gammaln(eta)) + eta * log_sum)

    for near in (0.9, 0.999, 1.001, 1.1):
        assert part(topics.word_prior) > part(topics.word_prior * near)


@pytest.mark.parametrize("n_blocks", [0.0, 10.0])
def test_a_state_without_documents_keeps_its_topic_prior(n_blocks: float) -> None:
    stats = stats_of(WORD_COUNTS)
    stats.n_blocks[1, 1] = n_blocks
    updated = update_params(PARAMS, stats, SETTINGS)[0].topic_prior
    assert np.array_equal(updated[1, 1], PARAMS.topic_prior[1, 1]) == (n_blocks == 0)
    assert not np.array_equal(updated[0, 0], PARAMS.topic_prior[0, 0])


def test_a_shared_absence_prior_is_fitted_to_the_blocks_of_all_absent_classes() -> None:
    stats = stats_of(WORD_COUNTS)
    updated = update_params(PARAMS, stats, replace(SETTINGS, shared_absence=True))[0].topic_prior
    all_absences = fit_dirichlet(np.ones((1, 3)), stats.log_theta[:, 0].sum(axis=0)[None], np.array([20.0])).value[0]
    np.testing.assert_allclose(updated[:, 0], [all_absences, all_absences], rtol=1e-12)
    separate = update_params(PARAMS, stats, SETTINGS)[0].topic_prior
    np.testing.assert_allclose(updated[:, 1], separate[:, 1], rtol=1e-12)
    assert not np.allclose(separate[0, 0], separate[1, 0])
