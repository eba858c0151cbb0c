from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from palda.errors import DataError
from palda.io import read_mturk

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset

HIT = {
    "HITId": "3YHH42UU5BERP6VG0ZQRXH", "HITTypeId": "3QEOO", "Title": "Topics, quickly", "Description": "Tick topics",
    "Keywords": "text, news", "Reward": "$0.05", "CreationTime": "Mon May 13 08:00:00 PDT 2024", "MaxAssignments": "3",
    "RequesterAnnotation": "BatchId:51234;OriginalHitTemplateId:928390909;", "AssignmentDurationInSeconds": "3600",
    "AutoApprovalDelayInSeconds": "259200", "Expiration": "Mon May 20 08:00:00 PDT 2024", "NumberOfSimilarHITs": "",
    "LifetimeInSeconds": "", "AssignmentId": "3L4D84MILZS", "WorkerId": "A1", "AssignmentStatus": "Approved",
    "AcceptTime": "Tue May 14 09:10:00 PDT 2024", "SubmitTime": "Tue May 14 09:12:33 PDT 2024",
    "AutoApprovalTime": "Fri May 17 09:12:33 PDT 2024", "ApprovalTime": "", "RejectionTime": "",
    "RequesterFeedback": "", "WorkTimeInSeconds": "153", "LifetimeApprovalRate": "100% (4/4)",
    "Last30DaysApprovalRate": "100% (4/4)", "Last7DaysApprovalRate": "0% (0/0)",
}  # fmt: skip


def answers(data: Dataset) -> dict[tuple[str, str], dict[str, int]]:
    """What everybody said: an abstention is empty, the empty set is all zeros, a missing look is missing."""
    looks = data.votes.to_frame().groupby(["doc", "annotator"], observed=True)
    return {key: dict(look.dropna()[["label", "value"]].itertuples(index=False)) for key, look in looks}


def row(worker: str, **cells: str) -> dict[str, str]:
    """A row of a batch; ``Answer__topics__sport`` stands for the column Answer.topics.sport."""
    named = {name.replace("__", "."): value for name, value in cells.items()}
    return HIT | {"WorkerId": worker, "Input.text": "story"} | named


