"""What is said of models among the annotators: in results, summaries, tables and reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palda import CrowdPALDA, Votes, aggregate, simulate
from palda.models.crowd import PanelSummary, panel_summary
from palda.report import annotator_table, crowd_summary, report_inputs, report_parts

NEWS = simulate.newsroom(120, seed=0, doc_length=30)
LABELS = np.asarray(NEWS.labels, dtype=np.int8)
RNG = np.random.default_rng(0)
SHARED = np.where(RNG.random(LABELS.shape) < 0.2, 1 - LABELS, LABELS)  # what models got from the same place


def answers(like: np.ndarray, noise: float) -> np.ndarray:
    return np.where(RNG.random(like.shape) < noise, 1 - like, like)


def crowd(n_models: int, n_people: int, source: np.ndarray = SHARED) -> Votes:
    tables = [answers(source, 0.05) for _ in range(n_models)] + [answers(LABELS, 0.1) for _ in range(n_people)]
    kinds = np.array(["model"] * n_models + ["person"] * n_people, dtype=object)
    return replace(Votes.from_array(np.stack(tables, axis=1), classes=NEWS.classes), annotator_kinds=kinds)


def summary_of(votes: Votes, probs: np.ndarray, n_gold_docs: int = 0) -> PanelSummary:
    found = panel_summary(votes, probs, n_gold_docs)
    assert found is not None
    return found


def test_models_that_share_mistakes_are_worth_few_votes() -> None:
    assert summary_of(crowd(12, 0), LABELS.astype(float)).effective_votes < 2.5
    assert summary_of(crowd(12, 0, LABELS), LABELS.astype(float)).effective_votes == pytest.approx(12.0, abs=2.0)


def test_models_alone_need_random_documents_labelled_by_somebody_else() -> None:
    probs, votes = LABELS.astype(float), crowd(5, 0)
    alone = summary_of(votes, probs)
    assert alone.is_alone
    assert alone.text.startswith("all votes are by 5 models, worth about")
    assert "label 30 random documents" in alone.text
    assert "label 30" not in summary_of(votes, probs, 30).text
    beside = summary_of(crowd(5, 2), probs)
    assert not beside.is_alone
    assert beside.text.startswith("5 models of 7 annotators, worth about")
    few = crowd(5, 2)
    few = few.select((few.annotator < 5) | (few.doc < 5))
    assert summary_of(few, probs).text.startswith("nearly all votes are by 5 models")
    assert panel_summary(crowd(0, 3), probs, 0) is None


def test_aggregate_and_its_summary_say_so() -> None:
    votes = crowd(6, 0)
    result = aggregate(votes, n_profiles=1)
    assert result.panel is not None
    assert ("models", result.panel.text) in crowd_summary(votes, result).lines()
    people = crowd(0, 3)
    assert "models" not in dict(crowd_summary(people, aggregate(people, n_profiles=1)).lines())


def test_a_fitted_model_its_table_and_its_report_say_so() -> None:
    votes = replace(crowd(6, 1), doc_ids=NEWS.doc_ids)
    gold = np.where(np.arange(len(LABELS))[:, None] < 10, 1 - LABELS, -1)  # of nobody in the crowd
    settings = {"n_topics": 2, "annotators": "two_coin", "label_prior": "words", "max_iter": 2, "tol": 1.0}
    model = CrowdPALDA(**settings, n_profiles=1, random_state=0, n_jobs=1).fit(NEWS.corpus, votes, gold=gold)
    panel = model.panel_
    assert panel is not None
    assert (panel.n_models, panel.n_people, panel.n_gold_docs) == (6, 1, 10)
    assert annotator_table(model.annotator_quality_, panel).notes == (panel.text,)
    models, warning = report_parts(report_inputs(model, None, votes, None, None))["notes"]
    assert panel.text in models
    assert warning.startswith("Warning: known labels contradict this report")


def test_votes_of_models_are_no_check_votes() -> None:
    """They repeat each other's mistakes, so that they agree with a consensus without them more than is expected."""
    beside, alone = (
        CrowdPALDA(label_prior="base_rate", n_topics=4, random_state=0).fit(NEWS.corpus, votes, doc_ids=votes.doc_ids)
        for votes in (crowd(5, 2), crowd(5, 0))
    )
    people, models = (model.stopping_report(check_share=0.5) for model in (beside, alone))
    assert 0 < people.n_check_votes <= 2 * people.n_check_docs
    assert models.n_check_votes == 0
    assert "no check votes yet" in str(models)
