"""Compiled posterior of label sets under a mixture of profiles; the same function as in reference.py.

Symbols in loops: d document, i class, m profile. Known labels and evidence enter as two weights per class,
p(evidence | present) and p(evidence | absent), scaled so that the larger is 1: certainty is then a plain 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import MIN_FACTOR, LabelSetResult
from palda.kernels.loops import FAST, copy, spaced_zeros
from palda.kernels.special import exp, log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

_FACTORS_PER_LOG = 8  # factors are at least MIN_FACTOR, so their product stays a normal number


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def label_sets(log_odds: Array, known: NDArray[np.int8], log_weights: Array, rates: Array) -> LabelSetResult:
    """Posterior of labels and profiles, with one logarithm per eight factors; ``rates`` is (classes, profiles)."""
    n_docs, n_classes = log_odds.shape
    n_profiles = len(log_weights)
    label_probs = np.empty((n_docs, n_classes))
    profile_probs = np.empty((n_docs, n_profiles))
    log_likelihoods = np.empty(n_docs)
    label_sums = spaced_zeros((n_classes, n_profiles))
    present, absent, products = spaced_zeros((n_classes,)), spaced_zeros((n_classes,)), spaced_zeros((n_profiles,))
    for m in range(n_profiles):
        products[m] = 1.0
    for d in range(n_docs):
        log_scale = _set_weights(log_odds[d], known[d], present, absent)
        log_likelihood = _profile_posterior(present, absent, log_weights, rates, products, profile_probs[d])
        log_likelihoods[d] = log_scale + log_likelihood
        _add_labels(present, absent, rates, profile_probs[d], label_sums, label_probs[d])
    return LabelSetResult(label_probs, profile_probs, log_likelihoods, label_sums)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _set_weights(log_odds: Array, known: NDArray[np.int8], present: Array, absent: Array) -> float:
    """Fill the weights of both states of every class, the larger one 1; returns the log of the common factor."""
    log_scale = 0.0
    for i in range(len(log_odds)):
        smaller = exp(-abs(log_odds[i])) if known[i] < 0 else 0.0
        favoured = log_odds[i] > 0.0 if known[i] < 0 else known[i] == 1
        present[i] = 1.0 if favoured else smaller
        absent[i] = smaller if favoured else 1.0
        log_scale += log_odds[i] if favoured else 0.0
    return log_scale


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _profile_posterior(
    present: Array, absent: Array, log_weights: Array, rates: Array, products: Array, shares: Array
) -> float:
    """Fill ``shares``, the posterior of profiles; returns the log-likelihood. ``products`` are 1 before and after."""
    n_classes, n_profiles = rates.shape
    copy(log_weights, shares)
    for i in range(n_classes):
        base, slope = absent[i], present[i] - absent[i]
        for m in range(n_profiles):
            products[m] *= max(base + slope * rates[i, m], MIN_FACTOR)
        if (i + 1) % _FACTORS_PER_LOG == 0 or i + 1 == n_classes:
            for m in range(n_profiles):
                shares[m] += log(products[m])
                products[m] = 1.0
    best = shares[0]
    for m in range(1, n_profiles):
        best = max(best, shares[m])
    total = 0.0
    for m in range(n_profiles):
        shares[m] = exp(shares[m] - best)
        total += shares[m]
    for m in range(n_profiles):
        shares[m] /= total
    return float(best + log(total))


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _add_labels(
    present: Array, absent: Array, rates: Array, shares: Array, label_sums: Array, label_probs: Array
) -> None:
    """Add P(profile m and class i present) to ``label_sums``; fill ``label_probs`` with class probabilities."""
    n_classes, n_profiles = rates.shape
    for i in range(n_classes):
        base, slope = absent[i], present[i] - absent[i]
        probability = 0.0
        for m in range(n_profiles):
            joint = shares[m] * present[i] * rates[i, m] / max(base + slope * rates[i, m], MIN_FACTOR)
            label_sums[i, m] += joint
            probability += joint
        certain = present[i] == 0.0 or absent[i] == 0.0  # then the rounding error of the shares must not show
        label_probs[i] = present[i] if certain else min(probability, 1.0)
