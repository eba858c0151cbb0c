from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import palda as library
from palda import CrowdPALDA

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

QUICK = ("--topics", 2, "--label-prior", "base_rate", "--jobs", 1)


def test_the_summary_tells_of_crowd_consensus_and_fit_and_what_to_do_next(
    palda: Palda, world: World, tmp_path: Path
) -> None:
    ended = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK)
    assert ended.code == 0
    lines = ended.out.splitlines()
    starts = ("documents", "votes", "classes", "agreement", "annotators", "consensus", "fit", "written", "next:")
    assert all(any(line.startswith(start) for line in lines) for start in starts)
    assert "60, 60 of them with votes" in ended.out
    assert "3,000 by 50 annotators" in ended.out
    assert "annotator-01" in next(line for line in lines if line.startswith("  adversarial"))  # who lies is named
    assert f"palda report {tmp_path / 'm.palda'}" in ended.out
    assert "palda: iteration   1" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["m.palda"]


def test_one_command_goes_from_files_to_the_report(palda: Palda, world: World, tmp_path: Path) -> None:
    model, page = tmp_path / "news.palda", tmp_path / "news.html"
    ended = palda("fit", world.documents, world.votes, "-o", model, "--report", page, *QUICK, "--quiet")
    assert ended.code == 0
    assert f"open {page} in a browser" in ended.out
    assert "palda report" not in ended.out
    assert "palda report: news" in page.read_text()
    assert palda("report", model, "-o", tmp_path / "again.html").code == 0
    assert (tmp_path / "again.html").read_text() == page.read_text()


def test_labels_that_come_with_documents_are_told_of_and_can_be_left_out(palda: Palda, tmp_path: Path) -> None:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    documents.write_text("doc,text,gold_trade\n" + "".join(f"d{k},ships and wheat,0\n" for k in range(4)))
    votes.write_text("doc,annotator,label,value\n" + "".join(f"d{k},ann,trade,1\n" for k in range(4)))
    call = ("fit", documents, votes, "-o", tmp_path / "m", *QUICK, "--quiet", "--force")
    told = palda(*call).out
    assert "known         4 of 4 labels (gold), believed as they are" in told
    assert "not known: no document was judged by two people" in told
    assert json.loads(palda(*call, "--json").out)["agreement"] is None
    assert palda("consensus", tmp_path / "m").out.count("(none)") == 4
    assert json.loads(palda(*call, "--no-gold", "--json").out)["n_gold"] == 0
    assert palda("consensus", tmp_path / "m").out.count("trade") == 4


def test_quiet_says_nothing_but_results_and_json_is_for_machines(palda: Palda, world: World, tmp_path: Path) -> None:
    ended = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK, "--quiet", "--json")
    assert ended.err == ""
    found = json.loads(ended.out)
    assert (found["n_docs"], found["n_votes"], len(found["classes"])) == (60, 3000, 10)
    assert sum(found["verdicts"].values()) == 50
    assert set(found["suspicious"]["adversarial"]) <= {f"annotator-{number:02d}" for number in range(1, 11)}


def test_the_model_file_keeps_what_is_needed_to_go_on(world: World) -> None:
    model = library.load(world.model)
    assert isinstance(model, CrowdPALDA)
    assert model.words_ is not None
    assert model.texts_ is not None
    assert model.votes_ is not None
    assert len(model.texts_) == 60
    assert len(model.votes_) == 3000
    assert "elect" in model.vocabulary_.tolist()


def test_texts_can_be_left_out(palda: Palda, world: World, tmp_path: Path) -> None:
    ended = palda("fit", world.documents, world.votes, "-o", tmp_path / "m.palda", *QUICK, "--no-texts", "--quiet")
    assert ended.code == 0
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


def test_one_table_may_hold_documents_and_votes(palda: Palda, tmp_path: Path) -> None:
    rows = [f"d{k},{'ships and wheat' if k % 2 else 'banks and money'},{who},{'trade' if k % 2 else 'finance;law'}\n"
            for k in range(6) for who in ("ann", "bob")]  # fmt: skip
    (tmp_path / "all.csv").write_text("doc,text,annotator,labels\n" + "".join(rows))
    ended = palda("fit", tmp_path / "all.csv", "-o", tmp_path / "m", *QUICK, "--min-count", 1, "--json", "--quiet")
    assert ended.code == 0
    assert json.loads(ended.out)["classes"] == ["finance", "law", "trade"]
    assert json.loads(ended.out)["n_votes"] == 36


def test_an_export_is_recognised(palda: Palda, tmp_path: Path) -> None:
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
    ended = palda("fit", tmp_path / "export.json", "-o", tmp_path / "m", *QUICK, "--min-count", 1, "--json", "--quiet")
    assert ended.code == 0
    assert json.loads(ended.out)["classes"] == ["c0", "c1"]
    wrong = palda("fit", tmp_path / "export.json", "-o", tmp_path / "n", "--layout", "long")
    assert "layout does not apply to exports of labelstudio" in wrong.complaint


