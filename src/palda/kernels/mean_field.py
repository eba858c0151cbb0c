"""Compiled E-step of the published model: as in reference.py, over contiguous scratch arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from palda.kernels.arrays import Bags, Beliefs, Labels, PassLimits, ShardResult, Topics
from palda.kernels.compilation import helper
from palda.kernels.loops import (
    FAST,
    dots,
    entries_with_mass,
    label_bound,
    label_prob,
    log_norm,
    log_norms,
    spaced_table,
    spaced_zeros,
    weighted_sum,
)
from palda.kernels.special import digamma, exp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

_MIN_CLASS_FIT = 1e-300


class _Scratch(NamedTuple):
    """Arrays for one document, reused for the next."""

    expected: Array  # E[log θ], (C, 2, T)
    gamma: Array  # γ, (C, 2, T)
    mean_log: Array  # A, (C, T)
    pair_counts: Array  # S, (C, T)
    phi: Array  # φ, (max words, T)
    delta: Array  # δ, (max words, C)
    scores: Array  # (T,)
    class_scores: Array  # (C,)
    probs: Array  # Δ, (C,)
    class_counts: Array  # count · δ over the norm of φ, (C, max words)
    norms: Array  # of φ, (max words,)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def mean_field(bags: Bags, labels: Labels, topics: Topics, limits: PassLimits, beliefs: Beliefs) -> ShardResult:
    """E-step of the published model: q(λ) q(θ) q(u) q(z) for every document of a shard (maths, eqs. 8-12)."""
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, topics.prior.shape[2]))
    bounds = np.zeros(n_docs)
    n_passes = 0
    n_unconverged = 0
    max_words = 0
    for d in range(n_docs):
        max_words = max(max_words, bags.starts[d + 1] - bags.starts[d])
    scratch = _new_scratch(max_words, n_classes, topics.prior.shape[2])
    all_entries = np.zeros(max_words, dtype=np.int64)
    prior_norms = log_norms(topics.prior)
    for d in range(n_docs):
        entries = all_entries[: entries_with_mass(bags, topics.word_weights, d, all_entries)]
        total = bags.counts[entries].sum()
        known, log_odds = labels.known[d], labels.log_odds[d]
        _start(bags, entries, total, known, log_odds, topics, beliefs, d, scratch)
        if labels.fixed:
            for i in range(n_classes):
                scratch.probs[i] = label_prob(known[i], log_odds[i])
        passes, token_bound = _run_passes(bags, entries, total, known, log_odds, labels.fixed, topics, limits, scratch)
        n_passes += abs(passes)
        n_unconverged += passes < 0
        _mix_states(scratch)
        label_probs[d] = scratch.probs
        bounds[d] = (
            token_bound
            - total * np.log(n_classes)
            + (scratch.pair_counts * scratch.mean_log).sum()
            - _divergence(known, topics.prior, prior_norms, scratch)
            + label_bound(labels.log_odds, label_probs, d)
        )
        _add_words(bags, entries, scratch, word_counts)
        _add_blocks(known, scratch.expected, log_theta, n_blocks)
        for i in range(n_classes):
            topic_counts[d] += scratch.pair_counts[i]
        _store_beliefs(beliefs, d, entries, scratch)
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unconverged)


@helper()
def _new_scratch(max_words: int, n_classes: int, n_topics: int) -> _Scratch:
    return _Scratch(
        spaced_zeros(n_classes * 2 * n_topics).reshape((n_classes, 2, n_topics)),
        spaced_zeros(n_classes * 2 * n_topics).reshape((n_classes, 2, n_topics)),
        spaced_table(n_classes, n_topics),
        spaced_table(n_classes, n_topics),
        spaced_table(max_words, n_topics),
        spaced_table(max_words, n_classes),
        spaced_zeros(n_topics),
        spaced_zeros(n_classes),
        spaced_zeros(n_classes),
        spaced_table(n_classes, max_words),
        spaced_zeros(max_words),
    )


@helper(fastmath=FAST)
def _run_passes(
    bags: Bags,
    entries: NDArray[np.int64],
    total: float,
    known: NDArray[np.int8],
    log_odds: Array,
    fixed: bool,
    topics: Topics,
    limits: PassLimits,
    scratch: _Scratch,
) -> tuple[int, float]:
    """Number of passes until convergence (negative if it was not reached), and the tokens' part of the bound."""
    token_bound = 0.0
    _expect_blocks(known, scratch)
    for passes in range(limits.max_passes):
        _mix_states(scratch)
        token_bound = _token_pass(bags, topics.word_weights, entries, scratch)
        change = _update_counts(known, topics.prior, scratch)
        _expect_blocks(known, scratch)
        if not fixed:
            _update_labels(known, log_odds, scratch)
        if change <= limits.tolerance * max(total, 1.0):
            return passes + 1, token_bound
    return -limits.max_passes, token_bound


