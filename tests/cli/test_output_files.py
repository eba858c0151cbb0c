"""Files that commands write: what is replaced, what is refused before any work, and how interrupted commands end."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_errors import PRINT, WRITE_A_FILE, arguments

import palda as library
from palda.io import FolderLock, open_shards, reserved

if TYPE_CHECKING:
    from tests.cli.conftest import Palda, World


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# What is refused


@pytest.mark.parametrize("command", WRITE_A_FILE)
def test_force_replaces_regular_files_only(palda: Palda, world: World, tmp_path: Path, command: str) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    (tmp_path / "link.csv").symlink_to("/dev/null")
    for path in (pipe, tmp_path / "link.csv"):
        line = palda(command, *arguments(command, world), "-o", path, "--force").error_line
        assert "only regular files are replaced" in line
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert "is a folder" in palda(command, *arguments(command, world), "-o", tmp_path / ".", "--force").error_line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "pipe.csv"]


@pytest.mark.parametrize("command", ["simulate", "demo"])
def test_special_files_in_the_folder_are_refused(palda: Palda, tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "votes.csv")
    assert "only regular files are replaced" in palda(command, tmp_path, "--force").error_line
    assert (tmp_path / "votes.csv").is_fifo()
    (tmp_path / "votes.csv").unlink()
    (tmp_path / "votes.csv").symlink_to(tmp_path / "documents.csv")
    assert "are the same file" in palda(command, tmp_path, "--force").error_line
    assert [path.name for path in tmp_path.iterdir()] == ["votes.csv"]


@pytest.mark.parametrize(("command", "option"), [("fit", "--report"), ("aggregate", "--annotators-output")])
def test_two_outputs_must_be_two_files(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("mine")
    Path("link.csv").symlink_to("one.csv")
    os.link("one.csv", "hard.csv")
    Path("loose.csv").symlink_to("two.csv")
    for first, second in (
        ("one.csv", "one.csv"), ("one.csv", tmp_path / "one.csv"), ("one.csv", "link.csv"), ("link.csv", "one.csv"),
        ("hard.csv", "one.csv"), ("two.csv", "two.csv"), ("two.csv", "loose.csv"),
    ):  # fmt: skip
        line = palda(command, *arguments(command, world), "-o", first, option, second, "--force").error_line
        assert f"{second} and {first} are the same file" in line
    assert {path.name for path in tmp_path.iterdir()} == {"one.csv", "link.csv", "hard.csv", "loose.csv"}
    assert Path("hard.csv").read_text() == "mine"


@pytest.mark.parametrize("kind", ["same", "symbolic link", "hard link"])
def test_an_output_must_not_be_an_input(palda: Palda, world: World, tmp_path: Path, kind: str) -> None:
    names = {"documents": "documents.csv", "votes": "votes.csv", "truth": "truth.csv", "model": "model.csv"}
    paths = {name: tmp_path / file for name, file in names.items()}
    for name, path in paths.items():
        shutil.copy(getattr(world, name), path)
    before = _files(tmp_path)
    documents, votes, truth, model = paths.values()
    calls: list[tuple[list[object], list[Path]]] = [
        (["fit", documents, votes, "--gold", truth], [documents, votes, truth]),
        (["aggregate", votes, "--gold", truth], [votes, truth]),
        (["predict", model, documents], [model, documents]),
        (["consensus", model, documents, votes], [model, documents, votes]),
        (["evaluate", model, truth, "--documents", documents], [model, truth, documents]),
        *([[command, model], [model]] for command in ("annotators", "topics", "suggest", "report")),  # type: ignore[list-item]
    ]
    for call, inputs in calls:
        for source in inputs:
            output = source if kind == "same" else tmp_path / "other.csv"
            if kind == "symbolic link":
                output.symlink_to(source)
            elif kind == "hard link":
                os.link(source, output)
            assert f"{output} is an input of this command" in palda(*call, "-o", output, "--force").error_line
            if kind != "same":
                output.unlink()
    assert _files(tmp_path) == before


def test_an_output_in_a_folder_of_inputs_is_refused(palda: Palda, world: World, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    assert palda("shard", world.documents, world.votes, "-o", corpus, "--quiet").code == 0
    before = _files(corpus)
    for name in ("manifest.json", "new.json"):
        line = palda("fit", corpus, "-o", corpus / name, "--force").error_line
        assert f"{corpus / name} is in the folder {corpus}, an input of this command" in line
    assert _files(corpus) == before


def test_a_symbolic_link_is_written_through_with_force(palda: Palda, world: World, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    link, real = tmp_path / "latest.csv", tmp_path / "models" / "real.csv"
    link.symlink_to(real)
    call = ("aggregate", *arguments("aggregate", world), "-o", link)
    assert "already exists; pass --force" in palda(*call).error_line
    for _ in range(2):  # the file that the link points to is created, then replaced
        assert palda(*call, "--force").code == 0
        assert link.is_symlink()
        assert real.read_text().startswith("doc,labels")
    link.unlink()
    link.symlink_to(tmp_path / "nowhere" / "real.csv")
    assert "there is no folder" in palda(*call, "--force").error_line
    link.unlink()
    link.symlink_to(link)
    assert "symbolic link to itself" in palda(*call, "--force").error_line


# Two commands at once


@pytest.mark.parametrize("command", WRITE_A_FILE)
def test_a_second_command_with_the_same_output_is_told(
    palda: Palda, world: World, tmp_path: Path, command: str
) -> None:
    with reserved(tmp_path / "out.csv"):
        line = palda(command, *arguments(command, world), "-o", tmp_path / "out.csv").error_line
        assert line == f"palda: {tmp_path / 'out.csv'} cannot be written: another process is writing it"
    assert not list(tmp_path.iterdir())


def test_a_second_command_with_the_same_folder_is_told(palda: Palda, world: World, tmp_path: Path) -> None:
    with reserved(tmp_path / "truth.csv"):
        for command in ("simulate", "demo"):
            assert "another process is writing it" in palda(command, tmp_path).error_line
    with FolderLock(tmp_path):
        assert "in use by another palda reproduce" in palda("reproduce", "adversarial", "-o", tmp_path).error_line
    part = tmp_path / "corpus.part"
    part.mkdir()
    with FolderLock(part):
        for option in ("--resume", "--force"):
            line = palda("shard", world.documents, world.votes, "-o", tmp_path / "corpus", option).error_line
            assert "another process is writing it" in line
    checkpoint = tmp_path / "m.checkpoint"
    checkpoint.mkdir()
    with FolderLock(checkpoint):
        line = palda("fit", world.documents, world.votes, "-o", tmp_path / "m", "--quiet").error_line
        assert "another fit is writing its checkpoints there" in line


# Signals


@contextmanager
def _waiting_for_input(*call: object) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for standard input, once it has reserved its output."""
    command_line = [sys.executable, "-m", "palda", *map(str, call)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # processes in the background start with it ignored
    with subprocess.Popen(command_line, **pipes, text=True) as process:  # type: ignore[call-overload]  # noqa: S603
        signal.signal(signal.SIGINT, before)
        try:
            yield process
        finally:
            process.kill()


def _fill_pipe(process: subprocess.Popen[str]) -> None:
    """Write more than a pipe holds, which returns when the process is reading, and thus after all imports."""
    assert process.stdin is not None
    process.stdin.write("x" * 1_000_000)
    process.stdin.flush()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code", "word"), [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "interrupted")])
def test_a_signal_ends_a_command_with_one_line_and_no_file(
    palda: Palda, world: World, tmp_path: Path, name: str, code: int, word: str
) -> None:
    with _waiting_for_input("aggregate", "-", "-o", tmp_path / "out.csv", "--quiet") as process:
        _fill_pipe(process)
        second = palda("aggregate", world.votes, "-o", tmp_path / "out.csv", "--quiet")
        assert "another process is writing it" in second.error_line
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", f"palda: {word}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_next_command_removes_what_a_killed_one_left(palda: Palda, world: World, tmp_path: Path) -> None:
    with _waiting_for_input("aggregate", "-", "-o", tmp_path / "out.csv") as process:
        _fill_pipe(process)
        process.kill()
        process.wait()
    assert len(list(tmp_path.iterdir())) == 1
    assert palda("aggregate", *arguments("aggregate", world), "-o", tmp_path / "out.csv").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.slow
def test_a_terminated_run_of_shard_says_how_to_resume(palda: Palda, tmp_path: Path) -> None:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    documents.write_text("doc,text\n" + "".join(f"d{n},{'ships carry wheat ' * 20}\n" for n in range(400)))
    votes.write_text("doc,annotator,labels\n" + "".join(f"d{n},x,{'ab'[n % 2]}\n" for n in range(400)))
    call = ("shard", documents, votes, "-o", tmp_path / "corpus", "--docs-per-shard", 4, "--quiet")
    with _waiting_for_input(*call) as process:
        while not (tmp_path / "corpus.part" / "folder" / "shard-00003.arrow").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "palda: terminated; what is done is kept; to resume, repeat the command with --resume\n"
    assert palda(*call, "--resume").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "documents.csv", "votes.csv"]


