"""``palda annotators``: the quality of the annotators of a fitted model."""

from __future__ import annotations

from typing import Annotated

from palda.cli import options as opt
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, write_table


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options)
def annotators(
    model: opt.Model,
    by_class: Annotated[bool, opt.flag("Show sensitivity and specificity per class.", "--by-class")] = False,
    *,
    target: Target,
) -> None:
    """Show the quality of the annotators with 95% credible intervals and verdicts, best first."""
    from palda.report import annotator_table, rate_table

    fitted = load_crowd(model)
    if by_class:
        write_table(rate_table(fitted.annotator_rates_by_class_), target)
    else:
        write_table(annotator_table(fitted.annotator_quality_), target)
