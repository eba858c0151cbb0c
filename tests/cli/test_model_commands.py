"""Commands that read a model file: consensus, annotators, topics, suggest, predict, evaluate, report."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import run_main
from tests.mixed_crowd import CHANGED, COPIES, mixed_crowd

import palda as library
from palda import PALDA, CrowdPALDA, simulate

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

MODEL_COMMANDS = ("consensus", "annotators", "topics", "suggest")


@pytest.fixture(scope="module")
def crowd(world: World) -> CrowdPALDA:
    model = library.load(world.model)
    assert isinstance(model, CrowdPALDA)
    return model


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    news = simulate.newsroom(25, seed=9)
    path = tmp_path_factory.mktemp("new") / "new.csv"
    pd.DataFrame({"doc": news.doc_ids, "text": news.documents.texts}).to_csv(path, index=False)
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# contents of the model


def test_consensus_prints_the_consensus_of_the_model(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    records = json.loads(palda("consensus", world.model, "--json").out)
    np.testing.assert_array_equal([list(record["probabilities"].values()) for record in records], crowd.consensus_)
    assert [record["doc"] for record in records] == crowd.doc_ids_.tolist()
    rows = rows_of(palda("consensus", world.model, "--csv").out)
    assert list(rows[0]) == ["doc", "labels", *(f"p_{name}" for name in crowd.classes_)]
    assert [row["labels"].split(";") if row["labels"] else [] for row in rows] == [rec["labels"] for rec in records]
    lines = palda("consensus", world.model).out.splitlines()
    assert len(lines) == 60
    assert lines[0].startswith("news-0001: ")


def test_annotators_shows_copies_and_changes(palda: Palda, tmp_path: Path, world: World) -> None:
    path = tmp_path / "model.palda"
    mixed_crowd().model.save(path)
    (group,) = json.loads(palda("annotators", path, "--copies", "--json").out)
    assert group["members"] == COPIES
    (change,) = json.loads(palda("annotators", path, "--changes", "--json").out)
    assert (change["annotator"], change["kind"]) == (CHANGED, "worse")
    assert change["quality_after_high"] < change["quality_before_low"]
    assert "worse" in palda("annotators", path, "--changes").out
    assert "no annotators repeat each other's votes" in palda("annotators", world.model, "--copies").out
    refused = palda("annotators", path, "--copies", "--changes")
    assert refused.code == 2
    assert "--by-class" in refused.err


def test_consensus_of_new_documents_needs_their_votes(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    result = palda("consensus", world.model, world.documents, world.votes, "--json", "--jobs", 1)
    probs = [list(record["probabilities"].values()) for record in json.loads(result.out)]
    documents = library.read_documents(world.documents)
    assert crowd.words_ is not None
    expected = crowd.consensus(
        crowd.words_.transform(documents), library.read_votes(world.votes, documents), documents.doc_ids
    )
    np.testing.assert_allclose(probs, expected)
    assert "give the file with the votes" in palda("consensus", world.model, world.documents).error_line


def test_annotators_are_listed_by_descending_quality_with_verdicts(
    palda: Palda, world: World, crowd: CrowdPALDA
) -> None:
    rows = json.loads(palda("annotators", world.model, "--json").out)
    quality = [row["quality"] for row in rows]
    assert quality == sorted(quality, reverse=True)
    assert {row["annotator"]: row["verdict"] for row in rows} == dict(
        zip(crowd.annotator_quality_["annotator"], crowd.annotator_quality_["verdict"], strict=True)
    )
    table = palda("annotators", world.model).out
    assert table.splitlines()[0].split()[:4] == ["annotator", "quality", "low", "high"]
    by_class = rows_of(palda("annotators", world.model, "--by-class", "--csv").out)
    assert len(by_class) == 50 * 10


def test_topics_show_whole_words(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    rows = json.loads(palda("topics", world.model, "--words", 4, "--json").out)
    assert sorted(row["topic"] for row in rows) == [0, 1, 2]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert crowd.words_ is not None
    assert all(len(row["words"]) == 4 and set(row["words"]) <= set(crowd.words_.spellings_) for row in rows)
    classes = json.loads(palda("topics", world.model, "--by-class", "--json").out)
    assert [row["class"] for row in classes] == crowd.classes_.tolist()
    assert all(not set(row["words_if_present"]) & set(row["words_if_absent"]) for row in classes)


def test_suggestions_equal_those_of_the_library(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    rows = json.loads(palda("suggest", world.model, "-n", 7, "--json").out)
    pd.testing.assert_frame_equal(pd.DataFrame(rows), pd.DataFrame(crowd.suggest(7).to_dict("records")))
    assert palda("suggest", world.model, "-n", 0).code == 2


def test_assignments_equal_those_of_the_library(palda: Palda, world: World, crowd: CrowdPALDA, tmp_path: Path) -> None:
    people = tmp_path / "annotators.csv"
    people.write_text("annotator,price,max_votes\nannotator-01,2,\nnewcomer,1,3\n")
    target = tmp_path / "next.csv"
    arguments = "suggest", world.model, "--for", people, "--budget", 9, "-o", target
    assert palda(*arguments, "--target-error", 0.0001).code == 0
    expected = crowd.assign(
        ["annotator-01", "newcomer"], budget=9, price={"annotator-01": 2, "newcomer": 1},
        max_votes_per_annotator={"annotator-01": 10_000, "newcomer": 3}, target_error=0.0001,
    )  # fmt: skip
    pd.testing.assert_frame_equal(
        pd.read_csv(target), expected.astype({"doc": str, "annotator": str}), check_dtype=False
    )
    assert len(expected)
    done = palda(*arguments, "--target-error", 0.6, "--force")
    assert "target met: stop" in done.err
    assert target.read_text().startswith("annotator,doc,gain,price")
    assert not len(pd.read_csv(target))
    pending = tmp_path / "pending.csv"
    expected.to_csv(pending, index=False)
    rows = json.loads(palda("suggest", world.model, "--for", people, "-n", 5, "--pending", pending, "--json").out)
    assert not {(row["annotator"], row["doc"]) for row in rows} & set(
        zip(expected["annotator"], expected["doc"], strict=True)
    )
    labels = json.loads(palda("suggest", world.model, "--for", people, "--ask", "labels", "--json").out)
    assert all(row["labels"] for row in labels)


def test_wrong_options_of_assignments_are_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    assert palda("suggest", world.model, "--budget", 3).code == 2
    people = tmp_path / "annotators.csv"
    people.write_text("name\nann\n")
    assert "no column annotator" in palda("suggest", world.model, "--for", people).error_line
    people.write_text("annotator,price\nann,much\n")
    assert "column price must hold numbers" in palda("suggest", world.model, "--for", people).error_line
    people.write_text("annotator\nann\n")
    assert palda("suggest", world.model, "--for", people, "--target-error", 3).code == 2
    assert palda("suggest", world.model, "--for", people, "--budget", -1).code == 2


@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_tables_are_plain_when_piped(palda: Palda, world: World, command: str) -> None:
    out = palda(command, world.model).out
    assert out
    assert not set(out) & set("\x1b│─╭┃━")


@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_results_are_written_to_files_and_not_over_existing_ones(
    palda: Palda, world: World, tmp_path: Path, command: str
) -> None:
    for suffix in ("csv", "json", "jsonl", "parquet"):
        target = tmp_path / f"out.{suffix}"
        result = palda(command, world.model, "-o", target)
        assert (result.code, result.out) == (0, "")
    rows = json.loads((tmp_path / "out.json").read_text())
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == len(rows)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(rows)
    assert len(rows_of((tmp_path / "out.csv").read_text())) == len(rows)
    assert "--force" in palda(command, world.model, "-o", tmp_path / "out.csv").error_line
    assert palda(command, world.model, "-o", tmp_path / "out.csv", "--force").code == 0
    assert "choose such a name" in palda(command, world.model, "-o", tmp_path / "out.html").error_line
    assert "there is no folder" in palda(command, world.model, "-o", tmp_path / "no" / "out.csv").error_line
    assert len(list(tmp_path.iterdir())) == 4


# a model without annotators


def test_a_model_fitted_to_known_labels_has_no_annotators(
    palda: Palda, world: World, tmp_path: Path, new: Path
) -> None:
    counts = np.array([[1, 2], [2, 0], [0, 3]])
    PALDA(1, random_state=0, tol=0.1).fit(counts, np.array([[1, 0], [0, 1], [1, 1]])).save(tmp_path / "m")
    for command in ("consensus", "annotators", "suggest"):
        assert "it has no annotators" in palda(command, tmp_path / "m").error_line
    assert "pass --documents" in palda("evaluate", tmp_path / "m", world.truth).error_line
    assert palda("topics", tmp_path / "m").code == 0
    assert "save(path, words=...)" in palda("predict", tmp_path / "m", new).error_line


# predict


def test_predictions_equal_those_of_the_library_in_every_format(
    palda: Palda, world: World, crowd: CrowdPALDA, new: Path, tmp_path: Path
) -> None:
    assert crowd.words_ is not None
    counts = crowd.words_.transform(pd.read_csv(new)["text"])
    probs, labels = crowd.predict_proba(counts), crowd.predict(counts)
    records = [json.loads(line) for line in palda("predict", world.model, new, "--json", "--jobs", 1).out.splitlines()]
    np.testing.assert_array_equal([list(record["probabilities"].values()) for record in records], probs)
    named = [[name for name, there in zip(crowd.classes_, row, strict=True) if there] for row in labels]
    assert [record["labels"] for record in records] == named
    assert palda("predict", world.model, new, "-o", tmp_path / "p.parquet").code == 0
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert [list(cell) for cell in table["labels"]] == named
    np.testing.assert_array_equal(table[[f"p_{name}" for name in crowd.classes_]], probs)
    rows = rows_of(palda("predict", world.model, new, "--csv").out)
    assert [float(row["p_arts"]) for row in rows] == probs[:, 0].tolist()


def test_explain_adds_the_words_with_the_strongest_evidence(
    palda: Palda, world: World, crowd: CrowdPALDA, new: Path
) -> None:
    out = palda("predict", world.model, new, "--json", "--explain", "--words", 2).out
    records = [json.loads(line) for line in out.splitlines()]
    assert crowd.words_ is not None
    counts = crowd.words_.transform(pd.read_csv(new)["text"])
    place, label = next((place, rec["labels"][0]) for place, rec in enumerate(records) if rec["labels"])
    table = crowd.explain(counts[[place]], label)
    best = table[(table["weight"] > 0) & (table["word"] != "(rest)")].head(2)
    whole = dict(zip(crowd.vocabulary_, crowd.words_.spellings_, strict=True))
    strongest = [whole[word] for word in best["word"]]
    assert [word for word, _ in records[place]["words"][label]] == strongest
    assert [weight for _, weight in records[place]["words"][label]] == pytest.approx(best["weight"].tolist())
    rows = rows_of(palda("predict", world.model, new, "--csv", "--explain").out)
    assert rows[place]["words"].startswith(f"{label}: {strongest[0]} +")
    assert f"    {label}: {strongest[0]} +" in palda("predict", world.model, new, "--explain").out


def test_every_table_format_is_predicted_in_chunks(
    palda: Palda, world: World, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = palda("predict", world.model, new, "--csv").out
    frame = pd.read_csv(new)
    frame.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "new.json", orient="records")
    frame.to_parquet(tmp_path / "new.parquet")
    frame.to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    (tmp_path / "new.csv.gz").write_bytes(gzip.compress(new.read_bytes()))
    monkeypatch.setattr("palda.cli.commands.predict._CHUNK", 4)
    for path in sorted(tmp_path.iterdir()):
        assert palda("predict", world.model, path, "--csv").out == whole, path.name


@pytest.mark.cluster
def test_dask_predicts_the_same_and_unknown_engines_are_refused(
    palda: Palda, world: World, new: Path, tmp_path: Path
) -> None:
    dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'palda[dask]'")
    by_threads, by_dask = tmp_path / "threads.csv", tmp_path / "dask.csv"
    assert palda("predict", world.model, new, "-o", by_threads, "--quiet").code == 0
    assert palda("predict", world.model, new, "-o", by_dask, "--quiet", "--engine", "dask", "--jobs", 1).code == 0
    assert by_dask.read_bytes() == by_threads.read_bytes()
    assert palda("predict", world.model, new, "--engine", "threats").code == 2
    with dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}):
        answer = palda("predict", world.model, new, "--quiet", "--engine", "tcp://127.0.0.1:1")
    assert "no Dask scheduler at tcp://127.0.0.1:1" in answer.error_line


@pytest.mark.slow
def test_predict_reads_standard_input_and_accepts_a_closed_pipe(world: World) -> None:
    command = [sys.executable, "-m", "palda", "predict", str(world.model), "-", "--csv"]
    many = "doc,text\n" + "".join(f"d{number},election parliament\n" for number in range(12_000))
    script = ["bash", "-c", 'set -o pipefail; "$@" | head -n 2', "palda", *command]
    piped = subprocess.run(script, input=many, capture_output=True, text=True, check=False)  # noqa: S603
    assert (piped.returncode, piped.stderr) == (0, "")
    assert len(piped.stdout.splitlines()) == 2


def test_invalid_new_documents_are_reported_in_one_line(palda: Palda, world: World, new: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    target = tmp_path / "out.csv"
    for content, message in (
        ("", "is empty"),
        ("doc,text\n", "has a header but no rows"),
        ("name,text\na,words\n", "pass --id ..."),
        ("doc,title,summary\na,some words,more words\n", "with --text ..."),
        ("doc,width\na,1\n", "the model needs texts"),
        ("doc,text\na,words\na,words\n", "duplicate id"),
        ('doc,text\na,"words\n', "a quote is opened"),
        ("doc,text\na,words,more\n", "row 2: has 3 cells"),
    ):
        file.write_text(content)
        assert message in palda("predict", world.model, file, "-o", target).error_line
        assert not target.exists()
    assert "no such file" in palda("predict", world.model, tmp_path / "none.csv").error_line
    assert "there is no column 'body'" in palda("predict", world.model, new, "--text", "body").error_line
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_control_characters_in_names_are_not_printed(palda: Palda, world: World, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("doc,text\n\x1b[31mred,election\n")
    assert "\x1b" not in palda("predict", world.model, tmp_path / "new.csv").out


def test_half_of_a_surrogate_pair_is_refused_in_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text('{"doc": "\\ud800", "text": "election"}\n')
    target = tmp_path / "out.csv"
    for arguments in (["--csv"], ["--json"], [], ["-o", target]):
        line = palda("predict", world.model, tmp_path / "new.jsonl", *arguments).error_line
        assert "new.jsonl, row 1: cannot be read as JSON: \\ud800 is half of a surrogate pair" in line
    assert not target.exists()


# evaluate


def test_evaluate_compares_consensus_and_majority_vote_with_gold(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    rows = {row["method"]: row for row in json.loads(palda("evaluate", world.model, world.truth, "--json").out)}
    truth = pd.read_csv(world.truth, index_col="doc")[crowd.classes_].to_numpy()
    assert rows["consensus"]["micro_f1"] == library.metrics.micro_f1(truth, crowd.consensus_ >= 0.5)
    assert rows["consensus"]["micro_f1"] > rows["majority vote"]["micro_f1"]
    assert rows["no label at all"]["micro_f1"] == 0.0
    assert rows["no label at all"]["log_likelihood"] is None
    assert "600 known labels of 60 documents" in palda("evaluate", world.model, world.truth).out


def test_evaluate_compares_predictions_for_other_documents_with_gold(
    palda: Palda, world: World, crowd: CrowdPALDA, tmp_path: Path, new: Path
) -> None:
    news = simulate.newsroom(25, seed=9)
    gold = pd.DataFrame(news.labels, columns=news.classes)
    gold.insert(0, "doc", news.doc_ids)
    gold.to_csv(tmp_path / "gold.csv", index=False)
    rows = json.loads(palda("evaluate", world.model, tmp_path / "gold.csv", "-d", new, "--json").out)
    assert crowd.words_ is not None
    predicted = crowd.predict(crowd.words_.transform(news.documents))
    assert rows[0]["micro_f1"] == pytest.approx(library.metrics.micro_f1(news.labels, predicted))


@pytest.fixture(scope="module")
def gold_fit(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with gold columns for the first 40 of 60, and a model that was fitted to them."""
    folder = tmp_path_factory.mktemp("gold fit")
    table = pd.read_csv(world.documents)
    truth = pd.read_csv(world.truth).set_index("doc").loc[table["doc"]].reset_index(drop=True).astype("Int8")
    truth.iloc[40:] = pd.NA
    table.join(truth.add_prefix("gold_")).to_csv(folder / "documents.csv", index=False)
    fitting = ("--topics", 3, "--label-prior", "words", "--jobs", 1, "--quiet")
    assert run_main("fit", folder / "documents.csv", world.votes, "-o", folder / "model.palda", *fitting) == 0
    return folder


