from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import palda as library
from palda import CrowdPALDA

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

QUICK = ("--topics", 2, "--label-prior", "base_rate", "--jobs", 1)


def test_the_summary_shows_votes_consensus_fit_and_next_steps(palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK)
    assert result.code == 0
    lines = result.out.splitlines()
    starts = ("documents", "votes", "classes", "agreement", "annotators", "consensus", "fit", "written", "next steps:")
    assert all(any(line.startswith(start) for line in lines) for start in starts)
    assert "60, 60 of them with votes" in result.out
    assert "3,000 by 50 annotators" in result.out
    assert "with too few votes to tell" in next(line for line in lines if line.startswith("annotators"))
    assert f"palda report {tmp_path / 'm.palda'}" in result.out
    assert "palda: iteration   1" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["m.palda"]


def test_fit_writes_the_same_report_as_the_report_command(palda: Palda, world: World, tmp_path: Path) -> None:
    model, page = tmp_path / "news.palda", tmp_path / "news.html"
    result = palda("fit", world.documents, world.votes, "-o", model, "--report", page, *QUICK, "--quiet")
    assert result.code == 0
    assert f"open {page} in a browser" in result.out
    assert "palda report" not in result.out
    assert "palda report: news" in page.read_text()
    assert palda("report", model, "-o", tmp_path / "again.html").code == 0
    assert (tmp_path / "again.html").read_text() == page.read_text()


