"""Sound files of every format, which the fuzzer changes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from tests.fuzz.formats import rezip, unzip

Files = dict[str, bytes]

DOCUMENTS = [
    ["doc", "text", "year"],
    ["d1", "ships carry wheat, and corn", "1986"],
    ["d2", 'a "quoted" text\nin two lines', ""],
]
LONG = [
    ["doc", "annotator", "label", "value"],
    ["d1", "ann", "trade", "1"],
    ["d1", "bob", "trade", "0"],
    ["d2", "ann", "ships", ""],
]
TIMED = [
    ["doc", "annotator", "label", "value", "timestamp"],
    ["d1", "ann", "a", "1", "2024-05-14T09:00"],
    ["d1", "ann", "a", "0", "2024-05-15"],
]
WIDE = [["doc", "annotator", "a", "b"], ["d1", "ann", "1", "0"], ["d2", "bob", "", "1"]]
LISTS = [["doc", "annotator", "labels"], ["d1", "ann", '["a", "b"]'], ["d2", "bob", "a;b"], ["d3", "bob", "[]"]]
COMBINED = [["id", "text", "worker", "labels"], ["d1", "a story", "ann", "a;b"], ["d1", "a story", "bob", "['a']"]]
NUMBERS = [["doc", "x", "y"], ["d1", "1.5", "2"], ["d2", "-3e4", ""]]
TABLES = [DOCUMENTS, LONG, TIMED, WIDE, LISTS, COMBINED, NUMBERS]

FEATURES = [
    {"doc": "d1", "x": 1.5, "source": "web", "vector": [0.5, 1.0], "text": "ships", "gold_a": 1},
    {"doc": "d2", "x": -3e4, "source": "print", "vector": [2, -1]},
    {"doc": "d3", "source": None, "vector": None},
]

RESULT = {"from_name": "t", "to_name": "text", "type": "choices", "value": {"choices": ["a", ["b", "c"]]}}
TASKS = [
    {
        "id": 1,
        "data": {"text": "story", "source": "BBC"},
        "annotations": [
            {"id": 5, "completed_by": {"id": 1, "email": "a@b"}, "result": [RESULT], "updated_at": "2024-05-14T09:00Z"},
            {"id": 6, "completed_by": 2, "result": [], "was_cancelled": True, "created_at": "2024-05-14T09:00:00Z"},
            {"id": 7, "completed_by": 3, "result": [RESULT], "ground_truth": True, "parent_prediction": 8},
        ],
        "predictions": [{"id": 8, "model_version": "m-1", "score": 0.7, "result": [RESULT]}, 9],
    },
    {"id": 2, "data": {"text": "other", "source": "PA"}, "annotations": []},
]
PREDICTED = [
    {
        "id": 3,
        "data": {"text": "third", "source": "AP"},
        "annotations": [{"id": 5, "completed_by": 1, "result": [RESULT], "prediction": {"id": 9, "result": [RESULT]}}],
        "predictions": [{"id": 8, "result": [RESULT | {"score": 0.5, "scores": {"a": 0.9, "d": 0.1}}]}],
    },
]
CONFIG = (
    b'<View>\n<Text name="text" value="$text"/>\n<Choices name="t" toName="text" choice="multiple">\n'
    b'<Choice value="a"/><Choice value="x" alias="d"/><Choice value="b"><Choice value="c"/></Choice>\n</Choices>\n'
    b'<Taxonomy name="u" toName="text" leafsOnly="true"><Choice value="b"><Choice value="c"/></Choice></Taxonomy>\n'
    b"</View>\n"
)
PARSED = {"t": {"type": "Choices", "to_name": ["text"], "inputs": [{"value": "text"}], "labels": ["a", "b/c"]}}
PROJECTS = [{"id": 1, "label_config": CONFIG.decode()}, {"id": 1, "parsed_label_config": PARSED}]
FLAT = [
    {"id": 1, "text": "story", "t": {"choices": ["a", "b"]}, "annotator": 1, "annotation_id": 1, "lead_time": 2.5},
    {"id": 1, "text": "story", "t": "a", "annotator": 2, "annotation_id": 2, "lead_time": 1, "was_cancelled": False},
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
ARFF = (
    b"@relation r\n% c\n@attribute x numeric\n@attribute 'y 1' {0,1}\n@attribute z {no,yes}\n"
    b"@data\n1.5,1,'yes'\n?,0,no\n"
)
SPARSE_ARFF = b"@relation r\n@attribute x {0,1}\n@attribute w {0,1}\n@attribute z {0,1}\n@data\n{0 1, 2 1}\n{}\n{1 1}\n"
LABELS = (
    b'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    b'<label name="z"></label></labels>\n'
)
REUTERS = (
    b'<!DOCTYPE lewis SYSTEM "lewis.dtd">\n<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1">\n'
    b"<DATE>26-FEB-1987</DATE>\n<TOPICS><D>cocoa</D><D>trade</D></TOPICS>\n<TEXT>&#2;\n<TITLE>A &lt;B></TITLE>"
    b"<BODY>Ships &amp; wheat\n&#3;</BODY></TEXT>\n</REUTERS>\n"
    b'<REUTERS TOPICS="NO" NEWID="2"><TEXT TYPE="BRIEF">\n***x</TEXT></REUTERS>\n'
)


def as_csv(rows: list[list[str]], delimiter: str = ",") -> bytes:
    """Rows as CSV."""
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode()


def as_records(rows: list[list[str]]) -> list[dict[str, str]]:
    """Rows as objects."""
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def records_csv(records: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    """Records as CSV; cells that are no text are JSON."""
    header = list(dict.fromkeys(name for record in records for name in record))
    cells = [
        [cell if isinstance(cell := record.get(name, ""), str) else json.dumps(cell) for name in header]
        for record in records
    ]
    return as_csv([header, *cells], delimiter)


def as_lines(records: list[dict[str, Any]]) -> bytes:
    """Records as JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def parquet_tables() -> list[bytes]:
    """Parquet files of the tables, and of columns of unusual types."""
    types = pa.table(
        {
            "doc": pa.array([1, 2], pa.int64()), "annotator": pa.array(["a", "b"]).dictionary_encode(),
            "labels": pa.array([["a"], None], pa.list_(pa.string())), "when": pa.array([1, None], pa.timestamp("us")),
            "text": pa.array([b"x", b"\xff"], pa.binary()),
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())),
            "decimal": pa.array([None, None], pa.decimal128(20, 3)), "nothing": pa.nulls(2),
            "struct": pa.array([{"a": 1}, None]), "flag": pa.array([True, False]), "half": pa.array(np.float16([1, 2])),
        }
    )  # fmt: skip
    tables = [types, *(pa.Table.from_pylist(as_records(rows)) for rows in TABLES)]
    files = []
    for place, table in enumerate(tables):
        stream = io.BytesIO()
        parquet.write_table(
            table, stream, row_group_size=1 + place % 2, compression=("snappy", "zstd", "none")[place % 3]
        )
        files.append(stream.getvalue())
    return files