def test_evaluate_leaves_out_documents_whose_gold_the_fit_used(palda: Palda, world: World, gold_fit: Path) -> None:
    result = palda("evaluate", gold_fit / "model.palda", world.truth, "--json")
    (line,) = result.err.splitlines()
    assert "the fit used gold labels of 40 of the 60 documents, which the consensus repeats" in line
    rows = {row["method"]: row for row in json.loads(result.out)}
    model = library.load(gold_fit / "model.palda")
    assert isinstance(model, CrowdPALDA)
    assert model.gold_check_ is not None
    truth = pd.read_csv(world.truth, index_col="doc").loc[model.doc_ids_, model.classes_].to_numpy()
    rest = library.metrics.micro_f1(truth[40:], model.consensus_[40:] >= 0.5)
    assert rows["consensus"]["micro_f1"] == rest < 1
    assert rows["consensus, gold held back"]["micro_f1"] == model.gold_check_.micro_f1 < 1
    assert rows["consensus, gold held back"]["hamming_accuracy"] is None


def test_evaluate_shows_only_held_back_scores_if_the_fit_used_all_gold(palda: Palda, gold_fit: Path) -> None:
    result = palda("evaluate", gold_fit / "model.palda", gold_fit / "documents.csv")
    assert "the fit used gold labels of 40 of the 40 documents" in result.err
    assert "1.000" not in result.out
    assert "consensus, gold held back" in result.out
    assert "400 gold labels of 40 documents" in result.out


