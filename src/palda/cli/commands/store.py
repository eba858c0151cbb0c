"""``palda shard``: documents and votes as a folder that is read as it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palda.cli import options as opt
from palda.cli.commands.learn import read_options

__all__ = ["shard"]

_WORDS = "Words"


def shard(
    documents: Annotated[
        Path, typer.Argument(help="Documents, or one file with documents and votes.", show_default=False)
    ],
    votes: Annotated[
        Path | None,
        typer.Argument(help="Votes on the documents, joined by id.", show_default="in the file of documents"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("corpus"),
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Known labels: a table like votes, without annotators.", show_default="none"),
    ] = None,
    docs_per_shard: Annotated[
        int, typer.Option("--docs-per-shard", min=1, help="Documents in a file of the folder.")
    ] = 16_384,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.", show_default="off")
    ] = False,
    no_texts: Annotated[
        bool,
        typer.Option("--no-texts", help="Keep the texts out of the folder; counts are enough.", show_default="off"),
    ] = False,
    force: opt.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.", show_default="off")] = False,
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
    quiet: opt.Quiet = False,
) -> None:
    """Count words and sort votes once, into a folder for data that is larger than memory."""
    from palda.cli.console import Talk

    chosen = read_options(
        format_, id_, text, question, classes, layout, partial=partial, blank=blank, present_at=present_at,
        column=column, ignore=ignore, duplicates=duplicates, encoding=encoding,
    )  # fmt: skip
    talk = Talk(quiet=quiet)
    from palda.cli.sharding import show, write
    from palda.data import TextWords, ValueWords
    from palda.io import Sources, Treatment

    treatment = Treatment(
        chosen,
        TextWords(None if language == "none" else language, min_count=min_count, ngrams=(1, ngrams)),
        ValueWords(bins),
        docs_per_shard,
        keep_texts=not no_texts,
    )
    with talk.notes():
        folder = write(output, Sources(documents, votes, gold), treatment, resume=resume, force=force, quiet=quiet)
    show(folder, output, as_json=as_json)