@helper()
def _add_words(bags: Bags, entries: NDArray[np.int64], scratch: _Scratch, word_counts: Array) -> None:
    for n in range(len(entries)):
        share = bags.counts[entries[n]] / scratch.norms[n]
        row = word_counts[bags.words[entries[n]]]
        for t in range(len(row)):
            row[t] += share * scratch.phi[n, t]


@helper()
def _add_blocks(known: NDArray[np.int8], expected: Array, log_theta: Array, n_blocks: Array) -> None:
    n_classes, _, n_topics = expected.shape
    for i in range(n_classes):
        for j in range(2):
            if known[i] != 1 - j:
                n_blocks[i, j] += 1.0
                for t in range(n_topics):
                    log_theta[i, j, t] += expected[i, j, t]


@helper()
def _store_beliefs(beliefs: Beliefs, d: int, entries: NDArray[np.int64], scratch: _Scratch) -> None:
    """Store the document's beliefs, if the caller asked for them."""
    if len(beliefs.topic_counts) > 0:
        beliefs.topic_counts[d] = scratch.gamma
        beliefs.label_probs[d] = scratch.probs
        for n in range(len(entries)):
            beliefs.token_class_probs[entries[n]] = scratch.delta[n]


@helper()
def _start(
    bags: Bags,
    entries: NDArray[np.int64],
    total: float,
    known: NDArray[np.int8],
    log_odds: Array,
    topics: Topics,
    beliefs: Beliefs,
    d: int,
    scratch: _Scratch,
) -> None:
    """γ, δ and Δ before the first pass: from ``beliefs``, or with θ at its prior mean."""
    prior = topics.prior
    n_classes, _, n_topics = prior.shape
    if len(beliefs.topic_counts) > 0:
        scratch.gamma[:] = beliefs.topic_counts[d]
        scratch.probs[:] = beliefs.label_probs[d]
        for n in range(len(entries)):
            scratch.delta[n] = beliefs.token_class_probs[entries[n]]
        return
    mean = scratch.mean_log  # not in use yet: it holds E[θ] until the first pass fills it
    mean[:] = 0.0
    for i in range(n_classes):
        scratch.probs[i] = label_prob(known[i], log_odds[i])
        for j in range(2):
            weight = scratch.probs[i] if j == 1 else 1.0 - scratch.probs[i]
            share = weight / prior[i, j].sum()
            for t in range(n_topics):
                scratch.gamma[i, j, t] = prior[i, j, t] * (1.0 + share * total / n_classes)
                mean[i, t] += prior[i, j, t] * share
    for n in range(len(entries)):
        _fit_classes(mean, topics.word_weights[bags.words[entries[n]]], scratch.delta[n])


@helper(fastmath=FAST)
def _fit_classes(mean: Array, weights: Array, delta: Array) -> None:
    """Fill δ ∝ Σ_t E[θ_it] β_t: how well each class fits the word."""
    n_classes = len(delta)
    dots(mean, weights, delta)
    norm = delta.sum()
    for i in range(n_classes):
        delta[i] = delta[i] / norm if norm > _MIN_CLASS_FIT else 1.0 / n_classes


@helper(fastmath=FAST)
def _expect_blocks(known: NDArray[np.int8], scratch: _Scratch) -> None:
    """E[log θ] of the counted blocks (maths, eq. 7); the block of a state that is known not to hold is never read."""
    n_classes, _, n_topics = scratch.gamma.shape
    for i in range(n_classes):
        for j in range(2):
            if known[i] == 1 - j:
                continue
            gamma = scratch.gamma[i, j]
            expected = scratch.expected[i, j]
            total = 0.0
            for t in range(n_topics):
                total += gamma[t]
                expected[t] = digamma(gamma[t])
            at_total = digamma(total)
            for t in range(n_topics):
                expected[t] -= at_total


@helper(fastmath=FAST)
def _mix_states(scratch: _Scratch) -> None:
    """A_it = Δ_i E[log θ_i1t] + (1 - Δ_i) E[log θ_i0t]."""
    n_classes, n_topics = scratch.mean_log.shape
    for i in range(n_classes):
        present = scratch.probs[i]
        row = scratch.mean_log[i]
        if present == 1.0:
            row[:] = scratch.expected[i, 1]
        elif present == 0.0:
            row[:] = scratch.expected[i, 0]
        else:
            for t in range(n_topics):
                row[t] = present * scratch.expected[i, 1, t] + (1.0 - present) * scratch.expected[i, 0, t]


