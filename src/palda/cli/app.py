"""``palda``: the command line.

Exit codes: 0 success, 1 an error that the user can correct, 2 a wrong call, 130 interrupted, 143 terminated. Commands
import large packages when they run, so that ``palda --help`` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from palda.cli.commands.aggregate import aggregate
from palda.cli.commands.annotators import annotators
from palda.cli.commands.consensus import consensus
from palda.cli.commands.demo import demo
from palda.cli.commands.evaluate import evaluate
from palda.cli.commands.export import export
from palda.cli.commands.fit import fit
from palda.cli.commands.labelstudio import labelstudio
from palda.cli.commands.plan import plan
from palda.cli.commands.predict import predict
from palda.cli.commands.report import report
from palda.cli.commands.reproduce import reproduce
from palda.cli.commands.serve import serve
from palda.cli.commands.shard import shard
from palda.cli.commands.simulate import simulate
from palda.cli.commands.suggest import suggest
from palda.cli.commands.topics import topics
from palda.cli.console import Terminated, as_cli_options, printable, termination_raised
from palda.errors import PaldaError

_SIGNALLED = 128  # shells add the number of the signal that ended a process: 130 after Ctrl-C

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")


def _print_version(wanted: bool) -> None:
    if wanted:
        from palda import __version__

        sys.stdout.write(f"palda {__version__}\n")
        raise typer.Exit


@app.callback()
def palda(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit.", show_default="off"
        ),
    ] = False,
) -> None:
    """Labels, annotator quality and a classifier from multi-label data labelled by a noisy crowd.

    Start with: palda demo
    """


for _command in (
    fit, predict, consensus, export, annotators, topics, suggest, plan, report, evaluate, aggregate, shard, simulate,
    serve, demo,
):  # fmt: skip
    app.command()(_command)
app.add_typer(labelstudio, name="labelstudio")
app.add_typer(reproduce, name="reproduce")


def main() -> None:
    """Run the command line; an error that the user can correct is printed as one line."""
    try:
        with termination_raised():
            code = _run()
            sys.stdout.flush()
    except PaldaError as error:
        code = _fail(1, as_cli_options(str(error)))
    except KeyboardInterrupt as stopped:
        code = _fail(_SIGNALLED + signal.SIGINT, "; ".join(("interrupted", *stopped.args)))
    except Terminated as stopped:
        code = _fail(_SIGNALLED + stopped.number, "; ".join(("terminated", *stopped.args)))
    except BrokenPipeError:  # the reader of standard output has gone, as in "palda fit --help | head -1"
        _discard_output()
        code = 0
    except OSError as error:
        _discard_output()
        where = "standard output cannot be written" if error.filename is None else error.filename
        code = _fail(1, f"{where}: {error.strerror or error}")
    sys.exit(code)


def _run() -> int:
    """Exit code of the command; Typer ends every command, even an interrupted one, with ``SystemExit``."""
    try:
        app()
    except SystemExit as stop:
        reason = stop.__context__
        if isinstance(reason, BrokenPipeError):
            raise reason from None
        if reason is not None and isinstance(reason.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt(*reason.__cause__.args) from None
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _fail(code: int, message: str) -> int:
    with suppress(OSError):
        sys.stderr.write(f"palda: {printable(message)}\n")
    return code


def _discard_output() -> None:
    """Discard what could not be written: Python flushes standard output again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
