"""The kernels in plain NumPy, one document at a time, as in docs/maths.md. Compiled code must give the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import digamma, expit, gammaln

from palda.kernels.arrays import (
    EXTRAPOLATION_DAMPING,
    FIRST_EXTRAPOLATION,
    MAX_EXTRAPOLATION,
    MIN_FACTOR,
    MIN_WORD_WEIGHT,
    Bags,
    Beliefs,
    ClassWordProbs,
    Labels,
    LabelSetResult,
    PassLimits,
    ShardResult,
    SoftLabels,
    StepRing,
    Topics,
    VoteArrays,
    WordEvidence,
    WordRows,
)
from palda.kernels.changes_reference import n_orders_above
from palda.kernels.lookahead_reference import label_gains, vote_gains, wrong_in_sets, wrong_labels
from palda.kernels.support_reference import (
    answer_sums,
    robust_centres,
    support_counts,
    support_evidence,
    support_likelihoods,
    support_step,
    trait_sums,
    votes_by_label,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]
    Floats = NDArray[np.floating[Any]]

__all__ = [
    "add_word_scores",
    "answer_sums",
    "explain_away",
    "joint",
    "label_gains",
    "label_sets",
    "lbfgs_direction",
    "logistic_pass",
    "mean_field",
    "n_orders_above",
    "platt_sums",
    "robust_centres",
    "support_counts",
    "support_evidence",
    "support_likelihoods",
    "support_step",
    "trait_sums",
    "vote_gains",
    "votes_by_label",
    "wrong_in_sets",
    "wrong_labels",
]


def mean_field(bags: Bags, labels: Labels, topics: Topics, limits: PassLimits, beliefs: Beliefs) -> ShardResult:
    """E-step of the published model: q(λ) q(θ) q(u) q(z) for every document of a shard (maths, eqs. 8-12)."""
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, topics.prior.shape[2]))
    bounds = np.zeros(n_docs)
    n_passes = n_unconverged = 0
    resumed = len(beliefs.topic_counts) > 0
    for d in range(n_docs):
        entries, document = document_of(bags, labels, topics, d)
        if resumed:
            start = beliefs.topic_counts[d], beliefs.token_class_probs[entries], beliefs.label_probs[d]
        else:
            start = fresh_start(document, topics.prior)
        q = run_passes(document, topics.prior, limits, *start)
        counted = counted_blocks(document.known)
        np.add.at(word_counts, bags.words[entries], document.counts[:, None] * q.phi)
        log_theta += np.where(counted[:, :, None], expected_log(q.gamma), 0.0)
        n_blocks += counted
        label_probs[d] = q.Delta
        topic_counts[d] = q.pair_counts.sum(axis=0)
        bounds[d] = document_bound(document, topics.prior, q)
        n_passes += q.n_passes
        n_unconverged += not q.converged
        if resumed:
            beliefs.topic_counts[d] = q.gamma
            beliefs.token_class_probs[entries] = q.delta
            beliefs.label_probs[d] = q.Delta
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unconverged)


class Document(NamedTuple):
    """One document's distinct words and its labels."""

    counts: Array  # (words,)
    weights: Array  # β of each word, (words, topics)
    known: NDArray[np.int8]  # (classes,)
    log_odds: Array  # (classes,)
    fixed: bool  # whether words leave the labels unchanged


def document_of(bags: Bags, labels: Labels, topics: Topics, d: int) -> tuple[NDArray[np.int64], Document]:
    """Document d, and its entries in the shard; words that belong to no topic are left out."""
    entries = np.arange(bags.starts[d], bags.starts[d + 1])
    entries = entries[(topics.word_weights[bags.words[entries]] > MIN_WORD_WEIGHT).any(axis=1)]
    weights = topics.word_weights[bags.words[entries]]
    return entries, Document(bags.counts[entries], weights, labels.known[d], labels.log_odds[d], labels.fixed)


