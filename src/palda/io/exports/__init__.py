"""Exports of labelling platforms: one module per platform, and the recognition of a platform by its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["is_archive", "platform_of"]

# Columns or fields of an export: a platform is recognised if all names of one of its sets occur.
_MARKS: dict[str, tuple[frozenset[str], ...]] = {
    "labelstudio": (
        frozenset({"data", "annotations"}), frozenset({"data", "completions"}),
        frozenset({"annotation_id", "lead_time"}),
    ),
    "prodigy": (frozenset({"_input_hash", "answer"}), frozenset({"_session_id", "answer"})),
    "mturk": (frozenset({"HITId", "WorkerId"}),),
    "toloka": (frozenset({"ASSIGNMENT:worker_id"}),),
}  # fmt: skip


def platform_of(columns: Iterable[str]) -> str | None:
    """Platform whose export has these columns; None for other tables."""
    names = set(columns)
    return next((platform for platform, marks in _MARKS.items() if any(mark <= names for mark in marks)), None)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder or a zip file, as doccano exports one file per annotator."""
    return Path(path).is_dir() or Path(path).suffix.lower() == ".zip"