def feature_columns() -> dict[str, list[bytes]]:
    """Parquet and Arrow files of features, compressed and not."""
    types = {"vector": pa.list_(pa.float32(), 2), "source": pa.dictionary(pa.int8(), pa.string())}
    table = pa.table({name: pa.array([row.get(name) for row in FEATURES], types.get(name)) for name in FEATURES[0]})
    plain = table.drop_columns("doc").append_column("more", pa.array([[1], [2], None], pa.large_list(pa.int16())))
    found: dict[str, list[bytes]] = {"parquet": [], "arrow": []}
    for one, codec in ((table, "zstd"), (plain, None)):
        stream = io.BytesIO()
        parquet.write_table(one, stream, row_group_size=2, compression=codec or "none")
        found["parquet"].append(stream.getvalue())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, one.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as file:
            file.write_table(one, max_chunksize=2)
        found["arrow"].append(sink.getvalue().to_pybytes())
    return found


def feature_arrays() -> list[Files]:
    """NumPy files, and the ids of their rows."""
    found = []
    for kind in ("f4", "f8", "f2", "i8", "?", ">f4"):
        stream = io.BytesIO()
        np.save(stream, np.arange(6).reshape(3, 2).astype(kind))
        found.append({"f.npy": stream.getvalue(), "ids.txt": b"d1\nd2\nd3\n"})
    return found


