"""The terminal: results go to standard output, messages and progress to standard error."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.io import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import Progress

_PIPED_WIDTH = 400  # characters per line of a table that is not shown on a terminal

_OPTIONS = {
    "blank": "--blank", "classes": "--classes", "duplicates": "--duplicates", "empty": "--blank",
    "encoding": "--encoding", "id": "--id", "ignore": "--ignore", "language": "--language", "layout": "--layout",
    "max_iter": "--max-iter", "min_count": "--min-count", "present_at": "--present-at", "text": "--text",
    "from_name": "--question", "answer": "--question", "output": "--question", "doc": "--id",
    "docs_per_shard": "--docs-per-shard", "force": "--force", "resume": "--resume",
    "label_config": "--label-config", "ground_truth": "--ground-truth", "predictions": "--predictions",
    "prelabelled": "--prelabelled",
}  # fmt: skip
_ROLES = ("annotator", "label", "labels", "value", "probability", "confidence", "time", "kind", "family")
_PYTHON_ARGUMENT = re.compile(rf"\b({'|'.join((*_OPTIONS, *_ROLES))})=(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.]*)")


def as_cli_options(message: str) -> str:
    """A message of the library with its Python arguments as options: ``id='...'`` becomes ``--id ...``."""

    def option(match: re.Match[str]) -> str:
        name, value = match[1], ",".join(part.strip(" '\"") for part in match[2].strip("[]").split(","))
        value = {"None": "none", "True": ""}.get(value, value)  # an option without a value stands for True
        return f"{_OPTIONS[name]} {value}".strip() if name in _OPTIONS else f"--column {name}={value}"

    return _PYTHON_ARGUMENT.sub(option, message)


def program_name() -> str:
    """How to call this program again: ``palda`` if it is on the path, else the path of the program."""
    started, on_path = Path(sys.argv[0]), shutil.which("palda")
    if started.stem != "palda" or not started.is_file() or (on_path and started.samefile(on_path)):
        return "palda"
    path, here = started.absolute(), Path.cwd()
    if not path.is_relative_to(here):
        return shlex.quote(str(path))
    relative = path.relative_to(here)
    return shlex.quote(f"./{relative}" if relative.parent == Path() else str(relative))


class Terminated(BaseException):
    """A signal asked the process to end; ``number`` is that of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def termination_raised() -> Iterator[None]:
    """Raise ``Terminated`` on SIGTERM and SIGHUP, so that temporary files are removed as after Ctrl-C."""

    def stop(number: int, _frame: object) -> None:
        raise Terminated(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Messages:
    """Messages on standard error; ``quiet`` suppresses them."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def write(self, text: str) -> None:
        """Write one line."""
        if not self._quiet:
            with suppress(OSError):  # standard error may be closed or full; results matter more
                sys.stderr.write(f"palda: {printable(text)}\n")

    @contextmanager
    def show_warnings(self) -> Iterator[None]:
        """Show each warning of the library as one line."""

        def show(message: Warning | str, *_details: Any) -> None:
            self.write(f"warning: {as_cli_options(' '.join(str(message).split()))}")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = show  # type: ignore[assignment]
            yield


@contextmanager
def standard_output() -> Iterator[None]:
    """Write results inside; characters that the output's encoding lacks are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    yield
    sys.stdout.flush()


def write_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Write names and values to standard output in two columns."""
    sys.stdout.writelines(printable(f"{name:14s}{value}") + "\n" for name, value in lines)


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    numeric: Sequence[bool],
) -> None:
    """Print a table to standard output; plain text if that is not a terminal. ``numeric`` columns are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    on_screen = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if on_screen else _PIPED_WIDTH)
    table = Table(box=box.SIMPLE_HEAD if on_screen else None, pad_edge=False)
    for heading, is_number in zip(headings, numeric, strict=True):
        table.add_column(Text(printable(heading)), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    if title:
        console.print(Text(printable(title)), style="bold")
    console.print(table)
    for note in notes:
        console.print(Text(printable(note)), soft_wrap=True)


def printable(text: str) -> str:
    """Text with escapes for control characters, which could move the cursor, change colours or reorder the line."""
    return visible(text)


class TerminalStream(io.TextIOBase):
    """Standard output as a terminal may show it: invisible characters other than line ends are escaped."""

    def write(self, text: str) -> int:
        """Write the text with escapes."""
        return sys.stdout.write("\n".join(map(printable, text.split("\n"))))


@contextmanager
def progress_bar(unit: str = "", *, quiet: bool) -> Iterator[ProgressBar]:
    """Progress bar on standard error with the remaining time; nothing if that is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield ProgressBar(None, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield ProgressBar(progress, unit)


class ProgressBar:
    """Progress of one task; ``progress`` is Rich's display, or None to show nothing."""

    def __init__(self, progress: Progress | None, unit: str) -> None:
        self._progress = progress
        self._unit = self._step = unit
        if progress:
            self._task = progress.add_task(unit, total=1.0)

    def update_step(self, step: str, share: float, n_done: int) -> None:
        """``share`` of the named step is done, ``n_done`` items; the remaining time is that of the step."""
        if self._progress:
            if step != self._step:
                self._step = step
                self._progress.reset(self._task)
            self._progress.update(self._task, completed=share, description=f"{step}: {n_done:,}")

    def update(self, share: float, n_done: int) -> None:
        """``share`` of the whole work is done, ``n_done`` items."""
        if self._progress:
            self._progress.update(self._task, completed=share, description=f"{n_done:,} {self._unit}")
