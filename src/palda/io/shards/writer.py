"""Data in memory as a folder of shards; the folder appears under its name when it is complete, or not at all."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Corpus, Dataset, validation
from palda.errors import DataError
from palda.io.shards.folder import open_shards
from palda.io.shards.format import (
    NAMES,
    WORDS,
    WORDS_ARRAYS,
    Manifest,
    ShardEntry,
    shard_arrays,
    shard_name,
    write_json,
    write_shard,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from palda.data import TextWords, ValueWords
    from palda.io.shards.folder import ShardFolder

    Words = TextWords | ValueWords

__all__ = [
    "DOCS_PER_SHARD",
    "check_new_folder",
    "put_in_place",
    "write_names",
    "write_part",
    "write_shards",
    "write_words",
]

DOCS_PER_SHARD = 1 << 14
"""Documents in a shard, unless somebody wants another number."""


def write_shards(
    path: str | os.PathLike[str],
    data: Corpus | Dataset,
    *,
    words: Words | None = None,
    docs_per_shard: int = DOCS_PER_SHARD,
    force: bool = False,
) -> ShardFolder:
    """Write counts, votes and known labels as a folder of shards, and open it.

    Parameters
    ----------
    path
        Folder to write. It must not be there yet, unless ``force`` replaces a folder of shards.
    data
        A ``Corpus``, or a ``Dataset`` that holds one; texts are kept if the corpus has them.
    words
        The fitted transformer that made the counts, so that a model learned from the folder reads new documents.
    docs_per_shard
        Documents in a file.
    force
        Replace a folder of shards.
    """
    validation.require_count(docs_per_shard, "docs_per_shard")
    dataset = data if isinstance(data, Dataset) else Dataset.of(data)
    corpus = dataset.corpus
    if not isinstance(corpus, Corpus):
        raise DataError("shards hold counts of words; turn the documents into a Corpus first, with TextWords")
    target = Path(path)
    check_new_folder(target, force=force)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    unfinished.mkdir(parents=True)
    try:
        axes = {"vocabulary": corpus.vocabulary, "classes": dataset.classes, "annotators": dataset.votes.annotators}
        files = ({} if words is None else write_words(unfinished, words)) | write_names(unfinished, axes)
        entries = [
            write_part(unfinished, number, dataset.take(slice(start, start + docs_per_shard)))
            for number, start in enumerate(range(0, len(dataset), docs_per_shard))
        ]
        sizes = (len(dataset), corpus.n_words, len(dataset.classes), dataset.votes.n_annotators)
        Manifest(*sizes, corpus.texts is not None, tuple(entries), files).write(unfinished)
        put_in_place(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return open_shards(target)


def check_new_folder(target: Path, *, force: bool) -> None:
    """Complain now rather than after the work about a folder that could not be written."""
    if target.exists() or target.is_symlink():
        is_ours = (target / "manifest.json").is_file()
        if not force or not is_ours:
            advice = "pass force=True to replace it, or choose another name" if is_ours else "choose another name"
            raise DataError(f"is there already; {advice}", file=str(target))


def write_names(folder: Path, axes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Write the names of all axes but the documents; the digest of the file."""
    return {NAMES: write_json(folder / NAMES, {axis: list(names) for axis, names in axes.items()})}


def write_words(folder: Path, words: Words) -> dict[str, str]:
    """Write what turns new documents into counts; digests of the files."""
    from palda.data import words_to_arrays

    arrays, state = words_to_arrays(words)
    files = {WORDS: write_json(folder / WORDS, state)}
    if arrays:
        files[WORDS_ARRAYS] = write_shard(folder / WORDS_ARRAYS, arrays)
    return files


def write_part(folder: Path, number: int, part: Dataset) -> ShardEntry:
    """Write one shard; what the manifest says about it."""
    corpus: Any = part.corpus
    counts = corpus.counts
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    name = shard_name(number)
    arrays = shard_arrays(counts, part.votes, part.gold, corpus.texts, corpus.n_words)
    digest = write_shard(folder / name, arrays)
    known = int(np.count_nonzero(part.gold >= 0))
    return ShardEntry(name, len(part), int(counts.nnz), len(part.votes), known, digest)


def put_in_place(unfinished: Path, target: Path) -> None:
    """Give a complete folder its name; what had the name before goes."""
    if not target.exists():
        unfinished.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    target.rename(old)
    unfinished.rename(target)
    shutil.rmtree(old)