class Belief(NamedTuple):
    """One document's q, and the terms of its entropy."""

    gamma: Array  # γ, (classes, 2, topics)
    delta: Array  # δ, (words, classes)
    phi: Array  # φ, (words, topics)
    Delta: Array  # Δ, (classes,)
    pair_counts: Array  # S, (classes, topics)
    entropy: Array  # of q(u) and q(z), with Σ_t φ log β added, (words,)
    n_passes: int
    converged: bool


def run_passes(doc: Document, prior: Array, limits: PassLimits, gamma: Array, delta: Array, Delta: Array) -> Belief:
    """Coordinate ascent until the counts converge."""
    expected = expected_log(gamma)
    if doc.fixed:
        Delta = updated_labels(doc.known, doc.log_odds)
    n_passes = 0
    converged = False
    while not converged and n_passes < limits.max_passes:
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
        change = np.abs(gamma - before)[counted_blocks(doc.known)].sum()
        converged = bool(change <= limits.tolerance * max(doc.counts.sum(), 1.0))
    entropy = log_norm_z - np.sum(phi * topic_scores, axis=1) + log_norm_u - np.sum(delta * class_scores, axis=1)
    return Belief(gamma, delta, phi, Delta, S, entropy, n_passes, converged)


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
    """γ, δ and Δ before the first pass, with θ at its prior mean: E[θ_i] also tells how well class i fits a word.

    With equal δ the assignment of words to classes would be arbitrary, and fits end in poorer optima.
    """
    n_classes = len(doc.known)
    Delta = updated_labels(doc.known, doc.log_odds)
    mean = states(Delta)[:, :, None] * prior / prior.sum(axis=2, keepdims=True)
    class_fit = doc.weights @ mean.sum(axis=1).T
    total = class_fit.sum(axis=1, keepdims=True)
    delta = np.full_like(class_fit, 1.0 / n_classes)
    np.divide(class_fit, total, out=delta, where=total > _MIN_CLASS_FIT)
    return prior + doc.counts.sum() / n_classes * mean, delta, Delta


def expected_log(gamma: Array) -> Array:
    """E[log θ] under Dir(γ) (maths, eq. 7)."""
    result: Array = digamma(gamma) - digamma(gamma.sum(axis=-1, keepdims=True))
    return result


def normalised(scores: Array, weights: Array) -> tuple[Array, Array]:
    """Rows proportional to exp(scores) · weights, and the logs of their norms."""
    highest = np.where(weights > 0, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    raw = np.exp(np.minimum(scores - highest, 0.0)) * weights
    total = raw.sum(axis=1, keepdims=True)
    return raw / total, (np.log(total) + highest)[:, 0]


def updated_labels(known: NDArray[np.int8], log_odds: Array) -> Array:
    """Δ: the observed label, or the posterior where there is none."""
    return np.where(known >= 0, known, 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_MAX_NATS, _MAX_NATS))))


_MIN_CLASS_FIT = 1e-300  # a word that fits no class, to the last bit, starts shared by all classes
_MAX_NATS = 500.0  # beyond this a probability is 0 or 1 to the last bit, and exp would overflow


