from __future__ import annotations

import gzip
import json
import string
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palda.data import Documents, Values, Votes
from palda.errors import DataError, PaldaError, PaldaWarning
from palda.io import read_documents, read_votes

LONG = "doc,annotator,label,value\nd1,ann,arts,1\nd1,ann,crime,0\nd2,bob,arts,0\nd2,bob,crime,1\n"
WIDE = "doc,annotator,arts,crime\nd1,ann,1,0\nd2,bob,0,1\n"
LISTS = 'doc,annotator,labels\nd1,ann,"[""arts""]"\nd2,bob,crime\n'


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def message(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_votes(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("content", [LONG, WIDE, LISTS], ids=["long", "wide", "lists"])
@pytest.mark.parametrize("name", ["votes.csv", "votes.csv.gz", "votes.txt"])
def test_three_layouts_say_the_same(tmp_path: Path, content: str, name: str) -> None:
    votes = read_votes(write(tmp_path, name, content))
    assert votes == Votes.from_records(
        [("d1", "ann", "arts", 1), ("d1", "ann", "crime", 0), ("d2", "bob", "arts", 0), ("d2", "bob", "crime", 1)]
    )


def test_lists_of_numbers_are_no_text(tmp_path: Path) -> None:
    frame = pd.DataFrame({"doc": ["a", "b"], "title": ["ships", "wheat"], "vector": [[0.5, 1.0], [2.0, 0.0]]})
    frame.to_parquet(tmp_path / "d.parquet")
    documents = read_documents(tmp_path / "d.parquet")
    assert isinstance(documents, Documents)
    assert list(documents.texts) == ["ships", "wheat"]
    with pytest.raises(DataError, match="column 'vector': holds lists of numbers, which are features and no text"):
        read_documents(frame.drop(columns="title"))


def test_tsv_jsonl_json_and_parquet_say_the_same(tmp_path: Path) -> None:
    expected = read_votes(write(tmp_path, "v.csv", WIDE))
    frame = pd.DataFrame({"doc": ["d1", "d2"], "annotator": ["ann", "bob"], "arts": [1, 0], "crime": [0, 1]})
    records = frame.to_dict("records")
    lines = "\n".join(map(json.dumps, records))
    frame.to_parquet(tmp_path / "v.parquet")
    paths = [
        write(tmp_path, "v.tsv", WIDE.replace(",", "\t")),
        write(tmp_path, "v.jsonl", lines),
        write(tmp_path, "v.jsonl.gz", lines),
        write(tmp_path, "v.json", json.dumps(records)),
        tmp_path / "v.parquet",
        write(tmp_path, "v.parquet.gz", (tmp_path / "v.parquet").read_bytes()),
        write(tmp_path, "semicolons.csv", WIDE.replace(",", ";")),
    ]
    for path in paths:
        assert read_votes(path) == expected, path.name
    assert read_votes(frame) == expected


@pytest.mark.parametrize(
    ("doc", "annotator"),
    [("task", "worker"), ("item", "rater_id"), ("doc_id", "completed_by"), ("Task_ID", "WorkerId"), ("id", "user")],
)
def test_usual_column_names_are_understood(tmp_path: Path, doc: str, annotator: str) -> None:
    path = write(tmp_path, "v.csv", WIDE.replace("doc,annotator", f"{doc},{annotator}"))
    assert read_votes(path) == read_votes(write(tmp_path, "w.csv", WIDE))


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "story,by,topic,yes\nd,a,x,1\n")
    votes = read_votes(path, doc="story", annotator="by", label="topic", value="yes")
    assert votes.classes.tolist() == ["x"]
    assert "did you mean 'story'" in message(path, doc="stori")


def test_empty_set_abstention_and_missing_row_stay_three_things(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,labels\nd1,a,x;y\nd2,a,[]\nd3,a,\n")
    votes = read_votes(path, ["d1", "d2", "d3", "d4"], blank="abstained")
    assert votes.per_pair().tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert votes.take([1]).value.tolist() == [0, 0]
    assert votes.abstained.tolist() == [[2, 0]]
    wide = write(tmp_path, "w.csv", "doc,annotator,x,y\nd1,a,1,1\nd2,a,0,0\nd3,a,,\n")
    assert read_votes(wide, ["d1", "d2", "d3", "d4"]) == votes


def test_blank_lists_are_pointed_out_unless_their_meaning_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,labels\nd1,a,x\nd2,a,\n")
    with pytest.warns(PaldaWarning, match=r"v.csv, row 3, column 'labels': 1 blank cells were read as abstentions"):
        votes = read_votes(path)
    assert len(votes) == 1
    assert read_votes(path, blank="none").value.tolist() == [1, 0]


def test_partial_lists_leave_other_classes_unjudged(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,labels\nd1,a,x\nd1,b,y\n")
    assert read_votes(path, partial=True).value.tolist() == [1, 1]
    assert len(read_votes(path)) == 4


def test_rows_of_single_labels_unite(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "task,worker,label\nd1,a,x\nd1,a,y\nd2,a,z\n")
    votes = read_votes(path)
    assert votes.yes_per_pair().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert len(votes) == 6


@pytest.mark.parametrize("name", ["tag", "category", "choices"])
def test_a_class_called_like_a_list_column_stays_a_class(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "v.csv", f"doc,annotator,{name},other\nd1,a,1,0\nd2,a,,1\n")
    assert read_votes(path).classes.tolist() == sorted([name, "other"])


def test_lists_that_name_no_class_ask_for_the_classes(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,labels\nd1,a,[]\n")
    assert "no list names a class; pass them with classes=[...]" in message(path)
    assert read_votes(path, classes=["x"]).value.tolist() == [0]


def test_python_lists_in_cells_are_understood_and_not_executed(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,labels\nd1,a,\"['x', 'y']\"\n")
    assert read_votes(path).classes.tolist() == ["x", "y"]
    evil = write(tmp_path, "e.csv", "doc,annotator,labels\nd1,a,\"[__import__('os').getcwd()]\"\n")
    assert "is not a list of classes" in message(evil)


def test_scores_become_votes_and_columns_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,joy,fear,valence\nd1,a,25,24.9,-40\nd2,a,,100,3\n")
    votes = read_votes(path, present_at=25, ignore=["valence"])
    assert votes.to_frame().astype(str).values.tolist() == [
        ["d1", "a", "fear", "0"],
        ["d1", "a", "joy", "1"],
        ["d2", "a", "fear", "1"],
    ]
    assert "if 'fear' is not a class, pass ignore=['fear']" in message(path)
    assert "there is no column 'mood' to ignore" in message(path, ignore=["mood"])


def test_timestamps_settle_wide_rows_too(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,x,timestamp\nd1,a,1,200\nd1,a,0,100\n")
    assert read_votes(path).value.tolist() == [1]
    broken = write(tmp_path, "w.csv", "doc,annotator,x,timestamp\nd1,a,1,200\nd1,a,0,soon\n")
    assert message(broken).startswith("w.csv, row 3, column 'timestamp': 'soon' is not a time")


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        (["1,5", "0,"], None),
        (["1,", "0,5"], None),
        (["1,", "0,"], None),
        (["1,", "1,5"], 1),
        (["1,2024-05-01T12:00:00+02:00", "0,2024-05-01T09:00:00Z"], 1),
        (["1,9999-12-31", "0,2024-05-01"], 1),
    ],
)
def test_only_times_that_are_told_settle_a_contradiction(tmp_path: Path, rows: list[str], kept: int | None) -> None:
    lines = ["doc,annotator,label,value,timestamp", *(f"d,a,x,{row}" for row in rows), "d,b,x,1,"]
    path = write(tmp_path, "v.csv", "\n".join(lines))
    if kept is not None:
        assert read_votes(path).value.tolist() == [kept, 1]
        return
    assert message(path).startswith("v.csv, row 3: the vote 0 of annotator 'a'")
    assert read_votes(path, duplicates="last").value.tolist() == [0, 1]
    assert read_votes(path, duplicates="first").value.tolist() == [1, 1]
    assert read_votes(path, duplicates="drop").value.tolist() == [1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"duplicates": "latest"}, "duplicates must be one of 'error', 'last', 'first', 'drop', not 'latest'"),
        ({"layout": "Wide"}, "layout must be one of 'auto', 'long', 'wide', 'lists', not 'Wide'"),
        ({"blank": "zero"}, "blank must be one of None, 'abstained', 'none', not 'zero'"),
        ({"classes": "arts"}, "'arts' was given for the class names; pass a list of names"),
        ({"documents": "documents.csv"}, "'documents.csv' was given for the document names; pass what read_documents"),
        ({"documents": Path("documents.csv")}, "Path was given for the document names; pass what read_documents"),
        ({"documents": pd.DataFrame({"doc": ["d1"]})}, "a DataFrame was given for the document names"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(tmp_path: Path, options: dict[str, object], says: str) -> None:
    assert says in message(write(tmp_path, "v.csv", LONG), **options)


def test_classes_can_be_given_in_the_order_wanted(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", LONG)
    assert read_votes(path, classes=["crime", "sports", "arts"]).classes.tolist() == ["crime", "sports", "arts"]


def test_ids_keep_their_leading_zeros_and_words_that_look_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "v.csv", "doc,annotator,label,value\n007,NA,null,1\n7,NA,null,0\n")
    votes = read_votes(path)
    assert votes.doc_ids.tolist() == ["007", "7"]
    assert votes.annotators.tolist() == ["NA"]
    assert votes.classes.tolist() == ["null"]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("", {}, "v.csv: is empty"),
        ("\n\n", {}, "v.csv: is empty"),
        ("doc,annotator,label,value\n", {}, "v.csv: has a header but no rows"),
        ("doc,annotator,label,value\nd,a,x,2\n", {}, "v.csv, row 2, column 'value': '2' is not 0, 1 or blank"),
        ("doc,annotator,label,value\nd,a,x,1\nd,b,x,maybe\n", {}, "v.csv, row 3, column 'value': 'maybe' is not"),
        ("doc,annotator,label,value\nd,a,x,-1\n", {}, "leave the cell blank for no judgement"),
        ("doc,annotator,label,value\nd,,x,1\n", {}, "v.csv, row 2, column 'annotator': the annotator is blank"),
        ("doc,annotator,label,value\n ,a,x,1\n", {}, "v.csv, row 2, column 'doc': the document is blank"),
        ("doc,annotator,label,value\nd,a,,1\n", {}, "v.csv, row 2, column 'label': the class is blank"),
        ("doc,annotator,label,value\nd,a,x,1\nd,a,y\n", {}, "v.csv, row 3: has 3 cells where the header has 4"),
        ("doc,annotator,label,value\nd,a,x,1,9\nd,a,y\n", {}, "v.csv, row 2: has 5 cells where the header has 4"),
        ("doc,annotator,label,value\nd,a,x,1,9\n", {}, "v.csv, row 2: has 5 cells"),
        ('doc,annotator,label,value\nd,a,"x,1\n', {}, "v.csv, row 2: a quote is opened and never closed"),
        ("doc,annotator,label,value\nd,a,x,1\n\nd,a,x,0\n", {}, "v.csv, row 4: the vote 0 of annotator 'a'"),
        ("doc,annotator,label,value\nd,a,x,1\nd,a,x,0\n", {}, "contradicts row 2"),
        ("doc,annotator,doc,value\nd,a,x,1\n", {}, "v.csv, row 1, column 'doc': the column occurs twice"),
        ("doc,annotator,,value\nd,a,x,1\n", {}, "v.csv, row 1: the name of column 3 is blank"),
        ("doc,annotator\nd,a\n", {}, "v.csv: there is no column with votes"),
        ("doc,label,value\nd,a,1\n", {}, "v.csv: no column for the annotator"),
        (LONG, {"documents": ["d1"]}, "v.csv, row 4, column 'doc': document 'd2' is not among the 1 known ones"),
        (LONG, {"classes": ["arts", "crimes"]}, "v.csv, row 3, column 'label': class 'crime' is not among"),
        (WIDE, {"classes": ["arts"]}, "v.csv, column 'crime': class 'crime' is not among"),
        (LISTS, {"classes": ["arts"]}, "v.csv, row 3, column 'labels': class 'crime' is not among"),
        (LISTS, {"present_at": 3}, "present_at needs scores"),
        ("doc,annotator,x\nd,a,low\n", {"present_at": 3}, "v.csv, row 2, column 'x': 'low' is not a number"),
        ("doc,annotator,labels\nd,a,[1\n", {}, "v.csv, row 2, column 'labels': '[1' is not a list"),
        (LONG.encode("utf-16-le"), {}, "v.csv"),
    ],
)  # fmt: skip
def test_each_fault_is_one_line_with_its_place(
    tmp_path: Path, content: str | bytes, options: dict[str, object], says: str
) -> None:
    assert says in message(write(tmp_path, "v.csv", content), **options)


def test_a_wrong_encoding_names_the_row_and_the_way_out(tmp_path: Path) -> None:
    content = "doc,annotator,label,value\nd1,a,x,1\nd2,a,caf\xe9,1\n".encode("latin-1")
    path = write(tmp_path, "v.csv", content)
    assert message(path).startswith("v.csv, row 3: byte 0xe9 is not valid UTF-8")
    assert read_votes(path, encoding="latin-1").classes.tolist() == ["café", "x"]
    assert "there is no encoding 'klingon'" in message(path, encoding="klingon")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_understood(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, "v.csv", LONG.encode(encoding))
    assert read_votes(path) == read_votes(write(tmp_path, "w.csv", LONG))


def test_broken_compression_missing_files_and_unknown_kinds_are_said(tmp_path: Path) -> None:
    cut = gzip.compress(LONG.encode() * 100)[:60]
    path = tmp_path / "v.csv.gz"
    path.write_bytes(cut)
    assert "damaged or cut short" in message(path)
    assert "there is no such file" in message(tmp_path / "none.csv")
    assert "files ending in '.xlsx' are not known" in message(write(tmp_path, "v.xlsx", LONG))
    assert "is a folder or an archive, not a table of votes" in message(tmp_path)


def test_jsonl_faults_name_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "v.jsonl", '{"doc": 1, "annotator": "a", "labels": []}\n{"doc": 2,\n')
    assert message(path).startswith("v.jsonl, row 2: is not JSON")
    path = write(tmp_path, "v.jsonl", '{"doc": 1, "annotator": "a", "labels": ["x"]}\n\n[3]\n')
    assert message(path).startswith("v.jsonl, row 3: [3] is not an object")


