"""Runs the command line in this process, on files of a small simulated newsroom."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from palda.cli import main

typer.main.get_command = cache(typer.main.get_command)  # otherwise each call builds all commands and options anew


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """The single line of an error message."""
        assert self.code == 1
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("palda: ")
        return line


Palda = Callable[..., CommandResult]


class World(NamedTuple):
    """Files of a simulated newsroom, and a model fitted on them."""

    folder: Path
    documents: Path
    votes: Path
    truth: Path
    model: Path


def run_main(*arguments: object) -> int:
    """Exit code of ``palda`` with these arguments."""
    before, sys.argv = sys.argv, ["palda", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.argv = before
    code = stopped.value.code
    return code if isinstance(code, int) else int(code is not None)


@pytest.fixture
def palda(capsys: pytest.CaptureFixture[str]) -> Palda:
    """Runs ``palda`` with the given arguments."""

    def run(*arguments: object) -> CommandResult:
        capsys.readouterr()
        return CommandResult(run_main(*arguments), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Files with sixty documents, five annotators each, and a fitted model."""
    folder = tmp_path_factory.mktemp("world")
    assert run_main("simulate", folder, "--documents", 60, "--crowd", "adversarial", "--seed", 5, "--quiet") == 0
    files = World(folder, *(folder / name for name in ("documents.csv", "votes.csv", "truth.csv", "model.palda")))
    fitting = ("--topics", 3, "--label-prior", "base_rate", "--jobs", 1, "--quiet")
    assert run_main("fit", files.documents, files.votes, "-o", files.model, *fitting) == 0
    return files
