"""Errors of users, for every command: one line on standard error, and no file is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

READ_A_MODEL = ("predict", "consensus", "annotators", "topics", "suggest", "report", "evaluate")
READ_VOTES = ("fit", "aggregate", "consensus")
WRITE_A_FILE = ("fit", "aggregate", *READ_A_MODEL)
PRINT = ("fit", "aggregate", "predict", "consensus", "annotators", "topics", "suggest", "evaluate")

HEADER = "doc,annotator,label,value\n"
QUICK = ("--annotators", "two_coin", "--no-copies", "--no-drift", "--jobs", 1, "--quiet")


def arguments(command: str, world: World, model: Path | None = None, votes: Path | None = None) -> list[object]:
    """Arguments of a valid call, apart from the given files."""
    model, votes = model or world.model, votes or world.votes
    return {
        "fit": [world.documents, votes, "--topics", 2, "--label-prior", "base_rate", *QUICK],
        "aggregate": [votes, "--profiles", 1, *QUICK],
        "predict": [model, world.documents, "--quiet"],
        "consensus": [model, world.documents, votes, "--quiet"],
        "evaluate": [model, world.truth],
        "report": [model, "--quiet"],
    }.get(command, [model])


@pytest.mark.parametrize("command", READ_A_MODEL)
def test_missing_invalid_and_newer_model_files_are_refused(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    later = tmp_path / "later.palda"
    with zipfile.ZipFile(world.model) as old, zipfile.ZipFile(later, "w") as file:
        manifest = json.loads(old.read("manifest.json"))
        file.writestr("manifest.json", json.dumps(manifest | {"format_version": 99}))
    for model, message in (
        (tmp_path / "none.palda", "there is no such file"),
        (world.votes, "is not a palda model"),
        (tmp_path, "cannot be read"),
        (later, "upgrade with: pip install"),
    ):
        assert message in palda(command, *arguments(command, world, model=model)).error_line
    assert [path.name for path in tmp_path.iterdir()] == ["later.palda"]


@pytest.mark.parametrize("command", READ_VOTES)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        (HEADER, "has a header but no rows"),
        (f"{HEADER}news-0001,annotator-01,arts,\n", "has no votes"),
        ("doc,who,label,value\nnews-0001,annotator-01,arts,1\n", "pass --column annotator=..."),
        ("name,annotator,label,value\nnews-0001,annotator-01,arts,1\n", "no column for the doc"),
    ],
)
def test_votes_that_are_missing_empty_or_lack_a_column_are_refused(
    palda: Palda,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    content: str | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    votes = tmp_path / "some.csv"
    if content is not None:
        votes.write_text(content)
    line = palda(command, *arguments(command, world, votes=votes)).error_line
    assert "some.csv" in line
    assert message in line
    assert {path.name for path in tmp_path.iterdir()} <= {"some.csv"}


@pytest.mark.parametrize("command", WRITE_A_FILE)
def test_an_output_file_that_cannot_be_written_is_refused(
    palda: Palda, world: World, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "there.csv").write_text("mine")
    call = [command, *arguments(command, world), "-o"]
    assert "there is no folder" in palda(*call, tmp_path / "none" / "out.csv").error_line
    assert "there is no folder" in palda(*call, tmp_path / "file" / "out.csv").error_line
    assert "--force" in palda(*call, tmp_path / "there.csv").error_line
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "mine", "there.csv": "mine"}


@pytest.mark.parametrize("command", ["fit", "aggregate"])
def test_a_second_output_file_that_cannot_be_written_is_refused(
    palda: Palda, world: World, tmp_path: Path, command: str
) -> None:
    option = {"fit": "--report", "aggregate": "--annotators-output"}[command]
    call = [command, *arguments(command, world), "-o", tmp_path / "out.csv", option, tmp_path / "none" / "second.csv"]
    assert "there is no folder" in palda(*call).error_line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["simulate", "demo"])
def test_a_folder_that_cannot_be_created_is_refused(palda: Palda, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be created" in palda(command, tmp_path / "file" / "folder").error_line


@pytest.mark.parametrize("command", PRINT)
def test_a_closed_pipe_ends_the_command_quietly(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    call = [command, *arguments(command, world), *(["-o", tmp_path / "m.palda"] if command == "fit" else [])]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        result = palda(*call)
    assert (result.code, result.err) == (0, "")


@pytest.mark.slow
def test_a_process_with_a_closed_pipe_exits_quietly(world: World) -> None:
    """Python itself flushes once more at exit."""
    script = 'set -o pipefail; "$@" | true'
    command_line = ["bash", "-c", script, "palda", sys.executable, "-m", "palda", "annotators", str(world.model)]
    result = subprocess.run(command_line, capture_output=True, text=True, check=False)  # noqa: S603
    assert (result.returncode, result.stderr) == (0, "")


def test_votes_given_as_documents_are_refused(palda: Palda, world: World, tmp_path: Path) -> None:
    line = palda("fit", world.votes, world.documents, "-o", tmp_path / "m").error_line
    assert "give the documents first, then the votes" in line


def test_an_unknown_language_is_refused(palda: Palda, world: World, tmp_path: Path) -> None:
    result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m", "--language", "klingon", "--quiet")
    assert "--language klingon is not one of" in result.error_line
    assert "--language none disables stemming" in result.error_line
