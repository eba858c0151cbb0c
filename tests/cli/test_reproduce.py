from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from palda.cli import main, run_experiment
from palda.errors import PaldaError
from palda.paper import EXPERIMENTS, Cell, RunOptions, Store

FAKES = Path(__file__).parents[1] / "unit" / "paper"

Call = Callable[..., int]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs the command line in this process with fake cells; returns the exit code."""
    monkeypatch.syspath_prepend(FAKES)
    monkeypatch.setattr("palda.paper.RUN_CELL", "fake_cells:run")

    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["palda", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        code = stopped.value.code
        return code if isinstance(code, int) else int(code is not None)

    return run


def test_every_experiment_is_a_command(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*EXPERIMENTS, "page"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["reproduce", "table3"],
        ["reproduce", "table1", "--sets", "scene,sceen"],
        ["reproduce", "table1", "--sets", ","],
        ["reproduce", "table2", "--methods", "rakel"],
        ["reproduce", "table1", "--seeds", "0"],
        ["reproduce", "table1", "--jobs", "none"],
        ["reproduce", "table1", "--json", "--csv"],
        ["reproduce", "page"],
    ],
)
def test_a_wrong_call_exits_with_2_and_an_error(
    call: Call, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert call(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Error" in err


def test_a_run_prints_table_and_progress_and_a_second_run_skips_finished_cells(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call("reproduce", "adversarial", "--seeds", 2, "-o", tmp_path, "--jobs", 2) == 0
    out, err = capsys.readouterr()
    assert "10 of 50 annotators malicious" in out
    assert "\x1b" not in out  # no colours if the output is not a terminal
    assert "palda: 4/4 reuters: " in err
    assert "about 0 s left" in err
    names = {f"adversarial.{kind}" for kind in ("md", "csv", "svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {"cells"} | names
    assert call("reproduce", "adversarial", "--seeds", 2, "-o", tmp_path) == 0
    again = capsys.readouterr()
    assert again.out == out
    assert "4 cells, 4 already finished" in again.err


def test_json_and_csv_contain_the_values_of_the_table(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("reproduce", "adversarial", "--methods", "palda", "--seeds", 2, "-o", tmp_path)
    assert call(*arguments, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[-1]["micro_f1"] == pytest.approx(0.505)  # fake cells score .50 and .51
    assert rows[-1]["micro_f1_seeds"] == 2
    assert call(*arguments, "--csv") == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(table[-1]["micro_f1"]) == pytest.approx(0.505)
    assert (tmp_path / "adversarial.csv").read_text().splitlines()[0].startswith("table,method")


def test_failed_cells_exit_with_1_and_each_reason_is_printed_once(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cells = [Cell("reuters", method, "votes", seed) for seed, method in enumerate(("bad", "palda", "bad"))]
    experiment = replace(EXPERIMENTS["adversarial"], plan=lambda _: cells)
    assert run_experiment(experiment, RunOptions(), tmp_path, 1, "table") == 1
    err = capsys.readouterr().err
    assert err.count("this method does not work") == 1
    assert "2 of 3 cells failed" in err
    assert [record.cell.method for record in Store(tmp_path).load_everything()] == ["palda"]


def test_missing_data_is_reported_once_with_the_variable_to_set(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palda.paper.RUN_CELL", "palda.paper.execution:run_cell")
    monkeypatch.setenv("PALDA_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ("--methods", "nothing,majority", "--sets", "scene", "--seeds", 2, "--jobs", 1)
    assert call("reproduce", "table1", *arguments, "-o", tmp_path / "out") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("set PALDA_DATA") == 1
    assert "Traceback" not in err


def test_a_file_given_as_results_folder_is_refused(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert call("reproduce", "adversarial", "--seeds", 1, "-o", file) == 1
    assert "cannot write to" in capsys.readouterr().err.splitlines()[-1]


def test_a_choice_without_cells_is_refused(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = replace(EXPERIMENTS["adversarial"], plan=lambda _: [])
    with pytest.raises(PaldaError, match="has no cell"):
        run_experiment(experiment, RunOptions(quick=True), tmp_path, 1, "table")


def test_an_interrupt_says_how_to_resume(
    call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palda.paper.run", interrupted)
    assert call("reproduce", "adversarial", "-o", tmp_path) == 130
    assert "repeat the command to resume" in capsys.readouterr().err


def test_page_fills_and_checks_a_markdown_page(call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "results"
    page.write_text("Above.\n<!-- adversarial -->\n<!-- /adversarial -->\nBelow.\n")
    assert call("reproduce", "page", page, "-o", folder, "--check") == 1  # no cells to compare with
    assert call("reproduce", "adversarial", "--seeds", 1, "-o", folder) == 0
    assert call("reproduce", "page", page, "-o", folder, "--check") == 1
    assert "does not match" in capsys.readouterr().err
    assert call("reproduce", "page", page, "-o", folder) == 0
    text = page.read_text()
    assert text.startswith("Above.\n")
    assert text.endswith("Below.\n")
    assert "`palda reproduce adversarial --seeds 1`: 2 cells" in text
    assert call("reproduce", "page", page, "-o", folder, "--check") == 0
    assert call("reproduce", "page", page, "-o", folder) == 0
    assert page.read_text() == text


def test_a_missing_page_is_reported_in_one_line(call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call("reproduce", "page", tmp_path / "none.md", "-o", tmp_path) == 1
    assert capsys.readouterr().err.startswith("palda: ")
