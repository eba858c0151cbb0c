"""Baselines sampled by tomotopy: they learn from words, and handle documents without words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from palda import metrics
from palda.errors import DataError
from palda.paper.baselines import LabelledLDA, SupervisedLDA, as_words

pytest.importorskip("tomotopy", reason="SLDA and labelled LDA need tomotopy: pip install 'palda[baselines]'")

SWEEPS: dict[str, Any] = {"n_sweeps": 60, "n_infer_sweeps": 30, "random_state": 0}
MODELS = [
    SupervisedLDA(5, "together", **SWEEPS),
    SupervisedLDA(5, "one_vs_all", **SWEEPS),
    LabelledLDA(**SWEEPS),
]
IDS = ["together", "one_vs_all", "labelled"]


def documents(seed: int, n_docs: int = 150) -> tuple[Any, NDArray[np.int8]]:
    """Three classes with five words each, and five words that all documents use; many documents have no class."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, 3)) < 0.35).astype(np.int8)
    rates = np.hstack([1.2 * np.repeat(labels, 5, axis=1) + 0.05, np.full((n_docs, 5), 1.0)])
    return sparse.csr_array(rng.poisson(rates)), labels


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_topic_models_learn_from_words(model: Any) -> None:
    counts, labels = documents(0)
    new_counts, new_labels = documents(1)
    probs = model.fit(counts, labels).predict_proba(new_counts)
    assert metrics.micro_f1(new_labels, probs >= 0.5) > 0.8
    assert metrics.class_log_likelihood(new_labels, probs) > -0.35
    np.testing.assert_array_equal(model.predict_proba(new_counts[10:12]), probs[10:12])


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_documents_without_known_words_get_equal_low_probabilities(model: Any) -> None:
    counts, labels = documents(0, 60)
    dense = np.hstack([counts.toarray(), np.zeros((60, 1), dtype=np.int64)])
    dense[5] = 0
    strange = np.zeros((2, dense.shape[1]), dtype=np.int64)
    strange[1, -1] = 3  # a word that no training document has
    probs = model.fit(sparse.csr_array(dense), labels).predict_proba(sparse.csr_array(strange))
    np.testing.assert_array_equal(probs[0], probs[1])
    assert (probs < 0.5).all()
    if isinstance(model, SupervisedLDA):
        np.testing.assert_allclose(probs[0], labels.mean(axis=0))


def test_words_of_the_background_are_no_evidence_for_a_class() -> None:
    counts, labels = documents(0)
    model = LabelledLDA(**SWEEPS).fit(counts, labels)
    only_common = sparse.csr_array(np.hstack([np.zeros((1, 15)), np.full((1, 5), 4.0)]))
    assert (model.predict_proba(only_common) < 0.25).all()


def test_words_are_repeated_as_often_as_they_occur() -> None:
    counts = sparse.csr_array(np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]))
    assert as_words(counts) == [["0", "0", "2"], [], ["1", "1", "1"]]
    assert as_words(counts.toarray()) == as_words(counts)


def test_topic_models_refuse_values_that_are_not_counts() -> None:
    values = np.random.default_rng(0).random((20, 3))
    labels = np.tile([[0, 1], [1, 0]], (10, 1))
    for model in MODELS:
        with pytest.raises(DataError, match="whole numbers"):
            model.fit(values, labels)
    with pytest.raises(DataError, match="responses must be one of"):
        SupervisedLDA(responses="all").fit(values.round(), labels)
