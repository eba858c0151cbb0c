"""A list or an object in place of a name is an error that names file, row and column, in every reader."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from palda import read, read_documents, read_votes
from palda.errors import DataError
from palda.io import read_doccano, read_labelstudio, read_mturk, read_prodigy, read_toloka

NESTED: list[Any] = [{"a": 1}, [{"a": 1}], [["a"]]]
nested = pytest.mark.parametrize("value", NESTED, ids=str)


def problem(call: Any, *arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments)
    return str(caught.value)


def lines(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "v.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return path


@nested
@pytest.mark.parametrize("column", ["doc", "annotator", "label"])
def test_in_long_votes(tmp_path: Path, column: str, value: Any) -> None:
    vote = {"doc": "d", "annotator": "a", "label": "x", "value": 1}
    path = lines(tmp_path, vote, vote | {column: value})
    assert problem(read_votes, path).startswith(f"v.jsonl, row 2, column {column!r}: ")


@nested
@pytest.mark.parametrize("column", ["doc", "annotator", "labels"])
def test_in_lists_of_votes(tmp_path: Path, column: str, value: Any) -> None:
    vote = {"doc": "d", "annotator": "a", "labels": ["x"]}
    path = lines(tmp_path, vote, vote | {column: value})
    assert problem(read_votes, path).startswith(f"v.jsonl, row 2, column {column!r}: ")


@nested
@pytest.mark.parametrize("column", ["doc", "annotator", "x"])
def test_in_wide_votes(tmp_path: Path, column: str, value: Any) -> None:
    vote = {"doc": "d", "annotator": "a", "x": 1}
    path = lines(tmp_path, vote, vote | {column: value})
    assert problem(read_votes, path).startswith(f"v.jsonl, row 2, column {column!r}: ")


@nested
def test_in_the_ids_of_documents(tmp_path: Path, value: Any) -> None:
    path = lines(tmp_path, {"doc": "d", "text": "a"}, {"doc": value, "text": "b"})
    assert problem(read_documents, path).startswith("v.jsonl, row 2, column 'doc': ")


def test_in_the_text_of_documents(tmp_path: Path) -> None:
    path = lines(tmp_path, {"doc": "d", "text": "a"}, {"doc": "e", "text": {"a": 1}})
    assert problem(read_documents, path) == "v.jsonl, row 2, column 'text': {'a': 1} is not text"


def test_in_a_data_frame_and_in_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"doc": ["d", "e"], "annotator": [["a"], ["b"]], "label": "x", "value": 1})
    assert problem(read_votes, frame).startswith("row 0, column 'annotator': ['a'] is not the name of an annotator")
    frame.to_parquet(tmp_path / "v.parquet")
    assert problem(read_votes, tmp_path / "v.parquet").startswith("v.parquet, row 1, column 'annotator': ")
    frame = pd.DataFrame({"doc": [b"d"], "annotator": "a", "label": "x", "value": 1})
    assert "b'd' is not the name of a document" in problem(read_votes, frame)


@nested
def test_in_exports(tmp_path: Path, value: Any) -> None:
    for call, name, record, places in EXPORTS:
        for place in places:
            path = tmp_path / name
            path.write_bytes(content(name, changed(record, place, value)))
            found = problem(call, path)
            assert "row " in found, (name, place, found)
            assert "column " in found, (name, place, found)


RESULT = {"from_name": "t", "type": "choices", "value": {"choices": ["a"]}}
TASK = {"id": 1, "data": {"text": "s"}, "annotations": [{"completed_by": 1, "result": [RESULT]}]}
FLAT = {"id": 1, "text": "s", "t": {"choices": ["a"]}, "annotator": 1, "lead_time": 1, "annotation_id": 1}
EXAMPLE = {"id": 1, "text": "s", "label": ["a"]}
CHOICE = {"text": "s", "_input_hash": 3, "options": [{"id": "a"}], "accept": ["a"], "answer": "accept",
          "_annotator_id": "ann"}  # fmt: skip
BINARY = {"text": "s", "_input_hash": 3, "label": "a", "answer": "accept", "_annotator_id": "ann"}
BATCH = {"HITId": "h", "WorkerId": "w", "Input.text": "s", "Answer.topics": ["a"]}
POOL = {"INPUT:text": "s", "OUTPUT:labels": ["a"], "ASSIGNMENT:worker_id": "w", "ASSIGNMENT:task_id": "t"}
EXPORTS: list[tuple[Any, str, dict[str, Any], list[tuple[Any, ...]]]] = [
    (read_labelstudio, "e.json", TASK,
     [("id",), ("annotations", 0, "completed_by", "id"), ("annotations", 0, "result", 0, "value", "choices", 0)]),
    (read_labelstudio, "e.json", FLAT, [("id",), ("annotator",)]),
    (read_doccano, "e.zip", EXAMPLE, [("id",), ("label", 0)]),
    (read_doccano, "e.jsonl", EXAMPLE, [("id",), ("label", 0)]),
    (read_prodigy, "e.jsonl", CHOICE, [("_input_hash",), ("_annotator_id",), ("options", 0, "id"), ("accept", 0)]),
    (read_prodigy, "e.jsonl", BINARY, [("label",)]),
    (read_mturk, "e.json", BATCH, [("HITId",), ("WorkerId",), ("Answer.topics", 0)]),
    (read_toloka, "e.json", POOL, [("ASSIGNMENT:task_id",), ("ASSIGNMENT:worker_id",), ("OUTPUT:labels", 0)]),
    (read, "e.jsonl", {"doc": 1, "text": "s", "annotator": "a", "labels": ["x"]}, [("doc",), ("annotator",)]),
]  # fmt: skip


def changed(record: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(record))
    holder: Any = copy
    for key in place[:-1]:
        if key == "completed_by":
            holder[key] = {}
        holder = holder[key]
    holder[place[-1]] = value
    return copy


def content(name: str, record: dict[str, Any]) -> bytes:
    if name.endswith(".json"):
        return json.dumps([record]).encode()
    if name.endswith(".jsonl"):
        return json.dumps(record).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("ann.jsonl", json.dumps(record))
    return stream.getvalue()
