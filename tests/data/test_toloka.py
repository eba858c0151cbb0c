from __future__ import annotations

import csv
import gzip
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palda.errors import DataError
from palda.io import read_toloka

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset


def answers(data: Dataset) -> dict[tuple[str, str], dict[str, int]]:
    """What everybody said: an abstention is empty, the empty set is all zeros, a missing look is missing."""
    looks = data.votes.to_frame().groupby(["doc", "annotator"], observed=True)
    return {key: dict(look.dropna()[["label", "value"]].itertuples(index=False)) for key, look in looks}


def row(worker: str, labels: str | None = None, *, doc: str = "d1", **cells: str) -> dict[str, str]:
    """A row of the assignments; ``output_sport`` stands for the column OUTPUT:sport, and so on."""
    split = {tuple(name.split("_", 1)): value for name, value in cells.items()}
    named = {f"{prefix.upper()}:{column}": value for (prefix, column), value in split.items()}
    own = {
        "INPUT:id": doc,
        "INPUT:text": f'a "quoted"\tstory about {doc}',
        "INPUT:source": "BBC",
        "HINT:text": "",
        "HINT:default_language": "",
        "ASSIGNMENT:link": f"https://sandbox.toloka.dev/task/1/{worker}",
        "ASSIGNMENT:task_id": f"task-{doc}",
        "ASSIGNMENT:assignment_id": f"0001-{worker}",
        "ASSIGNMENT:task_suite_id": "0001",
        "ASSIGNMENT:worker_id": worker,
        "ASSIGNMENT:status": "APPROVED",
        "ASSIGNMENT:started": "2024-05-14T09:10:00.123",
        "ASSIGNMENT:submitted": "2024-05-14T09:12:33.603",
        "ASSIGNMENT:accepted": "2024-05-14T09:12:33.603",
        "ASSIGNMENT:reward": "0.01",
    }
    return own | ({} if labels is None else {"OUTPUT:labels": labels}) | named


