"""Value of votes when classes occur together: compiled code equals the reference, and both approach enumeration."""

from __future__ import annotations

from itertools import product
from types import ModuleType

import numpy as np
import pytest

from palda.kernels import compiled, reference
from palda.models.assignment import (
    Candidates,
    Rates,
    TypicalVotes,
    choose_pairs,
    expected_wrong,
    profile_factors,
    typical_votes,
    wrong_in_sets,
)
from palda.models.crowd import Profiles, profile_e_step

N_CLASSES = 3
KERNELS = pytest.mark.parametrize("kernel", [compiled, reference], ids=["compiled", "reference"])


def some_profiles(n_profiles: int = 3, seed: int = 0) -> Profiles:
    rng = np.random.default_rng(seed)
    return Profiles(rng.dirichlet(np.full(n_profiles, 2.0)), rng.beta(0.5, 0.5, (n_profiles, N_CLASSES)))


def typical(rate: float = 0.75, n_classes: int = N_CLASSES) -> TypicalVotes:
    return typical_votes(Rates(np.full((1, n_classes), rate), np.full((1, n_classes), rate + 0.1)), np.ones(1))


def documents(profiles: Profiles, n_docs: int = 8, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Evidence in nats, and the probabilities of labels under it."""
    evidence = np.random.default_rng(seed).normal(0.0, 1.0, (n_docs, N_CLASSES))
    unknown = np.full(evidence.shape, -1, dtype=np.int8)
    return evidence, profile_e_step(evidence, unknown, profiles).label_probs


def by_enumeration(evidence: np.ndarray, profiles: Profiles, votes: TypicalVotes, n_votes: int) -> float:
    """Expected wrong labels after so many votes on every class, over all label sets and all outcomes."""
    sets = np.array(list(product((0, 1), repeat=N_CLASSES)))
    given = np.where(sets[:, None] == 1, profiles.rates, 1.0 - profiles.rates).prod(axis=2)
    joint = given @ profiles.weights * np.exp(sets @ evidence)
    joint /= joint.sum()
    wrong = 0.0
    for counts in product(range(n_votes + 1), repeat=N_CLASSES):
        one, zero = (table[np.arange(N_CLASSES), n_votes, counts] for table in (votes.present, votes.absent))
        outcome = joint * np.where(sets == 1, one, zero).prod(axis=1)
        present = outcome @ sets
        wrong += np.minimum(present, outcome.sum() - present).sum()
    return wrong


def points(n: int, n_classes: int = N_CLASSES) -> np.ndarray:
    column = (np.arange(n) + 0.5) / n
    return np.ascontiguousarray(np.random.default_rng(3).permuted(np.tile(column, (n_classes, 1)), axis=1).T)


def test_compiled_equals_reference() -> None:
    profiles, votes = some_profiles(4), typical()
    probs = np.random.default_rng(0).beta(0.3, 0.3, (30, N_CLASSES))
    probs[0], probs[1] = 0.0, 1.0
    tables = profiles.weights, np.ascontiguousarray(profiles.rates.T), votes.present, votes.absent
    arguments = probs, *tables, np.arange(30) % 5, points(40), 1e-6
    np.testing.assert_allclose(compiled.wrong_in_sets(*arguments), reference.wrong_in_sets(*arguments), rtol=1e-9)


@KERNELS
@pytest.mark.parametrize("n_votes", [1, 2])
def test_errors_equal_those_over_all_label_sets_and_votes(kernel: ModuleType, n_votes: int) -> None:
    profiles, votes = some_profiles(), typical()
    evidence, probs = documents(profiles)
    tables = profiles.weights, np.ascontiguousarray(profiles.rates.T), votes.present, votes.absent
    found = kernel.wrong_in_sets(probs, *tables, np.full(len(probs), n_votes), points(3000), 1e-9)
    expected = [by_enumeration(row, profiles, votes, n_votes) for row in evidence]
    alone = expected_wrong(probs, votes, n_votes)
    np.testing.assert_allclose(found, expected, rtol=0.01)
    assert np.abs(alone - expected).max() > 0.1 * np.max(expected)  # independent classes would be far off


def test_few_outcomes_are_enough_for_the_gain() -> None:
    profiles, votes, n_ahead = some_profiles(), typical(0.65), 3
    evidence, probs = documents(profiles, 20)
    none = np.zeros(len(probs), dtype=np.int64)
    fall = np.minimum(probs, 1.0 - probs).sum(axis=1)
    fall = fall - [by_enumeration(row, profiles, votes, n_ahead) for row in evidence]
    alone = expected_wrong(probs, votes) - expected_wrong(probs, votes, n_ahead)
    found = profile_factors(probs, profiles, votes, none, n_ahead)
    np.testing.assert_allclose(found * alone, fall, rtol=0.05)
    assert (found * alone).sum() == pytest.approx(fall.sum(), rel=0.01)
    assert fall.sum() > 1.05 * alone.sum()


def test_votes_on_two_classes_that_always_occur_together_are_votes_on_one() -> None:
    profiles, votes = Profiles(np.array([0.4, 0.6]), np.array([[1e-6, 1e-6], [1.0 - 1e-6] * 2])), typical(n_classes=2)
    probs = np.array([[0.3, 0.3]])
    tables = profiles.weights, np.ascontiguousarray(profiles.rates.T), votes.present, votes.absent
    found = compiled.wrong_in_sets(probs, *tables, np.array([2]), points(4000, 2), 1e-9)
    np.testing.assert_allclose(found, expected_wrong(probs, votes, 4), rtol=0.01)


def test_profiles_that_are_alike_change_nothing() -> None:
    alike = Profiles(np.array([0.3, 0.7]), np.tile([0.2, 0.5, 0.1], (2, 1)))
    probs = np.random.default_rng(0).random((10, N_CLASSES))
    found = wrong_in_sets(probs, alike, typical(), np.full(10, 3))
    np.testing.assert_allclose(found, expected_wrong(probs, typical(), 3), rtol=1e-9)


def candidates(probs: np.ndarray, profiles: Profiles | None) -> Candidates:
    rng, n_docs = np.random.default_rng(5), len(probs)
    rates = Rates(rng.uniform(0.6, 0.9, (4, N_CLASSES)), rng.uniform(0.6, 0.9, (4, N_CLASSES)))
    return Candidates(
        probs,
        np.zeros(n_docs, dtype=np.int64),
        np.full(n_docs, 2),
        rates,
        np.arange(4),
        np.full(4, 10),
        np.ones((4, n_docs)),
        np.ones((4, n_docs), dtype=bool),
        profiles,
    )


def test_one_profile_gives_the_same_bits_as_none_and_several_give_larger_gains() -> None:
    profiles, votes = some_profiles(), typical(0.65)
    _, probs = documents(profiles, 20)
    alone, one, several = (
        choose_pairs(candidates(probs, given), votes, 20)
        for given in (None, Profiles(np.ones(1), profiles.rates[:1]), profiles)
    )
    assert one == alone
    assert sum(pair.gain for pair in several) > 1.02 * sum(pair.gain for pair in alone)


def test_typical_votes_are_worth_as_much_as_those_of_annotators_who_differ() -> None:
    """Votes of good and poor annotators in turn, known as such, against votes with their mean rates."""
    rng = np.random.default_rng(0)
    probs, rates = rng.uniform(0.05, 0.95, (40, 1)), np.array([0.55, 0.6, 0.8, 0.97])
    votes = typical_votes(Rates(rates[:, None], rates[:, None]), np.ones(4))
    n_votes, wrong = 3, 0.0
    for who in product(rates, repeat=n_votes):
        for said in product((0, 1), repeat=n_votes):
            right = np.where(said, who, 1.0 - np.array(who)).prod()
            opposite = np.where(said, 1.0 - np.array(who), who).prod()
            wrong += np.minimum(probs * right, (1.0 - probs) * opposite).sum() / len(rates) ** n_votes
    fall = np.minimum(probs, 1.0 - probs).sum() - wrong
    found = (expected_wrong(probs, votes) - expected_wrong(probs, votes, n_votes)).sum()
    assert found == pytest.approx(fall, rel=0.06)
    mean = typical_votes(Rates(np.full((1, 1), rates.mean()), np.full((1, 1), rates.mean())), np.ones(1))
    assert (expected_wrong(probs, mean) - expected_wrong(probs, mean, n_votes)).sum() < 0.9 * fall
