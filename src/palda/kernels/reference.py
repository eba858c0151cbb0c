"""The E-step in plain NumPy, one document at a time, as docs/maths.md writes it: compiled code must equal it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from palda.kernels.arrays import LEAST_WEIGHT, Bags, Beliefs, Labels, ShardResult, Stopping, Topics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["mean_field"]


def mean_field(bags: Bags, labels: Labels, topics: Topics, stopping: Stopping, beliefs: Beliefs) -> ShardResult:
    """E-step of the published model: q(λ) q(θ) q(u) q(z) for every document of a shard (maths, eqs. 8-12)."""
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    bounds = np.zeros(n_docs)
    n_passes = n_unsettled = 0
    carried = len(beliefs.topic_counts) > 0
    for d in range(n_docs):
        entries = np.arange(bags.starts[d], bags.starts[d + 1])
        entries = entries[(topics.word_weights[bags.words[entries]] > LEAST_WEIGHT).any(axis=1)]
        document = Document(
            bags.counts[entries], topics.word_weights[bags.words[entries]], labels.known[d], labels.log_odds[d]
        )
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
        bounds[d] = document_bound(document, topics.prior, q)
        n_passes += q.n_passes
        n_unsettled += not q.settled
        if carried:
            beliefs.topic_counts[d] = q.gamma
            beliefs.token_class_probs[entries] = q.delta
            beliefs.label_probs[d] = q.Delta
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, bounds, n_passes, n_unsettled)


class Document(NamedTuple):
    """One document's distinct words and what is known of its labels."""

    counts: Array  # (words,)
    weights: Array  # β of each word, (words, topics)
    known: NDArray[np.int8]  # (classes,)
    log_odds: Array  # (classes,)


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


def settle(doc: Document, prior: Array, stopping: Stopping, gamma: Array, delta: Array, Delta: Array) -> Belief:
    """Coordinate ascent until the counts stop moving."""
    expected = expected_log(gamma)
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
        Delta = updated_labels(doc.known, doc.log_odds + evidence)  # eq. 11
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