def save(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "Batch_51234_batch_results.csv"
    header = [*dict.fromkeys(name for cells in rows for name in cells), "Approve", "Reject"]
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, dict.fromkeys(header), restval="", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(stream.getvalue(), encoding="utf-8", newline="")
    return path


def problem(folder: Path, *rows: dict[str, str], **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_mturk(save(folder, *rows), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def boxes(worker: str, sport: str, crime: str, **cells: str) -> dict[str, str]:
    return row(worker, Answer__topics__sport=sport, Answer__topics__crime=crime, **cells)


# Answers


def test_checkboxes_in_one_column_are_joined_with_bars(tmp_path: Path) -> None:
    rows = [
        row("A1", Answer__topics="sport|law, order"),
        row("A2", Answer__topics="sport"),
        row("A3", Answer__topics=""),
    ]
    data = read_mturk(save(tmp_path, *rows))
    doc = HIT["HITId"]
    assert data.doc_ids.tolist() == [doc]
    assert answers(data) == {
        (doc, "A1"): {"law, order": 1, "sport": 1},
        (doc, "A2"): {"law, order": 0, "sport": 1},
        (doc, "A3"): {"law, order": 0, "sport": 0},
    }


def test_a_box_a_choice_says_true_or_false(tmp_path: Path) -> None:
    rows = [boxes("A1", "true", "false"), boxes("A2", "false", "false"), boxes("A3", "", ""), boxes("A4", "", "true")]
    data = read_mturk(save(tmp_path, *rows), id="WorkerId")
    assert answers(data) == {
        ("A1", "A1"): {"crime": 0, "sport": 1},
        ("A2", "A2"): {"crime": 0, "sport": 0},
        ("A3", "A3"): {},
        ("A4", "A4"): {"crime": 1},
    }


def test_in_a_form_that_never_says_false_a_blank_box_was_not_ticked(tmp_path: Path) -> None:
    path = save(
        tmp_path, row("A1", Answer__sport="on", Answer__crime=""), row("A2", Answer__sport="", Answer__crime="on")
    )
    doc = HIT["HITId"]
    assert answers(read_mturk(path)) == {(doc, "A1"): {"crime": 0, "sport": 1}, (doc, "A2"): {"crime": 1, "sport": 0}}
    assert answers(read_mturk(path, blank="abstained")) == {(doc, "A1"): {"sport": 1}, (doc, "A2"): {"crime": 1}}


def test_blank_lists_can_be_abstentions(tmp_path: Path) -> None:
    path = save(tmp_path, row("A1", Answer__topics=""), row("A2", Answer__topics="sport"))
    assert answers(read_mturk(path, blank="abstained"))[HIT["HITId"], "A1"] == {}
    assert "blank must be one of" in problem(tmp_path, row("A1", Answer__topics="a"), blank="empty")


@pytest.mark.parametrize(
    "form",
    [
        {"topics": {"crime": False, "sport": True}, "comments": "fine"},
        {"topics": {"crime": False, "sport": True}},
        {"crime": {"on": False}, "sport": {"on": True}},
        {"category": {"labels": ["sport"]}, "comments": "crime|sport"},
    ],
)
def test_a_crowd_form_in_one_json_cell_is_unfolded(tmp_path: Path, form: dict[str, Any]) -> None:
    cells = {"Answer.taskAnswers": json.dumps([form])}
    data = read_mturk(save(tmp_path, row("A1") | cells), classes=["crime", "sport"])
    assert answers(data) == {(HIT["HITId"], "A1"): {"crime": 0, "sport": 1}}


def test_a_multi_select_writes_a_json_list(tmp_path: Path) -> None:
    rows = [
        row("A1", Answer__category__labels='["sport","law"]', Answer__note="ok"),
        row("A2", Answer__category__labels="[]"),
    ]
    assert answers(read_mturk(save(tmp_path, *rows)))[HIT["HITId"], "A2"] == {"law": 0, "sport": 0}


def test_boxes_are_preferred_to_free_text(tmp_path: Path) -> None:
    data = read_mturk(save(tmp_path, boxes("A1", "true", "false", Answer__comments="nice task")))
    assert data.classes.tolist() == ["crime", "sport"]


def test_an_unclear_question_must_be_named(tmp_path: Path) -> None:
    rows = [row("A1", Answer__mood="glad", Answer__topics="sport|law", Answer__note="ok")]
    assert "choose with answer='...' among those answered: 'mood', 'topics', 'note'" in problem(tmp_path, *rows)
    assert "there is no question 'topic'; choose with answer=" in problem(tmp_path, *rows, answer="topic")
    assert read_mturk(save(tmp_path, *rows), answer="topics").classes.tolist() == ["law", "sport"]
    assert read_mturk(save(tmp_path, *rows), answer="Answer.topics").classes.tolist() == ["law", "sport"]


def test_of_two_groups_of_boxes_one_must_be_named(tmp_path: Path) -> None:
    rows = [boxes("A1", "true", "false", Answer__mood__glad="true", Answer__mood__sad="false")]
    assert "among those answered: 'topics', 'mood'" in problem(tmp_path, *rows)
    assert read_mturk(save(tmp_path, *rows), answer="mood").classes.tolist() == ["glad", "sad"]


def test_boxes_can_be_chosen_one_by_one(tmp_path: Path) -> None:
    path = save(tmp_path, row("A1", Answer__sport="true", Answer__crime="false", Answer__unsure="true"))
    assert read_mturk(path, answer=["sport", "crime"]).classes.tolist() == ["crime", "sport"]
    assert read_mturk(path, answer="sport").classes.tolist() == ["sport"]
    assert read_mturk(path).classes.tolist() == ["crime", "sport", "unsure"]
    path = save(tmp_path, row("A1", Answer__sport__on="true", Answer__law__on="false", Answer__tax__on=""))
    assert read_mturk(path, answer=["sport", "law"]).classes.tolist() == ["law", "sport"]
    assert read_mturk(path, answer=["tax.on", "sport"], classes=["on", "sport"]).classes.tolist() == ["on", "sport"]


def test_blanks_around_the_name_of_a_box_do_not_count(tmp_path: Path) -> None:
    cells = {"Answer.topics. sport ": "true", "Answer.topics.law": "false"}
    assert read_mturk(save(tmp_path, row("A1") | cells)).classes.tolist() == ["law", "sport"]


def test_partial_leaves_what_a_list_does_not_name_unjudged(tmp_path: Path) -> None:
    path = save(tmp_path, row("A1", Answer__topics="sport"), row("A2", Answer__topics="law"))
    assert answers(read_mturk(path, partial=True))[HIT["HITId"], "A1"] == {"sport": 1}


# Assignments


def test_rejected_assignments_give_no_votes_but_their_documents_stay(tmp_path: Path) -> None:
    rows = [
        row("A1", Answer__topics="sport", Input__id="d1"),
        row("A2", Answer__topics="law", Input__id="d1", AssignmentStatus="Rejected"),
        row("A3", Answer__topics="law", Input__id="d1", AssignmentStatus="Submitted"),
        row("A4", Answer__topics="tax", Input__id="d2", AssignmentStatus="Rejected"),
        row("A5", Answer__topics="tax", Input__id="d3", Reject="did not read"),
    ]
    data = read_mturk(save(tmp_path, *rows))
    assert data.doc_ids.tolist() == ["d1", "d2", "d3"]
    assert data.votes.annotators.tolist() == ["A1", "A3"]
    assert data.classes.tolist() == ["law", "sport"]


def test_the_latest_submission_counts(tmp_path: Path) -> None:
    early = row("A1", Answer__topics="law", Input__id="d1", SubmitTime="Tue May 14 09:30:00 EDT 2024")
    late = row("A1", Answer__topics="sport", Input__id="d1", SubmitTime="Tue May 14 09:12:33 PDT 2024", HITId="3X")
    for pair in ([early, late], [late, early]):
        assert answers(read_mturk(save(tmp_path, *pair))) == {("d1", "A1"): {"law": 0, "sport": 1}}


def test_unreadable_times_leave_contradictions_to_the_rule(tmp_path: Path) -> None:
    rows = [row("A1", Answer__topics=name, SubmitTime="yesterday") for name in ("sport", "law")]
    assert "Batch_51234_batch_results.csv, row 3: the vote" in problem(tmp_path, *rows)
    data = read_mturk(save(tmp_path, *rows), duplicates="first")
    assert answers(data) == {(HIT["HITId"], "A1"): {"law": 0, "sport": 1}}


# Documents


def test_one_input_id_in_several_hits_is_one_document(tmp_path: Path) -> None:
    rows = [
        row("A1", Answer__topics="sport", Input__doc_id="d1", Input__source="BBC"),
        row("A2", Answer__topics="law", Input__doc_id="d1", Input__source="BBC", HITId="3ZZ"),
    ]
    data = read_mturk(save(tmp_path, *rows))
    assert data.doc_ids.tolist() == ["d1"]
    assert list(data.corpus) == ["story"]
    assert {name: cells.tolist() for name, cells in data.corpus.fields.items()} == {"source": ["BBC"]}
    assert read_mturk(save(tmp_path, *rows), id="HITId").doc_ids.tolist() == [HIT["HITId"], "3ZZ"]


def test_the_text_is_the_only_input_or_must_be_named(tmp_path: Path) -> None:
    cells = {name: value for name, value in row("A1", Answer__topics="sport").items() if name != "Input.text"}
    assert list(read_mturk(save(tmp_path, cells | {"Input.tweet": "goal"})).corpus) == ["goal"]
    two = cells | {"Input.tweet": "goal", "Input.reply": "yes"}
    assert "choose one of 'tweet', 'reply' with text='...'" in problem(tmp_path, two)
    assert list(read_mturk(save(tmp_path, two), text="Input.reply").corpus) == ["yes"]
    assert list(read_mturk(save(tmp_path, cells)).corpus) == [""]


def test_given_classes_refuse_others_with_the_row(tmp_path: Path) -> None:
    rows = [row("A1", Answer__topics="sport"), row("A2", Answer__topics="golf")]
    assert "row 3: class 'golf' is not among the 2 known ones" in problem(tmp_path, *rows, classes=["sport", "law"])


@pytest.mark.parametrize(
    ("cells", "options", "words"),
    [
        ({"AssignmentStatus": "Lost"}, {}, "row 2, column 'AssignmentStatus': there is no status 'LOST'"),
        ({"WorkerId": ""}, {}, "row 2: the annotator is blank"),
        ({"HITId": ""}, {}, "row 2: the document id is blank"),
        (
            {"Answer.topics": '{"a": 3}'},
            {},
            "row 2, column 'Answer.topics': {'a': 3} is not an object of true and false",
        ),
        ({"Answer.topics": '[["a"]]'}, {}, "row 2, column 'Answer.topics': '[[\"a\"]]' is not a list of classes"),
        ({"Answer.taskAnswers": "[{"}, {}, "row 2, column 'Answer.taskAnswers': is not JSON"),
        ({"Answer.taskAnswers": "[3]"}, {}, "row 2, column 'Answer.taskAnswers': '[3]' is not a list of answers"),
        ({"Answer.topics": ""}, {}, "among those answered: none"),
        ({"Answer.x": "true"}, {"answer": ["topics", "x"]}, "row 2, column 'Answer.topics': 'sport' is neither true"),
        ({}, {"id": "doc"}, "there is no column 'doc' for the document"),
    ],
)
def test_broken_rows_are_one_clear_line(
    tmp_path: Path, cells: dict[str, str], options: dict[str, Any], words: str
) -> None:
    assert words in problem(tmp_path, row("A1", Answer__topics="sport") | cells, **options)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("doc,annotator\n1,2\n")
    with pytest.raises(DataError, match="no column 'WorkerId', so these are not results of Mechanical Turk"):
        read_mturk(path)
    path.write_text("WorkerId,HITId\n,\n")
    with pytest.raises(DataError, match="has a header but no rows"):
        read_mturk(path)
