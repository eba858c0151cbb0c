"""``palda suggest``: the labels for which another vote is worth most."""

from __future__ import annotations

from typing import Annotated

import typer

from palda.cli import options as opt
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, write_table


@opt.option_groups(target=opt.target_options)
def suggest(
    model: opt.Model,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of labels to show.")] = 10,
    *,
    target: Target,
) -> None:
    """Show the labels for which another vote is expected to gain most, best first."""
    from palda.report import suggestion_table

    write_table(suggestion_table(load_crowd(model).suggest(number)), target)
