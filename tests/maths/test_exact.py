"""Tiny cases whose likelihood can be enumerated: the bound is below it, and close."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, reduce
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, gammaln, logit, logsumexp

from palda.data import Votes
from palda.engine import Threads
from palda.kernels import Labels, PassLimits, Topics, reference
from palda.models.crowd import AnnotatorBelief, PublishedCoin
from palda.models.topics import EMSettings, Params, StepInfo, cut_shards, label_probs, run_em

Array = NDArray[np.float64]

N_TOPICS, N_WORDS, N_ANNOTATORS = 2, 3, 3
CONVERGED = PassLimits(max_passes=300, tolerance=1e-9)
INFERENCE = pytest.mark.parametrize("inference", ["joint", "mean_field"])


class Case(NamedTuple):
    tokens: list[list[int]]  # words of each document
    known: NDArray[np.int8]  # (docs, classes)
    votes: Votes | None
    params: Params


def make_case(
    seed: int,
    *,
    labels: str,
    voted: bool,
    smoothed: bool,
    lengths: tuple[int, ...] = (3, 2),
    shared_absence: bool = False,
) -> Case:
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 4))
    shape = (len(lengths), n_classes)
    known = rng.integers(0, 2, shape).astype(np.int8)
    if labels == "partly":
        known[rng.random(shape) < 0.5] = -1
    elif labels == "unknown":
        known[:] = -1
    votes = None
    if voted:
        values = rng.integers(-1, 2, (len(lengths), N_ANNOTATORS, n_classes))
        votes = Votes.from_array(values)
    word_counts = rng.uniform(0.3, 3.0, (N_TOPICS, N_WORDS))
    params = Params(
        topic_prior=np.exp(rng.uniform(np.log(0.05), np.log(5.0), (n_classes, 2, N_TOPICS))),
        topic_words=word_counts / word_counts.sum(axis=1, keepdims=True),
        class_prior=rng.uniform(0.05, 0.95, n_classes),
        word_counts=word_counts if smoothed else None,
        word_prior=float(rng.uniform(0.1, 2.0)) if smoothed else None,
        annotators=coins(rng.uniform(0.05, 0.95, N_ANNOTATORS)) if voted else None,
    )
    tokens = [rng.integers(0, N_WORDS, length).tolist() for length in lengths]
    if shared_absence:
        params.topic_prior[:, 0] = params.topic_prior[0, 0]
    return Case(tokens, known, votes, params)


def coins(rates: Array) -> AnnotatorBelief:
    """Annotators with known rates."""
    return AnnotatorBelief(np.column_stack((rates, 1 - rates)), np.full(2, 0.5), np.full((len(rates), 2), np.nan))


def count_blocks(case: Case) -> sparse.csr_array:
    return sparse.csr_array(np.array([np.bincount(words, minlength=N_WORDS) for words in map(np.int64, case.tokens)]))


def settings_for(case: Case, inference: str, max_iter: int = 1) -> EMSettings:
    annotators = PublishedCoin() if case.votes is not None else None
    return EMSettings(
        engine=Threads(1), annotators=annotators, inference=inference, max_iter=max_iter, tol=0.0, pass_limits=CONVERGED
    )


def bound_of(case: Case, inference: str) -> float:
    shards = cut_shards(count_blocks(case), case.known, case.votes)
    return run_em(shards, case.params, settings_for(case, inference)).bound


# The exact likelihood, written without the code under test.


def log_dirichlet_multinomial(counts: Array, prior: Array) -> Array:
    """Log-probability of sequences of draws with these counts, their Dirichlet distributions integrated out."""
    return np.asarray(
        gammaln(prior.sum(axis=-1))
        - gammaln(prior.sum(axis=-1) + counts.sum(axis=-1))
        + np.sum(gammaln(prior + counts), axis=-1)
        - np.sum(gammaln(prior), axis=-1)
    )


def log_prob_labels(case: Case, d: int, labels: tuple[int, ...]) -> float:
    """log p(λ) p(votes | λ); -inf if it contradicts an observed label."""
    if any(seen >= 0 and seen != label for seen, label in zip(case.known[d], labels, strict=True)):
        return -np.inf
    prior = case.params.class_prior
    total = sum(np.log(prior[i] if label else 1 - prior[i]) for i, label in enumerate(labels))
    if case.votes is not None:
        assert case.params.annotators is not None
        votes = case.votes
        for doc, who, label, value in zip(votes.doc, votes.annotator, votes.label, votes.value, strict=True):
            if doc == d:
                right, wrong = case.params.annotators.posterior[who]
                rate = right / (right + wrong)
                total += np.log(rate if value == labels[label] else 1 - rate)
    return float(total)


def log_prob_topics_and_labels(case: Case, d: int, labels: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """log p(z, λ, votes) of a document for every z, with u summed out and θ integrated out."""
    n_classes, n_tokens = len(labels), len(case.tokens[d])
    alpha = case.params.topic_prior[range(n_classes), labels]
    zs, us = (list(product(range(n), repeat=n_tokens)) for n in (N_TOPICS, n_classes))
    z_states, u_states = (np.eye(n)[np.array(found, dtype=int)] for n, found in ((N_TOPICS, zs), (n_classes, us)))
    block_counts = np.einsum("znt,uni->zuit", z_states, u_states)
    terms = log_dirichlet_multinomial(block_counts, alpha).sum(axis=2)
    totals = log_prob_labels(case, d, labels) + logsumexp(terms, axis=1) - n_tokens * np.log(n_classes)
    return dict(zip(zs, totals.tolist(), strict=True))


def log_prob_topics(case: Case, d: int) -> dict[tuple[int, ...], float]:
    tables = [
        log_prob_topics_and_labels(case, d, labels)
        for labels in product((0, 1), repeat=case.known.shape[1])
        if np.isfinite(log_prob_labels(case, d, labels))
    ]
    return {z: float(logsumexp([table[z] for table in tables])) for z in tables[0]}


def exact_log_likelihood(case: Case) -> float:
    """log p(words, votes, observed labels)."""
    tables = [log_prob_topics(case, d) for d in range(len(case.tokens))]
    every_word = np.array(reduce(list.__add__, case.tokens), dtype=int)
    terms = []
    for zs in product(*tables):
        every_topic = np.array(reduce(tuple.__add__, zs), dtype=int)
        of_topics = sum(table[z] for table, z in zip(tables, zs, strict=True))
        terms.append(of_topics + log_prob_words(case.params, every_topic, every_word))
    return float(logsumexp(terms))


def log_prob_words(params: Params, topics: NDArray[np.int64], words: NDArray[np.int64]) -> float:
    """log p(w | z): β is given, or integrated out over the prior that all documents share."""
    if params.word_prior is None:
        return float(np.log(params.topic_words[topics, words]).sum())
    table = np.zeros((N_TOPICS, N_WORDS))
    np.add.at(table, (topics, words), 1)
    prior = np.full(N_WORDS, params.word_prior)
    return float(log_dirichlet_multinomial(table, prior).sum())


@INFERENCE
@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("voted", [False, True])
@pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
def test_the_bound_is_at_most_the_exact_log_likelihood(
    monkeypatch: pytest.MonkeyPatch, kernel: str, smoothed: bool, voted: bool, labels: str, inference: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    gaps = []
    for seed in range(8):
        case = make_case(seed, labels=labels, voted=voted, smoothed=smoothed)
        gaps.append(exact_of_case(seed, labels, voted, smoothed) - bound_of(case, inference))
    assert min(gaps) > 0
    if not smoothed:  # with topics smoothed, χ was drawn at random too: see the test below
        assert np.mean(gaps) < {"joint": 2, "mean_field": 4}[inference]
        assert max(gaps) < {"joint": 4, "mean_field": 6}[inference]


@INFERENCE
@pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
def test_with_one_absence_prior_the_bound_is_below_the_likelihood_and_equal_to_that_of_separate_blocks(
    labels: str, inference: str
) -> None:
    gaps = []
    for seed in range(12):
        case = make_case(seed, labels=labels, voted=False, smoothed=False, shared_absence=True)
        shards = cut_shards(count_blocks(case), case.known, case.votes)
        settings = settings_for(case, inference)
        separate, together = (
            run_em(shards, case.params, replace(settings, shared_absence=shared)).bound for shared in (False, True)
        )
        assert together == pytest.approx(separate, rel=1e-12)
        gaps.append(exact_log_likelihood(case) - together)
    assert min(gaps) >= -1e-9
    assert np.mean(gaps) < 3.0


@cache
def exact_of_case(seed: int, labels: str, voted: bool, smoothed: bool) -> float:
    return exact_log_likelihood(make_case(seed, labels=labels, voted=voted, smoothed=smoothed))


@INFERENCE
@pytest.mark.parametrize("smoothed", [False, True])
def test_the_bound_stays_below_the_likelihood_and_near_it_while_em_runs(smoothed: bool, inference: str) -> None:
    gaps = []
    for seed in range(4):
        case = make_case(seed, labels="partly", voted=True, smoothed=smoothed)
        shards = cut_shards(count_blocks(case), case.known, case.votes)
        steps: list[StepInfo] = []
        run_em(shards, case.params, settings_for(case, inference, max_iter=8), steps.append)
        for step in (steps[0], steps[2], steps[7]):
            gap = exact_log_likelihood(case._replace(params=step.params)) - step.bound
            assert gap > -1e-9
        gaps.append(gap)
    assert np.mean(gaps) < 3


@INFERENCE
@pytest.mark.parametrize("kernel", ["compiled", "reference"])
def test_without_words_the_labels_follow_bayes_rule_and_the_bound_is_exact(
    monkeypatch: pytest.MonkeyPatch, kernel: str, inference: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    for seed in range(20):
        case = make_case(seed, labels="partly", voted=True, smoothed=False, lengths=(0, 0, 0))
        shards = cut_shards(count_blocks(case), case.known, case.votes)
        probs = label_probs(shards, case.params, settings_for(case, inference))
        np.testing.assert_allclose(probs, posterior_by_enumeration(case), rtol=1e-12, atol=1e-15)
        assert bound_of(case, inference) == pytest.approx(exact_log_likelihood(case), rel=1e-13)


def posterior_by_enumeration(case: Case) -> Array:
    n_docs, n_classes = case.known.shape
    result = np.zeros((n_docs, n_classes))
    for d in range(n_docs):
        labellings = list(product((0, 1), repeat=n_classes))
        weights = np.exp([log_prob_labels(case, d, labels) for labels in labellings])
        result[d] = weights @ np.array(labellings) / weights.sum()
    return result


@INFERENCE
def test_a_vote_moves_the_log_odds_by_the_log_odds_of_its_annotator_and_a_missing_vote_does_not(inference: str) -> None:
    rates = np.array([0.9, 0.6, 0.2])
    votes = Votes.from_array([[[1], [0], [1]], [[-1], [-1], [0]], [[-1], [-1], [-1]]])
    params = Params(np.ones((1, 2, 2)), np.full((2, 3), 1 / 3), np.array([0.3]), annotators=coins(rates))
    known = np.full((3, 1), -1, dtype=np.int8)
    shards = cut_shards(sparse.csr_array((3, 3)), known, votes)
    probs = label_probs(shards, params, EMSettings(engine=Threads(1), annotators=PublishedCoin(), inference=inference))
    evidence = [logit(0.9) - logit(0.6) + logit(0.2), -logit(0.2), 0.0]
    np.testing.assert_allclose(probs[:, 0], expit(logit(0.3) + np.array(evidence)), rtol=1e-13)


@INFERENCE
@pytest.mark.parametrize("smoothed", [False, True])
def test_with_one_class_one_topic_and_observed_labels_the_bound_is_exact(smoothed: bool, inference: str) -> None:
    """With one class and one topic u, z and θ are certain, and χ = η + counts makes q(β) exact too."""
    words = [[0, 0, 1], [2, 1]]
    counts = np.bincount(np.concatenate(words), minlength=N_WORDS)
    chi = (counts + 0.5)[None, :]
    params = Params(
        np.ones((1, 2, 1)),
        chi / chi.sum(),
        np.array([0.4]),
        word_counts=chi if smoothed else None,
        word_prior=0.5 if smoothed else None,
    )
    case = Case(words, np.array([[1], [0]], dtype=np.int8), None, params)
    if smoothed:
        of_words = float(log_dirichlet_multinomial(counts.astype(float), np.full(N_WORDS, 0.5)))
    else:
        of_words = float(counts @ np.log(params.topic_words[0]))
    assert bound_of(case, inference) == pytest.approx(np.log(0.4) + np.log(0.6) + of_words, rel=1e-12)


@INFERENCE
def test_observed_labels_that_votes_contradict_still_count_as_observed(inference: str) -> None:
    case = make_case(3, labels="observed", voted=True, smoothed=False)
    certain = replace(case.params, annotators=coins(np.full(N_ANNOTATORS, 0.999)))
    shards = cut_shards(count_blocks(case), case.known, case.votes)
    np.testing.assert_array_equal(label_probs(shards, certain, settings_for(case, inference)), case.known)
    assert bound_of(case._replace(params=certain), inference) <= exact_log_likelihood(case._replace(params=certain))


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
def test_extrapolation_keeps_the_bound_a_lower_bound(monkeypatch: pytest.MonkeyPatch, kernel: str, labels: str) -> None:
    """The last pass gives a valid q wherever extrapolation leads and whenever it stops."""
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    for seed, max_passes in product(range(8), (5, 6, 7, 30)):
        case = make_case(seed, labels=labels, voted=False, smoothed=False)
        limits = PassLimits(max_passes, 1e-3, extrapolate=True)
        settings = EMSettings(engine=Threads(1), max_iter=1, pass_limits=limits)
        bound = run_em(cut_shards(count_blocks(case), case.known), case.params, settings).bound
        assert bound <= exact_of_case(seed, labels, False, False)
        if max_passes == 30:
            assert bound == pytest.approx(bound_of(case, "joint"), abs=0.1)


# Families side by side.


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
def test_on_average_each_larger_family_is_nearer_to_the_likelihood(labels: str) -> None:
    """q(λ) q(θ | λ) q(u, z) lies above q(λ) q(θ) q(u, z), and that above q(λ) q(θ) q(u) q(z)."""
    bounds = np.zeros((4, 20))
    for seed in range(20):
        case = make_case(seed, labels=labels, voted=False, smoothed=False)
        bounds[:, seed] = (
            bound_of(case, "mean_field"),
            bound_with_tokens_joint_only(case),
            bound_of(case, "joint"),
            exact_of_case(seed, labels, False, False),
        )
    published, tokens_only, shipped, exact = bounds.mean(axis=1)
    assert published < tokens_only < exact
    if labels == "observed":  # with λ observed q(θ) and q(θ | λ) are one family
        np.testing.assert_allclose(bounds[1], bounds[2], atol=1e-6)
    else:
        assert tokens_only + 0.05 < shipped < exact


def bound_with_tokens_joint_only(case: Case) -> float:
    """Bound of q(λ) q(θ) q(u, z): a family between mean field and joint inference, for comparison only."""
    shard = cut_shards(count_blocks(case), case.known)[0]
    log_odds = np.tile(logit(case.params.class_prior), (len(case.known), 1))
    topics = Topics(case.params.topic_prior, case.params.word_weights)
    labels = Labels(case.known, log_odds)
    parts = [
        bound_with_joint_tokens(reference.document_of(shard.bags, labels, topics, d)[1], topics.prior)
        for d in range(len(case.known))
    ]
    return sum(parts) + len(case.known) * float(np.log1p(-case.params.class_prior).sum())


def bound_with_joint_tokens(doc: reference.Document, prior: Array, n_passes: int = 300) -> float:
    Delta = reference.updated_labels(doc.known, doc.log_odds)
    A = np.log(np.einsum("ij,ijt->it", reference.states(Delta), prior / prior.sum(axis=2, keepdims=True)))
    for _ in range(n_passes):
        token_probs, _ = reference.token_probs_of(A, doc.weights)
        S = np.einsum("n,nit->it", doc.counts, token_probs)
        gamma = prior + reference.states(Delta)[:, :, None] * S[:, None, :]
        expected = reference.expected_log(gamma)
        said = np.sum(S * (expected[:, 1] - expected[:, 0]), axis=1)
        Delta = reference.updated_labels(doc.known, doc.log_odds + said)
        A = reference.mixed_states(expected, Delta)
    _, log_norms = reference.token_probs_of(A, doc.weights)
    divergence = reference.dirichlet_divergence(gamma, prior, expected)
    return float(
        doc.counts @ (log_norms - np.log(len(Delta)))
        - divergence[reference.counted_blocks(doc.known)].sum()
        + Delta @ doc.log_odds
        + reference.binary_entropy(Delta).sum()
    )


def test_with_one_class_and_topics_that_share_no_word_joint_inference_is_exact() -> None:
    """Then z is observed, and q(λ) q(θ | λ) contains the posterior; q(λ) q(θ) does not."""
    for seed in range(10):
        case = make_case(seed, labels="unknown", voted=True, smoothed=False)
        rng = np.random.default_rng(seed)
        params = replace(
            case.params,
            topic_prior=case.params.topic_prior[:1],
            topic_words=np.array([[0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]),
            class_prior=case.params.class_prior[:1],
        )
        votes = Votes.from_array(rng.integers(-1, 2, (2, N_ANNOTATORS, 1)))
        one = Case(case.tokens, np.full((2, 1), -1, dtype=np.int8), votes, params)
        exact = sum(float(logsumexp(posterior_terms(one, d))) for d in range(2))
        assert bound_of(one, "joint") == pytest.approx(exact, rel=1e-12)
        assert bound_of(one, "mean_field") < exact - 1e-3
        shards = cut_shards(count_blocks(one), one.known, one.votes)
        probs = label_probs(shards, one.params, settings_for(one, "joint"))
        posterior = [np.exp(terms[1] - logsumexp(terms)) for terms in (posterior_terms(one, d) for d in range(2))]
        np.testing.assert_allclose(probs[:, 0], posterior, rtol=1e-10)


def posterior_terms(case: Case, d: int) -> Array:
    """log p(words, votes, λ) for λ = 0 and 1, of one class whose topics share no word."""
    words = np.array(case.tokens[d])
    topics = (words == N_WORDS - 1).astype(int)
    counts = np.bincount(topics, minlength=N_TOPICS).astype(float)
    of_words = log_prob_words(case.params, topics, words)
    prior = case.params.topic_prior[0]
    return np.array(
        [log_prob_labels(case, d, (j,)) + log_dirichlet_multinomial(counts, prior[j]) + of_words for j in (0, 1)]
    )
