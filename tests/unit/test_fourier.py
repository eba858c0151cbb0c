"""Columns that bend: near documents are alike, words share what the columns say, and a head learns more with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from palda.engine import Threads
from palda.models.classifier import (
    KERNEL_GAMMA,
    MIN_FOURIER_DOCS,
    ClassifierSettings,
    FourierFeatures,
    LogisticClassifier,
    features,
    fit_classifier,
    fit_fourier_features,
    inverse_document_frequencies,
    learn_features,
    summarize_classifier,
    tf_idf,
    update_classifier,
)

RNG = np.random.default_rng(0)
COUNTS = sparse.csr_array(RNG.poisson(0.6, size=(400, 30)).astype(np.float64))
WORDS = tf_idf(COUNTS, inverse_document_frequencies(COUNTS))


def lift_of(words: sparse.csr_array = WORDS, seed: int = 0) -> FourierFeatures:
    lift = fit_fourier_features(words, seed)
    assert lift is not None
    return lift


def either_or() -> tuple[sparse.csr_array, np.ndarray]:
    """A class of documents that have exactly one of two kinds of words: no word alone says anything about it."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 2, size=(600, 2))
    rates = np.concatenate([kinds[:, [k]] * np.ones(8) * 1.5 + 0.05 for k in range(2)], axis=1)
    counts = sparse.csr_array(rng.poisson(np.hstack([rates, np.full((600, 4), 0.5)])).astype(np.float64))
    return counts, (kinds[:, [0]] != kinds[:, [1]]).astype(np.float64)


def test_products_of_waves_are_a_gaussian_kernel_of_distances() -> None:
    lift = lift_of()
    waves, places = lift.waves(WORDS), WORDS @ lift.basis
    here, there = np.random.default_rng(2).integers(0, len(places), (2, 300))
    distances = np.sum(np.square(places[here] - places[there]), axis=1)
    kernel = np.exp(-KERNEL_GAMMA * distances / np.median(distances))
    found = 2.0 * np.mean(waves[here] * waves[there], axis=1)
    assert np.abs(found - kernel).mean() < 0.06
    assert np.abs(found - kernel).max() < 0.3


def test_columns_keep_most_of_the_waves_and_do_not_vary_together() -> None:
    lift = lift_of()
    columns, waves = lift.apply(WORDS), lift.waves(WORDS)
    together = columns.T @ columns
    np.testing.assert_allclose(together, np.diag(np.diag(together)), atol=1e-8 * together.max())
    np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-12)
    assert np.trace(together) > 0.9 * waves.shape[1] * len(waves)


def test_shares_of_words_add_up_to_what_the_columns_say() -> None:
    lift = lift_of()
    coef = np.random.default_rng(3).normal(size=(len(lift.offset), 2))
    some = sparse.csr_array(sparse.vstack([WORDS[:20], sparse.csr_array((1, WORDS.shape[1]))]))
    doc = np.repeat(np.arange(21), np.diff(some.indptr))
    shares = lift.word_shares(some, coef)
    empty = lift.apply(sparse.csr_array((1, WORDS.shape[1]))) @ coef
    for column in range(2):
        total = np.bincount(doc, shares[:, column], minlength=21)
        np.testing.assert_allclose(total, (lift.apply(some) @ coef - empty)[:, column], atol=1e-10)


def test_few_and_very_many_documents_and_those_without_words_are_not_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learn_features(COUNTS[: MIN_FOURIER_DOCS - 1]).fourier is None
    assert learn_features(COUNTS[:MIN_FOURIER_DOCS]).fourier is not None
    assert fit_fourier_features(sparse.csr_array((MIN_FOURIER_DOCS, 5)), 0) is None
    alike = sparse.csr_array(np.ones((MIN_FOURIER_DOCS, 5)) / np.sqrt(5.0))
    assert fit_fourier_features(alike, 0) is None
    monkeypatch.setattr(features, "MAX_FOURIER_DOCS", COUNTS.shape[0] - 1)
    assert learn_features(COUNTS).fourier is None


def test_the_seed_decides() -> None:
    np.testing.assert_array_equal(lift_of(seed=1).phases, lift_of(seed=1).phases)
    assert not np.array_equal(lift_of(seed=1).phases, lift_of(seed=2).phases)


def test_a_head_learns_what_no_word_says_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, labels = either_or()
    bent = fit_classifier(labels, counts=counts)
    monkeypatch.setattr(features, "fit_fourier_features", lambda words, seed: None)  # noqa: ARG005 - the signature of what it replaces
    straight = fit_classifier(labels, counts=counts)
    right = [np.mean((fit.log_odds > 0) == (labels > 0)) for fit in (straight, bent)]
    assert right[0] < 0.7
    assert right[1] > 0.9


def test_arrays_give_the_same_head_back() -> None:
    counts, labels = either_or()
    head = fit_classifier(labels, counts=counts).classifier
    again = LogisticClassifier.from_arrays(head.arrays())
    np.testing.assert_array_equal(again.log_odds(counts), head.log_odds(counts))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_of_matrix_products_change_nothing(n_jobs: int) -> None:
    counts, labels = either_or()
    settings = ClassifierSettings(engine=Threads(n_jobs))
    with threadpool_limits(1):
        expected = fit_classifier(labels, counts=counts).log_odds
    with threadpool_limits(4):
        found = fit_classifier(labels, counts=counts, settings=settings).log_odds
    np.testing.assert_array_equal(found, expected)


def test_large_corpora_are_lifted_by_a_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "N_SAMPLE_DOCS", 150)
    found = learn_features(COUNTS, seed=3)
    assert found.fourier is not None
    assert found.fourier_values is not None
    assert len(found.fourier.offset) == 150
    assert found.fourier_values.shape == (COUNTS.shape[0], 150)


def test_a_lifted_head_goes_on_with_new_documents() -> None:
    counts, labels = either_or()
    head = fit_classifier(labels[:300], counts=counts[:300]).classifier
    known = np.ones_like(labels[:300])
    memory = summarize_classifier(labels[:300], known)
    went_on, _ = update_classifier(head, memory, counts[300:], None, labels[300:], known, Threads())
    assert went_on.fourier is not None

    def likelihood(one: LogisticClassifier) -> float:
        odds = one.log_odds(counts)
        return float(np.mean(labels * odds - np.logaddexp(0.0, odds)))

    assert likelihood(went_on) > likelihood(head)
    np.testing.assert_allclose(went_on.fourier.basis * went_on.idf[:, None], head.fourier.basis * head.idf[:, None])
