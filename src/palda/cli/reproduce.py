"""``palda reproduce`` on the console: progress while cells run, tables at the end."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from palda.errors import PaldaError
from palda.paper import (
    RUN_CELL,
    Store,
    Table,
    duration,
    run,
    to_csv,
    to_records,
    usable_cores,
    write_atomically,
    write_results,
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from rich.console import Console

    from palda.paper import Cell, CellRecord
    from palda.paper.experiments import Choice, Experiment

__all__ = ["run_experiment", "write_page"]

_WIDE = 400  # columns of a table that nobody looks at on a screen
_INTERRUPTED = 130  # what shells expect after Ctrl-C


def run_experiment(experiment: Experiment, choice: Choice, folder: Path, jobs: int | None, form: str) -> int:
    """Run what is missing, write and print the tables; gives back the exit code."""
    store = Store(folder)
    cells = experiment.plan(choice)
    if not cells:
        raise PaldaError(f"a quick {experiment.name} has no cell of these methods; leave out --quick or --methods")
    try:
        with _Progress() as progress:
            outcome = run(cells, store, progress, jobs=jobs or usable_cores(), execute=RUN_CELL)
    except KeyboardInterrupt:
        _say(f"stopped; what is finished is kept in {folder}, and the same command goes on from there")
        return _INTERRUPTED
    records = store.load_all(dict.fromkeys(cells))
    if records:
        tables = experiment.tables(records)
        paths = write_results(experiment, records, tables, folder)
        _print_tables(tables, form)
        _say(f"written: {', '.join(str(path) for path in paths)}")
    n_failed = outcome.failures.total()
    if n_failed:
        _say(f"{n_failed} of {outcome.n_skipped + outcome.n_run + n_failed} cells failed; the reasons are above")
    return 1 if n_failed else 0


def write_page(page: Path, folder: Path, *, check: bool) -> int:
    """Fill the marked parts of a page from stored cells, or say whether they are up to date; gives the exit code."""
    from palda.paper import update_page

    try:
        text = page.read_text(encoding="utf-8")
    except OSError as failed:
        raise PaldaError(f"{page} cannot be read ({failed.strerror}); give the path of a Markdown page") from None
    found = update_page(text, Store(folder))
    for name in found.without_cells:
        _say(f"{name}: no finished cells in {folder}; its part is left as it is (run palda reproduce {name})")
    if check:
        for name in found.changed:
            _say(f"{name}: {page} does not match the cells in {folder}; run palda reproduce page {page}")
        return 1 if found.changed or found.without_cells else 0
    if found.changed:
        write_atomically(page, found.text)
    _say(f"{page}: {', '.join(found.changed) + ' written anew' if found.changed else 'nothing to change'}")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"palda: {text}\n")


def _print_tables(tables: list[Table], form: str) -> None:
    if form == "json":
        sys.stdout.write(json.dumps(to_records(tables), indent=1) + "\n")
    elif form == "csv":
        sys.stdout.write(to_csv(tables))
    else:
        _print_rich(tables)


def _print_rich(tables: list[Table]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    on_screen = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if on_screen else _WIDE)
    for table in tables:
        drawn = RichTable(box=box.SIMPLE if on_screen else None, title_justify="left", title_style="bold")
        for column in table.columns:
            is_text = column.name in ("method", "source", "part", "measure")
            drawn.add_column(column.heading, justify="left" if is_text else "right", overflow="fold")
        for row in table.texts():
            drawn.add_row(*row)
        console.print(table.title, style="bold", markup=False, highlight=False)
        console.print(drawn)
        for note in table.notes:
            console.print(note, markup=False, highlight=False, soft_wrap=not on_screen)
        console.print()


class _Progress:
    """A bar on a terminal, a line a cell elsewhere; both on standard error, with the time left."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._n_cells = self._n_done = 0
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _Bar()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.close()

    def begin(self, n_cells: int, n_done: int, left: float) -> None:
        """Cells asked for, and those that were done before."""
        self._n_cells, self._n_done = n_cells, n_done
        self._tell(f"{n_cells} cells, {n_done} of them done before; about {duration(left)} left")
        self._move(left)

    def finished(self, record: CellRecord, left: float) -> None:
        """A cell is done: a line, or a step of the bar."""
        self._n_done += 1
        if self._bar is None:
            place = f"{self._n_done}/{self._n_cells}"
            _say(f"{place} {record.cell}: {duration(record.seconds)}; about {duration(left)} left")
        self._move(left)

    def failed(self, cell: Cell, why: str, left: float) -> None:
        """A cell failed; the same reason is told once."""
        self._n_done += 1
        if why not in self._told:
            self._told.add(why)
            self._tell(f"failed: {cell}: {why}")
        self._move(left)

    def _tell(self, text: str) -> None:
        if self._bar is None:
            _say(text)
        else:
            self._bar.print(f"palda: {text}")

    def _move(self, left: float) -> None:
        if self._bar:
            self._bar.move(self._n_done, self._n_cells, f"about {duration(left)} left")


class _Bar:
    """A progress bar of rich's."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console: Console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
        self._progress = Progress(*columns, console=self._console)
        self._task = self._progress.add_task("cells", left="")
        self._progress.start()

    def move(self, done: int, total: int, left: str) -> None:
        self._progress.update(self._task, completed=done, total=total, left=left)

    def print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()
