"""What holds for the command line as a whole: help, completion, the demo, simulation, and its small parts."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
import typer

import palda as library
from palda.cli import Talk, app, as_options, console, demo, emit_records, label_text, replacing
from palda.errors import PaldaError, PaldaWarning
from palda.report import View

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

COMMANDS = {
    "fit", "predict", "consensus", "annotators", "topics", "suggest", "report", "evaluate", "aggregate", "simulate",
    "demo", "reproduce",
}  # fmt: skip


def test_every_command_is_in_the_help(palda: Palda) -> None:
    ended = palda("--help")
    assert ended.code == 0
    assert all(f" {name} " in ended.out for name in COMMANDS)
    assert palda().code == 2  # and help, when nothing is asked


def test_every_option_is_described_with_its_default() -> None:
    group = typer.main.get_command(app)
    for name in COMMANDS - {"reproduce"}:
        command = group.commands[name]  # type: ignore[attr-defined]
        assert command.help
        for option in command.params:
            assert option.help, f"{name} {option.name}"
            assert option.required or option.show_default, f"{name} {option.name} does not tell its default"
            if option.default is None and not option.required:
                assert isinstance(option.show_default, str), f"{name} {option.name} does not tell its default"


def test_the_version_is_told(palda: Palda) -> None:
    assert palda("--version").out == f"palda {version('palda')}\n"


def test_shells_can_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"_PALDA_COMPLETE": "complete_bash", "COMP_WORDS": "palda agg", "COMP_CWORD": "1", "PATH": ""}
    script = "from palda.cli.app import app; app(prog_name='palda')"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env=environment | {"PYTHONPATH": str(Path(library.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.split() == ["aggregate"]


def test_ctrl_c_is_one_line(
    palda: Palda, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palda.estimators.load", interrupted)
    ended = palda("topics", world.model)
    assert ended.code == 130
    assert "Traceback" not in ended.err


# simulate and demo


def test_a_simulation_can_be_read_and_is_not_written_over(palda: Palda, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    arguments = ("simulate", folder, "-d", 12, "--votes-per-doc", 2, "--spammers", 1, "--behaviour", "two_coin")
    ended = palda(*arguments)
    assert (ended.code, ended.out) == (0, "")
    assert "palda fit" in ended.err
    documents = library.read_documents(folder / "documents.csv")
    votes = library.read_votes(folder / "votes.csv", documents)
    assert len(documents) == 12
    assert len(votes) == 12 * 2 * 10
    assert set(votes.annotators) <= set(pd.read_csv(folder / "annotators_truth.csv")["annotator"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "pass --force" in palda(*arguments).complaint
    assert palda(*arguments, "--force", "--quiet").err == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("")
    assert "cannot be made" in palda("simulate", tmp_path / "file").complaint


def test_the_demo_tells_its_story_and_leaves_files_to_go_on_with(
    palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.main, "__defaults__", (Path("palda-demo"), 45))
    monkeypatch.chdir(tmp_path)
    ended = palda("demo", "--jobs", 1)
    assert ended.code == 0
    for part in ("majority vote", "palda consensus", "palda classifier", "adversaries: 10 hidden", "palda fit"):
        assert part in ended.out
    names = {path.name for path in (tmp_path / "palda-demo").iterdir()}
    assert names >= {"documents.csv", "votes.csv", "truth.csv", "labels.csv", "annotators.csv", "model.palda"}
    scores = json.loads(palda("evaluate", "palda-demo/model.palda", "palda-demo/truth.csv", "--json").out)
    assert f"{scores[0]['micro_f1']:.3f}" in ended.out
    assert "pass --force" in palda("demo").complaint


# small parts


def test_suggested_commands_work_where_palda_is_not_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a folder" / "bin" / "palda"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert console.own_name() == "'a folder/bin/palda'"
    monkeypatch.chdir(tmp_path / "a folder")
    assert console.own_name() == "bin/palda"
    monkeypatch.chdir(program.parent)
    assert console.own_name() == "./palda"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert console.own_name() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert console.own_name() == "palda"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("name one 'doc' or pass id='...': votes", "name one 'doc' or pass --id ...: votes"),
        ("pass its encoding, such as encoding='latin-1'", "pass its encoding, such as --encoding latin-1"),
        ("pass ignore=['comment']", "pass --ignore comment"),
        ("with classes=[...]", "with --classes ..."),
        ("or pass annotator='...'", "or pass --column annotator=..."),
        ("choose from_name= among 'a', 'b'", "choose --question among 'a', 'b'"),
        ("min_count=5 leaves no word", "--min-count 5 leaves no word"),
        ("language='x' is not known; language=None is", "--language x is not known; --language none is"),
        ("a plain message: 1 = 1", "a plain message: 1 = 1"),
    ],
)
def test_advice_speaks_of_options(message: str, told: str) -> None:
    assert as_options(message) == told


def test_warnings_of_the_library_are_notes(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with Talk(quiet=quiet).notes():
            warnings.warn("three blank\ncells; pass blank='none'", PaldaWarning, stacklevel=1)
            warnings.warn("of no interest", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "palda: note: three blank cells; pass --blank none\n"


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"

    def records() -> object:
        yield [{"doc": "a"}]
        raise PaldaError("half way")

    for form in ("csv", "json", "jsonl"):
        with pytest.raises(PaldaError, match="half way"):
            emit_records(records(), target, form)  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())
    with replacing(target, force=False) as unfinished:
        unfinished.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"


def test_a_failing_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PaldaError, match="cannot be written: No space left"), replacing(tmp_path / "f", force=False):
        raise OSError(28, "No space left on device")


def test_labels_in_a_cell_can_be_read_back() -> None:
    for labels in (["a", "b"], ["a;b", "c"], [" a"], ["[x]"], []):
        cell = label_text(labels)
        frame = pd.DataFrame({"doc": ["d"], "annotator": ["x"], "labels": [cell]})
        if labels:
            votes = library.read_votes(frame)
            assert votes.classes.tolist() == sorted(label.strip() for label in labels)


def test_csv_quotes_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    emit_records([[{"doc": 'a "b", c\nd', "value": float("nan")}]], None, "csv")
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"doc": 'a "b", c\nd', "value": ""}


def test_tables_show_brackets_and_missing_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "[bold]x[/bold]\x1b[0m", "number": float("nan")}, {"name": "y", "number": 1.25}]
    console.print_view(View("a title", {"name": "", "number": ".1f"}, rows, ("a note",)))
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "\x1b" not in out
    assert "a title" in out
    assert "a note" in out
    assert [line.split()[-1] for line in out.splitlines()[2:4]] == ["-", "1.2"]
