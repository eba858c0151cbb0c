"""The E-step in plain NumPy, one document at a time, as docs/maths.md writes it: compiled code must equal it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from palda.kernels.arrays import (
    CAUTION,
    FARTHEST,
    FIRST_LEAP,
    MIN_WORD_WEIGHT,
    Bags,
    Beliefs,
    ClassWordProbs,
    Labels,
    PassLimits,
    ShardResult,
    Topics,
    WordEvidence,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["explain_away", "joint", "mean_field"]


def mean_field(bags: Bags, labels: Labels, topics: Topics, stopping: PassLimits, beliefs: Beliefs) -> ShardResult:
    """E-step of the published model: q(λ) q(θ) q(u) q(z) for every document of a shard (maths, eqs. 8-12)."""
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, topics.prior.shape[2]))
    bounds = np.zeros(n_docs)
    n_passes = n_unsettled = 0
    carried = len(beliefs.topic_counts) > 0
    for d in range(n_docs):
        entries, document = document_of(bags, labels, topics, d)
        if carried:
            start = beliefs.topic_counts[d], beliefs.token_class_probs[entries], beliefs.label_probs[d]
        else:
            start = fresh_start(document, topics.prior)
        q = settle(document, topics.prior, stopping, *start)
        counted = counted_blocks(document.known)
        np.add.at(word_counts, bags.words[entries], document.counts[:, None] * q.phi)
        log_theta += np.where(counted[:, :, None], expected_log(q.gamma), 0.0)
        n_blocks += counted
        label_probs[d] = q.Delta
        topic_counts[d] = q.pair_counts.sum(axis=0)
        bounds[d] = document_bound(document, topics.prior, q)
        n_passes += q.n_passes
        n_unsettled += not q.settled
        if carried:
            beliefs.topic_counts[d] = q.gamma
            beliefs.token_class_probs[entries] = q.delta
            beliefs.label_probs[d] = q.Delta
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unsettled)


class Document(NamedTuple):
    """One document's distinct words and what is known of its labels."""

    counts: Array  # (words,)
    weights: Array  # β of each word, (words, topics)
    known: NDArray[np.int8]  # (classes,)
    log_odds: Array  # (classes,)
    fixed: bool  # whether the log-odds have the last word on labels


def document_of(bags: Bags, labels: Labels, topics: Topics, d: int) -> tuple[NDArray[np.int64], Document]:
    """Document d, and which entries of the shard its words are; words that no topic writes are left out."""
    entries = np.arange(bags.starts[d], bags.starts[d + 1])
    entries = entries[(topics.word_weights[bags.words[entries]] > MIN_WORD_WEIGHT).any(axis=1)]
    weights = topics.word_weights[bags.words[entries]]
    return entries, Document(bags.counts[entries], weights, labels.known[d], labels.log_odds[d], labels.fixed)


class Belief(NamedTuple):
    """One document's q, and what its entropies need."""

    gamma: Array  # γ, (classes, 2, topics)
    delta: Array  # δ, (words, classes)
    phi: Array  # φ, (words, topics)
    Delta: Array  # Δ, (classes,)
    pair_counts: Array  # S, (classes, topics)
    entropy: Array  # of q(u) and q(z), with Σ_t φ log β added, (words,)
    n_passes: int
    settled: bool


def settle(doc: Document, prior: Array, stopping: PassLimits, gamma: Array, delta: Array, Delta: Array) -> Belief:
    """Coordinate ascent until the counts stop moving."""
    expected = expected_log(gamma)
    if doc.fixed:
        Delta = updated_labels(doc.known, doc.log_odds)
    n_passes = 0
    settled = False
    while not settled and n_passes < stopping.max_passes:
        n_passes += 1
        A = mixed_states(expected, Delta)
        topic_scores = delta @ A
        phi, log_norm_z = normalised(topic_scores, doc.weights)  # eq. 8
        class_scores = phi @ A.T
        delta, log_norm_u = normalised(class_scores, np.ones_like(class_scores))  # eq. 9
        S = np.einsum("n,ni,nt->it", doc.counts, delta, phi)
        before = gamma
        gamma = prior + states(Delta)[:, :, None] * S[:, None, :]  # eq. 10
        expected = expected_log(gamma)
        evidence = np.sum(S * (expected[:, 1] - expected[:, 0]), axis=1)
        Delta = updated_labels(doc.known, doc.log_odds + (0.0 if doc.fixed else evidence))  # eq. 11
        moved = np.abs(gamma - before)[counted_blocks(doc.known)].sum()
        settled = bool(moved <= stopping.tolerance * max(doc.counts.sum(), 1.0))
    entropy = log_norm_z - np.sum(phi * topic_scores, axis=1) + log_norm_u - np.sum(delta * class_scores, axis=1)
    return Belief(gamma, delta, phi, Delta, S, entropy, n_passes, settled)


