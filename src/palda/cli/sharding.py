"""The work of ``palda shard``: progress while it is done, and what is said about the folder."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from palda.cli.console import ShareBar, printable, results
from palda.errors import PaldaError
from palda.io import shard_files

if TYPE_CHECKING:
    from pathlib import Path

    from palda.io import ShardFolder, Sources, Treatment

__all__ = ["show", "write"]


def write(
    output: Path, sources: Sources, treatment: Treatment, *, resume: bool, force: bool, quiet: bool
) -> ShardFolder:
    """The folder, after a bar for each step."""
    if "-" in map(str, (sources.documents, sources.votes)):
        raise PaldaError("standard input cannot be sharded: files are read more than once; write it to a file first")
    if not output.parent.is_dir():
        raise PaldaError(f"{output} cannot be written: there is no folder {output.parent}")
    with ShareBar("", quiet=quiet) as bar:
        return shard_files(output, sources, treatment, resume=resume, force=force, watch=bar.step)


def show(folder: ShardFolder, output: Path, *, as_json: bool) -> None:
    """Print what is in the folder, and what to do with it."""
    manifest = folder.manifest
    n_bytes = sum(file.stat().st_size for file in folder.path.iterdir())
    facts = {
        "documents": manifest.documents, "words": manifest.words, "entries": folder.counts.nnz,
        "votes": len(folder.votes), "annotators": manifest.annotators, "classes": manifest.classes,
        "known_labels": sum(shard.known for shard in manifest.shards), "shards": len(manifest.shards),
        "bytes": n_bytes,
    }  # fmt: skip
    with results():
        if as_json:
            sys.stdout.write(json.dumps(facts | {"folder": str(output)}, ensure_ascii=False, indent=1) + "\n")
            return
        names = ", ".join(folder.classes[:12]) + (", ..." if manifest.classes > 12 else "")
        lines = {
            "documents": f"{manifest.documents:,} with {manifest.words:,} words",
            "votes": f"{len(folder.votes):,} by {manifest.annotators:,} annotators",
            "classes": f"{manifest.classes}: {names}",
            "known labels": f"{facts['known_labels']:,}",
            "written": f"{output} ({len(manifest.shards):,} shards, {n_bytes / 1e6:.1f} MB)",
        }
        for name, value in lines.items():
            sys.stdout.write(printable(f"{name:14s}{value}") + "\n")