# Full disks and long names


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", [*PRINT, "shard", "--help", "--version"])
def test_standard_output_on_a_full_device_is_one_line(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    rest = {"shard": [world.documents, world.votes], "--help": [], "--version": []}.get(command)
    call = [command, *(arguments(command, world) if rest is None else rest)]
    call += ["-o", tmp_path / "out"] if command in ("fit", "shard") else []
    with Path("/dev/full").open("w", encoding="utf-8") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        result = palda(*call)
    assert (result.code, result.err) == (1, "palda: standard output cannot be written: No space left on device\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_process_on_a_full_device_fails_with_one_line(world: World) -> None:
    """Python itself flushes once more at exit."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command_line = [sys.executable, "-m", "palda", "annotators", str(world.model)]
        result = subprocess.run(command_line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)


@contextmanager
def _full_disk(n_bytes: int) -> Iterator[None]:
    """No file can grow beyond some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_line_and_shard_resumes(palda: Palda, world: World, tmp_path: Path) -> None:
    call = ("shard", world.documents, world.votes, "--docs-per-shard", 25, "--quiet")
    assert palda(*call, "-o", tmp_path / "whole").code == 0
    target = tmp_path / "corpus"
    for n_bytes in (10, 500, 1000, 2000, 5000, 10_000, 20_000):
        with _full_disk(n_bytes):
            result = palda(*call, "-o", target, "--resume")
        if result.code == 0:
            break
        assert "cannot be written: " in result.error_line
        assert "too large" in result.error_line
        assert not target.exists()
    assert n_bytes > 1000
    assert palda(*call, "-o", target, "--resume", "--force").code == 0
    assert _files(target) == _files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "whole"]


@pytest.mark.parametrize("command", [*WRITE_A_FILE, "shard"])
def test_names_up_to_the_limit_are_written_and_longer_ones_refused(
    palda: Palda, world: World, tmp_path: Path, command: str
) -> None:
    rest = [world.documents, world.votes, "--quiet"] if command == "shard" else arguments(command, world)
    target = tmp_path / ("x" * 251 + ".csv")
    assert palda(command, *rest, "-o", target).code == 0
    assert list(tmp_path.iterdir()) == [target]
    assert "File name too long" in palda(command, *rest, "-o", tmp_path / ("x" * 252 + ".csv")).error_line
    assert list(tmp_path.iterdir()) == [target]


def test_a_long_name_does_not_prevent_checkpoints(
    palda: Palda, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    target = tmp_path / ("x" * 249)
    call = ("fit", world.documents, world.votes, "-o", target, "--topics", 2, "--checkpoint-minutes", 1e-6, "--quiet")
    with monkeypatch.context() as patched:
        patched.setattr("palda.training.turn_classifier.cross_fit_classifier", interrupt)
        result = palda(*call)
    assert (result.code, result.err.count("\n")) == (130, 1)  # an interruption is not a message that --quiet suppresses
    (checkpoint,) = tmp_path.iterdir()
    assert checkpoint.name.endswith(".checkpoint")
    assert palda(*call, "--resume").code == 0
    assert list(tmp_path.iterdir()) == [target]
    assert library.load(target).n_features_in_ > 0


def test_open_shards_reads_what_was_written_through_a_long_name(palda: Palda, world: World, tmp_path: Path) -> None:
    target = tmp_path / ("ж" * 127)
    assert palda("shard", world.documents, world.votes, "-o", target, "--quiet").code == 0
    assert len(open_shards(target)) == 60
    assert list(tmp_path.iterdir()) == [target]
