"""``palda fit`` and ``palda aggregate``: from votes to labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palda.cli import options as opt

if TYPE_CHECKING:
    from palda.data import Dataset
    from palda.io import ReadOptions

__all__ = ["aggregate", "fit", "one_of", "read_options"]

_MODEL = "Model"
_WORDS = "Words"


def fit(
    documents: Annotated[
        Path,
        typer.Argument(
            help="Documents, one file with documents and votes, or a folder of palda shard; - is standard input.",
            show_default=False,
        ),
    ],
    votes: Annotated[
        Path | None,
        typer.Argument(help="Votes on the documents, joined by id.", show_default="in the file of documents"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.palda"),
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Known labels: a table like votes, without annotators.", show_default="none"),
    ] = None,
    no_gold: Annotated[
        bool,
        typer.Option(
            "--no-gold", help="Do not believe known labels that stand beside the documents.", show_default="off"
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Write the report as well, as palda report does.", show_default="not written"),
    ] = None,
    no_texts: Annotated[
        bool,
        typer.Option(
            "--no-texts", help="Keep the texts out of the model file; reports then show ids.", show_default="off"
        ),
    ] = False,
    force: opt.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.", show_default="off")] = False,
    topics: Annotated[
        int | None,
        typer.Option("--topics", min=1, help="Number of topics.", show_default="auto", rich_help_panel=_MODEL),
    ] = None,
    annotators: Annotated[
        opt.AnnotatorKind, typer.Option(help="What is learned about annotators.", rich_help_panel=_MODEL)
    ] = opt.AnnotatorKind.TWO_COIN,
    label_prior: Annotated[
        opt.LabelPriorChoice, typer.Option(help="How probable labels are before anybody votes.", rich_help_panel=_MODEL)
    ] = opt.LabelPriorChoice.STACKED,
    algorithm: Annotated[
        opt.Algorithm,
        typer.Option(help="EM of the topics: online takes many steps a round.", rich_help_panel=_MODEL),
    ] = opt.Algorithm.BATCH,
    max_iter: Annotated[int, typer.Option(min=1, help="Rounds of EM at most.", rich_help_panel=_MODEL)] = 200,
    language: Annotated[
        str, typer.Option(help="Language for stems and stop words; none for neither.", rich_help_panel=_WORDS)
    ] = "english",
    min_count: Annotated[
        int, typer.Option(min=1, help="Leave out words that occur less often.", rich_help_panel=_WORDS)
    ] = 2,
    ngrams: Annotated[
        int, typer.Option(min=1, max=5, help="Longest run of words that counts as one.", rich_help_panel=_WORDS)
    ] = 1,
    bins: Annotated[
        int, typer.Option(min=2, help="Bins a feature, where documents are numbers.", rich_help_panel=_WORDS)
    ] = 5,
    format_: opt.Format = opt.FileFormat.AUTO,
    id_: opt.Id = None,
    text: opt.Text = None,
    question: opt.Question = None,
    classes: opt.Classes = None,
    layout: opt.Layout = opt.VoteLayout.AUTO,
    partial: opt.Partial = False,
    blank: opt.Blank = None,
    present_at: opt.PresentAt = None,
    column: opt.Columns = None,
    ignore: opt.Ignore = None,
    duplicates: opt.Duplicates = opt.DuplicateRule.ERROR,
    encoding: opt.Encoding = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    engine: opt.Engine = None,
    checkpoint_minutes: opt.CheckpointMinutes = 10.0,
    resume: opt.Resume = False,
    quiet: opt.Quiet = False,
) -> None:
    """Learn labels, annotators, topics and a classifier from documents and the votes on them."""
    from palda.cli.console import Talk
    from palda.cli.output import check_target

    for target in (output, report):
        if target is not None:
            check_target(target, force=force)
    if resume and not checkpoint_minutes:
        raise typer.BadParameter("--resume needs checkpoints, and --checkpoint-minutes 0 means none")
    chosen = read_options(
        format_, id_, text, question, classes, layout, partial=partial, blank=blank, present_at=present_at,
        column=column, ignore=ignore, duplicates=duplicates, encoding=encoding,
    )  # fmt: skip
    talk = Talk(quiet=quiet)
    from palda.cli.fitting import Plan, checked_folder, fit_and_save, fit_folder_and_save, read_files, show
    from palda.cli.long_fits import checkpoint_for, stoppable
    from palda.io import ShardFolder, is_shards
    from palda.report import fit_summary

    checkpoint = checkpoint_for(output, checkpoint_minutes, resume=resume, force=force)
    plan = Plan(
        topics or "auto",
        annotators.value,
        label_prior.value,
        algorithm.value,
        max_iter,
        language,
        min_count,
        ngrams,
        bins,
        seed,
        jobs,
        engine,
    )
    keep: dict[str, bool] = {"keep_texts": not no_texts, "verbose": not quiet}
    with talk.notes():
        given: ShardFolder | Dataset
        if is_shards(documents):
            given = checked_folder(documents, votes, chosen, plan)
        else:
            given = read_files(documents, votes, gold, chosen, keep_gold=not no_gold)
        talk.say(f"{len(given):,} documents, {len(given.votes):,} votes; fitting, which takes a while")
        with stoppable(checkpoint, talk, resume=resume) as used:
            if isinstance(given, ShardFolder):
                model = fit_folder_and_save(given, gold, plan, output, used, **keep)
            else:
                model = fit_and_save(given, plan, output, used, **keep)
        if model.interrupted_ and checkpoint.exists:
            talk.say("the model is the best so far; to go on, repeat the command with --resume --force")
    if report is not None:
        from palda.cli.commands.inspect import title_of, write_report_of
        from palda.estimators import load

        write_report_of(load(output), report, title_of(output), force=force)
    show(fit_summary(model, given), output, report, as_json=as_json)


def aggregate(
    votes: Annotated[Path, typer.Argument(help="Votes, or an export; - is standard input.", show_default=False)],
    output: opt.Output = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Known labels: a table like votes, without annotators.", show_default="none"),
    ] = None,
    annotators_output: Annotated[
        Path | None,
        typer.Option("--annotators-output", help="Write the annotators to a file as well.", show_default="not written"),
    ] = None,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
    annotators: Annotated[
        opt.AnnotatorKind, typer.Option(help="What is learned about annotators.", rich_help_panel=_MODEL)
    ] = opt.AnnotatorKind.TWO_COIN,
    profiles: Annotated[
        int | None,
        typer.Option(
            "--profiles", min=1, help="Label sets that come together.", show_default="auto", rich_help_panel=_MODEL
        ),
    ] = None,
    format_: opt.Format = opt.FileFormat.AUTO,
    id_: opt.Id = None,
    question: opt.Question = None,
    classes: opt.Classes = None,
    layout: opt.Layout = opt.VoteLayout.AUTO,
    partial: opt.Partial = False,
    blank: opt.Blank = None,
    present_at: opt.PresentAt = None,
    column: opt.Columns = None,
    ignore: opt.Ignore = None,
    duplicates: opt.Duplicates = opt.DuplicateRule.ERROR,
    encoding: opt.Encoding = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Find labels and the quality of annotators from votes alone, without texts."""
    from palda.cli.console import Talk
    from palda.cli.output import check_target, emit_records, emit_view, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    for target in (output, annotators_output):
        if target is not None:
            check_target(target, force=force)
    annotators_form = form_of(annotators_output, as_json=False, as_csv=False)
    chosen = read_options(
        format_, id_, None, question, classes, layout, partial=partial, blank=blank, present_at=present_at,
        column=column, ignore=ignore, duplicates=duplicates, encoding=encoding,
    )  # fmt: skip
    talk = Talk(quiet=quiet)
    from palda.cli.fitting import aggregate_votes
    from palda.report import annotator_view, label_records

    with talk.notes():
        found, summary = aggregate_votes(votes, gold, chosen, annotators.value, profiles or "auto", seed, jobs)
    for name, value in summary.lines():
        talk.say(f"{name:14s}{value}")
    emit_records(label_records(found.doc_ids, found.consensus, found.classes.tolist()), output, form, force=force)
    if annotators_output is not None:
        emit_view(annotator_view(found.annotator_quality), annotators_output, annotators_form, force=force)


