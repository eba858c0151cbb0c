"""Run the cells that are not finished yet, and store each result as soon as it is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

from palda.errors import PaldaError
from palda.paper.workers import Failure, Workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palda.paper.cells import Cell, CellRecord, Store

RUN_CELL = "palda.paper.execution:run_cell"

_DEFAULT_SECONDS = 20.0  # expected time of a cell when no cell is finished


class RunListener(Protocol):
    """Receives the progress of a run; ``left`` is the estimated time left in seconds."""

    def begin(self, n_cells: int, n_done: int, left: float) -> None:
        """The run starts; ``n_done`` of the ``n_cells`` cells were finished before."""

    def finished(self, record: CellRecord, left: float) -> None:
        """A cell is finished and stored."""

    def failed(self, cell: Cell, why: str, left: float) -> None:
        """A cell failed; nothing is stored."""


@dataclass
class Outcome:
    """Number of cells that were finished before, that were run, and that failed for each reason."""

    n_skipped: int = 0
    n_run: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def run(
    cells: Sequence[Cell], store: Store, listener: RunListener, *, jobs: int | None = None, execute: str = RUN_CELL
) -> Outcome:
    """Run the cells that the store does not hold, ``jobs`` at a time (default and maximum: the number of cores).

    Each job gets an equal share of the cores as threads; results depend on neither. A cell that fails is reported and
    does not stop the others. An interrupt loses only the cells that are being run.
    """
    from palda.engine import resolve_n_jobs

    if jobs is not None and jobs < 1:
        raise PaldaError(f"jobs is {jobs}; it must be at least 1")
    n_cores = resolve_n_jobs(-1)
    n_jobs = min(jobs or n_cores, n_cores)
    pending = list(dict.fromkeys(cell for cell in cells if store.load(cell) is None))
    outcome = Outcome(n_skipped=len(set(cells)) - len(pending))
    times, unfinished = CellTimes(store.load_everything()), set(pending)

    def seconds_left() -> float:
        return sum(map(times.expected, unfinished)) / n_jobs

    listener.begin(len(set(cells)), outcome.n_skipped, seconds_left())
    with closing(Workers(execute, n_jobs, n_cores // n_jobs)) as workers:
        for cell, result in workers.map(pending):
            unfinished.discard(cell)
            if isinstance(result, Failure):
                outcome.failures[result] += 1
                listener.failed(cell, result, seconds_left())
                continue
            store.save(result)
            times.add(result)
            outcome.n_run += 1
            listener.finished(result, seconds_left())
    return outcome


class CellTimes:
    """Expected run time of a cell: the mean over the most similar finished cells."""

    def __init__(self, records: Iterable[CellRecord] = ()) -> None:
        self._seconds: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
        for record in records:
            self.add(record)

    def add(self, record: CellRecord) -> None:
        """Include one more finished cell."""
        for group in _similar_groups(record.cell):
            self._seconds[group].append(record.seconds)

    def expected(self, cell: Cell) -> float:
        """Expected seconds of a cell."""
        known = (self._seconds[group] for group in _similar_groups(cell) if group in self._seconds)
        return fmean(next(known, [_DEFAULT_SECONDS]))


def _similar_groups(cell: Cell) -> list[tuple[object, ...]]:
    """Groups of similar cells that this cell belongs to, from the most similar ones to all cells."""
    full = (cell.data, cell.method, cell.source, cell.settings, cell.fraction)
    return [full, *(full[:size] for size in (4, 3, 2)), (cell.method, cell.source), (cell.data,), ()]