def test_numbers_are_documents_too(palda: Palda, tmp_path: Path) -> None:
    rows = [f"d{k},{k / 7},{(k * 3) % 5}\n" for k in range(12)]
    (tmp_path / "values.csv").write_text("doc,width,height\n" + "".join(rows))
    votes = [f"d{k},{who},wide,{int(k > 5)}\n" for k in range(12) for who in ("ann", "bob")]
    (tmp_path / "votes.csv").write_text("doc,annotator,label,value\n" + "".join(votes))
    ended = palda("fit", tmp_path / "values.csv", tmp_path / "votes.csv", "-o", tmp_path / "m", *QUICK, "--quiet")
    assert ended.code == 0
    assert palda("predict", tmp_path / "m", tmp_path / "values.csv").out.count("\n") == 12
    (tmp_path / "texts.csv").write_text("doc,text\nd1,some words\n")
    assert "reads numbers" in palda("predict", tmp_path / "m", tmp_path / "texts.csv").complaint


def test_known_labels_are_believed(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "m"
    ended = palda("fit", world.documents, world.votes, "-o", target, "--gold", world.truth, *QUICK, "--quiet")
    assert ended.code == 0
    scores = json.loads(palda("evaluate", target, world.truth, "--json").out)
    assert scores[0]["micro_f1"] == 1.0


def test_votes_are_read_from_standard_input(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.votes.open() as votes:
        monkeypatch.setattr(sys, "stdin", votes)
        ended = palda("fit", world.documents, "-", *QUICK, "-o", tmp_path / "m", "--json")
    assert json.loads(ended.out)["n_votes"] == 3000


@pytest.mark.parametrize(
    ("name", "votes", "message"),
    [
        ("votes.csv", "doc,annotator,label,value\n", "has a header but no rows"),
        ("votes.csv", "", "is empty"),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,arts,\n", "not a single vote"),
        ("votes.csv", "doc,who,label,value\nnews-0001,ann,arts,1\n", "pass --column annotator=..."),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,arts,maybe\n", "row 2, column 'value'"),
        ("votes.csv", "doc,annotator,label,value\nnews-9999,ann,arts,1\n", "news-9999"),
        ("votes.csv", "doc,annotator,label,value\nnews-0001,ann,\xe4,1\n", "pass its encoding, such as --encoding"),
        ("votes.xlsx", "PK", "files ending in '.xlsx' are not known"),
        ("votes.jsonl", "{", "is not JSON"),
    ],
)
def test_what_is_wrong_with_votes_is_one_line(
    palda: Palda, world: World, tmp_path: Path, name: str, votes: str, message: str
) -> None:
    (tmp_path / name).write_bytes(votes.encode("latin-1"))
    line = palda("fit", world.documents, tmp_path / name, "-o", tmp_path / "m", "--quiet").complaint
    assert name in line
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_that_are_missing_or_alone_are_one_line(palda: Palda, world: World, tmp_path: Path) -> None:
    target = ("-o", tmp_path / "m")
    assert "no such file" in palda("fit", "nowhere.csv", world.votes, *target).complaint
    assert "no such file" in palda("fit", world.documents, "nowhere.csv", *target).complaint
    assert "give the file with the votes" in palda("fit", world.documents, *target).complaint
    assert "give the documents as well" in palda("fit", world.votes, *target).complaint
    assert "only one of the files" in palda("fit", "-", "-", *target).complaint


def test_nothing_is_overwritten_unless_forced(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / "m.palda"
    target.write_text("precious")
    arguments = ("fit", world.documents, world.votes, "-o", target, *QUICK, "--quiet")
    assert "pass --force" in palda(*arguments).complaint
    assert target.read_text() == "precious"
    assert palda(*arguments, "--force").code == 0
    assert "there is no folder" in palda("fit", world.documents, "-o", tmp_path / "none" / "m").complaint
    assert "is a folder" in palda("fit", world.documents, "-o", tmp_path).complaint


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
def test_a_wrong_call_ends_with_2(
    palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = palda(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "Error" in ended.err


# aggregate


def test_votes_alone_give_labels_and_annotators(palda: Palda, world: World, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    ended = palda("aggregate", world.votes, "--json", "--jobs", 1, "--annotators-output", people)
    assert ended.code == 0
    records = json.loads(ended.out)
    assert [record["doc"] for record in records][:2] == ["news-0001", "news-0002"]
    assert all((record["probabilities"][name] >= 0.5) == (name in record["labels"])
               for record in records for name in record["probabilities"])  # fmt: skip
    assert "palda: agreement" in ended.err
    header, *rows = people.read_text().splitlines()
    assert header.startswith("annotator,quality,low,high,")
    assert len(rows) == 50
    found = library.aggregate(library.read_votes(world.votes))
    np.testing.assert_array_equal([list(record["probabilities"].values()) for record in records], found.consensus)


def test_wrong_columns_and_missing_votes_are_one_line_for_aggregate(palda: Palda, world: World, tmp_path: Path) -> None:
    assert "no column for the annotator" in palda("aggregate", world.truth).complaint
    assert "no such file" in palda("aggregate", tmp_path / "none.csv").complaint
    (tmp_path / "out.csv").write_text("")
    assert "--force" in palda("aggregate", world.votes, "-o", tmp_path / "out.csv").complaint
    assert palda("aggregate", world.votes, "--json", "--csv").code == 2