def one_of(*, as_json: bool, as_csv: bool) -> dict[str, bool]:
    """Both flags, of which at most one may be set."""
    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv")
    return {"as_json": as_json, "as_csv": as_csv}


def read_options(
    format_: opt.FileFormat,
    id_: str | None,
    text: str | None,
    question: str | None,
    classes: str | None,
    layout: opt.VoteLayout,
    *,
    partial: bool,
    blank: opt.BlankMeans | None,
    present_at: float | None,
    column: list[str] | None,
    ignore: str | None,
    duplicates: opt.DuplicateRule,
    encoding: str | None,
) -> ReadOptions:
    """What the options say about files."""
    roles = _roles(column or [])
    from palda.io import ReadOptions

    return ReadOptions(
        format=format_.value, id=id_, text=text, question=question, classes=_names(classes) or None,
        layout=layout.value, partial=partial, blank=None if blank is None else blank.value, present_at=present_at,
        columns=roles, ignore=_names(ignore), duplicates=duplicates.value, encoding=encoding,
    )  # fmt: skip


def _roles(given: list[str]) -> tuple[tuple[str, str], ...]:
    roles = tuple((role.strip(), name) for role, _, name in (pair.partition("=") for pair in given))
    for role, name in roles:
        if role not in {"annotator", "label", "labels", "value", "time"} or not name:
            raise typer.BadParameter(f"write --column ROLE=NAME, such as annotator=who, not {role!r}={name!r}")
    return roles


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