def counted_blocks(known: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(classes, 2): the blocks θ_ij that are counted: both if the label is unknown, else that of the observed state.

    The block of the other state keeps its prior, so it carries no information about α (maths, correction 7).
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


def joint(bags: Bags, labels: Labels, topics: Topics, limits: PassLimits, pair_counts: Array) -> ShardResult:
    """E-step with q(λ) q(θ | λ) q(u, z) for every document of a shard (maths, eqs. 26-31).

    ``pair_counts`` is S of every document, (docs, classes, topics): where it starts from, filled with where it ends.
    Of length 0 to start from the prior.
    """
    n_docs, n_classes = labels.known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    n_blocks = np.zeros((n_classes, 2))
    label_probs = np.zeros((n_docs, n_classes))
    topic_counts = np.zeros((n_docs, topics.prior.shape[2]))
    bounds = np.zeros(n_docs)
    n_passes = n_unconverged = 0
    for d in range(n_docs):
        entries, document = document_of(bags, labels, topics, d)
        q = run_joint_passes(document, topics.prior, limits, pair_counts[d] if len(pair_counts) else None)
        weights = states(q.Delta)
        np.add.at(word_counts, bags.words[entries], document.counts[:, None] * q.token_probs.sum(axis=1))
        log_theta += weights[:, :, None] * expected_log(q.gamma)
        n_blocks += weights
        label_probs[d] = q.Delta
        S = np.einsum("n,nit->it", document.counts, q.token_probs)
        topic_counts[d] = S.sum(axis=0)
        bounds[d] = joint_bound(document, topics.prior, q)
        n_passes += q.n_passes
        n_unconverged += not q.converged
        if len(pair_counts):
            pair_counts[d] = S
    return ShardResult(word_counts, log_theta, n_blocks, label_probs, topic_counts, bounds, n_passes, n_unconverged)


class JointBelief(NamedTuple):
    """One document's q(λ) q(θ | λ) q(u, z)."""

    gamma: Array  # γ, (classes, 2, topics): of θ_ij given that class i is in state j
    Delta: Array  # Δ, (classes,)
    token_probs: Array  # q(u = i, z = t), (words, classes, topics)
    log_norms: Array  # of its norms, (words,)
    n_passes: int
    converged: bool


def run_joint_passes(doc: Document, prior: Array, limits: PassLimits, S: Array | None) -> JointBelief:
    """Coordinate ascent, (λ, θ) and (u, z) in turn, until the counts converge."""
    Delta = updated_labels(doc.known, doc.log_odds)
    if S is None:
        mean = states(Delta)[:, :, None] * prior / prior.sum(axis=2, keepdims=True)
        S = np.einsum("n,nit->it", doc.counts, token_probs_of(np.log(mean.sum(axis=1)), doc.weights)[0])
    tolerance = limits.tolerance * max(doc.counts.sum(), 1.0)
    used = S
    before = change = np.inf
    n_passes = 0
    while change > tolerance and n_passes < limits.max_passes:
        n_passes += 1
        due = n_passes >= FIRST_EXTRAPOLATION and (n_passes - FIRST_EXTRAPOLATION) % 2 == 0
        ahead = 0.0
        if limits.extrapolate and due and change < before:
            ahead = min(EXTRAPOLATION_DAMPING * change / (before - change), MAX_EXTRAPOLATION)
        used = np.maximum(S + ahead * (S - used), 0.0)
        gamma = prior + used[:, None, :]  # eq. 27
        if not doc.fixed:
            evidence = log_beta(gamma) - log_beta(prior)
            Delta = updated_labels(doc.known, doc.log_odds + evidence[:, 1] - evidence[:, 0])  # eq. 28
        token_probs, log_norms = token_probs_of(mixed_states(expected_log(gamma), Delta), doc.weights)
        S = np.einsum("n,nit->it", doc.counts, token_probs)
        before, change = change, float(np.abs(S - used).sum())
    return JointBelief(gamma, Delta, token_probs, log_norms, n_passes, change <= tolerance)


def token_probs_of(A: Array, weights: Array) -> tuple[Array, Array]:
    """q(u = i, z = t) ∝ exp(A_it) b_t of every word, and the logs of its norms (maths, eq. 29)."""
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
    bags: Bags, log_odds: Array, scales: Array, word_probs: ClassWordProbs, limits: PassLimits
) -> WordEvidence:
    """Word evidence for labels, where all classes together explain each word (maths, eqs. 33 and 34).

    ``scales`` (docs,) multiply the counts of each document.
    """
    evidence = np.zeros_like(log_odds)
    beliefs = np.zeros_like(log_odds)
    n_unconverged = 0
    for d in range(len(log_odds)):
        entries = np.arange(bags.starts[d], bags.starts[d + 1])
        entries = entries[word_probs.absent[bags.words[entries], 0] > 0]
        words, counts = bags.words[entries], scales[d] * bags.counts[entries]
        present, absent = word_probs.present[words], word_probs.absent[words]
        Delta = updated_labels(np.full(log_odds.shape[1], -1), log_odds[d])
        change, n_passes = np.inf, 0
        while change > limits.tolerance and n_passes < limits.max_passes:
            n_passes += 1
            before = Delta.copy()
            for i in range(len(Delta)):  # in turn: each class uses the updated classes before it
                evidence_i = counts @ word_evidence(present, absent, Delta)[:, i]
                Delta[i] = updated_labels(np.array([-1]), log_odds[d, [i]] + evidence_i)[0]
            change = np.abs(Delta - before).max()
        n_unconverged += change > limits.tolerance
        beliefs[d] = Delta
        evidence[d] = counts @ word_evidence(present, absent, Delta)
    return WordEvidence(evidence, beliefs, n_unconverged)


