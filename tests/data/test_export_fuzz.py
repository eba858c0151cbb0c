"""Whatever stands in a file, a reader gives a Dataset or says in one line what is wrong."""

from __future__ import annotations

import copy
import csv
import io
import itertools
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda.data import Dataset
from palda.errors import PaldaError
from palda.io import read_doccano, read_labelstudio, read_mturk, read_prodigy, read_toloka
from palda.io.exports import rows as export_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Place = tuple[Any, ...]
    WordEvidenceModel = Callable[..., Dataset]

pytestmark = pytest.mark.filterwarnings("ignore::palda.errors.PaldaWarning")

RESULT = {"from_name": "t", "to_name": "text", "type": "choices", "value": {"choices": ["a", ["b", "c"]]}}
TASKS = [
    {
        "id": 1,
        "data": {"text": "story", "source": "BBC"},
        "annotations": [
            {"id": 5, "completed_by": {"id": 1, "email": "a@b"}, "result": [RESULT], "updated_at": "2024-05-14T09:00Z"},
            {"id": 6, "completed_by": 2, "result": [], "was_cancelled": True, "created_at": "2024-05-14T09:00:00Z"},
            {"id": 7, "completed_by": 3, "result": [RESULT], "ground_truth": True},
        ],
        "predictions": [],
    },
    {"id": 2, "data": {"text": "other", "source": "PA"}, "annotations": []},
]  # fmt: skip
FLAT = [
    {"id": 1, "text": "story", "t": {"choices": ["a", "b"]}, "annotator": 1, "updated_at": "2024-05-14T09:00:00Z"},
    {"id": 1, "text": "story", "t": "a", "annotator": 2, "was_cancelled": False},
]
EXAMPLES = [
    {"id": 1, "text": "story", "label": ["a", "b"], "Comments": [], "source": "BBC"},
    {"id": 2, "text": "other", "label": []},
]
CHOICES = [
    {"text": "s", "_input_hash": 3, "options": [{"id": "a"}, {"id": "b"}], "accept": ["a"], "answer": "accept",
     "_annotator_id": "ann", "_timestamp": 17, "meta": {"k": 1}},
    {"text": "s", "_input_hash": 3, "label": "c", "answer": "reject", "_session_id": "bob", "_timestamp": 18},
]  # fmt: skip
BATCH = [
    {"HITId": "h", "WorkerId": "w", "AssignmentStatus": "Approved", "SubmitTime": "Tue May 14 09:12:33 PDT 2024",
     "Input.text": "s", "Input.id": "1", "Answer.topics.a": "true", "Answer.topics.b": "false", "Reject": ""},
    {"HITId": "h", "WorkerId": "v", "AssignmentStatus": "Submitted", "Input.text": "s", "Input.id": "1",
     "Answer.taskAnswers": '[{"topics": {"a": true, "b": false}, "note": "x"}]'},
]  # fmt: skip
POOL = [
    {"INPUT:id": "1", "INPUT:text": "s", "OUTPUT:labels": '["a"]', "GOLDEN:labels": "a, b",
     "ASSIGNMENT:worker_id": "w", "ASSIGNMENT:status": "APPROVED", "ASSIGNMENT:submitted": "2024-05-14T09:12:33.6"},
    {"INPUT:id": "1", "INPUT:text": "s", "OUTPUT:labels": '{"a": true}', "ASSIGNMENT:worker_id": "v"},
]  # fmt: skip


def as_json(records: list[Any]) -> bytes:
    return json.dumps(records).encode()


