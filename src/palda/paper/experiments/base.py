"""What an experiment is: cells to run, and tables and figures of the finished ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palda.paper.cells import group_by
from palda.paper.methods import METHODS, new_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import Cell, CellRecord, Source
    from palda.paper.tables import Table

ALL_SETS = ("reuters", "bibtex", "enron", "scene", "yeast")
"""Data sets in the order of the paper."""

GRID_METHODS = ("published", "palda")
TITLES = {name: METHODS[name].title for name in GRID_METHODS}


@dataclass(frozen=True)
class RunOptions:
    """Options of a run; None is the default of the experiment."""

    quick: bool = False
    sets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    ``plan`` returns the cells of a run, with cells on the same documents next to each other. ``tables`` and ``figures``
    accept any subset of the finished cells.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    plan: Callable[[RunOptions], list[Cell]]
    tables: Callable[[Sequence[CellRecord]], list[Table]]
    figures: Callable[[Sequence[CellRecord]], Mapping[str, Figure]]


@dataclass(frozen=True)
class Grid:
    """All combinations of numbers of topics, fractions of the training documents, labels, methods and seeds.

    ``quick_n_topics`` and ``quick_fractions`` replace the full values in a quick run; empty means no change.
    """

    n_topics: tuple[int, ...]
    fractions: tuple[float, ...]
    sources: tuple[Source, ...]
    crowd: str = "paper"
    n_seeds: int = 5
    quick_n_seeds: int = 1
    quick_n_topics: tuple[int, ...] = ()
    quick_fractions: tuple[float, ...] = ()

    def plan(self, options: RunOptions) -> list[Cell]:
        """Cells in an order that reads every split once."""
        quick = options.quick
        return [
            new_cell(
                data,
                method,
                source,
                seed,
                quick=quick,
                fraction=fraction,
                crowd=self.crowd,
                options={"n_topics": n_topics},
            )
            for data in options.sets or ("reuters",)
            for seed in range(options.seeds or (self.quick_n_seeds if quick else self.n_seeds))
            for method in options.methods or GRID_METHODS
            for source in self.sources
            for fraction in (quick and self.quick_fractions) or self.fractions
            for n_topics in (quick and self.quick_n_topics) or self.n_topics
        ]


def figure_name(experiment: str, data: str) -> str:
    """File name of a figure; it includes the data set unless that is Reuters, as in the paper."""
    return experiment if data == "reuters" else f"{experiment}-{data}"


def seeds_note(records: Sequence[CellRecord]) -> str:
    """Sentence that gives the number of seeds behind each mean."""
    counts = {len(group) for group in group_by(records, _without_seed).values()}
    if counts == {1}:
        return "One seed."
    low, high = min(counts), max(counts)
    return f"Mean ± standard deviation over {high if low == high else f'{low} to {high}'} seeds."


def _without_seed(cell: Cell) -> tuple[object, ...]:
    return cell.data, cell.method, cell.source, cell.fraction, cell.crowd, cell.options, cell.settings
