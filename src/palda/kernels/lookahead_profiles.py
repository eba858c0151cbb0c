"""Compiled errors after further votes when classes occur together; the same function as in reference.py.

Symbols in loops: d document, i class, m profile, t yes votes, s drawn outcome. Given the profile, classes are
independent, so the votes on all other classes tell about a class only what they tell about the profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import MAX_EVIDENCE_SWEEPS, MIN_DOUBT, MIN_SHARE
from palda.kernels.compilation import helper

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


@njit(nogil=True, cache=True, error_model="numpy")
def wrong_in_sets(
    label_probs: Array,
    weights: Array,
    rates: Array,
    present: Array,
    absent: Array,
    n_votes: NDArray[np.int64],
    points: Array,
    tolerance: float,
) -> Array:
    """(documents,): expected number of wrong labels after ``n_votes`` typical votes on all classes (maths, eq. 96)."""
    n_classes, n_profiles = rates.shape
    wrong = np.zeros(len(label_probs))
    shares, updated = np.empty(n_profiles), np.empty(n_profiles)
    label_given, counts = np.empty((n_classes, n_profiles)), np.empty(n_classes, dtype=np.int64)
    vote_probs = np.empty((n_classes, present.shape[1], n_profiles))
    for d in range(len(label_probs)):
        _split(label_probs[d], weights, rates, tolerance, shares, label_given)
        _set_vote_probs(label_given, present, absent, n_votes[d], vote_probs)
        m, below = 0, 0.0
        for s in range(len(points)):
            while m < n_profiles - 1 and below + shares[m] < (s + 0.5) / len(points):
                below += shares[m]
                m += 1
            _draw_votes(vote_probs, shares, points[s], m, n_votes[d], counts, updated)
            for i in range(n_classes):
                prob = _moved(updated, vote_probs[i, counts[i]], label_given[i])
                for t in range(n_votes[d] + 1):
                    wrong[d] += min(prob * present[i, n_votes[d], t], (1.0 - prob) * absent[i, n_votes[d], t])
        wrong[d] /= len(points)
    return wrong


@helper()
def _split(probs: Array, weights: Array, rates: Array, tolerance: float, shares: Array, label_given: Array) -> None:
    """Fill the posterior of the profiles, and that of each label in each profile, from those of the labels.

    Coordinate ascent in the odds that the evidence gives to each class: each step makes one label's probability right.
    """
    odds = np.empty(len(probs))
    shares[:] = weights
    for i in range(len(probs)):
        prob, base = min(max(probs[i], MIN_DOUBT), 1.0 - MIN_DOUBT), 0.0
        for m in range(len(weights)):
            base += weights[m] * rates[i, m]
        odds[i] = prob / (1.0 - prob) * (1.0 - base) / base
        _change_odds(shares, rates[i], 1.0, odds[i])
    for _ in range(MAX_EVIDENCE_SWEEPS):
        largest = 0.0
        for i in range(len(probs)):
            prob, found = min(max(probs[i], MIN_DOUBT), 1.0 - MIN_DOUBT), 0.0
            for m in range(len(weights)):
                found += shares[m] * odds[i] * rates[i, m] / (odds[i] * rates[i, m] + 1.0 - rates[i, m])
            largest = max(largest, abs(found - prob))
            new = odds[i] * prob / (1.0 - prob) * (1.0 - found) / found
            _change_odds(shares, rates[i], odds[i], new)
            odds[i] = new
        if largest < tolerance:
            break
    for i in range(len(probs)):
        for m in range(len(weights)):
            label_given[i, m] = odds[i] * rates[i, m] / (odds[i] * rates[i, m] + 1.0 - rates[i, m])


@helper()
def _change_odds(shares: Array, rates: Array, old: float, new: float) -> None:
    """Update the posterior of the profiles when the evidence for one class changes."""
    total = 0.0
    for m in range(len(shares)):
        change = (new * rates[m] + 1.0 - rates[m]) / (old * rates[m] + 1.0 - rates[m])
        shares[m] = max(shares[m] * change, MIN_SHARE)
        total += shares[m]
    for m in range(len(shares)):
        shares[m] /= total


@helper()
def _set_vote_probs(label_given: Array, present: Array, absent: Array, n_votes: int, vote_probs: Array) -> None:
    """Fill the probability of t yes among the votes on each class, in each profile."""
    for i in range(len(label_given)):
        for t in range(n_votes + 1):
            for m in range(label_given.shape[1]):
                vote_probs[i, t, m] = (
                    label_given[i, m] * present[i, n_votes, t] + (1.0 - label_given[i, m]) * absent[i, n_votes, t]
                )


@helper()
def _draw_votes(
    vote_probs: Array,
    shares: Array,
    points: Array,
    m: int,
    n_votes: int,
    counts: NDArray[np.int64],
    updated: Array,
) -> None:
    """Fill yes votes per class, drawn in profile ``m``, and the posterior of the profiles after them."""
    updated[:] = shares
    for i in range(len(counts)):
        t, below = 0, vote_probs[i, 0, m]
        while t < n_votes and below < points[i]:
            t += 1
            below += vote_probs[i, t, m]
        counts[i] = t
        total = 0.0
        for n in range(len(updated)):
            updated[n] = max(updated[n] * vote_probs[i, t, n], MIN_SHARE)
            total += updated[n]
        for n in range(len(updated)):
            updated[n] /= total


@helper()
def _moved(updated: Array, own: Array, label_given: Array) -> float:
    """Probability of a label after the votes on all other classes; ``own`` are the probabilities of those on it."""
    found, total = 0.0, 0.0
    for m in range(len(updated)):
        share = updated[m] / own[m]
        total += share
        found += share * label_given[m]
    return found / total
