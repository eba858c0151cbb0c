"""Grids of number of topics, part of the training documents and labels, for the model as published and by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palda.paper.methods import METHODS, new_cell

if TYPE_CHECKING:
    from palda.paper.cells import Cell, Source
    from palda.paper.experiments.base import Choice

__all__ = ["OURS", "TITLES", "Grid", "Grids", "file_name"]

OURS = ("published", "palda")
TITLES = {name: METHODS[name].title for name in OURS}


@dataclass(frozen=True)
class Grid:
    """Values that are crossed with each other, and with methods and seeds."""

    n_topics: tuple[int, ...]
    fractions: tuple[float, ...]
    sources: tuple[Source, ...]
    n_seeds: int
    crowd: str = "paper"

    def cells(self, choice: Choice) -> list[Cell]:
        """Cells in an order that reads every split once."""
        return [
            new_cell(
                data,
                method,
                source,
                seed,
                quick=choice.quick,
                fraction=fraction,
                crowd=self.crowd,
                options={"n_topics": n_topics},
            )
            for data in choice.sets or ("reuters",)
            for seed in range(choice.seeds or self.n_seeds)
            for method in choice.methods or OURS
            for source in self.sources
            for fraction in self.fractions
            for n_topics in self.n_topics
        ]


@dataclass(frozen=True)
class Grids:
    """A full grid and a quick one."""

    full: Grid
    quick: Grid

    def plan(self, choice: Choice) -> list[Cell]:
        """Cells of the grid that is asked for."""
        return (self.quick if choice.quick else self.full).cells(choice)


def file_name(experiment: str, data: str) -> str:
    """Name of a figure; Reuters is the paper's own data set."""
    return experiment if data == "reuters" else f"{experiment}-{data}"
