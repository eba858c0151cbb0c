"""``palda reproduce``: the experiments of the paper, one command per experiment."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palda.cli.console import Messages, Terminated, print_table, standard_output
from palda.cli.options import flag, option
from palda.errors import PaldaError
from palda.paper import ALL_SETS, EXPERIMENTS, Experiment, RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

    from palda.paper import Cell, CellRecord, Table

_TEXT_COLUMNS = ("method", "source", "part", "measure")

reproduce = typer.Typer(
    help="Run the experiments of the paper and further methods. Finished cells are kept; a second run resumes.",
    no_args_is_help=True,
)

ResultsFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder of finished cells, tables and figures.")]


def _add_experiment(experiment: Experiment) -> None:
    methods_help = f"Methods: {', '.join(experiment.methods)}."

    @reproduce.command(experiment.name, help=f"{experiment.title[0].upper()}{experiment.title[1:]}.\n\n{methods_help}")
    def command(
        output: ResultsFolder = Path("palda-results"),
        quick: Annotated[bool, flag("Fewer seeds and smaller grids: about 15 minutes on 2 cores.", "--quick")] = False,
        sets: Annotated[
            str | None,
            option(f"Data sets, separated by commas: {', '.join(ALL_SETS)}.", show_default="those of the experiment"),
        ] = None,
        methods: Annotated[str | None, option("Methods, separated by commas.", show_default="all")] = None,
        seeds: Annotated[int | None, option("Number of seeds.", min=1, show_default="that of the experiment")] = None,
        jobs: Annotated[
            int | None, option("Cells to run in parallel processes.", min=1, show_default="one per core")
        ] = None,
        as_json: Annotated[bool, flag("Print the tables as JSON.", "--json")] = False,
        as_csv: Annotated[bool, flag("Print the tables as CSV.", "--csv")] = False,
    ) -> None:
        if as_json and as_csv:
            raise typer.BadParameter("choose one of --json and --csv")
        options = RunOptions(
            quick, _names(sets, ALL_SETS, "--sets"), _names(methods, experiment.methods, "--methods"), seeds
        )
        form = "json" if as_json else "csv" if as_csv else "text"
        raise typer.Exit(run_experiment(experiment, options, output, jobs, form))


for _experiment in EXPERIMENTS.values():
    _add_experiment(_experiment)


@reproduce.command()
def page(
    file: Annotated[Path, typer.Argument(help="Markdown page with <!-- table1 --> ... <!-- /table1 --> markers.")],
    output: ResultsFolder = Path("palda-results"),
    check: Annotated[bool, flag("Only check whether the page matches the cells.", "--check")] = False,
) -> None:
    """Write the tables of finished cells into a Markdown page, between the markers of each experiment."""
    from palda.paper import Store, update_page, write_atomically

    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PaldaError(f"{file} cannot be read ({error.strerror}); give the path of a Markdown page") from None
    messages = Messages()
    update = update_page(text, Store(output))
    for name in update.without_cells:
        messages.write(f"{name}: no finished cells in {output}; its part is unchanged (run palda reproduce {name})")
    if check:
        for name in update.changed:
            messages.write(f"{name}: {file} does not match the cells in {output}; run palda reproduce page {file}")
        raise typer.Exit(1 if update.changed or update.without_cells else 0)
    if update.changed:
        write_atomically(file, update.text)
    messages.write(f"{file}: {'updated ' + ', '.join(update.changed) if update.changed else 'no change'}")


def _names(text: str | None, known: tuple[str, ...], option: str) -> tuple[str, ...] | None:
    """Distinct names of a list separated by commas."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"unknown name {unknown[0]!r}" if unknown else "the list is empty"
        raise typer.BadParameter(f"{problem}; choose from {', '.join(known)}", param_hint=option)
    return names


