"""The link from support to truth: learned from known labels, alone and beside profiles and answers of a classifier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from palda import simulate
from palda.data import Votes
from palda.engine import Threads
from palda.models.crowd import (
    CrowdSettings,
    ProfilePrior,
    Profiles,
    SupportModel,
    cut_votes,
    first_state,
    fit_crowd,
    initial_label_probs,
    start_belief,
)
from palda.models.crowd.em import CrowdFit, gold_evidence, relinked, with_link
from palda.models.crowd.label_sets import shifted_profiles
from palda.models.crowd.link import learned_link, unlearned_link
from palda.models.crowd.support import KAPPA, as_support
from palda.models.crowd.traits import POINTS

SETTINGS = CrowdSettings(SupportModel(), engine=Threads(1))
NEWS = simulate.newsroom(200, seed=2)
VOTES = simulate.crowd(NEWS, [0.9, 0.8, 0.7], votes_per_doc=3, seed=2)[0]


def gold_of(n_docs: int) -> np.ndarray:
    known = np.full(NEWS.labels.shape, -1, dtype=np.int8)
    known[:n_docs] = NEWS.labels[:n_docs]
    return known


def fit(votes: Votes, known: np.ndarray) -> CrowdFit:
    start = first_state(
        votes, known, initial_label_probs(votes, known), start_belief(SETTINGS.annotators, votes), SETTINGS
    )
    return fit_crowd(cut_votes(votes, known), start, SETTINGS)


def test_offsets_are_log_odds_beside_the_support() -> None:
    """Labels drawn with the odds of the offsets: the link that they were drawn with is found, and not without them."""
    rng = np.random.default_rng(0)
    supports = rng.dirichlet(np.ones(len(POINTS)) * 0.05, size=(4000, 1))
    offsets = rng.normal(1.5, 1.0, (4000, 1))
    by_support = supports @ expit(KAPPA * POINTS - 0.5)
    labels = (rng.random((4000, 1)) < expit(logit(by_support) + offsets)).astype(np.int8)
    kappa, delta = learned_link(supports, labels, unlearned_link(1), offsets)[0]
    assert kappa == pytest.approx(KAPPA, rel=0.15)
    assert delta == pytest.approx(-0.5, abs=0.15)
    assert learned_link(supports, labels, unlearned_link(1))[0, 1] > 0.3


def test_shifted_profiles_have_the_mean_and_keep_their_order() -> None:
    profiles = Profiles(np.array([0.7, 0.3]), np.array([[0.1, 0.9, 1e-6], [0.6, 0.2, 0.5]]))
    mean = np.array([0.4, 0.3, 0.05])
    shifted = shifted_profiles(profiles, mean)
    np.testing.assert_allclose(shifted.weights @ shifted.rates, mean, atol=1e-6)
    assert (np.argsort(shifted.rates, axis=0) == np.argsort(profiles.rates, axis=0)).all()


def test_another_link_keeps_shares_of_present_labels_in_step() -> None:
    state = fit(VOTES, gold_of(0)).state
    judged = np.arange(10) != 3
    state = replace(state, prior=replace(ProfilePrior(state.profiles.rates[0]), keeps_rates=True))
    found = with_link(state, np.tile((1.0, -1.0), (10, 1)), judged)
    prevalence = as_support(found.belief).prevalence
    np.testing.assert_allclose(found.profiles.rates[0][judged], prevalence[judged], atol=1e-6)
    np.testing.assert_allclose(found.profiles.rates[0][3], state.profiles.rates[0][3], atol=1e-6)
    np.testing.assert_array_equal(found.prior.centre[judged], prevalence[judged])


def test_evidence_of_one_profile_is_the_support_alone() -> None:
    state = fit(VOTES, gold_of(0)).state
    found = gold_evidence(VOTES, state, SETTINGS, None)
    np.testing.assert_allclose(found.offsets, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.supports.sum(axis=2), 1.0)


def test_profiles_that_already_raise_known_documents_leave_less_to_the_link() -> None:
    """Known documents all have the classes of one profile: votes alone and profiles must not both make up for it."""
    rows = np.flatnonzero(NEWS.labels.sum(axis=1) >= 2)
    known = np.full(NEWS.labels.shape, -1, dtype=np.int8)
    known[rows] = NEWS.labels[rows]
    state = fit(VOTES, gold_of(0)).state
    mean = state.profiles.rates[0]
    rates = np.clip(np.stack((mean / 3.0, 7.0 * mean / 3.0)), 1e-3, 0.9)
    rates[0] = (mean - 0.5 * rates[1]) / 0.5
    several = replace(state, profiles=Profiles(np.array([0.5, 0.5]), np.clip(rates, 1e-3, 0.9)))
    settings = replace(SETTINGS, learn_profiles=False)
    alone, beside = (as_support(relinked(VOTES, known, one, settings).belief).link[0, 1] for one in (state, several))
    assert beside < alone