def test_null_and_empty_lists_differ_in_jsonl(tmp_path: Path) -> None:
    lines = [{"doc": 1, "annotator": "a", "labels": labels} for labels in (["x"], [])]
    lines.append({"doc": 2, "annotator": "b", "labels": None})
    path = write(tmp_path, "v.jsonl", "\n".join(json.dumps({**line, "doc": i}) for i, line in enumerate(lines)))
    votes = read_votes(path, blank="abstained")
    assert votes.value.tolist() == [1, 0]
    assert votes.abstained.tolist() == [[2, 1]]


# Documents


def test_documents_keep_order_text_and_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", 'doc_id,text,source\nb,"one, ""two""\nthree",x\na,,y\n')
    documents = read_documents(path)
    assert isinstance(documents, Documents)
    assert documents.doc_ids.tolist() == ["b", "a"]
    assert documents.texts.tolist() == ['one, "two"\nthree', ""]
    assert documents.fields["source"].tolist() == ["x", "y"]


def test_several_text_columns_are_joined(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", "id,title,body\n1,Hello,World\n2,,Only\n")
    assert read_documents(path, text=["title", "body"]).texts.tolist() == ["Hello\nWorld", "Only"]
    assert read_documents(path).texts.tolist() == ["World", "Only"]


def test_the_only_column_of_words_is_the_text(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", "id,headline,year\n1,Cup final,1987\n")
    assert read_documents(path).texts.tolist() == ["Cup final"]
    path = write(tmp_path, "d.csv", "id,headline,place\n1,Cup final,Rome\n")
    with pytest.raises(DataError, match="which column is the text"):
        read_documents(path)


def test_a_table_of_numbers_gives_values(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", "gene,f1,f2\ng1,0.5,-1\ng2,,1e3\n")
    values = read_documents(path, id="gene")
    assert isinstance(values, Values)
    assert values.features.tolist() == ["f1", "f2"]
    assert np.array_equal(values.values, [[0.5, -1], [np.nan, 1000]], equal_nan=True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text\nhello\n", "no column of document ids"),
        (
            "id,text\n1,a\n1,b\n",
            "d.csv, row 3, column 'id': duplicate id '1', which is in row 2 too; give each document its own id",
        ),
        ("id,text\n1,a\n,b\n", "d.csv, row 3, column 'id': the document id is blank"),
        ("id\n1\n", "no column besides the ids"),
        ("id,f\n1,inf\n", "d.csv, row 2, column 'f': the value is infinite"),
    ],
)
def test_faulty_documents_are_one_line(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        read_documents(write(tmp_path, "d.csv", content))
    assert says in str(caught.value)


def test_huge_cells_are_fine(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", 'id,text\n1,"' + "word " * 100_000 + '"\n')
    assert len(read_documents(path).texts[0]) == 500_000


# Properties

names = (
    st.text(string.ascii_letters + string.digits + "_-é漢 ", min_size=1, max_size=6)
    .map(str.strip)
    .filter(lambda name: name and not name[0].isspace())
)


@st.composite
def complete_votes(draw: st.DrawFn) -> Votes:
    """Votes in which every name occurs, as a file must have it."""
    docs, annotators, classes = (draw(st.lists(names, min_size=1, max_size=4, unique=True)) for _ in range(3))
    shape = (len(docs), len(annotators), len(classes))
    cells = draw(st.lists(st.sampled_from([0, 1]), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return Votes.from_array(
        np.array(cells).reshape(shape), doc_ids=docs, annotators=sorted(annotators), classes=sorted(classes)
    )


@given(
    complete_votes(), st.sampled_from(["csv", "tsv", "jsonl", "parquet"]), st.sampled_from(["long", "wide", "lists"])
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_format_gives_the_votes_back(tmp_path: Path, votes: Votes, kind: str, layout: str) -> None:
    frame = votes.to_frame().astype({"doc": object, "annotator": object, "label": object, "value": "int64"})
    if layout != "long":
        wide = frame.pivot_table(index=["doc", "annotator"], columns="label", values="value", sort=False).reset_index()
        frame = wide.astype(dict.fromkeys(votes.classes, "int64"))
    if layout == "lists":
        cells = frame[votes.classes.tolist()].to_numpy()
        sets = [json.dumps(votes.classes[row == 1].tolist()) for row in cells]
        frame = frame[["doc", "annotator"]].assign(labels=sets)
    path = tmp_path / f"votes.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps(record) for record in frame.to_dict("records")), encoding="utf-8")
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    again = read_votes(path, votes.doc_ids, classes=votes.classes, layout=layout)
    assert again == votes
    assert Votes.from_frame(again.to_frame()) == votes


fuzz = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
kinds = st.sampled_from(["f.csv", "f.tsv", "f.jsonl", "f.json", "f.parquet", "f.csv.gz"])
pieces = st.lists(
    st.sampled_from(
        [b"doc", b"annotator", b"label", b"labels", b"value", b"text", b",", b"\n", b'"', b"1", b"0", b"x;y", b"[",
         b"]",         b"{", b"}", b":", b"\t", b"\r", b"\0", b"\xff", b"null", b"1e999", b"PAR1", b" ", b"timestamp"]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


@given(st.binary(max_size=200) | pieces | pieces.map(lambda tail: b"doc,annotator,label,value\n" + tail), kinds)
@fuzz
def test_any_bytes_give_a_result_or_a_clear_error(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    for read in (read_documents, lambda p: read_votes(p, blank="abstained")):
        try:
            read(path)
        except PaldaError as error:
            assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(
    st.lists(st.fixed_dictionaries({"doc": json_values, "annotator": json_values, "labels": json_values}), min_size=1)
)
@fuzz
def test_any_json_cells_give_a_result_or_a_clear_error(tmp_path: Path, records: list[dict[str, object]]) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    for read in (read_documents, lambda p: read_votes(p, blank="abstained"), lambda p: read_votes(p, layout="wide")):
        try:
            read(path)
        except PaldaError as error:
            assert "\n" not in str(error)


# Real crowds: the counts in the SOURCE.txt of each set


@pytest.mark.data
@pytest.mark.parametrize(
    ("folder", "file", "options", "n_docs", "n_annotators", "n_annotations", "n_classes", "density"),
    [
        ("crowd_odre", "annotations.csv.gz", {}, 4100, 711, 61532, 19, 0.0665),
        ("crowd_so_emotions", "annotations.csv.gz", {}, 4800, 12, 14400, 6, 0.113),
        ("crowd_appropriateness", "annotations.csv.gz", {}, 2191, 3, 6573, 14, 0.098),
        (
            "crowd_affective_text",
            "annotations_scores.csv.gz",
            {"present_at": 25, "ignore": ["valence"]},
            1000, 6, 6000, 6, 0.202,
        ),
    ],
)  # fmt: skip
def test_real_crowds_load_with_their_known_counts(
    data_folder: Path, folder: str, file: str, options: dict[str, object],
    n_docs: int, n_annotators: int, n_annotations: int, n_classes: int, density: float,
) -> None:  # fmt: skip
    documents = read_documents(data_folder / folder / "docs.csv.gz")
    votes = read_votes(data_folder / folder / file, documents, **options)
    assert len(documents) == votes.n_docs == n_docs
    assert votes.n_annotators == n_annotators
    assert votes.n_classes == n_classes
    annotations = np.unique(votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator)
    assert len(annotations) + len(votes.abstained) == n_annotations
    assert votes.value.mean() == pytest.approx(density, abs=6e-4)


@pytest.mark.data
def test_gold_columns_of_a_real_crowd_are_the_majority(data_folder: Path) -> None:
    documents = read_documents(data_folder / "crowd_so_emotions" / "docs.csv.gz")
    votes = read_votes(data_folder / "crowd_so_emotions" / "annotations.csv.gz", documents)
    majority = votes.yes_per_pair() * 2 > votes.per_pair()
    assert np.array_equal(documents.gold(votes.classes), majority.astype(np.int8))
