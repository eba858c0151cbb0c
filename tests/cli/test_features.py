"""``--features`` of the command line: the same as in Python, from every format, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Palda, World, run_main

import palda as library
from palda import CrowdPALDA
from palda.cli.commands import predict as predict_command
from palda.data import FeatureTable

FITTING = ("--topics", 2, "--label-prior", "words", "--annotators", "two_coin", "--no-copies", "--jobs", 1, "--quiet")


class Files(NamedTuple):
    """Files of features of the documents of the world, and a model fitted with them."""

    folder: Path
    table: Path
    array: Path
    ids: Path
    model: Path


@pytest.fixture(scope="module")
def files(world: World, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("features")
    truth = pd.read_csv(world.truth)
    random = np.random.default_rng(0)
    known = truth.drop(columns="doc").to_numpy()[:, :2]
    vectors = (known + random.normal(scale=0.3, size=known.shape)).astype(np.float32)
    frame = pd.DataFrame(
        {"doc": truth["doc"], "vector": list(vectors), "desk": random.choice(["1", "2", "x"], len(truth)), "size": 1.0}
    )
    frame["size"] = random.normal(size=len(truth))
    frame = frame.iloc[random.permutation(len(truth))].reset_index(drop=True)
    frame.to_parquet(folder / "f.parquet")
    np.save(folder / "f.npy", np.stack(frame["vector"].tolist()))
    (folder / "ids.txt").write_text("\n".join(frame["doc"]))
    model = folder / "model.palda"
    assert run_main("fit", world.documents, world.votes, "--features", folder / "f.parquet", "-o", model, *FITTING) == 0
    return Files(folder, folder / "f.parquet", folder / "f.npy", folder / "ids.txt", model)


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _probs(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [list(row["probabilities"].values()) for row in rows]


def test_fit_with_features_equals_the_library(world: World, files: Files) -> None:
    model = library.load(files.model)
    assert isinstance(model, CrowdPALDA)
    assert model.feature_names_ is not None
    assert model.feature_names_.tolist() == ["vector[0]", "vector[1]", "desk", "size"]
    assert {name: own.tolist() for name, own in model.feature_categories_.items()} == {"desk": ["1", "2", "x"]}
    dataset = library.read(world.documents, world.votes)
    assert model.words_ is not None
    features = library.read_features(files.table, dataset.doc_ids)
    expected = CrowdPALDA(2, label_prior="words", annotators="two_coin", copies=False, random_state=0, n_jobs=1)
    expected.fit(model.words_.transform(dataset.corpus), dataset.votes, features=features)
    np.testing.assert_array_equal(model.consensus_, expected.consensus_)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "feather"])
@pytest.mark.parametrize("size", [7, 5000])
def test_predictions_in_chunks_equal_those_of_the_library(
    suffix: str, size: int, palda: Palda, world: World, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_command, "_CHUNK", size)
    frame = pd.read_parquet(files.table)
    path = tmp_path / f"f.{suffix}"
    if suffix == "csv":
        frame.assign(vector=frame["vector"].map(lambda one: json.dumps(one.tolist()))).to_csv(path, index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        getattr(frame, f"to_{suffix}")(path)
    found = _rows(palda("predict", files.model, world.documents, "--features", path, "--json", "--quiet").out)
    model = library.load(files.model)
    documents = library.read_documents(world.documents)
    assert model.words_ is not None
    table = library.read_features(files.table, documents.doc_ids)
    expected = model.predict_proba(model.words_.transform(documents), features=table)
    np.testing.assert_allclose(_probs(found), expected, rtol=1e-9)


def test_a_category_is_one_even_if_the_new_documents_have_only_numbers(
    palda: Palda, world: World, files: Files, tmp_path: Path
) -> None:
    frame = pd.read_parquet(files.table)
    numbers = frame[frame["desk"] != "x"].assign(
        v=lambda some: some["vector"].map(lambda one: json.dumps(one.tolist()))
    )
    numbers.drop(columns="vector").rename(columns={"v": "vector"}).to_csv(tmp_path / "f.csv", index=False)
    documents = pd.read_csv(world.documents)
    documents[documents["doc"].isin(numbers["doc"])].to_csv(tmp_path / "d.csv", index=False)
    result = palda("predict", files.model, tmp_path / "d.csv", "--features", tmp_path / "f.csv", "--json", "--quiet")
    by_table = palda("predict", files.model, tmp_path / "d.csv", "--features", files.table, "--json", "--quiet")
    assert len(_rows(result.out)) == len(numbers)
    np.testing.assert_allclose(_probs(_rows(result.out)), _probs(_rows(by_table.out)), rtol=1e-9)


def test_an_array_is_matched_by_a_file_of_ids_or_by_row_order(
    palda: Palda, world: World, files: Files, tmp_path: Path
) -> None:
    model, array = tmp_path / "m.palda", ("--features", files.array, "--feature-ids", files.ids)
    assert palda("fit", world.documents, world.votes, *array, "-o", model, *FITTING).code == 0
    by_id = palda("predict", model, world.documents, *array, "--json", "--quiet").out
    doc_ids = library.read_documents(world.documents).doc_ids
    np.save(tmp_path / "ordered.npy", library.read_features(files.array, doc_ids, ids=files.ids).values[:])
    in_order = palda("predict", model, world.documents, "--features", tmp_path / "ordered.npy", "--json", "--quiet").out
    assert by_id == in_order
    np.save(tmp_path / "longer.npy", np.zeros((len(doc_ids) + 1, 2), dtype=np.float32))
    longer = palda("predict", model, world.documents, "--features", tmp_path / "longer.npy", "-o", tmp_path / "p.csv")
    assert "longer.npy: has 61 rows, but there are 60 documents; add ids" in longer.error_line
    assert not (tmp_path / "p.csv").exists()


def test_a_folder_keeps_the_features(palda: Palda, world: World, files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    made = palda("shard", world.documents, world.votes, "--features", files.table, "-o", folder, "--json", "--quiet")
    assert json.loads(made.out)["features"] == 4
    assert palda("fit", folder, "-o", tmp_path / "m.palda", *FITTING).code == 0
    from_files, from_folder = library.load(files.model), library.load(tmp_path / "m.palda")
    np.testing.assert_array_equal(from_files.consensus_, from_folder.consensus_)  # type: ignore[union-attr]
    by_file = palda("predict", files.model, world.documents, "--features", files.table, "--json", "--quiet").out
    assert palda("predict", tmp_path / "m.palda", folder, "--json", "--quiet").out == by_file
    assert palda("predict", tmp_path / "m.palda", folder, "--features", files.table, "--json", "--quiet").out == by_file
    assert palda("fit", folder, "-o", tmp_path / "b.palda", *FITTING[:2], "--label-prior", "base_rate", "-q").code == 0
    assert library.load(tmp_path / "b.palda").feature_names_ is None


def test_evaluate_consensus_and_export_take_features(palda: Palda, world: World, files: Files, tmp_path: Path) -> None:
    given = ("--features", files.table)
    scores = json.loads(palda("evaluate", files.model, world.truth, "-d", world.documents, *given, "--json").out)
    assert scores[0]["method"] == "classifier"
    again = palda("consensus", files.model, world.documents, world.votes, *given, "--json", "--quiet")
    assert len(json.loads(again.out)) == 60
    table = palda("export", files.model, world.documents, "--to", "jsonl", *given, "--quiet")
    by_predict = palda("predict", files.model, world.documents, *given, "--json", "--quiet")
    assert _probs(_rows(table.out)) == _probs(_rows(by_predict.out))


def test_explain_names_words_and_features(palda: Palda, world: World, files: Files) -> None:
    given = ("--features", files.table, "--explain", "-n", 500, "--json", "--quiet")
    rows = _rows(palda("predict", files.model, world.documents, *given).out)
    names = {word for row in rows for words in row["words"].values() for word, _ in words}
    assert {"vector", "desk", "size"} <= names
    assert len(names) > 20


def test_the_report_shows_evidence_of_features(palda: Palda, world: World, files: Files, tmp_path: Path) -> None:
    given = ("--features", files.table, "--report", tmp_path / "r.html", "-o", tmp_path / "m.palda")
    assert palda("fit", world.documents, world.votes, *given, *FITTING).code == 0
    assert "vector" in (tmp_path / "r.html").read_text()
    assert palda("report", files.model, "-o", tmp_path / "later.html").code == 0
    assert "the report was written without features" in (tmp_path / "later.html").read_text()


@pytest.mark.parametrize("command", ["predict", "evaluate", "consensus", "export"])
def test_missing_features_are_one_clear_line(command: str, palda: Palda, world: World, files: Files) -> None:
    arguments = {
        "predict": (files.model, world.documents),
        "evaluate": (files.model, world.truth, "-d", world.documents),
        "consensus": (files.model, world.documents, world.votes),
        "export": (files.model, world.documents, "--to", "jsonl"),
    }[command]
    line = palda(command, *arguments).error_line
    assert "the model was fitted with features (vector[0], vector[1], desk, ...)" in line
    assert line.endswith("give those of the documents with --features")
    unused = palda(
        command, *(world.model if one == files.model else one for one in arguments), "--features", files.table
    )
    assert "the model was fitted without features; leave out --features" in unused.error_line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("doc,size\nnews-0001,1\n", "f.csv: has no row for document 'news-0002' (and 58 more)"),
        ("doc,size\nnews-0001,inf\n", "f.csv, row 2, column 'size': inf is infinite"),
        ("", "f.csv: is empty"),
    ],
)
def test_wrong_files_are_one_clear_line(
    content: str, message: str, palda: Palda, world: World, files: Files, tmp_path: Path
) -> None:
    (tmp_path / "f.csv").write_text(content)
    given = ("--features", tmp_path / "f.csv")
    assert message in palda("predict", files.model, world.documents, *given, "--quiet").error_line
    fitted = palda("fit", world.documents, world.votes, *given, "-o", tmp_path / "m.palda", *FITTING)
    assert message.replace("has no row", "features have no row") in fitted.error_line
    assert message in palda("shard", world.documents, world.votes, *given, "-o", tmp_path / "c", "-q").error_line


def test_other_columns_than_those_of_the_model_are_named(
    palda: Palda, world: World, files: Files, tmp_path: Path
) -> None:
    pd.read_parquet(files.table).drop(columns="desk").to_parquet(tmp_path / "f.parquet")
    lost = palda("predict", files.model, world.documents, "--features", tmp_path / "f.parquet", "--quiet")
    assert "features have no column 'desk', which the model learned from" in lost.error_line


def test_features_need_a_file_documents_and_a_prior_that_reads_them(
    palda: Palda, world: World, files: Files, tmp_path: Path
) -> None:
    assert palda("predict", files.model, world.documents, "--feature-ids", files.ids).code == 2
    assert palda("evaluate", files.model, world.truth, "--features", files.table).code == 2
    given = ("--features", files.table, "--label-prior", "base_rate", "-q", "-o", tmp_path / "m.palda")
    assert "base_rate reads no features" in palda("fit", world.documents, world.votes, *given).error_line


def test_documents_that_are_numbers_are_features_too(palda: Palda, world: World, tmp_path: Path) -> None:
    truth = pd.read_csv(world.truth)
    known = truth.drop(columns="doc").to_numpy()
    values = known[:, :4] + np.random.default_rng(0).normal(scale=0.3, size=(len(known), 4))
    numbers = pd.DataFrame(values, columns=list("wxyz")).assign(doc=truth["doc"])
    numbers.to_csv(tmp_path / "n.csv", index=False)
    model = tmp_path / "m.palda"
    report = ("--report", tmp_path / "r.html")
    assert palda("fit", tmp_path / "n.csv", world.votes, "-o", model, *report, *FITTING).code == 0
    fitted = library.load(model)
    assert fitted.feature_names_ is not None
    assert fitted.feature_names_.tolist() == list("wxyz")
    documents = library.read_documents(tmp_path / "n.csv")
    assert fitted.words_ is not None
    table = FeatureTable(documents.values, documents.features, (None,) * 4)  # type: ignore[union-attr]
    expected = fitted.predict_proba(fitted.words_.transform(documents), features=table)
    rows = _rows(palda("predict", model, tmp_path / "n.csv", "--json", "--quiet").out)
    np.testing.assert_allclose(_probs(rows), expected, rtol=1e-9)
    assert palda("evaluate", model, world.truth, "-d", tmp_path / "n.csv", "--json").code == 0
    assert palda("shard", tmp_path / "n.csv", world.votes, "-o", tmp_path / "c", "--quiet").code == 0
    assert palda("fit", tmp_path / "c", "-o", tmp_path / "s.palda", *FITTING).code == 0
    np.testing.assert_array_equal(library.load(tmp_path / "s.palda").consensus_, fitted.consensus_)  # type: ignore[union-attr]


def test_a_report_shows_the_evidence_of_features_in_documents(palda: Palda, files: Files, tmp_path: Path) -> None:
    missing = "Evidence is not shown: the report was written without features."
    for name, options in (("without", ()), ("with", ("--features", files.table))):
        assert palda("report", files.model, "-o", tmp_path / f"{name}.html", *options).code == 0
    assert missing in (tmp_path / "without.html").read_text()
    page = (tmp_path / "with.html").read_text()
    assert missing not in page
    assert '["desk",' in page
    short = tmp_path / "short.npy"
    np.save(short, np.load(files.array)[:-1])
    failed = palda("report", files.model, "-o", tmp_path / "short.html", "--features", short)
    assert failed.code != 0
    assert "short.npy" in failed.err
