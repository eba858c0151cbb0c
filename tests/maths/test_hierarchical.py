"""The default annotator model: its derivatives, its bound, and where it lies between two coins and rates per class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import polygamma

from palda import aggregate, metrics, simulate
from palda.models.crowd import (
    CrowdSettings,
    HierarchicalModel,
    RateEffects,
    count_votes,
    cut_votes,
    fit_crowd,
    initial_label_probs,
    parse_annotator_prior,
    start_label_probs,
    start_state,
)
from palda.models.crowd.rate_effects import (
    VoteCells,
    _derivatives,
    _recentred,
    _strength_slope,
    effects_objective,
    improved_effects,
)
from palda.models.trigamma import trigamma

RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(RNG.gamma(1.0, 5.0, (6, 4, 2, 2))).astype(float)
NO_HISTORY = np.full((6, 2, 2), np.nan)
CELLS = VoteCells.from_counts(COUNTS, NO_HISTORY)


def random_effects(*, families: bool = False) -> RateEffects:
    family_of = np.array([0, 0, -1, 1, 1, -1]) if families else None
    start = RateEffects.start(6, 4, family_of)
    return replace(
        start,
        annotators=RNG.normal(0, 0.7, (6, 2)),
        classes=RNG.normal(0, 0.3, (4, 2)),
        families=RNG.normal(0, 0.5, start.families.shape),
        strength=np.array([20.0, 60.0]),
    )


@pytest.mark.parametrize("families", [False, True], ids=["no families", "families"])
def test_slopes_are_those_of_the_objective(families: bool) -> None:
    effects = random_effects(families=families)

    def value(annotators: np.ndarray) -> float:
        return effects_objective(replace(effects, annotators=annotators.reshape(6, 2)), CELLS)

    def slope(annotators: np.ndarray) -> np.ndarray:
        there = replace(effects, annotators=annotators.reshape(6, 2))
        prior = there.annotators / there.annotator_spreads() ** 2
        return np.ravel(CELLS.sum_annotators(_derivatives(there, CELLS).slope) - prior)

    assert check_grad(value, slope, effects.annotators.ravel()) < 1e-4


def test_slope_of_the_strength_is_that_of_the_votes() -> None:
    effects = random_effects()
    h = 1e-5
    higher, lower = (replace(effects, strength=effects.strength * np.exp([sign * h, 0.0])) for sign in (1, -1))
    prior = -np.log(effects.strength[0] / 50.0) / 4.0
    numeric = (effects_objective(higher, CELLS) - effects_objective(lower, CELLS)) / (2 * h) - prior
    assert _strength_slope(effects, CELLS)[0] == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("families", [False, True], ids=["no families", "families"])
def test_no_step_lowers_the_objective_and_centring_changes_no_rate(families: bool) -> None:
    effects = random_effects(families=families)
    values = [effects_objective(effects, CELLS)]
    for _ in range(60):
        np.testing.assert_allclose(_recentred(effects).prior(), effects.prior(), rtol=1e-10)
        effects = improved_effects(effects, CELLS)
        values.append(effects_objective(effects, CELLS))
    assert np.diff(values).min() >= -1e-9
    assert values[-1] - values[-2] < 1e-3


@pytest.mark.parametrize("known_share", [0.0, 0.5], ids=["nobody known", "half of the annotators known"])
@pytest.mark.parametrize("behaviour", ["one_coin", "two_coin", "per_class"])
def test_em_never_lowers_its_objective(behaviour: str, known_share: float) -> None:
    labels = simulate.newsroom(150, seed=1).labels
    annotators = simulate.annotators("adversarial", n_classes=labels.shape[1], seed=1, behaviour=behaviour)
    votes = simulate.votes(labels, annotators, votes_per_doc=4, seed=1)
    unknown = np.full(labels.shape, -1, dtype=np.int8)
    model = HierarchicalModel()
    settings = CrowdSettings(model, tol=1e-9, max_iter=150)
    guess = start_label_probs(votes, unknown, initial_label_probs(votes, unknown), settings)
    quality = dict(zip(votes.annotators, annotators.quality.clip(0.05, 0.95), strict=True))
    few = {name: quality[name] for name in votes.annotators[: int(known_share * votes.n_annotators)]}
    history = parse_annotator_prior(few, votes.annotators) if few else None
    start = model.start(votes.n_annotators, votes.n_classes, history)
    belief = model.update(count_votes(model, votes, guess), start)
    found = fit_crowd(cut_votes(votes, unknown), start_state(belief, guess), settings)
    falls = np.diff(found.log_likelihoods) / abs(found.log_likelihoods[-1])
    assert falls.min() > -1e-12


def test_trigamma_has_eleven_digits() -> None:
    points = np.concatenate((np.geomspace(1e-3, 1e6, 500), [0.5, 1.0, 7.0, 8.0]))
    np.testing.assert_allclose(trigamma(points), polygamma(1, points), rtol=1e-11)


def rates_error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def fitted_sensitivities(n_docs: int, class_spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = (rng.random((n_docs, 5)) < 0.3).astype(np.int8)
    crowd = simulate.annotators(
        np.full(8, 0.8), n_classes=5, seed=2, behaviour="per_class", class_spread=class_spread, reluctance=0.3
    )
    votes = simulate.votes(labels, crowd, votes_per_doc=8, seed=2)
    model = HierarchicalModel()
    counts = count_votes(model, votes, labels.astype(float))
    belief = model.start(8, 5)
    for _ in range(30):
        belief = model.update(counts, belief)
    rates = belief.posterior[:, :, 1, 0] / belief.posterior[:, :, 1].sum(axis=-1)
    return rates, crowd.sensitivity


def test_few_votes_give_the_same_rates_in_all_classes() -> None:
    rates, _ = fitted_sensitivities(40, 0.0)
    assert rates.std(axis=1).max() < 0.05  # sampling alone gives .12


def test_many_votes_give_the_rates_of_each_class() -> None:
    rates, truth = fitted_sensitivities(4000, 1.0)
    assert rates_error(rates, truth) < 0.02
    assert truth.std(axis=1).mean() > 0.1


def test_families_share_a_prior() -> None:
    """A version without votes has the rates of its family, not those of the crowd."""
    counts = np.zeros((12, 2, 2, 2))
    counts[:8] = [30.0, 10.0]  # people: 75% correct
    counts[8:11] = [98.0, 2.0]  # three versions of one model
    model = HierarchicalModel()
    family_of = np.array([-1] * 8 + [0] * 4)
    belief = model.start(12, 2).with_families(family_of)
    for _ in range(50):
        belief = model.update(counts, belief)
    quality = belief.rates_over_classes()
    means = quality[..., 0] / quality.sum(axis=-1)
    assert means[11].min() > 0.9
    assert means[0].max() < 0.8


def test_rare_labels_do_not_run_away() -> None:
    """With 1% of labels present and annotators right in 80%, EM from a majority vote ends with far too many labels."""
    rng = np.random.default_rng(0)
    labels = (rng.random((400, 100)) < 0.01).astype(np.int8)
    votes = simulate.votes(
        labels, simulate.annotators(np.full(20, 0.8), n_classes=100, seed=0), votes_per_doc=5, seed=0
    )
    for annotators in ("auto", "two_coin"):
        consensus = aggregate(votes, annotators, n_profiles=1).consensus
        assert consensus.sum() < 2.0 * labels.sum()
        assert metrics.micro_f1(labels, consensus >= 0.5) > 0.4


def test_consensus_uses_that_an_annotator_knows_one_class_only() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random((1500, 2)) < 0.4).astype(np.int8)
    sensitivity = np.where(np.arange(6)[:, None] % 2 == np.arange(2), 0.95, 0.6)
    crowd = simulate.SimulatedAnnotators.from_rates(sensitivity, sensitivity)
    votes = simulate.votes(labels, crowd, votes_per_doc=3, seed=1)
    errors = {
        annotators: np.mean((aggregate(votes, annotators, n_profiles=1).consensus >= 0.5) != labels)
        for annotators in ("auto", "two_coin")
    }
    assert errors["auto"] < 0.6 * errors["two_coin"]
