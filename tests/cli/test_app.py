"""The command line as a whole: help, completion, exit codes, simulate, demo, and the shared output code."""

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
from palda.cli import (
    Messages,
    Target,
    app,
    as_cli_options,
    labels_cell,
    new_file,
    program_name,
    write_records,
    write_table,
)
from palda.errors import PaldaError, PaldaWarning
from palda.report import TableView

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

COMMANDS = {
    "fit", "predict", "consensus", "annotators", "topics", "suggest", "report", "evaluate", "aggregate", "shard",
    "simulate", "demo", "reproduce", "plan",
}  # fmt: skip
HEAVY = ("numba", "sklearn", "scipy", "pandas", "matplotlib", "numpy", "pyarrow")


def test_help_lists_every_command(palda: Palda) -> None:
    result = palda("--help")
    assert result.code == 0
    assert all(f" {name} " in result.out for name in COMMANDS)
    assert palda().code == 2  # prints help as well


def test_every_option_has_help_and_a_default() -> None:
    group = typer.main.get_command(app)
    for name in COMMANDS - {"reproduce"}:
        command = group.commands[name]  # type: ignore[attr-defined]
        assert command.help
        for option in command.params:
            assert option.help, f"{name} {option.name}"
            assert option.required or option.show_default, f"{name} {option.name} does not show its default"
            if option.default is None and not option.required:
                assert isinstance(option.show_default, str), f"{name} {option.name} does not show its default"


def test_help_of_every_command_loads_no_heavy_package() -> None:
    script = (
        "import sys\nfrom palda.cli import main\n"
        f"for name in ((), *(((name,)) for name in {sorted(COMMANDS)}), ('reproduce', 'table1')):\n"
        "    sys.argv = ['palda', *name, '--help']\n"
        "    try:\n        main()\n    except SystemExit as stopped:\n        assert stopped.code == 0\n"
        f"print('loaded', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.count("Usage") == len(COMMANDS) + 2
    assert done.stdout.endswith("loaded []\n")


@pytest.mark.parametrize("command", ["", "fit", "reproduce"])
def test_help_ends_quietly_if_the_reader_closes_the_pipe(command: str) -> None:
    script = f'set -o pipefail; "{sys.executable}" -m palda {command} --help | head -1'
    for pipe in (script, script.replace("head -1", "true")):
        done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=False)  # noqa: S603, S607
        assert (done.returncode, done.stderr) == (0, "")


def test_version_option_prints_the_version(palda: Palda) -> None:
    assert palda("--version").out == f"palda {version('palda')}\n"


def test_shell_completion_completes_commands() -> None:
    environment = {"_PALDA_COMPLETE": "complete_bash", "COMP_WORDS": "palda agg", "COMP_CWORD": "1", "PATH": ""}
    script = "from palda.cli import app; app(prog_name='palda')"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env=environment | {"PYTHONPATH": str(Path(library.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.split() == ["aggregate"]


def test_ctrl_c_exits_with_130_and_no_traceback(
    palda: Palda, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palda.estimators.load", interrupted)
    result = palda("topics", world.model)
    assert result.code == 130
    assert "Traceback" not in result.err


# simulate and demo


def test_simulated_files_can_be_read_and_are_not_overwritten(palda: Palda, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    arguments = ("simulate", folder, "-d", 12, "--votes-per-doc", 2, "--spammers", 1, "--behaviour", "two_coin")
    result = palda(*arguments)
    assert (result.code, result.out) == (0, "")
    assert "palda fit" in result.err
    documents = library.read_documents(folder / "documents.csv")
    votes = library.read_votes(folder / "votes.csv", documents)
    assert len(documents) == 12
    assert len(votes) == 12 * 2 * 10
    assert set(votes.annotators) <= set(pd.read_csv(folder / "annotators_truth.csv")["annotator"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "pass --force" in palda(*arguments).error_line
    assert palda(*arguments, "--force", "--quiet").err == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("")
    assert "cannot be created" in palda("simulate", tmp_path / "file").error_line


def test_demo_prints_scores_and_writes_files_that_other_commands_read(
    palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palda.cli.commands.demo.N_DOCS", 45)
    monkeypatch.chdir(tmp_path)
    result = palda("demo", "--jobs", 1)
    assert result.code == 0
    for part in ("majority vote", "palda consensus", "palda classifier", "annotators: 10 simulated", "palda fit"):
        assert part in result.out
    names = {path.name for path in (tmp_path / "palda-demo").iterdir()}
    assert names >= {"documents.csv", "votes.csv", "truth.csv", "labels.csv", "annotators.csv", "model.palda"}
    scores = json.loads(palda("evaluate", "palda-demo/model.palda", "palda-demo/truth.csv", "--json").out)
    assert f"{scores[0]['micro_f1']:.3f}" in result.out
    assert "pass --force" in palda("demo").error_line


# shared output code


def test_suggested_commands_work_where_palda_is_not_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a folder" / "bin" / "palda"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert program_name() == "'a folder/bin/palda'"
    monkeypatch.chdir(tmp_path / "a folder")
    assert program_name() == "bin/palda"
    monkeypatch.chdir(program.parent)
    assert program_name() == "./palda"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert program_name() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert program_name() == "palda"


@pytest.mark.parametrize(
    ("message", "expected"),
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
def test_python_arguments_in_messages_become_options(message: str, expected: str) -> None:
    assert as_cli_options(message) == expected


def test_warnings_of_the_library_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with Messages(quiet=quiet).show_warnings():
            warnings.warn("three blank\ncells; pass blank='none'", PaldaWarning, stacklevel=1)
            warnings.warn("not shown", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "palda: warning: three blank cells; pass --blank none\n"


def test_a_failed_command_leaves_no_partial_file(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"

    def records() -> object:
        yield [{"doc": "a"}]
        raise PaldaError("failed half way")

    for form in ("csv", "json", "jsonl"):
        with pytest.raises(PaldaError, match="half way"):
            write_records(records(), Target(target, form))  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())
    with new_file(target, force=False) as unfinished:
        unfinished.write_text("complete")
        assert not target.exists()
    assert target.read_text() == "complete"


def test_a_full_disk_is_reported_with_the_file_name(tmp_path: Path) -> None:
    with pytest.raises(PaldaError, match="f cannot be written: No space left"), new_file(tmp_path / "f", force=False):
        raise OSError(28, "No space left on device")


def test_labels_in_a_cell_are_read_back_unchanged() -> None:
    for labels in (["a", "b"], ["a;b", "c"], [" a"], ["[x]"]):
        frame = pd.DataFrame({"doc": ["d"], "annotator": ["x"], "labels": [labels_cell(labels)]})
        votes = library.read_votes(frame)
        assert votes.classes.tolist() == sorted(label.strip() for label in labels)


def test_csv_cells_are_quoted_and_nan_is_blank(capsys: pytest.CaptureFixture[str]) -> None:
    write_records([[{"doc": 'a "b", c\nd', "value": float("nan")}]], Target(None, "csv"))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"doc": 'a "b", c\nd', "value": ""}


def test_tables_show_markup_as_text_and_nan_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "[bold]x[/bold]\x1b[0m", "number": float("nan")}, {"name": "y", "number": 1.25}]
    view = TableView({"name": "", "number": ".1f"}, rows, "a title", ("a note",))
    write_table(view, Target(None, "text"))
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "\x1b" not in out
    assert "a title" in out
    assert "a note" in out
    assert [line.split()[-1] for line in out.splitlines()[2:4]] == ["-", "1.2"]
