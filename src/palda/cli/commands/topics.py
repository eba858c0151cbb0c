"""``palda topics``: the topics of a fitted model, or the words of its classes."""

from __future__ import annotations

from typing import Annotated

from palda.cli import options as opt
from palda.cli.output import Target, write_table


@opt.writes_files("output")
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
