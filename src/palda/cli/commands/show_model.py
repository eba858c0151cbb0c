"""Commands that show a fitted model: its annotators, topics, suggested votes, and an HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from palda.cli import options as opt
from palda.cli.commands.fit import report_title
from palda.cli.console import Messages
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, check_target, write_table


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


@opt.option_groups(target=opt.target_options)
def topics(
    model: opt.Model,
    words: Annotated[int, opt.option("Words per topic or class.", "--words", "-n", min=1)] = 10,
    by_class: Annotated[
        bool, opt.flag("Per class, show the words that indicate presence and absence.", "--by-class")
    ] = False,
    *,
    target: Target,
) -> None:
    """Show the topics with their most characteristic words and the classes that raise them."""
    from palda.estimators import load
    from palda.report import class_table, topic_table

    write_table((class_table if by_class else topic_table)(load(model), words), target)


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


def report(
    model: opt.Model,
    output: Annotated[Path, opt.option("HTML file to write.", "--output", "-o")] = Path("report.html"),
    title: Annotated[str | None, opt.option("Heading of the page.", show_default="name of the model file")] = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write an HTML report on a model: one page that any browser opens without a network."""
    check_target(output, force=force)
    from palda.estimators import load
    from palda.report import write_report

    fitted = load(model)
    counts = None
    if fitted.texts_ is not None and fitted.words_ is not None:
        counts = fitted.words_.transform(fitted.texts_)
    write_report(
        fitted, output, texts=fitted.texts_, votes=fitted.votes_, X=counts, title=title or report_title(model),
        force=force,
    )  # fmt: skip
    Messages(quiet=quiet).write(f"wrote {output}; open it in a browser")
