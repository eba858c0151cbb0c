"""Stored results of ``real_gold``: a method is computed again if its votes or, for palda, the source has changed."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import palda
from benchmarks.real_gold_rivals import METHODS, Outcome, run

if TYPE_CHECKING:
    from benchmarks.real_gold_rivals import Task


@cache
def source_digest() -> str:
    """Digest of palda's source, which results of palda are stored under."""
    digest = hashlib.sha256()
    for path in sorted(Path(palda.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def task_digest(task: Task) -> str:
    """Digest of what a method gets, so that a result is never used for other votes."""
    votes = task.votes if task.people is None else task.people
    names = (votes.doc_ids, votes.annotators, votes.classes)
    digest = hashlib.sha256(repr([axis.tolist() for axis in names]).encode())
    for part in (votes.doc, votes.annotator, votes.label, votes.value, task.taught, task.reference):
        if part is not None:
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:12]


def outcome_of(folder: Path, case: str, name: str, task: Task) -> Outcome:
    """The stored result of a method, or a new one, which is stored.

    ``case`` names the crowd and the draw. A method that fails raises, and nothing is stored.
    """
    method = METHODS[name]
    parts = (name, task_digest(method.limited(task)), *((source_digest(),) if method.is_palda else ()))
    path = folder / case / f"{'-'.join(parts)}.npz"
    if path.is_file():
        with np.load(path) as stored:
            return Outcome(**{key: stored[key] if stored[key].ndim else float(stored[key]) for key in stored.files})
    start = time.perf_counter()
    found = run(method, task)
    found.seconds = time.perf_counter() - start
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **vars(found))
    return found
