"""Compiled sums and centres over the traits of annotators; the same functions as in support_reference.py.

Symbols in loops: k annotator, c column, n cell (annotator and class), j point of the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.compilation import helper
from palda.kernels.loops import FAST, spaced_table, spaced_zeros
from palda.kernels.special import exp

if TYPE_CHECKING:
    from palda.data import Array

_TINY = 1e-300


@njit(nogil=True, cache=True, error_model="numpy")
def robust_centres(values: Array, weights: Array, width: float, max_rounds: int, tolerance: float) -> Array:
    """(columns,): Tukey's biweight of each column, from its weighted median; 0 without weight."""
    n_rows, n_columns = values.shape
    centres = np.zeros(n_columns)
    own, own_weights = np.empty(n_rows), np.empty(n_rows)
    for c in range(n_columns):
        total = 0.0
        for k in range(n_rows):
            own[k], own_weights[k] = values[k, c], weights[k, c]
            total += own_weights[k]
        if not total > 0.0:
            continue
        cumulative, centre = 0.0, 0.0
        for k in np.argsort(own):
            cumulative += own_weights[k]
            if cumulative >= total / 2.0:
                centre = own[k]
                break
        for _ in range(max_rounds):
            before, weighted, sums = centre, 0.0, 0.0
            for k in range(n_rows):
                distance = min(max((own[k] - centre) / width, -1.0), 1.0)
                share = 1.0 - distance * distance
                share = own_weights[k] * share * share
                weighted += share * own[k]
                sums += share
            centre = weighted / max(sums, _TINY)
            if abs(centre - before) < tolerance:
                break
        centres[c] = centre
    return centres


@njit(nogil=True, cache=True, error_model="numpy")
def trait_sums(points: Array, votes: Array, slopes: Array, offsets: Array) -> Array:
    """(cells, 5): sums over the support of residuals and curvatures of expected votes (cells, 2, points).

    Residuals, the same times the support; curvatures, the same times the support and its square. P(yes) of a cell is
    expit(slope · support + offset).
    """
    n_cells, n_points = len(slopes), len(points)
    sums, yes, total = spaced_table(n_cells, 5), spaced_zeros(n_points), spaced_zeros(n_points)
    for n in range(n_cells):
        for j in range(n_points):
            yes[j] = votes[n, 1, j]
            total[j] = votes[n, 0, j] + votes[n, 1, j]
        sums[n, 0], sums[n, 1], sums[n, 2], sums[n, 3], sums[n, 4] = _cell_sums(
            points, yes, total, slopes[n], offsets[n]
        )
    return sums


@helper(fastmath=FAST)
def _cell_sums(
    points: Array, yes: Array, total: Array, slope: float, offset: float
) -> tuple[float, float, float, float, float]:
    residuals = by_support = curvatures = curvatures_by_support = curvatures_by_square = 0.0
    for j in range(len(points)):
        prob = 1.0 / (1.0 + exp(-(slope * points[j] + offset)))
        residual, curvature = yes[j] - total[j] * prob, total[j] * prob * (1.0 - prob)
        residuals += residual
        by_support += residual * points[j]
        curvatures += curvature
        curvatures_by_support += curvature * points[j]
        curvatures_by_square += curvature * points[j] * points[j]
    return residuals, by_support, curvatures, curvatures_by_support, curvatures_by_square
