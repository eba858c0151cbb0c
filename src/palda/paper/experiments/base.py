"""What an experiment is: cells to run, and tables and figures made of the finished ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palda.paper.cells import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import Cell, CellRecord
    from palda.paper.tables import Table

__all__ = ["ALL_SETS", "Choice", "Experiment", "seeds_note"]

ALL_SETS = ("reuters", "bibtex", "enron", "scene", "yeast")
"""In the paper's order."""


@dataclass(frozen=True)
class Choice:
    """What the user asks for; None leaves the experiment's own."""

    quick: bool = False
    sets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    ``plan`` says which cells it is made of, in an order in which cells on the same documents follow each other;
    ``tables`` and ``figures`` take whichever of them are finished.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    plan: Callable[[Choice], list[Cell]]
    tables: Callable[[Sequence[CellRecord]], list[Table]]
    figures: Callable[[Sequence[CellRecord]], Mapping[str, Figure]]


def seeds_note(records: Sequence[CellRecord]) -> str:
    """How many runs a mean is over."""
    counts = {len(group) for group in grouped(records, _but_seed).values()}
    if counts == {1}:
        return "One seed."
    low, high = min(counts), max(counts)
    return f"Mean ± standard deviation over {high if low == high else f'{low} to {high}'} seeds."


def _but_seed(cell: Cell) -> tuple[object, ...]:
    return cell.data, cell.method, cell.source, cell.fraction, cell.crowd, cell.options, cell.settings