def doccano_archive() -> bytes:
    """A zip file with three users."""
    members = {
        "ann.jsonl": as_lines(EXAMPLES),
        "bob.csv": b"id,text,label\n1,story,a#b\n",
        "cy.json": json.dumps(EXAMPLES).encode(),
    }
    return rezip(members)


def reader_seeds() -> dict[str, list[Files]]:
    """Files by target; a case consists of the files of one seed."""
    tables, lines = [as_csv(rows) for rows in TABLES], [as_lines(as_records(rows)) for rows in TABLES]
    documents = [json.dumps(as_records(rows)).encode() for rows in TABLES]
    parquets = parquet_tables()
    one: dict[str, tuple[str, list[bytes]]] = {
        "csv": ("t.csv", tables),
        "tsv": ("t.tsv", [as_csv(rows, "\t") for rows in TABLES]),
        "jsonl": ("t.jsonl", lines),
        "json": ("t.json", documents),
        "parquet": ("t.parquet", parquets),
        "csv-gz": ("t.csv.gz", [gzip.compress(content, mtime=0) for content in tables]),
        "jsonl-gz": ("t.jsonl.gz", [gzip.compress(content, mtime=0) for content in lines]),
        "json-gz": ("t.json.gz", [gzip.compress(content, mtime=0) for content in documents]),
        "parquet-gz": ("t.parquet.gz", [gzip.compress(content, mtime=0) for content in parquets]),
        "labelstudio-json": ("e.json", [json.dumps(tasks).encode() for tasks in (TASKS, PREDICTED, FLAT)]),
        "labelstudio-csv": ("e.csv", [records_csv(FLAT)]),
        "doccano-zip": ("e.zip", [doccano_archive()]),
        "doccano-jsonl": ("ann.jsonl", [as_lines(EXAMPLES)]),
        "doccano-json": ("ann.json", [json.dumps(EXAMPLES).encode()]),
        "doccano-csv": ("ann.csv", [records_csv(EXAMPLES)]),
        "prodigy": ("e.jsonl", [as_lines(CHOICES), as_lines(CHOICES[:1])]),
        "mturk": ("e.csv", [records_csv(BATCH), records_csv(BATCH[:1])]),
        "mturk-json": ("e.json", [json.dumps(BATCH).encode()]),
        "toloka": ("e.tsv", [records_csv(POOL, "\t")]),
        "toloka-json": ("e.json", [json.dumps(POOL).encode()]),
        "reuters": ("r.sgm", [REUTERS]),
    }
    found = {target: [{name: content} for content in contents] for target, (name, contents) in one.items()}
    export = json.dumps(PREDICTED).encode()
    found["labelstudio-config"] = [{"c.xml": CONFIG, "e.json": export}]
    found["labelstudio-project"] = [{"c.json": json.dumps(project).encode(), "e.json": export} for project in PROJECTS]
    columns = feature_columns()
    texts = {"csv": records_csv(FEATURES), "jsonl": as_lines(FEATURES)}
    found |= {f"features-{name}": [{f"f.{name}": content}] for name, content in texts.items()}
    found |= {f"features-{name}": [{f"f.{name}": one} for one in contents] for name, contents in columns.items()}
    found["features-npy"] = feature_arrays()
    found["arff"] = [{"a.arff": content, "a.xml": LABELS} for content in (ARFF, SPARSE_ARFF)]
    return found


def loader_seeds(*, quick: bool) -> dict[str, list[Files]]:
    """Model files, one with an external classifier, a shard folder, a checkpoint, and a cell of an experiment.

    ``quick`` takes the larger models from the fixtures of an older version, which load, instead of fitting them.
    """
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        _write_model_and_shards(folder)
        checkpoint_fit(folder / "checkpoint")
        if not quick:
            _write_larger_models(folder)
        stacked, external = (
            (_FIXTURES / "model-0.1.palda", _FIXTURES / "model-0.1-plugged-in.palda")
            if quick
            else (folder / "stacked.palda", folder / "external.palda")
        )
        return {
            "model": [{"m.palda": _plain_zip(path)} for path in (folder / "model.palda", stacked)],
            "model-external": [{"m.palda": _plain_zip(external)}],
            "shards": [_content(folder / "shards")],
            "checkpoint": [_content(folder / "checkpoint")],
            "cells": [{"cells/c.json": _cell_record(folder / "store")}],
        }


