"""Annotator models against enumeration, the bound under alternating steps, and recovery of simulated rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats
from scipy.special import digamma, expit, logit

from palda import simulate
from palda.data import Votes
from palda.models.crowd import (
    AnnotatorBelief,
    AnnotatorModel,
    AnnotatorSummary,
    OneCoinModel,
    PerClassModel,
    PublishedCoin,
    TwoCoinModel,
    parse_annotator_prior,
    pool,
    summarize_annotators,
)
from palda.simulate import SimulatedAnnotators

MODELS = [OneCoinModel(), TwoCoinModel(), PerClassModel()]


class Fit(NamedTuple):
    belief: AnnotatorBelief
    counts: np.ndarray
    label_probs: np.ndarray
    bounds: np.ndarray
    summary: AnnotatorSummary


def fit(model: AnnotatorModel, votes: Votes, n_rounds: int = 40, prior: object = None) -> Fit:
    """EM without words: labels given rates and base rates, rates and base rates given labels."""
    history = None if prior is None else parse_annotator_prior(prior, votes.annotators)
    belief = model.start(votes.n_annotators, votes.n_classes, history)
    base_rates = (votes.yes_per_pair().sum(axis=0) + 1) / (votes.per_pair().sum(axis=0) + 2)
    bounds = []
    for _ in range(n_rounds):
        said = model.evidence(votes, belief)
        joint = np.logaddexp(np.log(base_rates) + said.present, np.log1p(-base_rates) + said.absent)
        bounds.append(joint.sum() - model.divergence(belief))
        label_probs = expit(logit(base_rates) + said.log_odds)
        counts = model.count(votes, label_probs)
        belief = model.update(counts, belief)
        base_rates = np.clip(label_probs.mean(axis=0), 1e-6, 1 - 1e-6)
    return Fit(belief, counts, label_probs, np.array(bounds), summarize_annotators(belief, counts))


def random_votes(seed: int, shape: tuple[int, int, int] = (4, 3, 2)) -> Votes:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, shape)
    table[rng.random(shape) < 0.4] = -1
    return Votes.from_array(table)


def cell(model: AnnotatorModel, annotator: int, label: int, state: int) -> tuple[int, ...]:
    return (annotator, *(label,) * model.by_class, *(state,) * model.by_state)


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, derandomize=True, max_examples=20)
def test_evidence_and_counts_are_sums_over_the_votes(model: AnnotatorModel, seed: int) -> None:
    votes = random_votes(seed)
    rng = np.random.default_rng(seed)
    start = model.start(3, 2)
    belief = AnnotatorBelief(rng.gamma(3.0, 1.0, start.posterior.shape), start.pool, start.own)
    label_probs = rng.random((4, 2))
    expected = np.zeros((2, 4, 2))
    counts = np.zeros(start.posterior.shape)
    for doc, annotator, label, value in zip(votes.doc, votes.annotator, votes.label, votes.value, strict=True):
        for state in (0, 1):
            where = cell(model, annotator, label, state)
            betas = belief.posterior[where]
            wrong = int(value != state)
            expected[state, doc, label] += digamma(betas[wrong]) - digamma(betas.sum())
            counts[(*where, wrong)] += label_probs[doc, label] if state else 1 - label_probs[doc, label]
    said = model.evidence(votes, belief)
    np.testing.assert_allclose(said.absent, expected[0], rtol=1e-12)
    np.testing.assert_allclose(said.present, expected[1], rtol=1e-12)
    np.testing.assert_allclose(said.log_odds[votes.per_pair() == 0], 0.0)
    np.testing.assert_allclose(model.count(votes, label_probs), counts, atol=1e-14)


@pytest.mark.parametrize("model", [*MODELS, PublishedCoin()])
def test_counts_of_two_shards_add_up_to_those_of_both(model: AnnotatorModel) -> None:
    votes = random_votes(1, (40, 6, 3))
    label_probs = np.random.default_rng(2).random((40, 3))
    parts = [model.count(votes.take(rows), label_probs[rows]) for rows in (slice(0, 13), slice(13, 40))]
    np.testing.assert_allclose(parts[0] + parts[1], model.count(votes, label_probs), rtol=1e-12)


def test_divergence_is_the_integral_of_the_log_ratio() -> None:
    model = TwoCoinModel()
    belief = model.update(model.count(random_votes(3), np.full((4, 2), 0.3)), model.start(3, 2))

    def divergence(posterior: np.ndarray, prior: np.ndarray) -> float:
        left, right = stats.beta(*posterior), stats.beta(*prior)
        return float(integrate.quad(lambda x: left.pdf(x) * (left.logpdf(x) - right.logpdf(x)), 0, 1)[0])

    rates = sum(divergence(belief.posterior[k, s], belief.pool[s]) for k in range(3) for s in range(2))
    imaginary = sum(divergence(np.array(pool.PSEUDO_ANNOTATOR), belief.pool[s]) for s in range(2))
    assert model.divergence(belief) == pytest.approx(rates + imaginary, rel=1e-6)
    assert model.divergence(model.start(3, 2)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("behaviour", ["one_coin", "per_class"])
@pytest.mark.parametrize("model", MODELS)
def test_the_bound_never_falls(model: AnnotatorModel, behaviour: simulate.Behaviour) -> None:
    truth = np.random.default_rng(0).random((60, 4)) < 0.3
    people = simulate.annotators("adversarial", n_classes=4, seed=1, behaviour=behaviour, n_spammers=3)
    votes = simulate.votes(truth.astype(int), people, seed=2, votes_per_doc=4, pair_share=0.7)
    earlier = {people.names[0]: 0.3, people.names[20]: (0.6, 0.9)}
    for prior in (None, earlier):
        bounds = fit(model, votes, prior=prior).bounds
        assert np.diff(bounds).min() > -1e-9 * abs(bounds[0])
        assert bounds[-1] > bounds[0] + 10


@given(seed=st.integers(0, 10_000), n_annotators=st.integers(0, 30), alike=st.floats(1.0, 300.0))
@settings(deadline=None, derandomize=True, max_examples=25)
def test_the_pool_prior_is_the_maximum_within_its_limits(seed: int, n_annotators: int, alike: float) -> None:
    rng = np.random.default_rng(seed)
    rates = rng.beta(0.8 * alike, 0.2 * alike, n_annotators)
    n_votes = rng.integers(0, 60, n_annotators)
    right = rng.binomial(n_votes, rates)
    counts = np.column_stack((right, n_votes - right))[:, None].astype(float)
    found = pool.fit_pool(counts, np.array([pool.PSEUDO_ANNOTATOR]))

    def loss(logs: np.ndarray) -> float:
        return -float(pool._objective(np.exp(logs)[None], counts)[0])

    box = [(np.log(pool.MIN_PARAMETER), np.log(pool.MAX_PARAMETER))] * 2
    best = min(optimize.minimize(loss, start, bounds=box).fun for start in ([1.0, 0.0], [4.0, 3.0]))
    assert -pool._objective(found, counts)[0] <= best + 1e-6


def test_gradient_and_curvature_of_the_pool_are_derivatives() -> None:
    counts = np.random.default_rng(0).gamma(1.0, 10.0, (7, 1, 2))
    prior = np.array([[3.0, 1.2]])
    slope, bend = pool._derivatives(prior, counts)
    for side in (0, 1):
        nudge = np.exp(1e-5 * np.eye(2)[side])
        gain = pool._objective(prior * nudge, counts) - pool._objective(prior / nudge, counts)
        assert gain / 2e-5 == pytest.approx(slope[:, side], rel=1e-6)
        change = pool._derivatives(prior * nudge, counts)[0] - pool._derivatives(prior / nudge, counts)[0]
        np.testing.assert_allclose(change / 2e-5, bend[:, side], rtol=1e-6)


def test_the_pool_prior_is_stronger_when_annotators_are_alike() -> None:
    n_votes = 200
    strengths = []
    for spread in (0.0, 0.05, 0.2):
        rates = 0.75 + spread * np.linspace(-1, 1, 40)
        counts = n_votes * np.column_stack((rates, 1 - rates))[:, None]
        strengths.append(pool.fit_pool(counts, np.array([pool.PSEUDO_ANNOTATOR])).sum())
    assert strengths[0] > 1.2 * strengths[1] > 2 * strengths[2]
    assert strengths[0] < 2 * pool.MAX_PARAMETER


def test_a_pool_without_votes_is_its_prior() -> None:
    for counts in (np.zeros((0, 1, 2)), np.zeros((20, 1, 2))):
        np.testing.assert_allclose(pool.fit_pool(counts, np.array([[40.0, 2.0]])), [pool.PSEUDO_ANNOTATOR], rtol=1e-4)


def test_three_annotators_and_six_classes_keep_a_modest_prior() -> None:
    truth = (np.random.default_rng(3).random((40, 6)) < 0.2).astype(int)
    people = SimulatedAnnotators.from_rates([0.8, 0.7, 0.9], [0.95, 0.9, 0.97], n_classes=6)
    found = fit(PerClassModel(), simulate.votes(truth, people, seed=1, votes_per_doc=3))
    assert found.belief.pool.sum(axis=-1).max() < 30
    assert np.mean((found.label_probs > 0.5) == truth) > 0.95


@pytest.mark.parametrize("model", MODELS)
def test_rates_are_recovered_and_intervals_cover_them(model: AnnotatorModel) -> None:
    """With known labels. With estimated labels, intervals ignore their uncertainty and cover somewhat less."""
    n_classes, n_docs, prevalence = 3, 900, 0.3
    behaviour: simulate.Behaviour = ("one_coin", "two_coin", "per_class")[MODELS.index(model)]  # type: ignore[assignment]
    covered = []
    for seed in range(6):
        truth = (np.random.default_rng(seed).random((n_docs, n_classes)) < prevalence).astype(int)
        people = simulate.annotators("paper", n_classes=n_classes, seed=seed, behaviour=behaviour)
        votes = simulate.votes(truth, people, seed=seed, votes_per_doc=5)
        counts = model.count(votes, truth.astype(float))
        found = summarize_annotators(model.update(counts, model.start(50, n_classes)), counts)
        quality = people.expected_quality(np.full(n_classes, prevalence))
        informedness = (people.sensitivity + people.specificity - 1).mean(axis=1)
        assert np.sqrt(np.mean((found.quality - quality) ** 2)) < 0.035
        covered.append((found.low <= quality) & (quality <= found.high))
        covered.append((found.informedness_low <= informedness) & (informedness <= found.informedness_high))
    assert 0.91 < np.mean(covered) < 0.99


def test_rates_are_recovered_when_labels_are_estimated_too() -> None:
    truth = (np.random.default_rng(5).random((1500, 4)) < 0.25).astype(int)
    votes, people = simulate.crowd(truth, "paper", seed=5, behaviour="two_coin", votes_per_doc=5)
    found = fit(TwoCoinModel(), votes).summary
    quality = people.expected_quality(np.full(4, 0.25))
    assert np.mean((found.low <= quality) & (quality <= found.high)) > 0.85
    assert np.abs(found.sensitivity - people.sensitivity[:, 0]).mean() < 0.06
    assert np.abs(found.specificity - people.specificity[:, 0]).mean() < 0.03


def test_intervals_of_mixed_rates_are_those_of_sampling() -> None:
    rng = np.random.default_rng(0)
    posterior = rng.gamma(2.0, 8.0, (12, 2, 2)) + 1
    nothing = np.full_like(posterior, np.nan)
    counts = rng.gamma(2.0, 8.0, posterior.shape)
    found = summarize_annotators(AnnotatorBelief(posterior, np.full((2, 2), 0.5), nothing), counts)
    rates = rng.beta(posterior[..., 0], posterior[..., 1], (100_000, 12, 2))
    weights = counts.sum(axis=-1) / counts.sum(axis=(1, 2))[:, None]
    ends = np.quantile((weights * rates).sum(axis=-1), [0.025, 0.975], axis=0)
    np.testing.assert_allclose([found.low, found.high], ends, atol=0.02)
    ends = np.quantile(rates.sum(axis=-1) - 1, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([found.informedness_low, found.informedness_high], ends, atol=0.04)


def test_evidence_of_the_published_coin_is_the_log_odds_of_the_share_of_correct_votes() -> None:
    votes = random_votes(4, (30, 5, 3))
    label_probs = np.random.default_rng(4).random((30, 3))
    belief = PublishedCoin().update(PublishedCoin().count(votes, label_probs), PublishedCoin().start(5, 3))
    truth = label_probs[votes.doc, votes.label]
    right = np.where(votes.value == 1, truth, 1 - truth)
    rates = np.array([right[votes.annotator == who].mean() for who in range(5)])
    expected = np.zeros((30, 3))
    np.add.at(expected, (votes.doc, votes.label), np.where(votes.value == 1, 1, -1) * logit(rates)[votes.annotator])
    np.testing.assert_allclose(PublishedCoin().evidence(votes, belief).log_odds, expected, rtol=1e-10, atol=1e-12)
    assert PublishedCoin().divergence(belief) == 0.0


def test_the_published_coin_has_finite_log_odds_and_keeps_annotators_without_votes() -> None:
    coin = PublishedCoin()
    belief = coin.update(np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]), coin.start(3, 1))
    rates = belief.posterior[:, 0] / belief.posterior.sum(axis=1)
    np.testing.assert_allclose(rates, [0.7, 1 - 1e-6, 1e-6], rtol=1e-9)
    with pytest.raises(ValueError, match="takes no annotator prior"):
        coin.start(1, 1, parse_annotator_prior({"a": 0.8}, np.array(["a"], dtype=object)))
