from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palda.errors import DataError
from palda.io import csv_files, read_documents, read_table, read_votes

LONG = "doc,annotator,label,value\nd1,ann,arts,1\nd1,bob,arts,0\n"
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_votes(path, **options)
    return str(caught.value)


# Regular CSV files, block by block

cells = st.text(st.characters(exclude_characters='",\r\n\0', exclude_categories=["Cs"]), max_size=5)


@given(
    st.lists(st.tuples(cells, cells), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.booleans(), min_size=16, max_size=16),
)
@quick
def test_the_fast_and_the_careful_csv_reader_agree(
    tmp_path: Path, rows: list[tuple[str, str]], line_end: str, ends_in_a_line_end: bool, quoted: list[bool]
) -> None:
    wrap = iter(quoted)
    lines = [",".join(f'"{cell}"' if next(wrap) else cell for cell in row) for row in rows]
    path = write(tmp_path, "t.csv", line_end.join(["a,b", *lines, *([""] if ends_in_a_line_end else [])]))
    fast = csv_files.regular_csv(path, "utf-8", ",")
    careful, _ = csv_files.any_csv(path, "utf-8", ",")
    expected = [list(row) for row in rows]
    assert fast.astype(object).values.tolist() == careful.astype(object).values.tolist() == expected


any_cells = st.text(st.sampled_from('a",\n '), max_size=4)


@given(st.lists(st.tuples(any_cells, any_cells), min_size=1, max_size=6), st.booleans())
@quick
def test_where_the_fast_reader_accepts_a_file_the_careful_one_reads_the_same(
    tmp_path: Path, rows: list[tuple[str, str]], quote_all: bool
) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL).writerows([("a", "b"), *rows])
    try:
        fast = csv_files.regular_csv(path, "utf-8", ",")
    except csv_files.IrregularFileError:
        return
    careful, _ = csv_files.any_csv(path, "utf-8", ",")
    assert fast.astype(object).values.tolist() == careful.astype(object).values.tolist()


def test_quotes_around_whole_cells_are_read_fast(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", '"doc","annotator","x"\n"d, 1","",1\n"d2","b","0"\n')
    frame = csv_files.regular_csv(path, "utf-8", ",")
    assert frame.astype(object).values.tolist() == [["d, 1", "", "1"], ["d2", "b", "0"]]


def test_blocks_are_joined_in_file_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 64)
    rows = [f"d{i % 7},a{i % 3},c{i % 5},{i % 2}" for i in range(300)]
    path = write(tmp_path, "v.csv", "\n".join(["doc,annotator,label,value", *rows]))
    frame = csv_files.regular_csv(path, "utf-8", ",")
    assert [",".join(row) for row in frame.astype(object).values.tolist()] == rows


def test_cells_of_several_words_are_told_apart_to_the_last_byte(tmp_path: Path) -> None:
    cells = ["annotator-number-one", "annotator-number-two", "annotator", "annotator-number-onE", "x" * 64, "x" * 63]
    path = write(tmp_path, "v.csv", "a,b\n" + "\n".join(f"{cell}," for cell in cells * 2))
    frame = csv_files.regular_csv(path, "utf-8", ",")
    assert frame["a"].tolist() == cells * 2
    assert len(frame["a"].cat.categories) == len(cells)


@pytest.mark.parametrize(
    "content",
    [
        'a,b\n"x""z",y\n', 'a,b\n"x\nz",y\n', 'a,b\n"x,"z",y"\n', "a,b\nx,y\n\n",
        "a,b\n\ufeffx,y\n", 'a,b\nx,y"\n', 'a,b\n"x"z,y\n', 'a,b\n",y\n',
        "a,b\nx\n", "a,b\n\nx,y\n", "a,b\nx\ry,z\n", "a,b\rx,y\r", "a\nx\n\ny\n", "a,b", "\na,b\nx,y\n",
        b"a,caf\xe9\nx,y\n", b"a,b\nx,caf\xe9\n", b"a,b\nx,y\0\n",
    ],
)  # fmt: skip
def test_whatever_is_not_plainly_regular_goes_to_the_careful_reader(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(csv_files.IrregularFileError):
        csv_files.regular_csv(write(tmp_path, "t.csv", content), "utf-8", ",")


def test_blank_lines_of_a_single_column_are_no_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "t.csv", "id\n1\n\n2\n"))
    assert table.frame["id"].tolist() == ["1", "2"]
    assert table.where.row(1) == 4


