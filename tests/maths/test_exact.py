"""Tiny cases whose likelihood can be added up term by term: the bound is below it, and not by much."""

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

from palda.annotators.base import AnnotatorBelief
from palda.annotators.published import PublishedCoin
from palda.data.votes import Votes
from palda.fit import Settings, cut_shards, em, label_probs
from palda.kernels import Stopping
from palda.model.state import Params

Array = NDArray[np.float64]

N_TOPICS, N_WORDS, N_ANNOTATORS = 2, 3, 3
SETTLED = Stopping(max_passes=300, tolerance=1e-9)


class Case(NamedTuple):
    tokens: list[list[int]]  # words of each document
    known: NDArray[np.int8]  # (docs, classes)
    votes: Votes | None
    params: Params


def make_case(seed: int, *, labels: str, voted: bool, smoothed: bool, lengths: tuple[int, ...] = (3, 2)) -> Case:
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
    return Case(tokens, known, votes, params)


def coins(rates: Array) -> AnnotatorBelief:
    """Annotators whose rates are certain."""
    return AnnotatorBelief(np.column_stack((rates, 1 - rates)), np.full(2, 0.5), np.full((len(rates), 2), np.nan))


def counts_of(case: Case) -> sparse.csr_array:
    return sparse.csr_array(np.array([np.bincount(words, minlength=N_WORDS) for words in map(np.int64, case.tokens)]))


def settings_for(case: Case, max_iter: int = 1) -> Settings:
    return Settings(PublishedCoin() if case.votes is not None else None, max_iter=max_iter, tol=0.0, stopping=SETTLED)


def bound_of(case: Case) -> float:
    shards = cut_shards(counts_of(case), case.known, case.votes)
    return next(em(shards, case.params, settings_for(case)))[1].bound


# The exact likelihood, written without any of the code it judges.


def log_dirichlet_multinomial(counts: Array, prior: Array) -> float:
    """Log-probability of a sequence of draws with these counts, its Dirichlet distribution integrated out."""
    return float(
        gammaln(prior.sum())
        - gammaln(prior.sum() + counts.sum())
        + np.sum(gammaln(prior + counts))
        - np.sum(gammaln(prior))
    )