def word_evidence(present: Array, absent: Array, Delta: Array) -> Array:
    """(words, classes): log-odds of each class from each word, given the probabilities of the other classes."""
    own = Delta * present + (1 - Delta) * absent
    rest = np.maximum(own.sum(axis=1, keepdims=True) - own, 0.0)
    evidence: Array = np.log((rest + present) / (rest + absent))
    return evidence


def label_sets(
    votes: VoteArrays, log_ratios: Array, evidence: Array, known: NDArray[np.int8], weights: Array, rates: Array
) -> LabelSetResult:
    """Posterior of labels under a mixture of profiles, label sets summed out (maths, eqs. 37, 38 and 43).

    ``log_ratios`` (annotators, classes or 1, 2) is what a vote of each value adds to the log-odds of "present",
    ``evidence`` (documents, classes) is added to that, unless it is empty. ``rates`` is (classes, profiles). Evidence
    enters as two weights per class, the larger scaled to 1.
    """
    n_docs, n_classes = known.shape
    label_probs = np.empty((n_docs, n_classes))
    log_likelihoods = np.empty(n_docs)
    profile_sums = np.zeros(len(weights))
    label_sums = np.zeros((n_classes, len(weights)))
    present_votes = np.zeros(log_ratios.size)
    columns = votes.classes if log_ratios.shape[1] > 1 else np.zeros_like(votes.classes)
    cells = (votes.annotators * log_ratios.shape[1] + columns) * 2 + votes.values
    for d in range(n_docs):
        rows = slice(*votes.starts[d : d + 2]) if len(votes.starts) else slice(0)
        log_odds = evidence[d].copy() if len(evidence) else np.zeros(n_classes)
        np.add.at(log_odds, votes.classes[rows], log_ratios.ravel()[cells[rows]])
        unknown = known[d] < 0
        log_scale = np.where(unknown, np.maximum(log_odds, 0.0), np.where(known[d] == 1, log_odds, 0.0))
        present = np.where(unknown, np.exp(np.minimum(log_odds, 0.0)), known[d] == 1)
        absent = np.where(unknown, np.exp(np.minimum(-log_odds, 0.0)), known[d] == 0)
        factors = np.maximum(absent[:, None] * (1.0 - rates) + present[:, None] * rates, MIN_FACTOR)
        scores = np.log(weights) + np.log(factors).sum(axis=0)
        shares = np.exp(scores - scores.max())
        log_likelihoods[d] = log_scale.sum() + scores.max() + np.log(shares.sum())
        shares /= shares.sum()
        joint = shares * present[:, None] * rates / factors
        profile_sums += shares
        label_sums += joint
        label_probs[d] = np.where(unknown, np.minimum(joint.sum(axis=1), 1.0), known[d])
        np.add.at(present_votes, cells[rows], label_probs[d, votes.classes[rows]])
    return LabelSetResult(
        label_probs, log_likelihoods, profile_sums, label_sums, present_votes.reshape(log_ratios.shape)
    )


