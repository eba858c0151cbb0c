"""``palda consensus``: consensus labels of the training documents, or of new documents with votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.console import Messages
from palda.cli.features import new_features
from palda.cli.inputs import load_crowd, read_files, word_counts
from palda.cli.output import Target, write_records


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options, reading=opt.read_options, features=opt.feature_options, omit=("classes",))
def consensus(
    model: opt.Model,
    documents: Annotated[
        Path | None, typer.Argument(help="New documents with votes.", show_default="the training documents")
    ] = None,
    votes: opt.Votes = None,
    *,
    target: Target,
    reading: dict[str, Any],
    features: opt.FeatureFiles,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Show the consensus labels of the training documents, or of new documents with votes."""
    from palda.report import label_records

    features.require_documents(documents)
    fitted = load_crowd(model)
    doc_ids, probs = fitted.doc_ids_, fitted.consensus_
    if documents is not None:
        with Messages(quiet=quiet).show_warnings(), new_features(features, fitted, reading) as given:
            dataset = read_files(documents, votes, reading)
            fitted.set_params(n_jobs=jobs)
            counts = word_counts(fitted, dataset.corpus)
            given.check_end(len(dataset))
            doc_ids, table = dataset.doc_ids, given.of(dataset.corpus)
            probs = fitted.consensus(counts, dataset.votes, doc_ids, features=table)
    write_records(label_records(doc_ids, probs, fitted.classes_.tolist()), target)
