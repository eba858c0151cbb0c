"""Features from files: every format gives the same table; errors are one line with file, row and column."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda import DataError, read_features
from palda.data import FeatureTable
from palda.io import FeatureSource, feature_cells, feature_files, limits, open_features

NAN = float("nan")
FRAME = pd.DataFrame(
    {
        "doc": ["d1", "d2", "d3"],
        "length": [1.5, None, -3e4],
        "source": ["web", "print", None],
        "vector": [[0.5, 1.0], [2.0, -1.0], [0.0, 0.25]],
    }
)
NAMES = ["length", "source", "vector[0]", "vector[1]"]
VALUES = [[1.5, 1.0, 0.5, 1.0], [NAN, 0.0, 2.0, -1.0], [-3e4, NAN, 0.0, 0.25]]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_files, "_ROWS_PER_CHUNK", 2)


def _write(frame: pd.DataFrame, path: Path) -> Path:
    text = frame.assign(**{name: frame[name].map(json.dumps) for name in frame if name == "vector"})
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    if path.suffix in {".csv", ".tsv"}:
        text.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".json":
        path.write_text(json.dumps(records))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet", "feather"])
def test_every_table_format_gives_the_same_features(suffix: str, tmp_path: Path) -> None:
    path = _write(FRAME, tmp_path / f"f.{suffix}")
    table = read_features(path)
    assert table.names.tolist() == NAMES
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.categories[1] is not None
    assert [None if one is None else one.tolist() for one in table.categories] == [None, ["print", "web"], None, None]
    assert table.doc_ids is not None
    assert table.doc_ids.tolist() == ["d1", "d2", "d3"]
    packed = tmp_path / f"f.{suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_features(packed) == table
    np.testing.assert_array_equal(read_features(path, ["d3", "d1"]).values[:], [VALUES[2], VALUES[0]])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "feather"])
def test_features_on_disk_equal_those_in_memory(suffix: str, tmp_path: Path) -> None:
    path = _write(FRAME, tmp_path / f"f.{suffix}")
    reader = open_features(FeatureSource(path), tmp_path)
    assert isinstance(reader.table.values, np.memmap)
    some = reader.rows(np.array(["d3", "d1"], dtype=object), 0)
    whole = read_features(path)
    expected = FeatureTable(np.array([VALUES[2], VALUES[0]]), whole.names, whole.categories, some.doc_ids)
    assert some == expected
    with pytest.raises(DataError, match=r"^f\.\w+: has no row for document 'x' \(and 1 more\); add one per document"):
        reader.rows(np.array(["x", "d1", "y"], dtype=object), 0)


def test_rows_without_ids_are_in_the_order_of_the_documents(tmp_path: Path) -> None:
    path = _write(FRAME.drop(columns="doc"), tmp_path / "f.csv")
    assert read_features(path).doc_ids is None
    np.testing.assert_array_equal(read_features(path, ["a", "b", "c"]).values, VALUES)
    with pytest.raises(DataError, match=r"^f\.csv: there are 2 documents, but features have 3 rows"):
        read_features(path, ["a", "b"])
    reader = open_features(FeatureSource(path), tmp_path)
    np.testing.assert_array_equal(reader.rows(np.array(["b", "c"], dtype=object), 1).values, VALUES[1:])
    reader.check_length(3)
    with pytest.raises(DataError, match=r"^f\.csv: has 3 rows, but there are 2 documents; add ids"):
        reader.check_length(2)
    with pytest.raises(DataError, match=r"^f\.csv: has 3 rows, but there are more documents"):
        reader.rows(np.array(["c", "d"], dtype=object), 2)


# Arrays


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numbers_are_mapped_and_not_read(kind: str, order: Any, tmp_path: Path) -> None:
    given = np.asarray([[1, 0], [0, 1], [1, 1]], dtype=kind, order=order)
    np.save(tmp_path / "f.npy", given)
    table = read_features(tmp_path / "f.npy")
    assert isinstance(getattr(table.values, "source", table.values), np.memmap)
    assert table.values.dtype == (np.float64 if kind in {"f8", "i8"} else np.float32)
    np.testing.assert_array_equal(table.values[:], given)
    assert table.names.tolist() == ["features[0]", "features[1]"]
    np.testing.assert_array_equal(table.values[np.array([2, 0])], given[[2, 0]])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ids.txt", "b\na\nc\n"),
        ("ids.csv", "key\nb\na\nc\n"),
        ("ids.tsv", "n\tdoc\n1\tb\n2\ta\n3\tc\n"),
        ("ids", "b\na\nc"),
    ],
)
def test_ids_of_an_array_come_from_a_file(name: str, content: str, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(6.0).reshape(3, 2))
    (tmp_path / name).write_text(content)
    table = read_features(tmp_path / "f.npy", ["a", "b"], ids=tmp_path / name)
    np.testing.assert_array_equal(table.values[:], [[2, 3], [0, 1]])
    assert read_features(tmp_path / "f.npy", ["c"], ids=["b", "a", "c"]).values[:].tolist() == [[4.0, 5.0]]
    reader = open_features(FeatureSource(tmp_path / "f.npy", tmp_path / name), tmp_path)
    assert reader.rows(np.array(["c", "b"], dtype=object), 7).values.tolist() == [[4.0, 5.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("a\nb\n", r"^ids\.txt: has 2 ids, but f\.npy has 3 rows"),
        ("a\n\nb\n", r"^ids\.txt: the id of row 2 is blank"),
        ("a\nb\na\n", r"^ids\.txt: the id 'a' occurs twice"),
    ],
)
def test_wrong_ids_are_refused(ids: str, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros((3, 2)))
    (tmp_path / "ids.txt").write_text(ids)
    with pytest.raises(DataError, match=message):
        read_features(tmp_path / "f.npy", ids=tmp_path / "ids.txt")


def _saved(array: Any, path: Path) -> bytes:
    np.save(path, array, allow_pickle=True)
    return path.read_bytes()


def test_other_arrays_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    sound = _saved(np.zeros((3, 2)), path)
    huge = sound.replace(b"(3, 2), }          ", b"(3000000000000, 2), }")[: len(sound)]
    assert huge != sound
    cases = {
        r"has shape \(3,\), not \(documents, columns\)": _saved(np.zeros(3), path),
        "a type or shape that is not allowed": _saved(np.array([[{}]], dtype=object), path),
        "holds 'complex128', not numbers": _saved(np.zeros((2, 2), dtype=complex), path),
        "holds '<U1', not numbers": _saved(np.array([["a"]]), path),
        "is empty; it needs at least one row": _saved(np.zeros((0, 2)), path),
        "is cut short, or longer": sound[:-1],
        "is not a readable NumPy file: ": b"\x93NUMPY",
        "is not a readable NumPy file: .*magic": b"",
        "100,001 columns; the limit is 100,000": _saved(np.zeros((1, 100_001), dtype=np.int8), path),
    }
    for message, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^f\.npy: .*{message}") as caught:
            read_features(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(huge)
    with pytest.raises(DataError, match=r"^f\.npy: "):
        read_features(path)


def test_an_infinite_number_of_an_array_is_located(tmp_path: Path) -> None:
    values = np.zeros((5000, 3), dtype=np.float32)
    values[4321, 1] = -np.inf
    np.save(tmp_path / "f.npy", values)
    with pytest.raises(
        DataError, match=r"^f\.npy: features: -inf in row 4321 \(counted from 0\), column 'features\[1\]'"
    ):
        read_features(tmp_path / "f.npy")
    reader = open_features(FeatureSource(tmp_path / "f.npy"), tmp_path)
    with pytest.raises(DataError, match=r"^f\.npy: features: -inf in document d, column 'features\[1\]'"):
        reader.rows(np.array(["d"], dtype=object), 4321)


@pytest.mark.parametrize("name", ["f.npz", "f.npy.gz", "f.xlsx"])
def test_other_files_are_refused_with_advice(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(DataError, match=r"numpy\.save|unpack it|use \.csv"):
        read_features(tmp_path / name)


# Tables


def test_single_precision_stays_single(tmp_path: Path) -> None:
    single = pd.DataFrame({"a": np.float32([1, 2, 3]), "b": [True, False, True], "c": [[1.0], [2.0], None]})
    single.to_parquet(tmp_path / "f.parquet")
    assert read_features(tmp_path / "f.parquet").values.dtype == np.float32
    single.assign(d=np.arange(3)).to_parquet(tmp_path / "f.parquet")
    assert read_features(tmp_path / "f.parquet").values.dtype == np.float64


def test_lists_of_every_arrow_type_are_read(tmp_path: Path) -> None:
    given = [[1.0, 2.0], None, [3.0, None]]
    types = (pa.list_(pa.float32(), 2), pa.large_list(pa.float64()), pa.list_(pa.int16()), pa.list_(pa.float32()))
    for number, kind in enumerate(types):
        path = tmp_path / f"{number}.arrow"
        table = pa.table({"v": pa.array(given, kind)})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        found = read_features(path)
        np.testing.assert_array_equal(found.values, [[1, 2], [NAN, NAN], [3, NAN]])
        assert found.values.dtype == np.float32


def test_texts_of_a_typed_file_are_categories_even_if_they_look_like_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"zip": ["10115", "80331", "10115"]})
    frame.to_parquet(tmp_path / "f.parquet")
    frame.to_csv(tmp_path / "f.csv", index=False)
    assert read_features(tmp_path / "f.parquet").categories[0] is not None
    assert read_features(tmp_path / "f.csv").categories == (None,)


def test_declared_categories_stay_categories_whatever_they_are(tmp_path: Path) -> None:
    pd.DataFrame({"floor": pd.Categorical([3, 1, None, 3])}).to_feather(tmp_path / "f.feather")
    table = read_features(tmp_path / "f.feather")
    assert table.categories[0] is not None
    assert table.categories[0].tolist() == ["1", "3"]
    np.testing.assert_array_equal(table.values[:, 0], [1, 0, NAN, 1])


def test_texts_of_documents_and_gold_labels_are_no_features(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("doc,text,body,year,gold_a\nd1,ships,carry,1986,1\nd2,wheat,rises,1987,0\n")
    assert read_features(tmp_path / "f.csv").names.tolist() == ["year"]
    (tmp_path / "f.csv").write_text("doc,text,gold_a\nd1,ships,1\n")
    with pytest.raises(DataError, match=r"^f\.csv: has no column of features beside ids, texts and gold labels"):
        read_features(tmp_path / "f.csv")
    (tmp_path / "f.jsonl").write_text('{"doc": 1, "text": [1, 2]}\n')
    assert read_features(tmp_path / "f.jsonl").names.tolist() == ["text[0]", "text[1]"]
    source = FeatureSource(tmp_path / "g.csv", ignored=("headline",))
    (tmp_path / "g.csv").write_text("doc,headline,year\nd1,ships,1986\n")
    assert feature_files.load_features(source).names.tolist() == ["year"]


def test_a_column_that_shows_late_what_it_holds_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("x,y\n1,2\n2,\n,3\n,u\n5,v\n")
    table = read_features(tmp_path / "f.csv")
    assert table.categories[0] is None
    assert table.categories[1] is not None
    assert table.categories[1].tolist() == ["2", "3", "u", "v"]
    np.testing.assert_array_equal(table.values, [[1, 0], [2, NAN], [NAN, 1], [NAN, 2], [5, 3]])
    lines = [{"a": 1}, {"a": 2}, {"v": None}, {"v": [1, 2]}, {"a": 3, "z": "u"}]
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    table = read_features(tmp_path / "f.jsonl")
    assert table.names.tolist() == ["a", "v[0]", "v[1]", "z"]
    np.testing.assert_array_equal(table.values[3:], [[NAN, 1, 2, NAN], [3, NAN, NAN, 0]])


def test_the_id_column_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("key,x\na,1\nb,2\n")
    assert read_features(tmp_path / "f.csv", ["b"], id="key").values[:].tolist() == [[2.0]]
    with pytest.raises(DataError, match=r"^f\.csv: there is no column 'kee' for the doc; did you mean 'key'\?"):
        read_features(tmp_path / "f.csv", id="kee")
    optional = FeatureSource(tmp_path / "f.csv", id="other", id_required=False)
    assert feature_files.load_features(optional).names.tolist() == ["key", "x"]
    with pytest.raises(DataError, match=r"^f\.csv: has a column of ids; leave out the other ids"):
        read_features(tmp_path / "f.csv", id="key", ids=["a", "b"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.csv", "", r"^f\.csv: is empty"),
        ("f.csv", "doc,x\n", r"^f\.csv: has a header but no rows"),
        ("f.csv", "doc,x\na,1\nb,inf\n", r"^f\.csv, row 3, column 'x': inf is infinite or too large"),
        ("f.csv", "doc,x\na,1\nb,1e300\n", r"^f\.csv, row 3, column 'x': 1e\+300 is infinite or too large"),
        ("f.csv", "doc,x\na,1\nb,2\nc,3\na,4\n", r"^f\.csv, row 5, column 'doc': the id is in row 2 too"),
        ("f.csv", "doc,x\na,1\n,2\n", r"^f\.csv, row 3, column 'doc': the document id is blank"),
        ("f.csv", "doc,x\na,1,2\n", r"^f\.csv, row 2: has 3 cells where the header has 2"),
        ("f.csv", 'v\n"[1, 2]"\n"[1]"\n', r"^f\.csv, row 3, column 'v': holds 1 numbers, other rows 2"),
        ("f.csv", 'v,w\n"[1, 2]",1\n5,1\n', r"^f\.csv, row 3, column 'v': 5? ?.*list"),
        ("f.jsonl", '{"v": [1]}\n{"v": [1]}\n{"v": "a"}\n', r"^f\.jsonl, row 3, column 'v': 'a' is not a list"),
        ("f.jsonl", '{"v": [1]}\n{"v": [1]}\n{"v": 7}\n', r"^f\.jsonl, row 3, column 'v': holds one number where"),
        ("f.jsonl", '{"v": 1}\n{"v": 2}\n{"v": [1]}\n', r"^f\.jsonl, row 3, column 'v': holds a list where"),
        ("f.jsonl", '{"v": []}\n', r"^f\.jsonl, row 1, column 'v': holds an empty list"),
        ("f.jsonl", '{"v": [[1], [2]]}\n', r"^f\.jsonl, row 1, column 'v': .* is not a list of numbers"),
        ("f.jsonl", '{"v": [1e39]}\n', r"^f\.jsonl, row 1, column 'v': .* too large for single precision"),
        ("f.jsonl", '{"v": {"a": 1}}\n', r"^f\.jsonl, row 1, column 'v': .* is neither a number nor a text"),
        ("f.jsonl", '{"v": 1}\n{"v":', r"^f\.jsonl, row 2: is not JSON"),
        ("f.jsonl", '{"v": [1], "v[0]": 2}\n', r"^f\.jsonl: feature 'v\[0\]' occurs twice"),
        ("f.parquet", "PAR1", r"^f\.parquet: is not a readable Parquet file"),
        ("f.arrow", "ARROW1", r"^f\.arrow: is not a readable Arrow file"),
        ("f.arrow", "", r"^f\.arrow: is not a readable Arrow file"),
    ],
)
def test_errors_name_file_row_and_column(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    for read in (read_features, lambda path: open_features(FeatureSource(path), tmp_path)):
        with pytest.raises(DataError, match=message) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_times_and_too_many_categories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"when": pd.to_datetime(["2024-01-01"])}).to_parquet(tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"column 'when': holds times; turn them into numbers"):
        read_features(tmp_path / "f.parquet")
    monkeypatch.setattr(feature_cells, "MAX_CATEGORIES", 3)
    (tmp_path / "f.csv").write_text("url,x\na,1\nb,1\nc,1\nd,1\n")
    with pytest.raises(DataError, match=r"^f\.csv, row 5, column 'url': has more than 3 different texts"):
        read_features(tmp_path / "f.csv")


def test_a_table_that_is_too_large_for_memory_is_read_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(FRAME, tmp_path / "f.parquet")
    monkeypatch.setattr(limits, "MAX_CELLS", 10)
    with pytest.raises(DataError, match=r"^f\.parquet: has more than 10 numbers; write them as \.npy"):
        read_features(path)
    assert len(open_features(FeatureSource(path), tmp_path).table) == 3


def test_memory_does_not_grow_with_a_file_that_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_files, "_ROWS_PER_CHUNK", 100)
    peaks = []
    for n_rows in (500, 500, 3000):  # the first run imports
        values = np.arange(40.0 * n_rows).reshape(n_rows, 40).tolist()
        lines = [json.dumps({"doc": row, "vector": one, "desk": f"d{row % 3}"}) for row, one in enumerate(values)]
        (tmp_path / "f.jsonl").write_text("\n".join(lines))
        del values, lines
        tracemalloc.start()
        open_features(FeatureSource(tmp_path / "f.jsonl"), tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def test_compressed_arrow_buffers_are_limited(tmp_path: Path) -> None:
    table = pa.table({"x": np.zeros(20_000_000)})
    path = tmp_path / "f.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as file:
        file.write_table(table)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"^f\.arrow: unpacks to more than|^f\.arrow: states 20,000,000 cells"):
        read_features(path)


_NUMBERS = st.floats(-1e30, 1e30) | st.integers(-1000, 1000) | st.none()
_TEXTS = st.text("abc é,;\"'\n", min_size=1, max_size=5).filter(
    lambda text: text.strip() and not text.strip().startswith("[")
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_rows=st.integers(1, 7))
def test_what_is_written_is_read(data: st.DataObject, n_rows: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    numbers = data.draw(st.lists(_NUMBERS, min_size=n_rows, max_size=n_rows))
    texts = data.draw(st.lists(_TEXTS | st.none(), min_size=n_rows, max_size=n_rows))
    lists = data.draw(st.lists(st.none() | st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=2),
                               min_size=n_rows, max_size=n_rows))  # fmt: skip
    frame = pd.DataFrame({"doc": [f"d{row}" for row in range(n_rows)]})
    frame["number"] = pd.Series(numbers, dtype=float)
    frame["word"] = pd.Series([None if text is None else f"w{text}" for text in texts], dtype=object)
    frame["vector"] = pd.Series(lists, dtype=object)
    folder = tmp_path_factory.mktemp("features")
    found = {
        name: read_features(_write(frame, folder / f"f.{name}")) for name in ("csv", "jsonl", "parquet", "feather")
    }
    for table in found.values():
        columns = dict(zip(table.names, np.asarray(table.values).T, strict=True))
        np.testing.assert_array_equal(columns["number"], frame["number"])
        if any(lists):
            expected = np.array([[NAN, NAN] if one is None else one for one in lists], dtype=np.float32)
            np.testing.assert_array_equal(np.column_stack((columns["vector[0]"], columns["vector[1]"])), expected)
        names = dict(zip(table.names, table.categories, strict=True))["word"]
        known = [None if text is None else f"w{text}".strip() for text in texts]
        assert known == [None if np.isnan(code) else names[int(code)] for code in columns["word"]]
    assert isinstance(found["csv"], FeatureTable)


def test_the_index_that_pandas_writes_holds_the_ids_or_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [2.0, 1.0]}, index=["b", "a"])
    frame.to_parquet(tmp_path / "f.parquet")
    table = read_features(tmp_path / "f.parquet", ["a", "b"])
    assert table.names.tolist() == ["x"]
    assert table.values[:].tolist() == [[1.0], [2.0]]
    frame.assign(doc=["d1", "d2"]).to_parquet(tmp_path / "f.parquet")
    table = read_features(tmp_path / "f.parquet", ["d2", "d1"])
    assert table.names.tolist() == ["x"]
    assert table.values[:].tolist() == [[1.0], [2.0]]
