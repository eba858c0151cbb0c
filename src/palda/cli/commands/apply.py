"""A model at work on documents: ``palda predict`` and ``palda evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from palda.cli import options as opt
from palda.cli.commands.learn import one_of

__all__ = ["evaluate", "predict"]

_CHUNK, _EXPLAINED_CHUNK = 5000, 500  # documents in memory at a time


def predict(
    model: opt.Model,
    documents: Annotated[
        Path,
        typer.Argument(
            help="New documents: CSV, TSV, JSON lines, Parquet, or a folder of shards; - for standard input."
        ),
    ],
    output: opt.Output = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the words that spoke for each label.", show_default="off")
    ] = False,
    words: Annotated[int, typer.Option("--words", "-n", min=1, help="With --explain, how many words a label.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines for machines.", show_default="off")] = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
    id_: opt.Id = None,
    text: opt.Text = None,
    encoding: opt.Encoding = None,
    engine: opt.Engine = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Label new documents; they are read as they are needed, so there may be any number of them."""
    from palda.cli.console import ShareBar, Talk
    from palda.cli.output import check_target, emit_records, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    if output is not None:
        check_target(output, force=force)
    from palda.cli.predictions import counted_documents, predictions, stored_documents
    from palda.cli.standard_input import local
    from palda.engine import open_client
    from palda.estimators import load
    from palda.io import is_shards, open_shards, stream_documents

    found = load(model)
    no_bar = quiet or (output is None and sys.stdout.isatty())  # the results show how far things are
    with (
        Talk(quiet=quiet).notes(),
        open_client(engine, jobs) as client,
        local(documents) as file,
        ShareBar("documents", quiet=no_bar) as bar,
    ):
        found.set_params(n_jobs=jobs, engine=client)
        size = _EXPLAINED_CHUNK if explain else _CHUNK
        if is_shards(file):
            chunks = stored_documents(found, open_shards(file), size)
        else:
            read = stream_documents(file, id=id_, text=text, encoding=encoding, size=size)
            chunks = counted_documents(found, read)
        blocks = predictions(found, chunks, words if explain else 0, bar.move)
        emit_records(blocks, output, "jsonl" if as_json else form, force=force)


def evaluate(
    model: opt.Model,
    gold: Annotated[Path, typer.Argument(help="Known labels: a table like votes, without annotators.")],
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents",
            "-d",
            help="Documents that the known labels are of.",
            show_default="those the model learned from",
        ),
    ] = None,
    output: opt.Output = None,
    as_json: opt.AsJson = False,
    as_csv: opt.AsCsv = False,
    force: opt.Force = False,
    id_: opt.Id = None,
    text: opt.Text = None,
    encoding: opt.Encoding = None,
    jobs: opt.Jobs = None,
) -> None:
    """Compare with known labels: the consensus on the training documents, or the classifier on other documents."""
    from palda.cli.output import emit_view, form_of

    form = form_of(output, **one_of(as_json=as_json, as_csv=as_csv))
    from palda.cli.evaluation import score_consensus, score_predictions
    from palda.cli.standard_input import local
    from palda.estimators import load

    found = load(model).set_params(n_jobs=jobs)
    with local(gold) as truth:
        if documents is None:
            view = score_consensus(found, truth, encoding)
        else:
            view = score_predictions(found, truth, documents, id_, text, encoding)
    emit_view(view, output, form, force=force)
