"""The trigamma function, faster than SciPy's for many numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import zeta

if TYPE_CHECKING:
    from palda.data import Array

_FEW_NUMBERS = 300  # for which SciPy's function takes less time than a dozen NumPy operations


def trigamma(x: Array) -> Array:
    """ψ'(x) for x > 0, with 11 digits: eight steps of the recurrence, then the asymptotic series."""
    if x.size < _FEW_NUMBERS:
        few: Array = zeta(2.0, x)
        return few
    total = np.zeros_like(x)
    for _ in range(8):
        total += x**-2.0
        x = x + 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0))
    result: Array = total + inverse + 0.5 * square + inverse * square * series
    return result
