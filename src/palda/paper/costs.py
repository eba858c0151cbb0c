"""What cells cost: how long those still to be run will take, learnt from those that are done."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palda.paper.cells import Cell, CellRecord

__all__ = ["Costs"]

_GUESS = 20.0  # seconds, when nothing at all is known


class Costs:
    """Expected seconds of a cell: the mean over the most similar cells that are done."""

    def __init__(self, records: Iterable[CellRecord] = ()) -> None:
        self._seconds: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
        for record in records:
            self.learn(record)

    def learn(self, record: CellRecord) -> None:
        """Take one more finished cell into account."""
        for kind in _kinds(record.cell):
            self._seconds[kind].append(record.seconds)

    def of(self, cell: Cell) -> float:
        """Expected seconds of a cell."""
        known = (self._seconds[kind] for kind in _kinds(cell) if kind in self._seconds)
        return fmean(next(known, [_GUESS]))


def _kinds(cell: Cell) -> list[tuple[object, ...]]:
    """Groups of similar cells that this one belongs to, from the closest to all."""
    full = (cell.data, cell.method, cell.source, cell.settings, cell.fraction)
    return [full, *(full[:size] for size in (4, 3, 2)), (cell.method, cell.source), (cell.data,), ()]
