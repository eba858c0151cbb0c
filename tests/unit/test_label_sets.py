"""Label-set profiles: recovery, choice of their number, and independence of the shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from palda import metrics, simulate
from palda.data import Votes
from palda.engine import Threads
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    OneCoinModel,
    ProfilePrior,
    Profiles,
    TwoCoinModel,
    choose_n_profiles,
    cut_votes,
    em,
    fit_crowd,
    initial_label_probs,
    initial_profiles,
    label_posterior,
    profile_e_step,
    start_state,
    votes_log_likelihood,
)
from palda.models.crowd.em import with_profiles

Labels = NDArray[np.int8]
ONE_COIN = OneCoinModel()

WEIGHTS = np.array([0.5, 0.3, 0.2])
RATES = np.array([[0.9, 0.9, 0.05, 0.05, 0.1, 0.3], [0.05, 0.1, 0.9, 0.8, 0.05, 0.3], [0.1, 0.05, 0.05, 0.2, 0.9, 0.3]])


def draw_labels(n_docs: int, seed: int, *, correlated: bool = True) -> Labels:
    rng = np.random.default_rng(seed)
    rates = RATES[rng.choice(3, n_docs, p=WEIGHTS)] if correlated else WEIGHTS @ RATES
    return (rng.random((n_docs, RATES.shape[1])) < rates).astype(np.int8)


def unknown(votes: Votes) -> Labels:
    return np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)


def initial_state(votes: Votes, model: OneCoinModel | TwoCoinModel) -> CrowdState:
    guess = initial_label_probs(votes, unknown(votes))
    belief = model.update(model.count(votes, guess), model.start(votes.n_annotators, votes.n_classes))
    return start_state(belief, guess)


def fit(
    votes: Votes,
    n_profiles: int,
    model: OneCoinModel | TwoCoinModel = ONE_COIN,
    *,
    n_shards: int | None = None,
    n_jobs: int = 1,
) -> em.CrowdFit:
    options = CrowdSettings(model, max_iter=60, tol=1e-7, engine=Threads(n_jobs))
    shards = cut_votes(votes, unknown(votes), n_shards=n_shards)
    found = fit_crowd(shards, initial_state(votes, model), options)
    if n_profiles > 1:
        found = fit_crowd(shards, with_profiles(shards, found, n_profiles, options, seed=0).state, options)
    return found


def test_profiles_are_recovered_from_votes() -> None:
    votes, _ = simulate.crowd(draw_labels(3000, 1), [0.9, 0.8, 0.85, 0.7, 0.75, 0.65], seed=1, votes_per_doc=3)
    found = fit(votes, 3).state.profiles
    distance = np.abs(found.rates[:, None] - RATES[None]).max(axis=2)
    rows, columns = linear_sum_assignment(distance)
    assert distance[rows, columns].max() < 0.08
    np.testing.assert_allclose(found.weights[rows], WEIGHTS[columns], atol=0.05)


def test_the_chosen_number_of_profiles_is_close_to_the_truth_and_improves_micro_f1() -> None:
    labels = draw_labels(1500, 2)
    votes, _ = simulate.crowd(labels, "paper", seed=2, votes_per_doc=2)
    chosen = choose_n_profiles(votes, unknown(votes), fit(votes, 1), CrowdSettings(OneCoinModel()))
    assert chosen in (2, 4)
    alone, together = (metrics.micro_f1(labels, fit(votes, n).label_probs > 0.5) for n in (1, chosen))
    assert together > alone + 0.015  # .018 to .034 in eight such worlds


@pytest.mark.parametrize("seed", range(4))
def test_independent_classes_get_one_profile(seed: int) -> None:
    votes, _ = simulate.crowd(draw_labels(800, seed, correlated=False), "paper", seed=seed, votes_per_doc=3)
    model = TwoCoinModel()
    assert choose_n_profiles(votes, unknown(votes), fit(votes, 1, model), CrowdSettings(model), seed=seed) == 1


def test_one_class_or_no_vote_needs_no_choice() -> None:
    model = TwoCoinModel()
    for votes in (Votes.from_array(np.ones((5, 2, 1))), Votes.empty(range(5), "abc", "xy")):
        assert choose_n_profiles(votes, unknown(votes), fit(votes, 1, model), CrowdSettings(model)) == 1


def test_one_two_and_seven_shards_give_the_same_state() -> None:
    votes, _ = simulate.crowd(draw_labels(300, 3), "paper", seed=3, votes_per_doc=3)
    whole = fit(votes, 3, n_shards=1)
    for n_shards in (2, 7):
        assert len(cut_votes(votes, unknown(votes), n_shards=n_shards)) == n_shards
        cut = fit(votes, 3, n_shards=n_shards)
        np.testing.assert_allclose(cut.log_likelihoods, whole.log_likelihoods, rtol=1e-9)
        np.testing.assert_allclose(cut.label_probs, whole.label_probs, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(cut.state.profiles.rates, whole.state.profiles.rates, rtol=1e-7)
        np.testing.assert_allclose(cut.state.belief.posterior, whole.state.belief.posterior, rtol=1e-7)


def test_one_and_two_threads_give_the_same_bits() -> None:
    votes, _ = simulate.crowd(draw_labels(300, 4), "paper", seed=4, votes_per_doc=3)
    alone, pair = (fit(votes, 3, n_shards=5, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(alone.label_probs, pair.label_probs)
    np.testing.assert_array_equal(alone.log_likelihoods, pair.log_likelihoods)


def test_a_fit_from_a_converged_state_converges_at_once() -> None:
    votes, _ = simulate.crowd(draw_labels(200, 5), "paper", seed=5, votes_per_doc=3)
    first = fit(votes, 3)
    again = fit_crowd(cut_votes(votes, unknown(votes)), first.state, CrowdSettings(OneCoinModel(), tol=1e-5))
    assert len(again.log_likelihoods) == 2
    assert again.converged
    np.testing.assert_allclose(again.label_probs, first.label_probs, atol=1e-3)


def test_other_evidence_adds_to_the_votes_in_nats() -> None:
    votes = Votes.empty(range(2), "ab", "x")
    model = OneCoinModel()
    state = start_state(model.start(1, 2), np.array([[0.5, 0.5], [0.5, 0.5]]))
    extra = np.array([[1.0, -2.0], [0.0, 30.0]])
    found = label_posterior(votes, unknown(votes), state, CrowdSettings(model), extra)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-extra)), rtol=1e-12)


def test_votes_on_one_class_inform_the_classes_that_occur_with_it() -> None:
    labels = draw_labels(1500, 6)
    votes, _ = simulate.crowd(labels, [0.9] * 5, seed=6, votes_per_doc=3)
    state = fit(votes, 3).state
    nobody = np.full((1, 5, 6), -1)
    nobody[0, :3, 0] = 1  # three votes for class 0, which comes with class 1, and none on the others
    new = Votes.from_array(nobody)
    found = label_posterior(new, unknown(new), state, CrowdSettings(OneCoinModel()))[0]
    assert found[0] > 0.95
    assert found[1] > 0.7
    assert found[2:5].max() < 0.25


def test_hidden_votes_are_predicted_by_mean_rates_and_beliefs() -> None:
    model = TwoCoinModel()
    belief = model.update(np.array([[[6.0, 2.0], [5.0, 3.0]]]), model.start(1, 2))
    held_out = Votes.from_array([[[1, 0]], [[-1, 1]]])
    probs = np.array([[0.8, 0.3], [0.5, 0.1]])
    specificity, sensitivity = belief.posterior[0, :, 0] / belief.posterior[0].sum(axis=1)
    says_yes = probs * sensitivity + (1 - probs) * (1 - specificity)
    expected = [np.log(says_yes[0, 0]) + np.log1p(-says_yes[0, 1]), np.log(says_yes[1, 1])]
    np.testing.assert_allclose(votes_log_likelihood(held_out, probs, belief), expected, rtol=1e-12)


def test_identical_documents_give_valid_initial_profiles() -> None:
    prior = ProfilePrior(np.array([0.2, 0.4]))
    found = initial_profiles(np.tile([1.0, 0.0], (6, 1)), 9, prior, np.random.default_rng(0))
    np.testing.assert_allclose(found.rates, np.tile([0.6, 0.2], (9, 1)))
    np.testing.assert_allclose(found.weights, 1 / 9)


def test_initial_profiles_are_distinct() -> None:
    probs = np.repeat(np.eye(4), 25, axis=0)
    found = initial_profiles(probs, 4, ProfilePrior(np.full(4, 0.25)), np.random.default_rng(0))
    assert sorted(found.rates.argmax(axis=1)) == [0, 1, 2, 3]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(1, 20),
    n_profiles=st.integers(1, 6),
    nats=st.sampled_from([0.0, 1.0, 50.0, 1000.0]),
)
def test_the_posterior_is_valid_for_any_evidence(seed: int, n_classes: int, n_profiles: int, nats: float) -> None:
    rng = np.random.default_rng(seed)
    log_odds = nats * rng.standard_normal((8, n_classes))
    known = rng.integers(-1, 2, log_odds.shape).astype(np.int8)
    profiles = Profiles(rng.dirichlet(np.ones(n_profiles)) + 1e-9, rng.uniform(1e-6, 1 - 1e-6, (n_profiles, n_classes)))
    found = profile_e_step(log_odds, known, profiles)
    assert np.isfinite(found.log_likelihoods).all()
    assert (found.label_probs >= 0).all()
    assert (found.label_probs <= 1).all()
    np.testing.assert_array_equal(found.label_probs[known >= 0], known[known >= 0])
    np.testing.assert_allclose(found.stats.profile_sums.sum(), 8)
    np.testing.assert_allclose(found.stats.label_sums.sum(axis=0), found.label_probs.sum(axis=0), atol=1e-9)
    order = rng.permutation(n_profiles)
    shuffled = profile_e_step(log_odds, known, Profiles(profiles.weights[order], profiles.rates[order]))
    np.testing.assert_allclose(shuffled.label_probs, found.label_probs, atol=1e-9)
    np.testing.assert_allclose(shuffled.log_likelihoods, found.log_likelihoods, rtol=1e-9, atol=1e-9)
