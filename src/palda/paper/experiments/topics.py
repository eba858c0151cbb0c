"""The two figures: Reuters by number of topics and fraction of the training documents, from gold labels and votes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from palda.paper.cells import group_by
from palda.paper.experiments.base import GRID_METHODS, TITLES, Experiment, Grid, figure_name, seeds_note
from palda.paper.tables import Column, Table, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import CellRecord
    from palda.paper.tables import Value

_N_TOPICS, _FRACTIONS = (10, 20, 40, 80), (0.25, 0.5, 0.75, 1.0)
_GRID = Grid(_N_TOPICS, _FRACTIONS, ("gold",), quick_n_topics=(10, 20, 80), quick_fractions=(0.25, 1.0))
_CROWD_GRID = replace(_GRID, sources=("votes",))

_GOLD_PANELS = {
    "hamming_accuracy": "Hamming accuracy",
    "log_likelihood": "class log-likelihood",
    "micro_f1": "micro-F1",
}
_CROWD_PANELS = _GOLD_PANELS | {"annotator_rmse": "annotator RMSE"}


def _tables(panels: Mapping[str, str], records: Sequence[CellRecord]) -> list[Table]:
    columns = [Column("topics", "topics", 0), Column("part", "training documents")]
    columns += [Column(name, heading, 4 if "rmse" in name else 3) for name, heading in panels.items()]
    if "annotator_rmse" in panels:
        columns.append(Column("oracle_rmse", "oracle RMSE", 4))
    groups = group_by(records, lambda cell: (cell.data, cell.method))
    return [
        Table(
            f"{data}: {TITLES[method]}, by number of topics and fraction of the training documents",
            tuple(columns),
            tuple(map(_row, group_by(data_records, lambda cell: (cell.option("n_topics"), cell.fraction)).values())),
            (seeds_note(data_records),),
        )
        for (data, method), data_records in groups.items()
    ]


def _row(records: Sequence[CellRecord]) -> Mapping[str, Value]:
    cell = records[0].cell
    return {"topics": str(cell.option("n_topics")), "part": f"{cell.fraction:.0%}"} | summarise(records)


def _figures(name: str, panels: Mapping[str, str], records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_topics

    sets = group_by(records, lambda cell: cell.data)
    return {figure_name(name, data): draw_topics(group, TITLES, panels) for data, group in sets.items()}


TOPICS = Experiment(
    "topics",
    "Reuters by number of topics and fraction of the training documents, gold labels",
    GRID_METHODS,
    _GRID.plan,
    partial(_tables, _GOLD_PANELS),
    partial(_figures, "topics", _GOLD_PANELS),
)
CROWD_TOPICS = Experiment(
    "crowd-topics",
    "Reuters by number of topics and fraction of the training documents, votes",
    GRID_METHODS,
    _CROWD_GRID.plan,
    partial(_tables, _CROWD_PANELS),
    partial(_figures, "crowd-topics", _CROWD_PANELS),
)
