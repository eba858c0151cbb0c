"""``-`` for standard input: kept in a temporary file, so that readers can look at it twice and memory does not grow."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["local"]

_Given = TypeVar("_Given", Path, "Path | None")
_HEAD = 4096


@contextmanager
def local(path: _Given) -> Iterator[_Given]:
    """The path itself, or for ``-`` that of a file with everything that standard input holds."""
    if path is None or str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="palda-") as folder:
        kept = Path(folder) / "stdin"
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield kept.rename(kept.with_suffix(_suffix(kept)))


def _suffix(path: Path) -> str:
    """What the first bytes look like."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(b"PK\x03\x04"):
        return ".zip"
    if head.startswith(b"\x1f\x8b"):
        head = _unpacked(path)
    start = head.decode("utf-8-sig", errors="replace").lstrip()[:1]
    return {"[": ".json", "{": ".jsonl"}.get(start, ".csv")


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # a reader will say what is wrong
        return b""
