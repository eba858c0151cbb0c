"""Parameters before the first E-step, and the default number of topics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from palda.models.topics import default_n_topics, first_params
from palda.models.topics.start import _block_rates, _dual_ridge_regression

RNG = np.random.default_rng(0)


def random_counts(n_docs: int, n_words: int = 12) -> sparse.csr_array:
    counts = RNG.poisson(0.8, (n_docs, n_words))
    counts[0] = 0  # a document without words
    return sparse.csr_array(counts.astype(np.float64))


def test_the_regression_of_words_on_labels_is_the_same_with_fewer_documents_than_classes() -> None:
    counts, labels = random_counts(30), (RNG.random((30, 4)) < 0.4).astype(np.float64)
    lengths = np.asarray(counts.sum(axis=1))
    centred = labels - lengths @ labels / lengths.sum()
    ridge = 0.3
    primal = np.linalg.solve(centred.T @ (lengths[:, None] * centred) + ridge * np.eye(4), centred.T @ counts.toarray())
    np.testing.assert_allclose(_dual_ridge_regression(counts, lengths, centred, ridge), primal, rtol=1e-9, atol=1e-12)


def test_with_more_classes_than_documents_every_class_gets_finite_rates() -> None:
    counts, labels = random_counts(5), (RNG.random((5, 40)) < 0.3).astype(np.float64)
    rates = _block_rates(counts, np.asarray(counts.sum(axis=1)), labels)
    assert rates.shape == (40, 2, 12)
    assert np.isfinite(rates).all()
    assert (rates >= 0).all()


def test_a_shared_absence_prior_starts_equal_for_all_classes_and_keeps_the_topics() -> None:
    counts, labels = random_counts(60), (RNG.random((60, 3)) < 0.4).astype(np.float64)
    shared, separate = (
        first_params(
            counts,
            labels.mean(axis=0),
            8,
            np.random.default_rng(1),
            smoothing=True,
            guess=labels,
            shared_absence=is_shared,
        )
        for is_shared in (True, False)
    )
    np.testing.assert_array_equal(shared.topic_words, separate.topic_words)
    np.testing.assert_array_equal(shared.topic_prior[:, 1], separate.topic_prior[:, 1])
    np.testing.assert_allclose(shared.topic_prior[:, 0], np.tile(separate.topic_prior[:, 0].mean(axis=0), (3, 1)))


@pytest.mark.parametrize(
    ("label_prior", "n_classes", "n_topics"),
    [("stacked", 10, 40), ("stacked", 99, 100), ("stacked", 5_000, 160), ("words", 99, 20), (None, 99, 20),
     ("topics", 10, 160), ("topics", 300, 301), ("base_rate", 5_000, 3_000)],
)  # fmt: skip
def test_the_default_number_of_topics_follows_the_label_prior(
    label_prior: str | None, n_classes: int, n_topics: int
) -> None:
    counts = sparse.csr_array(np.full((3_000, 2), 100.0))
    assert default_n_topics(counts, n_classes, label_prior) == n_topics


def test_few_documents_have_few_topics() -> None:
    counts = sparse.csr_array(np.full((200, 2), 100.0))
    assert default_n_topics(counts, 5, "stacked") == 20
    assert default_n_topics(counts, 5_000, "base_rate") == 200
