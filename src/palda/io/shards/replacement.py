"""Replaces and removes shard folders: only what palda wrote is deleted, and never through a symbolic link."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palda.errors import DataError
from palda.io.atomic import TEMPORARY_FILE, sync
from palda.io.shards.format import FORMAT, MANIFEST, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


@contextmanager
def write_errors(path: Path, advice: str = "") -> Iterator[None]:
    """Turn an error of the operating system into one line."""
    try:
        yield
    except OSError as refused:
        raise DataError(f"cannot be written: {refused.strerror or refused}{advice}", file=str(path)) from refused


def check_target(target: Path, *, force: bool) -> None:
    """Raise ``DataError`` unless the target is absent, or a shard folder without other files that may be replaced."""
    with write_errors(target):
        if target.is_symlink():
            raise DataError("is a symbolic link; give the name of a folder", file=str(target))
        try:
            target.lstat()  # a name that is too long raises here
        except FileNotFoundError:
            return
    listed = listed_files(target)
    if listed is None:
        raise DataError("already exists and is not a shard folder; choose another name", file=str(target))
    if not force:
        raise DataError("already exists; pass force=True to replace it, or choose another name", file=str(target))
    foreign = foreign_entry(target, lambda name: name in listed)
    if foreign is not None:
        raise DataError(
            f"contains {foreign!r}, which is not part of the shard folder; move it away, or choose another name",
            file=str(target),
        )


def listed_files(folder: Path) -> set[str] | None:
    """Names of the files of a shard folder of any version; None if its manifest does not name our format."""
    manifest = folder / MANIFEST
    if manifest.is_symlink() or not manifest.is_file():
        return None
    try:
        content = read_json(manifest)
    except DataError:
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return None
    shards, files = content.get("shards"), content.get("files")
    names = [entry.get("file") for entry in shards if isinstance(entry, dict)] if isinstance(shards, list) else []
    return {MANIFEST, *(files if isinstance(files, dict) else ()), *(name for name in names if isinstance(name, str))}


def foreign_entry(folder: Path, is_known: Callable[[str], object]) -> str | None:
    """Name of an entry of the folder that is neither a known regular file nor a temporary file; None without any."""
    with os.scandir(folder) as entries:
        return next((entry.name for entry in entries if not is_own_file(entry, is_known)), None)


def is_own_file(entry: os.DirEntry[str], is_known: Callable[[str], object]) -> bool:
    """Whether an entry of a folder is a regular file with a known name or the name of a temporary file."""
    has_known_name = bool(is_known(entry.name) or TEMPORARY_FILE.fullmatch(entry.name))
    return has_known_name and entry.is_file(follow_symlinks=False)


def remove_files(folder: Path) -> None:
    """Remove a folder of files."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def move_into_place(complete: Path, target: Path, old: Path) -> None:
    """Rename a complete folder to its target.

    A folder of that name is exchanged with it in one step, where the system can do that; otherwise it is renamed to
    ``old`` first.
    """
    if not os.path.lexists(target):
        complete.rename(target)
    elif not _exchange(complete, target):
        target.rename(old)
        complete.rename(target)
    if os.name == "posix":
        sync(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders; False if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
