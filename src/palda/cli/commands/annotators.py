"""``palda annotators``: the quality of the annotators of a fitted model."""

from __future__ import annotations

from typing import Annotated

import typer

from palda.cli import options as opt
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, write_table


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options)
def annotators(
    model: opt.Model,
    by_class: Annotated[bool, opt.flag("Show sensitivity and specificity per class.", "--by-class")] = False,
    copies: Annotated[bool, opt.flag("Show annotators who repeat each other's votes.", "--copies")] = False,
    changes: Annotated[bool, opt.flag("Show changes of quality over time.", "--changes")] = False,
    *,
    target: Target,
) -> None:
    """Show the quality of the annotators with 95% credible intervals and verdicts, best first."""
    if by_class + copies + changes > 1:
        raise typer.BadParameter("choose one of --by-class, --copies and --changes")
    from palda.report import annotator_table, change_table, copy_table, rate_table

    fitted = load_crowd(model)
    if by_class:
        view = rate_table(fitted.annotator_rates_by_class_)
    elif copies:
        view = copy_table(fitted.copies_)
    elif changes:
        view = change_table(fitted.changes_)
    else:
        view = annotator_table(fitted.annotator_quality_, fitted.panel_)
    write_table(view, target)
