"""Compiled joint E-step: as in reference.py, but no array holds q(u, z) of a word.

For a word, q(u = i, z = t) is proportional to exp(A_it) b_t. Only its norm is needed: words are summed per topic before
they are multiplied by classes (maths, eq. 29), so that a pass over U distinct words costs C·T + U·T, not U·C·T.

A document has one row per class in the scratch arrays. If all classes share one absence prior, those that are known to
be absent have equal posteriors in every pass, so that one row stands for all of them (maths, eq. 62): a pass then
costs (rows + U)·T.

Passes are short, so that what surrounds them counts. Functions are inlined and get whole arrays with indices, never
views: Numba would count references to every view and to every array of a named tuple, one atomic operation each. Rows
are padded to whole vectors (lanes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from palda.kernels import lanes
from palda.kernels.arrays import (
    EXTRAPOLATION_DAMPING,
    FIRST_EXTRAPOLATION,
    MAX_EXTRAPOLATION,
    MIN_WORD_WEIGHT,
    Bags,
    Labels,
    PassLimits,
    ShardResult,
    Topics,
)
from palda.kernels.compilation import helper
from palda.kernels.loops import FAST, label_bound, label_prob, log_norms, spaced_table, spaced_zeros
from palda.kernels.special import digamma, exp, exp_digamma, log, log_gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


class _Words(NamedTuple):
    """A document's words that belong to some topic. Three more may be read and written, as words are taken by fours."""

    words: NDArray[np.int64]  # (max words,)
    counts: Array  # (max words,)
    weights: Array  # b per word, (max words, width); 0 after the last topic
    norms: Array  # Σ_it exp(A_it) b_t per word, (max words,)
    shares: Array  # count / norm, (max words,)
    topic_sums: Array  # Σ_i exp A_it, (width,)
    responses: Array  # R, (width,)


class _Rows(NamedTuple):
    """A document's rows; at most C of them are in use. Columns after the last topic hold α = 1 and S = 0."""

    classes: NDArray[np.int64]  # (C,): class of each row; the first absent class for the row that absent ones share
    of_classes: NDArray[np.int64]  # (C,): row of each class
    copies: Array  # (C,): number of classes that each row stands for
    alpha: Array  # α of the known state, of "absent" if the label is unknown, (C, width)
    alpha_totals: Array  # Σ_t α_t, (C,)
    used: Array  # S that makes γ, (C, width)
    counts: Array  # S that q(u, z) makes, (C, width)
    theta: Array  # exp A, (C, width)
    psi: Array  # ψ(γ) of the two states of a class, (2, width)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def joint(bags: Bags, labels: Labels, topics: Topics, limits: PassLimits, pair_counts: Array) -> ShardResult:
    """E-step with q(λ) q(θ | λ) q(u, z) for every document of a shard (maths, eqs. 26-31)."""
    n_docs, n_classes = labels.known.shape
    prior, word_weights, n_topics = topics.prior, topics.word_weights, topics.prior.shape[2]
    word_counts = np.zeros(word_weights.shape)
    log_theta = np.zeros(prior.shape)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, n_topics))
    bounds = np.zeros(n_docs)
    n_passes = 0
    n_unconverged = 0
    max_words = 0
    for d in range(n_docs):
        max_words = max(max_words, bags.starts[d + 1] - bags.starts[d])
    words, rows = _new_scratch(max_words + 4, n_classes, n_topics)
    prior_norms = log_norms(prior)
    for d in range(n_docs):
        n_words, total = _gather_words(bags, d, word_weights, words)
        n_rows = _gather_rows(labels, d, topics, label_probs, rows)
        tolerance = limits.tolerance * max(total, 1.0)
        before = change = np.inf
        passes = 0
        if len(pair_counts) > 0:
            _resume(pair_counts, d, n_rows, rows)
        else:
            _start(prior, label_probs, d, n_rows, rows, words)
            passes = -1  # no pass yet: words only follow from exp A
        while passes < 0 or (change > tolerance and passes < limits.max_passes):
            passes += 1
            if passes > 0:
                ahead = 0.0
                due = passes >= FIRST_EXTRAPOLATION and (passes - FIRST_EXTRAPOLATION) % 2 == 0
                if limits.extrapolate and due and change < before:
                    ahead = min(EXTRAPOLATION_DAMPING * change / (before - change), MAX_EXTRAPOLATION)
                _step(ahead, n_rows, rows)
                if not labels.fixed:
                    _update_labels(labels, d, prior, prior_norms, n_rows, rows, label_probs)
                _update_theta(labels, d, prior, label_probs, n_rows, rows, words)
            latest = _token_pass(n_rows, n_words, rows, words)
            if passes > 0:
                before, change = change, latest
        n_passes += passes
        n_unconverged += change > tolerance
        bounds[d] = (
            _token_bound(n_words, words)
            - total * np.log(n_classes)
            - _add_blocks(prior, prior_norms, label_probs, d, n_rows, rows, log_theta, n_blocks)
            + label_bound(labels.log_odds, label_probs, d)
        )
        _add_counts(n_words, words, n_rows, rows, d, word_counts, topic_counts)
        if len(pair_counts) > 0:
            _keep(rows, pair_counts, d)
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unconverged)


