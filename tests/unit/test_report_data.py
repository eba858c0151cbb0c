"""The numbers in the report are those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, Votes, metrics, simulate
from palda.report import ReportInputs, report_inputs, report_parts

N_DOCS = 80


@pytest.fixture(scope="module")
def inputs() -> ReportInputs:
    news = simulate.newsroom(N_DOCS, seed=2, doc_length=40)
    votes, _ = simulate.crowd(news, "adversarial", votes_per_doc=5, seed=2)
    model = CrowdPALDA(5, label_prior="words", max_iter=4, tol=1.0, random_state=0, n_jobs=1).fit(news.corpus, votes)
    return report_inputs(model, None, votes, news.corpus, None)


@pytest.fixture(scope="module")
def parts(inputs: ReportInputs) -> dict[str, Any]:
    return report_parts(inputs)


@pytest.fixture(scope="module")
def votes(inputs: ReportInputs) -> Votes:
    assert inputs.votes is not None
    return inputs.votes


def test_annotators_are_ordered_by_quality_and_verdicts_count_every_vote(
    inputs: ReportInputs, votes: Votes, parts: dict[str, Any]
) -> None:
    rows, verdicts = parts["annotators"], parts["verdicts"]
    qualities = [row["quality"] for row in rows]
    assert qualities == sorted(qualities, reverse=True)
    assert {row["name"] for row in rows} == set(inputs.model.annotators_)
    assert sum(row["n_annotators"] for row in verdicts) == len(rows)
    assert sum(row["n_votes"] for row in verdicts) == len(votes)
    assert sum(row["vote_share"] for row in verdicts) == pytest.approx(1, abs=1e-3)


def test_suspicious_annotators_and_those_with_the_most_votes_are_shown(
    inputs: ReportInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palda.report.annotators.MAX_ANNOTATORS", 15)
    monkeypatch.setattr("palda.report.annotators.MAX_HEATMAP_NAMES", 7)
    quality = inputs.model.annotator_quality_
    suspicious = quality["verdict"].isin(["adversarial", "spammer"])
    assert 0 < suspicious.sum() < 15
    parts = report_parts(inputs)
    rows = parts["annotators"]
    assert set(quality["annotator"][suspicious]) <= {row["name"] for row in rows}
    others = [row["n_votes"] for row in rows if row["verdict"] not in ("adversarial", "spammer")]
    assert sorted(others) == np.sort(quality["n_votes"][~suspicious])[-len(others) :].tolist()
    assert len(rows) == 15
    shown = quality.set_index("annotator")["n_votes"][parts["agreement"]["names"]]
    assert sorted(shown) == np.sort(quality["n_votes"])[-7:].tolist()
    assert parts["agreement"]["n_all"] == 50


def test_agreement_is_symmetric_and_equals_kappa(votes: Votes, parts: dict[str, Any]) -> None:
    heatmap = parts["agreement"]
    values = np.array(heatmap["values"], dtype=float)
    np.testing.assert_array_equal(values, values.T)
    columns = [votes.annotators.tolist().index(name) for name in heatmap["names"]]
    pairs = metrics.annotator_pairs(votes)
    kappa = pairs.matrix(pairs.kappa)[np.ix_(columns, columns)]
    np.testing.assert_allclose(values, kappa, atol=1e-3)


def test_pairs_of_highest_and_lowest_agreement_are_listed(parts: dict[str, Any]) -> None:
    similar, opposed = ([pair["kappa"] for pair in parts[name]] for name in ("most_similar", "most_opposed"))
    assert min(similar) > max(opposed)
    assert opposed[0] < 0


def test_prevalence_is_the_mean_of_the_consensus(inputs: ReportInputs, parts: dict[str, Any]) -> None:
    for row in parts["classes"]:
        curve = row["curve"]
        assert row["prevalence"] == pytest.approx(inputs.model.consensus_[:, row["number"]].mean(), abs=1e-4)
        assert row["threshold"] == pytest.approx(inputs.model.thresholds_[row["number"]], abs=1e-4)
        assert sum(curve["count"]) == N_DOCS
        total = sum(n * (share or 0) for n, share in zip(curve["count"], curve["observed"], strict=True))
        assert total / N_DOCS == pytest.approx(row["prevalence"], abs=1e-3)


def test_correlations_equal_those_of_the_consensus(inputs: ReportInputs, parts: dict[str, Any]) -> None:
    classes = [row["number"] for row in parts["classes"]]
    expected = np.corrcoef(inputs.model.consensus_[:, classes].T)
    off_diagonal = ~np.eye(len(classes), dtype=bool)
    shown = np.array(parts["correlation"]["values"], dtype=float)
    np.testing.assert_allclose(shown[off_diagonal], expected[off_diagonal], atol=1e-3)


def without_class(model: Any, means: np.ndarray, label: int) -> np.ndarray:
    """Topic shares expected in a document without a class: each other class present or absent, profile by profile."""
    shares, total = np.zeros(means.shape[2]), 0.0
    for weight, rates in zip(model.profiles_.weights, model.profiles_.rates, strict=True):
        weight_if_absent = weight * (1 - rates[label])
        for k, rate in enumerate(rates):
            present = 0.0 if k == label else rate
            shares += weight_if_absent * (present * means[k, 1] + (1 - present) * means[k, 0])
        total += weight_if_absent
    return shares / (total * len(means))


def test_word_evidence_of_a_class_is_the_log_ratio_of_its_word_probabilities(
    inputs: ReportInputs, parts: dict[str, Any]
) -> None:
    shown, label = parts["class_topics"][0], parts["classes"][0]["number"]
    model, word_probs = inputs.model, inputs.model.topic_words_
    means = model.topic_prior_ / model.topic_prior_.sum(axis=2, keepdims=True)
    present, absent = means[label, 1] @ word_probs, without_class(model, means, label) @ word_probs
    assert shown["present"]
    for word, evidence, prob in shown["present"]:
        column = inputs.words.tolist().index(parts["vocabulary"][word])
        assert evidence == pytest.approx(np.log(present[column] / absent[column]), abs=1e-3)
        assert prob == pytest.approx(present[column], rel=0.01)
    assert all(evidence > 0 for _, evidence, _ in (*shown["present"], *shown["absent"]))
    assert shown["present_topics"][0][1] >= shown["present_topics"][1][1]


def test_word_evidence_sums_to_the_predicted_log_odds(inputs: ReportInputs, parts: dict[str, Any]) -> None:
    model, document = inputs.model, parts["documents"]["shown"][0]
    row = inputs.doc_ids.index(document["id"])
    predicted = model.predict_proba(inputs.counts[[row]])[0]  # type: ignore[index]
    prior = model.class_prior_
    log_odds = np.log(predicted / (1 - predicted)) - np.log(prior / (1 - prior))
    for label in document["labels"]:
        words = label["words"]
        evidence = sum(nats for _, nats in words["pro"] + words["con"]) + words["rest"]
        assert evidence == pytest.approx(log_odds[label["label"]], abs=0.07)


def test_documents_alternate_between_least_certain_and_most_disputed(
    inputs: ReportInputs, parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = parts["documents"]["shown"]
    max_errors = max(document["expected_errors"] for document in shown)
    max_disagreement = max(document["disagreement"] for document in shown)
    assert shown[0]["expected_errors"] == max_errors
    monkeypatch.setattr("palda.report.documents.MAX_DOCUMENTS", 2)
    few = report_parts(inputs)["documents"]
    assert few["n_all"] == N_DOCS
    assert few["shown"][0]["expected_errors"] == max_errors
    assert max_disagreement in {document["disagreement"] for document in few["shown"]}


def test_votes_are_listed_under_their_label(inputs: ReportInputs, votes: Votes, parts: dict[str, Any]) -> None:
    document = parts["documents"]["shown"][0]
    row = inputs.doc_ids.index(document["id"])
    for label in document["labels"]:
        assert len(label["yes"]) == votes.yes_per_pair()[row, label["label"]]
        assert len(label["yes"]) + len(label["no"]) == votes.per_pair()[row, label["label"]]


def test_unknown_numbers_are_none_and_long_names_are_cut() -> None:
    votes = Votes.from_array(np.array([[[1, 0]]] * 3 + [[[0, 1]]] * 3), classes=["x" * 500, "y"])
    model = CrowdPALDA(1, label_prior="base_rate", max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    parts = report_parts(report_inputs(model.fit(np.eye(6, 2) + 1, votes), None, votes, None, None))
    assert parts["class_names"] == ["x" * 79 + "…", "y"]
    assert parts["classes"][0]["agreement"] is None  # one annotator only
