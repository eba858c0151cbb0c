"""A head joined with profiles: exact where it must be, better where classes come together, and careful."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from palda.models.classifier import (
    Combination,
    CombinationInputs,
    HeldOut,
    choose_combination,
    choose_share,
    likeliest_combination,
    recalibrated,
    refitted,
)
from palda.models.crowd import Profiles

RNG = np.random.default_rng(0)
BASE = np.array([-1.0, 0.3, -2.0])
HEAD = RNG.normal(0.0, 2.0, (50, 3)) + BASE
SETS = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0, 1, 0]])


def in_sets(n_docs: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels that come in four sets, log-odds of a noisy but calibrated head, and log-odds of the base rates."""
    rng = np.random.default_rng(1)
    labels = SETS[rng.integers(0, 4, n_docs)].astype(np.float64)
    base = logit(SETS.mean(axis=0))
    scores = rng.normal((2 * labels - 1) / noise, 1.0)  # with spread 1 the log-odds are 2 score / noise
    return labels, base + 2 * scores / noise, base


def log_likelihoods(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    odds = logit(np.clip(probs, 1e-9, 1 - 1e-9))
    return (labels * odds - np.logaddexp(0, odds)).sum(axis=1)


def test_one_profile_and_full_weight_leave_the_head_as_it_is() -> None:
    np.testing.assert_allclose(Combination.classifier_alone(BASE).log_odds(HEAD), HEAD, rtol=1e-12)


def test_without_weight_only_the_base_rates_are_left() -> None:
    np.testing.assert_allclose(
        Combination.classifier_alone(BASE, 0.0).log_odds(HEAD), np.tile(BASE, (50, 1)), rtol=1e-12
    )


def test_several_profiles_give_what_enumerating_them_gives() -> None:
    profiles = Profiles(np.array([0.3, 0.7]), np.array([[0.9, 0.8, 0.1], [0.1, 0.2, 0.05]]))
    joined = Combination(profiles, 0.6, BASE)
    odds = np.exp(0.6 * (HEAD - BASE))
    present = profiles.rates * odds[:, None]  # (documents, profiles, classes)
    both = present + 1 - profiles.rates
    shares = profiles.weights * both.prod(axis=2)
    shares /= shares.sum(axis=1, keepdims=True)
    expected = (shares[:, :, None] * present / both).sum(axis=1)
    np.testing.assert_allclose(expit(joined.log_odds(HEAD)), expected, rtol=1e-10)
    half = replace(joined, share=0.5)
    np.testing.assert_allclose(half.log_odds(HEAD), (HEAD + logit(expected)) / 2, rtol=1e-9)


def test_the_slope_is_the_derivative_when_classes_are_independent() -> None:
    joined = Combination.classifier_alone(BASE, 0.6)
    step = (joined.log_odds(HEAD + 1e-6) - joined.log_odds(HEAD)) / 1e-6
    np.testing.assert_allclose(step, np.broadcast_to(joined.slope, step.shape), rtol=1e-6)


def test_profiles_are_chosen_where_classes_come_in_sets() -> None:
    labels, head, base = in_sets(600, noise=1.5)
    unknown = np.full(labels.shape, -1, dtype=np.int8)
    given = CombinationInputs(unknown, np.zeros(labels.shape), head)
    joined, score = choose_combination([HeldOut(given, lambda probs: log_likelihoods(probs, labels))], base)
    assert len(joined.profiles.weights) > 1
    assert score > log_likelihoods(expit(head), labels).sum() + 50
    joined = replace(joined, share=choose_share(joined, head, labels, np.ones_like(labels)))
    assert joined.share > 0
    ready = recalibrated(refitted(joined, given), head, labels, np.ones_like(labels))
    assert log_likelihoods(expit(ready.log_odds(head)), labels).sum() > log_likelihoods(expit(head), labels).sum() + 50


def test_independent_classes_keep_the_head_alone() -> None:
    rng = np.random.default_rng(2)
    labels = (rng.random((600, 5)) < 0.3).astype(np.float64)
    base = np.full(5, logit(0.3))
    head = base + 2 * rng.normal((2 * labels - 1) / 1.5, 1.0) / 1.5
    given = CombinationInputs(np.full(labels.shape, -1, dtype=np.int8), np.zeros(labels.shape), head)

    def score(probs: np.ndarray) -> np.ndarray:
        return log_likelihoods(probs, labels)

    joined, _ = choose_combination([HeldOut(given, score)], base)
    assert len(joined.profiles.weights) == 1
    assert joined.kappa == 1.0
    likeliest = likeliest_combination(HeldOut(given, score), base)
    assert choose_share(likeliest, head, labels, np.ones_like(labels)) == 0
    alone = recalibrated(replace(likeliest, share=0.0), head, labels, np.ones_like(labels))
    np.testing.assert_array_equal(alone.log_odds(head), head)


def test_a_head_that_knows_nothing_gets_no_weight() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random((400, 2)) < 0.4).astype(np.float64)
    base = np.full(2, logit(0.4))
    head = base + rng.normal(0.0, 3.0, labels.shape)  # sure of itself, and wrong as often as right
    given = CombinationInputs(np.full(labels.shape, -1, dtype=np.int8), np.zeros(labels.shape), head)
    joined, _ = choose_combination([HeldOut(given, lambda probs: log_likelihoods(probs, labels))], base, n_profiles=1)
    assert joined.kappa == 0.0


def test_several_trials_see_what_one_may_miss_and_say_how_likely_everything_was() -> None:
    """What is held back from one trial is known in the others; likelihoods add up over trials."""
    labels, head, base = in_sets(150, noise=2.5)
    unknown = np.full(labels.shape, -1, dtype=np.int8)
    thirds = np.random.default_rng(5).integers(3, size=(150, 1))
    trials = []
    for third in range(3):
        held_back = (thirds == third).astype(np.float64)
        told = np.where(held_back, 0.0, 3.0 * (2 * labels - 1))
        trials.append(
            HeldOut(
                CombinationInputs(unknown, told, head),
                lambda probs, own=held_back: own[:, 0] * log_likelihoods(probs, labels),
            )
        )
    joined, score = choose_combination(trials, base, n_profiles=4)
    assert len(joined.profiles.weights) == 4
    alone = [choose_combination([trial], base, n_profiles=4)[1] for trial in trials]
    assert score <= sum(alone) + 1e-9  # one κ for all cannot beat the best κ of each
    assert score > log_likelihoods(expit(head), labels).sum()
