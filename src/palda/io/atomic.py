"""Atomic writes: a file is complete or absent, even if the process is killed or the machine stops."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(target: Path, *, unique: bool = True) -> Iterator[Path]:
    """Path of a temporary file to write; it is synced and renamed to ``target`` at the end, and deleted on failure.

    With ``unique``, several processes may replace the same target at a time. Without it, a file left behind by a killed
    process is overwritten by the next attempt.
    """
    suffix = f".{secrets.token_hex(4)}" if unique else ""
    unfinished = target.with_name(f".{target.name}{suffix}.part")
    try:
        yield unfinished
        _sync(unfinished)
        unfinished.replace(target)
        if os.name == "posix":
            _sync(target.parent)  # the name as well
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
