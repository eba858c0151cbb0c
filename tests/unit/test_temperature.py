"""How much the words of a document are believed, and what each of them adds to the evidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from palda import simulate
from palda.kernels import Bags, ClassWordProbs
from palda.models.topics import (
    EMSettings,
    FoldModel,
    Params,
    Temperature,
    WordEvidenceModel,
    choose_temperature,
    cut_shards,
    evidence_of_shards,
    fit_temperature,
    label_likelihoods,
    word_evidence_model,
    word_evidence_of,
    word_weights,
)

Array = NDArray[np.float64]

LENGTHS = np.exp(np.random.default_rng(0).uniform(np.log(10.0), np.log(1000.0), 20_000))
TYPICAL = 100.0
PRIOR = np.array([-1.0, 0.5])


def raw_evidence(seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(scale=6.0, size=(len(LENGTHS), 2))


def chosen_for(truth: Temperature) -> Temperature:
    """Temper found for labels drawn as the true temper has them."""
    raw = raw_evidence()
    probs = expit(PRIOR + truth.weights(LENGTHS)[:, None] * raw)
    labels = (np.random.default_rng(2).random(probs.shape) < probs).astype(np.int8)
    present, absent = label_likelihoods(labels, None)
    return fit_temperature(lambda temper: temper.weights(LENGTHS)[:, None] * raw, PRIOR, present, absent, TYPICAL)


@pytest.mark.parametrize(
    "truth", [Temperature(0.3, 0.5, TYPICAL), Temperature(1.0, 0.0, TYPICAL), Temperature(0.1, 1.0, TYPICAL)]
)
def test_the_temper_that_made_the_labels_is_found(truth: Temperature) -> None:
    found = chosen_for(truth)
    assert found.exponent == truth.exponent
    assert found.length == truth.length
    assert found.scale == pytest.approx(truth.scale, rel=0.15)


def test_evidence_that_means_nothing_is_hardly_believed() -> None:
    labels = (np.random.default_rng(3).random((len(LENGTHS), 2)) < expit(PRIOR)).astype(np.int8)
    present, absent = label_likelihoods(labels, None)
    raw = raw_evidence()
    found = fit_temperature(lambda temper: temper.weights(LENGTHS)[:, None] * raw, PRIOR, present, absent, TYPICAL)
    assert found.scale < 0.02


def test_unknown_labels_do_not_matter() -> None:
    raw = raw_evidence()[:500]
    probs = expit(PRIOR + 0.4 * raw)
    labels = (np.random.default_rng(2).random(probs.shape) < probs).astype(np.int8)
    labels[250:] = 1 - labels[250:]  # would change the answer if anybody looked
    half = labels.copy()
    half[250:] = -1

    def choose(known: NDArray[np.int8], evidence: Array) -> Temperature:
        return fit_temperature(lambda temper: temper.scale * evidence, PRIOR, *label_likelihoods(known, None), TYPICAL)

    garbled = np.where(half == -1, 50.0, raw)
    alone = choose(labels[:250], raw[:250]).scale
    assert choose(half, raw).scale == pytest.approx(alone, rel=1e-9)
    assert choose(half, garbled).scale == pytest.approx(alone, rel=1e-9)
    assert choose(labels, raw).scale < 0.5 * alone


def test_known_labels_rule_out_the_other_state_and_unknown_ones_rule_out_nothing() -> None:
    present, absent = label_likelihoods(np.array([[1, 0, -1]], dtype=np.int8), None)
    np.testing.assert_array_equal(present, [[0.0, -np.inf, 0.0]])
    np.testing.assert_array_equal(absent, [[-np.inf, 0.0, 0.0]])


def test_longer_documents_are_believed_less_a_word() -> None:
    weights = Temperature(0.4, 0.5, TYPICAL).weights(np.array([25.0, 100.0, 400.0]))
    np.testing.assert_allclose(weights, [0.8, 0.4, 0.2], rtol=1e-14)
    np.testing.assert_array_equal(Temperature(0.4, 0.0, TYPICAL).weights(np.array([1.0, 1e6])), [0.4, 0.4])


def test_a_document_without_words_has_the_weight_of_one_with_one_word() -> None:
    temper = Temperature(0.5, 1.0, TYPICAL)
    np.testing.assert_array_equal(temper.weights(np.array([0.0])), temper.weights(np.array([1.0])))
    assert np.isfinite(temper.weights(np.array([0.0]))).all()


# Evidence and the words it is made of.

RNG = np.random.default_rng(4)
PARAMS = Params(RNG.uniform(0.05, 3.0, (4, 2, 3)), RNG.dirichlet(np.full(10, 0.4), 3), np.array([0.1, 0.3, 0.5, 0.7]))
TEMPER = Temperature(0.6, 0.25, 20.0)


def some_bags() -> Bags:
    """Three documents, one of them empty; word 9 is written by no topic."""
    words = np.array([0, 3, 7, 9, 1, 2, 3, 4, 8], dtype=np.int32)
    return Bags(np.array([0, 4, 4, 9]), words, RNG.integers(1, 6, 9).astype(np.float64))


def without_last_word() -> Params:
    topics = PARAMS.topic_words.copy()
    topics[:, 9] = 0.0
    return Params(PARAMS.topic_prior, topics / topics.sum(axis=1, keepdims=True), PARAMS.class_prior)


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
def test_the_weights_of_a_documents_words_sum_to_its_evidence(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    bags, reader = some_bags(), word_evidence_model(without_last_word(), TEMPER)
    found = word_evidence_of(bags, reader)
    doc = np.repeat(np.arange(3), np.diff(bags.starts))
    for label in range(4):
        weights = word_weights(bags, found.beliefs, reader, label)
        np.testing.assert_allclose(np.bincount(doc, weights, minlength=3), found.evidence[:, label], rtol=1e-9)
        assert weights[3] == 0.0
    assert not found.evidence[1].any()
    assert np.abs(found.evidence[[0, 2]]).max() > 0.1


def test_given_the_beliefs_evidence_is_proportional_to_the_scale() -> None:
    bags, reader = some_bags(), word_evidence_model(PARAMS, TEMPER)
    beliefs = np.full((3, 4), 0.5)
    once = word_weights(bags, beliefs, reader, 2)
    thrice = word_weights(bags, beliefs, reader._replace(temper=TEMPER._replace(scale=1.8)), 2)
    np.testing.assert_allclose(thrice, 3 * once, rtol=1e-12)


def test_the_mean_of_readers_says_what_they_say_on_average() -> None:
    reader = word_evidence_model(PARAMS, TEMPER)
    other = reader._replace(said=ClassWordProbs(reader.said.absent, reader.said.present), log_odds=-reader.log_odds)
    both = WordEvidenceModel.mean([reader, other])
    np.testing.assert_allclose(both.said.present, both.said.absent)
    np.testing.assert_allclose(both.log_odds, 0.0, atol=1e-15)
    np.testing.assert_array_equal(WordEvidenceModel.mean([reader]).said.present, reader.said.present)


def test_shards_do_not_change_what_words_say() -> None:
    world = simulate.documents(30, 4, 3, 10, seed=5, doc_length=15)
    unknown = np.full(world.labels.shape, -1, dtype=np.int8)
    parts = [
        evidence_of_shards(
            cut_shards(world.corpus.counts, unknown, n_shards=n), word_evidence_model(PARAMS, TEMPER), EMSettings()
        )
        for n in (1, 4)
    ]
    np.testing.assert_array_equal(parts[0].evidence, parts[1].evidence)
    np.testing.assert_array_equal(parts[0].beliefs, parts[1].beliefs)


def test_the_temper_is_chosen_on_the_documents_of_the_folds_alone() -> None:
    """The labels of documents that no fold holds are not even asked for."""
    world = simulate.documents(60, 4, 3, 10, seed=6, doc_length=15)
    fold = FoldModel(np.arange(0, 60, 3), PARAMS)
    asked: list[Array] = []

    def likelihoods(model: FoldModel) -> tuple[Array, Array]:
        asked.append(model.rows)
        return label_likelihoods(world.labels[model.rows].astype(np.int8), None)

    found = choose_temperature([fold], world.corpus.counts, likelihoods, EMSettings())
    assert len(asked) == 1
    np.testing.assert_array_equal(asked[0], fold.rows)
    assert found.length == 15.0
