from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palda.errors import DataError
from palda.io import read_labelstudio

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset


def answers(data: Dataset) -> dict[tuple[str, str], dict[str, int]]:
    """What everybody said: an abstention is empty, the empty set is all zeros, a missing look is missing."""
    looks = data.votes.to_frame().groupby(["doc", "annotator"], observed=True)
    return {key: dict(look.dropna()[["label", "value"]].itertuples(index=False)) for key, look in looks}


def choices(*names: Any, control: str = "topics", kind: str = "choices") -> dict[str, Any]:
    return {
        "id": "x9Kq2",
        "from_name": control,
        "to_name": "text",
        "type": kind,
        "origin": "manual",
        "value": {kind: list(names)},
    }


def comment(text: str = "hard to say") -> dict[str, Any]:
    return {"id": "c1", "from_name": "note", "to_name": "text", "type": "textarea", "value": {"text": [text]}}


def annotation(who: Any, *results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "id": 57,
        "completed_by": who,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2024-05-14T09:00:00.017134Z",
        "updated_at": "2024-05-14T09:12:33.017151Z",
        "draft_created_at": None,
        "lead_time": 10.744,
        "prediction": {},
        "result_count": len(results),
        "unique_id": "a3f0",
        "parent_prediction": None,
    } | changes


def task(number: int, *annotations: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {
        "id": number,
        "annotations": list(annotations),
        "file_upload": "a1-news.csv",
        "drafts": [],
        "predictions": [{"id": 3, "model_version": "v1", "score": 0.9, "result": [choices("politics")]}],
        "data": data or {"text": f"story {number}"},
        "meta": {},
        "created_at": "2024-05-13T09:00:00Z",
        "updated_at": "2024-05-14T10:00:00Z",
        "inner_id": number,
        "total_annotations": len(annotations),
        "cancelled_annotations": 0,
        "comment_count": 0,
        "project": 1,
        "updated_by": 1,
    }


SPORT = annotation(1, choices("sport"))


def save(folder: Path, content: Any, name: str = "project-1-at-2024-05-14.json") -> Path:
    path = folder / name
    data = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def problem(folder: Path, content: Any, name: str = "export.json", **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_labelstudio(save(folder, content, name), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def table(*rows: dict[str, Any], delimiter: str = ",") -> str:
    """CSV as Label Studio writes it: sorted columns, strings in quotes, numbers not."""
    own = {"created_at": "2024-05-14T09:00:00Z", "updated_at": "2024-05-14T09:12:33Z", "lead_time": 10.7}
    own |= {"annotation_id": 9, "was_cancelled": "False"}
    stream = io.StringIO()
    header = sorted({name for row in rows for name in row} | set(own))
    writer = csv.DictWriter(stream, header, quoting=csv.QUOTE_NONNUMERIC, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(own | row for row in rows)
    return stream.getvalue()


# JSON


@pytest.mark.parametrize("name", ["export.json", "export.json.gz", "export"])
def test_json_gives_documents_votes_and_fields(tmp_path: Path, name: str) -> None:
    tasks = [
        task(11, annotation(1, choices("sport", "crime")), annotation(2, choices("sport")), text="goal", source="BBC"),
        task(12, annotation(2, choices("crime")), text="theft", source="PA"),
    ]
    data = read_labelstudio(save(tmp_path, tasks, name))
    assert data.corpus.doc_ids.tolist() == ["11", "12"]
    assert list(data.corpus) == ["goal", "theft"]
    assert data.corpus.fields["source"].tolist() == ["BBC", "PA"]
    assert data.classes.tolist() == ["crime", "sport"]
    assert answers(data) == {
        ("11", "1"): {"crime": 1, "sport": 1},
        ("11", "2"): {"crime": 0, "sport": 1},
        ("12", "2"): {"crime": 1, "sport": 0},
    }
    assert (data.gold == -1).all()


def test_empty_set_skipped_task_and_missing_look_stay_three_things(tmp_path: Path) -> None:
    tasks = [
        task(1, annotation(1), annotation(2, choices("sport"), was_cancelled=True), annotation(3, choices("sport"))),
        task(2),
    ]
    data = read_labelstudio(save(tmp_path, tasks))
    assert answers(data) == {("1", "1"): {"sport": 0}, ("1", "2"): {}, ("1", "3"): {"sport": 1}}
    assert data.doc_ids.tolist() == ["1", "2"]


def test_an_annotation_with_only_other_results_is_the_empty_set(tmp_path: Path) -> None:
    data = read_labelstudio(save(tmp_path, [task(1, annotation(1, comment()), annotation(2, choices("sport")))]))
    assert answers(data)["1", "1"] == {"sport": 0}


def test_ground_truth_is_gold_and_no_vote(tmp_path: Path) -> None:
    tasks = [
        task(1, annotation(9, choices("sport"), ground_truth=True), annotation(2, choices("crime"))),
        task(2, annotation(9, choices("crime"), ground_truth=True, was_cancelled=True)),
        task(3, annotation(None, ground_truth=True)),
    ]
    data = read_labelstudio(save(tmp_path, tasks))
    np.testing.assert_array_equal(data.gold, [[0, 1], [-1, -1], [0, 0]])
    assert data.votes.annotators.tolist() == ["2"]


def test_contradictory_ground_truths_are_an_error_with_the_task(tmp_path: Path) -> None:
    truths = [annotation(1, choices(name), ground_truth=True) for name in ("sport", "crime")]
    assert "export.json, row 2: this gold annotation contradicts" in problem(tmp_path, [task(1), task(2, *truths)])


def test_predictions_are_not_votes(tmp_path: Path) -> None:
    data = read_labelstudio(save(tmp_path, [task(1, annotation(1, choices("sport")))]))
    assert data.classes.tolist() == ["sport"]


def test_annotators_are_called_by_email_then_user_name_then_number(tmp_path: Path) -> None:
    user = {"id": 4, "email": "ann@example.org", "username": "ann", "first_name": "", "last_name": ""}
    people = [user, user | {"email": ""}, {"id": 4}, 5, "eve"]
    data = read_labelstudio(save(tmp_path, [task(1, *(annotation(who, choices("sport")) for who in people))]))
    assert data.votes.annotators.tolist() == ["4", "5", "ann", "ann@example.org", "eve"]


@pytest.mark.parametrize("who", [None, "", {}, {"email": None}])
def test_a_vote_without_annotator_is_an_error_that_names_the_annotation(tmp_path: Path, who: Any) -> None:
    text = problem(tmp_path, [task(1), task(2, annotation(who, choices("sport")))])
    assert text.startswith("export.json, row 2, column 'completed_by': annotation 57 has no annotator")


def test_of_two_annotations_of_one_task_the_one_updated_last_counts(tmp_path: Path) -> None:
    late = annotation(1, choices("sport"), updated_at="2024-05-15T08:00:00Z")
    early = annotation(1, choices("crime"), updated_at="2024-05-15T09:59:00+02:00")
    for pair in ([late, early], [early, late]):
        data = read_labelstudio(save(tmp_path, [task(1, *pair)]))
        assert answers(data) == {("1", "1"): {"crime": 0, "sport": 1}}


def test_created_at_stands_in_for_updated_at(tmp_path: Path) -> None:
    late = annotation(1, choices("sport"), updated_at=None, created_at="2024-05-15T08:00:00Z")
    data = read_labelstudio(save(tmp_path, [task(1, late, annotation(1, choices("crime")))]))
    assert answers(data) == {("1", "1"): {"crime": 0, "sport": 1}}


def test_without_times_a_contradiction_is_settled_by_the_rule(tmp_path: Path) -> None:
    tasks = [task(1, *(annotation(1, choices(name), updated_at=None, created_at=None) for name in ("sport", "crime")))]
    assert "choose with duplicates=" in problem(tmp_path, tasks)
    data = read_labelstudio(save(tmp_path, tasks), duplicates="first")
    assert answers(data) == {("1", "1"): {"crime": 0, "sport": 1}}


def test_several_questions_need_from_name(tmp_path: Path) -> None:
    tasks = [task(1, annotation(1, choices("sport"), choices("glad", control="mood")))]
    text = problem(tmp_path, tasks)
    assert "choose from_name= among 'mood', 'topics'" in text
    assert "from_name can be 'mood', 'topics'" in problem(tmp_path, tasks, from_name="topic")
    data = read_labelstudio(save(tmp_path, tasks), from_name="mood")
    assert answers(data) == {("1", "1"): {"glad": 1}}


def test_without_any_choices_the_types_found_are_named(tmp_path: Path) -> None:
    assert "no result has choices, only 'textarea'" in problem(tmp_path, [task(1, annotation(1, comment()))])


def test_classes_of_a_taxonomy_are_paths(tmp_path: Path) -> None:
    taxonomy = choices(["Sport", "Football"], ["Crime"], kind="taxonomy")
    data = read_labelstudio(save(tmp_path, [task(1, annotation(1, taxonomy))]))
    assert data.classes.tolist() == ["Crime", "Sport/Football"]


def test_given_classes_fix_the_axis_and_refuse_others(tmp_path: Path) -> None:
    path = save(tmp_path, [task(1, annotation(1, choices("sport")))])
    data = read_labelstudio(path, classes=["sport", "crime"])
    assert answers(data) == {("1", "1"): {"sport": 1, "crime": 0}}
    with pytest.raises(DataError, match=r"row 1: class 'sport' is not among the 1 known ones; did you mean 'sports'"):
        read_labelstudio(path, classes=["sports"])


def test_partial_leaves_what_was_not_chosen_unjudged(tmp_path: Path) -> None:
    tasks = [task(1, annotation(1, choices("sport")), annotation(2, choices("crime")))]
    data = read_labelstudio(save(tmp_path, tasks), partial=True)
    assert answers(data) == {("1", "1"): {"sport": 1}, ("1", "2"): {"crime": 1}}


def test_the_only_string_field_is_the_text(tmp_path: Path) -> None:
    data = read_labelstudio(save(tmp_path, [task(1, SPORT, headline="goal", rank=3), task(2, headline=None, rank=4)]))
    assert list(data.corpus) == ["goal", ""]
    assert data.corpus.fields["rank"].tolist() == [3, 4]


def test_an_unclear_text_field_must_be_named(tmp_path: Path) -> None:
    tasks = [task(1, SPORT, headline="goal", lead="At last")]
    assert "choose one of 'headline', 'lead' with text='...'" in problem(tmp_path, tasks)
    assert list(read_labelstudio(save(tmp_path, tasks), text="lead").corpus) == ["At last"]
    assert "no data field is text; choose one of 'scores'" in problem(tmp_path, [task(1, scores=[1, 2])])
    assert "row 1, column 'text': [{'a': 1}] is not text" in problem(tmp_path, [task(1, text=[{"a": 1}], x="")])


def test_one_id_with_two_texts_is_an_error(tmp_path: Path) -> None:
    assert "row 2: document '1' has the text 'b' here but 'a' before" in problem(
        tmp_path, [task(1, text="a"), task(1, text="b")]
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("[]", "has no tasks"),
        ("[3]", "row 1: 3 is not a task"),
        ("[{", "is not JSON at line 1"),
        ([task(1) | {"annotations": "none"}], "row 1, column 'annotations': 'none' is not a list of objects"),
        ([task(1, annotation([7], choices("a")))], "row 1, column 'completed_by': [7] is not a name"),
        ([task(1) | {"id": None}], "row 1: the document id is blank"),
        ([task(1), task(2) | {"data": 3}], "row 2, column 'data': 3 is not an object"),
        ([task(1, annotation(1, choices({"a": 1})))], "column 'value': {'choices': [{'a': 1}]} is not a list"),
    ],
)  # fmt: skip
def test_broken_files_are_one_clear_line(tmp_path: Path, content: Any, words: str) -> None:
    assert words in problem(tmp_path, content)


# CSV, TSV and JSON-MIN


@pytest.mark.parametrize(("name", "delimiter"), [("e.csv", ","), ("e.tsv", "\t"), ("e.csv.gz", ",")])
def test_csv_cells_hold_json_a_bare_choice_or_nothing(tmp_path: Path, name: str, delimiter: str) -> None:
    content = table(
        {"id": 1, "text": 'a "big", goal', "topics": '{"choices":["sport","law, order"]}', "annotator": "ann@x.org"},
        {"id": 1, "text": 'a "big", goal', "topics": "law, order", "annotator": "bob@x.org"},
        {"id": 2, "text": "theft", "topics": "", "annotator": "ann@x.org"},
        {"id": 2, "text": "theft", "topics": "", "annotator": "bob@x.org", "was_cancelled": "True"},
        delimiter=delimiter,
    )
    data = read_labelstudio(save(tmp_path, content, name))
    assert list(data.corpus) == ['a "big", goal', "theft"]
    assert answers(data) == {
        ("1", "ann@x.org"): {"law, order": 1, "sport": 1},
        ("1", "bob@x.org"): {"law, order": 1, "sport": 0},
        ("2", "ann@x.org"): {"law, order": 0, "sport": 0},
        ("2", "bob@x.org"): {},
    }


def test_a_choice_called_na_is_a_class(tmp_path: Path) -> None:
    content = table({"id": 1, "text": "a", "topics": "NA", "annotator": "1"})
    assert answers(read_labelstudio(save(tmp_path, content, "e.csv"))) == {("1", "1"): {"NA": 1}}


def test_csv_taxonomies_are_lists_of_paths(tmp_path: Path) -> None:
    content = table({"id": 1, "text": "a", "tax": '[{"taxonomy":[["Sport","Golf"],["Law"]]}]', "annotator": "1"})
    assert read_labelstudio(save(tmp_path, content, "e.csv")).classes.tolist() == ["Law", "Sport/Golf"]


def test_the_csv_column_with_lists_is_the_question(tmp_path: Path) -> None:
    row = {"id": 1, "text": "a", "source": "BBC", "topics": '{"choices":["sport","law"]}', "annotator": "1"}
    data = read_labelstudio(save(tmp_path, table(row), "e.csv"))
    assert data.classes.tolist() == ["law", "sport"]
    assert data.corpus.fields["source"].tolist() == ["BBC"]
    assert list(data.corpus.fields) == ["source"]


def test_an_unclear_csv_question_must_be_named(tmp_path: Path) -> None:
    content = table({"id": 1, "text": "a", "source": "BBC", "topics": "sport", "annotator": "1"})
    assert "choose one of 'source', 'topics' with from_name='...'" in problem(tmp_path, content, "e.csv")
    assert "there is no column 'topic' for the choices; did you mean 'topics'" in problem(
        tmp_path, content, "e.csv", from_name="topic"
    )
    assert read_labelstudio(save(tmp_path, content, "e.csv"), from_name="topics").classes.tolist() == ["sport"]


def test_csv_duplicates_follow_updated_at(tmp_path: Path) -> None:
    row = {"id": 1, "text": "a", "annotator": "1"}
    late = row | {"topics": "sport", "updated_at": "2024-06-01T00:00:00Z"}
    data = read_labelstudio(save(tmp_path, table(late, row | {"topics": "law"}), "e.csv"))
    assert answers(data) == {("1", "1"): {"law": 0, "sport": 1}}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": 1, "text": "a", "topics": "x", "annotator": "None"}, "row 2, column 'annotator': the annotation has"),
        ({"id": 1, "text": "a", "topics": "x"}, "there is no column 'annotator', so this is not a Label Studio export"),
        ({"id": 1, "text": "a", "topics": '{"choices": ["x"', "annotator": "1"}, "row 2, column 'topics': "),
        ({"id": 1, "text": "a", "topics": '{"rating": 3}', "annotator": "1"}, "is not a list of choices"),
    ],
)  # fmt: skip
def test_broken_csv_cells_are_named_by_row_and_column(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    assert words in problem(tmp_path, table(row), "e.csv")


def test_json_min_is_read_like_csv(tmp_path: Path) -> None:
    own = {
        "annotation_id": 3,
        "created_at": "2024-05-14T09:00:00Z",
        "updated_at": "2024-05-14T09:00:00Z",
        "lead_time": 2,
    }
    rows = [
        {"text": "goal", "id": 1, "topics": {"choices": ["sport", "law"]}, "annotator": 1, **own},
        {"text": "goal", "id": 1, "topics": "law", "annotator": 2, **own},
        {"text": "theft", "id": 2, "annotator": 1, **own},
        {"text": "theft", "id": 2, "topics": ["law", {"choices": ["sport", "tax"]}], "annotator": 2, **own},
    ]
    data = read_labelstudio(save(tmp_path, rows))
    assert answers(data) == {
        ("1", "1"): {"law": 1, "sport": 1, "tax": 0},
        ("1", "2"): {"law": 1, "sport": 0, "tax": 0},
        ("2", "1"): {"law": 0, "sport": 0, "tax": 0},
        ("2", "2"): {"law": 1, "sport": 1, "tax": 1},
    }


def test_a_wrong_rule_for_duplicates_is_named(tmp_path: Path) -> None:
    assert "duplicates must be one of" in problem(tmp_path, [task(1)], duplicates="newest")
