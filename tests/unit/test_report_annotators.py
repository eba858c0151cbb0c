"""What the report, its tables and its summaries say about copies, changes, soft votes and gold labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.mixed_crowd import CHANGED, COPIES, MODEL, N_GOLD_DOCS, PEOPLE, MixedCrowd, mixed_crowd

import palda
from palda import CrowdPALDA, simulate
from palda.report import (
    change_table,
    copy_table,
    crowd_summary,
    fit_summary,
    render_report,
    report_inputs,
    report_parts,
    write_report,
)

NEW_SECTIONS = ("copies-title", "changes-title", "confidence-title", "rates-title", "gold-check-title")
INJECTED = "<script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def crowd() -> MixedCrowd:
    return mixed_crowd()


@pytest.fixture(scope="module")
def parts(crowd: MixedCrowd) -> dict[str, Any]:
    return report_parts(report_inputs(crowd.model, None, crowd.votes, None, None))


@pytest.fixture(scope="module")
def plain() -> tuple[CrowdPALDA, palda.Votes]:
    """A crowd with hard votes of independent annotators, without times."""
    news = simulate.newsroom(60, seed=2, doc_length=30)
    votes, _ = simulate.crowd(news, [0.9, 0.8, 0.8, 0.7], votes_per_doc=3, seed=2)
    model = CrowdPALDA(2, annotators="two_coin", label_prior="words", max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    return model.fit(news.corpus, votes), votes


def test_a_group_of_copies_is_listed_with_its_agreement(crowd: MixedCrowd, parts: dict[str, Any]) -> None:
    (group,) = parts["copies"]
    assert group["members"] == COPIES
    row = crowd.model.copies_.iloc[0]
    for name in ("copy_share", "agreement", "expected_agreement", "n_common"):
        assert group[name] == pytest.approx(row[name], abs=1e-4)
    assert group["agreement"] > group["expected_agreement"]


def test_a_change_is_listed_with_its_date_and_both_qualities(crowd: MixedCrowd, parts: dict[str, Any]) -> None:
    (change,) = parts["changes"]
    assert (change["name"], change["kind"], change["group"]) == (CHANGED, "worse", None)
    assert change["date"] == str(np.datetime64(int(crowd.model.changes_["time"][0]), "s"))[:10]
    assert change["quality_after_high"] < change["quality_before_low"]


def test_the_summary_names_copies_and_changes(crowd: MixedCrowd) -> None:
    page = render_report(crowd.model, votes=crowd.votes)
    findings = page.split('class="findings"')[1].split("</ul>")[0]
    assert "3 annotators repeat each other’s votes, in 1 group" in findings
    assert "1 annotator got worse over time" in findings
    assert "better over time" not in findings


def test_curves_of_those_who_changed_come_first(
    crowd: MixedCrowd, parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    curves = parts["quality_curves"]
    assert curves[0]["name"] == CHANGED
    assert [kind for _, kind in curves[0]["changes"]] == ["worse"]
    assert all(not curve["changes"] for curve in curves[1:])
    points = np.array(curves[0]["points"])
    assert (np.diff(points[:, 0]) > 0).all()
    assert (points[:, 2] <= points[:, 1]).all()
    assert (points[:, 1] <= points[:, 3]).all()
    assert points[0, 1] > points[-1, 1] + 0.2
    monkeypatch.setattr("palda.report.annotator_charts.MAX_CHARTS", 2)
    few = report_parts(report_inputs(crowd.model, None, crowd.votes, None, None))
    assert [len(few[name]) for name in ("quality_curves", "confidence_curves")] == [2, 2]


def test_only_annotators_who_state_probabilities_have_a_calibration_curve(
    crowd: MixedCrowd, parts: dict[str, Any]
) -> None:
    assert sorted(curve["name"] for curve in parts["confidence_curves"]) == COPIES
    table = crowd.model.confidence_calibration(crowd.votes)
    for curve in parts["confidence_curves"]:
        own = table[table["annotator"] == curve["name"]]
        np.testing.assert_allclose(curve["points"], own[["stated", "consensus", "n_votes"]], atol=1e-4)
        assert curve["n_votes"] == crowd.news.labels.size
        assert curve["error"] > 0.05  # they are overconfident


def test_kinds_and_families_are_columns_of_the_annotators(crowd: MixedCrowd, parts: dict[str, Any]) -> None:
    kinds = {row["name"]: (row["kind"], row["family"]) for row in parts["annotators"]}
    assert kinds[CHANGED] == ("person", "")
    assert kinds[MODEL] == ("model", "small model")
    assert all(kinds[name] == ("person", "one desk") for name in COPIES)
    assert len(kinds) == PEOPLE + len(COPIES)


def test_rates_by_class_are_shown_if_they_differ(crowd: MixedCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    table = crowd.model.annotator_rates_by_class_.pivot(index="annotator", columns="label", values="sensitivity")
    monkeypatch.setattr("palda.report.annotator_charts.MIN_RATE_SPREAD", np.ptp(table.to_numpy(), axis=1).max() + 0.01)
    assert report_parts(report_inputs(crowd.model, None, crowd.votes, None, None))["rates"] is None
    monkeypatch.setattr("palda.report.annotator_charts.MIN_RATE_SPREAD", 0.0)
    monkeypatch.setattr("palda.report.annotator_charts.MAX_RATE_CLASSES", 4)
    rates = report_parts(report_inputs(crowd.model, None, crowd.votes, None, None))["rates"]
    np.testing.assert_allclose(rates["values"], table.loc[rates["names"], rates["columns"]], atol=1e-3)
    assert len(rates["columns"]) == 4


def test_the_consensus_is_compared_with_held_back_gold_labels(crowd: MixedCrowd, parts: dict[str, Any]) -> None:
    check = parts["gold_check"]
    assert check["n_labels"] == N_GOLD_DOCS * crowd.news.labels.shape[1] == sum(point[-1] for point in check["points"])
    for _, share, low, high, _ in check["points"]:
        assert low <= share <= high or share in {0.0, 1.0}


def test_a_crowd_without_copies_changes_and_soft_votes_has_none_of_these_sections(plain: Any) -> None:
    model, votes = plain
    page = render_report(model, votes=votes)
    assert not [name for name in NEW_SECTIONS if name in page]
    without_votes = render_report(mixed_crowd().model)
    assert "copies-title" in without_votes
    assert "confidence-title" not in without_votes


def test_numbers_of_groups_members_and_changes_are_limited(crowd: MixedCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.report.annotator_findings.MAX_MEMBERS", 2)
    monkeypatch.setattr("palda.report.annotator_findings.MAX_CHANGES", 0)
    parts = report_parts(report_inputs(crowd.model, None, crowd.votes, None, None))
    assert parts["copies"][0]["members"] == COPIES[:2]
    assert parts["copies"][0]["n_members"] == 3
    assert parts["changes"] == []
    assert parts["totals"]["n_changes"] == 1
    assert "and 1 more" in render_report(crowd.model, votes=crowd.votes)


def test_markup_in_names_of_copies_and_families_is_escaped(crowd: MixedCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    names = np.array([f"{INJECTED}{name}" for name in crowd.model.annotators_], dtype=object)
    families = np.full(len(names), INJECTED, dtype=object)
    monkeypatch.setattr(crowd.model, "annotators_", names)
    monkeypatch.setattr("palda.report.annotator_charts.MIN_RATE_SPREAD", 0.0)
    page = render_report(crowd.model, votes=replace(crowd.votes, annotators=names, annotator_families=families))
    assert "<script>window" not in page
    assert "&lt;script&gt;window.hacked" in page


def test_a_saved_model_with_copies_families_and_soft_votes_gives_the_same_page(
    crowd: MixedCrowd, tmp_path: Path
) -> None:
    crowd.model.save(tmp_path / "model.palda", votes=crowd.votes)
    loaded = palda.load(tmp_path / "model.palda")
    assert loaded.votes_ is not None
    pages = [
        write_report(model, tmp_path / f"{name}.html", votes=votes).read_text(encoding="utf-8")
        for name, model, votes in (("before", crowd.model, crowd.votes), ("after", loaded, loaded.votes_))
    ]
    assert pages[0] == pages[1]


def test_tables_of_copies_and_changes_have_one_row_each(crowd: MixedCrowd) -> None:
    (copies,) = copy_table(crowd.model.copies_).texts()
    assert copies[:2] == ["1", ", ".join(COPIES)]
    (change,) = change_table(crowd.model.changes_).texts()
    assert change[0] == CHANGED
    assert change[2] == "worse"
    empty = crowd.model.copies_.iloc[:0], crowd.model.changes_.iloc[:0]
    assert [list(table(frame).rows) for table, frame in zip((copy_table, change_table), empty, strict=True)] == [[], []]


def test_summaries_have_lines_on_copies_changes_and_gold_only_if_found(crowd: MixedCrowd, plain: Any) -> None:
    dataset: Any = SimpleNamespace(votes=crowd.votes, gold=crowd.gold)
    summary = fit_summary(crowd.model, dataset)
    lines = dict(summary.lines())
    assert lines["copies"] == f"3 annotators in 1 group ({', '.join(COPIES)})"
    assert lines["changes"] == f"1 annotator got worse ({CHANGED})"
    assert lines["gold check"].startswith("micro-F1 ")
    written = summary.as_dict()
    assert written["copies"] == [COPIES]
    assert written["changes"] == {"worse": [CHANGED]}
    assert written["gold_check"]["n_labels"] == 200
    _, votes = plain
    without = crowd_summary(votes, palda.aggregate(votes, annotators="two_coin", n_profiles=1))
    assert {"copies", "changes", "gold check"}.isdisjoint(dict(without.lines()))