def logistic_pass(
    documents: WordRows, labels: SoftLabels, coef: Floats, scores: Floats, curvature: bool
) -> tuple[Floats, Array]:
    """Gradient (words, columns) of the cross-entropy by word coefficients, and the cross-entropy of each column.

    ``scores`` (documents, columns) are those without words; they become the residuals, weight · (p - target). For the
    diagonal of the Hessian instead of the gradient, they become weight · p (1 - p), and values are squared.
    """
    add_word_scores(documents, coef, scores)
    columns = np.ix_(documents.rows, labels.classes)
    targets, weights = labels.targets[columns], labels.weights[columns] if len(labels.weights) else 1.0
    probs = expit(scores.astype(np.float64))
    losses = weights * (np.logaddexp(0.0, scores) - targets * scores)
    scores[:] = weights * (probs * (1.0 - probs) if curvature else probs - targets)
    values = documents.values**2 if curvature else documents.values
    gradient = np.zeros_like(coef)
    for i, d in enumerate(documents.rows):
        entries = slice(documents.starts[d], documents.starts[d + 1])
        np.add.at(gradient, documents.words[entries], values[entries, None] * scores[i])
    return gradient, losses.sum(axis=0, dtype=np.float64)


def add_word_scores(documents: WordRows, coef: Floats, scores: Floats) -> None:
    """Add Σ value · coefficient over the words of each document to its row of scores."""
    for i, d in enumerate(documents.rows):
        entries = slice(documents.starts[d], documents.starts[d + 1])
        scores[i] += documents.values[entries] @ coef[documents.words[entries]]


def platt_sums(scores: Array, targets: Array, weights: Array, rows: Indices, line: Array) -> Array:
    """Cross-entropy of log-odds slope · score + offset, and its derivatives, summed over some documents.

    ``line`` (2, classes) are slopes and offsets. The result (6, classes) is the cross-entropy, its derivatives by slope
    and offset, and its second derivatives by slope, slope and offset, and offset.
    """
    scores, targets = scores[rows], targets[rows]
    own = weights[rows] if len(weights) else np.ones_like(scores)
    log_odds = line[0] * scores + line[1]
    probs = expit(log_odds)
    loss, residuals, variances = (
        np.logaddexp(0.0, log_odds) - targets * log_odds,
        probs - targets,
        probs * (1.0 - probs),
    )
    terms = [loss, residuals * scores, residuals, variances * scores**2, variances * scores, variances]
    return np.array([np.sum(own * term, axis=0) for term in terms])


def lbfgs_direction(steps: StepRing, problems: Indices, gradient: Array, curvature: Array) -> tuple[Array, Array]:
    """L-BFGS direction of some problems by the two-loop recursion, and its product with minus the gradient.

    ``gradient`` and ``curvature`` have a row of coefficients for each of ``problems``. The recursion starts from the
    diagonal ``curvature``, scaled by the newest step.
    """
    direction = -gradient
    for k, problem in enumerate(problems):
        newest, inverse = steps.newest[problem], steps.inverse[:, problem]
        moves, changes = (table[:, problem].astype(np.float64) for table in (steps.moves, steps.changes))
        newest_first = [step for age in range(len(inverse)) if inverse[step := (newest - age) % len(inverse)] > 0.0]
        shares = np.zeros_like(inverse)
        for step in newest_first:
            shares[step] = inverse[step] * (moves[step] @ direction[k])
            direction[k] -= shares[step] * changes[step]
        scale = inverse[newest] * (changes[newest] @ (changes[newest] / curvature[k])) if inverse[newest] > 0.0 else 1.0
        direction[k] /= scale * curvature[k]
        for step in reversed(newest_first):
            direction[k] += (shares[step] - inverse[step] * (changes[step] @ direction[k])) * moves[step]
    return direction, -np.sum(gradient * direction, axis=1)
