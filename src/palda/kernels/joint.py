"""Compiled joint E-step: as in reference.py, but no array holds q(u, z) of a word.

For a word, q(u = i, z = t) is proportional to exp(A_it) b_t. Only its norm is needed: words are summed per topic before
they are multiplied by classes (maths, eq. 29), so that a pass over U distinct words costs C·T + U·T, not U·C·T.

A document has one row per class in the scratch arrays. If all classes share one absence prior, those that are known to
be absent have equal posteriors in every pass, so that one row stands for all of them (maths, eq. 62): a pass then
costs (rows + U)·T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from palda.kernels.arrays import (
    EXTRAPOLATION_DAMPING,
    FIRST_EXTRAPOLATION,
    MAX_EXTRAPOLATION,
    Bags,
    Labels,
    PassLimits,
    ShardResult,
    Topics,
)
from palda.kernels.compilation import helper
from palda.kernels.loops import (
    FAST,
    copy,
    dots,
    entries_with_mass,
    label_bound,
    label_prob,
    log_norms,
    spaced_zeros,
    weighted_sum,
)
from palda.kernels.special import digamma, exp, exp_digamma, log_gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


class _Scratch(NamedTuple):
    """Arrays for one document, reused for the next. Rows are those of ``classes``; at most C of them are in use."""

    probs: Array  # Δ, (C,), one entry per class
    classes: NDArray[np.int64]  # (C,): class of each row; the first absent class for the row that absent ones share
    rows_of: NDArray[np.int64]  # (C,): row of each class
    copies: Array  # (C,): number of classes that each row stands for
    used: Array  # S that makes γ, (C, T)
    pair_counts: Array  # S that q(u, z) makes, (C, T)
    alpha: Array  # α of the known state, of "absent" if the label is unknown, (C, T)
    theta: Array  # exp A, (C, T)
    totals: Array  # exp -ψ(Σ_t γ_it) of known labels, (C,)
    psi: Array  # ψ(γ) of the two states of a class, (2, T)
    topic_sums: Array  # Σ_i exp A_it, (T,)
    responses: Array  # R, (T,)
    weights: Array  # b per word, (max words, T)
    counts: Array  # (max words,)
    norms: Array  # Σ_it exp(A_it) b_t per word, (max words,)
    shares: Array  # count / norm, (max words,)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def joint(bags: Bags, labels: Labels, topics: Topics, limits: PassLimits, pair_counts: Array) -> ShardResult:
    """E-step with q(λ) q(θ | λ) q(u, z) for every document of a shard (maths, eqs. 26-31)."""
    n_docs, n_classes = labels.known.shape
    n_topics = topics.prior.shape[2]
    word_counts = np.zeros(topics.word_weights.shape)
    log_theta = np.zeros(topics.prior.shape)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, n_topics))
    bounds = np.zeros(n_docs)
    n_passes = 0
    n_unconverged = 0
    max_words = 0
    for d in range(n_docs):
        max_words = max(max_words, bags.starts[d + 1] - bags.starts[d])
    scratch = _new_scratch(max_words, n_classes, n_topics)
    entries = np.zeros(max_words, dtype=np.int64)
    prior_norms = log_norms(topics.prior)
    for d in range(n_docs):
        known, log_odds = labels.known[d], labels.log_odds[d]
        n_words = entries_with_mass(bags, topics.word_weights, d, entries)
        total = _gather_words(bags, entries, n_words, topics, scratch)
        n_rows = _gather_rows(known, log_odds, topics, scratch)
        if len(pair_counts) > 0:
            _resume(pair_counts[d], n_rows, scratch)
        else:
            _start(topics.prior, n_rows, n_words, scratch)
        tolerance = limits.tolerance * max(total, 1.0)
        before = change = np.inf
        passes = 0
        while change > tolerance and passes < limits.max_passes:
            passes += 1
            ahead = 0.0
            due = passes >= FIRST_EXTRAPOLATION and (passes - FIRST_EXTRAPOLATION) % 2 == 0
            if limits.extrapolate and due and change < before:
                ahead = min(EXTRAPOLATION_DAMPING * change / (before - change), MAX_EXTRAPOLATION)
            _step(ahead, n_rows, scratch)
            if not labels.fixed:
                _update_labels(known, log_odds, topics.prior, prior_norms, n_rows, scratch)
            _update_theta(known, topics.prior, n_rows, scratch)
            before, change = change, _token_pass(n_rows, n_words, scratch)
        n_passes += passes
        n_unconverged += change > tolerance
        bounds[d] = (
            _token_bound(n_words, scratch)
            - total * np.log(n_classes)
            - _add_blocks(topics.prior, prior_norms, n_rows, scratch, log_theta, n_blocks)
            + label_bound(log_odds, scratch.probs)
        )
        copy(scratch.probs, label_probs[d])
        _add_words(bags, entries, n_words, scratch, word_counts)
        _add_topics(n_rows, scratch, topic_counts[d])
        if len(pair_counts) > 0:
            _keep(scratch, pair_counts[d])
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unconverged)


@helper()
def _new_scratch(max_words: int, n_classes: int, n_topics: int) -> _Scratch:
    return _Scratch(
        spaced_zeros((n_classes,)),
        np.zeros(n_classes, dtype=np.int64),
        np.zeros(n_classes, dtype=np.int64),
        spaced_zeros((n_classes,)),
        spaced_zeros((n_classes, n_topics)),
        spaced_zeros((n_classes, n_topics)),
        spaced_zeros((n_classes, n_topics)),
        spaced_zeros((n_classes, n_topics)),
        spaced_zeros((n_classes,)),
        spaced_zeros((2, n_topics)),
        spaced_zeros((n_topics,)),
        spaced_zeros((n_topics,)),
        spaced_zeros((max_words, n_topics)),
        spaced_zeros((max_words,)),
        spaced_zeros((max_words,)),
        spaced_zeros((max_words,)),
    )


@helper(fastmath=FAST)
def _gather_words(bags: Bags, entries: NDArray[np.int64], n_words: int, topics: Topics, scratch: _Scratch) -> float:
    """Copy the document's words into the scratch arrays; returns its number of tokens."""
    total = 0.0
    for n in range(n_words):
        scratch.counts[n] = bags.counts[entries[n]]
        copy(topics.word_weights[bags.words[entries[n]]], scratch.weights[n])
        total += scratch.counts[n]
    return total


