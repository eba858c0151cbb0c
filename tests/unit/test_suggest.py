"""Expected information gain of one more vote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palda import Votes
from palda.models.crowd import (
    AnnotatorBelief,
    SupportModel,
    TypicalRates,
    expected_gain,
    rates_given_votes,
    typical_rates,
)
from palda.models.crowd.traits import POINTS


def entropy(p: float) -> float:
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


@pytest.mark.parametrize("prob", [0.02, 0.3, 0.5, 0.97])
def test_gain_is_entropy_minus_expected_entropy_after_the_vote(prob: float) -> None:
    sensitivity, specificity = 0.7, 0.9
    yes = prob * sensitivity + (1 - prob) * (1 - specificity)
    after_yes, after_no = prob * sensitivity / yes, prob * (1 - sensitivity) / (1 - yes)
    expected = entropy(prob) - yes * entropy(after_yes) - (1 - yes) * entropy(after_no)
    rates = TypicalRates(np.array([sensitivity]), np.array([specificity]))
    assert expected_gain(np.array([[prob]]), rates)[0, 0] == pytest.approx(expected, rel=1e-9)


def test_certain_labels_and_random_votes_have_no_gain() -> None:
    good, noise = TypicalRates(np.array([0.9]), np.array([0.9])), TypicalRates(np.array([0.5]), np.array([0.5]))
    np.testing.assert_allclose(expected_gain(np.array([[0.0], [1.0]]), good), 0.0, atol=1e-12)
    np.testing.assert_allclose(expected_gain(np.array([[0.5], [0.1]]), noise), 0.0, atol=1e-12)


def test_gain_grows_with_uncertainty_and_annotator_quality() -> None:
    probs = np.array([[0.5], [0.7], [0.9], [0.99]])
    good, fair = TypicalRates(np.array([0.9]), np.array([0.9])), TypicalRates(np.array([0.7]), np.array([0.7]))
    assert (np.diff(expected_gain(probs, good)[:, 0]) < 0).all()
    assert (expected_gain(probs, good) > expected_gain(probs, fair)).all()


def test_typical_rates_are_weighted_by_number_of_votes() -> None:
    posterior = np.array([[[9.0, 1.0], [8.0, 2.0]], [[5.0, 5.0], [5.0, 5.0]]])  # absent, present
    belief = AnnotatorBelief(posterior, np.ones((2, 2)), np.full(posterior.shape, np.nan))
    often = typical_rates(belief, np.array([[[30.0, 0.0], [0.0, 0.0]], [[10.0, 0.0], [0.0, 0.0]]]), n_classes=3)
    np.testing.assert_allclose(often.specificity, np.full(3, 0.75 * 0.9 + 0.25 * 0.5))
    np.testing.assert_allclose(often.sensitivity, np.full(3, 0.75 * 0.8 + 0.25 * 0.5))
    nobody = typical_rates(belief, np.zeros_like(posterior), n_classes=1)
    np.testing.assert_allclose(nobody.specificity, [0.7])


def test_votes_that_disagree_leave_little_to_gain() -> None:
    """Both labels are as doubtful; of one, ten votes have shown that people disagree."""
    start = SupportModel().start(10, 1)
    weights = np.exp(-0.5 * (POINTS / 2.0) ** 2)[None]
    belief = replace(start, weights=weights / weights.sum())
    votes = Votes.from_records([("new", "a0", "c", 1), ("new", "a1", "c", 0)] + [
        ("disputed", f"a{k}", "c", k % 2) for k in range(10)
    ])  # fmt: skip
    rates = rates_given_votes(votes, belief, None)
    new, disputed = expected_gain(np.full((2, 1), 0.5), rates)[:, 0]
    assert disputed < 0.6 * new
