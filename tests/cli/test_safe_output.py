"""Output that is safe to open: formulas in spreadsheets, and invisible characters on the terminal and in the report."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import run_main

from palda import CrowdPALDA, Votes
from palda.data import Corpus
from palda.io import visible
from palda.report import render_report

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

FORMULAS = ["=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(A1)", "=HYPERLINK(1)", "＝1"]
VOTES = "doc,annotator,labels\n" + "".join(f'"{name}","{name} x",{label}\n' for name, label in [
    *zip(FORMULAS, "ababab", strict=True), ("-5", "a"), ("+1.5e3", "b"), ("plain", "a;b"),
])  # fmt: skip


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.csv"
    path.write_text(VOTES)
    return path


def test_spreadsheet_safe_cells_start_with_an_apostrophe_and_numbers_do_not(palda: Palda, votes: Path) -> None:
    people = votes.with_name("people.csv")
    arguments = ("aggregate", votes, "--csv", "--spreadsheet-safe", "--annotators-output", people, "-q")
    rows = list(csv.DictReader(io.StringIO(palda(*arguments).out)))
    docs = {row["doc"] for row in rows}
    assert docs == {*(f"'{name}" for name in FORMULAS), "-5", "+1.5e3", "plain"}
    assert all(0 <= float(row["p_a"]) <= 1 for row in rows)
    annotators = {row["annotator"] for row in csv.DictReader(io.StringIO(people.read_text()))}
    assert annotators == {*(f"'{name} x" for name in FORMULAS), "'-5 x", "'+1.5e3 x", "plain x"}
    plain = {row["doc"] for row in csv.DictReader(io.StringIO(palda("aggregate", votes, "--csv", "-q").out))}
    assert plain == {*FORMULAS, "-5", "+1.5e3", "plain"}


def test_spreadsheet_safe_text_is_quoted_so_that_a_semicolon_does_not_split_it(palda: Palda, votes: Path) -> None:
    target = votes.with_name("labels.csv")
    assert palda("aggregate", votes, "-o", target, "--spreadsheet-safe", "-q").code == 0
    lines = target.read_text().splitlines()
    assert lines[0].startswith('"doc","labels","p_a"')
    assert any(line.startswith('"plain","a;b",') for line in lines)


@pytest.mark.parametrize(
    "command", [("consensus",), ("annotators",), ("topics",), ("suggest",), ("annotators", "--by-class")]
)
def test_every_command_that_writes_csv_offers_it(palda: Palda, world: World, command: tuple[str, ...]) -> None:
    name, *options = command
    done = palda(name, world.model, *options, "--csv", "--spreadsheet-safe")
    assert done.code == 0
    assert done.out.startswith('"')


def test_predict_and_evaluate_offer_it_too(palda: Palda, world: World) -> None:
    assert palda("predict", world.model, world.documents, "--csv", "--spreadsheet-safe").out.startswith('"doc",')
    assert palda("evaluate", world.model, world.truth, "--csv", "--spreadsheet-safe").out.startswith('"method",')


def test_it_needs_csv(palda: Palda, world: World) -> None:
    for options in ((), ("--json",), ("-o", world.folder / "labels.jsonl")):
        done = palda("consensus", world.model, "--spreadsheet-safe", *options)
        assert done.code == 2
        assert "--spreadsheet-safe is for CSV" in done.err


# Invisible characters

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = BIDI + "\x1b\x9b\x00\x07\r\x7f\xad\u200b\u2060\ufeff\u2028\u3164\u2800\U000e0041"


def test_every_invisible_character_is_shown() -> None:
    for letter in HIDDEN:
        escaped = visible(f"a{letter}b")
        assert escaped.isascii()
        assert escaped.startswith("a\\")
        assert escaped.encode().decode("unicode_escape") == f"a{letter}b"


@pytest.mark.parametrize(
    "text",
    [
        "plain text",
        "été",
        "東京\u3000駅",
        "می\u200cخواهم",
        "क्\u200dष",
        "👩\u200d👩\u200d👧 ❤\ufe0f",
        "naïve\u00a0word",
        "שלום",
        "a\\b",
    ],
)
def test_text_of_any_script_stays(text: str) -> None:
    assert visible(text) == text


def test_joiners_at_the_edge_of_a_name_or_between_latin_letters_are_shown() -> None:
    assert visible("ann\u200d") == "ann\\u200d"
    assert visible("a\u200cb") == "a\\u200cb"
    assert visible("\u200dक") == "\\u200dक"


def test_kept_characters_stay() -> None:
    assert visible("a\n\tb\u202ec", keep="\n\t") == "a\n\tb\\u202ec"


def test_messages_and_tables_show_them(palda: Palda, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("doc,annotator,label,value\nd\u202e1,ann\x1b[31m,a,1\nd2,bob,a,0\n", encoding="utf-8")
    out = palda("aggregate", path, "-q").out
    assert out.startswith("d\\u202e1: ")
    path.write_text("doc,annotator,label,value\nd1,ann,a,x\u202e\x1b[31m\n", encoding="utf-8")
    assert "\\u202e\\x1b[31m" in palda("aggregate", path).error_line


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_a_terminal_never_gets_escape_sequences_and_a_pipe_gets_exact_data(
    palda: Palda, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("doc,annotator,label,value\nd\x9b31m\u202e1,ann,a,1\nd2,bob,a,0\n", encoding="utf-8")
    command = ("aggregate", path, form, "-q")
    assert "d\x9b31m\u202e1" in palda(*command).out
    primary, terminal = pty.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as written, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", written)
        assert run_main(*command) == 0
    shown = b""
    with suppress(OSError):  # everything is read, and the terminal is closed
        while True:
            shown += os.read(primary, 1 << 16)
    os.close(primary)
    assert "d\\x9b31m\\u202e1" in shown.decode()
    assert not re.search("[\x1b\x9b\u202e]", shown.decode())


def test_the_report_shows_them_in_names_words_texts_and_title() -> None:
    trick = "a\u202eb\x1bc"
    names = {kind: [f"{kind}{n}{trick}" for n in range(3)] for kind in "dakw"}
    corpus = Corpus.from_counts([[3, 1, 0], [0, 2, 2], [1, 0, 3]], names["w"], names["d"])
    cube = [[[1, 0, 1], [0, 1, -1], [1, 1, 0]]] * 3
    votes = Votes.from_array(cube, doc_ids=names["d"], annotators=names["a"], classes=names["k"])
    model = CrowdPALDA(2, label_prior="base_rate", max_iter=2, tol=1e9, random_state=0, n_jobs=1).fit(corpus, votes)
    texts = [f"first line\n{trick}"] * 3
    page = render_report(model, votes=votes, X=corpus, texts=texts, title=f"title {trick}")
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert not re.search("[\u202e\x1b]", page + str(json.loads(data)))
    assert "<title>title a\\u202eb\\x1bc</title>" in page
    for name in ("d0", "a0", "k0"):
        assert f"{name}a\\u202eb\\x1bc" in page or f"{name}a\\\\u202eb\\\\x1bc" in page
    assert "first line\\na\\\\u202eb\\\\x1bc" in page