@helper(fastmath=FAST)
def _gather_rows(known: NDArray[np.int8], log_odds: Array, topics: Topics, scratch: _Scratch) -> int:
    """Labels before any word, and the rows with their priors; returns the number of rows."""
    n_rows = 0
    shared = -1
    for i in range(len(known)):
        scratch.probs[i] = label_prob(known[i], log_odds[i])
        if shared >= 0 and known[i] == 0:
            scratch.rows_of[i] = shared
            scratch.copies[shared] += 1.0
            continue
        if topics.shared_absence and known[i] == 0:
            shared = n_rows
        scratch.classes[n_rows], scratch.rows_of[i], scratch.copies[n_rows] = i, n_rows, 1.0
        copy(topics.prior[i, max(known[i], 0)], scratch.alpha[n_rows])
        n_rows += 1
    return n_rows


@helper(fastmath=FAST)
def _start(prior: Array, n_rows: int, n_words: int, scratch: _Scratch) -> None:
    """S before the first pass, with θ at its prior mean."""
    n_topics = prior.shape[2]
    for t in range(n_topics):
        scratch.topic_sums[t] = 0.0
    for row in range(n_rows):
        i = scratch.classes[row]
        present_total = 0.0
        absent_total = 0.0
        for t in range(n_topics):
            present_total += prior[i, 1, t]
            absent_total += prior[i, 0, t]
        present, absent = scratch.probs[i] / present_total, (1.0 - scratch.probs[i]) / absent_total
        copies = scratch.copies[row]
        for t in range(n_topics):
            mean = present * prior[i, 1, t] + absent * prior[i, 0, t]
            scratch.theta[row, t] = mean
            scratch.topic_sums[t] += copies * mean
    _token_pass(n_rows, n_words, scratch)


@helper(fastmath=FAST)
def _resume(pair_counts: Array, n_rows: int, scratch: _Scratch) -> None:
    """S before the first pass, as given."""
    for row in range(n_rows):
        copy(pair_counts[scratch.classes[row]], scratch.pair_counts[row])


@helper(fastmath=FAST)
def _keep(scratch: _Scratch, pair_counts: Array) -> None:
    """Fill S of every class from the rows."""
    for i in range(len(pair_counts)):
        copy(scratch.pair_counts[scratch.rows_of[i]], pair_counts[i])


@helper(fastmath=FAST)
def _add_topics(n_rows: int, scratch: _Scratch, topic_counts: Array) -> None:
    for row in range(n_rows):
        for t in range(len(topic_counts)):
            topic_counts[t] += scratch.copies[row] * scratch.pair_counts[row, t]


@helper(fastmath=FAST)
def _step(ahead: float, n_rows: int, scratch: _Scratch) -> None:
    """Use the newest S for γ, or extrapolate beyond it."""
    used, counts = scratch.used.reshape(-1), scratch.pair_counts.reshape(-1)
    for k in range(n_rows * scratch.used.shape[1]):
        used[k] = max(counts[k] + ahead * (counts[k] - used[k]), 0.0)


@helper(fastmath=FAST)
def _update_labels(
    known: NDArray[np.int8], log_odds: Array, prior: Array, prior_norms: Array, n_rows: int, scratch: _Scratch
) -> None:
    """q(λ) from S, with θ integrated out (maths, eq. 28)."""
    for row in range(n_rows):
        i = scratch.classes[row]
        if known[i] < 0:
            evidence = _log_likelihood(prior[i, 1], scratch.used[row], prior_norms[i, 1])
            evidence -= _log_likelihood(prior[i, 0], scratch.used[row], prior_norms[i, 0])
            scratch.probs[i] = label_prob(-1, log_odds[i] + evidence)