def test_the_report_of_fit_uses_the_fitted_model_and_its_counts(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the model file is loaded nor are the texts tokenised a second time."""

    def fail(*given: object, **options: object) -> None:
        raise AssertionError("called")

    monkeypatch.setattr("palda.estimators.load", fail)
    monkeypatch.setattr(library.TextWords, "transform", fail)
    page = tmp_path / "r.html"
    arguments = ("fit", world.documents, world.votes, "-o", tmp_path / "m", "--report", page, *QUICK, "--quiet")
    assert palda(*arguments).code == 0
    assert "Evidence is not shown" not in page.read_text()


@pytest.mark.parametrize("label_prior", ["stacked", "base_rate"])
def test_fit_without_texts_writes_the_same_report_as_the_report_command(
    palda: Palda, world: World, tmp_path: Path, label_prior: str
) -> None:
    model, page, again = tmp_path / "m.palda", tmp_path / "m.html", tmp_path / "again.html"
    options = ("--topics", 2, "--max-iter", 3, "--label-prior", label_prior, "--jobs", 1, "--no-texts", "--quiet")
    assert palda("fit", world.documents, world.votes, "-o", model, "--report", page, *options).code == 0
    assert palda("report", model, "-o", again).code == 0
    assert again.read_text() == page.read_text()


def test_gold_columns_are_used_unless_no_gold_is_passed(palda: Palda, tmp_path: Path) -> None:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    documents.write_text("doc,text,gold_trade\n" + "".join(f"d{k},ships and wheat,0\n" for k in range(4)))
    votes.write_text("doc,annotator,label,value\n" + "".join(f"d{k},ann,trade,1\n" for k in range(4)))
    call = ("fit", documents, votes, "-o", tmp_path / "m", *QUICK, "--quiet", "--force")
    out = palda(*call).out
    assert "gold          4 of 4 labels are known" in out
    assert "unknown: no document has votes of two annotators on all classes" in out
    assert json.loads(palda(*call, "--json").out)["agreement"] is None
    assert palda("consensus", tmp_path / "m").out.count("(none)") == 4
    assert json.loads(palda(*call, "--no-gold", "--json").out)["n_gold"] == 0
    assert palda("consensus", tmp_path / "m").out.count("trade") == 4


def test_quiet_writes_no_messages_and_json_prints_the_summary(palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK, "--quiet", "--json")
    assert result.err == ""
    found = json.loads(result.out)
    assert (found["n_docs"], found["n_votes"], len(found["classes"])) == (60, 3000, 10)
    assert found["verdicts"]["too few votes"] >= 49  # who judged fewer than ten documents
    assert sum(found["verdicts"].values()) == 50


def test_the_summary_names_adversarial_annotators(palda: Palda, tmp_path: Path) -> None:
    assert palda("simulate", tmp_path, "--documents", 160, "--crowd", "adversarial", "--seed", 5, "--quiet").code == 0
    call = ("fit", tmp_path / "documents.csv", tmp_path / "votes.csv", *QUICK, "--quiet", "--force")
    lines = palda(*call, "-o", tmp_path / "m").out.splitlines()
    assert "annotator-01" in next(line for line in lines if line.startswith("  adversarial"))
    found = json.loads(palda(*call, "-o", tmp_path / "m", "--json").out)
    assert sum(found["verdicts"].values()) == 50
    assert set(found["suspicious"]["adversarial"]) <= {f"annotator-{number:02d}" for number in range(1, 11)}


def test_the_model_file_stores_transformer_texts_and_votes(world: World) -> None:
    model = library.load(world.model)
    assert isinstance(model, CrowdPALDA)
    assert model.words_ is not None
    assert model.texts_ is not None
    assert model.votes_ is not None
    assert len(model.texts_) == 60
    assert len(model.votes_) == 3000
    assert "elect" in model.vocabulary_.tolist()


def test_no_texts_keeps_the_texts_out_of_the_model_file(palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK, "--no-texts", "--quiet")
    assert result.code == 0
    model = library.load(tmp_path / "m.palda")
    assert model.texts_ is None
    assert model.votes_ is not None
    assert b"shopkeepers" not in (tmp_path / "m.palda").read_bytes()


def test_the_same_seed_gives_the_same_model(palda: Palda, world: World, tmp_path: Path) -> None:
    for name in ("one", "two"):
        palda("fit", world.documents, world.votes, "-o", tmp_path / name, *QUICK, "--seed", 3, "--quiet")
    one, two = (library.load(tmp_path / name) for name in ("one", "two"))
    assert isinstance(one, CrowdPALDA)
    assert isinstance(two, CrowdPALDA)
    np.testing.assert_array_equal(one.consensus_, two.consensus_)


def test_one_table_can_hold_documents_and_votes(palda: Palda, tmp_path: Path) -> None:
    rows = [f"d{k},{'ships and wheat' if k % 2 else 'banks and money'},{who},{'trade' if k % 2 else 'finance;law'}\n"
            for k in range(6) for who in ("ann", "bob")]  # fmt: skip
    (tmp_path / "all.csv").write_text("doc,text,annotator,labels\n" + "".join(rows))
    result = palda("fit", tmp_path / "all.csv", "-o", tmp_path / "m", *QUICK, "--min-count", 1, "--json", "--quiet")
    assert result.code == 0
    assert json.loads(result.out)["classes"] == ["finance", "law", "trade"]
    assert json.loads(result.out)["n_votes"] == 36


def test_an_export_is_recognised_by_its_content(palda: Palda, tmp_path: Path) -> None:
    tasks = [
        {
            "id": number,
            "data": {"text": "ships carry wheat" if number % 2 else "banks lend money"},
            "annotations": [
                {
                    "completed_by": who,
                    "result": [{"from_name": "topic", "type": "choices", "value": {"choices": [f"c{number % 2}"]}}],
                }
                for who in (1, 2)
            ],
        }
        for number in range(6)
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    result = palda("fit", tmp_path / "export.json", "-o", tmp_path / "m", *QUICK, "--min-count", 1, "--json", "--quiet")
    assert result.code == 0
    assert json.loads(result.out)["classes"] == ["c0", "c1"]
    wrong = palda("fit", tmp_path / "export.json", "-o", tmp_path / "n", "--layout", "long")
    assert "layout does not apply to exports of labelstudio" in wrong.error_line


def test_documents_can_be_numbers(palda: Palda, tmp_path: Path) -> None:
    rows = [f"d{k},{k / 7},{(k * 3) % 5}\n" for k in range(12)]
    (tmp_path / "values.csv").write_text("doc,width,height\n" + "".join(rows))
    votes = [f"d{k},{who},wide,{int(k > 5)}\n" for k in range(12) for who in ("ann", "bob")]
    (tmp_path / "votes.csv").write_text("doc,annotator,label,value\n" + "".join(votes))
    result = palda("fit", tmp_path / "values.csv", tmp_path / "votes.csv", "-o", tmp_path / "m", *QUICK, "--quiet")
    assert result.code == 0
    assert palda("predict", tmp_path / "m", tmp_path / "values.csv").out.count("\n") == 12
    (tmp_path / "texts.csv").write_text("doc,text\nd1,some words\n")
    assert "needs numbers" in palda("predict", tmp_path / "m", tmp_path / "texts.csv").error_line


def test_gold_labels_become_the_consensus(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "m"
    result = palda("fit", world.documents, world.votes, "-o", target, "--gold", world.truth, *QUICK, "--quiet")
    assert result.code == 0
    model = library.load(target)
    assert isinstance(model, CrowdPALDA)
    truth = pd.read_csv(world.truth, index_col="doc").loc[model.doc_ids_, model.classes_]
    np.testing.assert_array_equal(model.consensus_, truth)
    np.testing.assert_array_equal(model.known_labels_, truth)


def test_votes_are_read_from_standard_input(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.votes.open() as votes:
        monkeypatch.setattr(sys, "stdin", votes)
        result = palda("fit", world.documents, "-", *QUICK, "-o", tmp_path / "m", "--json")
    assert json.loads(result.out)["n_votes"] == 3000


@pytest.mark.parametrize(
    ("name", "votes", "message"),
    [
        ("votes.csv", "doc,annotator,label,value\n", "has a header but no rows"),
        ("votes.csv", "", "is empty"),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,arts,\n", "has no votes"),
        ("votes.csv", "doc,who,label,value\nnews-0001,ann,arts,1\n", "pass --column annotator=..."),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,arts,maybe\n", "row 2, column 'value'"),
        ("votes.csv", "doc,annotator,label,value\nnews-9999,ann,arts,1\n", "news-9999"),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,\xe4,1\n", "pass its encoding, such as --encoding"),
        ("votes.xlsx", "PK", "files ending in '.xlsx' are not known"),
        ("votes.jsonl", "{", "is not JSON"),
    ],
)
def test_an_invalid_vote_file_is_reported_in_one_line(
    palda: Palda, world: World, tmp_path: Path, name: str, votes: str, message: str
) -> None:
    (tmp_path / name).write_bytes(votes.encode("latin-1"))
    line = palda("fit", world.documents, tmp_path / name, "-o", tmp_path / "m", "--quiet").error_line
    assert name in line
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_missing_files_are_reported_in_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    target = ("-o", tmp_path / "m")
    assert "no such file" in palda("fit", "nowhere.csv", world.votes, *target).error_line
    assert "no such file" in palda("fit", world.documents, "nowhere.csv", *target).error_line
    assert "give the file with the votes" in palda("fit", world.documents, *target).error_line
    assert "give the documents as well" in palda("fit", world.votes, *target).error_line
    assert "only one of the files" in palda("fit", "-", "-", *target).error_line
    (tmp_path / "x.arff").write_text("@relation x\n@attribute a numeric\n@attribute c {0,1}\n@data\n1.5,1\n0.5,0\n")
    assert "contains no votes" in palda("fit", tmp_path / "x.arff", "--classes", "c", *target).error_line


def test_existing_files_are_overwritten_only_with_force(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "m.palda"
    target.write_text("precious")
    arguments = ("fit", world.documents, world.votes, "-o", target, *QUICK, "--quiet")
    assert "pass --force" in palda(*arguments).error_line
    assert target.read_text() == "precious"
    assert palda(*arguments, "--force").code == 0
    assert "there is no folder" in palda("fit", world.documents, "-o", tmp_path / "none" / "m").error_line
    assert "is a folder" in palda("fit", world.documents, "-o", tmp_path).error_line


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "documents.csv", "--topics", "0"],
        ["fit", "documents.csv", "--annotators", "three_coin"],
        ["fit", "documents.csv", "--format", "excel"],
        ["fit", "documents.csv", "--column", "who=x"],
        ["fit", "documents.csv", "--seed", "-1"],
        ["fit", "documents.csv", "--jobs", "0"],
        ["fit", "documents.csv", "--no-such-option"],
    ],
)
def test_a_wrong_call_exits_with_2(
    palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = palda(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Error" in result.err


# aggregate


def test_aggregate_finds_labels_and_annotators_from_votes(palda: Palda, world: World, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    result = palda("aggregate", world.votes, "--json", "--jobs", 1, "--annotators-output", people)
    assert result.code == 0
    records = json.loads(result.out)
    assert [record["doc"] for record in records][:2] == ["news-0001", "news-0002"]
    assert all((record["probabilities"][name] >= 0.5) == (name in record["labels"])
               for record in records for name in record["probabilities"])  # fmt: skip
    assert "palda: agreement" in result.err
    header, *rows = people.read_text().splitlines()
    assert header.startswith("annotator,quality,low,high,")
    assert len(rows) == 50
    found = library.aggregate(library.read_votes(world.votes))
    np.testing.assert_array_equal([list(record["probabilities"].values()) for record in records], found.consensus)


def test_aggregate_reports_wrong_columns_and_missing_files_in_one_line(
    palda: Palda, world: World, tmp_path: Path
) -> None:
    assert "no column for the annotator" in palda("aggregate", world.truth).error_line
    assert "no such file" in palda("aggregate", tmp_path / "none.csv").error_line
    (tmp_path / "out.csv").write_text("")
    assert "--force" in palda("aggregate", world.votes, "-o", tmp_path / "out.csv").error_line
    assert palda("aggregate", world.votes, "--json", "--csv").code == 2