def document_bound(doc: Document, prior: Array, q: Belief) -> float:
    """The document's part of the lower bound (maths, eq. 12)."""
    expected = expected_log(q.gamma)
    divergence = dirichlet_divergence(q.gamma, prior, expected)
    return float(
        doc.counts @ (q.entropy - np.log(len(q.Delta)))
        + np.sum(q.pair_counts * mixed_states(expected, q.Delta))
        - np.sum(divergence[counted_blocks(doc.known)])
        + q.Delta @ doc.log_odds
        + np.sum(binary_entropy(q.Delta))
    )


def states(Delta: Array) -> Array:
    """(classes, 2): probability that each class is absent, and present."""
    return np.stack((1 - Delta, Delta), axis=1)


def mixed_states(expected: Array, Delta: Array) -> Array:
    """A_it = Δ_i E[log θ_i1t] + (1 - Δ_i) E[log θ_i0t]."""
    result: Array = np.einsum("ij,ijt->it", states(Delta), expected)
    return result


def fresh_start(doc: Document, prior: Array) -> tuple[Array, Array, Array]:
    """γ, δ and Δ before the first pass, as θ at its prior mean has it: E[θ_i] also says how well class i fits a word.

    Equal δ would leave it to chance which class takes which word: fits then fall into poorer optima.
    """
    n_classes = len(doc.known)
    Delta = updated_labels(doc.known, doc.log_odds)
    mean = states(Delta)[:, :, None] * prior / prior.sum(axis=2, keepdims=True)
    claims = doc.weights @ mean.sum(axis=1).T
    total = claims.sum(axis=1, keepdims=True)
    delta = np.full_like(claims, 1.0 / n_classes)
    np.divide(claims, total, out=delta, where=total > _LEAST_CLAIM)
    return prior + doc.counts.sum() / n_classes * mean, delta, Delta


def expected_log(gamma: Array) -> Array:
    """E[log θ] under Dir(γ) (maths, eq. 7)."""
    result: Array = digamma(gamma) - digamma(gamma.sum(axis=-1, keepdims=True))
    return result


def normalised(scores: Array, weights: Array) -> tuple[Array, Array]:
    """Rows proportional to exp(scores) · weights, and the logs of what they were divided by."""
    highest = np.where(weights > 0, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    raw = np.exp(np.minimum(scores - highest, 0.0)) * weights
    total = raw.sum(axis=1, keepdims=True)
    return raw / total, (np.log(total) + highest)[:, 0]


def updated_labels(known: NDArray[np.int8], log_odds: Array) -> Array:
    """Δ: the observed label, or the posterior where there is none."""
    return np.where(known >= 0, known, 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_MOST_NATS, _MOST_NATS))))


_LEAST_CLAIM = 1e-300  # a word no class could write, to the last bit, starts out everybody's
_MOST_NATS = 500.0  # beyond this a probability is 0 or 1 to the last bit, and exp would overflow


