"""``palda suggest``: labels that are most worth another vote."""

from __future__ import annotations

from typing import Annotated

from palda.cli import options as opt
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, write_table


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options)
def suggest(
    model: opt.Model,
    number: Annotated[int, opt.option("Number of labels to show.", "--number", "-n", min=1)] = 10,
    *,
    target: Target,
) -> None:
    """Show the labels for which another vote is expected to gain most, best first."""
    from palda.report import suggestion_table

    write_table(suggestion_table(load_crowd(model).suggest(number)), target)
