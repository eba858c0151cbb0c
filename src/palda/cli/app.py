"""``palda``: the command line.

Exit codes: 0 success, 1 an error that the user can correct, 2 a wrong call, 130 interrupted. Commands import large
packages when they run, so that ``palda --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from palda.cli.commands.aggregate import aggregate
from palda.cli.commands.annotators import annotators
from palda.cli.commands.consensus import consensus
from palda.cli.commands.demo import demo
from palda.cli.commands.evaluate import evaluate
from palda.cli.commands.fit import fit
from palda.cli.commands.predict import predict
from palda.cli.commands.report import report
from palda.cli.commands.reproduce import reproduce
from palda.cli.commands.shard import shard
from palda.cli.commands.simulate import simulate
from palda.cli.commands.suggest import suggest
from palda.cli.commands.topics import topics
from palda.cli.console import as_cli_options, printable
from palda.errors import PaldaError

_INTERRUPTED = 130  # exit code that shells use after Ctrl-C

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
    fit, predict, consensus, annotators, topics, suggest, report, evaluate, aggregate, shard, simulate, demo,
):  # fmt: skip
    app.command()(_command)
app.add_typer(reproduce, name="reproduce")


def main() -> None:
    """Run the command line; an error that the user can correct is printed as one line."""
    try:
        app()
    except PaldaError as error:
        sys.stderr.write(f"palda: {printable(as_cli_options(str(error)))}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("palda: interrupted\n")
        sys.exit(_INTERRUPTED)
    except SystemExit as stop:
        # Typer and Rich exit with 1 if the reader of standard output has gone, as in "palda fit --help | head -1"
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it again at exit
        sys.exit(0)
