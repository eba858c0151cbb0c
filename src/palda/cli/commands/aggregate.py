"""``palda aggregate``: consensus labels and annotator quality from votes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.console import Messages
from palda.cli.inputs import regular_file
from palda.cli.output import Target, write_records, write_table
from palda.errors import PaldaError


@opt.writes_files("output", "annotators_output")
@opt.option_groups(target=opt.target_options, reading=opt.read_options, omit=("text",))
def aggregate(
    votes: Annotated[Path, typer.Argument(help="Vote table or export; - for standard input.", show_default=False)],
    gold: opt.Gold = None,
    annotators_output: Annotated[
        Path | None, opt.option("File for the annotators as well.", show_default="not written")
    ] = None,
    annotators: opt.Annotators = "auto",
    no_copies: opt.NoCopies = False,
    no_drift: opt.NoDrift = False,
    profiles: Annotated[
        int | None, opt.option("Number of label-set profiles.", min=1, show_default="auto", panel=opt.MODEL)
    ] = None,
    *,
    target: Target,
    reading: dict[str, Any],
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Find consensus labels and annotator quality from votes alone, without texts."""
    import numpy as np

    from palda.estimators import aggregate as aggregate_votes
    from palda.io import ReadOptions, read_gold, read_judgements
    from palda.report import annotator_table, crowd_summary, label_records

    people = None
    if annotators_output is not None:
        people = Target.file(annotators_output, force=target.force, spreadsheet_safe=target.spreadsheet_safe)
    messages = Messages(quiet=quiet)
    with messages.show_warnings():
        with regular_file(votes) as file:
            given, known = read_judgements(file, ReadOptions(**reading))
        if not len(given):
            raise PaldaError(f"{votes} contains no votes{', only gold labels' if (known >= 0).any() else ''}")
        if gold is not None:
            labels = read_gold(gold, given.doc_ids, given.classes, reading["encoding"])
            known = np.where(labels >= 0, labels, known)
        result = aggregate_votes(
            given, annotators, profiles or "auto", known,
            copies=not no_copies, drift=not no_drift, n_jobs=jobs, random_state=seed,
        )  # fmt: skip
        summary = crowd_summary(given, result)
    for name, value in summary.lines():
        messages.write(f"{name:14s}{value}")
    write_records(label_records(result.doc_ids, result.consensus, result.classes.tolist()), target)
    if people is not None:
        write_table(annotator_table(result.annotator_quality), people)
