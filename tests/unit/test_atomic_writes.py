"""Files are replaced as a whole, by one process at a time, and only if they are regular files."""

from __future__ import annotations

import errno
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from palda.io import FolderLock, replacing, reserved, sibling
from palda.io.atomic import TEMPORARY_FILE, temporary_name


def _write(target: Path, text: str) -> None:
    with replacing(target) as unfinished:
        unfinished.write_text(text)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with replacing(target) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent == tmp_path
        assert TEMPORARY_FILE.fullmatch(unfinished.name)
        assert not target.exists()
    assert target.read_text() == "new"
    with suppress(ZeroDivisionError), replacing(target) as unfinished:
        unfinished.write_text(str(1 / 0))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "new"


def test_what_a_killed_process_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / temporary_name("file")).write_text("a long text that a killed process has written")
    _write(tmp_path / "file", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "new"}


def test_a_second_writer_of_the_same_file_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with replacing(target) as unfinished:
        with pytest.raises(BlockingIOError, match="another process is writing it"):
            _write(target, "second")
        _write(tmp_path / "other", "x")
        unfinished.write_text("first")
    assert target.read_text() == "first"


def test_a_reserved_file_is_written_by_its_process_alone(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with reserved(target):
        with pytest.raises(BlockingIOError), reserved(target):
            pass
        _write(target, "first")
        _write(target, "second")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "second"}
    with reserved(tmp_path / "never"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_threads_cannot_write_the_same_file(tmp_path: Path) -> None:
    errors: list[OSError] = []

    def second() -> None:
        try:
            _write(tmp_path / "file", "second")
        except OSError as error:
            errors.append(error)

    with replacing(tmp_path / "file") as unfinished:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        unfinished.write_text("first")
    assert [error.errno for error in errors] == [errno.EWOULDBLOCK]
    assert (tmp_path / "file").read_text() == "first"


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    link.symlink_to(real)
    for text in ("created", "replaced"):
        _write(link, text)
        assert link.is_symlink()
        assert real.read_text() == text
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link", "real"]
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic link to itself"):
        _write(loop, "x")


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(tmp_path)  # names of sockets must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(before)
        (tmp_path / "folder").mkdir()
        for name in ("pipe", "socket", "folder"):
            mode = (tmp_path / name).lstat().st_mode
            with pytest.raises(OSError, match="it is a "):
                _write(tmp_path / name, "x")
            assert (tmp_path / name).lstat().st_mode == mode
    with pytest.raises(OSError, match="only regular files are replaced"):
        _write(Path("/dev/null"), "x")
    assert not any(TEMPORARY_FILE.fullmatch(path.name) for path in tmp_path.iterdir())


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / temporary_name("file")).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):  # noqa: PT011 - the message is that of the operating system
        _write(tmp_path / "file", "x")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("letter", ["x", "ж"])
def test_the_longest_names_can_be_written(letter: str, tmp_path: Path) -> None:
    for n_bytes in (240, 249, 255):
        name = letter * (n_bytes // len(letter.encode()))
        _write(tmp_path / name, "x")
        beside = sibling(tmp_path / name, ".checkpoint")
        beside.mkdir()
        assert beside.name.endswith(".checkpoint")
        assert len(os.fsencode(beside.name)) <= 255
    assert len(list(tmp_path.iterdir())) == 6
    assert sibling(tmp_path / "m", ".part") == tmp_path / "m.part"


def test_a_folder_is_locked_by_one_at_a_time(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        with pytest.raises(BlockingIOError):
            FolderLock(tmp_path)
        (tmp_path / "link").symlink_to(tmp_path)
        with pytest.raises(BlockingIOError):
            FolderLock(tmp_path / "link")
    FolderLock(tmp_path).release()
