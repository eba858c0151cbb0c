"""``palda``: the command line. Results go to standard output, progress and errors to standard error.

Exit codes: 0 all went well, 1 something the user can put right, 2 a wrong call. Commands import what they need when
they run, so that ``palda --help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from palda.cli.commands import apply, inspect, learn, play, store
from palda.cli.commands.paper import reproduce
from palda.cli.console import ClosedPipeError, as_options, printable
from palda.errors import PaldaError

__all__ = ["app", "main"]

_INTERRUPTED = 130  # what shells expect after Ctrl-C

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
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop.", show_default="off"
        ),
    ] = False,
) -> None:
    """Multi-label data, labelled by a noisy crowd, made usable.

    Start with: palda demo
    """


for _command in (
    learn.fit,
    apply.predict,
    inspect.consensus,
    inspect.annotators,
    inspect.topics,
    inspect.suggest,
    inspect.report,
    apply.evaluate,
    learn.aggregate,
    store.shard,
    play.simulate,
    play.demo,
):
    app.command()(_command)
app.add_typer(reproduce, name="reproduce")


def main() -> None:
    """Entry point: errors of the user become one line."""
    try:
        app()
    except PaldaError as error:
        sys.stderr.write(f"palda: {printable(as_options(str(error)))}\n")
        sys.exit(1)
    except ClosedPipeError:
        sys.exit(0)
    except KeyboardInterrupt:
        sys.stderr.write("palda: stopped\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
