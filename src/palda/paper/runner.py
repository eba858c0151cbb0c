"""Run the cells that are not done yet, and store each as it finishes."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from palda.errors import PaldaError
from palda.paper.costs import Costs
from palda.paper.workers import Failure, Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palda.paper.cells import Cell, CellRecord, Store

__all__ = ["RUN_CELL", "Outcome", "Watch", "run", "usable_cores"]

RUN_CELL = "palda.paper.execute:run_cell"


class Watch(Protocol):
    """Who is told how far a run has got; times are in seconds."""

    def begin(self, n_cells: int, n_done: int, left: float) -> None:
        """Cells asked for, those that were done before, and time left."""

    def finished(self, record: CellRecord, left: float) -> None:
        """A cell is done and stored."""

    def failed(self, cell: Cell, why: str, left: float) -> None:
        """A cell failed; nothing is stored."""


@dataclass
class Outcome:
    """What became of the cells asked for."""

    n_skipped: int = 0
    n_run: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """How many cells failed for each reason."""


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(cells: Sequence[Cell], store: Store, watch: Watch, *, jobs: int = 1, execute: str = RUN_CELL) -> Outcome:
    """Run the cells that the store does not hold, ``jobs`` at a time, but no more than there are cores.

    Each gets an equal share of the cores as threads, so that jobs x threads never exceed them; results do not depend
    on either. A cell that fails is told of and does not stop the others. An interrupt loses the cells under way.
    """
    if jobs < 1:
        raise PaldaError(f"jobs is {jobs}; at least one process is needed")
    jobs = min(jobs, usable_cores())
    pending = list(dict.fromkeys(cell for cell in cells if store.load(cell) is None))
    outcome = Outcome(n_skipped=len(set(cells)) - len(pending))
    costs, left = Costs(store.every()), set(pending)

    def seconds_left() -> float:
        return sum(map(costs.of, left)) / jobs

    watch.begin(len(set(cells)), outcome.n_skipped, seconds_left())
    with Workers(execute, jobs, usable_cores() // jobs) as workers:
        for cell, result in workers.map(pending):
            left.discard(cell)
            if isinstance(result, Failure):
                outcome.failures[result] += 1
                watch.failed(cell, result, seconds_left())
                continue
            store.save(result)
            costs.learn(result)
            outcome.n_run += 1
            watch.finished(result, seconds_left())
    return outcome
