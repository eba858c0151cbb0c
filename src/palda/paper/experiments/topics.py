"""The two figures: Reuters by number of topics and part of the training set, from the truth and from a crowd."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from palda.paper.cells import grouped
from palda.paper.experiments.base import Experiment, seeds_note
from palda.paper.experiments.grids import OURS, TITLES, Grid, Grids, file_name
from palda.paper.tables import Column, Table, percent, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import Cell, CellRecord, Source
    from palda.paper.tables import Value

__all__ = ["CROWD_TOPICS", "TOPICS"]

_SOURCES: tuple[Source, ...] = ("gold", "votes")
_N_TOPICS, _PARTS = (10, 20, 40, 80), (0.25, 0.5, 0.75, 1.0)
_QUICK_N_TOPICS, _QUICK_PARTS = (10, 20, 80), (0.25, 1.0)
_TOPICS, _CROWD_TOPICS = (
    Grids(Grid(_N_TOPICS, _PARTS, (source,), 5), Grid(_QUICK_N_TOPICS, _QUICK_PARTS, (source,), 1))
    for source in _SOURCES
)

_CLEAN_PANELS = {
    "hamming_accuracy": "Hamming accuracy",
    "log_likelihood": "class log-likelihood",
    "micro_f1": "micro-F1",
}
_CROWD_PANELS = _CLEAN_PANELS | {"annotator_rmse": "annotator RMSE"}


def _tables(panels: Mapping[str, str], records: Sequence[CellRecord]) -> list[Table]:
    columns = [Column("topics", "topics", 0), Column("part", "training documents")]
    columns += [Column(name, heading, 4 if "rmse" in name else 3) for name, heading in panels.items()]
    if "annotator_rmse" in panels:
        columns.append(Column("oracle_rmse", "oracle RMSE", 4))
    groups = grouped(records, lambda cell: (cell.data, cell.method))
    return [
        Table(
            f"{data}: {TITLES[method]}, by number of topics and part of the training set",
            tuple(columns),
            tuple(_row(group) for group in grouped(some, _place).values()),
            (seeds_note(some),),
        )
        for (data, method), some in groups.items()
    ]


def _place(cell: Cell) -> tuple[object, float]:
    return cell.option("n_topics"), cell.fraction


def _row(records: Sequence[CellRecord]) -> Mapping[str, Value]:
    cell = records[0].cell
    return {"topics": str(cell.option("n_topics")), "part": percent(cell.fraction)} | summarise(records)


def _figures(name: str, panels: Mapping[str, str], records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_topics

    sets = grouped(records, lambda cell: cell.data)
    return {file_name(name, data): draw_topics(some, TITLES, panels) for data, some in sets.items()}


TOPICS = Experiment(
    "topics",
    "Reuters by topics and part of the training set, true labels",
    OURS,
    _TOPICS.plan,
    partial(_tables, _CLEAN_PANELS),
    partial(_figures, "topics", _CLEAN_PANELS),
)
CROWD_TOPICS = Experiment(
    "crowd-topics",
    "Reuters by topics and part of the training set, from votes",
    OURS,
    _CROWD_TOPICS.plan,
    partial(_tables, _CROWD_PANELS),
    partial(_figures, "crowd-topics", _CROWD_PANELS),
)