def as_lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def as_archive(records: list[Any]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ann.jsonl", as_lines(records))
        archive.writestr("bob.csv", "id,text,label\n1,story,a#b\n")
    return stream.getvalue()


def as_table(records: list[Any], delimiter: str = ",") -> bytes:
    rows = [record for record in records if isinstance(record, dict)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, dict.fromkeys(name for row in rows for name in row), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(
        {name: cell if isinstance(cell, str) else json.dumps(cell) for name, cell in row.items()} for row in rows
    )
    return stream.getvalue().encode(errors="surrogatepass")


def as_tabs(records: list[Any]) -> bytes:
    return as_table(records, "\t")


FORMATS: dict[str, tuple[WordEvidenceModel, str, list[dict[str, Any]], Callable[[list[Any]], bytes]]] = {
    "labelstudio-json": (read_labelstudio, "e.json", TASKS, as_json),
    "labelstudio-json-min": (read_labelstudio, "e.json", FLAT, as_json),
    "labelstudio-csv": (read_labelstudio, "e.csv", FLAT, as_table),
    "doccano-zip": (read_doccano, "e.zip", EXAMPLES, as_archive),
    "doccano-jsonl": (read_doccano, "ann.jsonl", EXAMPLES, as_lines),
    "doccano-json": (read_doccano, "ann.json", EXAMPLES, as_json),
    "doccano-csv": (read_doccano, "ann.csv", EXAMPLES, as_table),
    "prodigy": (read_prodigy, "e.jsonl", CHOICES, as_lines),
    "mturk-csv": (read_mturk, "e.csv", BATCH, as_table),
    "mturk-json": (read_mturk, "e.json", BATCH, as_json),
    "toloka-tsv": (read_toloka, "e.tsv", POOL, as_tabs),
    "toloka-json": (read_toloka, "e.json", POOL, as_json),
}
every_format = pytest.mark.parametrize("name", FORMATS)

numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 10**400, 1e308])
words = st.text(max_size=6) | st.sampled_from(
    [
        "",
        " ",
        "a",
        "a|b",
        "a,b",
        "true",
        "false",
        "on",
        "NA",
        "None",
        "[",
        "{",
        '["a"]',
        '{"a": true}',
        "2024-05-14",
        "all",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Ways to every value inside a document, the document itself left out."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(document: Any, place: Place, value: Any, rename: str | None) -> Any:
    """Document with another value in a place, or with its key renamed."""
    document = copy.deepcopy(document)
    *way, last = place
    holder = document
    for key in way:
        holder = holder[key]
    if rename is not None and isinstance(holder, dict):
        holder[rename] = holder.pop(last)
    else:
        holder[last] = value
    return document


def check(read: WordEvidenceModel, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        data = read(path)
    except PaldaError as refused:
        assert "\n" not in str(refused)
    else:
        assert len(data.corpus) == len(data.gold)


@every_format
def test_the_files_to_be_broken_are_sound(tmp_path: Path, name: str) -> None:
    read, file, records, write = FORMATS[name]
    (tmp_path / file).write_bytes(write(records))
    assert len(read(tmp_path / file).votes)


@pytest.mark.slow
@every_format
@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_value_in_place_of_any_other(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    read, file, records, write = FORMATS[name]
    document: Any = records
    for _ in range(data.draw(st.integers(1, 3))):
        ways = list(places(document))
        if ways:
            rename = data.draw(st.none() | words)
            document = changed(document, data.draw(st.sampled_from(ways)), data.draw(values), rename)
    check(read, tmp_path_factory.getbasetemp() / file, write(document))


@every_format
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_bytes_and_any_damage(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    read, file, records, write = FORMATS[name]
    sound = write(records)
    start = data.draw(st.integers(0, len(sound)))
    stop = data.draw(st.integers(start, min(len(sound), start + 8)))
    content = data.draw(
        st.binary(max_size=40) | st.binary(max_size=8).map(lambda some: sound[:start] + some + sound[stop:])
    )
    check(read, tmp_path_factory.getbasetemp() / file, content)


@pytest.mark.parametrize("name", ["labelstudio-json", "labelstudio-json-min", "doccano-jsonl", "prodigy", "mturk-json"])
def test_deep_nesting_is_refused_or_read(tmp_path: Path, name: str) -> None:
    read, file, records, write = FORMATS[name]
    for place, depth in itertools.product(places(records), [300, *range(860, 1000, 20), 2000]):
        deep = b"[" * depth + b"]" * depth
        check(read, tmp_path / file, write(changed(records, place, "@deep@", None)).replace(b'"@deep@"', deep))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    value=values
    | st.text()
    | st.from_regex(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d{1,3} \d\d:\d\d:\d\d [A-Z+0-9]{1,5} \d{1,6}", fullmatch=True)
)
def test_a_time_is_a_number_or_none(value: object) -> None:
    time = export_rows.moment(value)
    assert time is None or isinstance(time, float)
