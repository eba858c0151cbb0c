"""Files that are there whole or not at all, even if the process is killed or the machine stops."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(target: Path, *, unique: bool = True) -> Iterator[Path]:
    """A hidden file to write; it takes the target's name once it is safely on the disk, and vanishes if that fails.

    Several processes may replace the same target at a time, unless the hidden file's name is not ``unique``: then one
    that a kill has left behind is overwritten by the next attempt.
    """
    mark = f".{secrets.token_hex(4)}" if unique else ""
    unfinished = target.with_name(f".{target.name}{mark}.part")
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
