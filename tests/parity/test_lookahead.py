"""Value of further votes: compiled code equals the reference, and both equal enumeration."""

from __future__ import annotations

from itertools import product
from types import ModuleType

import numpy as np
import pytest

from palda.kernels import compiled, reference
from palda.models.assignment import Rates, TypicalVotes, document_gains, expected_wrong, label_gains, typical_votes

KERNELS = pytest.mark.parametrize("kernel", [compiled, reference], ids=["compiled", "reference"])


def inputs(
    seed: int = 0, n_docs: int = 30, n_classes: int = 4, n_annotators: int = 5
) -> tuple[np.ndarray, Rates, TypicalVotes]:
    rng = np.random.default_rng(seed)
    probs = rng.beta(0.3, 0.3, (n_docs, n_classes))
    probs[0], probs[1] = 0.0, 1.0
    rates = Rates(rng.uniform(0.2, 0.99, (n_annotators, n_classes)), rng.uniform(0.2, 0.99, (n_annotators, n_classes)))
    return probs, rates, typical_votes(rates, np.ones(n_annotators))


@pytest.mark.parametrize("n_ahead", [1, 3])
def test_compiled_equals_reference(n_ahead: int) -> None:
    probs, rates, typical = inputs()
    n_others = np.arange(len(probs)) % 4
    tables = typical.present, typical.absent, n_others, n_ahead
    np.testing.assert_allclose(
        compiled.vote_gains(probs, *rates, *tables), reference.vote_gains(probs, *rates, *tables), atol=1e-12
    )
    first = rates.sensitivity[0], rates.specificity[0]
    np.testing.assert_allclose(
        compiled.label_gains(probs, *first, *tables), reference.label_gains(probs, *first, *tables), atol=1e-12
    )
    arguments = probs, typical.present, typical.absent, 3
    np.testing.assert_allclose(compiled.wrong_labels(*arguments), reference.wrong_labels(*arguments), atol=1e-12)


def wrong_by_enumeration(prob: float, voters: list[tuple[float, float]]) -> float:
    """Expected wrong decisions on one label after votes of these (sensitivity, specificity), over all outcomes."""
    wrong = 0.0
    for votes in product((0, 1), repeat=len(voters)):
        present, absent = prob, 1.0 - prob
        for vote, (sensitivity, specificity) in zip(votes, voters, strict=True):
            present *= sensitivity if vote else 1.0 - sensitivity
            absent *= 1.0 - specificity if vote else specificity
        wrong += min(present, absent)
    return wrong


@KERNELS
def test_gain_of_one_vote_is_the_enumerated_fall_of_wrong_labels(kernel: ModuleType) -> None:
    probs, rates, typical = inputs()
    n_others = np.zeros(len(probs), dtype=np.int64)
    found = kernel.vote_gains(probs, *rates, typical.present, typical.absent, n_others, 1)
    for k, d in product(range(5), range(2, 8)):
        expected = sum(
            min(prob, 1.0 - prob) - wrong_by_enumeration(prob, [(rates.sensitivity[k, i], rates.specificity[k, i])])
            for i, prob in enumerate(probs[d])
        )
        assert found[k, d] == pytest.approx(expected, abs=1e-12)


@KERNELS
def test_votes_under_way_and_ahead_equal_enumeration(kernel: ModuleType) -> None:
    """The Shapley value of a vote among n, with q typical votes under way."""
    probs, rates, typical = inputs(1)
    sensitivity, false_alarm = typical.present[:, 1, 1], typical.absent[:, 1, 1]
    q, n_ahead, k, d = 1, 2, 3, 5
    found = kernel.vote_gains(probs, *rates, typical.present, typical.absent, np.full(len(probs), q), n_ahead)

    def fall(n_others: int) -> float:
        total = 0.0
        for i, prob in enumerate(probs[d]):
            others = [(sensitivity[i], 1.0 - false_alarm[i])] * n_others
            own = [(rates.sensitivity[k, i], rates.specificity[k, i])]
            total += wrong_by_enumeration(prob, others) - wrong_by_enumeration(prob, others + own)
        return total

    assert found[k, d] == pytest.approx((fall(q) + fall(q + 1)) / 2.0, abs=1e-12)


def test_a_typical_vote_is_worth_its_part_of_the_fall_by_several() -> None:
    probs, _, typical = inputs(2)
    one = Rates(typical.present[None, :, 1, 1].copy(), typical.absent[None, :, 1, 0].copy())
    found = document_gains(probs, one, typical, np.zeros(len(probs), dtype=np.int64), n_ahead=3)[0]
    fall = expected_wrong(probs, typical) - expected_wrong(probs, typical, 3)
    np.testing.assert_allclose(found, fall / 3, atol=1e-9)


def test_a_label_that_one_vote_cannot_change_is_still_worth_votes() -> None:
    probs, good = np.array([[0.05]]), Rates(np.array([[0.8]]), np.array([[0.8]]))
    typical, none = typical_votes(good, np.ones(1)), np.zeros(1, dtype=np.int64)
    assert document_gains(probs, good, typical, none, n_ahead=1)[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert document_gains(probs, good, typical, none, n_ahead=4)[0, 0] > 0.003


def test_inverted_votes_are_worth_as_much_and_random_ones_nothing() -> None:
    probs = np.array([[0.3, 0.6]])
    rates = Rates(np.array([[0.9, 0.9], [0.1, 0.1], [0.5, 0.5]]), np.array([[0.8, 0.8], [0.2, 0.2], [0.5, 0.5]]))
    typical = typical_votes(rates, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(typical.present[:, 1, 1], 0.9)
    gains = document_gains(probs, rates, typical, np.zeros(1, dtype=np.int64))[:, 0]
    assert gains[0] == pytest.approx(gains[1])
    assert gains[2] == pytest.approx(0.0, abs=1e-12)


def test_gains_of_single_labels_add_up_to_that_of_the_document_without_lookahead() -> None:
    probs, rates, typical = inputs(3)
    none = np.zeros(len(probs), dtype=np.int64)
    whole, parts = document_gains(probs, rates, typical, none, 1), label_gains(probs, rates, typical, none, 1)
    np.testing.assert_allclose(parts.sum(axis=2), whole, atol=1e-12)
