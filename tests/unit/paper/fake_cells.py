"""Stand-ins for running a cell, imported by worker processes; what a method does is in its name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from palda.errors import PaldaError
from palda.paper import Cell, CellRecord, versions

LOG = "FAKE_CELLS_LOG"


def cell(seed: int = 0, method: str = "good", **fields: object) -> Cell:
    return Cell("toys", method, "gold", seed, **fields)  # type: ignore[arg-type]


def result(one: Cell, seconds: float = 1.0) -> CellRecord:
    """A record whose measures follow from the cell."""
    measures = {"micro_f1": 0.5 + one.seed / 100, "log_likelihood": float("nan")}
    details = {"quality": [0.9], "true_quality": [0.8]} if one.source == "votes" else {}
    return CellRecord(one, measures, details, ("a warning",), seconds, 1, "2026-01-01T00:00:00+00:00", versions())


def run(one: Cell, n_threads: int) -> CellRecord:
    """Note that the cell was run, then do what its method is called."""
    if LOG in os.environ:
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{one.method}-{one.seed}\n")
    if one.method == "bad":
        raise PaldaError("this method does not work")
    if one.method == "worse":
        raise KeyError("two\nlines")
    if one.method == "dead":
        os.kill(os.getpid(), signal.SIGKILL)
    if one.method == "slow":
        time.sleep(0.15)
    return result(one)


def threads(one: Cell, n_threads: int) -> CellRecord:
    """How many threads a method may use, and BLAS."""
    return CellRecord(one, {"given": float(n_threads), "blas": float(os.environ["OPENBLAS_NUM_THREADS"])})
