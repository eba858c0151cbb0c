"""Checkpoints of ``palda fit``: interrupting and resuming."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palda.estimators import Progress, load_state

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World

QUICK = ("--topics", 2, "--label-prior", "base_rate", "--jobs", 1)
OFTEN = ("--checkpoint-minutes", 1e-6)


def assert_same(one: Path, other: Path) -> None:
    ours, theirs = load_state(one), load_state(other)
    assert ours.state == theirs.state
    assert ours.arrays.keys() == theirs.arrays.keys()
    for name, array in ours.arrays.items():
        np.testing.assert_array_equal(array, theirs.arrays[name], err_msg=name)


def interrupt_in_iteration(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    countdown = itertools.count(1)

    def step(_self: Progress, _info: object) -> None:
        if next(countdown) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "step", step)


def checkpoint_files(folder: Path) -> set[Any]:
    return {(path.name, path.stat().st_mtime_ns) for path in folder.glob("*.npz")}


@pytest.mark.slow
def test_a_killed_fit_resumes_to_the_same_model(palda: Palda, world: World, tmp_path: Path) -> None:
    arguments = ("fit", world.documents, world.votes, "--topics", 3, "--jobs", 1, "--quiet")
    assert palda(*arguments, "-o", tmp_path / "uninterrupted").code == 0
    target, folder = tmp_path / "m.palda", tmp_path / "m.palda.checkpoint"
    often = (*arguments, "-o", target, "--checkpoint-minutes", 0.001)
    command = [sys.executable, "-m", "palda", *map(str, often)]
    for resume in ([], ["--resume"]):
        before = checkpoint_files(folder)
        running = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603
        while running.poll() is None and len(checkpoint_files(folder) - before) < 1:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        _, complaints = running.communicate()
        assert (running.returncode, complaints) == (-signal.SIGKILL, b"")
        assert not target.exists()
        assert folder.is_dir()
    assert "pass --resume to resume it" in palda(*often).error_line
    assert palda(*often, "--resume").code == 0
    assert_same(target, tmp_path / "uninterrupted")
    assert not folder.exists()


def test_ctrl_c_saves_the_best_model_so_far_and_keeps_the_checkpoint(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, folder = tmp_path / "m", tmp_path / "m.checkpoint"
    arguments = ("fit", world.documents, world.votes, *QUICK, *OFTEN)
    assert palda(*arguments, "-o", tmp_path / "uninterrupted").code == 0
    with monkeypatch.context() as patched:
        interrupt_in_iteration(patched, 3)
        result = palda(*arguments, "-o", target)
    assert result.code == 0
    assert f"palda: long fit: writing checkpoints to {folder}\n" in result.err
    assert "palda: warning: interrupted; the best parameters so far are kept\n" in result.err
    assert result.err.endswith("to resume, repeat the command with --resume --force\n")
    assert target.exists()
    assert folder.is_dir()
    assert "pass --force to overwrite it" in palda(*arguments, "-o", target, "--resume").error_line
    resumed = palda(*arguments, "-o", target, "--resume", "--force")
    assert f"palda: resuming from {folder}\n" in resumed.err
    assert "iteration   2" not in resumed.err  # it resumes in the interrupted iteration
    assert "iteration   3" in resumed.err
    assert_same(target, tmp_path / "uninterrupted")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "uninterrupted"]


def test_ctrl_c_before_there_is_a_model_says_how_to_resume(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palda.training.turn_classifier.cross_fit_classifier", interrupt)
    result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m", "--topics", 2, *OFTEN)
    assert result.code == 130
    assert result.err.endswith(
        "palda: interrupted; to resume from the last checkpoint, repeat the command with --resume\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]


def test_a_short_fit_and_zero_minutes_write_no_checkpoint(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_in_iteration(monkeypatch, 3)
    for minutes in ((), ("--checkpoint-minutes", 0)):
        result = palda("fit", world.documents, world.votes, "-o", tmp_path / "m", *QUICK, *minutes, "--force")
        assert result.code == 0
        assert "checkpoint" not in result.err
        assert "--resume" not in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_an_impossible_resume_is_reported_in_one_line(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, folder = tmp_path / "m", tmp_path / "m.checkpoint"
    arguments = ("fit", world.documents, world.votes, "-o", target, *QUICK, *OFTEN, "--quiet")
    assert "there is no checkpoint to resume from" in palda(*arguments, "--resume").error_line
    assert palda(*arguments, "--resume", "--checkpoint-minutes", 0).code == 2
    with monkeypatch.context() as patched:
        interrupt_in_iteration(patched, 3)
        assert palda(*arguments).code == 0
    target.unlink()
    line = palda(*arguments, "--resume", "--max-iter", 7).error_line
    assert "m.checkpoint: is a checkpoint of another fit (max_iter was 200, not 7)" in line
    assert line.endswith("to start again, pass --force instead of --resume")
    assert "the counts of words differ" in palda(*arguments, "--resume", "--min-count", 3).error_line
    assert "pass --resume to resume it, or --force" in palda(*arguments).error_line
    assert folder.is_dir()  # the checkpoint is kept after every error
    assert palda(*arguments, "--force", "--max-iter", 7).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_folder_with_other_files_is_not_used_as_checkpoint(palda: Palda, world: World, tmp_path: Path) -> None:
    (tmp_path / "m.checkpoint").mkdir()
    (tmp_path / "m.checkpoint" / "precious.txt").write_text("mine")
    arguments = ("fit", world.documents, world.votes, "-o", tmp_path / "m", *QUICK, "--quiet")
    assert "contains other files than checkpoints" in palda(*arguments, "--force").error_line
    assert (tmp_path / "m.checkpoint" / "precious.txt").read_text() == "mine"
