"""Standard output for results, standard error for everything else."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from palda.report import View

__all__ = ["ClosedPipeError", "ShareBar", "Talk", "as_options", "own_name", "print_view", "printable", "results"]

_WIDE = 400  # columns of a table that nobody looks at on a screen

_OPTIONS = {
    "blank": "--blank", "classes": "--classes", "duplicates": "--duplicates", "empty": "--blank",
    "encoding": "--encoding", "id": "--id", "ignore": "--ignore", "language": "--language", "layout": "--layout",
    "max_iter": "--max-iter", "min_count": "--min-count", "present_at": "--present-at", "text": "--text",
    "from_name": "--question", "answer": "--question", "output": "--question", "doc": "--id",
    "docs_per_shard": "--docs-per-shard", "force": "--force", "resume": "--resume",
}  # fmt: skip
_ROLES = ("annotator", "label", "labels", "value", "time")
_ADVICE = re.compile(rf"\b({'|'.join((*_OPTIONS, *_ROLES))})=(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.]*)")


class ClosedPipeError(Exception):
    """Whoever read standard output has seen enough."""


def as_options(message: str) -> str:
    """Advice of the library in the words of the command line: ``id='...'`` becomes ``--id ...``."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], ",".join(part.strip(" '\"") for part in found[2].strip("[]").split(","))
        value = {"None": "none", "True": ""}.get(value, value)  # True is a flag's
        return f"{_OPTIONS[name]} {value}".strip() if name in _OPTIONS else f"--column {name}={value}"

    return _ADVICE.sub(option, message)


def own_name() -> str:
    """How to call this command line again from here: ``palda`` where that is found, else by its path."""
    started, found = Path(sys.argv[0]), shutil.which("palda")
    if started.stem != "palda" or not started.is_file() or (found and started.samefile(found)):
        return "palda"
    path, here = started.absolute(), Path.cwd()
    if not path.is_relative_to(here):
        return shlex.quote(str(path))
    inside = path.relative_to(here)
    return shlex.quote(f"./{inside}" if inside.parent == Path() else str(inside))


class Talk:
    """Notes on standard error; a quiet one says nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """One line."""
        if not self.quiet:
            sys.stderr.write(f"palda: {printable(text)}\n")

    @contextmanager
    def notes(self) -> Iterator[None]:
        """Inside, the library's warnings are notes of one line."""

        def show(message: Warning | str, *where: Any) -> None:
            del where
            self.say(f"note: {as_options(' '.join(str(message).split()))}")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = show  # type: ignore[assignment]
            yield


@contextmanager
def results() -> Iterator[None]:
    """Inside, results are written to standard output; a pipe that is closed meanwhile ends the command quietly.

    What the encoding of the output does not have is spelled out rather than an error.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends, and must not find the closed pipe there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ClosedPipeError from None


def print_view(view: View) -> None:
    """A table for people; without lines and colours where nobody sees them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    on_screen = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if on_screen else _WIDE)
    drawn = Table(box=box.SIMPLE_HEAD if on_screen else None, pad_edge=False)
    for column in view.columns:
        is_number = any(isinstance(row.get(column), (int, float)) for row in view.rows)
        drawn.add_column(column.replace("_", " "), justify="right" if is_number else "left", overflow="fold")
    for cells in view.texts():
        drawn.add_row(*(_plain(cell) for cell in cells))
    with console.capture() as captured:  # rich would end the process itself if the reader has gone
        if view.title:
            console.print(_plain(view.title), style="bold")
        console.print(drawn)
        for note in view.notes:
            console.print(_plain(note), soft_wrap=True)
    sys.stdout.write(captured.get())


def printable(text: str) -> str:
    """Text in which nothing can move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _plain(text: str) -> Any:
    """Text in which brackets are brackets."""
    from rich.text import Text

    return Text(printable(text))


class ShareBar:
    """How much of a file is done, on standard error: a bar on a terminal, nothing elsewhere."""

    def __init__(self, what: str, *, quiet: bool) -> None:
        self._progress: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._what = what
        self._task = self._progress.add_task(what, total=1.0)

    def __enter__(self) -> Self:
        if self._progress:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress:
            self._progress.stop()

    def step(self, what: str, share: float, n_done: int) -> None:
        """``n_done`` items, and this share of a step, are done; the time that is left is that of the step."""
        if self._progress:
            if what != self._what:
                self._what = what
                self._progress.reset(self._task)
            self._progress.update(self._task, completed=share, description=f"{what}: {n_done:,}")

    def move(self, share: float, n_done: int) -> None:
        """``n_done`` items, and this share of everything, are done."""
        if self._progress:
            self._progress.update(self._task, completed=share, description=f"{n_done:,} {self._what}")
