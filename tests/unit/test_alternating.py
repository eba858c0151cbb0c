"""The alternating fit and its parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from palda import simulate
from palda.engine import Threads
from palda.errors import DataError
from palda.models.classifier import assign_folds, fit_classifier, inverse_document_frequencies, tf_idf
from palda.models.crowd import CrowdSettings, TwoCoinModel, initial_label_probs
from palda.models.topics import EMSettings, TopicPlan, TrainingData, cross_fit_topics, labelled_shards
from palda.training import TrainingPlan, fit_alternating

NEWS = simulate.newsroom(200, seed=1)
COUNTS, LABELS = NEWS.corpus.counts, NEWS.labels.astype(np.float64)
TOPICS = TopicPlan(16, True, EMSettings(max_iter=20, tol=1e-2, engine=Threads(1)), [0])


def plan(label_prior: str) -> TrainingPlan:
    return TrainingPlan(label_prior, None, TOPICS, CrowdSettings(TwoCoinModel(), 50, 1e-5, Threads(1)), 0)


def crowd_data(votes_per_doc: int = 3) -> TrainingData:
    votes = simulate.crowd(NEWS, "paper", votes_per_doc=votes_per_doc, seed=0)[0]
    unknown = np.full(LABELS.shape, -1, dtype=np.int8)
    belief = TwoCoinModel().start(votes.n_annotators, votes.n_classes)
    return TrainingData(COUNTS, unknown, initial_label_probs(votes, unknown), votes, belief)


def test_nearly_certain_labels_count_as_known_and_others_keep_their_odds() -> None:
    probs = np.tile([0.0, 0.01, 0.3, 0.985, 1.0], (4, 1))
    (shard,) = labelled_shards(sparse.csr_array(np.ones((4, 3))), probs)
    np.testing.assert_array_equal(shard.known, np.tile([0, 0, -1, 1, 1], (4, 1)))
    assert shard.fixed_log_odds is not None
    np.testing.assert_allclose(expit(shard.fixed_log_odds[:, 2]), 0.3)
    assert np.isfinite(shard.fixed_log_odds).all()


def test_topic_evidence_does_not_depend_on_the_labels_of_its_fold() -> None:
    folds = assign_folds(LABELS, 3, seed=0)
    honest = cross_fit_topics(COUNTS, LABELS, folds, TOPICS)
    inside = folds == 1
    altered = LABELS.copy()
    altered[inside] = 1 - altered[inside]
    other = cross_fit_topics(COUNTS, altered, folds, TOPICS, honest)
    np.testing.assert_allclose(other.evidence[inside], honest.evidence[inside], rtol=1e-9)
    assert not np.allclose(other.evidence[~inside], honest.evidence[~inside])


def test_dense_columns_help_and_a_start_needs_the_same_features() -> None:
    words = fit_classifier(LABELS, counts=COUNTS)
    dense = LABELS @ np.random.default_rng(0).normal(size=(LABELS.shape[1], 3))
    dense += np.random.default_rng(1).normal(size=dense.shape)
    both = fit_classifier(LABELS, counts=COUNTS, dense=dense, folds=words.folds)
    gained = LABELS * both.log_odds - np.logaddexp(0, both.log_odds)
    before = LABELS * words.log_odds - np.logaddexp(0, words.log_odds)
    assert gained.sum() > before.sum()
    for other in ({"start": both}, {"dense": dense, "start": words}):
        with pytest.raises(DataError, match="start from a fit with the same features"):
            fit_classifier(LABELS, counts=COUNTS, **other)


def test_words_that_no_document_has_weigh_nothing() -> None:
    counts = sparse.csr_array(np.array([[1, 0, 2], [3, 0, 0]]))
    idf = inverse_document_frequencies(counts)
    assert idf[1] == 0
    with_new_word = tf_idf(sparse.csr_array(np.array([[1, 9, 2]])), idf).toarray()
    np.testing.assert_allclose(with_new_word, tf_idf(sparse.csr_array(np.array([[1, 0, 2]])), idf).toarray())


@pytest.mark.slow
@pytest.mark.parametrize("label_prior", ["words", "topics", "stacked"])
def test_alternating_turns_improve_on_votes_alone(label_prior: str) -> None:
    data = crowd_data()
    found = fit_alternating(data, plan(label_prior))
    errors = [np.mean((probs >= 0.5) != LABELS) for probs in (data.guess, found.label_probs)]
    assert errors[1] < errors[0]
    assert found.log_likelihoods.max() > found.log_likelihoods[0]
    assert found.prior is not None
    assert (found.prior.evidence_model is not None) == (label_prior != "words")


@pytest.mark.slow
def test_one_vote_per_document_does_not_collapse_the_labels() -> None:
    found = fit_alternating(crowd_data(votes_per_doc=1), plan("words"))
    share = found.label_probs.mean() / LABELS.mean()
    assert 0.6 < share < 1.6


def test_known_labels_need_one_turn_and_stay_as_they_are() -> None:
    found = fit_alternating(TrainingData(COUNTS, NEWS.labels.astype(np.int8), LABELS), plan("stacked"))
    np.testing.assert_array_equal(found.label_probs, LABELS)
    assert len(found.log_likelihoods) == 1
    assert found.belief is None
