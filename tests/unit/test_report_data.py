"""The report's numbers are the model's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, metrics, simulate
from palda.report import annotators as people
from palda.report import records, selected_documents
from palda.report.page import _material

N_DOCS = 80


@pytest.fixture(scope="module")
def material() -> records.Material:
    news = simulate.newsroom(N_DOCS, seed=2, doc_length=40)
    votes, _ = simulate.crowd(news, "adversarial", votes_per_doc=5, seed=2)
    model = CrowdPALDA(5, label_prior="words", max_iter=4, tol=1.0, random_state=0, n_jobs=1).fit(news.corpus, votes)
    return _material(model, None, votes, news.corpus, None)


def test_annotators_stand_from_best_to_worst_and_verdicts_count_every_vote(material: records.Material) -> None:
    rows = people.annotator_rows(material)
    qualities = [row.quality for row in rows]
    assert qualities == sorted(qualities, reverse=True)
    assert {row.name for row in rows} == set(material.model.annotators_)
    verdicts = people.verdict_rows(material)
    assert sum(row.n_annotators for row in verdicts) == len(rows)
    assert sum(row.n_votes for row in verdicts) == len(material.votes)  # type: ignore[arg-type]
    assert sum(row.vote_share for row in verdicts) == pytest.approx(1, abs=1e-3)


def test_of_many_annotators_those_with_the_most_votes_are_shown(
    material: records.Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "MOST_ANNOTATORS", 7)
    monkeypatch.setattr(people, "LARGEST_HEAT", 7)
    most = np.sort(material.model.annotator_quality_["n_votes"])[-7:]
    rows = people.annotator_rows(material)
    heat: Any = people.annotator_heat(material)
    assert sorted(row.n_votes for row in rows) == most.tolist()
    assert heat.names == [row.name for row in rows]
    assert heat.n_all == 50


def test_agreement_is_symmetric_and_says_how_many_votes_are_equal(material: records.Material) -> None:
    heat: Any = people.annotator_heat(material)
    values = np.array(heat.values, dtype=float)
    np.testing.assert_array_equal(values, values.T)
    first, second = map(material.votes.annotators.tolist().index, heat.names[:2])  # type: ignore[union-attr]
    kappa = metrics.annotator_pairs(material.votes)
    assert values[0, 1] == pytest.approx(kappa.matrix(kappa.kappa)[first, second], abs=1e-3, nan_ok=True)


def test_adversaries_agree_with_each_other_and_contradict_the_others(material: records.Material) -> None:
    alike, opposed = people.opposite_pairs(material)
    assert min(pair["kappa"] for pair in alike) > max(pair["kappa"] for pair in opposed)
    assert opposed[0]["kappa"] < 0


def test_classes_have_the_shares_of_the_consensus(material: records.Material) -> None:
    for row in records.class_rows(material):
        assert row.prevalence == pytest.approx(material.model.consensus_[:, row.number].mean(), abs=1e-4)
        assert row.threshold == pytest.approx(material.model.thresholds_[row.number], abs=1e-4)
        assert row.curve is not None
        assert sum(row.curve.count) == N_DOCS
        found = sum(n * (share or 0) for n, share in zip(row.curve.count, row.curve.found, strict=True))
        assert found / N_DOCS == pytest.approx(row.prevalence, abs=1e-3)


def test_correlations_are_those_of_the_consensus(material: records.Material) -> None:
    rows = records.class_rows(material)
    heat: Any = records.class_heat(material, rows)
    expected = np.corrcoef(material.model.consensus_[:, [row.number for row in rows]].T)
    off_diagonal = ~np.eye(len(rows), dtype=bool)
    found = np.array(heat.values, dtype=float)
    np.testing.assert_allclose(found[off_diagonal], expected[off_diagonal], atol=1e-3)


def test_a_word_is_as_strong_as_one_state_writes_it_more_often_than_the_other(material: records.Material) -> None:
    rows = records.class_rows(material)
    vocabulary = records.Vocabulary(material.words)
    found = records.topics_by_class(material, rows, vocabulary)[0]
    prior, beta = material.model.topic_prior_[rows[0].number], material.model.topic_words_
    absent, present = (prior[state] / prior[state].sum() @ beta for state in (0, 1))
    for word, strength, rate in found.present:
        column = material.words.tolist().index(vocabulary.names()[word])
        assert strength == pytest.approx(np.log(present[column] / absent[column]), abs=1e-3)
        assert rate == pytest.approx(present[column], rel=0.01)
    assert all(strength > 0 for _, strength, _ in (*found.present, *found.absent))
    assert found.present_topics[0][1] >= found.present_topics[1][1]


def test_evidence_adds_up_to_what_the_words_predict(material: records.Material) -> None:
    shown: Any = selected_documents(material)
    model, entry = material.model, shown.shown[0]
    row = material.doc_ids.index(entry.id)
    predicted = model.predict_proba(material.counts[[row]])[0]  # type: ignore[index]
    prior = model.class_prior_
    for label in entry.labels:
        said = sum(nats for _, nats in label.words.pro + label.words.con) + label.words.rest
        odds = np.log(predicted / (1 - predicted)) - np.log(prior / (1 - prior))
        assert said == pytest.approx(odds[label.label], abs=0.07)


def test_the_least_certain_and_the_most_contested_documents_take_turns(
    material: records.Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything: Any = selected_documents(material)
    by_doubt = max(everything.shown, key=lambda entry: entry.doubt)
    most = max(entry.contested for entry in everything.shown)
    assert everything.shown[0].doubt == by_doubt.doubt
    monkeypatch.setattr("palda.report.documents.MOST_DOCUMENTS", 2)
    few: Any = selected_documents(material)
    assert few.n_all == N_DOCS
    assert few.shown[0].doubt == by_doubt.doubt
    assert most in {entry.contested for entry in few.shown}


def test_votes_stand_under_the_label_they_were_given_for(material: records.Material) -> None:
    shown: Any = selected_documents(material)
    votes: Any = material.votes
    entry = shown.shown[0]
    row = material.doc_ids.index(entry.id)
    for label in entry.labels:
        assert len(label.yes) == votes.yes_per_pair()[row, label.label]
        assert len(label.yes) + len(label.no) == votes.per_pair()[row, label.label]


def test_numbers_that_do_not_exist_are_none() -> None:
    assert records.number(float("nan")) is None
    assert records.number(np.inf) is None
    assert records.number(1 / 3) == 0.3333
    assert records.shortened("x" * 500) == "x" * 79 + "…"
