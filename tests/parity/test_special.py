"""Special functions of the kernels against SciPy; the last bit depends on the machine, which may fuse operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy import special as scipy_special

from palda.kernels import special
from palda.models.topics import MAX_CONCENTRATION, MIN_CONCENTRATION

Array = NDArray[np.float64]


def over_array(function: Callable[[float], float], x: Array) -> Array:
    @njit
    def loop(x: Array) -> Array:
        result = np.empty_like(x)
        for i in range(len(x)):
            result[i] = function(x[i])
        return result

    values: Array = loop(x)
    return values


def log_spaced(low: float, high: float) -> Array:
    return np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(high), 300_000))


def test_exp_is_right_to_two_units_in_the_last_place() -> None:
    x = np.random.default_rng(0).uniform(-708, 708, 300_000)
    np.testing.assert_allclose(over_array(special.exp, x), np.exp(x), rtol=5e-16, atol=0)


def test_exp_is_zero_below_its_range_and_one_at_zero() -> None:
    given = np.array([-np.inf, -1e300, -709.0, 0.0])
    np.testing.assert_array_equal(over_array(special.exp, given), [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(("low", "high"), [(1e-307, 1e307), (0.7, 1.5)])
def test_log_is_right_to_two_units_in_the_last_place(low: float, high: float) -> None:
    x = log_spaced(low, high)
    np.testing.assert_allclose(over_array(special.log, x), np.log(x), rtol=5e-16, atol=0)


def test_exponent_and_mantissa_are_those_of_frexp() -> None:
    x = np.concatenate((log_spaced(1e-307, 1e307), [1.0, 2.0, 0.5]))
    mantissas, exponents = np.frexp(x)  # mantissas in [½, 1)
    np.testing.assert_array_equal(over_array(special.exponent, x), exponents - 1)
    np.testing.assert_array_equal(over_array(special.mantissa, x), 2 * mantissas)


def test_powers_of_two_are_exact_and_zero_below_their_range() -> None:
    k = np.arange(-1000.0, 1001.0)
    np.testing.assert_array_equal(over_array(special.power_of_two, k), np.exp2(k))
    np.testing.assert_array_equal(over_array(special.power_of_two, np.array([-1001.0, -5000.0])), 0.0)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(special.digamma, scipy_special.digamma), (special.log_gamma, scipy_special.gammaln)]
)
def test_digamma_and_log_gamma_are_right_to_1e_14(
    ours: Callable[[float], float], theirs: Callable[[Array], Array]
) -> None:
    x = np.concatenate((log_spaced(1e-6, 1e8), log_spaced(0.1, 10.0), np.arange(1.0, 50.0)))
    expected = theirs(x)
    error = np.abs(over_array(ours, x) - expected) / np.maximum(np.abs(expected), 1.0)
    assert error.max() < 1e-14


def test_exp_digamma_is_right_to_1e_12() -> None:
    x = np.concatenate((log_spaced(2e-3, 1e8), log_spaced(0.1, 10.0), np.arange(1.0, 50.0)))
    expected = np.exp(scipy_special.digamma(x))
    np.testing.assert_allclose(over_array(special.exp_digamma, x), expected, rtol=1e-12, atol=0)


def test_exp_digamma_is_zero_below_its_range() -> None:
    np.testing.assert_array_equal(over_array(special.exp_digamma, np.array([1e-3, 1e-6, 1e-300])), 0.0)


def test_exp_digamma_agrees_with_exp_of_digamma_on_the_whole_range_of_priors() -> None:
    x = log_spaced(MIN_CONCENTRATION, MAX_CONCENTRATION)
    ours = over_array(special.exp_digamma, x)
    assert ours.min() > 1e-90
    np.testing.assert_allclose(over_array(special.exp, over_array(special.digamma, x)), ours, rtol=1e-12, atol=0)