@helper()
def _new_scratch(max_words: int, n_classes: int, n_topics: int) -> tuple[_Words, _Rows]:
    width = (n_topics + lanes.WIDTH - 1) // lanes.WIDTH * lanes.WIDTH
    words = _Words(
        np.zeros(max_words, dtype=np.int64),
        spaced_zeros(max_words),
        spaced_table(max_words, width),
        spaced_zeros(max_words),
        spaced_zeros(max_words),
        spaced_zeros(width),
        spaced_zeros(width),
    )
    rows = _Rows(
        np.zeros(n_classes, dtype=np.int64),
        np.zeros(n_classes, dtype=np.int64),
        spaced_zeros(n_classes),
        spaced_table(n_classes, width),
        spaced_zeros(n_classes),
        spaced_table(n_classes, width),
        spaced_table(n_classes, width),
        spaced_table(n_classes, width),
        spaced_table(max(n_classes, 2), width),
    )
    for row in range(n_classes):
        for t in range(width):
            rows.alpha[row, t] = 1.0
    return words, rows


@helper(fastmath=FAST, forceinline=True)
def _gather_words(bags: Bags, d: int, word_weights: Array, words: _Words) -> tuple[int, float]:
    """Copy the document's words that belong to some topic; returns the number of words and of tokens."""
    n_words = 0
    total = 0.0
    n_topics = word_weights.shape[1]
    for entry in range(bags.starts[d], bags.starts[d + 1]):
        word, count = bags.words[entry], bags.counts[entry]
        for t in range(n_topics):
            words.weights[n_words, t] = word_weights[word, t]
        for t in range(n_topics):
            if words.weights[n_words, t] > MIN_WORD_WEIGHT:
                words.words[n_words], words.counts[n_words] = word, count
                total += count
                n_words += 1
                break
    for n in range(n_words, n_words + 3):  # these may be read, but do not count
        words.counts[n] = 0.0
        for t in range(n_topics):
            words.weights[n, t] = 1.0
    return n_words, total


@helper(fastmath=FAST, forceinline=True)
def _gather_rows(labels: Labels, d: int, topics: Topics, label_probs: Array, rows: _Rows) -> int:
    """Labels before any word, and the rows with their priors; returns the number of rows."""
    n_rows = 0
    shared = -1
    for i in range(label_probs.shape[1]):
        known = labels.known[d, i]
        label_probs[d, i] = label_prob(known, labels.log_odds[d, i])
        if shared >= 0 and known == 0:
            rows.of_classes[i] = shared
            rows.copies[shared] += 1.0
            continue
        if topics.shared_absence and known == 0:
            shared = n_rows
        rows.classes[n_rows], rows.of_classes[i], rows.copies[n_rows] = i, n_rows, 1.0
        state = max(known, 0)
        total = 0.0
        for t in range(topics.prior.shape[2]):
            alpha = topics.prior[i, state, t]
            rows.alpha[n_rows, t] = alpha
            total += alpha
        rows.alpha_totals[n_rows] = total
        n_rows += 1
    return n_rows


@helper(fastmath=FAST, forceinline=True)
def _start(prior: Array, label_probs: Array, d: int, n_rows: int, rows: _Rows, words: _Words) -> None:
    """exp A before the first pass, with θ at its prior mean."""
    n_topics = prior.shape[2]
    for t in range(n_topics):
        words.topic_sums[t] = 0.0
    for row in range(n_rows):
        i = rows.classes[row]
        present_total = 0.0
        absent_total = 0.0
        for t in range(n_topics):
            present_total += prior[i, 1, t]
            absent_total += prior[i, 0, t]
        present, absent = label_probs[d, i] / present_total, (1.0 - label_probs[d, i]) / absent_total
        for t in range(n_topics):
            mean = present * prior[i, 1, t] + absent * prior[i, 0, t]
            rows.theta[row, t] = mean
            words.topic_sums[t] += rows.copies[row] * mean