def test_evaluate_without_unused_or_held_back_gold_is_an_error(palda: Palda, world: World, tmp_path: Path) -> None:
    few = tmp_path / "gold.csv"
    pd.read_csv(world.truth)[:2].to_csv(few, index=False)
    fitting = ("--topics", 3, "--label-prior", "base_rate", "--max-iter", 2, "--jobs", 1, "--quiet")
    assert palda("fit", world.documents, world.votes, "--gold", few, "-o", tmp_path / "m", *fitting).code == 0
    assert "gold labels of 2 of the 2 documents" in palda("evaluate", tmp_path / "m", few).error_line


def test_evaluate_says_if_a_model_does_not_know_its_gold(palda: Palda, world: World, tmp_path: Path) -> None:
    forgetful = library.load(world.model)
    assert isinstance(forgetful, CrowdPALDA)
    forgetful._record = None
    forgetful.save(tmp_path / "m")
    result = palda("evaluate", tmp_path / "m", world.truth)
    assert result.code == 0
    assert "does not say which gold labels its fit used" in result.err


def test_invalid_gold_is_reported_in_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    file = tmp_path / "gold.csv"
    for content, message in (
        ("doc,annotator,label,value\nnews-0001,ann,arts,1\n", "is this a file of votes?"),
        ("doc,label,value\nnews-0001,arts,\n", "no known label"),
        ("doc,label,value\nnews-0001,artz,1\n", "artz"),
        ("doc,label,value\nelsewhere,arts,1\n", "elsewhere"),
        ("doc,label,value\nnews-0001,arts,1\nnews-0001,arts,0\n", "news-0001"),
    ):
        file.write_text(content)
        assert message in palda("evaluate", world.model, file).error_line
    assert "no such file" in palda("evaluate", world.model, tmp_path / "none.csv").error_line


# report


def test_the_report_is_overwritten_only_with_force(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    assert palda("report", world.model, "-o", target).code == 0
    assert '<h1 dir="auto">palda report: model</h1>' in target.read_text()
    assert palda("report", world.model, "-o", target, "--force", "--title", "a <b> heading").code == 0
    assert "a &lt;b&gt; heading" in target.read_text()
    assert "--force" in palda("report", world.model, "-o", target).error_line


def test_the_report_is_not_written_to_a_folder_or_a_missing_one(palda: Palda, world: World, tmp_path: Path) -> None:
    assert "is a folder" in palda("report", world.model, "-o", tmp_path).error_line
    assert "there is no folder" in palda("report", world.model, "-o", tmp_path / "no" / "r.html").error_line


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_reported(palda: Palda, world: World, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "no permission" in palda("annotators", world.model, "-o", tmp_path / "a.csv").error_line
