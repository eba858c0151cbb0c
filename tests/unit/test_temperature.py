"""How strongly the words of a document count, and what each of them adds to the evidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from palda import simulate
from palda.engine import Threads
from palda.kernels import Bags, ClassWordProbs
from palda.models.topics import (
    EMSettings,
    Params,
    Temperature,
    WordEvidenceModel,
    cut_shards,
    evidence_of_shards,
    fit_temperature,
    label_likelihoods,
    temperature_sample,
    word_evidence_model,
    word_evidence_of,
    word_weights,
)

Array = NDArray[np.float64]

SETTINGS = EMSettings(engine=Threads(1))
LENGTHS = np.exp(np.random.default_rng(0).uniform(np.log(10.0), np.log(1000.0), 20_000))
MEDIAN = float(np.median(LENGTHS))
ODDS_RATIO = 19.0  # of each of the two words
ONE_CLASS = Params(np.array([[[1e-9, 1.0], [1.0, 1e-9]]]), np.array([[0.95, 0.05], [0.05, 0.95]]), np.array([0.3]))


def raw_evidence(seed: int = 1) -> Array:
    """Nats for the class per document, before they are scaled by a temperature."""
    return np.clip(np.random.default_rng(seed).normal(scale=6.0, size=(len(LENGTHS), 1)), -25.0, 25.0)


def documents_with(evidence: Array, lengths: Array) -> sparse.csr_array:
    """Counts of two words, one for the class and one against it, that have this evidence and these lengths."""
    difference = evidence[:, 0] / np.log(ODDS_RATIO)
    return sparse.csr_array(np.column_stack((lengths + difference, lengths - difference)) / 2.0)


def labels_drawn(log_odds: Array) -> NDArray[np.int8]:
    labels: NDArray[np.int8] = (np.random.default_rng(2).random(log_odds.shape) < expit(log_odds)).astype(np.int8)
    return labels


def fitted(evidence: Array, labels: NDArray[np.int8]) -> Temperature:
    counts = documents_with(evidence, LENGTHS[: len(evidence)])
    present, absent = label_likelihoods(labels, None)
    return fit_temperature(counts, np.arange(len(evidence)), ONE_CLASS, present, absent, SETTINGS)


@pytest.mark.parametrize(
    "truth", [Temperature(0.3, 0.5, MEDIAN), Temperature(1.0, 0.0, MEDIAN), Temperature(0.1, 1.0, MEDIAN)]
)
def test_the_temperature_that_generated_the_labels_is_recovered(truth: Temperature) -> None:
    raw = raw_evidence()
    found = fitted(raw, labels_drawn(logit(0.3) + truth.weights(LENGTHS)[:, None] * raw))
    assert found.exponent == truth.exponent
    assert found.length == pytest.approx(truth.length)
    assert found.scale == pytest.approx(truth.scale, rel=0.15)


def test_evidence_unrelated_to_the_labels_gets_a_small_scale() -> None:
    raw = raw_evidence()
    assert fitted(raw, labels_drawn(np.full_like(raw, logit(0.3)))).scale < 0.02


def test_documents_with_unknown_labels_do_not_change_the_temperature() -> None:
    raw = raw_evidence()[:500]
    labels = labels_drawn(logit(0.3) + 0.4 * raw)
    labels[250:] = 1 - labels[250:]  # would change the result if they were read
    half = labels.copy()
    half[250:] = -1
    misleading = np.where(half == -1, 20.0, raw)
    expected = fitted(raw, half)
    assert fitted(misleading, half).scale == pytest.approx(expected.scale, rel=1e-9)
    assert fitted(raw, labels).scale < 0.5 * expected.scale


def test_a_known_label_excludes_the_other_state_and_an_unknown_label_excludes_none() -> None:
    present, absent = label_likelihoods(np.array([[1, 0, -1]], dtype=np.int8), None)
    np.testing.assert_array_equal(present, [[0.0, -np.inf, 0.0]])
    np.testing.assert_array_equal(absent, [[-np.inf, 0.0, 0.0]])


def test_the_weight_of_a_word_falls_with_the_length_of_the_document() -> None:
    weights = Temperature(0.4, 0.5, 100.0).weights(np.array([25.0, 100.0, 400.0]))
    np.testing.assert_allclose(weights, [0.8, 0.4, 0.2], rtol=1e-14)
    np.testing.assert_array_equal(Temperature(0.4, 0.0, 100.0).weights(np.array([1.0, 1e6])), [0.4, 0.4])


def test_a_document_without_words_has_the_weight_of_one_with_one_word() -> None:
    temperature = Temperature(0.5, 1.0, 100.0)
    np.testing.assert_array_equal(temperature.weights(np.array([0.0])), temperature.weights(np.array([1.0])))
    assert np.isfinite(temperature.weights(np.array([0.0]))).all()


# Evidence and the words it is made of.

RNG = np.random.default_rng(4)
PARAMS = Params(RNG.uniform(0.05, 3.0, (4, 2, 3)), RNG.dirichlet(np.full(10, 0.4), 3), np.array([0.1, 0.3, 0.5, 0.7]))
TEMPERATURE = Temperature(0.6, 0.25, 20.0)


def some_bags() -> Bags:
    """Three documents, one of them empty; no topic contains word 9."""
    words = np.array([0, 3, 7, 9, 1, 2, 3, 4, 8], dtype=np.int32)
    return Bags(np.array([0, 4, 4, 9]), words, RNG.integers(1, 6, 9).astype(np.float64))


def without_last_word() -> Params:
    topics = PARAMS.topic_words.copy()
    topics[:, 9] = 0.0
    return Params(PARAMS.topic_prior, topics / topics.sum(axis=1, keepdims=True), PARAMS.class_prior)


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
def test_the_weights_of_a_documents_words_sum_to_its_evidence(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    bags, model = some_bags(), word_evidence_model(without_last_word(), TEMPERATURE)
    found = word_evidence_of(bags, model)
    doc = np.repeat(np.arange(3), np.diff(bags.starts))
    for label in range(4):
        weights = word_weights(bags, found.beliefs, model, label)
        np.testing.assert_allclose(np.bincount(doc, weights, minlength=3), found.evidence[:, label], rtol=1e-9)
        assert weights[3] == 0.0
    assert not found.evidence[1].any()
    assert np.abs(found.evidence[[0, 2]]).max() > 0.1


def test_given_the_beliefs_evidence_is_proportional_to_the_scale() -> None:
    bags, model = some_bags(), word_evidence_model(PARAMS, TEMPERATURE)
    beliefs = np.full((3, 4), 0.5)
    once = word_weights(bags, beliefs, model, 2)
    thrice = word_weights(bags, beliefs, model._replace(temperature=TEMPERATURE._replace(scale=1.8)), 2)
    np.testing.assert_allclose(thrice, 3 * once, rtol=1e-12)


def test_the_mean_of_models_has_their_mean_word_probabilities() -> None:
    model = word_evidence_model(PARAMS, TEMPERATURE)
    other = model._replace(
        word_probs=ClassWordProbs(model.word_probs.absent, model.word_probs.present), log_odds=-model.log_odds
    )
    both = WordEvidenceModel.mean([model, other])
    np.testing.assert_allclose(both.word_probs.present, both.word_probs.absent)
    np.testing.assert_allclose(both.log_odds, 0.0, atol=1e-15)
    np.testing.assert_array_equal(WordEvidenceModel.mean([model]).word_probs.present, model.word_probs.present)


def test_the_number_of_shards_does_not_change_the_evidence() -> None:
    world = simulate.documents(30, 4, 3, 10, seed=5, doc_length=15)
    unknown = np.full(world.labels.shape, -1, dtype=np.int8)
    parts = [
        evidence_of_shards(
            cut_shards(world.corpus.counts, unknown, n_shards=n), word_evidence_model(PARAMS, TEMPERATURE), SETTINGS
        )
        for n in (1, 4)
    ]
    np.testing.assert_array_equal(parts[0].evidence, parts[1].evidence)
    np.testing.assert_array_equal(parts[0].beliefs, parts[1].beliefs)


def test_the_temperature_depends_on_the_words_of_the_held_out_documents_alone() -> None:
    world = simulate.documents(60, 4, 3, 10, seed=6, doc_length=15)
    rows, labels = np.arange(0, 60, 3), world.labels.astype(np.int8)
    other = world.corpus.counts.toarray()
    other[1::3] = np.roll(other[1::3], 1, axis=1)  # other words, the same lengths
    present, absent = label_likelihoods(labels[rows], None)
    found, again = (
        fit_temperature(sparse.csr_array(counts), rows, PARAMS, present, absent, SETTINGS)
        for counts in (world.corpus.counts, other)
    )
    assert found == again
    assert found.length == 15.0


def test_at_most_a_thousand_documents_choose_the_temperature() -> None:
    assert 800 <= len(temperature_sample(np.arange(5000), 10)) <= 1000
    assert 200 <= len(temperature_sample(np.arange(5000), 159)) <= 50_000 / 159
    assert 100 <= len(temperature_sample(np.arange(5000), 5000)) <= 200
    np.testing.assert_array_equal(temperature_sample(np.arange(30), 10), np.arange(30))