@helper(fastmath=FAST)
def _resume(pair_counts: Array, d: int, n_rows: int, rows: _Rows) -> None:
    """S before the first pass, as given."""
    for row in range(n_rows):
        for t in range(pair_counts.shape[2]):
            rows.counts[row, t] = pair_counts[d, rows.classes[row], t]


@helper(fastmath=FAST)
def _keep(rows: _Rows, pair_counts: Array, d: int) -> None:
    """Fill S of every class from the rows."""
    for i in range(pair_counts.shape[1]):
        for t in range(pair_counts.shape[2]):
            pair_counts[d, i, t] = rows.counts[rows.of_classes[i], t]


@helper(fastmath=FAST, forceinline=True)
def _step(ahead: float, n_rows: int, rows: _Rows) -> None:
    """Use the newest S for γ, or extrapolate beyond it; exp ψ(γ) of the rows' states."""
    for row in range(n_rows):
        for t in range(rows.used.shape[1]):
            count = max(rows.counts[row, t] + ahead * (rows.counts[row, t] - rows.used[row, t]), 0.0)
            rows.used[row, t] = count
            rows.theta[row, t] = exp_digamma(rows.alpha[row, t] + count)


@helper(fastmath=FAST, forceinline=True)
def _update_labels(
    labels: Labels, d: int, prior: Array, prior_norms: Array, n_rows: int, rows: _Rows, label_probs: Array
) -> None:
    """q(λ) from S, with θ integrated out (maths, eq. 28)."""
    for row in range(n_rows):
        i = rows.classes[row]
        if labels.known[d, i] < 0:
            evidence = labels.log_odds[d, i]
            for j in range(2):
                log_likelihood = _log_likelihood(prior, i, j, rows, row) + prior_norms[i, j]
                evidence += log_likelihood if j == 1 else -log_likelihood
            label_probs[d, i] = label_prob(-1, evidence)


@helper(fastmath=FAST, forceinline=True)
def _log_likelihood(prior: Array, i: int, j: int, rows: _Rows, row: int) -> float:
    """ln B(α + S); less ln B(α), it is the log-probability of the row's counts under a Dirichlet-multinomial."""
    total = 0.0
    parts = 0.0
    for t in range(prior.shape[2]):
        gamma = prior[i, j, t] + rows.used[row, t]
        total += gamma
        parts += log_gamma(gamma)
    return parts - log_gamma(total)


@helper(fastmath=FAST, forceinline=True)
def _update_theta(
    labels: Labels, d: int, prior: Array, label_probs: Array, n_rows: int, rows: _Rows, words: _Words
) -> None:
    """exp A of every row, from q(θ | λ) (maths, eq. 27), and its sum over classes."""
    width = len(words.topic_sums)
    for t in range(0, width, lanes.WIDTH):
        lanes.store(words.topic_sums, 0, t, lanes.splat(0.0))
    for row in range(n_rows):
        i = rows.classes[row]
        scale = 1.0
        if labels.known[d, i] >= 0:
            sums = lanes.splat(0.0)
            for t in range(0, width, lanes.WIDTH):
                sums = lanes.add(lanes.load(rows.used, row, t), sums)
            scale = 1.0 / exp_digamma(rows.alpha_totals[row] + lanes.total(sums))
        else:
            _mix(prior, i, label_probs[d, i], rows, row)
        scales, copies = lanes.splat(scale), lanes.splat(rows.copies[row])
        for t in range(0, width, lanes.WIDTH):
            theta = lanes.multiply(lanes.load(rows.theta, row, t), scales)
            lanes.store(rows.theta, row, t, theta)
            lanes.store(words.topic_sums, 0, t, lanes.multiply_add(copies, theta, lanes.load(words.topic_sums, 0, t)))


@helper(fastmath=FAST, forceinline=True)
def _mix(prior: Array, i: int, present: float, rows: _Rows, row: int) -> None:
    """Fill exp A of a class whose label is unknown."""
    n_topics = prior.shape[2]
    shift = 0.0
    for j in range(2):
        weight = present if j == 1 else 1.0 - present
        total = 0.0
        for t in range(n_topics):
            gamma = prior[i, j, t] + rows.used[row, t]
            total += gamma
            rows.psi[j, t] = weight * digamma(gamma)
        shift += weight * digamma(total)
    for t in range(n_topics):
        rows.theta[row, t] = exp(rows.psi[0, t] + rows.psi[1, t] - shift)


