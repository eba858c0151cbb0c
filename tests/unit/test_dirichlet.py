from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from palda.models.topics import MAX_CONCENTRATION, MIN_CONCENTRATION, fit_dirichlet, fit_symmetric_dirichlet

Array = NDArray[np.float64]


def mean_log_likelihood(alpha: Array, mean_log: Array) -> float:
    """The objective for one row, per document."""
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + alpha @ mean_log)


def expected_log(alpha: Array) -> Array:
    return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Start, Σ E[log θ] of random Dirichlets, and numbers of documents."""
    n_rows, n_topics = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.1, 1.0, 3.0, 6.0]))
    n_docs = rng.integers(1, 1000, n_rows).astype(np.float64)
    sources = np.exp(rng.normal(0.0, spread, (n_rows, 3, n_topics)))
    mean_log = expected_log(sources).mean(axis=1)
    start = np.exp(rng.uniform(np.log(MIN_CONCENTRATION), np.log(MAX_CONCENTRATION), (n_rows, n_topics)))
    return start, mean_log * n_docs[:, None], n_docs


@settings(deadline=None, max_examples=150, derandomize=True)
@given(problems())
def test_the_gradient_vanishes_within_the_limits_and_points_outwards_at_them(
    problem: tuple[Array, Array, Array],
) -> None:
    start, log_theta, n_docs = problem
    alpha, converged = fit_dirichlet(start, log_theta, n_docs)
    assert converged
    assert (alpha >= MIN_CONCENTRATION).all()
    assert (alpha <= MAX_CONCENTRATION).all()
    slope = log_theta / n_docs[:, None] - expected_log(alpha)
    inside = (alpha > MIN_CONCENTRATION) & (alpha < MAX_CONCENTRATION)
    np.testing.assert_allclose((slope * alpha)[inside], 0.0, atol=1e-5)
    assert (slope[alpha == MIN_CONCENTRATION] <= 1e-5).all()
    assert (slope[alpha == MAX_CONCENTRATION] >= -1e-5).all()


@settings(deadline=None, max_examples=100, derandomize=True)
@given(problems())
def test_no_neighbour_and_no_other_start_is_better(problem: tuple[Array, Array, Array]) -> None:
    start, log_theta, n_docs = problem
    alpha, _ = fit_dirichlet(start, log_theta, n_docs)
    other, _ = fit_dirichlet(np.full_like(start, 1.0), log_theta, n_docs)
    rng = np.random.default_rng(0)
    for row, twin, mean_log in zip(alpha, other, log_theta / n_docs[:, None], strict=True):
        best = mean_log_likelihood(row, mean_log)
        assert mean_log_likelihood(twin, mean_log) == pytest.approx(best, rel=1e-10, abs=1e-10)
        for size in (0.3, 0.01):
            neighbours = np.clip(
                row * np.exp(rng.normal(0.0, size, (20, len(row)))), MIN_CONCENTRATION, MAX_CONCENTRATION
            )
            assert max(mean_log_likelihood(near, mean_log) for near in neighbours) <= best + 1e-10


def test_the_parameters_of_a_dirichlet_are_recovered_from_its_expected_logarithms() -> None:
    truth = np.array([[0.2, 1.0, 4.0], [9.0, 0.01, 0.5], [2.0, 2.0, 2.0]])
    alpha, converged = fit_dirichlet(np.ones_like(truth), 50.0 * expected_log(truth), np.full(3, 50.0))
    assert converged
    np.testing.assert_allclose(alpha, truth, rtol=1e-6)


def test_parameters_are_recovered_from_samples() -> None:
    truth = np.array([0.3, 1.5, 5.0])
    logs = np.log(np.random.default_rng(1).dirichlet(truth, 20_000))
    alpha, _ = fit_dirichlet(np.ones((1, 3)), logs.sum(axis=0)[None, :], np.array([20_000.0]))
    np.testing.assert_allclose(alpha[0], truth, rtol=0.05)


def test_a_row_without_documents_keeps_its_start_while_others_move() -> None:
    start = np.array([[0.7, 0.2], [1.0, 1.0]])
    log_theta = np.stack((np.zeros(2), 10 * expected_log(np.array([3.0, 0.5]))))
    alpha, converged = fit_dirichlet(start, log_theta, np.array([0.0, 10.0]))
    assert converged
    np.testing.assert_array_equal(alpha[0], start[0])
    np.testing.assert_allclose(alpha[1], [3.0, 0.5], rtol=1e-6)


def test_without_documents_every_row_keeps_its_start() -> None:
    start = np.array([[0.7, 0.2]])
    alpha, converged = fit_dirichlet(start, np.zeros((1, 2)), np.zeros(1))
    assert converged
    np.testing.assert_array_equal(alpha, start)


def test_with_one_topic_the_start_is_kept() -> None:
    alpha, converged = fit_dirichlet(np.array([[0.4]]), np.array([[0.0]]), np.array([12.0]))
    assert converged
    assert alpha[0, 0] == 0.4


def test_parameters_without_a_finite_maximum_stop_at_the_limits() -> None:
    all_alike = expected_log(np.array([500.0, 500.0]))
    all_extreme = np.array([-1e6, -1e6])
    alpha, converged = fit_dirichlet(np.ones((2, 2)), np.stack((all_alike, all_extreme)), np.ones(2))
    assert converged
    np.testing.assert_array_equal(
        alpha, [[MAX_CONCENTRATION, MAX_CONCENTRATION], [MIN_CONCENTRATION, MIN_CONCENTRATION]]
    )


def symmetric_likelihood(eta: float, log_sum: float, n_rows: int, n_columns: int) -> float:
    return float(n_rows * (gammaln(n_columns * eta) - n_columns * gammaln(eta)) + eta * log_sum)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.floats(1e-4, 100.0), st.integers(1, 60), st.integers(2, 5000), st.floats(1e-4, 50.0), st.integers(0, 2**32 - 1)
)
def test_the_shared_word_prior_is_the_maximum_within_its_limits(
    start: float, n_rows: int, n_columns: int, sharpness: float, seed: int
) -> None:
    counts = np.random.default_rng(seed).gamma(sharpness, 1.0, 50) + 1e-3
    mean = float(np.mean(digamma(counts))) - float(digamma(counts.mean() * n_columns))
    log_sum = mean * n_rows * n_columns
    eta, converged = fit_symmetric_dirichlet(start, log_sum, n_rows, n_columns)
    assert converged
    assert MIN_CONCENTRATION <= eta <= MAX_CONCENTRATION
    best = symmetric_likelihood(eta, log_sum, n_rows, n_columns)
    for factor in (0.5, 0.99, 1.01, 2.0):
        near = min(max(eta * factor, MIN_CONCENTRATION), MAX_CONCENTRATION)
        assert symmetric_likelihood(near, log_sum, n_rows, n_columns) <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("truth", [0.006, 0.1, 1.0, 70.0])
@pytest.mark.parametrize("start", [1e-3, 0.1, 10.0])
def test_the_parameter_of_a_symmetric_dirichlet_is_recovered(truth: float, start: float) -> None:
    n_rows, n_columns = 5, 300
    log_sum = n_rows * n_columns * float(digamma(truth) - digamma(n_columns * truth))
    eta, converged = fit_symmetric_dirichlet(start, log_sum, n_rows, n_columns)
    assert converged
    assert eta == pytest.approx(truth, rel=1e-8)


def test_with_one_word_the_word_prior_keeps_its_start() -> None:
    assert fit_symmetric_dirichlet(0.3, -5.0, 4, 1) == (0.3, True)


@pytest.mark.parametrize(("log_sum", "edge"), [(-1e12, MIN_CONCENTRATION), (0.0, MAX_CONCENTRATION)])
def test_the_word_prior_stops_at_its_limits(log_sum: float, edge: float) -> None:
    assert fit_symmetric_dirichlet(0.3, log_sum, 4, 50) == (edge, True)
