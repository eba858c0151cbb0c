from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve as sk_curve

from palda import metrics
from palda.errors import DataError


def test_log_likelihood_of_a_small_table_equals_the_hand_computed_value() -> None:
    truth = np.array([[1, 0], [0, -1]])
    probs = np.array([[0.8, 0.1], [0.5, 0.99]])
    expected = (np.log(0.8) + np.log(0.9) + np.log(0.5)) / 3
    assert metrics.class_log_likelihood(truth, probs) == pytest.approx(expected)


def test_a_certain_mistake_costs_the_logarithm_of_eps() -> None:
    assert metrics.class_log_likelihood([1, 0], [0, 1]) == pytest.approx(np.log(1e-6))
    assert metrics.class_log_likelihood([1, 0], [0, 1], eps=1e-3) == pytest.approx(np.log(1e-3))
    assert metrics.class_log_likelihood([1, 0], [1, 0]) == pytest.approx(np.log1p(-1e-6))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_no_probabilities_are_likelier_than_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (8, 3))
    assert metrics.class_log_likelihood(truth, rng.random((8, 3))) < metrics.class_log_likelihood(truth, truth)


def test_calibration_error_of_a_small_table_equals_the_hand_computed_value() -> None:
    truth = [1, 0, 1, 1, 0]
    probs = [0.1, 0.2, 0.8, 0.9, 0.85]
    gaps = 2 * abs(0.15 - 1 / 2) + 3 * abs(0.85 - 2 / 3)
    assert metrics.expected_calibration_error(truth, probs, n_bins=2) == pytest.approx(gaps / 5)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("seed", range(3))
def test_the_curve_equals_that_of_scikit_learn(strategy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.beta(0.5, 1, 300).round(2)  # rounded, so that many lie on an edge or tie
    truth = (rng.random(300) < probs).astype(int)
    curve = metrics.calibration_curve(truth, probs, n_bins=10, strategy=strategy)
    share_true, mean_prob = sk_curve(truth, probs, n_bins=10, strategy=strategy)
    filled = curve.count > 0
    np.testing.assert_allclose(curve.share_true[filled], share_true)
    np.testing.assert_allclose(curve.mean_prob[filled], mean_prob)
    assert curve.count.sum() == 300


def test_the_curve_has_nan_for_empty_bins() -> None:
    curve = metrics.calibration_curve([0, 1, -1], [0.0, 1.0, 0.5], n_bins=4)
    np.testing.assert_array_equal(curve.count, [1, 0, 0, 1])
    np.testing.assert_array_equal(curve.mean_prob, [0, np.nan, np.nan, 1])
    np.testing.assert_array_equal(curve.share_true, [0, np.nan, np.nan, 1])
    np.testing.assert_array_equal(curve.edges, [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_overconfidence_increases_the_calibration_error(strategy) -> None:
    rng = np.random.default_rng(0)
    probs = rng.random((20_000, 3))
    truth = rng.random(probs.shape) < probs
    odds = (probs / (1 - probs)) ** 3
    assert metrics.expected_calibration_error(truth, probs, strategy=strategy) < 0.01
    assert metrics.expected_calibration_error(truth, odds / (1 + odds), strategy=strategy) > 0.1


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_without_known_cells_the_calibration_error_is_nan(strategy) -> None:
    assert np.isnan(metrics.expected_calibration_error([-1, -1], [0.2, 0.3], strategy=strategy))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.class_log_likelihood([1], [0.5], eps=0), "eps is 0; it must lie between 0 and 0.5"),
        (lambda: metrics.expected_calibration_error([1], [0.5], n_bins=0), "n_bins is 0; it must be at least 1"),
        (lambda: metrics.calibration_curve([1], [0.5], strategy="adaptive"), "strategy is 'adaptive'; choose"),
    ],
)
def test_invalid_options_are_refused(call, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()
