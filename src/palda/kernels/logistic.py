"""Many logistic regressions at once: a pass over documents, and the direction of L-BFGS.

Columns of coefficients are problems, for example one per class and fold. In the pass every number of a column depends
on that column alone and is added up in the order of the documents, so no sum has to be reordered for SIMD code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from palda.kernels.compilation import helper
from palda.kernels.loops import FAST
from palda.kernels.special import exp, log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.kernels.arrays import SoftLabels, StepRing, WordRows

    Indices = NDArray[np.int64]
    Floats = NDArray[np.floating[Any]]

_FUSED = {"contract"}  # multiply and add may be one instruction


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_FUSED)
def logistic_pass(
    documents: WordRows, labels: SoftLabels, coef: Floats, scores: Floats, curvature: bool
) -> tuple[Floats, Array]:
    """Gradient (words, columns) of the cross-entropy by word coefficients, and the cross-entropy of each column."""
    rows, starts, words, values = documents
    n_columns = coef.shape[1]
    gradient = np.zeros_like(coef)
    losses, target, weight = np.zeros(n_columns), np.zeros(n_columns), np.ones(n_columns)
    for i in range(len(rows)):
        d = rows[i]
        _add_words(starts[d], starts[d + 1], words, values, coef, scores, i)
        for k in range(n_columns):
            target[k] = labels.targets[d, labels.classes[k]]
        if len(labels.weights):
            for k in range(n_columns):
                weight[k] = labels.weights[d, labels.classes[k]]
        _residuals(target, weight, scores, i, losses, curvature)
        for entry in range(starts[d], starts[d + 1]):
            word, value = words[entry], values[entry]
            if curvature:
                value *= value
            for k in range(n_columns):
                gradient[word, k] += value * scores[i, k]
    return gradient, losses


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_FUSED)
def add_word_scores(documents: WordRows, coef: Floats, scores: Floats) -> None:
    """Add Σ value · coefficient over the words of each document to its row of scores."""
    rows, starts, words, values = documents
    for i in range(len(rows)):
        d = rows[i]
        _add_words(starts[d], starts[d + 1], words, values, coef, scores, i)


@helper(fastmath=_FUSED, forceinline=True)
def _add_words(
    first: int, last: int, words: NDArray[np.int32], values: Floats, coef: Floats, scores: Floats, i: int
) -> None:
    """Add Σ value · coefficient over a document's entries to row i of the scores, four entries at a time."""
    n_columns = scores.shape[1]
    entry = first
    while entry + 4 <= last:
        word_0, word_1, word_2, word_3 = words[entry], words[entry + 1], words[entry + 2], words[entry + 3]
        value_0, value_1, value_2, value_3 = values[entry], values[entry + 1], values[entry + 2], values[entry + 3]
        for k in range(n_columns):
            scores[i, k] += (
                value_0 * coef[word_0, k]
                + value_1 * coef[word_1, k]
                + value_2 * coef[word_2, k]
                + value_3 * coef[word_3, k]
            )
        entry += 4
    while entry < last:
        word, value = words[entry], values[entry]
        for k in range(n_columns):
            scores[i, k] += value * coef[word, k]
        entry += 1


@helper(fastmath=_FUSED, forceinline=True)
def _residuals(target: Array, weight: Array, scores: Floats, i: int, losses: Array, curvature: bool) -> None:
    """Replace row i of the scores by residuals, weight · (p - target), or weight · p (1 - p); add to the losses."""
    for k in range(scores.shape[1]):
        score = np.float64(scores[i, k])
        odds = exp(-abs(score))
        larger = 1.0 / (1.0 + odds)
        residual = (larger if score >= 0.0 else odds * larger) - target[k]
        losses[k] += weight[k] * (max(score, 0.0) + log(1.0 + odds) - target[k] * score)
        scores[i, k] = weight[k] * (odds * larger * larger if curvature else residual)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_FUSED)
def platt_sums(scores: Array, targets: Array, weights: Array, rows: Indices, line: Array) -> Array:
    """Cross-entropy of log-odds slope · score + offset, and its derivatives, summed over some documents.

    ``line`` (2, classes) are slopes and offsets. The result (6, classes) is the cross-entropy, its derivatives by slope
    and offset, and its second derivatives by slope, slope and offset, and offset.
    """
    n_classes = line.shape[1]
    sums = np.zeros((6, n_classes))
    for d in rows:
        for k in range(n_classes):
            score, target = scores[d, k], targets[d, k]
            weight = weights[d, k] if len(weights) else 1.0
            log_odds = line[0, k] * score + line[1, k]
            odds = exp(-abs(log_odds))
            larger = 1.0 / (1.0 + odds)
            residual = weight * ((larger if log_odds >= 0.0 else odds * larger) - target)
            variance = weight * odds * larger * larger
            sums[0, k] += weight * (max(log_odds, 0.0) + log(1.0 + odds) - target * log_odds)
            sums[1, k] += residual * score
            sums[2, k] += residual
            sums[3, k] += variance * score * score
            sums[4, k] += variance * score
            sums[5, k] += variance
    return sums


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_FUSED)
def lbfgs_direction(steps: StepRing, problems: Indices, gradient: Array, curvature: Array) -> tuple[Array, Array]:
    """L-BFGS direction of some problems by the two-loop recursion, and its product with minus the gradient.

    ``gradient`` and ``curvature`` have a row of coefficients for each of ``problems``. The recursion starts from the
    diagonal ``curvature``, scaled by the newest step.
    """
    n_steps, (n_problems, n_coef) = len(steps.inverse), gradient.shape
    direction = np.empty((n_problems, n_coef))
    decrease, shares = np.zeros(n_problems), np.zeros(n_steps)
    for k in range(n_problems):
        problem, own = problems[k], direction[k]
        newest = steps.newest[problem]
        for p in range(n_coef):
            own[p] = -gradient[k, p]
        for age in range(n_steps):
            step = (newest - age) % n_steps
            if steps.inverse[step, problem] > 0.0:
                shares[step] = steps.inverse[step, problem] * _dot(steps.moves[step, problem], own)
                _add_multiple(-shares[step], steps.changes[step, problem], own)
        scale = 0.0
        if steps.inverse[newest, problem] > 0.0:
            scale = steps.inverse[newest, problem] * _scaled_square(steps.changes[newest, problem], curvature[k])
        for p in range(n_coef):
            own[p] /= curvature[k, p] * (scale if scale > 0.0 else 1.0)
        for age in range(n_steps - 1, -1, -1):
            step = (newest - age) % n_steps
            if steps.inverse[step, problem] > 0.0:
                share = shares[step] - steps.inverse[step, problem] * _dot(steps.changes[step, problem], own)
                _add_multiple(share, steps.moves[step, problem], own)
        decrease[k] = -_dot(gradient[k], own)
    return direction, decrease


@helper(fastmath=FAST)
def _dot(one: Floats, other: Array) -> float:
    total = 0.0
    for p in range(len(other)):
        total += one[p] * other[p]
    return total


@helper(fastmath=FAST)
def _scaled_square(change: Floats, curvature: Array) -> float:
    """change · (change / curvature)."""
    total = 0.0
    for p in range(len(curvature)):
        own = np.float64(change[p])
        total += own * own / curvature[p]
    return total


@helper(fastmath=_FUSED)
def _add_multiple(share: float, source: Floats, target: Array) -> None:
    for p in range(len(target)):
        target[p] += share * source[p]