@helper(forceinline=True)
def _token_pass(n_rows: int, n_words: int, rows: _Rows, words: _Words) -> float:
    """Norm of q(u, z) of every word, and S (maths, eq. 29); returns the change of S."""
    width = len(words.topic_sums)
    for t in range(0, width, lanes.WIDTH):
        lanes.store(words.responses, 0, t, lanes.splat(0.0))
    for n in range(0, n_words, 4):  # four words at a time, whose weights stay in the fastest cache
        norm_0 = norm_1 = norm_2 = norm_3 = lanes.splat(0.0)
        for t in range(0, width, lanes.WIDTH):
            topic_sums = lanes.load(words.topic_sums, 0, t)
            norm_0 = lanes.multiply_add(lanes.load(words.weights, n, t), topic_sums, norm_0)
            norm_1 = lanes.multiply_add(lanes.load(words.weights, n + 1, t), topic_sums, norm_1)
            norm_2 = lanes.multiply_add(lanes.load(words.weights, n + 2, t), topic_sums, norm_2)
            norm_3 = lanes.multiply_add(lanes.load(words.weights, n + 3, t), topic_sums, norm_3)
        share_0 = lanes.splat(_share(n, lanes.total(norm_0), words))
        share_1 = lanes.splat(_share(n + 1, lanes.total(norm_1), words))
        share_2 = lanes.splat(_share(n + 2, lanes.total(norm_2), words))
        share_3 = lanes.splat(_share(n + 3, lanes.total(norm_3), words))
        for t in range(0, width, lanes.WIDTH):
            response = lanes.load(words.responses, 0, t)
            response = lanes.multiply_add(share_0, lanes.load(words.weights, n, t), response)
            response = lanes.multiply_add(share_1, lanes.load(words.weights, n + 1, t), response)
            response = lanes.multiply_add(share_2, lanes.load(words.weights, n + 2, t), response)
            response = lanes.multiply_add(share_3, lanes.load(words.weights, n + 3, t), response)
            lanes.store(words.responses, 0, t, response)
    changes = lanes.splat(0.0)
    for row in range(n_rows):
        copies = lanes.splat(rows.copies[row])
        for t in range(0, width, lanes.WIDTH):
            counts = lanes.multiply(lanes.load(rows.theta, row, t), lanes.load(words.responses, 0, t))
            change = lanes.distance(counts, lanes.load(rows.used, row, t))
            changes = lanes.multiply_add(copies, change, changes)
            lanes.store(rows.counts, row, t, counts)
    return float(lanes.total(changes))


@helper(forceinline=True)
def _share(n: int, norm: float, words: _Words) -> float:
    """Store the norm of a word; returns its count per norm."""
    words.norms[n], words.shares[n] = norm, words.counts[n] / norm
    return float(words.shares[n])


@helper(fastmath=FAST, forceinline=True)
def _token_bound(n_words: int, words: _Words) -> float:
    bound = 0.0
    for n in range(n_words):
        bound += words.counts[n] * log(words.norms[n])
    return bound


@helper(fastmath=FAST, forceinline=True)
def _add_blocks(
    prior: Array,
    prior_norms: Array,
    label_probs: Array,
    d: int,
    n_rows: int,
    rows: _Rows,
    log_theta: Array,
    n_blocks: Array,
) -> float:
    """Count every block by the probability of its state (maths, eq. 30); returns Σ Δ_ij KL(Dir(γ_ij) ‖ Dir(α_ij))."""
    n_topics = prior.shape[2]
    divergence = 0.0
    for row in range(n_rows):
        i = rows.classes[row]
        for j in range(2):
            weight = rows.copies[row] * (label_probs[d, i] if j == 1 else 1.0 - label_probs[d, i])
            if weight == 0.0:
                continue
            total = 0.0
            for t in range(n_topics):
                gamma = prior[i, j, t] + rows.used[row, t]
                total += gamma
                rows.psi[j, t] = digamma(gamma)
            at_total = digamma(total)
            dot = 0.0
            for t in range(n_topics):
                expected = rows.psi[j, t] - at_total
                dot += rows.used[row, t] * expected
                log_theta[i, j, t] += weight * expected
            n_blocks[i, j] += weight
            divergence += weight * (dot - _log_likelihood(prior, i, j, rows, row) - prior_norms[i, j])
    return divergence


@helper(fastmath=FAST, forceinline=True)
def _add_counts(
    n_words: int, words: _Words, n_rows: int, rows: _Rows, d: int, word_counts: Array, topic_counts: Array
) -> None:
    """Add the document's tokens per word and topic; fill its tokens per topic."""
    n_topics = topic_counts.shape[1]
    for n in range(n_words):
        word, share = words.words[n], words.shares[n]
        for t in range(n_topics):
            word_counts[word, t] += share * words.topic_sums[t] * words.weights[n, t]
    for row in range(n_rows):
        for t in range(n_topics):
            topic_counts[d, t] += rows.copies[row] * rows.counts[row, t]