@helper(fastmath=FAST)
def _token_pass(bags: Bags, word_weights: Array, entries: NDArray[np.int64], scratch: _Scratch) -> float:
    """φ, then δ, for every distinct word (maths, eqs. 8 and 9), and S; returns the bound's entropy terms.

    φ stays unnormalised, with its norm in ``norms``: that saves a pass over it.
    """
    n_classes = len(scratch.mean_log)
    bound = 0.0
    for n in range(len(entries)):
        count = bags.counts[entries[n]]
        phi, delta = scratch.phi[n], scratch.delta[n]
        weights = word_weights[bags.words[entries[n]]]
        norm, entropy = _topic_probs(scratch.mean_log, delta, weights, scratch.scores, phi)
        scratch.norms[n] = norm
        entropy += _class_probs(scratch.mean_log, phi, norm, scratch.class_scores, delta)
        bound += count * entropy
        for i in range(n_classes):
            scratch.class_counts[i, n] = count * delta[i] / norm
    for i in range(n_classes):
        weighted_sum(scratch.class_counts[i], scratch.phi, len(entries), scratch.pair_counts[i])
    return bound


@helper(fastmath=FAST, forceinline=True)
def _topic_probs(mean_log: Array, delta: Array, weights: Array, scores: Array, phi: Array) -> tuple[float, float]:
    """Fill φ ∝ exp(Σ_i δ_i A_it) β_t; returns its norm, and its entropy plus Σ_t φ_t log β_t."""
    n_classes, n_topics = mean_log.shape
    weighted_sum(delta, mean_log, n_classes, scores)
    highest = -np.inf
    for t in range(n_topics):
        highest = max(highest, scores[t] if weights[t] > 0.0 else -np.inf)
    norm = 0.0
    dot = 0.0
    for t in range(n_topics):
        prob = exp(scores[t] - highest) * weights[t]  # exp is finite even where the weight is 0
        phi[t] = prob
        norm += prob
        dot += prob * scores[t]
    return norm, np.log(norm) + highest - dot / norm


@helper(fastmath=FAST, forceinline=True)
def _class_probs(mean_log: Array, phi: Array, norm: float, scores: Array, delta: Array) -> float:
    """Fill δ ∝ exp(Σ_t φ_t A_it); returns its entropy."""
    n_classes = len(delta)
    dots(mean_log, phi, scores)
    highest = -np.inf
    for i in range(n_classes):
        scores[i] /= norm
        highest = max(highest, scores[i])
    total = 0.0
    dot = 0.0
    for i in range(n_classes):
        prob = exp(scores[i] - highest)
        delta[i] = prob
        total += prob
        dot += prob * scores[i]
    for i in range(n_classes):
        delta[i] /= total
    return float(np.log(total) + highest - dot / total)


@helper(fastmath=FAST)
def _update_counts(known: NDArray[np.int8], prior: Array, scratch: _Scratch) -> float:
    """γ = α + the state's share of S (maths, eq. 10); returns its change."""
    n_classes, _, n_topics = prior.shape
    change = 0.0
    for i in range(n_classes):
        for j in range(2):
            if known[i] == 1 - j:
                continue
            weight = scratch.probs[i] if j == 1 else 1.0 - scratch.probs[i]
            for t in range(n_topics):
                value = prior[i, j, t] + weight * scratch.pair_counts[i, t]
                change += abs(value - scratch.gamma[i, j, t])
                scratch.gamma[i, j, t] = value
    return change


@helper(fastmath=FAST)
def _update_labels(known: NDArray[np.int8], log_odds: Array, scratch: _Scratch) -> None:
    """Δ from prior, votes and words (maths, eq. 11)."""
    n_classes, n_topics = scratch.mean_log.shape
    for i in range(n_classes):
        if known[i] >= 0:
            continue
        evidence = 0.0
        for t in range(n_topics):
            evidence += scratch.pair_counts[i, t] * (scratch.expected[i, 1, t] - scratch.expected[i, 0, t])
        scratch.probs[i] = label_prob(-1, log_odds[i] + evidence)


@helper(fastmath=FAST)
def _divergence(known: NDArray[np.int8], prior: Array, prior_norms: Array, scratch: _Scratch) -> float:
    """Σ KL(Dir(γ) ‖ Dir(α)) over the counted blocks."""
    n_classes, _, n_topics = prior.shape
    divergence = 0.0
    for i in range(n_classes):
        for j in range(2):
            if known[i] == 1 - j:
                continue
            dot = 0.0
            for t in range(n_topics):
                dot += (scratch.gamma[i, j, t] - prior[i, j, t]) * scratch.expected[i, j, t]
            divergence += log_norm(scratch.gamma[i, j]) - prior_norms[i, j] + dot
    return divergence