def counted_blocks(known: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which θ_ij of a document count: both where the label is unknown, else only that of the observed state.

    The block of a state that is known not to be keeps its prior: it says nothing about α (maths, correction 7).
    """
    return np.stack((known != 1, known != 0), axis=1)


def dirichlet_divergence(gamma: Array, prior: Array, expected: Array) -> Array:
    """KL(Dir(γ) ‖ Dir(α)) of every block."""
    log_norm_q = gammaln(gamma.sum(axis=-1)) - gammaln(gamma).sum(axis=-1)
    log_norm_p = gammaln(prior.sum(axis=-1)) - gammaln(prior).sum(axis=-1)
    result: Array = log_norm_q - log_norm_p + np.sum((gamma - prior) * expected, axis=-1)
    return result


def binary_entropy(probs: Array) -> Array:
    """Entropy of Bernoulli variables; 0 log 0 is 0."""
    inside = np.clip(probs, 1e-300, 1 - 1e-16)
    return -probs * np.log(inside) - (1 - probs) * np.log1p(-inside)


def joint(bags: Bags, labels: Labels, topics: Topics, stopping: PassLimits, pair_counts: Array) -> ShardResult:
    """E-step with q(λ) q(θ | λ) q(u, z) for every document of a shard (maths, eqs. 26-31).

    ``pair_counts`` is S of every document, (docs, classes, topics), where it starts from and where it ends; of length
    0 when documents start afresh.
    """
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, topics.prior.shape[2]))
    bounds = np.zeros(n_docs)
    n_passes = n_unsettled = 0
    for d in range(n_docs):
        entries, document = document_of(bags, labels, topics, d)
        q = settle_joint(document, topics.prior, stopping, pair_counts[d] if len(pair_counts) else None)
        weights = states(q.Delta)
        np.add.at(word_counts, bags.words[entries], document.counts[:, None] * q.token_probs.sum(axis=1))
        log_theta += weights[:, :, None] * expected_log(q.gamma)
        n_blocks += weights
        label_probs[d] = q.Delta
        S = np.einsum("n,nit->it", document.counts, q.token_probs)
        topic_counts[d] = S.sum(axis=0)
        bounds[d] = joint_bound(document, topics.prior, q)
        n_passes += q.n_passes
        n_unsettled += not q.settled
        if len(pair_counts):
            pair_counts[d] = S
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unsettled)


class JointBelief(NamedTuple):
    """One document's q(λ) q(θ | λ) q(u, z)."""

    gamma: Array  # γ, (classes, 2, topics): of θ_ij given that class i is in state j
    Delta: Array  # Δ, (classes,)
    token_probs: Array  # q(u = i, z = t), (words, classes, topics)
    log_norms: Array  # what it was divided by, (words,)
    n_passes: int
    settled: bool


def settle_joint(doc: Document, prior: Array, stopping: PassLimits, S: Array | None) -> JointBelief:
    """Coordinate ascent, (λ, θ) and (u, z) in turn, until the counts stop moving."""
    Delta = updated_labels(doc.known, doc.log_odds)
    if S is None:
        mean = states(Delta)[:, :, None] * prior / prior.sum(axis=2, keepdims=True)
        S = np.einsum("n,nit->it", doc.counts, token_probs_of(np.log(mean.sum(axis=1)), doc.weights)[0])
    enough = stopping.tolerance * max(doc.counts.sum(), 1.0)
    used = S
    before = moved = np.inf
    n_passes = 0
    while moved > enough and n_passes < stopping.max_passes:
        n_passes += 1
        leaps = stopping.extrapolate and n_passes >= FIRST_LEAP and (n_passes - FIRST_LEAP) % 2 == 0 and moved < before
        ahead = min(CAUTION * moved / (before - moved), FARTHEST) if leaps else 0.0
        used = np.maximum(S + ahead * (S - used), 0.0)
        gamma = prior + used[:, None, :]  # eq. 27
        if not doc.fixed:
            evidence = log_beta(gamma) - log_beta(prior)
            Delta = updated_labels(doc.known, doc.log_odds + evidence[:, 1] - evidence[:, 0])  # eq. 28
        token_probs, log_norms = token_probs_of(mixed_states(expected_log(gamma), Delta), doc.weights)
        S = np.einsum("n,nit->it", doc.counts, token_probs)
        before, moved = moved, float(np.abs(S - used).sum())
    return JointBelief(gamma, Delta, token_probs, log_norms, n_passes, moved <= enough)


def token_probs_of(A: Array, weights: Array) -> tuple[Array, Array]:
    """q(u = i, z = t) ∝ exp(A_it) b_t of every word, and the logs of what it was divided by (maths, eq. 29)."""
    raw = np.exp(A)[None] * weights[:, None, :]
    norms = raw.sum(axis=(1, 2), keepdims=True)
    return raw / norms, np.log(norms)[:, 0, 0]


def joint_bound(doc: Document, prior: Array, q: JointBelief) -> float:
    """The document's part of the lower bound (maths, eq. 31)."""
    divergence = dirichlet_divergence(q.gamma, prior, expected_log(q.gamma))
    return float(
        doc.counts @ (q.log_norms - np.log(len(q.Delta)))
        - np.sum(states(q.Delta) * divergence)
        + q.Delta @ doc.log_odds
        + np.sum(binary_entropy(q.Delta))
    )


def log_beta(rows: Array) -> Array:
    """ln B, the multivariate beta function."""
    result: Array = gammaln(rows).sum(axis=-1) - gammaln(rows.sum(axis=-1))
    return result


def explain_away(
    bags: Bags, log_odds: Array, tempers: Array, speech: ClassWordProbs, stopping: PassLimits
) -> WordEvidence:
    """Labels of documents whose classes share the explanation of every word (maths, eqs. 33 and 34)."""
    evidence = np.zeros_like(log_odds)
    beliefs = np.zeros_like(log_odds)
    n_unsettled = 0
    for d in range(len(log_odds)):
        entries = np.arange(bags.starts[d], bags.starts[d + 1])
        entries = entries[speech.absent[bags.words[entries], 0] > 0]
        words, counts = bags.words[entries], tempers[d] * bags.counts[entries]
        present, absent = speech.present[words], speech.absent[words]
        Delta = updated_labels(np.full(log_odds.shape[1], -1), log_odds[d])
        moved, n_passes = np.inf, 0
        while moved > stopping.tolerance and n_passes < stopping.max_passes:
            n_passes += 1
            before = Delta.copy()
            for i in range(len(Delta)):  # one after the other: each class sees what those before it now explain
                said = counts @ word_evidence(present, absent, Delta)[:, i]
                Delta[i] = updated_labels(np.array([-1]), log_odds[d, [i]] + said)[0]
            moved = np.abs(Delta - before).max()
        n_unsettled += moved > stopping.tolerance
        beliefs[d] = Delta
        evidence[d] = counts @ word_evidence(present, absent, Delta)
    return WordEvidence(evidence, beliefs, n_unsettled)


def word_evidence(present: Array, absent: Array, Delta: Array) -> Array:
    """(words, classes): log-odds that a word gives each class, given what the other classes explain of it."""
    own = Delta * present + (1 - Delta) * absent
    rest = np.maximum(own.sum(axis=1, keepdims=True) - own, 0.0)
    evidence: Array = np.log((rest + present) / (rest + absent))
    return evidence
