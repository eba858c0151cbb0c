"""Files built to exhaust memory or time are refused in one line that names the limit."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from palda import Votes
from palda.errors import DataError
from palda.io import (
    json_text,
    limits,
    read_arff,
    read_chunks,
    read_documents,
    read_labelstudio,
    read_prodigy,
    read_reuters,
    read_table,
    read_votes,
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems(path: Path) -> set[str]:
    """The message of reading a table as a whole and in chunks."""
    with pytest.raises(DataError) as whole:
        read_table(path)
    with pytest.raises(DataError) as in_chunks:
        list(read_chunks(path, 10))
    return {str(whole.value), str(in_chunks.value)}


def problem(path: Path) -> str:
    (only,) = problems(path)
    return only


# Records


@pytest.mark.parametrize(
    ("name", "content", "row"),
    [
        ("t.jsonl", '{"doc": 1}\n{"doc": "' + "x" * 2000 + '"}\n', 2),
        ("t.csv", "doc,text\nd1,a\nd2," + "x" * 20_000 + "\n", 3),
        ("t.csv", "doc,text\nd1,a\nd2," + '"' + "x\n" * 20_000, 3),
        ("t.csv", "doc,text\nd1,a\n" + '"x\n",' * 20_000, 3),
        ("t.tsv", "doc\ttext" + "x" * 20_000, 1),
        ("t.csv", b"doc,text\rd1,a\rd2," + b"x" * 20_000, 1),
    ],
)
def test_a_record_may_not_be_too_long(
    tmp_path: Path, name: str, content: str | bytes, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_RECORD_LENGTH", 1000)
    for found in problems(write(tmp_path, name, content)):
        assert found.startswith(f"{name}, row {row}: the record is longer than 1,000 characters, the limit")


def test_lines_up_to_the_limit_are_read(tmp_path: Path) -> None:
    text = "word " * 1_000_000
    path = write(tmp_path, "t.csv", f"doc,text\nd1,{text}\nd2,b\n")
    assert [len(one) for one in read_documents(path)] == [len(text), 1]
    path = write(tmp_path, "t.jsonl", json.dumps({"doc": 1, "text": text}) + "\n")
    assert len(read_documents(path)[0]) == len(text)


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv", "t.parquet"])
def test_a_table_may_not_have_too_many_columns(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FIELDS", 4)
    record = {"doc": "d", "text": "a b", "x": "1", "y": "2", "z": "3"}
    content = {
        "t.jsonl": json.dumps(record),
        "t.json": json.dumps([record]),
        "t.csv": ",".join(record) + "\n" + ",".join(record.values()) + "\n",
    }
    path = tmp_path / name
    if name in content:
        path.write_text(content[name])
    else:
        pd.DataFrame([record]).to_parquet(path)
    found = problem(path)
    assert "5 columns; the limit is 4" in found or "an object of more than 4 fields, the limit" in found


def test_the_fields_of_all_records_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FIELDS", 30)
    path = write(tmp_path, "t.json", json.dumps([{"doc": i, f"k{i}": i} for i in range(40)]))
    assert "has 41 columns; the limit is 30" in problem(path)


def test_records_without_common_fields_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_SPARSE_CELLS", 1000)
    records = [{"id": i, f"k{i}": i} for i in range(300)]
    expected = "300 records have 301 different fields, and fewer than 1 in 100 is filled"
    assert expected in problem(write(tmp_path, "t.json", json.dumps(records)))
    tasks = [{"id": i, "data": {"text": "a", f"k{i}": i}, "annotations": []} for i in range(300)]
    with pytest.raises(DataError, match=expected):
        read_labelstudio(write(tmp_path, "tasks.json", json.dumps(tasks)))
    prodigy = [{"text": f"t{i}", "label": "a", "answer": "accept", "_session_id": "s", f"k{i}": i} for i in range(300)]
    with pytest.raises(DataError, match="300 records have 300 different fields"):
        read_prodigy(write(tmp_path, "p.jsonl", "\n".join(map(json.dumps, prodigy))))


@pytest.mark.parametrize("depth", [limits.MAX_DEPTH - 1, limits.MAX_DEPTH + 1, 900, 200_000])
def test_json_may_not_be_nested_too_deeply(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    path = write(tmp_path, "t.jsonl", f'{{"doc": 1, "text": "a", "x": {deep}}}\n')
    if depth < limits.MAX_DEPTH:
        assert len(read_table(path).frame) == 1
    else:
        assert "t.jsonl, row 1: cannot be read as JSON: is nested deeper than 100 levels, the limit" in problem(path)


def test_a_million_fields_are_refused_and_many_columns_take_linear_time(tmp_path: Path) -> None:
    record = json.dumps({f"{i:x}": 0 for i in range(1_000_000)}, separators=(",", ":"))
    with pytest.raises(ValueError, match="an object of more than 100,000 fields, the limit"):
        json_text.parse_json(record)
    names = [f"k{i}" for i in range(5_000)]
    path = write(tmp_path, "t.csv", ",".join(names) + "\n" + ",".join(names) + "\n")
    assert read_table(path).frame.shape == (1, 5_000)
    path = write(tmp_path, "t.jsonl", json.dumps(dict.fromkeys(names, 1)))
    assert read_table(path).frame.shape == (1, 5_000)


def test_the_fields_of_an_object_are_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FIELDS", 3)
    for fine in (
        {"a": 1, "b": {"c": 1, "d": 2, "e": 3}, "f": 1},
        {'a":': '":":":":{', "\\": 1, "{": "\\"},
        [{"a": 1}] * 9,
    ):
        assert json_text.parse_json(json.dumps(fine)) == fine
    for wrong in (dict.fromkeys("abcd"), [{}, {}, dict.fromkeys("abcd")], {"a": {"a": dict.fromkeys("abcd")}}):
        with pytest.raises(ValueError, match="an object of more than 3 fields"):
            json_text.parse_json(json.dumps(wrong))


def test_too_many_votes_or_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CELLS", 20)
    lists = pd.DataFrame({"doc": range(5), "annotator": "a", "labels": list("abcde")})
    with pytest.raises(DataError, match="5 rows of 5 classes are 25 values; the limit is 20"):
        read_votes(lists)
    wide = pd.DataFrame({"doc": range(11), "annotator": "a", "x": 1, "y": 0})
    with pytest.raises(DataError, match="11 rows of 2 classes are 22 values"):
        read_votes(wide)
    with pytest.raises(DataError, match="11 rows of 2 columns"):
        read_documents(wide.drop(columns="annotator"))
    tasks = [{"text": f"t{i}", "label": f"c{i}", "answer": "accept", "_session_id": "s"} for i in range(5)]
    with pytest.raises(DataError, match="5 rows of 5 classes"):
        read_prodigy(write(tmp_path, "p.jsonl", "\n".join(map(json.dumps, tasks))))


# Compressed files


def bomb(n_members: int) -> bytes:
    """Gzip file of one letter; each member has 16 KB and unpacks to 16 MiB."""
    return gzip.compress(b"x" * (1 << 24)) * n_members


@pytest.mark.parametrize("name", ["b.csv.gz", "b.jsonl.gz", "b.json.gz", "b.parquet.gz"])
def test_a_gzip_bomb_is_refused(tmp_path: Path, name: str) -> None:
    found = problems(write(tmp_path, name, bomb(64)))
    assert all("unpacks to more than" in one or "the record is longer" in one for one in found)


def test_a_gzip_bomb_of_lines_is_refused(tmp_path: Path) -> None:
    head = gzip.compress(b"doc,text\n")
    path = write(tmp_path, "b.csv.gz", head + gzip.compress((b"d," + b"x" * 1000 + b"\n") * (1 << 14)) * 8)
    with pytest.raises(DataError, match=r"unpacks to more than .* bytes, the limit for .* compressed bytes; if you"):
        read_table(path)
    with pytest.raises(DataError, match="unpacks to more than"):
        sum(1 for _ in read_chunks(path, 1 << 20))


def test_bombs_of_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unpacks to more than"):
        read_reuters(write(tmp_path, "r.sgm.gz", bomb(16)))
    with pytest.raises(DataError, match="unpacks to more than"):
        read_arff(write(tmp_path, "a.arff.gz", bomb(16)))


def test_a_well_packed_table_of_usual_size_is_read(tmp_path: Path) -> None:
    lines = b"doc,annotator,label,value\n" + b"".join(b"d%d,ann,sport,1\n" % (i // 10) for i in range(200_000))
    path = write(tmp_path, "v.csv.gz", gzip.compress(lines, 9))
    assert len(read_votes(path)) == 20_000


def test_a_parquet_file_that_states_absurd_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    column = pa.chunked_array([pa.array(np.zeros(1_000_000, dtype=np.int8))] * 40)
    parquet.write_table(pa.table({"doc": column}), path)
    assert path.stat().st_size < 200_000
    assert "states 40,000,000 cells in" in problem(path)


_IN_LITTLE_MEMORY = """
import resource, sys
from palda.io import read_chunks, read_table
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
for path in sys.argv[1:]:
    for read in (read_table, lambda path: list(read_chunks(path, 1000))):
        try:
            read(path)
        except ValueError as refused:
            assert "memory" not in str(refused) and "\\n" not in str(refused), refused
        else:
            raise SystemExit(f"{path} was read")
