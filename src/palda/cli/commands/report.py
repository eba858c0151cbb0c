"""``palda report``: the HTML report on a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from palda.cli import options as opt
from palda.cli.commands.fit import report_title
from palda.cli.console import Messages
from palda.cli.features import new_features


@opt.writes_files("output")
@opt.option_groups(features=opt.feature_options)
def report(
    model: opt.Model,
    output: Annotated[Path, opt.option("HTML file to write.", "--output", "-o")] = Path("report.html"),
    *,
    features: opt.FeatureFiles,
    title: Annotated[str | None, opt.option("Heading of the page.", show_default="name of the model file")] = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write an HTML report on a model: one page that any browser opens without a network."""
    from palda.estimators import load
    from palda.report import write_report

    fitted = load(model)
    counts = None
    if fitted.texts_ is not None and fitted.words_ is not None:
        counts = fitted.words_.transform(fitted.texts_)
    with new_features(features, fitted) as given:
        table = given.of_training()
        write_report(
            fitted, output, texts=fitted.texts_, votes=fitted.votes_, X=counts, features=table,
            title=title or report_title(model), force=force,
        )  # fmt: skip
    Messages(quiet=quiet).write(f"wrote {output}; open it in a browser")
