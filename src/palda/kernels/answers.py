"""Compiled sums over labels that tell how answers of a classifier predict votes; the same as in support_reference.py.

Symbols in loops: n label, c class, j point of the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import LOWEST_ANSWER
from palda.kernels.compilation import helper
from palda.kernels.loops import FAST
from palda.kernels.special import exp, log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


@njit(nogil=True, cache=True, error_model="numpy")
def answer_sums(
    points: Array,
    prior: Array,
    rows: NDArray[np.int64],
    by_votes: Array,
    scores: Array,
    label: NDArray[np.int64],
    parameters: Array,
) -> tuple[float, Array, Array]:
    """Log-likelihood of votes given answers of a classifier, with gradient (classes, 3) and Hessian (classes, 3, 3).

    Label n has the likelihoods ``by_votes[n]`` of its votes, and the distribution ``prior[rows[n]]`` of its support
    before any answer. ``parameters`` (classes, 3) are log gain, shift and log sharpness.
    """
    n_classes = len(parameters)
    gradient, hessian = np.zeros((n_classes, 3)), np.zeros((n_classes, 3, 3))
    gains, sharpness = np.exp(parameters[:, 0]), np.exp(parameters[:, 2])
    log_likelihood = 0.0
    for n in range(len(label)):
        c = label[n]
        from_gain = gains[c] * scores[n]
        answer, half = from_gain - parameters[c, 1], 0.5 * sharpness[c]
        largest = -np.inf
        for j in range(len(points)):
            largest = max(largest, (answer - half * points[j]) * points[j])
        before, after = _moments(points, prior[rows[n]], by_votes[n], answer, half, largest)
        log_likelihood += log(after[0] / before[0])
        mean, square = after[1] / after[0], after[2] / after[0]
        mean_before, square_before = before[1] / before[0], before[2] / before[0]
        by_mean, by_square = mean - mean_before, square - square_before
        variance = (square - mean**2) - (square_before - mean_before**2)
        both = (after[3] / after[0] - mean * square) - (before[3] / before[0] - mean_before * square_before)
        of_square = (after[4] / after[0] - square**2) - (before[4] / before[0] - square_before**2)
        gradient[c, 0] += from_gain * by_mean
        gradient[c, 1] -= by_mean
        gradient[c, 2] -= half * by_square
        hessian[c, 0, 0] += from_gain**2 * variance + from_gain * by_mean
        hessian[c, 0, 1] -= from_gain * variance
        hessian[c, 0, 2] -= half * from_gain * both
        hessian[c, 1, 1] += variance
        hessian[c, 1, 2] += half * both
        hessian[c, 2, 2] += half**2 * of_square - half * by_square
    for c in range(n_classes):
        hessian[c, 1, 0], hessian[c, 2, 0], hessian[c, 2, 1] = hessian[c, 0, 1], hessian[c, 0, 2], hessian[c, 1, 2]
    return log_likelihood, gradient, hessian


_Sums = tuple[float, float, float, float, float]


@helper(fastmath=FAST, forceinline=True)
def _moments(
    points: Array, prior: Array, by_votes: Array, answer: float, half: float, largest: float
) -> tuple[_Sums, _Sums]:
    """Sums of the powers 0 to 4 of the support, without and with the votes."""
    b0 = b1 = b2 = b3 = b4 = a0 = a1 = a2 = a3 = a4 = 0.0
    for j in range(len(points)):
        x = points[j]
        weight = prior[j] * exp(max((answer - half * x) * x - largest, LOWEST_ANSWER))
        both, square = weight * by_votes[j], x * x
        b0 += weight
        b1 += weight * x
        b2 += weight * square
        b3 += weight * square * x
        b4 += weight * square * square
        a0 += both
        a1 += both * x
        a2 += both * square
        a3 += both * square * x
        a4 += both * square * square
    return (b0, b1, b2, b3, b4), (a0, a1, a2, a3, a4)
