"""Table 2: Reuters by part of the training set, 20 topics, from the truth and from a crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper import printed_figures
from palda.paper.cells import grouped
from palda.paper.experiments.base import Experiment, seeds_note
from palda.paper.experiments.grids import OURS, TITLES, Grid, Grids, file_name
from palda.paper.tables import Column, Table, percent, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import CellRecord
    from palda.paper.tables import Value

__all__ = ["TABLE2"]

_PARTS = (0.1, 0.3, 0.5, 0.7, 1.0)
_GRIDS = Grids(Grid((20,), _PARTS, ("gold", "votes"), 5), Grid((20,), _PARTS, ("gold", "votes"), 1))

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
    "Labels at ½; chosen: at thresholds chosen on documents held back. The oracle knows every true label and counts "
    "how often each annotator was right."
)
_MEASURES = {"accuracy": "hamming_accuracy", "f1": "micro_f1", "f1_chosen": "micro_f1_chosen"}
_OF_ANNOTATORS = {"rmse": "annotator_rmse", "oracle": "oracle_rmse"}


def _tables(records: Sequence[CellRecord]) -> list[Table]:
    return [
        Table(
            f"{data}: {TITLES[method]}, 20 topics, by part of the training set",
            _COLUMNS,
            tuple(_by_part(group, data) for group in grouped(some, lambda cell: cell.fraction).values()),
            (f"{seeds_note(some)} {_NOTE}",),
        )
        for (data, method), some in grouped(records, lambda cell: (cell.data, cell.method)).items()
    ]


def _by_part(records: Sequence[CellRecord], data: str) -> Mapping[str, Value]:
    by_source = grouped(records, lambda cell: cell.source)
    clean, crowd = (summarise(by_source.get(source, ())) for source in ("gold", "votes"))
    fraction = records[0].cell.fraction
    row: dict[str, Value] = {"part": percent(fraction)}
    if data == "reuters":
        row |= {f"{name}_paper": figure for name, figure in printed_figures.TABLE_2.get(fraction, {}).items()}
    row |= {name: clean.get(measure) for name, measure in _MEASURES.items()}
    row |= {f"crowd_{name}": crowd.get(measure) for name, measure in _MEASURES.items()}
    return row | {name: crowd.get(measure) for name, measure in _OF_ANNOTATORS.items()}


def _figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_parts

    sets = grouped(records, lambda cell: cell.data)
    return {file_name("table2", data): draw_parts(some, TITLES) for data, some in sets.items()}


TABLE2 = Experiment("table2", "Reuters by part of the training set, 20 topics", OURS, _GRIDS.plan, _tables, _figures)
