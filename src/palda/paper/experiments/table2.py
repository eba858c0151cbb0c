"""Table 2: Reuters by fraction of the training documents, 20 topics, from gold labels and from votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper import published_values
from palda.paper.cells import group_by
from palda.paper.experiments.base import GRID_METHODS, TITLES, Experiment, Grid, figure_name, seeds_note
from palda.paper.tables import Column, Table, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import CellRecord
    from palda.paper.tables import Value

_GRID = Grid((20,), (0.1, 0.3, 0.5, 0.7, 1.0), ("gold", "votes"))

_COLUMNS = (
    Column("part", "training documents"),
    Column("accuracy_paper", "Hamming: paper"),
    Column("accuracy", "here"),
    Column("f1_paper", "micro-F1: paper"),
    Column("f1", "here"),
    Column("f1_chosen", "chosen"),
    Column("crowd_accuracy_paper", "crowd, Hamming: paper"),
    Column("crowd_accuracy", "here"),
    Column("crowd_f1_paper", "crowd, micro-F1: paper"),
    Column("crowd_f1", "here"),
    Column("crowd_f1_chosen", "chosen"),
    Column("rmse_paper", "annotator RMSE: paper", 4),
    Column("rmse", "here", 4),
    Column("oracle", "oracle", 4),
)
_NOTE = (
    'Labels are predicted at ½; "chosen": at thresholds chosen on held-out documents. The oracle knows every true '
    "label and counts how often each annotator was right."
)
_MEASURES = {"accuracy": "hamming_accuracy", "f1": "micro_f1", "f1_chosen": "micro_f1_chosen"}
_ANNOTATOR_MEASURES = {"rmse": "annotator_rmse", "oracle": "oracle_rmse"}


def _tables(records: Sequence[CellRecord]) -> list[Table]:
    return [
        Table(
            f"{data}: {TITLES[method]}, 20 topics, by fraction of the training documents",
            _COLUMNS,
            tuple(_row(group, data) for group in group_by(data_records, lambda cell: cell.fraction).values()),
            (f"{seeds_note(data_records)} {_NOTE}",),
        )
        for (data, method), data_records in group_by(records, lambda cell: (cell.data, cell.method)).items()
    ]


def _row(records: Sequence[CellRecord], data: str) -> Mapping[str, Value]:
    by_source = group_by(records, lambda cell: cell.source)
    gold, crowd = (summarise(by_source.get(source, ())) for source in ("gold", "votes"))
    fraction = records[0].cell.fraction
    row: dict[str, Value] = {"part": f"{fraction:.0%}"}
    if data == "reuters":
        row |= {f"{name}_paper": value for name, value in published_values.TABLE_2.get(fraction, {}).items()}
    row |= {name: gold.get(measure) for name, measure in _MEASURES.items()}
    row |= {f"crowd_{name}": crowd.get(measure) for name, measure in _MEASURES.items()}
    return row | {name: crowd.get(measure) for name, measure in _ANNOTATOR_MEASURES.items()}


def _figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_fractions

    sets = group_by(records, lambda cell: cell.data)
    return {figure_name("table2", data): draw_fractions(group, TITLES) for data, group in sets.items()}


TABLE2 = Experiment(
    "table2", "Reuters by fraction of the training documents, 20 topics", GRID_METHODS, _GRID.plan, _tables, _figures
)