# Encodings, delimiters, headers


def test_a_header_in_another_encoding_is_not_taken_for_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,café\nd,a,1\n".encode("cp1252"))
    assert message(path).startswith("v.csv, row 1: byte 0xe9 is not valid UTF-8")
    assert read_votes(path, encoding="cp1252").classes.tolist() == ["café"]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig", None])
def test_a_byte_order_mark_does_not_count_whatever_encoding_is_named(tmp_path: Path, encoding: str | None) -> None:
    csv = write(tmp_path, "v.csv", LONG.encode("utf-8-sig"))
    assert read_votes(csv, encoding=encoding).doc_ids.tolist() == ["d1"]
    record = {"doc": "d1", "annotator": "ann", "labels": ["arts"]}
    jsonl = write(tmp_path, "v.jsonl", json.dumps(record).encode("utf-8-sig"))
    assert read_votes(jsonl, encoding=encoding).doc_ids.tolist() == ["d1"]


def test_delimiters_inside_quotes_do_not_mislead(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", 'doc;annotator;"arts, culture";"a, b, c, d"\nd;a;1;0\n')
    assert read_votes(path).classes.tolist() == ["a, b, c, d", "arts, culture"]


@pytest.mark.parametrize(
    ("name", "content"), [("v.csv", b"\xef\xbb\xbf"), ("v.csv", b"\xef\xbb\xbf\r\n"), ("v.json", b"[]")]
)
def test_a_file_without_any_content_is_called_empty(tmp_path: Path, name: str, content: bytes) -> None:
    assert message(write(tmp_path, name, content)).startswith(f"{name}: is empty")


def test_blanks_around_column_names_do_not_count(tmp_path: Path) -> None:
    frame = pd.DataFrame({"doc": ["d"], " annotator": ["a"], "arts ": [1]})
    frame.to_parquet(tmp_path / "v.parquet")
    expected = read_votes(write(tmp_path, "v.csv", "doc, annotator,arts \nd,a,1\n"))
    assert expected.classes.tolist() == ["arts"]
    assert read_votes(frame) == read_votes(tmp_path / "v.parquet") == expected


# Cells of other kinds than text


@pytest.mark.parametrize("missing", [None, pd.NA, float("nan"), pd.NaT])
def test_missing_texts_of_any_kind_are_blank(missing: object) -> None:
    frame = pd.DataFrame({"doc": ["a", "b"], "text": pd.Series(["NA", missing], dtype=object)})
    assert read_documents(frame).texts.tolist() == ["NA", ""]
    assert read_documents(frame.astype({"text": "string"})).texts.tolist() == ["NA", ""]


def test_a_list_of_words_is_a_text(tmp_path: Path) -> None:
    pd.DataFrame({"doc": ["a", "b"], "text": [["cup", "final"], []]}).to_parquet(tmp_path / "d.parquet")
    assert read_documents(tmp_path / "d.parquet").texts.tolist() == ["cup final", ""]


def test_long_lists_are_compared_to_their_middle(tmp_path: Path) -> None:
    names = [f"c{i:04d}" for i in range(1100)]
    lists = [names, [*names[:500], "other", *names[501:]]]
    pd.DataFrame({"doc": ["a", "b"], "annotator": "u", "labels": lists}).to_parquet(tmp_path / "v.parquet")
    assert read_votes(tmp_path / "v.parquet").yes_per_pair()[:, 500].tolist() == [1, 0]


def test_an_object_is_not_a_list_of_classes(tmp_path: Path) -> None:
    record = {"doc": 1, "annotator": "a", "labels": {"x": 1, "y": 0}}
    assert message(write(tmp_path, "v.jsonl", json.dumps(record))).startswith(
        "v.jsonl, row 1, column 'labels': {'x': 1, 'y': 0} is not a list of classes"
    )
