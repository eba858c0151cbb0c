"""The posterior over label sets equals Bayes' rule on every label set and profile; EM never lowers its objective."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from palda import simulate
from palda.data import Votes
from palda.estimators import ANNOTATOR_MODELS
from palda.kernels import LabelSetResult, VoteArrays, compiled, reference
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    ProfilePrior,
    Profiles,
    SupportBelief,
    TwoCoinModel,
    cut_votes,
    fit_crowd,
    initial_label_probs,
    label_posterior,
    label_sets,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
    start_state,
)
from palda.models.crowd.em import with_profiles

Array = NDArray[np.float64]

# Three kinds of documents: {0, 1}, {2, 3} and, now and then, {4}.
SETS = np.array([[0.9, 0.8, 0.1, 0.05, 0.1], [0.05, 0.1, 0.9, 0.85, 0.1], [0.1, 0.1, 0.1, 0.1, 0.8]])


def label_sets_of(n_docs: int, seed: int) -> NDArray[np.int8]:
    rng = np.random.default_rng(seed)
    return (rng.random((n_docs, 5)) < SETS[rng.choice(3, n_docs, p=[0.45, 0.4, 0.15])]).astype(np.int8)


def random_case(
    seed: int, n_docs: int, n_classes: int, n_profiles: int, nats: float
) -> tuple[Array, NDArray[np.int8], Profiles]:
    rng = np.random.default_rng(seed)
    log_odds = nats * rng.standard_normal((n_docs, n_classes))
    known = np.where(rng.random(log_odds.shape) < 0.2, rng.integers(0, 2, log_odds.shape), -1).astype(np.int8)
    profiles = Profiles(rng.dirichlet(np.ones(n_profiles)), rng.uniform(0.01, 0.99, (n_profiles, n_classes)))
    return log_odds, known, profiles


def enumerated(log_odds: Array, known: NDArray[np.int8], profiles: Profiles) -> tuple[Array, Array, float, Array]:
    """Label probabilities, profile probabilities, log-likelihood and joint probabilities of one document."""
    sets = np.array([s for s in product((0, 1), repeat=len(log_odds)) if not np.any((known >= 0) & (known != s))])
    prior = np.array([stats.bernoulli.logpmf(sets, rates).sum(axis=1) for rates in profiles.rates])
    joint = np.log(profiles.weights)[:, None] + prior + sets @ log_odds
    total = logsumexp(joint)
    probs = np.exp(joint - total)
    return probs.sum(axis=0) @ sets, probs.sum(axis=1), float(total), probs @ sets


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("n_profiles", [1, 3])
def test_the_posterior_is_that_of_enumerating_all_label_sets(
    monkeypatch: pytest.MonkeyPatch, kernel: str, n_profiles: int
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    log_odds, known, profiles = random_case(0, 20, 5, n_profiles, 2.0)
    found = profile_e_step(log_odds, known, profiles)
    by_hand = [enumerated(log_odds[d], known[d], profiles) for d in range(20)]
    for d, (labels, _, log_likelihood, _) in enumerate(by_hand):
        np.testing.assert_allclose(found.label_probs[d], labels, rtol=1e-12)
        assert found.log_likelihoods[d] == pytest.approx(log_likelihood, rel=1e-12)
    np.testing.assert_allclose(found.stats.profile_sums, sum(case[1] for case in by_hand))
    np.testing.assert_allclose(found.stats.label_sums, sum(case[3] for case in by_hand))


def random_votes(seed: int, n_docs: int, n_classes: int) -> Votes:
    """Votes of five annotators; some documents have none."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (n_docs, 5, n_classes))
    table[rng.random(table.shape) < 0.6] = -1
    table[:: n_docs // 3] = -1
    return Votes.from_array(table)


@pytest.mark.parametrize(
    ("n_docs", "n_classes", "n_profiles", "nats"),
    [(30, 1, 1, 1.0), (33, 7, 4, 3.0), (70, 64, 9, 30.0), (32, 130, 6, 1000.0)],
)
@pytest.mark.parametrize("given", ["evidence", "votes", "both", "both, rates per class"])
def test_compiled_equals_reference(n_docs: int, n_classes: int, n_profiles: int, nats: float, given: str) -> None:
    log_odds, known, profiles = random_case(1, n_docs, n_classes, n_profiles, nats)
    votes = random_votes(2, n_docs, n_classes)
    n_columns = n_classes if "per class" in given else 1
    log_ratios = nats / 5 * np.random.default_rng(3).standard_normal((5, n_columns, 2))
    arrays = VoteArrays(votes.doc_starts, votes.annotator, votes.label, votes.value)
    arguments = (
        VoteArrays(*(column[:0] for column in arrays)) if given == "evidence" else arrays,
        log_ratios,
        log_odds[:0] if given == "votes" else log_odds,
        known,
        profiles.weights,
        np.ascontiguousarray(profiles.rates.T),
    )
    result, truth = compiled.label_sets(*arguments), reference.label_sets(*arguments)
    for name in LabelSetResult._fields:
        left, right = getattr(result, name), getattr(truth, name)
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
def test_votes_give_the_same_posterior_and_counts_as_their_evidence(annotators: str) -> None:
    model = ANNOTATOR_MODELS[annotators]()
    votes = random_votes(4, 50, 6)
    _, known, profiles = random_case(5, 50, 6, 3, 1.0)
    counts = model.count(votes, np.random.default_rng(6).random((50, 6)))
    belief = model.update(counts, model.start(5, 6))
    if isinstance(belief, SupportBelief):
        belief = replace(belief, is_start=False)  # else a fit begins with weights of its own
    settings = CrowdSettings(model, max_iter=1)
    fused = fit_crowd(cut_votes(votes, known), CrowdState(belief, profiles, ProfilePrior.vague(6)), settings)
    if isinstance(belief, SupportBelief):
        belief = fused.state.belief  # relative to its typical annotator
    evidence = model.evidence(votes, belief)
    found = profile_e_step(evidence.log_odds, known, profiles)
    np.testing.assert_allclose(fused.label_probs, found.label_probs, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(fused.vote_counts, model.count(votes, found.label_probs), rtol=1e-10)
    if isinstance(belief, SupportBelief):
        return  # its objective has more terms: test_support_exact.py
    objective = found.log_likelihoods.sum() + evidence.absent.sum() - model.divergence(belief)
    objective += profile_log_prior(profiles, ProfilePrior.vague(6))
    assert fused.log_likelihoods[0] == pytest.approx(objective, rel=1e-12)


def test_a_known_label_is_the_limit_of_overwhelming_evidence() -> None:
    _, _, profiles = random_case(2, 1, 4, 3, 1.0)
    log_odds = np.array([[900.0, -900.0, 0.3, 0.0]])
    unknown = np.full((1, 4), -1, dtype=np.int8)
    certain = np.array([[1, 0, -1, -1]], dtype=np.int8)
    believed, told = profile_e_step(log_odds, unknown, profiles), profile_e_step(log_odds, certain, profiles)
    np.testing.assert_allclose(believed.label_probs, told.label_probs, rtol=1e-12)
    np.testing.assert_allclose(believed.log_likelihoods, told.log_likelihoods, rtol=1e-12)


def test_the_update_of_profiles_maximises_expected_log_likelihood_plus_log_prior() -> None:
    sums = label_sets.ProfileStats(np.array([7.0, 3.0]), np.array([[6.0, 0.5], [0.1, 2.0]]))
    prior = ProfilePrior(np.array([0.3, 0.6]))

    def objective(profiles: Profiles) -> float:
        absent = sums.profile_sums[:, None] - sums.label_sums
        labels = sums.label_sums * np.log(profiles.rates) + absent * np.log1p(-profiles.rates)
        return float(labels.sum() + sums.profile_sums @ np.log(profiles.weights)) + profile_log_prior(profiles, prior)

    best = profile_m_step(sums, prior)
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = best.weights * np.exp(0.1 * rng.standard_normal(2))
        rates = np.clip(best.rates + 0.05 * rng.standard_normal((2, 2)), 1e-3, 1 - 1e-3)
        assert objective(Profiles(weights / weights.sum(), rates)) < objective(best)


def test_the_log_prior_equals_that_of_scipy() -> None:
    prior = ProfilePrior(np.array([0.3, 0.6]), strength=4.0, documents=2.0)
    profiles = Profiles(np.array([0.2, 0.8]), np.array([[0.5, 0.9], [0.1, 0.3]]))
    betas = stats.beta.logpdf(profiles.rates, 1 + 4.0 * prior.centre, 1 + 4.0 * (1 - prior.centre)).sum()
    assert profile_log_prior(profiles, prior) == pytest.approx(
        betas + stats.dirichlet.logpdf(profiles.weights, [3.0, 3.0])
    )


def crowd_of(n_docs: int, seed: int) -> tuple[Votes, NDArray[np.int8]]:
    votes, _ = simulate.crowd(label_sets_of(n_docs, seed), "paper", seed=seed, votes_per_doc=3, pair_share=0.8)
    known = np.full((n_docs, 5), -1, dtype=np.int8)
    known[:10] = label_sets_of(n_docs, seed)[:10]
    return votes, known


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
@pytest.mark.parametrize("n_profiles", [1, 4])
@pytest.mark.parametrize("with_extra", [False, True])
def test_the_objective_never_falls(annotators: str, n_profiles: int, with_extra: bool) -> None:
    votes, known = crowd_of(150, 3)
    extra = np.random.default_rng(0).standard_normal(known.shape) if with_extra else None
    settings = CrowdSettings(ANNOTATOR_MODELS[annotators](), max_iter=80, tol=0.0)
    shards = cut_votes(votes, known, extra, n_shards=2)
    belief = settings.annotators.start(votes.n_annotators, votes.n_classes)
    start = start_state(belief, initial_label_probs(votes, known))
    if n_profiles > 1:
        start = with_profiles(shards, fit_crowd(shards, start, settings), n_profiles, settings, seed=0).state
    objectives = fit_crowd(shards, start, settings).log_likelihoods
    assert np.diff(objectives).min() >= -1e-9 * abs(objectives[-1])
    assert objectives[-1] > objectives[0] + 0.01  # the support model reports what follows its first steps


def test_the_consensus_of_a_tiny_crowd_is_bayes_rule() -> None:
    table = np.array([[[1, 0, -1], [1, 1, 0]], [[-1, 0, 1], [0, -1, -1]]])
    votes = Votes.from_array(table)
    model = TwoCoinModel()
    counts = np.array([[[8.0, 1.0], [5.0, 2.0]], [[4.0, 3.0], [9.0, 1.0]]])  # annotators, states, right or wrong
    belief = model.update(counts, model.start(2, 3))
    profiles = Profiles(np.array([0.4, 0.6]), np.array([[0.8, 0.7, 0.1], [0.2, 0.1, 0.6]]))
    state = start_state(belief, np.full((2, 3), 0.5))
    state = type(state)(belief, profiles, state.prior)
    extra = np.array([[0.5, -1.0, 0.0], [0.0, 0.0, 2.0]])
    known = np.full((2, 3), -1, dtype=np.int8)
    found = label_posterior(votes, known, state, CrowdSettings(model), extra)
    log_odds = model.evidence(votes, belief).log_odds + extra
    by_hand = [enumerated(log_odds[d], known[d], profiles)[0] for d in range(2)]
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)
