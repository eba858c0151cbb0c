"""Documents and votes from any supported file."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from palda import Votes, read, read_votes, write_shards
from palda.data import Corpus, Dataset, Documents, Values
from palda.errors import DataError
from palda.io import read_any_votes, read_chunks, read_gold, read_table, sources, stream_documents

ROWS = [{"doc": f"d{number}", "text": f'a "quoted"\nline, {number}', "n": number} for number in range(10)]


def written(folder: Path, name: str) -> Path:
    path, frame = folder / name, pd.DataFrame(ROWS)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif ".jsonl" in name:
        frame.to_json(path, orient="records", lines=True)
    elif name.endswith(".json"):
        frame.to_json(path, orient="records")
    else:
        frame.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.json", "a.parquet"])
def test_chunks_together_are_the_table(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    whole = read_table(path)
    chunks = list(read_chunks(path, 3))
    assert [len(chunk.table.frame) for chunk in chunks] == ([10] if name == "a.json" else [3, 3, 3, 1])
    joined = pd.concat([chunk.table.frame for chunk in chunks], ignore_index=True)
    assert joined.astype(str).to_numpy().tolist() == whole.frame.astype(str).to_numpy().tolist()
    places = [chunk.table.where.row(record) for chunk in chunks for record in range(len(chunk.table.frame))]
    assert places == [whole.where.row(record) for record in range(10)]
    shares = [chunk.share for chunk in chunks]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"doc,text\n", "has a header but no rows"),
        ("a.csv", b"doc,text\na,b\nc\n", "row 3: has 1 cells"),
        ("a.csv", b"doc,doc\na,b\n", "occurs twice"),
        ("a.csv", b"doc,text\na,\xe4\n", "row 2: byte 0xe4"),
        ("a.jsonl", b"\n\n", "is empty"),
        ("a.jsonl", b'{"doc": 1}\n[]\n', "row 2"),
        ("a.jsonl", b'{"doc": "\xe4"}\n', "byte 0xe4"),
        ("a.parquet", b"PAR1 but no more", "is not a readable Parquet file"),
        ("a.xlsx", b"", "are not known"),
    ],
)
def test_what_is_wrong_is_found_in_chunks_too(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_chunks(tmp_path / name, 1))


def test_of_documents_that_went_by_a_few_bytes_are_kept(tmp_path: Path) -> None:
    def peak(n_docs: int) -> int:
        path = tmp_path / f"{n_docs}.csv"
        path.write_text("doc,text\n" + "".join(f"d{number},{'word ' * 20}\n" for number in range(n_docs)))
        tracemalloc.start()
        for _ in stream_documents(path, size=100):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(500)  # what is imported on the way
    assert peak(20_000) - peak(2000) < 18_000 * 24  # 8 bytes to know each id again, thrice while they are merged


def test_columns_are_settled_by_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,title,size\na,one,1\nb,2,2\nc,3,x\n")
    chunks = list(stream_documents(path, id="key", size=1, text="title"))
    assert [chunk.documents.texts.tolist() for chunk in chunks if isinstance(chunk.documents, Documents)] == [
        ["one"], ["2"], ["3"]
    ]  # fmt: skip
    path.write_text("doc,size\na,1\nb,x\n")
    with pytest.raises(DataError, match="row 3: a column of numbers holds text"):
        list(stream_documents(path, size=1))
    assert isinstance(next(stream_documents(path, size=1)).documents, Values)


# which platform


EXPORTS: dict[str, tuple[str, Any]] = {
    "labelstudio": ("e.json", [{"id": 1, "data": {"text": "x"}, "annotations": []}]),
    "prodigy": ("e.jsonl", {"text": "x", "_input_hash": 1, "answer": "accept"}),
    "mturk": ("e.csv", "HITId,WorkerId,Input.text,Answer.label\nh,w,x,a\n"),
    "toloka": ("e.tsv", "INPUT:text\tOUTPUT:label\tASSIGNMENT:worker_id\nx\ta\tw\n"),
    "table": ("e.csv", "doc,annotator,label,value\nd,a,l,1\n"),
}


@pytest.mark.parametrize("platform", EXPORTS)
def test_platforms_are_recognised_by_their_columns(tmp_path: Path, platform: str) -> None:
    name, content = EXPORTS[platform]
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert sources.guess_format(tmp_path / name) == platform


@pytest.mark.parametrize("platform", [name for name in EXPORTS if name != "table"])
def test_read_votes_of_an_export_recommends_read(tmp_path: Path, platform: str) -> None:
    name, content = EXPORTS[platform]
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError, match=rf"{name}: is an export of {platform}.* use palda\.read\(\.\.\.\)\.votes"):
        read_votes(tmp_path / name)


def test_read_votes_of_a_folder_recommends_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder or an archive.* use palda\.read"):
        read_votes(tmp_path)


def test_read_takes_an_arff_file_with_the_xml_file_of_its_labels(tmp_path: Path) -> None:
    (tmp_path / "music-train.arff").write_text(
        "@relation m\n@attribute tempo numeric\n@attribute calm {0,1}\n@data\n0.5,1\n0.7,0\n"
    )
    (tmp_path / "music.xml").write_text(
        '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="calm"></label></labels>'
    )
    dataset = read(tmp_path / "music-train.arff")
    assert (dataset.classes.tolist(), dataset.gold.tolist()) == (["calm"], [[1], [0]])
    assert dataset.X.tolist() == [[0.5], [0.7]]
    assert read(tmp_path / "music-train.arff", classes=["calm"]).gold.tolist() == [[1], [0]]
    with pytest.raises(DataError, match="blank does not apply to ARFF files"):
        read(tmp_path / "music-train.arff", blank="none")


def test_read_takes_a_shard_folder(tmp_path: Path) -> None:
    votes = Votes.from_records([("d1", "ann", "x", 1), ("d2", "bob", "x", 0)])
    whole = Dataset.of(Corpus.from_counts([[1, 0], [0, 2]], doc_ids=["d1", "d2"]), votes)
    write_shards(tmp_path / "corpus", whole)
    assert read(tmp_path / "corpus") == whole
    with pytest.raises(DataError, match="is a shard folder"):
        read(tmp_path / "corpus", partial=True)


def test_an_unknown_option_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="colour"):
        read(tmp_path, colour="red")


def test_archives_and_folders_are_doccano(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        for user in ("ann", "bob"):
            lines = [json.dumps({"id": k, "text": f"text {k}", "label": ["x"] if k else ["y"]}) for k in range(3)]
            archive.writestr(f"{user}.jsonl", "\n".join(lines))
    assert sources.guess_format(tmp_path) == "doccano"
    with pytest.raises(DataError, match="are not known"):
        sources.guess_format((tmp_path / "e.zip").rename(tmp_path / "e.xlsx"))
    (tmp_path / "e.xlsx").rename(tmp_path / "e.zip")
    dataset = read(tmp_path / "e.zip")
    assert dataset.classes.tolist() == ["x", "y"]
    assert len(read_any_votes(tmp_path / "e.zip")) == 12


def test_votes_of_an_export_join_documents_by_id(tmp_path: Path) -> None:
    lines = [
        {"text": f"t{number}", "_input_hash": number, "_annotator_id": "ann", "answer": "accept",
         "options": [{"id": "a"}, {"id": "b"}], "accept": ["a"]}
        for number in (2, 1)
    ]  # fmt: skip
    (tmp_path / "votes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "documents.csv").write_text("doc,text,gold_a\n1,one,0\n2,two,\n3,three,1\n")
    dataset = read(tmp_path / "documents.csv", tmp_path / "votes.jsonl")
    assert dataset.doc_ids.tolist() == ["1", "2", "3"]
    assert dataset.votes.per_pair().tolist() == [[1, 1], [1, 1], [0, 0]]
    assert dataset.gold.tolist() == [[0, -1], [-1, -1], [1, -1]]


def test_options_that_a_platform_does_not_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(EXPORTS["mturk"][1])
    with pytest.raises(DataError, match="layout does not apply to exports of mturk"):
        read(tmp_path / "e.csv", layout="long")
    with pytest.raises(DataError, match="excel"):
        read(tmp_path / "e.csv", format="excel")
    assert read(tmp_path / "e.csv", question="label", text="text").classes.tolist() == ["a"]


# one table


def test_one_table_gives_each_document_once_in_order(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("item,sentence,who,a,b\nz,last,x,1,0\ny,first,x,0,\nz,last,w,1,1\n")
    dataset = read(path, columns={"annotator": "who"})
    assert isinstance(dataset.corpus, Documents)
    assert dataset.doc_ids.tolist() == ["z", "y"]
    assert dataset.corpus.texts.tolist() == ["last", "first"]
    assert dataset.votes.yes_per_pair().tolist() == [[2, 1], [0, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "doc,text,annotator,label,value\nd,one,x,a,1\nd,two,y,a,1\n",
            "row 3, column 'text': .* another text in row 2",
        ),
        ("doc,text\nd,one\n", "give the file with the votes"),
        ("doc,annotator,label,value\nd,x,a,1\n", "give the documents"),
        ("text,annotator,label,value\none,x,a,1\n", "no column of document ids"),
        ("doc,text,annotator,label,value\nd,one,x,a,\n", "has no votes"),
    ],
)
def test_a_single_table_without_texts_votes_or_ids_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "all.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "all.csv")


# known labels


@pytest.mark.parametrize(
    "content",
    ["doc,label,value\nd2,b,1\nd2,a,0\n", "doc,b,a\nd2,1,0\n", 'doc,labels\nd2,"[""b""]"\n'],
    ids=["long", "wide", "lists"],
)
def test_gold_labels_are_read_in_every_layout(tmp_path: Path, content: str) -> None:
    (tmp_path / "gold.csv.gz").write_bytes(gzip.compress(content.encode()))
    gold = read_gold(tmp_path / "gold.csv.gz", ["d1", "d2"], ["a", "b"])
    np.testing.assert_array_equal(gold, [[-1, -1], [0, 1]])


def test_gold_columns_of_documents_are_read_as_palda_read_reads_them(tmp_path: Path) -> None:
    table = "nr,text,gold_b,gold_a\nd2,one,1,0\nd9,unlabelled,,\nd1,two,,\n"
    (tmp_path / "documents.csv").write_text(table)
    (tmp_path / "votes.csv").write_text("doc,annotator,label,value\nd2,x,a,1\nd1,x,b,1\n")
    known = read_gold(tmp_path / "documents.csv", ["d1", "d2"], ["a", "b"], id="nr")
    np.testing.assert_array_equal(known, [[-1, -1], [0, 1]])
    dataset = read(tmp_path / "documents.csv", tmp_path / "votes.csv", id="nr")
    again = read_gold(tmp_path / "documents.csv", dataset.doc_ids, dataset.classes, id="nr")
    np.testing.assert_array_equal(again, dataset.gold)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("doc,gold_a\nd1,1\nd9,0\n", "gold.csv, row 3, column 'doc'"),
        ("doc,gold_a\nd1,2\n", "gold.csv, column 'gold_a': document 'd1'"),
        ("doc,gold_a\nd1,1\nd1,1\n", "gold.csv, row 3"),
        ("words,gold_a\nd1,1\n", "no column of document ids"),
        ("doc,annotator,label,value\nd1,x,a,1\n", "column 'annotator': gold labels have no annotators"),
        ("doc,label,value\nd9,a,1\n", "gold.csv, row 2, column 'doc'"),
        ("doc,label,value\nd1,z,1\n", "gold.csv, row 2, column 'label'"),
        ("doc,label,value\nd1,a,1\nd1,a,0\n", "gold.csv, row 3"),
    ],
)
def test_wrong_gold_labels_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "gold.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_gold(tmp_path / "gold.csv", ["d1", "d2"], ["a", "b"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_duplicate_ids_are_found_across_chunks(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"doc": [f"d{row}" for row in range(50)] + ["d3"], "text": "some words"})
    path = tmp_path / f"new.{suffix}"
    writers = {"csv": frame.to_csv, "parquet": frame.to_parquet}
    if suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        writers[suffix](path, index=False)
    first = {"csv": 2, "jsonl": 1, "parquet": 1}[suffix]
    with pytest.raises(
        DataError, match=rf"row {50 + first}, column 'doc': duplicate id 'd3', which is in row {3 + first} "
    ):
        list(stream_documents(path, size=4))


def test_ids_that_share_a_hash_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.io.sources.hash", len, raising=False)  # "d0" to "d8" are equally long
    path = tmp_path / "new.csv"
    path.write_text("doc,text\n" + "".join(f"d{row},words\n" for row in range(9)))
    assert sum(len(chunk.documents) for chunk in stream_documents(path, size=2)) == 9
