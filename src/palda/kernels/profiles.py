"""Compiled posterior of label sets under a mixture of profiles; the same function as in reference.py.

Symbols in loops: d document, i class, m profile, t position of a document in its tile. Evidence is the sum over a
document's votes plus other evidence. Known labels and evidence enter as two weights per class, p(evidence | present)
and p(evidence | absent), scaled so that the larger is 1: certainty is then a plain 0.

Documents are taken ``TILE`` at a time, and the inner loops run over them, because they are more than profiles. The
likelihood of a profile is a product of one factor per class. It is kept as mantissa and exponent, so that no logarithm
is taken per profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from palda.kernels.arrays import MIN_FACTOR, LabelSetResult, VoteArrays
from palda.kernels.loops import FAST, spaced_zeros
from palda.kernels.special import exp, exponent, log, mantissa, power_of_two

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

_TILE = 32  # documents
_FACTORS_PER_EXPONENT = 8  # factors are at least MIN_FACTOR, so their product stays a normal number
_LN2 = 0.6931471805599453


class _Tile(NamedTuple):
    """Scratch arrays of some documents."""

    log_odds: Array  # (classes, documents); label probabilities in the end
    present: Array  # (classes, documents): p(evidence | present)
    absent: Array  # (classes, documents): p(evidence | absent)
    log_scale: Array  # (documents,): logarithm of the factor by which the weights were scaled
    shares: Array  # (profiles, documents): posterior of the profiles
    exponents: Array  # (profiles, documents)
    best: Array  # (documents,): largest exponent
    total: Array  # (documents,): likelihood divided by 2^best


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def label_sets(
    votes: VoteArrays, log_ratios: Array, evidence: Array, known: NDArray[np.int8], weights: Array, rates: Array
) -> LabelSetResult:
    """Posterior of labels and sums over profiles and votes; ``rates`` is (classes, profiles)."""
    n_docs, n_classes = known.shape
    n_profiles = len(weights)
    label_probs = np.empty((n_docs, n_classes))
    log_likelihoods = np.empty(n_docs)
    profile_sums, label_sums = spaced_zeros((n_profiles,)), spaced_zeros((n_classes, n_profiles))
    present_votes = np.zeros(log_ratios.shape)
    tile = _Tile(
        spaced_zeros((n_classes, _TILE)),
        spaced_zeros((n_classes, _TILE)),
        spaced_zeros((n_classes, _TILE)),
        spaced_zeros((_TILE,)),
        spaced_zeros((n_profiles, _TILE)),
        spaced_zeros((n_profiles, _TILE)),
        spaced_zeros((_TILE,)),
        spaced_zeros((_TILE,)),
    )
    for first in range(0, n_docs, _TILE):
        stop = min(first + _TILE, n_docs)
        _add_evidence(votes, log_ratios, evidence, first, stop, tile.log_odds)
        _set_weights(tile)
        _set_known(known, first, stop, tile)
        _set_likelihoods(weights, rates, tile)
        _normalise(tile)
        _add_profiles(stop - first, tile.shares, profile_sums)
        _add_labels(rates, tile, label_sums)
        for d in range(first, stop):
            t = d - first
            log_likelihoods[d] = tile.log_scale[t] + tile.best[t] * _LN2 + log(tile.total[t])
            for i in range(n_classes):
                present = tile.present[i, t]
                certain = present == 0.0 or tile.absent[i, t] == 0.0  # rounding errors of the shares must not show
                label_probs[d, i] = present if certain else min(tile.log_odds[i, t], 1.0)
        _count_votes(votes, label_probs, first, stop, present_votes)
    return LabelSetResult(label_probs, log_likelihoods, profile_sums, label_sums, present_votes)


@njit(nogil=True, error_model="numpy")
def _add_evidence(
    votes: VoteArrays, log_ratios: Array, evidence: Array, first: int, stop: int, log_odds: Array
) -> None:
    """Fill ``log_odds`` with the evidence for "present" in nats; positions after the last document keep old numbers."""
    n_columns = np.uint32(log_ratios.shape[1])
    class_step = np.uint32(n_columns > 1)
    ratios = log_ratios.reshape(log_ratios.size)
    for d in range(first, stop):
        t = d - first
        for i in range(len(log_odds)):
            log_odds[i, t] = evidence[d, i] if len(evidence) > 0 else 0.0
        if len(votes.starts) > 0:
            for vote in range(votes.starts[d], votes.starts[d + 1]):
                i = np.uint32(votes.classes[vote])
                cell = np.uint32(votes.annotators[vote]) * n_columns + i * class_step
                log_odds[i, t] += ratios[np.uint32(2) * cell + np.uint32(votes.values[vote])]


@njit(nogil=True, error_model="numpy")
def _count_votes(votes: VoteArrays, label_probs: Array, first: int, stop: int, present_votes: Array) -> None:
    """Add the probability that the class is present to the cell of each vote."""
    if len(votes.starts) == 0:
        return
    if present_votes.shape[1] > 1:
        for d in range(first, stop):
            for vote in range(votes.starts[d], votes.starts[d + 1]):
                i = votes.classes[vote]
                present_votes[votes.annotators[vote], i, votes.values[vote]] += label_probs[d, i]
        return
    for d in range(first, stop):
        annotator, no, yes = np.int64(0), 0.0, 0.0  # sums over the votes of one annotator, which lie together
        for vote in range(votes.starts[d], votes.starts[d + 1]):
            if votes.annotators[vote] != annotator:
                present_votes[annotator, 0, 0] += no
                present_votes[annotator, 0, 1] += yes
                annotator, no, yes = np.int64(votes.annotators[vote]), 0.0, 0.0
            present = label_probs[d, np.uint32(votes.classes[vote])]
            yes += present if votes.values[vote] == 1 else 0.0
            no += present if votes.values[vote] != 1 else 0.0
        if votes.starts[d + 1] > votes.starts[d]:
            present_votes[annotator, 0, 0] += no
            present_votes[annotator, 0, 1] += yes


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _set_weights(tile: _Tile) -> None:
    """Fill the weights of both states of every class, the larger one 1, and the log of their common factor."""
    for t in range(len(tile.log_scale)):
        tile.log_scale[t] = 0.0
    for i in range(len(tile.log_odds)):
        for t in range(len(tile.log_scale)):
            log_odds = tile.log_odds[i, t]
            smaller = exp(-abs(log_odds))
            tile.present[i, t] = 1.0 if log_odds > 0.0 else smaller
            tile.absent[i, t] = smaller if log_odds > 0.0 else 1.0
            tile.log_scale[t] += max(log_odds, 0.0)


@njit(nogil=True, error_model="numpy")
def _set_known(known: NDArray[np.int8], first: int, stop: int, tile: _Tile) -> None:
    """Correct the weights of known labels, whose evidence counts only towards the likelihood."""
    for d in range(first, stop):
        t = d - first
        for i in range(known.shape[1]):
            if known[d, i] >= 0:
                log_odds = tile.log_odds[i, t]
                tile.log_scale[t] += min(log_odds, 0.0) if known[d, i] == 1 else -max(log_odds, 0.0)
                tile.present[i, t] = float(known[d, i])
                tile.absent[i, t] = 1.0 - known[d, i]


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _set_likelihoods(weights: Array, rates: Array, tile: _Tile) -> None:
    """Fill ``shares`` and ``exponents`` with w_m Π_i f_mi as ``shares`` 2^``exponents``."""
    n_classes, n_profiles = rates.shape
    shares, n_docs = tile.shares, tile.shares.shape[1]
    for m in range(n_profiles):
        for t in range(n_docs):
            shares[m, t] = weights[m]
            tile.exponents[m, t] = 0.0
    for i in range(n_classes):
        for m in range(n_profiles):
            rate = rates[i, m]
            for t in range(n_docs):
                factor = tile.absent[i, t] + (tile.present[i, t] - tile.absent[i, t]) * rate
                shares[m, t] *= max(factor, MIN_FACTOR)
        if (i + 1) % _FACTORS_PER_EXPONENT == 0 or i + 1 == n_classes:
            for m in range(n_profiles):
                for t in range(n_docs):
                    tile.exponents[m, t] += exponent(shares[m, t])
                    shares[m, t] = mantissa(shares[m, t])


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _normalise(tile: _Tile) -> None:
    """Turn likelihoods into the posterior of the profiles; their sum is ``total`` 2^``best``."""
    shares, exponents, best, total = tile.shares, tile.exponents, tile.best, tile.total
    n_profiles, n_docs = shares.shape
    for t in range(n_docs):
        best[t] = exponents[0, t]
        total[t] = 0.0
    for m in range(1, n_profiles):
        for t in range(n_docs):
            best[t] = max(best[t], exponents[m, t])
    for m in range(n_profiles):
        for t in range(n_docs):
            shares[m, t] *= power_of_two(exponents[m, t] - best[t])
            total[t] += shares[m, t]
    for m in range(n_profiles):
        for t in range(n_docs):
            shares[m, t] /= total[t]


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _add_profiles(n_docs: int, shares: Array, profile_sums: Array) -> None:
    """Add the posterior of the profiles to ``profile_sums``; positions after the last document are set to 0."""
    for m in range(len(shares)):
        for t in range(n_docs, shares.shape[1]):
            shares[m, t] = 0.0
        total = 0.0
        for t in range(shares.shape[1]):
            total += shares[m, t]
        profile_sums[m] += total


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _add_labels(rates: Array, tile: _Tile, label_sums: Array) -> None:
    """Add P(profile m and class i present) to ``label_sums``; ``log_odds`` become label probabilities."""
    n_classes, n_profiles = rates.shape
    probs = tile.log_odds
    for i in range(n_classes):
        for t in range(len(tile.total)):
            probs[i, t] = 0.0
        for m in range(n_profiles):
            rate, total = rates[i, m], 0.0
            for t in range(len(tile.total)):
                present, absent = tile.present[i, t], tile.absent[i, t]
                joint = tile.shares[m, t] * present * rate / max(absent + (present - absent) * rate, MIN_FACTOR)
                probs[i, t] += joint
                total += joint
            label_sums[i, m] += total
