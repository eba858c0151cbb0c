"""Combination of a classifier with label-set profiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from palda.data import Votes
from palda.engine import Threads
from palda.models.classifier import (
    Combination,
    CombinationInputs,
    HeldOut,
    choose_combination,
    choose_for_new_documents,
)
from palda.models.crowd import AnnotatorBelief, HeldOutVotes, Profiles, choose_candidate

RNG = np.random.default_rng(0)
BASE = np.array([-1.0, 0.3, -2.0])
CLASSIFIER = RNG.normal(0.0, 2.0, (50, 3)) + BASE
SETS = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0, 1, 0]])


def labels_in_sets(n_docs: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels from four label sets, log-odds of a noisy calibrated classifier, and log-odds of the base rates."""
    rng = np.random.default_rng(1)
    labels = SETS[rng.integers(0, 4, n_docs)].astype(np.float64)
    base = logit(SETS.mean(axis=0))
    scores = rng.normal((2 * labels - 1) / noise, 1.0)  # with spread 1 the log-odds are 2 score / noise
    return labels, base + 2 * scores / noise, base


def log_likelihoods(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    odds = logit(np.clip(probs, 1e-9, 1 - 1e-9))
    return (labels * odds - np.logaddexp(0, odds)).sum(axis=1)


def votes_of_an_expert(labels: np.ndarray, chosen: np.ndarray | None = None) -> HeldOutVotes:
    """Hidden votes that equal the labels, of an annotator who is almost never wrong; of the chosen documents."""
    table = labels.astype(np.int64)[:, None, :]
    if chosen is not None:
        table = np.where(chosen[:, None, None], table, -1)
    posterior = np.array([[1e9, 1.0]])
    belief = AnnotatorBelief(posterior, posterior[0], np.full((1, 2), np.nan))
    return HeldOutVotes.independent(Votes.from_array(table), belief)


def inputs(classifier: np.ndarray, other: np.ndarray | float = 0.0) -> CombinationInputs:
    unknown = np.full(classifier.shape, -1, dtype=np.int8)
    return CombinationInputs(unknown, np.broadcast_to(other, classifier.shape).copy(), classifier)


def for_new_documents(labels: np.ndarray, classifier: np.ndarray, base: np.ndarray) -> Combination:
    hidden = np.arange(len(labels))[:, None] % 2 == 0
    return choose_for_new_documents(classifier, labels, np.ones_like(labels), base, np.arange(len(labels)), hidden)


def test_one_profile_with_kappa_1_leaves_the_classifier_unchanged() -> None:
    np.testing.assert_allclose(Combination.classifier_alone(BASE).log_odds(CLASSIFIER), CLASSIFIER, rtol=1e-12)


def test_one_profile_with_kappa_0_gives_the_base_rates() -> None:
    found = Combination.classifier_alone(BASE, 0.0).log_odds(CLASSIFIER)
    np.testing.assert_allclose(found, np.tile(BASE, (50, 1)), rtol=1e-12)


def test_several_profiles_equal_the_sum_over_all_of_them() -> None:
    profiles = Profiles(np.array([0.3, 0.7]), np.array([[0.9, 0.8, 0.1], [0.1, 0.2, 0.05]]))
    combination = Combination(profiles, 0.6, BASE)
    odds = np.exp(0.6 * (CLASSIFIER - BASE))
    present = profiles.rates * odds[:, None]  # (documents, profiles, classes)
    total = present + 1 - profiles.rates
    shares = profiles.weights * total.prod(axis=2)
    shares /= shares.sum(axis=1, keepdims=True)
    expected = (shares[:, :, None] * present / total).sum(axis=1)
    np.testing.assert_allclose(expit(combination.log_odds(CLASSIFIER)), expected, rtol=1e-10)
    half = replace(combination, share=0.5)
    np.testing.assert_allclose(half.log_odds(CLASSIFIER), (CLASSIFIER + logit(expected)) / 2, rtol=1e-9)


def test_slope_is_the_derivative_for_independent_classes() -> None:
    combination = Combination.classifier_alone(BASE, 0.6)
    step = (combination.log_odds(CLASSIFIER + 1e-6) - combination.log_odds(CLASSIFIER)) / 1e-6
    np.testing.assert_allclose(step, np.broadcast_to(combination.slope, step.shape), rtol=1e-6)


def test_profiles_are_chosen_where_classes_occur_in_sets() -> None:
    labels, classifier, base = labels_in_sets(600, noise=1.5)
    combination, score = choose_combination([HeldOut(inputs(classifier), votes_of_an_expert(labels))], base)
    assert combination.n_profiles > 1
    assert score > log_likelihoods(expit(classifier), labels).sum() + 50
    without_votes = for_new_documents(labels, classifier, base)
    assert without_votes.share > 0
    log_odds = without_votes.log_odds(classifier)
    gain = log_likelihoods(expit(log_odds), labels) - log_likelihoods(expit(classifier), labels)
    assert gain.sum() > 50


def hidden_thirds(n_docs: int) -> tuple[list[HeldOut], np.ndarray]:
    """Trials on documents with classes in sets, each with the labels of a third hidden; log-odds of the base rates."""
    labels, classifier, base = labels_in_sets(n_docs, noise=2.5)
    thirds = np.random.default_rng(5).integers(3, size=n_docs)
    trials = []
    for third in range(3):
        hidden = thirds == third
        known_labels = np.where(hidden[:, None], 0.0, 3.0 * (2 * labels - 1))
        trials.append(HeldOut(inputs(classifier, known_labels), votes_of_an_expert(labels, hidden)))
    return trials, base


def test_an_earlier_choice_limits_the_candidates_to_its_size_and_kappa_and_the_classifier_alone() -> None:
    trials, base = hidden_thirds(300)
    free, best = choose_combination(trials, base)
    assert free.n_profiles > 1
    again, score = choose_combination(trials, base, near=free)
    assert (again.n_profiles, again.kappa) == (free.n_profiles, free.kappa)
    assert score == pytest.approx(best, rel=5e-3)  # refitted with its κ at once
    ten, _ = choose_combination(trials, base, near=replace(free, profiles=Profiles(np.ones(10) / 10, np.ones((10, 6)))))
    assert ten.n_profiles in (1, 10)
    alone, _ = choose_combination(trials, base, near=Combination.classifier_alone(base))
    assert alone.n_profiles == 1


@pytest.mark.parametrize("n_profiles", [1, 4])
def test_a_choice_on_some_trials_is_scored_on_all(n_profiles: int) -> None:
    trials, base = hidden_thirds(300)
    chosen, score = choose_combination(trials, base, n_profiles=n_profiles, n_choice_trials=1)
    first, first_score = choose_combination(trials[:1], base, n_profiles=n_profiles)
    assert chosen.kappa == first.kappa
    rest = choose_combination(trials[1:], base, n_profiles=n_profiles, near=chosen)[1]
    assert score == pytest.approx(first_score + rest, rel=1e-12)


def test_choices_do_not_depend_on_the_number_of_threads() -> None:
    trials, base = hidden_thirds(200)
    (one, score), (two, other) = (choose_combination(trials, base, engine=Threads(n)) for n in (1, 2))
    assert score == other
    np.testing.assert_array_equal(one.profiles.rates, two.profiles.rates)
    labels, classifier, base = labels_in_sets(300, noise=1.5)
    hidden = np.arange(300)[:, None] % 2 == 0
    given = (classifier, labels, np.ones_like(labels), base, np.arange(300), hidden)
    first, second = (choose_for_new_documents(*given, engine=Threads(n)) for n in (1, 2))
    np.testing.assert_array_equal(first.log_odds(classifier), second.log_odds(classifier))


def test_the_search_finds_the_best_kappa_of_all() -> None:
    """The held-out likelihood has one maximum in κ, so that the search may stop where it falls."""
    trials, base = hidden_thirds(300)
    chosen, score = choose_combination(trials, base, n_profiles=4)
    near = (replace(chosen, kappa=kappa) for kappa in (1.0, 0.8, 0.6, 0.4, 0.0))
    others = [choose_combination(trials, base, n_profiles=4, near=start)[1] for start in near]
    assert score > max(others) - 2.0


def independent_labels(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent labels, log-odds of a noisy calibrated classifier, and log-odds of the base rates."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((600, 5)) < 0.3).astype(np.float64)
    base = np.full(5, logit(0.3))
    return labels, base + 2 * rng.normal((2 * labels - 1) / 1.5, 1.0) / 1.5, base


def test_independent_classes_keep_the_classifier_alone() -> None:
    labels, classifier, base = independent_labels(2)
    combination, _ = choose_combination([HeldOut(inputs(classifier), votes_of_an_expert(labels))], base)
    assert combination.n_profiles == 1
    assert combination.kappa == 1.0


def test_profiles_rarely_get_a_share_where_classes_are_independent() -> None:
    alone = 0
    for seed in range(2, 7):
        labels, classifier, base = independent_labels(seed)
        combination = for_new_documents(labels, classifier, base)
        if combination.share == 0:
            alone += 1
            np.testing.assert_array_equal(combination.log_odds(classifier), classifier)
    assert alone >= 4


def test_an_uninformative_classifier_gets_kappa_0() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random((400, 2)) < 0.4).astype(np.float64)
    base = np.full(2, logit(0.4))
    classifier = base + rng.normal(0.0, 3.0, labels.shape)  # overconfident, and independent of the labels
    trial = HeldOut(inputs(classifier), votes_of_an_expert(labels))
    combination, _ = choose_combination([trial], base, n_profiles=1)
    assert combination.kappa == 0.0


def test_likelihoods_add_up_over_trials_with_one_common_kappa() -> None:
    """The labels that are hidden in one trial are known in the others."""
    labels, classifier, _ = labels_in_sets(150, noise=2.5)
    trials, base = hidden_thirds(150)
    combination, score = choose_combination(trials, base, n_profiles=4)
    assert combination.n_profiles == 4
    separate = [choose_combination([trial], base, n_profiles=4)[1] for trial in trials]
    assert score <= sum(separate) + 1e-9  # a common κ cannot beat the best κ of each trial
    assert score > log_likelihoods(expit(classifier), labels).sum()


@pytest.mark.parametrize(
    ("gains", "patience", "expected"),
    [
        ([[0.0, 0.0], [0.4, 0.4], [3.0, 3.0]], None, 2),  # less than a nat is not enough
        ([[0.0, 0.0], [9.0, -3.0]], None, 0),  # nor is a gain within two standard errors
        ([[0.0, 0.0], [2.0, 2.0], [2.1, 2.1]], None, 1),
        ([[0.0, 0.0], [0.1, 0.1], [0.2, 0.2], [9.0, 9.0]], 2, 0),  # two failures in a row end the search
    ],
)
def test_a_later_candidate_must_be_clearly_better(
    gains: list[list[float]], patience: int | None, expected: int
) -> None:
    assert choose_candidate((np.array(row) for row in gains), patience=patience) == expected
