"""Loops and helpers that the compiled kernels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.kernels.arrays import MIN_WORD_WEIGHT, Bags
from palda.kernels.compilation import helper
from palda.kernels.special import exp, log_gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

# Sums may be reordered, so that loops become SIMD code; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}
_MAX_NATS = 500.0  # beyond this a probability is 0 or 1 to the last bit


_SPACING = 128  # doubles, 1 KiB: LLVM asks for at most 32 doubles between two arrays (AVX-512, four vectors at a time)


@helper()
def spaced_zeros(size: int) -> Array:
    """So many zeros, with 1 KiB of unused memory on both sides.

    LLVM compiles a loop that stores to one array and reads another twice, as SIMD and as scalar code, and takes the
    scalar code when the arrays lie within a few vectors of each other. If such a loop also adds up a sum, the two add
    in different orders, so that the last bits would depend on where memory happened to be free. Therefore: in every
    loop with a store and a sum, one array of each pair (stored array, other array) comes from here.
    """
    return np.zeros(size + 2 * _SPACING)[_SPACING : _SPACING + size]


@helper()
def spaced_table(n_rows: int, n_columns: int) -> Array:
    """Zeros (rows, columns), likewise."""
    return spaced_zeros(n_rows * n_columns).reshape((n_rows, n_columns))


@helper(fastmath=FAST)
def log_norms(prior: Array) -> Array:
    """ln Γ(Σ α) - Σ ln Γ(α) of every block."""
    norms = np.zeros(prior.shape[:2])
    for i in range(prior.shape[0]):
        for j in range(2):
            norms[i, j] = log_norm(prior[i, j])
    return norms


@helper(fastmath=FAST)
def log_norm(row: Array) -> float:
    """ln Γ(Σ α) - Σ ln Γ(α) of one block."""
    total = 0.0
    parts = 0.0
    for t in range(len(row)):
        total += row[t]
        parts += log_gamma(row[t])
    return log_gamma(total) - parts


@helper()
def entries_with_mass(bags: Bags, word_weights: Array, d: int, entries: NDArray[np.int64]) -> int:
    """Fill ``entries`` with those of the document whose word belongs to some topic; returns their number."""
    n_words = 0
    for entry in range(bags.starts[d], bags.starts[d + 1]):
        row = word_weights[bags.words[entry]]
        for t in range(len(row)):
            if row[t] > MIN_WORD_WEIGHT:
                entries[n_words] = entry
                n_words += 1
                break
    return n_words


@helper(forceinline=True)
def label_prob(known: int, log_odds: float) -> float:
    """The observed label, or the probability of "present" if there is none."""
    if known >= 0:
        return float(known)
    return 1.0 / (1.0 + exp(-min(max(log_odds, -_MAX_NATS), _MAX_NATS)))


@helper(fastmath=FAST, forceinline=True)
def weighted_sum(weights: Array, rows: Array, n_rows: int, out: Array) -> None:
    """Fill out_t = Σ_n weights_n rows_nt; four rows at a time, so that ``out`` is written less often."""
    n_columns = len(out)
    for t in range(n_columns):
        out[t] = 0.0
    whole = n_rows - n_rows % 4
    for n in range(0, whole, 4):
        w0, w1, w2, w3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
        for t in range(n_columns):
            out[t] += (w0 * rows[n, t] + w1 * rows[n + 1, t]) + (w2 * rows[n + 2, t] + w3 * rows[n + 3, t])
    for n in range(whole, n_rows):
        for t in range(n_columns):
            out[t] += weights[n] * rows[n, t]


@helper(fastmath=FAST, forceinline=True)
def dots(rows: Array, vector: Array, out: Array) -> None:
    """Fill out_i = Σ_t rows_it vector_t; four rows at a time, so that ``vector`` is read less often."""
    n_rows, n_columns = len(rows), len(vector)
    whole = n_rows - n_rows % 4
    for i in range(0, whole, 4):
        s0 = s1 = s2 = s3 = 0.0
        for t in range(n_columns):
            s0 += rows[i, t] * vector[t]
            s1 += rows[i + 1, t] * vector[t]
            s2 += rows[i + 2, t] * vector[t]
            s3 += rows[i + 3, t] * vector[t]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
    for i in range(whole, n_rows):
        score = 0.0
        for t in range(n_columns):
            score += rows[i, t] * vector[t]
        out[i] = score


@helper()
def label_bound(log_odds: Array, probs: Array, d: int) -> float:
    """Σ_i Δ_i log-odds_i + H(Δ_i) of document d."""
    bound = 0.0
    for i in range(probs.shape[1]):
        present = probs[d, i]
        bound += present * log_odds[d, i]
        if 0.0 < present < 1.0:
            bound -= present * np.log(present) + (1.0 - present) * np.log1p(-present)
    return bound