def run_experiment(experiment: Experiment, options: RunOptions, folder: Path, jobs: int | None, form: str) -> int:
    """Run the missing cells, write and print the tables; returns the exit code."""
    from palda.paper import RUN_CELL, Store, run, write_results

    messages, store, cells = Messages(), Store(folder), experiment.plan(options)
    if not cells:
        raise PaldaError(f"a quick {experiment.name} has no cells of these methods; leave out --quick or --methods")
    with _only_run_in(folder):
        try:
            with _progress() as progress:
                outcome = run(cells, store, progress, jobs=jobs, execute=RUN_CELL)
        except (KeyboardInterrupt, Terminated) as stopped:
            stopped.args = (f"finished cells are kept in {folder}; repeat the command to resume",)
            raise
        records = store.load_all(dict.fromkeys(cells))
        if records:
            tables = experiment.tables(records)
            paths = write_results(experiment, records, tables, folder)
            _print_tables(tables, form)
            messages.write(f"wrote {', '.join(str(path) for path in paths)}")
    n_failed = outcome.failures.total()
    if n_failed:
        n_cells = outcome.n_skipped + outcome.n_run + n_failed
        messages.write(f"{n_failed} of {n_cells} cells failed; the reasons are above")
    return 1 if n_failed else 0


@contextmanager
def _only_run_in(folder: Path) -> Iterator[None]:
    """Lock the folder of results; raises ``PaldaError`` if another run is using it."""
    from palda.io import FolderLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except BlockingIOError:
        raise PaldaError(
            f"{folder} is in use by another palda reproduce; wait for it, or choose another folder"
        ) from None
    except OSError as error:
        raise PaldaError(f"cannot write to {folder} ({error.strerror or error}); choose another folder") from None
    with lock:
        yield


def _print_tables(tables: list[Table], form: str) -> None:
    from palda.paper import to_csv, to_records

    with standard_output():
        if form == "json":
            sys.stdout.write(json.dumps(to_records(tables), indent=1) + "\n")
        elif form == "csv":
            sys.stdout.write(to_csv(tables))
        else:
            for table in tables:
                headings = [column.heading for column in table.columns]
                numeric = [column.name not in _TEXT_COLUMNS for column in table.columns]
                print_table(table.title, headings, table.texts(), table.notes, numeric=numeric)
                sys.stdout.write("\n")


@contextmanager
def _progress() -> Iterator[_Progress]:
    """Progress of the cells on standard error with the remaining time: a bar on a terminal, else one line per cell."""
    if not sys.stderr.isatty():
        yield _Progress(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Progress(bar)


class _Progress:
    """Shows the progress of a run on a bar, or in lines if there is none."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._n_cells = self._n_done = 0
        self._reasons: set[str] = set()
        if bar:
            self._task = bar.add_task("")

    def begin(self, n_cells: int, n_done: int, left: float) -> None:
        """Start ``n_cells`` cells, ``n_done`` of which were finished before; ``left`` seconds remain."""
        self._n_cells, self._n_done = n_cells, n_done
        self._write(f"{n_cells} cells, {n_done} already finished; {_remaining(left)}")
        self._update(left)

    def finished(self, record: CellRecord, left: float) -> None:
        """A cell has finished."""
        from palda.io import duration

        self._n_done += 1
        if self._bar is None:
            place = f"{self._n_done}/{self._n_cells}"
            self._write(f"{place} {record.cell}: {duration(record.seconds)}; {_remaining(left)}")
        self._update(left)

    def failed(self, cell: Cell, why: str, left: float) -> None:
        """A cell has failed; each reason is shown once."""
        self._n_done += 1
        if why not in self._reasons:
            self._reasons.add(why)
            self._write(f"failed: {cell}: {why}")
        self._update(left)

    def _write(self, text: str) -> None:
        if self._bar is None:
            Messages().write(text)
        else:
            self._bar.console.print(f"palda: {text}", markup=False, highlight=False, soft_wrap=True)

    def _update(self, left: float) -> None:
        if self._bar:
            self._bar.update(self._task, completed=self._n_done, total=self._n_cells, description=_remaining(left))


def _remaining(seconds: float) -> str:
    from palda.io import duration

    return f"about {duration(seconds)} left"
