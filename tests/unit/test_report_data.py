"""The numbers in the report are those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, metrics, simulate
from palda.report import ReportInputs, report_inputs, selected_documents
from palda.report.annotators import agreement_heatmap, annotator_rows, extreme_pairs, verdict_rows
from palda.report.classes import class_rows, correlation_heatmap
from palda.report.topics import WordNumbers, class_topics
from palda.report.values import rounded, shortened

N_DOCS = 80


@pytest.fixture(scope="module")
def inputs() -> ReportInputs:
    news = simulate.newsroom(N_DOCS, seed=2, doc_length=40)
    votes, _ = simulate.crowd(news, "adversarial", votes_per_doc=5, seed=2)
    model = CrowdPALDA(5, label_prior="words", max_iter=4, tol=1.0, random_state=0, n_jobs=1).fit(news.corpus, votes)
    return report_inputs(model, None, votes, news.corpus, None)


def test_annotators_are_ordered_by_quality_and_verdicts_count_every_vote(inputs: ReportInputs) -> None:
    rows = annotator_rows(inputs)
    qualities = [row.quality for row in rows]
    assert qualities == sorted(qualities, reverse=True)
    assert {row.name for row in rows} == set(inputs.model.annotators_)
    verdicts = verdict_rows(inputs)
    assert sum(row.n_annotators for row in verdicts) == len(rows)
    assert sum(row.n_votes for row in verdicts) == len(inputs.votes)  # type: ignore[arg-type]
    assert sum(row.vote_share for row in verdicts) == pytest.approx(1, abs=1e-3)


def test_annotators_with_the_most_votes_are_shown(inputs: ReportInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.report.annotators.MAX_ANNOTATORS", 7)
    monkeypatch.setattr("palda.report.annotators.MAX_HEATMAP_NAMES", 7)
    most = np.sort(inputs.model.annotator_quality_["n_votes"])[-7:]
    rows = annotator_rows(inputs)
    heat: Any = agreement_heatmap(inputs)
    assert sorted(row.n_votes for row in rows) == most.tolist()
    assert heat.names == [row.name for row in rows]
    assert heat.n_all == 50


def test_agreement_is_symmetric_and_equals_kappa(inputs: ReportInputs) -> None:
    heat: Any = agreement_heatmap(inputs)
    values = np.array(heat.values, dtype=float)
    np.testing.assert_array_equal(values, values.T)
    first, second = map(inputs.votes.annotators.tolist().index, heat.names[:2])  # type: ignore[union-attr]
    kappa = metrics.annotator_pairs(inputs.votes)
    assert values[0, 1] == pytest.approx(kappa.matrix(kappa.kappa)[first, second], abs=1e-3, nan_ok=True)


def test_pairs_of_highest_and_lowest_agreement_are_listed(inputs: ReportInputs) -> None:
    alike, opposed = extreme_pairs(inputs)
    assert min(pair["kappa"] for pair in alike) > max(pair["kappa"] for pair in opposed)
    assert opposed[0]["kappa"] < 0


def test_prevalence_is_the_mean_of_the_consensus(inputs: ReportInputs) -> None:
    for row in class_rows(inputs):
        assert row.prevalence == pytest.approx(inputs.model.consensus_[:, row.number].mean(), abs=1e-4)
        assert row.threshold == pytest.approx(inputs.model.thresholds_[row.number], abs=1e-4)
        assert row.curve is not None
        assert sum(row.curve.count) == N_DOCS
        found = sum(n * (share or 0) for n, share in zip(row.curve.count, row.curve.observed, strict=True))
        assert found / N_DOCS == pytest.approx(row.prevalence, abs=1e-3)


def test_correlations_equal_those_of_the_consensus(inputs: ReportInputs) -> None:
    rows = class_rows(inputs)
    heat: Any = correlation_heatmap(inputs, rows)
    expected = np.corrcoef(inputs.model.consensus_[:, [row.number for row in rows]].T)
    off_diagonal = ~np.eye(len(rows), dtype=bool)
    found = np.array(heat.values, dtype=float)
    np.testing.assert_allclose(found[off_diagonal], expected[off_diagonal], atol=1e-3)


def test_word_evidence_of_a_class_is_the_log_ratio_of_its_word_probabilities(inputs: ReportInputs) -> None:
    rows = class_rows(inputs)
    vocabulary = WordNumbers(inputs.words)
    found = class_topics(inputs, rows, vocabulary)[0]
    prior, beta = inputs.model.topic_prior_[rows[0].number], inputs.model.topic_words_
    absent, present = (prior[state] / prior[state].sum() @ beta for state in (0, 1))
    for word, strength, rate in found.present:
        column = inputs.words.tolist().index(vocabulary.names()[word])
        assert strength == pytest.approx(np.log(present[column] / absent[column]), abs=1e-3)
        assert rate == pytest.approx(present[column], rel=0.01)
    assert all(strength > 0 for _, strength, _ in (*found.present, *found.absent))
    assert found.present_topics[0][1] >= found.present_topics[1][1]


def test_word_evidence_sums_to_the_predicted_log_odds(inputs: ReportInputs) -> None:
    shown: Any = selected_documents(inputs)
    model, entry = inputs.model, shown.shown[0]
    row = inputs.doc_ids.index(entry.id)
    predicted = model.predict_proba(inputs.counts[[row]])[0]  # type: ignore[index]
    prior = model.class_prior_
    for label in entry.labels:
        evidence = sum(nats for _, nats in label.words.pro + label.words.con) + label.words.rest
        odds = np.log(predicted / (1 - predicted)) - np.log(prior / (1 - prior))
        assert evidence == pytest.approx(odds[label.label], abs=0.07)


def test_documents_alternate_between_least_certain_and_most_disputed(
    inputs: ReportInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything: Any = selected_documents(inputs)
    least_certain = max(everything.shown, key=lambda entry: entry.expected_errors)
    most = max(entry.disagreement for entry in everything.shown)
    assert everything.shown[0].expected_errors == least_certain.expected_errors
    monkeypatch.setattr("palda.report.documents.MAX_DOCUMENTS", 2)
    few: Any = selected_documents(inputs)
    assert few.n_all == N_DOCS
    assert few.shown[0].expected_errors == least_certain.expected_errors
    assert most in {entry.disagreement for entry in few.shown}


def test_votes_are_listed_under_their_label(inputs: ReportInputs) -> None:
    shown: Any = selected_documents(inputs)
    votes: Any = inputs.votes
    entry = shown.shown[0]
    row = inputs.doc_ids.index(entry.id)
    for label in entry.labels:
        assert len(label.yes) == votes.yes_per_pair()[row, label.label]
        assert len(label.yes) + len(label.no) == votes.per_pair()[row, label.label]


def test_numbers_are_rounded_and_long_names_cut() -> None:
    assert rounded(float("nan")) is None
    assert rounded(np.inf) is None
    assert rounded(1 / 3) == 0.3333
    assert shortened("x" * 500) == "x" * 79 + "…"