_FIXTURES = Path(__file__).parents[1] / "fixtures"


def _write_model_and_shards(folder: Path) -> None:
    from palda import CrowdPALDA, TextWords, simulate, write_shards
    from palda.data import Corpus, Dataset, names_array

    news = simulate.newsroom(12, seed=0)
    votes, _ = simulate.crowd(news, "paper", votes_per_doc=2, seed=0)
    words = TextWords(min_count=3)
    counts = words.fit_transform(news.documents)
    model = CrowdPALDA(2, label_prior="base_rate", max_iter=2, random_state=0).fit(counts, votes)
    model.save(folder / "model.palda", words=words, texts=news.documents, votes=votes)
    corpus = Corpus(counts, names_array(words.get_feature_names_out()), news.doc_ids, news.documents.texts)
    gold = np.where(np.arange(12)[:, None] % 3, -1, news.labels).astype(np.int8)
    features = pd.DataFrame({"x": [np.nan, *range(11)], "desk": ["a", None, "b"] * 4}, index=news.doc_ids)
    write_shards(folder / "shards", Dataset(corpus, votes, gold), words=words, features=features, docs_per_shard=8)


def _write_larger_models(folder: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    from palda import CrowdPALDA, simulate

    news = simulate.newsroom(52, seed=0)
    votes, _ = simulate.crowd(news, "paper", votes_per_doc=1, seed=0)
    counts = news.corpus.counts[:, :40]
    quick = {"max_iter": 2, "random_state": 0}
    external = CrowdPALDA(2, label_prior=LogisticRegression(max_iter=5), n_profiles=1, **quick)
    external.fit(counts, votes).save(folder / "external.palda")
    CrowdPALDA(2, n_profiles=2, **quick).fit(counts, votes).save(folder / "stacked.palda")


def _cell_record(folder: Path) -> bytes:
    from palda.paper.cells import Cell, CellRecord, Store

    cell = Cell("bibtex", "palda", "votes", 0, crowd="paper", options=(("n", 1),), settings=(("k", 0.5),))
    measures = {"f1": 0.5, "auc": float("nan")}
    return Store(folder).save(CellRecord(cell, measures, {"curve": [0.5, float("nan")]}, ("w",))).read_bytes()


def _plain_zip(path: Path) -> bytes:
    """The zip file without dates, so that equal seeds give equal cases."""
    return rezip(unzip(path.read_bytes()))


def checkpoint_fit(folder: Path) -> Any:
    """The fit whose checkpoint is changed; it resumes from the folder."""
    from palda import PALDA, Checkpoint

    X, y = np.eye(4, dtype=int).repeat(5, axis=0), np.eye(4, dtype=int)[:, :2].repeat(5, axis=0)
    fit = PALDA(2, label_prior="base_rate", max_iter=3, random_state=0, n_jobs=1)
    return fit.fit(X, y, checkpoint=Checkpoint(folder, minutes=0))


def _content(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_seeds(folder: Path, targets: list[str], *, quick: bool = False) -> None:
    """Write the seeds of the targets: one folder per target and seed."""
    found = reader_seeds()
    if set(targets) - set(found):
        found |= loader_seeds(quick=quick)
    for target, seeds in found.items():
        for number, files in enumerate(seeds):
            for name, content in files.items():
                path = folder / target / f"{number:02d}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def read_seeds(folder: Path) -> dict[str, list[Files]]:
    """The seeds in a folder of ``write_seeds``."""
    return {
        target.name: [
            {str(path.relative_to(seed)): path.read_bytes() for path in sorted(seed.rglob("*")) if path.is_file()}
            for seed in sorted(target.iterdir())
        ]
        for target in sorted(folder.iterdir())
    }
