"""From stored cells to the tables and figures of an experiment, and into the marked parts of a Markdown page.

In a page, ``<!-- table1 -->`` opens the part of the experiment ``table1`` and ``<!-- /table1 -->`` closes it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from palda.errors import PaldaError
from palda.paper.cells import write_atomically
from palda.paper.experiments import EXPERIMENTS, RunOptions
from palda.paper.tables import to_csv, to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from palda.paper.cells import Cell, CellRecord, Store
    from palda.paper.experiments import Experiment
    from palda.paper.tables import Table

_MARKER = re.compile(r"<!-- (/?)([a-z0-9-]+) -->")


def stored_records(experiment: Experiment, store: Store) -> list[CellRecord]:
    """Every finished cell of an experiment, with any number of seeds.

    Cells of the quick plan are used only for rows that have no cell of the full plan.
    """
    n_seeds = 1 + max((record.cell.seed for record in store.load_everything()), default=0)
    full = store.load_all(experiment.plan(RunOptions(seeds=n_seeds)))
    rows = {_table_row(record.cell) for record in full}
    quick = store.load_all(experiment.plan(RunOptions(quick=True, methods=experiment.methods, seeds=n_seeds)))
    return full + [record for record in quick if _table_row(record.cell) not in rows]


def _table_row(cell: Cell) -> tuple[object, ...]:
    """Key of the table row of a cell, whatever the settings of its method."""
    return cell.data, cell.method, cell.source, cell.fraction, cell.crowd, cell.option("n_topics")


def reproduce_command(experiment: Experiment, records: Sequence[CellRecord]) -> str:
    """The command that produces these records, or the closest one if they are incomplete."""
    cells = {record.cell for record in records}
    planned = experiment.plan(RunOptions())
    sets, methods = (_in_order(cells, planned, name) for name in ("data", "method"))
    full = RunOptions(sets=sets, methods=methods, seeds=1 + max(cell.seed for cell in cells))
    quick = replace(full, quick=True)
    closest = min((full, quick), key=lambda options: len(cells.symmetric_difference(experiment.plan(options))))
    by_default = experiment.plan(RunOptions(quick=closest.quick))
    text = f"palda reproduce {experiment.name}" + (" --quick" if closest.quick else "")
    if full.seeds != 1 + max(cell.seed for cell in by_default):
        text += f" --seeds {full.seeds}"
    for option, values, name in (("sets", sets, "data"), ("methods", methods, "method")):
        if values != _in_order(by_default, by_default, name):
            text += f" --{option} {','.join(values)}"
    return text


def _in_order(cells: Iterable[Cell], planned: Iterable[Cell], name: str) -> tuple[str, ...]:
    """Distinct values of a field of cells, in the order of a plan; values that the plan lacks come last."""
    values = {getattr(cell, name) for cell in cells}
    order = dict.fromkeys(getattr(cell, name) for cell in planned)
    return (*(value for value in order if value in values), *sorted(values - order.keys()))


def write_results(
    experiment: Experiment, records: Sequence[CellRecord], tables: Sequence[Table], folder: Path
) -> list[Path]:
    """Write an experiment's tables (Markdown and CSV) and figures (SVG and PNG), and return the paths."""
    from palda.paper.plots import save_figure

    texts = {".md": "\n".join(map(to_markdown, tables)), ".csv": to_csv(tables)}
    paths = []
    for suffix, text in texts.items():
        paths.append(folder / f"{experiment.name}{suffix}")
        write_atomically(paths[-1], text)
    for name, figure in experiment.figures(records).items():
        paths += save_figure(figure, folder, name)
    return paths


class PageUpdate(NamedTuple):
    """New text of a page, the experiments whose parts changed, and those that have no finished cells."""

    text: str
    changed: list[str]
    without_cells: list[str]


def update_page(text: str, store: Store) -> PageUpdate:
    """Rewrite every marked part of a page from stored cells; parts without finished cells stay as they are."""
    changed, without_cells = [], []
    for name in _marked_experiments(text):
        records = stored_records(EXPERIMENTS[name], store)
        if not records:
            without_cells.append(name)
            continue
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, rest = text.split(opening, 1)
        old, after = rest.split(closing, 1)
        tables = EXPERIMENTS[name].tables(records)
        new = "\n" + "\n".join([_provenance(EXPERIMENTS[name], records), *map(to_markdown, tables)])
        if new != old:
            changed.append(name)
        text = before + opening + new + closing + after
    return PageUpdate(text, changed, without_cells)


def _marked_experiments(text: str) -> list[str]:
    """Experiments that have a part in the page; every part must be opened once and then closed."""
    names: list[str] = []
    open_part: str | None = None
    for slash, name in _MARKER.findall(text):
        if name not in EXPERIMENTS:
            continue
        if slash and name == open_part:
            open_part = None
        elif slash or open_part or name in names:
            raise PaldaError(f"the marker <!-- {slash}{name} --> is misplaced; open each part once, then close it")
        else:
            open_part = name
            names.append(name)
    if open_part:
        raise PaldaError(f"the part <!-- {open_part} --> is never closed; add <!-- /{open_part} --> after it")
    if not names:
        known = ", ".join(f"<!-- {name} -->" for name in EXPERIMENTS)
        raise PaldaError(f"the page has no marked part; add one of {known} and its closing marker")
    return names


def _provenance(experiment: Experiment, records: Sequence[CellRecord]) -> str:
    """Command, number of cells, seeds, total time and package versions behind some records."""
    from palda.io import duration

    seeds = sorted({record.cell.seed for record in records})
    seeds_text = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
    versions = [
        f"{name} {' / '.join(sorted({record.versions[name] for record in records if name in record.versions}))}"
        for name in dict.fromkeys(name for record in records for name in record.versions)
    ]
    total = duration(sum(record.seconds for record in records))
    command = reproduce_command(experiment, records)
    return f"`{command}`: {len(records)} cells, {seeds_text}; {total} in total; {', '.join(versions)}.\n"