def save(folder: Path, *rows: dict[str, str], name: str = "assignments_from_pool_123.tsv") -> Path:
    path = folder / name
    header = dict.fromkeys(column for cells in rows for column in cells)
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, header, restval="", delimiter="\t")
    writer.writeheader()
    writer.writerows(rows)
    data = stream.getvalue().encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def problem(folder: Path, *rows: dict[str, str], **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_toloka(save(folder, *rows), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["pool.tsv", "pool.tsv.gz"])
@pytest.mark.parametrize("both", ['["sport","law"]', "sport,law", "sport; law", '{"sport":true,"law":true}'])
def test_lists_are_json_or_text_with_commas_or_semicolons(tmp_path: Path, both: str, name: str) -> None:
    data = read_toloka(save(tmp_path, row("w1", both), row("w2", "law"), row("w3", "[]"), row("w4", ""), name=name))
    assert list(data.corpus) == ['a "quoted"\tstory about d1']
    assert {name: cells.tolist() for name, cells in data.corpus.fields.items()} == {"source": ["BBC"]}
    nothing = {"law": 0, "sport": 0}
    assert answers(data) == {
        ("d1", "w1"): {"law": 1, "sport": 1},
        ("d1", "w2"): {"law": 1, "sport": 0},
        ("d1", "w3"): nothing,
        ("d1", "w4"): nothing,
    }


def test_a_class_may_start_with_a_bracket(tmp_path: Path) -> None:
    assert read_toloka(save(tmp_path, row("w1", "[unclear]; sport"))).classes.tolist() == ["[unclear]", "sport"]


def test_an_object_that_says_false_judges_only_what_it_names(tmp_path: Path) -> None:
    data = read_toloka(save(tmp_path, row("w1", '{"sport":true,"law":false}'), row("w2", '{"tax":true}')))
    assert answers(data) == {("d1", "w1"): {"law": 0, "sport": 1}, ("d1", "w2"): {"law": 0, "sport": 0, "tax": 1}}


def test_a_true_or_false_column_a_class(tmp_path: Path) -> None:
    rows = [
        row("w1", output_sport="true", output_law="false", output_comment="hard"),
        row("w2", output_sport="false", output_law="false"),
        row("w3", output_sport="", output_law=""),
    ]
    data = read_toloka(save(tmp_path, *rows))
    assert answers(data) == {
        ("d1", "w1"): {"law": 0, "sport": 1},
        ("d1", "w2"): {"law": 0, "sport": 0},
        ("d1", "w3"): {},
    }


def test_boxes_that_leave_false_out_are_blank_when_not_ticked(tmp_path: Path) -> None:
    rows = [row("w1", output_sport="true", output_law=""), row("w2", output_sport="", output_law="true")]
    assert answers(read_toloka(save(tmp_path, *rows)))["d1", "w1"] == {"law": 0, "sport": 1}
    assert answers(read_toloka(save(tmp_path, *rows), blank="abstained"))["d1", "w1"] == {"sport": 1}


@pytest.mark.parametrize("status", ["REJECTED", "ACTIVE", "EXPIRED", "SKIPPED"])
def test_only_approved_and_submitted_assignments_give_votes(tmp_path: Path, status: str) -> None:
    rows = [
        row("w1", "sport"),
        row("w2", "law", ASSIGNMENT_status="SUBMITTED"),
        row("w3", "law", ASSIGNMENT_status="ACCEPTED"),
        row("w4", "tax", doc="d2", ASSIGNMENT_status=status),
    ]
    data = read_toloka(save(tmp_path, *rows))
    assert data.votes.annotators.tolist() == ["w1", "w2", "w3"]
    assert data.doc_ids.tolist() == ["d1", "d2"]
    assert data.classes.tolist() == ["law", "sport"]


def test_golden_answers_are_gold_and_the_workers_votes_stay(tmp_path: Path) -> None:
    rows = [
        row("w1", "sport", golden_labels='["law"]'),
        row("w2", "law", golden_labels='["law"]'),
        row("w1", "sport", doc="d2", golden_labels=""),
        row("w3", "tax", doc="d3", golden_labels="sport", ASSIGNMENT_status="REJECTED"),
    ]
    data = read_toloka(save(tmp_path, *rows))
    np.testing.assert_array_equal(data.gold, [[1, 0], [-1, -1], [0, 1]])
    assert len(data.votes) == 6


def test_golden_boxes_are_gold(tmp_path: Path) -> None:
    rows = [
        row("w1", output_sport="true", output_law="false", golden_sport="false", golden_law="true"),
        row("w1", doc="d2", output_sport="true", output_law="false", golden_sport="true"),
        row("w1", doc="d3", output_sport="true", output_law="false"),
    ]
    np.testing.assert_array_equal(read_toloka(save(tmp_path, *rows)).gold, [[1, 0], [-1, 1], [-1, -1]])


def test_contradictory_golden_answers_are_an_error_with_the_row(tmp_path: Path) -> None:
    rows = [row("w1", "sport", golden_labels="law"), row("w2", "sport", golden_labels="sport")]
    assert "assignments_from_pool_123.tsv, row 3: this gold annotation contradicts" in problem(tmp_path, *rows)


@pytest.mark.parametrize("gap", ["\n", "\r\n", "{tabs}\n", "  \n"])
def test_blank_rows_between_task_suites_are_passed_over_and_counted(tmp_path: Path, gap: str) -> None:
    path = save(tmp_path, row("w1", "sport"), row("w2", "law"), row("", "tax"))
    header, first, second, third = path.read_text().splitlines()
    blank = gap.format(tabs="\t" * header.count("\t"))
    path.write_text(f"{header}\n{first}\n{blank}{second}\n{blank}", newline="")
    assert read_toloka(path).votes.annotators.tolist() == ["w1", "w2"]
    path.write_text(f"{header}\n{first}\n{blank}{second}\n{blank}{third}\n", newline="")
    with pytest.raises(DataError, match="row 6: the annotator is blank"):
        read_toloka(path)


def test_the_document_is_the_input_id_else_the_task_else_the_text(tmp_path: Path) -> None:
    cells = {name: value for name, value in row("w1", "sport").items() if name != "INPUT:id"}
    assert read_toloka(save(tmp_path, cells)).doc_ids.tolist() == ["task-d1"]
    del cells["ASSIGNMENT:task_id"]
    assert read_toloka(save(tmp_path, cells)).doc_ids.tolist() == ['a "quoted"\tstory about d1']
    assert read_toloka(save(tmp_path, cells), id="source").doc_ids.tolist() == ["BBC"]
    assert list(read_toloka(save(tmp_path, cells), id="source", text="source").corpus) == ["BBC"]


def test_the_latest_submission_counts(tmp_path: Path) -> None:
    early = row("w1", "law", ASSIGNMENT_submitted="2024-05-14T09:00:00.000")
    for pair in ([early, row("w1", "sport")], [row("w1", "sport"), early]):
        assert answers(read_toloka(save(tmp_path, *pair))) == {("d1", "w1"): {"law": 0, "sport": 1}}


def test_without_times_contradictions_follow_the_rule(tmp_path: Path) -> None:
    rows = [row("w1", name, ASSIGNMENT_submitted="") for name in ("law", "sport")]
    assert "row 3: the vote" in problem(tmp_path, *rows)
    data = read_toloka(save(tmp_path, *rows), duplicates="last")
    assert answers(data) == {("d1", "w1"): {"law": 0, "sport": 1}}


def test_an_unclear_output_must_be_named(tmp_path: Path) -> None:
    rows = [row("w1", output_mood="glad", output_themes="sport")]
    assert "choose with output='...' among those answered: 'mood', 'themes'" in problem(tmp_path, *rows)
    assert read_toloka(save(tmp_path, *rows), output="themes").classes.tolist() == ["sport"]
    assert read_toloka(save(tmp_path, *rows), output="OUTPUT:mood").classes.tolist() == ["glad"]


def test_an_output_with_a_usual_name_is_preferred_to_other_text(tmp_path: Path) -> None:
    rows = [row("w1", "sport", output_comment="ok", output_unsure="true")]
    assert read_toloka(save(tmp_path, *rows)).classes.tolist() == ["sport"]


def test_given_classes_and_partial_work_as_elsewhere(tmp_path: Path) -> None:
    path = save(tmp_path, row("w1", "sport"))
    assert answers(read_toloka(path, classes=["tax", "sport"])) == {("d1", "w1"): {"tax": 0, "sport": 1}}
    assert answers(read_toloka(path, classes=["tax", "sport"], partial=True)) == {("d1", "w1"): {"sport": 1}}


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"ASSIGNMENT:status": "LOST"}, "row 2, column 'ASSIGNMENT:status': there is no status 'LOST' at Toloka"),
        ({"ASSIGNMENT:worker_id": ""}, "row 2: the annotator is blank"),
        ({"INPUT:id": ""}, "row 2: the document id is blank"),
        ({"OUTPUT:labels": "[[1]]"}, "row 2, column 'OUTPUT:labels': '[[1]]' is not a list of classes"),
    ],
)
def test_broken_rows_are_one_clear_line(tmp_path: Path, cells: dict[str, str], words: str) -> None:
    assert words in problem(tmp_path, row("w1", "sport") | cells)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "votes.tsv"
    path.write_text("doc\tannotator\n1\t2\n")
    with pytest.raises(DataError, match="no column 'ASSIGNMENT:worker_id', so these are not results of Toloka"):
        read_toloka(path)
