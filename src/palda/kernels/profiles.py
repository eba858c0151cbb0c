"""Compiled posterior of label sets under a mixture of profiles; the same function as in reference.py.

Symbols in loops: d document, i class, m profile, t position of a document in its tile. Evidence is the sum over a
document's votes plus other evidence. It enters as two weights per class, p(evidence | present) and p(evidence |
absent), scaled so that the larger is 1. A known label is evidence so large that the other weight is a plain 0.

Documents are taken some at a time, and the inner loops run over them, because they are more than profiles. The
likelihood of a profile is a product of one factor per class. It is kept as mantissa and exponent, so that no logarithm
is taken per profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import MIN_FACTOR, LabelSetResult, VoteArrays
from palda.kernels.compilation import helper
from palda.kernels.loops import FAST, spaced_table, spaced_zeros
from palda.kernels.special import exp, exponent, log, mantissa, power_of_two

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

_TILE = 32  # documents
_FACTORS_PER_EXPONENT = 8  # factors are at least MIN_FACTOR, so their product stays a normal number
_CERTAIN = 800.0  # nats of evidence for a known label; exp(-_CERTAIN) is 0
_LN2 = 0.6931471805599453


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def label_sets(
    votes: VoteArrays, log_ratios: Array, evidence: Array, known: NDArray[np.int8], weights: Array, rates: Array
) -> LabelSetResult:
    """Posterior of labels and sums over profiles and votes; ``rates`` is (classes, profiles)."""
    n_docs, n_classes = known.shape
    n_profiles = len(weights)
    label_probs = np.empty((n_docs, n_classes))
    log_likelihoods = np.empty(n_docs)
    profile_sums, label_sums = spaced_zeros(n_profiles), spaced_table(n_classes, n_profiles)
    present_votes = np.zeros(log_ratios.shape)
    size = min(_TILE, n_docs)
    log_odds = spaced_table(n_classes, size)
    present, absent, probs = (
        spaced_table(n_classes, size),
        spaced_table(n_classes, size),
        spaced_table(n_classes, size),
    )
    shares, exponents = spaced_table(n_profiles, size), spaced_table(n_profiles, size)
    log_scale, best, total = spaced_zeros(size), spaced_zeros(size), spaced_zeros(size)
    for first in range(0, n_docs, _TILE):
        stop = min(first + _TILE, n_docs)
        _gather(votes, log_ratios, evidence, known, first, stop, log_odds, log_scale)
        _set_weights(log_odds, present, absent, log_scale)
        _set_likelihoods(present, absent, weights, rates, shares, exponents)
        _normalise(shares, exponents, best, total, stop - first, profile_sums)
        _add_labels(present, absent, rates, shares, probs, label_sums)
        for d in range(first, stop):
            t = d - first
            log_likelihoods[d] = log_scale[t] + best[t] * _LN2 + log(total[t])
            for i in range(n_classes):
                certain = present[i, t] == 0.0 or absent[i, t] == 0.0  # rounding errors of the shares must not show
                label_probs[d, i] = present[i, t] if certain else min(probs[i, t], 1.0)
        _count_votes(votes, label_probs, first, stop, present_votes)
    return LabelSetResult(label_probs, log_likelihoods, profile_sums, label_sums, present_votes)


@helper()
def _gather(
    votes: VoteArrays,
    log_ratios: Array,
    evidence: Array,
    known: NDArray[np.int8],
    first: int,
    stop: int,
    log_odds: Array,
    log_scale: Array,
) -> None:
    """Fill ``log_odds`` with the evidence for "present" in nats; positions after the last document keep old numbers.

    For a known label, ``log_scale`` becomes what must be added to the log-likelihood for the exchanged evidence.
    """
    n_columns = np.uint32(log_ratios.shape[1])
    class_step = np.uint32(n_columns > 1)
    ratios = log_ratios.reshape(log_ratios.size)
    for d in range(first, stop):
        t = d - first
        for i in range(len(log_odds)):
            log_odds[i, t] = evidence[d, i] if len(evidence) > 0 else 0.0
        if len(votes.starts) > 0:
            for vote in range(votes.starts[d], votes.starts[d + 1]):
                column = np.uint32(votes.classes[vote])
                cell = np.uint32(votes.annotators[vote]) * n_columns + column * class_step
                log_odds[column, t] += ratios[np.uint32(2) * cell + np.uint32(votes.values[vote])]
        log_scale[t] = 0.0
        for i in range(len(log_odds)):
            if known[d, i] >= 0:
                log_scale[t] += log_odds[i, t] - _CERTAIN if known[d, i] == 1 else 0.0
                log_odds[i, t] = _CERTAIN if known[d, i] == 1 else -_CERTAIN


@helper()
def _count_votes(votes: VoteArrays, label_probs: Array, first: int, stop: int, present_votes: Array) -> None:
    """Add the probability that the class is present to the cell of each vote; votes of one cell mostly lie together."""
    n_columns = np.uint32(present_votes.shape[1])
    class_step = np.uint32(n_columns > 1)
    cells = present_votes.reshape(present_votes.size)
    if len(votes.starts) > 0:
        for d in range(first, stop):
            current, no, yes = np.uint32(0), 0.0, 0.0
            for vote in range(votes.starts[d], votes.starts[d + 1]):
                i = np.uint32(votes.classes[vote])
                cell = np.uint32(2) * (np.uint32(votes.annotators[vote]) * n_columns + i * class_step)
                if cell != current:
                    cells[current] += no
                    cells[current + np.uint32(1)] += yes
                    current, no, yes = cell, 0.0, 0.0
                present = label_probs[d, i]
                yes += present if votes.values[vote] == 1 else 0.0
                no += present if votes.values[vote] != 1 else 0.0
            if no + yes > 0.0:
                cells[current] += no
                cells[current + np.uint32(1)] += yes


@helper(fastmath=FAST)
def _set_weights(log_odds: Array, present: Array, absent: Array, log_scale: Array) -> None:
    """Fill the weights of both states of every class, the larger one 1; add the log of their common factor."""
    for i in range(len(log_odds)):
        for t in range(len(log_scale)):
            larger = log_odds[i, t]
            smaller = exp(-abs(larger))
            present[i, t] = 1.0 if larger > 0.0 else smaller
            absent[i, t] = smaller if larger > 0.0 else 1.0
            log_scale[t] += max(larger, 0.0)


@helper(fastmath=FAST)
def _set_likelihoods(
    present: Array, absent: Array, weights: Array, rates: Array, shares: Array, exponents: Array
) -> None:
    """Fill ``shares`` and ``exponents`` with w_m Π_i f_mi as ``shares`` 2^``exponents``."""
    n_classes, n_profiles = rates.shape
    n_docs = shares.shape[1]
    for m in range(n_profiles):
        for t in range(n_docs):
            shares[m, t] = weights[m]
            exponents[m, t] = 0.0
    for i in range(n_classes):
        for m in range(n_profiles):
            rate = rates[i, m]
            for t in range(n_docs):
                shares[m, t] *= max(absent[i, t] + (present[i, t] - absent[i, t]) * rate, MIN_FACTOR)
        if (i + 1) % _FACTORS_PER_EXPONENT == 0 or i + 1 == n_classes:
            for m in range(n_profiles):
                for t in range(n_docs):
                    exponents[m, t] += exponent(shares[m, t])
                    shares[m, t] = mantissa(shares[m, t])


@helper(fastmath=FAST)
def _normalise(shares: Array, exponents: Array, best: Array, total: Array, n_docs: int, profile_sums: Array) -> None:
    """Turn likelihoods into the posterior of the profiles, and add it up; their sum is ``total`` 2^``best``.

    Positions after the last document get a posterior of 0.
    """
    n_profiles, size = shares.shape
    for t in range(size):
        best[t] = exponents[0, t]
        total[t] = 0.0 if t < n_docs else np.inf
        for m in range(1, n_profiles):
            best[t] = max(best[t], exponents[m, t])
    for m in range(n_profiles):
        for t in range(size):
            shares[m, t] *= power_of_two(exponents[m, t] - best[t])
            total[t] += shares[m, t]
    for m in range(n_profiles):
        added = 0.0
        for t in range(size):
            shares[m, t] /= total[t]
            added += shares[m, t]
        profile_sums[m] += added


@helper(fastmath=FAST)
def _add_labels(present: Array, absent: Array, rates: Array, shares: Array, probs: Array, label_sums: Array) -> None:
    """Add P(profile m and class i present) to ``label_sums``; fill ``probs`` with label probabilities."""
    n_classes, n_profiles = rates.shape
    for i in range(n_classes):
        for t in range(probs.shape[1]):
            probs[i, t] = 0.0
        for m in range(n_profiles):
            rate, added = rates[i, m], 0.0
            for t in range(probs.shape[1]):
                factor = max(absent[i, t] + (present[i, t] - absent[i, t]) * rate, MIN_FACTOR)
                joint = shares[m, t] * present[i, t] * rate / factor
                probs[i, t] += joint
                added += joint
            label_sums[i, m] += added
