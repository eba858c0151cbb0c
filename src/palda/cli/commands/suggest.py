"""``palda suggest``: labels that are most worth another vote, or which document to whom next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from palda.cli import options as opt
from palda.cli.console import Messages
from palda.cli.inputs import load_crowd
from palda.cli.output import Target, write_table

if TYPE_CHECKING:
    import pandas as pd

    from palda.estimators import CrowdPALDA

_PANEL = "Assignments"
_N_LABELS = 10


@dataclass(frozen=True)
class AssignOptions:
    """Options of assignments; None for the file if labels are suggested."""

    people: Path | None
    settings: dict[str, Any]
    pending: Path | None


def assign_options(
    people: Annotated[
        Path | None,
        opt.option(
            "Assign documents to the annotators of this table: a column annotator, optional price and max_votes.",
            "--for", show_default="suggest labels", panel=_PANEL,
        ),
    ] = None,
    budget: Annotated[
        float | None, opt.option("Maximum sum of prices.", "--budget", show_default="no limit", panel=_PANEL)
    ] = None,
    target_error: Annotated[
        float | None,
        opt.option(
            "Stop when at most this share of labels is wrong.", "--target-error", show_default="none", panel=_PANEL
        ),
    ] = None,
    target_f1: Annotated[
        float | None, opt.option("Stop when the micro-F1 is reached.", "--target-f1", show_default="none", panel=_PANEL)
    ] = None,
    ask: Annotated[
        Literal["document", "labels"],
        opt.option("Ask for all classes of a document, or only for the doubtful ones.", "--ask", panel=_PANEL),
    ] = "document",
    max_votes_per_doc: Annotated[
        int | None,
        opt.option(
            "Maximum number of annotators per document.", "--max-votes-per-doc", min=1, show_default="no limit",
            panel=_PANEL,
        ),
    ] = None,
    gold_share: Annotated[
        float,
        opt.option("Share of votes on documents with known labels, to test annotators.", "--gold-share", panel=_PANEL),
    ] = 0.0,
    random_gold: Annotated[
        bool, opt.flag("Documents with known labels were drawn at random.", "--random-gold", panel=_PANEL)
    ] = False,
    pending: Annotated[
        Path | None,
        opt.option(
            "Table of votes under way: columns annotator and doc.", "--pending", show_default="none", panel=_PANEL
        ),
    ] = None,
) -> AssignOptions:  # fmt: skip
    """Which assignments are wanted."""
    given: dict[str, Any] = {
        "budget": budget, "target_error": target_error, "target_f1": target_f1, "max_votes_per_doc": max_votes_per_doc,
    }  # fmt: skip
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= {"gold_share": gold_share} if gold_share else {}
    settings |= {"ask": ask} if ask != "document" else {}
    settings |= {"random_gold": True} if random_gold else {}
    if people is None and (settings or pending is not None):
        raise typer.BadParameter("budgets, targets and other options of assignments need --for ANNOTATORS.csv")
    return AssignOptions(people, settings, pending)


@opt.writes_files("output")
@opt.option_groups(assign=assign_options, target=opt.target_options)
def suggest(
    model: opt.Model,
    number: Annotated[
        int | None,
        opt.option("Number of labels, or of assignments.", "--number", "-n", min=1, show_default="10 labels"),
    ] = None,
    *,
    assign: AssignOptions,
    target: Target,
    quiet: opt.Quiet = False,
) -> None:
    """Show the labels for which another vote is expected to gain most; with --for, which document to whom next."""
    from palda.report import assignment_table, suggestion_table

    fitted = load_crowd(model)
    if assign.people is None:
        write_table(suggestion_table(fitted.suggest(_N_LABELS if number is None else number)), target)
        return
    write_table(assignment_table(_assignments(fitted, assign, number, Messages(quiet=quiet))), target)


def _assignments(fitted: CrowdPALDA, assign: AssignOptions, number: int | None, messages: Messages) -> pd.DataFrame:
    from palda.io import read_table

    if assign.people is None:
        raise AssertionError("no annotators")
    names, settings = _people(assign.people)
    if number is not None:
        settings["n"] = number
    if assign.pending is not None:
        settings["pending"] = read_table(assign.pending).frame
    try:
        found = fitted.assign(names, **settings, **assign.settings)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    targets = {name: assign.settings[name] for name in ("target_error", "target_f1") if name in assign.settings}
    if targets:
        report = fitted.stopping_report(**targets, random_gold=bool(assign.settings.get("random_gold")))
        if not len(found) or report.contradicted:
            for line in str(report).splitlines():
                messages.write(line)
    return found


def _people(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Annotators of a table, with their prices and limits as settings of ``assign``."""
    import pandas as pd

    from palda.errors import DataError
    from palda.io import read_table

    frame = read_table(path).frame
    if "annotator" not in frame.columns:
        raise DataError("has no column annotator; optional columns are price and max_votes", file=str(path))
    names = [str(name).strip() for name in frame["annotator"]]
    settings: dict[str, Any] = {}
    for column, setting in (("price", "price"), ("max_votes", "max_votes_per_annotator")):
        if column in frame.columns:
            numbers = pd.to_numeric(frame[column], errors="coerce")
            wrong = numbers.isna() & ~frame[column].isna() & (frame[column].astype(str).str.strip() != "")
            if wrong.any() or (column == "price" and numbers.isna().any()):
                raise DataError(f"column {column} must hold numbers", file=str(path))
            settings[setting] = dict(zip(names, numbers.tolist(), strict=True))
    return names, settings