@helper(fastmath=FAST)
def _log_likelihood(alpha: Array, counts: Array, prior_norm: float) -> float:
    """ln B(α + S) - ln B(α): log-probability of the counts under a Dirichlet-multinomial."""
    total = 0.0
    parts = 0.0
    for t in range(len(alpha)):
        gamma = alpha[t] + counts[t]
        total += gamma
        parts += log_gamma(gamma)
    return parts - log_gamma(total) + prior_norm


@helper(fastmath=FAST)
def _update_theta(known: NDArray[np.int8], prior: Array, n_rows: int, scratch: _Scratch) -> None:
    """exp A of every row, from q(θ | λ) (maths, eq. 27)."""
    n_topics = scratch.theta.shape[1]
    alpha, used, theta = scratch.alpha.reshape(-1), scratch.used.reshape(-1), scratch.theta.reshape(-1)
    for k in range(n_rows * n_topics):  # one long loop over rows and topics: nearly all of it is SIMD code
        theta[k] = exp_digamma(alpha[k] + used[k])
    for row in range(n_rows):
        total = 0.0
        for t in range(n_topics):
            total += scratch.alpha[row, t] + scratch.used[row, t]
        scratch.totals[row] = total
    for row in range(n_rows):
        scratch.totals[row] = 1.0 / exp_digamma(scratch.totals[row])
    for t in range(n_topics):
        scratch.topic_sums[t] = 0.0
    for row in range(n_rows):
        i = scratch.classes[row]
        if known[i] >= 0:
            for t in range(n_topics):
                scratch.theta[row, t] *= scratch.totals[row]
        else:
            _mix(prior[i], scratch.used[row], scratch.probs[i], scratch.psi, scratch.theta[row])
        copies = scratch.copies[row]
        for t in range(n_topics):
            scratch.topic_sums[t] += copies * scratch.theta[row, t]


@helper(fastmath=FAST)
def _mix(prior: Array, counts: Array, present: float, psi: Array, theta: Array) -> None:
    """Fill exp A of a class whose label is unknown."""
    n_topics = len(counts)
    shift = 0.0
    for j in range(2):
        weight = present if j == 1 else 1.0 - present
        total = 0.0
        for t in range(n_topics):
            gamma = prior[j, t] + counts[t]
            total += gamma
            psi[j, t] = weight * digamma(gamma)
        shift += weight * digamma(total)
    for t in range(n_topics):
        theta[t] = exp(psi[0, t] + psi[1, t] - shift)


@helper(fastmath=FAST)
def _token_pass(n_rows: int, n_words: int, scratch: _Scratch) -> float:
    """Norm of q(u, z) of every word, and S (maths, eq. 29); returns the change of S."""
    n_topics = scratch.theta.shape[1]
    dots(scratch.weights[:n_words], scratch.topic_sums, scratch.norms)
    for n in range(n_words):
        scratch.shares[n] = scratch.counts[n] / scratch.norms[n]
    weighted_sum(scratch.shares, scratch.weights, n_words, scratch.responses)
    change = 0.0
    for row in range(n_rows):
        row_change = 0.0
        for t in range(n_topics):
            count = scratch.theta[row, t] * scratch.responses[t]
            row_change += abs(count - scratch.used[row, t])
            scratch.pair_counts[row, t] = count
        change += scratch.copies[row] * row_change
    return change


@helper()
def _token_bound(n_words: int, scratch: _Scratch) -> float:
    bound = 0.0
    for n in range(n_words):
        bound += scratch.counts[n] * np.log(scratch.norms[n])
    return bound


@helper(fastmath=FAST)
def _add_blocks(
    prior: Array, prior_norms: Array, n_rows: int, scratch: _Scratch, log_theta: Array, n_blocks: Array
) -> float:
    """Count every block by the probability of its state (maths, eq. 30); returns Σ Δ_ij KL(Dir(γ_ij) ‖ Dir(α_ij))."""
    n_topics = prior.shape[2]
    divergence = 0.0
    for row in range(n_rows):
        i, counts = scratch.classes[row], scratch.used[row]
        for j in range(2):
            weight = scratch.copies[row] * (scratch.probs[i] if j == 1 else 1.0 - scratch.probs[i])
            if weight == 0.0:
                continue
            psi = scratch.psi[j]
            total = 0.0
            for t in range(n_topics):
                gamma = prior[i, j, t] + counts[t]
                total += gamma
                psi[t] = digamma(gamma)
            at_total = digamma(total)
            dot = 0.0
            for t in range(n_topics):
                expected = psi[t] - at_total
                dot += counts[t] * expected
                log_theta[i, j, t] += weight * expected
            n_blocks[i, j] += weight
            divergence += weight * (dot - _log_likelihood(prior[i, j], counts, prior_norms[i, j]))
    return divergence


@helper(fastmath=FAST)
def _add_words(bags: Bags, entries: NDArray[np.int64], n_words: int, scratch: _Scratch, word_counts: Array) -> None:
    for n in range(n_words):
        share = scratch.shares[n]
        row = word_counts[bags.words[entries[n]]]
        for t in range(len(row)):
            row[t] += share * scratch.topic_sums[t] * scratch.weights[n, t]