"""


@pytest.mark.slow
def test_bombs_are_refused_in_little_memory(tmp_path: Path) -> None:
    record = json.dumps({f"{i:x}": 0 for i in range(1_000_000)}, separators=(",", ":"))
    paths = [
        write(tmp_path, "b.json.gz", bomb(64)),
        write(tmp_path, "b.csv.gz", bomb(64)),
        write(tmp_path, "m.jsonl", record + "\n"),
    ]
    command = [sys.executable, "-c", _IN_LITTLE_MEMORY, *map(str, paths)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)  # noqa: S603
    assert not done.returncode, done.stderr + done.stdout


# XML, ARFF and SGML


def arff(folder: Path, xml: str) -> str:
    path = write(folder, "a.arff", "@relation r\n@attribute x numeric\n@attribute y {0,1}\n@data\n1,0\n")
    with pytest.raises(DataError) as caught:
        read_arff(path, write(folder, "a.xml", xml))
    return str(caught.value)


def test_entities_of_a_label_file_are_never_expanded(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))
    found = arff(tmp_path, f'<!DOCTYPE labels [<!ENTITY l0 "lol">{laughs}]><labels><label name="&l29;"/></labels>')
    assert found == "a.xml: a label file has no document type; remove the <!DOCTYPE> part"
    outside = '<!DOCTYPE labels SYSTEM "file:///etc/passwd"><labels><label name="y"/></labels>'
    assert "has no document type" in arff(tmp_path, outside)


def test_a_label_file_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nested deeper than 100 levels" in arff(tmp_path, '<label name="y">' * 200 + "</label>" * 200)
    monkeypatch.setattr(limits, "MAX_FIELDS", 3)
    assert "has 4 labels; the limit is 3" in arff(tmp_path, "<labels>" + '<label name="y"/>' * 4 + "</labels>")


def test_an_arff_file_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "@relation r\n@attribute a {1,0}\n@attribute b numeric\n@data\n"
    monkeypatch.setattr(limits, "MAX_CELLS", 100)
    with pytest.raises(DataError, match="60 rows of 2 attributes are 120 values; the limit is 100"):
        read_arff(write(tmp_path, "a.arff", header + "{}\n" * 60))
    with pytest.raises(DataError, match="60 rows of 2 attributes"):
        read_arff(write(tmp_path, "a.arff", header.replace("{1,0}", "{0,1}") + "{}\n" * 60))
    monkeypatch.setattr(limits, "MAX_FIELDS", 1)
    with pytest.raises(DataError, match="row 3: has 2 attributes; the limit is 1"):
        read_arff(write(tmp_path, "a.arff", header + "{}\n"))
    monkeypatch.setattr(limits, "MAX_RECORD_LENGTH", 30)
    with pytest.raises(DataError, match="row 5: the record is longer than 30"):
        read_arff(write(tmp_path, "a.arff", header + "0," + "1" * 50))


def test_a_reuters_story_has_limits_and_is_read_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    markup = '<REUTERS NEWID="1" {}><TEXT>{}</TEXT></REUTERS>'
    read_reuters(write(tmp_path, "r.sgm", markup.format("A" * 300_000, "<TEXT " * 300_000)))
    monkeypatch.setattr(limits, "MAX_RECORD_LENGTH", 1000)
    with pytest.raises(DataError, match="row 1: the record is longer than 1,000"):
        read_reuters(write(tmp_path, "r.sgm", markup.format("", "x" * 2000)))


# Characters


@pytest.mark.parametrize(
    "record",
    [r'{"doc\ud800": 1}', r'{"doc": "\udc00"}', r'{"doc": 1, "x": {"\ud83dx": 1}}', r'{"doc": ["\ude00\ud83d"]}'],
)
def test_half_of_a_surrogate_pair_is_named(tmp_path: Path, record: str) -> None:
    found = problem(write(tmp_path, "t.jsonl", f'{{"doc": 0}}\n{record}\n'))
    assert found.startswith("t.jsonl, row 2: cannot be read as JSON: \\ud")
    assert "is half of a surrogate pair" in found


def test_whole_pairs_and_escaped_backslashes_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "t.jsonl", r'{"doc": "\ud83d\ude00", "text": "\\ud800"}')
    documents = read_documents(path)
    assert documents.doc_ids.tolist() == ["😀"]
    assert documents[0] == "\\ud800"


def test_half_of_a_surrogate_pair_in_a_cell_or_a_name_is_named(tmp_path: Path) -> None:
    for labels in (r'["\ud800"]', r"['\ud800']"):
        path = write(tmp_path, "v.csv", f'doc,annotator,labels\nd,a,"{labels.replace(chr(34), chr(34) * 2)}"\n')
        with pytest.raises(DataError, match=r"v.csv, row 2, column 'labels': .* is not a list of classes"):
            read_votes(path)
    with pytest.raises(DataError, match=r"annotator '.ud800' has half of a surrogate pair"):
        Votes.from_records([("d", "\ud800", "x", 1)])


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "zlib", "hex", "a\0b", "undefined"])
def test_encodings_that_are_no_text_or_can_hold_half_a_pair_are_refused(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, "t.csv", "doc,text\n1,+2AA-\n")
    with pytest.raises(DataError, match="there is no encoding"):
        read_table(path, encoding)


def test_a_file_of_unicode_line_separators_is_empty(tmp_path: Path) -> None:
    assert problem(write(tmp_path, "t.csv", "\u2028")) == "t.csv: is empty; it needs a header and at least one row"


# Damaged Parquet files


def test_damage_in_the_middle_of_a_parquet_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"doc": range(4000), "text": [f"text {i}" for i in range(4000)]})
    parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=500, use_dictionary=False)
    content = path.read_bytes()
    n_refused = 0
    for place in range(1000, len(content), len(content) // 60):
        path.write_bytes(content[:place] + b"\xff\x00\xa5\x17" + content[place + 4 :])
        try:
            list(read_chunks(path, 100))
        except DataError as refused:
            n_refused += 1
            assert str(refused).startswith("t.parquet")
            assert "\n" not in str(refused)
    assert n_refused


def test_parquet_metadata_of_pandas_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"doc": [1, 2], "text": ["a", "b"]})
    parquet.write_table(table.replace_schema_metadata({b"pandas": b'{"index_columns": ["gone"], "columns": 7}'}), path)
    assert [len(chunk.table.frame) for chunk in read_chunks(path, 1)] == [1, 1]
    assert len(read_table(path).frame) == 2


def test_text_that_is_not_utf_8_in_a_column_is_found_by_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"doc": ["d1", "d2"], "text": ["some text", "b"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"some text", b"some\xff\xfetxt"))
    assert "t.parquet: is not a readable Parquet file" in problem(path)


def test_a_name_of_any_length_gives_a_message_of_usual_length(tmp_path: Path) -> None:
    name = "x" * 5000
    path = write(tmp_path, "v.csv", f"doc,annotator,{name}\nd,a,maybe\n")
    with pytest.raises(DataError) as caught:
        read_votes(path)
    assert str(caught.value).startswith("v.csv, row 2, column 'xxx")
    assert len(str(caught.value)) < 1500
    assert caught.value.column == name
