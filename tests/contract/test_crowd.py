"""CrowdPALDA: consensus, annotator quality, gold labels, annotator priors and suggestions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, DataError, Votes, load, metrics, simulate

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(420, seed=5)
COUNTS = NEWS.corpus.counts
X, LABELS = COUNTS[:300], NEWS.labels[:300]
NEW_X, NEW_LABELS = COUNTS[300:], NEWS.labels[300:]
QUALITY = np.array([0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.15, 0.9])
ALL_VOTES, PEOPLE = simulate.crowd(NEWS, QUALITY, votes_per_doc=3, seed=2)
VOTES, NEW_VOTES = ALL_VOTES.take(slice(0, 300)), ALL_VOTES.take(slice(300, 420))
SETTINGS: dict[str, Any] = {"n_topics": 8, "tol": 1e-2, "random_state": 0, "n_jobs": 1, "label_prior": "words"}
QUICK = SETTINGS | {"n_profiles": 1}
COLUMNS = ["annotator", "quality", "low", "high", "sensitivity", "specificity", "informedness", "n_votes", "verdict"]


def fitted(annotators: str = "two_coin", label_prior: str = "words") -> CrowdPALDA:
    return fit_once(annotators, label_prior)  # the cache treats defaults and equal arguments as different


@cache
def fit_once(annotators: str, label_prior: str) -> CrowdPALDA:
    return CrowdPALDA(**(SETTINGS | {"annotators": annotators, "label_prior": label_prior})).fit(X, VOTES)


def f1(probs: np.ndarray, labels: np.ndarray = LABELS) -> float:
    return metrics.micro_f1(labels, probs >= 0.5)


def majority(votes: Votes) -> np.ndarray:
    return votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)


@pytest.mark.parametrize("label_prior", ["stacked", "topics", "words", "base_rate"])
def test_consensus_is_better_than_majority_vote(label_prior: str) -> None:
    model = fitted(label_prior=label_prior)
    assert f1(model.consensus_) > f1(majority(VOTES)) + 0.03


@pytest.mark.parametrize("annotators", ["one_coin", "two_coin", "per_class"])
def test_annotator_quality_is_recovered(annotators: str) -> None:
    model = fitted(annotators)
    table = model.annotator_quality_
    assert table.columns[: len(COLUMNS)].tolist() == COLUMNS
    assert table["annotator"].tolist() == VOTES.annotators.tolist()
    assert metrics.annotator_rmse(table["quality"], QUALITY) < 0.06
    assert ((table["low"] < table["quality"]) & (table["quality"] < table["high"])).all()
    assert table["verdict"].iloc[6] == "adversarial"
    np.testing.assert_array_equal(table["n_votes"], VOTES.per_annotator())


def test_consensus_of_new_documents_is_better_than_from_words_or_votes_alone() -> None:
    model = fitted()
    found = model.consensus(NEW_X, NEW_VOTES)
    assert f1(found, NEW_LABELS) > f1(majority(NEW_VOTES), NEW_LABELS)
    assert f1(found, NEW_LABELS) > f1(model.predict_proba(NEW_X), NEW_LABELS)


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_votes_on_new_documents_are_accepted_in_any_form_and_order(label_prior: str) -> None:
    model = fitted(label_prior=label_prior)
    array = np.full((120, NEW_VOTES.n_annotators, NEW_VOTES.n_classes), -1)
    array[NEW_VOTES.doc, NEW_VOTES.annotator, NEW_VOTES.label] = NEW_VOTES.value
    frame = NEW_VOTES.to_frame().astype(dict.fromkeys(("doc", "annotator", "label"), str))
    shuffled = frame.sample(frac=1.0, random_state=0)
    expected = model.consensus(NEW_X, NEW_VOTES)
    np.testing.assert_allclose(model.consensus(NEW_X, array), expected, rtol=1e-12)
    np.testing.assert_allclose(model.consensus(NEW_X, shuffled, doc_ids=NEW_VOTES.doc_ids), expected, rtol=1e-12)


def test_new_annotators_get_the_pool_prior_and_unknown_classes_are_refused() -> None:
    model = fitted()
    frame = NEW_VOTES.to_frame().astype(dict.fromkeys(("doc", "annotator", "label"), str))
    found = model.consensus(NEW_X, frame.assign(annotator="new " + frame["annotator"]), doc_ids=NEW_VOTES.doc_ids)
    assert f1(found, NEW_LABELS) > f1(model.predict_proba(NEW_X), NEW_LABELS)
    with pytest.raises(DataError, match="class"):
        model.consensus(NEW_X, frame.assign(label="gossip"), doc_ids=NEW_VOTES.doc_ids)


def test_consensus_without_votes_equals_predict_proba() -> None:
    model = CrowdPALDA(**QUICK).fit(X, VOTES)
    no_votes = Votes.empty(NEW_VOTES.doc_ids, VOTES.classes, VOTES.annotators)
    np.testing.assert_allclose(model.consensus(NEW_X, no_votes), model.predict_proba(NEW_X), atol=1e-9)


def test_gold_labels_are_kept_and_improve_other_labels() -> None:
    """Averaged over seeds: with so few documents, folds change the consensus as much as gold labels do."""
    gold = np.full(LABELS.shape, -1)
    gold[::2] = LABELS[::2]
    scores = []
    for seed in range(2):
        settings = QUICK | {"random_state": seed}
        without, model = CrowdPALDA(**settings).fit(X, VOTES), CrowdPALDA(**settings).fit(X, VOTES, gold=gold)
        np.testing.assert_array_equal(model.consensus_[::2], LABELS[::2])
        scores.append([f1(found.consensus_[1::2], LABELS[1::2]) for found in (without, model)])
    before, after = np.mean(scores, axis=0)
    assert after > before


def test_documents_without_votes_get_labels() -> None:
    some = VOTES.take(slice(0, 200))
    padded = Votes(some.doc, some.annotator, some.label, some.value, VOTES.doc_ids, VOTES.annotators, VOTES.classes)
    for label_prior in ("words", "stacked"):
        model = CrowdPALDA(**(QUICK | {"label_prior": label_prior})).fit(X, padded)
        assert f1(model.consensus_[200:], LABELS[200:]) > 0.6
        assert f1(model.consensus_[:200], LABELS[:200]) > f1(majority(some), LABELS[:200])


@pytest.mark.parametrize(
    ("label_prior", "n_docs", "n_seeds"),
    [("base_rate", 10, 3), pytest.param("words", 60, 10, marks=pytest.mark.long)],
)
def test_annotator_prior_of_an_earlier_fit_improves_quality_and_keeps_the_consensus(
    label_prior: str, n_docs: int, n_seeds: int
) -> None:
    """Votes on ten classes of ten documents leave a history something to say; with words 60 documents do."""
    few = VOTES.take(slice(0, n_docs))
    by_name = dict(zip(VOTES.annotators, QUALITY, strict=True))
    scores, errors = [], []
    for seed in range(n_seeds):
        model = CrowdPALDA(**(SETTINGS | {"label_prior": label_prior, "random_state": seed}))
        for prior in (None, fitted().annotator_quality_, by_name):
            model.fit(X[:n_docs], few, annotator_prior=prior)
            scores.append(f1(model.consensus_, LABELS[:n_docs]))
            errors.append(metrics.annotator_rmse(model.annotator_quality_["quality"], QUALITY))
    alone, table, mapping = np.reshape(scores, (n_seeds, 3)).mean(axis=0)
    assert min(table, mapping) > alone - 0.02  # about one of the labels present
    alone, table, mapping = np.reshape(errors, (n_seeds, 3)).mean(axis=0)
    assert max(table, mapping) < alone


def test_annotator_prior_corrects_an_adversarial_crowd() -> None:
    votes = simulate.crowd(NEWS, np.full(5, 0.2), votes_per_doc=3, seed=4)[0].take(slice(0, 300))
    model = CrowdPALDA(**QUICK).fit(X, votes, annotator_prior=dict.fromkeys(votes.annotators, 0.2))
    assert f1(model.consensus_) > 0.9


def test_held_out_vote_likelihood_grows_over_the_rounds() -> None:
    found = fitted().vote_log_likelihoods_
    assert 2 <= len(found) <= 12
    assert np.isfinite(found).all()
    assert found.max() > found[0]
    assert fitted(label_prior="base_rate").vote_log_likelihoods_.size == 0


def test_suggest_returns_the_most_uncertain_labels_sorted_by_gain() -> None:
    model = fitted()
    table = model.suggest(25)
    assert table.columns.tolist() == ["doc", "label", "probability", "gain"]
    assert len(table) == 25
    assert (np.diff(table["gain"]) <= 0).all()
    rows = [list(model.doc_ids_).index(doc) for doc in table["doc"]]
    columns = [list(model.classes_).index(label) for label in table["label"]]
    np.testing.assert_array_equal(table["probability"], model.consensus_[rows, columns])
    doubt = np.abs(model.consensus_ - 0.5)
    assert doubt[rows, columns].max() < np.quantile(doubt, 0.1)
    with pytest.raises(ValueError, match="n=0 must be an integer of at least 1"):
        model.suggest(0)


def test_suggested_labels_are_wrong_more_often_than_others() -> None:
    """Votes on these labels therefore correct more."""
    model = fitted()
    wrong = (model.consensus_ >= 0.5) != (LABELS == 1)
    table = model.suggest(60)
    rows = np.array([list(model.doc_ids_).index(doc) for doc in table["doc"]])
    columns = np.array([list(model.classes_).index(label) for label in table["label"]])
    assert wrong[rows, columns].mean() > 3 * wrong.mean()


def test_crowd_attributes_survive_save_and_load(tmp_path: Path) -> None:
    model = fitted("per_class")
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    np.testing.assert_array_equal(loaded.consensus_, model.consensus_)
    np.testing.assert_array_equal(loaded.vote_log_likelihoods_, model.vote_log_likelihoods_)
    np.testing.assert_array_equal(loaded.consensus(NEW_X, NEW_VOTES), model.consensus(NEW_X, NEW_VOTES))
    assert loaded.annotator_quality_.equals(model.annotator_quality_)
    assert loaded.suggest(5).equals(model.suggest(5))


def test_unknown_annotator_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'annotators' parameter of CrowdPALDA .* Got 'three_coin'"):
        CrowdPALDA(annotators="three_coin").fit(X, VOTES)
