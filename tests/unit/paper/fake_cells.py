"""Replacements for ``run_cell``, imported by worker processes; the name of a method says what it does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from palda.errors import PaldaError
from palda.paper import Cell, CellRecord, versions

LOG = "FAKE_CELLS_LOG"


def make_cell(seed: int = 0, method: str = "good", **fields: object) -> Cell:
    return Cell("toys", method, "gold", seed, **fields)  # type: ignore[arg-type]


def make_record(cell: Cell, seconds: float = 1.0) -> CellRecord:
    """A record whose measures depend on the cell alcell."""
    measures = {"micro_f1": 0.5 + cell.seed / 100, "log_likelihood": float("nan")}
    details = {"quality": [0.9], "true_quality": [0.8]} if cell.source == "votes" else {}
    return CellRecord(cell, measures, details, ("a warning",), seconds, 1, "2026-01-01T00:00:00+00:00", versions())


def run(cell: Cell, n_threads: int) -> CellRecord:
    """Log the cell, then succeed, fail, die or wait, as the method's name says."""
    if LOG in os.environ:
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{cell.method}-{cell.seed}\n")
    if cell.method == "bad":
        raise PaldaError("this method does not work")
    if cell.method == "worse":
        raise KeyError("two\nlines")
    if cell.method == "dead":
        os.kill(os.getpid(), signal.SIGKILL)
    if cell.method == "slow":
        time.sleep(0.15)
    return make_record(cell)


def threads(cell: Cell, n_threads: int) -> CellRecord:
    """Number of threads that a method and BLAS may use."""
    return CellRecord(cell, {"given": float(n_threads), "blas": float(os.environ["OPENBLAS_NUM_THREADS"])})
