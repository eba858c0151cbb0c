"""Simulated labelling projects: what policies choose, common random numbers, curves and plans."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, DataError, simulate
from palda.planning import (
    Assignment,
    Curve,
    CurvePoint,
    FixedOverlap,
    LabellingProject,
    LabelUncertainty,
    Progress,
    RandomDocuments,
    Requests,
    Schedule,
    SuggestedLabels,
    TypicalAssignment,
    WordsAggregator,
    assumed_project,
    by_score,
    draw_plan,
    mean_curve,
    needs,
    pilot_project,
    run_project,
    save_picture,
    votes_needed,
)

QUALITY = (0.95, 0.9, 0.85, 0.8, 0.7)


@pytest.fixture(scope="module")
def project() -> LabellingProject:
    return assumed_project(70, 4, QUALITY, labels_per_doc=1.2, seed=1)


@pytest.fixture(scope="module")
def aggregator() -> WordsAggregator:
    return WordsAggregator(seed=1, n_jobs=1)


def codes(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def curve(name: str, *points: tuple[float, float]) -> Curve:
    return Curve(name, tuple(CurvePoint(votes, 0, 0, 1.0 - error, error, error, 0.0) for votes, error in points))


def test_an_annotator_gives_the_same_answer_whenever_asked(project: LabellingProject) -> None:
    some = project.answers(Requests(codes(2, 0, 4), codes(3, 5, 3)))
    other = project.answers(Requests(codes(4, 2), codes(3, 3)))
    kept = some.select(some.doc == 3)
    assert (kept.annotator.tolist(), kept.value.tolist()) == (other.annotator.tolist(), other.value.tolist())


def test_answers_are_correct_as_often_as_the_annotator_is() -> None:
    labels = np.tile(np.array([[1, 0]], dtype=np.int8), (3000, 1))
    people = simulate.SimulatedAnnotators.from_rates([0.9, 0.6], [0.7, 0.8], n_classes=2)
    docs = np.arange(3000)
    for annotator, expected in enumerate(((0.9, 0.7), (0.6, 0.8))):
        given = simulate.judgements(labels, people, docs, np.full(3000, annotator), seed=3)
        assert (given == labels).mean(axis=0) == pytest.approx(expected, abs=0.03)
    with pytest.raises(DataError, match="judge 2 classes"):
        simulate.judgements(labels[:, :1], people, [0], [0])


def test_only_the_classes_that_are_asked_get_votes(project: LabellingProject) -> None:
    asked = np.array([[True, False, False, True]])
    votes = project.answers(Requests(codes(1), codes(0), asked))
    assert votes.label.tolist() == [0, 3]


def test_the_best_free_document_goes_to_each_annotator_once_per_batch() -> None:
    seen = np.zeros((4, 2), dtype=bool)
    seen[2, 0] = True
    chosen = by_score(np.array([0.1, 0.5, 0.9, 0.3]), seen, codes(0, 1, 0, 0, 0))
    assert chosen.doc.tolist() == [1, 2, 3, 0]  # nothing is left for the last one
    assert chosen.annotator.tolist() == [0, 1, 0, 0]


def progress_of(model: Any, judged: Any) -> Progress:
    return Progress(model, judged, np.random.default_rng(0))


def test_fixed_overlap_takes_documents_with_the_fewest_votes() -> None:
    judged = np.zeros((3, 4, 1), dtype=bool)
    judged[0, :2] = judged[2, 0] = True
    chosen = FixedOverlap().choose(progress_of(None, judged), codes(3, 3))
    assert chosen.doc.tolist() == [1, 2]


def test_uncertainty_takes_the_largest_expected_number_of_wrong_labels() -> None:
    model = SimpleNamespace(consensus_=np.array([[0.5, 0.0], [0.3, 0.6], [0.9, 1.0]]))
    chosen = LabelUncertainty().choose(progress_of(model, np.zeros((3, 2, 2), dtype=bool)), codes(0, 1, 0))
    assert chosen.doc.tolist() == [1, 0, 2]


@pytest.mark.slow
def test_policies_share_the_start_and_the_crowd(project: LabellingProject, aggregator: WordsAggregator) -> None:
    schedule = Schedule((0.5, 2.0), 0.25)
    policies = (RandomDocuments(), SuggestedLabels(), Assignment())
    runs = [run_project(project, policy, schedule, aggregator) for policy in policies]
    assert len({run.points[0] for run in runs}) == 1
    for run in runs:
        assert run.column("votes_per_doc") == pytest.approx([0.5, 2.0], abs=0.02)
        assert run.points[-1].n_looks == 2 * project.n_docs
        assert run.points[-1].micro_f1 > run.points[0].micro_f1
    again = run_project(project, Assignment(), schedule, aggregator)
    assert again == runs[-1]


@pytest.mark.slow
def test_asking_for_labels_costs_judgements_not_votes(project: LabellingProject, aggregator: WordsAggregator) -> None:
    run = run_project(project, Assignment(ask="labels"), Schedule((0.5, 1.0), 0.25), aggregator)
    last = run.points[-1]
    assert last.n_judgements == pytest.approx(last.votes_per_doc * project.labels.size)
    assert last.n_looks * project.n_classes > last.n_judgements


@pytest.mark.slow
def test_nobody_exceeds_their_share_if_annotators_are_chosen(
    project: LabellingProject, aggregator: WordsAggregator
) -> None:
    model = aggregator(project.counts, project.answers(Requests(np.arange(70) % 5, np.arange(70))))
    judged = np.zeros((70, 5, 4), dtype=bool)
    judged[np.arange(70), np.arange(70) % 5] = True
    chosen = Assignment(chooses_annotators=True, max_share=1.5).choose(progress_of(model, judged), codes(*[0] * 30))
    assert chosen.size == 30
    given = 14 + np.bincount(chosen.annotator, minlength=5)
    assert given.max() <= math.ceil(1.5 * 100 / 5)
    assert given.min() < given.max()


def test_votes_needed_are_interpolated_and_nan_beyond_the_curve() -> None:
    falling = curve("a", (1.0, 0.2), (2.0, 0.1), (4.0, 0.05))
    assert votes_needed(falling, math.sqrt(0.2 * 0.1), "error") == pytest.approx(1.5)
    assert votes_needed(falling, 0.85) == pytest.approx(1.5)
    assert votes_needed(falling, 0.95) == pytest.approx(4.0)
    assert votes_needed(falling, 0.5, "error") == 1.0
    assert math.isnan(votes_needed(falling, 0.01, "error"))


def test_costs_and_savings_are_those_of_the_votes_needed() -> None:
    fixed, better = curve("fixed overlap", (1.0, 0.2), (5.0, 0.04)), curve("assign", (1.0, 0.2), (3.0, 0.04))
    first, second = needs([fixed, better], 0.04, n_docs=200, price=0.5)
    assert (first.n_votes, first.cost, first.saved) == pytest.approx((1000, 500.0, 0.0))
    assert (second.n_votes, second.cost, second.saved) == pytest.approx((600, 300.0, 0.4))
    (missed,) = needs([better], 0.01, n_docs=200)
    assert math.isnan(missed.n_votes)


def test_mean_curves_end_with_the_shortest_run() -> None:
    mean = mean_curve([curve("a", (1.0, 0.2), (2.0, 0.1)), curve("a", (1.0, 0.4))])
    assert mean.column("error") == pytest.approx([0.3])


def test_a_plan_is_drawn_with_one_line_per_policy_and_its_target(tmp_path: Any) -> None:
    curves = [curve(name, (1.0, 0.2), (2.0, 0.0)) for name in ("fixed overlap", "random", "assign")]
    figure = draw_plan(curves, 0.02, "a title")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines[:3]] == ["fixed overlap", "random", "assign"]
    save_picture(figure, tmp_path / "plan.svg", "svg")
    assert "target 2%" in (tmp_path / "plan.svg").read_text()


def test_impossible_assumptions_are_refused(project: LabellingProject) -> None:
    with pytest.raises(DataError, match="fewer than the 3 classes"):
        assumed_project(20, 3, [0.9, 0.8], labels_per_doc=3)
    with pytest.raises(DataError, match="labels of that shape"):
        LabellingProject(project.counts, project.labels[:5], project.annotators, project.doc_ids, project.classes)


@pytest.mark.slow
def test_a_pilot_gives_its_documents_labels_and_annotators(
    project: LabellingProject, aggregator: WordsAggregator
) -> None:
    votes = project.answers(Requests(np.tile(np.arange(3), 70), np.repeat(np.arange(70), 3)))
    model: CrowdPALDA = aggregator(project.counts, votes)
    found = pilot_project(model, project.counts, max_docs=40, seed=2)
    assert (found.n_docs, found.n_classes, len(found.annotators)) == (40, 4, 5)
    assert set(found.doc_ids) <= set(project.doc_ids)
    rows = [project.doc_ids.tolist().index(name) for name in found.doc_ids]
    assert (found.labels == project.labels[rows]).mean() > 0.9


@pytest.mark.slow
def test_documents_chosen_for_a_typical_annotator_do_not_depend_on_who_arrives(
    project: LabellingProject, aggregator: WordsAggregator
) -> None:
    model = aggregator(project.counts, project.answers(Requests(np.arange(70) % 5, np.arange(70))))
    nothing = np.zeros((70, 5, 4), dtype=bool)
    chosen = [TypicalAssignment().choose(progress_of(model, nothing), codes(*who)) for who in ((0, 1, 2), (4, 4, 3))]
    assert chosen[0].doc.tolist() == chosen[1].doc.tolist()
    assert [found.annotator.tolist() for found in chosen] == [[0, 1, 2], [4, 4, 3]]
