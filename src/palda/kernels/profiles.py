"""Label sets as a mixture of profiles, summed out exactly: compiled, and as readable NumPy with the same signature.

Symbols in loops: d document, i class, m profile. What is known or said of a label reaches the kernels as two weights,
p(evidence | present) and p(evidence | absent), the larger of them 1: infinite certainty is then a plain 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from palda.kernels.loops import FAST, copy, spaced_zeros
from palda.kernels.special import exp, log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SetResult", "label_sets", "reference_label_sets"]

_FACTORS_PER_LOG = 8  # factors are at least 1e-30, so a product of eight stays a normal number
_LEAST_FACTOR = 1e-30


class SetResult(NamedTuple):
    """What the documents' labels are, and sums over documents."""

    label_probs: Array
    """Δ, (docs, classes)."""
    profile_probs: Array
    """(docs, profiles): how probable each profile is in each document."""
    log_likelihoods: Array
    """(docs,): log p(evidence), less its log-likelihood if every class were absent."""
    label_sums: Array
    """(classes, profiles): Σ_d r_m Δ_mi."""


def reference_label_sets(log_odds: Array, known: NDArray[np.int8], log_weights: Array, rates: Array) -> SetResult:
    """All profiles of one document at a time; ``rates`` is (classes, profiles)."""
    n_docs, n_classes = log_odds.shape
    n_profiles = len(log_weights)
    label_probs = np.empty((n_docs, n_classes))
    profile_probs = np.empty((n_docs, n_profiles))
    log_likelihoods = np.empty(n_docs)
    label_sums = np.zeros((n_classes, n_profiles))
    for d in range(n_docs):
        unknown = known[d] < 0
        top = np.where(unknown, np.maximum(log_odds[d], 0.0), np.where(known[d] == 1, log_odds[d], 0.0))
        present = np.where(unknown, np.exp(np.minimum(log_odds[d], 0.0)), known[d] == 1)
        absent = np.where(unknown, np.exp(np.minimum(-log_odds[d], 0.0)), known[d] == 0)
        factors = np.maximum(absent[:, None] * (1.0 - rates) + present[:, None] * rates, _LEAST_FACTOR)
        scores = log_weights + np.log(factors).sum(axis=0)
        shares = np.exp(scores - scores.max())
        profile_probs[d] = shares / shares.sum()
        joint = profile_probs[d] * present[:, None] * rates / factors
        label_sums += joint
        label_probs[d] = np.where(unknown, np.minimum(joint.sum(axis=1), 1.0), known[d])
        log_likelihoods[d] = top.sum() + scores.max() + np.log(shares.sum())
    return SetResult(label_probs, profile_probs, log_likelihoods, label_sums)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def label_sets(log_odds: Array, known: NDArray[np.int8], log_weights: Array, rates: Array) -> SetResult:
    """The same, with a logarithm for several factors at once; ``rates`` is (classes, profiles)."""
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
        top = _weigh(log_odds[d], known[d], present, absent)
        log_likelihoods[d] = top + _share_out(present, absent, log_weights, rates, products, profile_probs[d])
        _add_labels(present, absent, rates, profile_probs[d], label_sums, label_probs[d])
    return SetResult(label_probs, profile_probs, log_likelihoods, label_sums)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _weigh(log_odds: Array, known: NDArray[np.int8], present: Array, absent: Array) -> float:
    """Weights of both states of every class, the larger one 1; returns the logarithm of what was divided out."""
    top = 0.0
    for i in range(len(log_odds)):
        smaller = exp(-abs(log_odds[i])) if known[i] < 0 else 0.0
        speaks_for = log_odds[i] > 0.0 if known[i] < 0 else known[i] == 1
        present[i] = 1.0 if speaks_for else smaller
        absent[i] = smaller if speaks_for else 1.0
        top += log_odds[i] if speaks_for else 0.0
    return top


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _share_out(
    present: Array, absent: Array, log_weights: Array, rates: Array, products: Array, shares: Array
) -> float:
    """Profiles' posterior into ``shares``; returns the log-likelihood. ``products`` are ones, before and after."""
    n_classes, n_profiles = rates.shape
    copy(log_weights, shares)
    for i in range(n_classes):
        base, slope = absent[i], present[i] - absent[i]
        for m in range(n_profiles):
            products[m] *= max(base + slope * rates[i, m], _LEAST_FACTOR)
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
    """Adds P(profile m and class i present) to ``label_sums``; the probability of each class into ``label_probs``."""
    n_classes, n_profiles = rates.shape
    for i in range(n_classes):
        base, slope = absent[i], present[i] - absent[i]
        probability = 0.0
        for m in range(n_profiles):
            joint = shares[m] * present[i] * rates[i, m] / max(base + slope * rates[i, m], _LEAST_FACTOR)
            label_sums[i, m] += joint
            probability += joint
        certain = present[i] == 0.0 or absent[i] == 0.0  # then shares that add up to 1 but for rounding must not show
        label_probs[i] = present[i] if certain else min(probability, 1.0)
