"""Random Fourier features: kernel approximation, word shares, and their use by the classifier."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from palda.engine import Threads
from palda.models.classifier import (
    ClassifierSettings,
    LogisticClassifier,
    features,
    fit_classifier,
    inverse_document_frequencies,
    summarize_classifier,
    tf_idf,
    update_classifier,
)

RNG = np.random.default_rng(0)
COUNTS = sparse.csr_array(RNG.poisson(0.6, size=(400, 30)).astype(np.float64))
WORDS = tf_idf(COUNTS, inverse_document_frequencies(COUNTS))


def fit_features(words: sparse.csr_array = WORDS, seed: int = 0) -> features.FourierFeatures:
    fourier = features.fit_fourier_features(words, seed)
    assert fourier is not None
    return fourier


def either_or() -> tuple[sparse.csr_array, np.ndarray]:
    """A class that is present if exactly one of two kinds of words occurs: no single word predicts it."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 2, size=(600, 2))
    rates = np.concatenate([kinds[:, [k]] * np.ones(8) * 1.5 + 0.05 for k in range(2)], axis=1)
    counts = sparse.csr_array(rng.poisson(np.hstack([rates, np.full((600, 4), 0.5)])).astype(np.float64))
    return counts, (kinds[:, [0]] != kinds[:, [1]]).astype(np.float64)


def test_products_of_waves_are_a_gaussian_kernel_of_distances() -> None:
    fourier = fit_features()
    waves, places = fourier.waves(WORDS), WORDS @ fourier.basis
    here, there = np.random.default_rng(2).integers(0, len(places), (2, 300))
    distances = np.sum(np.square(places[here] - places[there]), axis=1)
    kernel = np.exp(-0.5 * distances / np.median(distances))
    found = 2.0 * np.mean(waves[here] * waves[there], axis=1)
    assert np.abs(found - kernel).mean() < 0.06
    assert np.abs(found - kernel).max() < 0.3


def test_columns_are_uncorrelated_and_keep_most_of_the_variance() -> None:
    fourier = fit_features()
    columns, waves = fourier.apply(WORDS), fourier.waves(WORDS)
    together = columns.T @ columns
    np.testing.assert_allclose(together, np.diag(np.diag(together)), atol=1e-8 * together.max())
    np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-12)
    assert np.trace(together) > 0.9 * waves.shape[1] * len(waves)


def test_word_shares_add_up_to_the_score() -> None:
    fourier = fit_features()
    coef = np.random.default_rng(3).normal(size=(len(fourier.offset), 2))
    some = sparse.csr_array(sparse.vstack([WORDS[:20], sparse.csr_array((1, WORDS.shape[1]))]))
    doc = np.repeat(np.arange(21), np.diff(some.indptr))
    shares = fourier.word_shares(some, coef)
    empty = fourier.apply(sparse.csr_array((1, WORDS.shape[1]))) @ coef
    for column in range(2):
        total = np.bincount(doc, shares[:, column], minlength=21)
        np.testing.assert_allclose(total, (fourier.apply(some) @ coef - empty)[:, column], atol=1e-10)


def test_few_or_very_many_or_empty_documents_have_no_fourier_features(monkeypatch: pytest.MonkeyPatch) -> None:
    assert features.learn_features(COUNTS[: features.MIN_FOURIER_DOCS - 1]).fourier is None
    assert features.learn_features(COUNTS[: features.MIN_FOURIER_DOCS]).fourier is not None
    assert features.fit_fourier_features(sparse.csr_array((features.MIN_FOURIER_DOCS, 5)), 0) is None
    alike = sparse.csr_array(np.ones((features.MIN_FOURIER_DOCS, 5)) / np.sqrt(5.0))
    assert features.fit_fourier_features(alike, 0) is None
    monkeypatch.setattr(features, "MAX_FOURIER_DOCS", COUNTS.shape[0] - 1)
    assert features.learn_features(COUNTS).fourier is None


def test_features_depend_on_the_seed_alone() -> None:
    np.testing.assert_array_equal(fit_features(seed=1).phases, fit_features(seed=1).phases)
    assert not np.array_equal(fit_features(seed=1).phases, fit_features(seed=2).phases)


def test_fourier_features_learn_an_exclusive_or_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, labels = either_or()
    with_fourier = fit_classifier(labels, counts=counts)
    monkeypatch.setattr(features, "fit_fourier_features", lambda words, seed: None)  # noqa: ARG005 - the signature of what it replaces
    without_fourier = fit_classifier(labels, counts=counts)
    right = [np.mean((fit.log_odds > 0) == (labels > 0)) for fit in (without_fourier, with_fourier)]
    assert right[0] < 0.7
    assert right[1] > 0.9


def test_a_classifier_restored_from_arrays_predicts_the_same() -> None:
    counts, labels = either_or()
    classifier = fit_classifier(labels, counts=counts).classifier
    again = LogisticClassifier.from_arrays(classifier.arrays())
    np.testing.assert_array_equal(again.log_odds(counts), classifier.log_odds(counts))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_number_of_blas_threads_changes_nothing(n_jobs: int) -> None:
    counts, labels = either_or()
    settings = ClassifierSettings(engine=Threads(n_jobs))
    with threadpool_limits(1):
        expected = fit_classifier(labels, counts=counts).log_odds
    with threadpool_limits(4):
        found = fit_classifier(labels, counts=counts, settings=settings).log_odds
    np.testing.assert_array_equal(found, expected)


def test_large_corpora_are_fitted_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "N_SAMPLE_DOCS", 150)
    found = features.learn_features(COUNTS, seed=3)
    assert found.fourier is not None
    assert found.fourier_values is not None
    assert len(found.fourier.offset) == 150
    assert found.fourier_values.shape == (COUNTS.shape[0], 150)


def test_a_classifier_with_fourier_features_can_be_updated() -> None:
    counts, labels = either_or()
    classifier = fit_classifier(labels[:300], counts=counts[:300]).classifier
    known = np.ones_like(labels[:300])
    summary = summarize_classifier(labels[:300], known)
    updated, _ = update_classifier(classifier, summary, counts[300:], None, labels[300:], known, Threads())
    assert updated.fourier is not None

    def likelihood(one: LogisticClassifier) -> float:
        odds = one.log_odds(counts)
        return float(np.mean(labels * odds - np.logaddexp(0.0, odds)))

    assert likelihood(updated) > likelihood(classifier)
    np.testing.assert_allclose(
        updated.fourier.basis * updated.idf[:, None], classifier.fourier.basis * classifier.idf[:, None]
    )
