"""Malicious annotators: Reuters, ten liars among fifty, 40 topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper import printed_figures
from palda.paper.cells import grouped
from palda.paper.experiments.base import Experiment, seeds_note
from palda.paper.experiments.grids import OURS, TITLES, Grid, Grids, file_name
from palda.paper.tables import Column, Table, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import CellRecord
    from palda.paper.tables import Value

__all__ = ["ADVERSARIAL"]

_GRIDS = Grids(Grid((40,), (1.0,), ("votes",), 5, "adversarial"), Grid((40,), (1.0,), ("votes",), 2, "adversarial"))

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


def _tables(records: Sequence[CellRecord]) -> list[Table]:
    made = []
    for data, some in grouped(records, lambda cell: cell.data).items():
        rows: list[Mapping[str, Value]] = (
            [{"method": "the paper", **printed_figures.ADVERSARIAL}] if data == "reuters" else []
        )
        for method, group in grouped(some, lambda cell: cell.method).items():
            rows.append({"method": TITLES[method]} | summarise(group))
        note = (
            f"{seeds_note(some)} The oracle knows every true label and counts how often each annotator was right: with "
            "five votes a document nobody can do much better, so the paper's .002 is no error of such estimates."
        )
        title = f"{data}: 10 of 50 annotators malicious, 40 topics"
        made.append(Table(title, _COLUMNS, tuple(rows), (note,)))
    return made


def _figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    from palda.paper.plots import draw_qualities

    sets = grouped(records, lambda cell: cell.data)
    return {file_name("adversarial", data): draw_qualities(some, TITLES) for data, some in sets.items()}


ADVERSARIAL = Experiment(
    "adversarial",
    "Reuters with malicious annotators, 40 topics",
    OURS,
    _GRIDS.plan,
    _tables,
    _figures,
)
