"""From a store of finished cells to an experiment's records, tables and figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palda.paper.cells import write_atomically
from palda.paper.experiments.base import Choice
from palda.paper.tables import to_csv, to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from palda.paper.cells import Cell, CellRecord, Store
    from palda.paper.experiments.base import Experiment
    from palda.paper.tables import Table

__all__ = ["command_of", "stored_records", "write_results"]


def stored_records(experiment: Experiment, store: Store) -> list[CellRecord]:
    """Every finished cell of an experiment, whatever number of seeds was run.

    Cells of the quick plan stand in where a row has none of the full one.
    """
    n_seeds = 1 + max((record.cell.seed for record in store.every()), default=0)
    full = store.load_all(experiment.plan(Choice(seeds=n_seeds)))
    rows = {_row(record.cell) for record in full}
    quick = store.load_all(experiment.plan(Choice(quick=True, methods=experiment.methods, seeds=n_seeds)))
    return full + [record for record in quick if _row(record.cell) not in rows]


def _row(cell: Cell) -> tuple[object, ...]:
    """What stands in one row of a table, however a method was set."""
    return cell.data, cell.method, cell.source, cell.fraction, cell.crowd, cell.option("n_topics")


def command_of(experiment: Experiment, records: Sequence[CellRecord]) -> str:
    """The command that gives these records, as far as they are complete."""
    cells = {record.cell for record in records}
    planned = experiment.plan(Choice())
    sets, methods = (_in_order(cells, planned, name) for name in ("data", "method"))
    full = Choice(sets=sets, methods=methods, seeds=1 + max(cell.seed for cell in cells))
    quick = replace(full, quick=True)
    likest = min((full, quick), key=lambda choice: len(cells.symmetric_difference(experiment.plan(choice))))
    by_default = experiment.plan(Choice(quick=likest.quick))
    text = f"palda reproduce {experiment.name}" + (" --quick" if likest.quick else "")
    if full.seeds != 1 + max(cell.seed for cell in by_default):
        text += f" --seeds {full.seeds}"
    for option, chosen, name in (("sets", sets, "data"), ("methods", methods, "method")):
        if chosen != _in_order(by_default, by_default, name):
            text += f" --{option} {','.join(chosen)}"
    return text


def _in_order(cells: Iterable[Cell], planned: Iterable[Cell], name: str) -> tuple[str, ...]:
    """Values that cells have, in the order of a plan; what the plan lacks comes last."""
    found = {getattr(cell, name) for cell in cells}
    order = dict.fromkeys(getattr(cell, name) for cell in planned)
    return (*(value for value in order if value in found), *sorted(found - order.keys()))


def write_results(
    experiment: Experiment, records: Sequence[CellRecord], tables: Sequence[Table], folder: Path
) -> list[Path]:
    """Write an experiment's tables (Markdown and CSV) and figures (SVG and PNG); gives back the paths."""
    from palda.paper.plots import save

    texts = {
        f"{experiment.name}.md": "\n".join(map(to_markdown, tables)),
        f"{experiment.name}.csv": to_csv(tables),
    }
    paths = []
    for name, text in texts.items():
        write_atomically(folder / name, text)
        paths.append(folder / name)
    for name, figure in experiment.figures(records).items():
        paths += save(figure, folder, name)
    return paths