def log_prob_labels(case: Case, d: int, labels: tuple[int, ...]) -> float:
    """log p(λ) p(votes | λ); impossible if an observed label says otherwise."""
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
    alpha = case.params.topic_prior
    n_classes, n_tokens = len(labels), len(case.tokens[d])
    of_labels = log_prob_labels(case, d, labels)
    result = {}
    for z in product(range(N_TOPICS), repeat=n_tokens):
        terms = []
        for u in product(range(n_classes), repeat=n_tokens):
            block_counts = np.zeros((n_classes, N_TOPICS))
            np.add.at(block_counts, (np.array(u, dtype=int), np.array(z, dtype=int)), 1)
            terms.append(sum(log_dirichlet_multinomial(block_counts[i], alpha[i, labels[i]]) for i in range(n_classes)))
        result[z] = of_labels + float(logsumexp(terms)) - n_tokens * np.log(n_classes)
    return result


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
    """log p(w | z): β as it is, or integrated out over its prior, which all documents share."""
    if params.word_prior is None:
        return float(np.log(params.topic_words[topics, words]).sum())
    table = np.zeros((N_TOPICS, N_WORDS))
    np.add.at(table, (topics, words), 1)
    prior = np.full(N_WORDS, params.word_prior)
    return sum(log_dirichlet_multinomial(row, prior) for row in table)


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("voted", [False, True])
@pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
def test_the_bound_is_at_most_the_exact_log_likelihood(
    monkeypatch: pytest.MonkeyPatch, kernel: str, smoothed: bool, voted: bool, labels: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    gaps = []
    for seed in range(8):
        case = make_case(seed, labels=labels, voted=voted, smoothed=smoothed)
        gaps.append(exact_of_case(seed, labels, voted, smoothed) - bound_of(case))
    assert min(gaps) > 0
    if not smoothed:  # with topics smoothed, χ was drawn at random too: see the test below
        assert np.mean(gaps) < 4
        assert max(gaps) < 6


@cache
def exact_of_case(seed: int, labels: str, voted: bool, smoothed: bool) -> float:
    return exact_log_likelihood(make_case(seed, labels=labels, voted=voted, smoothed=smoothed))


@pytest.mark.parametrize("smoothed", [False, True])
def test_the_bound_stays_below_the_likelihood_and_near_it_while_em_runs(smoothed: bool) -> None:
    gaps = []
    for seed in range(4):
        case = make_case(seed, labels="partly", voted=True, smoothed=smoothed)
        shards = cut_shards(counts_of(case), case.known, case.votes)
        for params, info in em(shards, case.params, settings_for(case, max_iter=8)):
            if info.iteration in (1, 3, 8):
                gap = exact_log_likelihood(case._replace(params=params)) - info.bound
                assert gap > -1e-9
        gaps.append(gap)
    assert np.mean(gaps) < 3


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
def test_without_words_the_labels_follow_bayes_rule_and_the_bound_is_exact(
    monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    for seed in range(20):
        case = make_case(seed, labels="partly", voted=True, smoothed=False, lengths=(0, 0, 0))
        shards = cut_shards(counts_of(case), case.known, case.votes)
        probs = label_probs(shards, case.params, settings_for(case))
        np.testing.assert_allclose(probs, posterior_by_enumeration(case), rtol=1e-12, atol=1e-15)
        assert bound_of(case) == pytest.approx(exact_log_likelihood(case), rel=1e-13)


def posterior_by_enumeration(case: Case) -> Array:
    n_docs, n_classes = case.known.shape
    result = np.zeros((n_docs, n_classes))
    for d in range(n_docs):
        labellings = list(product((0, 1), repeat=n_classes))
        weights = np.exp([log_prob_labels(case, d, labels) for labels in labellings])
        result[d] = weights @ np.array(labellings) / weights.sum()
    return result


def test_a_vote_moves_the_log_odds_by_the_log_odds_of_its_annotator_and_silence_does_not() -> None:
    rates = np.array([0.9, 0.6, 0.2])
    votes = Votes.from_array([[[1], [0], [1]], [[-1], [-1], [0]], [[-1], [-1], [-1]]])
    params = Params(np.ones((1, 2, 2)), np.full((2, 3), 1 / 3), np.array([0.3]), annotators=coins(rates))
    known = np.full((3, 1), -1, dtype=np.int8)
    shards = cut_shards(sparse.csr_array((3, 3)), known, votes)
    probs = label_probs(shards, params, Settings(PublishedCoin()))
    said = [logit(0.9) - logit(0.6) + logit(0.2), -logit(0.2), 0.0]
    np.testing.assert_allclose(probs[:, 0], expit(logit(0.3) + np.array(said)), rtol=1e-13)


@pytest.mark.parametrize("smoothed", [False, True])
def test_with_one_class_one_topic_and_observed_labels_the_bound_is_exact(smoothed: bool) -> None:
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
        of_words = log_dirichlet_multinomial(counts.astype(float), np.full(N_WORDS, 0.5))
    else:
        of_words = float(counts @ np.log(params.topic_words[0]))
    assert bound_of(case) == pytest.approx(np.log(0.4) + np.log(0.6) + of_words, rel=1e-12)


def test_observed_labels_that_votes_contradict_still_count_as_observed() -> None:
    case = make_case(3, labels="observed", voted=True, smoothed=False)
    certain = replace(case.params, annotators=coins(np.full(N_ANNOTATORS, 0.999)))
    shards = cut_shards(counts_of(case), case.known, case.votes)
    np.testing.assert_array_equal(label_probs(shards, certain, settings_for(case)), case.known)
    assert bound_of(case._replace(params=certain)) <= exact_log_likelihood(case._replace(params=certain))
