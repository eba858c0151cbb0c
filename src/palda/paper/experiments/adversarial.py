"""Malicious annotators: Reuters, ten of fifty annotators answer the opposite, 40 topics."""

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

_GRID = Grid((40,), (1.0,), ("votes",), "adversarial", quick_n_seeds=2)

_COLUMNS = (
    Column("method", "method"),
    Column("hamming_accuracy", "Hamming"),
    Column("log_likelihood", "log-likelihood"),
    Column("micro_f1", "micro-F1"),
    Column("micro_f1_chosen", "micro-F1, chosen"),
    Column("consensus_micro_f1", "consensus micro-F1"),
    Column("annotator_rmse", "annotator RMSE", 4),
    Column("oracle_rmse", "oracle RMSE", 4),
)
_NOTE = (
    "The oracle knows every true label and counts how often each annotator was right. With five votes per document no "
    "estimate can be much better, so the paper's .002 cannot be the error of such estimates."
)


def _tables(records: Sequence[CellRecord]) -> list[Table]:
    tables = []
    for data, data_records in group_by(records, lambda cell: cell.data).items():
        rows: list[Mapping[str, Value]] = (
            [{"method": "the paper", **published_values.ADVERSARIAL}] if data == "reuters" else []
        )
        for method, group in group_by(data_records, lambda cell: cell.method).items():
            rows.append({"method": TITLES[method]} | summarise(group))
        title = f"{data}: 10 of 50 annotators malicious, 40 topics"
        tables.append(Table(title, _COLUMNS, tuple(rows), (f"{seeds_note(data_records)} {_NOTE}",)))
    return tables


def _figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_qualities

    sets = group_by(records, lambda cell: cell.data)
    return {figure_name("adversarial", data): draw_qualities(group, TITLES) for data, group in sets.items()}


ADVERSARIAL = Experiment(
    "adversarial", "Reuters with malicious annotators, 40 topics", GRID_METHODS, _GRID.plan, _tables, _figures
)
