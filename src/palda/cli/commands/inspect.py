"""What is in a model file: ``palda consensus``, ``annotators``, ``topics``, ``suggest`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palda.cli import options as opt
from palda.cli.commands.learn import one_of, read_options

if TYPE_CHECKING:
    from palda.estimators import PALDA, CrowdPALDA

__all__ = ["annotators", "consensus", "load_crowd", "report", "suggest", "title_of", "topics", "write_report_of"]


def load_crowd(path: Path) -> CrowdPALDA:
    """Model that learned from votes."""
    from palda.errors import PaldaError
    from palda.estimators import CrowdPALDA, load

    model = load(path)
    if not isinstance(model, CrowdPALDA):
        raise PaldaError(f"{path}: the model learned from known labels, not from votes; there is no crowd in it")
    return model


def consensus(
    model: opt.Model,
    documents: Annotated[
        Path | None,
        typer.Argument(help="New documents, with votes on them.", show_default="those the model learned from"),
    ] = None,
    votes: Annotated[
        Path | None, typer.Argument(help="Votes on the new documents.", show_default="in the file of documents")
    ] = None,
    output: opt.Output = None,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
    format_: opt.Format = opt.FileFormat.AUTO,
    id_: opt.Id = None,
    text: opt.Text = None,
    question: opt.Question = None,
    layout: opt.Layout = opt.VoteLayout.AUTO,
    partial: opt.Partial = False,
    blank: opt.Blank = None,
    present_at: opt.PresentAt = None,
    column: opt.Columns = None,
    ignore: opt.Ignore = None,
    duplicates: opt.Duplicates = opt.DuplicateRule.ERROR,
    encoding: opt.Encoding = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Show the labels of the documents: those the crowd should have agreed on."""
    from palda.cli.console import Talk
    from palda.cli.output import check_target, emit_records, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    if output is not None:
        check_target(output, force=force)
    found = load_crowd(model)
    doc_ids, probs = found.doc_ids_, found.consensus_
    if documents is not None:
        from palda.cli.fitting import read_files
        from palda.cli.predictions import count_blocks

        chosen = read_options(
            format_, id_, text, question, None, layout, partial=partial, blank=blank, present_at=present_at,
            column=column, ignore=ignore, duplicates=duplicates, encoding=encoding,
        )  # fmt: skip
        with Talk(quiet=quiet).notes():
            dataset = read_files(documents, votes, None, chosen)
            found.set_params(n_jobs=jobs)
            counts = count_blocks(found, dataset.corpus)
            doc_ids, probs = dataset.doc_ids, found.consensus(counts, dataset.votes, dataset.doc_ids)
    from palda.report import label_records

    emit_records(label_records(doc_ids, probs, found.classes_.tolist()), output, form, force=force)


def annotators(
    model: opt.Model,
    output: opt.Output = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Sensitivity and specificity in every class.", show_default="off")
    ] = False,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
) -> None:
    """Show how good everybody is, with 95% intervals and a verdict; the best come first."""
    from palda.cli.output import emit_view, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    found = load_crowd(model)
    from palda.report import annotator_view, rate_view

    view = rate_view(found.annotator_rates_by_class_) if by_class else annotator_view(found.annotator_quality_)
    emit_view(view, output, form, force=force)


def topics(
    model: opt.Model,
    output: opt.Output = None,
    words: Annotated[int, typer.Option("--words", "-n", min=1, help="Words to show of each.")] = 10,
    by_class: Annotated[
        bool,
        typer.Option(
            "--by-class", help="For each class, the words that its presence and its absence bring.", show_default="off"
        ),
    ] = False,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
) -> None:
    """Show the topics with their telling words and the classes that bring them."""
    from palda.cli.output import emit_view, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    from palda.estimators import load
    from palda.report import class_view, topic_view

    view = (class_view if by_class else topic_view)(load(model), words)
    emit_view(view, output, form, force=force)


def suggest(
    model: opt.Model,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many labels.")] = 10,
    output: opt.Output = None,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
) -> None:
    """Show the labels that are most worth another vote, best first."""
    from palda.cli.output import emit_view, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    found = load_crowd(model)
    from palda.report import suggestion_view

    emit_view(suggestion_view(found.suggest(number)), output, form, force=force)


def report(
    model: opt.Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option("--title", help="Heading of the page.", show_default="the model file's name")
    ] = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write everything on one page that opens in any browser, without a network."""
    from palda.cli.console import Talk
    from palda.cli.output import check_target

    check_target(output, force=force)
    from palda.estimators import load

    write_report_of(load(model), output, title or title_of(model), force=force)
    Talk(quiet=quiet).say(f"written: {output}; open it in a browser")


def title_of(model: Path) -> str:
    """Heading of a report, unless another is asked for."""
    return f"palda report: {model.name.removesuffix('.palda')}"


def write_report_of(model: PALDA | CrowdPALDA, output: Path, title: str, *, force: bool) -> None:
    """Report on a loaded model, with the texts and votes that its file keeps."""
    from palda.report import write_report

    counts = None
    if model.texts_ is not None and model.words_ is not None:
        counts = model.words_.transform(model.texts_)
    write_report(model, output, texts=model.texts_, votes=model.votes_, X=counts, title=title, force=force)
