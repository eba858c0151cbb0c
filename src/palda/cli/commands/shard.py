"""``palda shard``: documents and votes as a folder of shards, for data larger than memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, Terminated, progress_bar, standard_output, write_lines
from palda.cli.output import json_text
from palda.errors import PaldaError

if TYPE_CHECKING:
    from palda.io import ShardFolder


@opt.option_groups(words=opt.word_options, reading=opt.read_options, features=opt.feature_options)
def shard(
    documents: Annotated[
        Path, typer.Argument(help="Documents, or one file with documents and votes.", show_default=False)
    ],
    votes: opt.Votes = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("corpus"),
    gold: opt.Gold = None,
    docs_per_shard: Annotated[int, typer.Option("--docs-per-shard", min=1, help="Documents per shard.")] = 16_384,
    resume: Annotated[bool, opt.flag("Resume an interrupted run.", "--resume")] = False,
    no_texts: Annotated[bool, opt.flag("Store word counts without the texts.", "--no-texts")] = False,
    force: opt.Force = False,
    as_json: opt.JsonSummary = False,
    *,
    words: opt.WordOptions,
    reading: dict[str, Any],
    features: opt.FeatureFiles,
    quiet: opt.Quiet = False,
) -> None:
    """Count words and sort votes once, into a folder that palda fit and palda predict read piece by piece."""
    if "-" in map(str, (documents, votes)):
        raise PaldaError("palda shard cannot read standard input: it reads files twice; write it to a file first")
    if not output.parent.is_dir():
        raise PaldaError(f"{output} cannot be written: there is no folder {output.parent}")
    from palda.io import ReadOptions, Sources, Treatment, shard_files

    treatment = Treatment(
        ReadOptions(**reading), words.text_words(), words.value_words(), docs_per_shard, keep_texts=not no_texts
    )
    try:
        with Messages(quiet=quiet).show_warnings(), progress_bar(quiet=quiet) as bar:
            sources = Sources(documents, votes, gold, features.path, features.ids)
            folder = shard_files(output, sources, treatment, resume=resume, force=force, watch=bar.update_step)
    except (KeyboardInterrupt, Terminated) as stopped:
        stopped.args = ("what is done is kept; to resume, repeat the command with --resume",)
        raise
    _print_summary(folder, output, as_json=as_json)


def _print_summary(folder: ShardFolder, output: Path, *, as_json: bool) -> None:
    manifest = folder.manifest
    n_bytes = sum(file.stat().st_size for file in folder.path.iterdir())
    n_known = sum(shard.known for shard in manifest.shards)
    with standard_output():
        if as_json:
            summary = {
                "documents": manifest.documents, "words": manifest.words, "entries": folder.counts.nnz,
                "votes": len(folder.votes), "annotators": manifest.annotators, "classes": manifest.classes,
                "features": manifest.features,
                "known_labels": n_known, "shards": len(manifest.shards), "bytes": n_bytes, "folder": str(output),
            }  # fmt: skip
            sys.stdout.write(json_text(summary, indent=1) + "\n")
            return
        names = ", ".join(folder.classes[:12]) + (", ..." if manifest.classes > 12 else "")
        write_lines(
            [
                ("documents", f"{manifest.documents:,} with {manifest.words:,} words"),
                ("votes", f"{len(folder.votes):,} by {manifest.annotators:,} annotators"),
                ("classes", f"{manifest.classes}: {names}"),
                ("known labels", f"{n_known:,}"),
                *([("features", f"{manifest.features:,}")] if manifest.features else []),
                ("written", f"{output} ({len(manifest.shards):,} shards, {n_bytes / 1e6:.1f} MB)"),
            ]
        )
