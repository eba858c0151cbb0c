"""Writes shard folders. A folder appears under its name when it is complete, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.data import Corpus, Dataset, FeatureTable, validation
from palda.errors import DataError
from palda.io.shards.folder import open_shards
from palda.io.shards.format import NAMES, WORDS, Manifest, ShardEntry, shard_name, write_json, write_shard
from palda.io.shards.unfinished import IN_MEMORY, UnfinishedFolder

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from palda.data import Strings, TextWords, ValueWords, Votes
    from palda.io.shards.folder import ShardFolder

    Words = TextWords | ValueWords

DOCS_PER_SHARD = 1 << 14
"""Default number of documents per shard."""


def write_shards(
    path: str | os.PathLike[str],
    data: Corpus | Dataset,
    *,
    words: Words | None = None,
    features: Any = None,
    docs_per_shard: int = DOCS_PER_SHARD,
    force: bool = False,
) -> ShardFolder:
    """Write counts, votes and gold labels as a shard folder, and open it.

    Parameters
    ----------
    path : str or path-like
        Folder to write. It must not exist yet, unless ``force`` replaces a shard folder.
    data : Corpus or Dataset
        Word counts, or a dataset whose ``corpus`` is a ``Corpus``. Texts are kept if the corpus has them.
    words : TextWords or ValueWords, optional
        The fitted transformer that made the counts. A model fitted from the folder can then read new documents.
    features : array, DataFrame or FeatureTable, optional
        Features of the documents, as estimators take them; matched by id if they have ids.
    docs_per_shard : int, default 16384
        Documents per file.
    force : bool, default False
        Replace an existing shard folder.

    Returns
    -------
    ShardFolder
        The folder that was written.

    Raises
    ------
    DataError
        If the folder exists, if ``data`` holds no word counts, or if a document has no features.

    Examples
    --------
    >>> import tempfile
    >>> from palda import write_shards
    >>> from palda.data import Corpus
    >>> corpus = Corpus.from_counts([[1, 0], [0, 2], [3, 1]], vocabulary=["ship", "wheat"])
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = write_shards(f"{parent}/corpus", corpus, docs_per_shard=2)
    ...     len(folder), len(folder.manifest.shards), folder.counts[2:].toarray().tolist()
    (3, 2, [[3.0, 1.0]])
    """
    validation.require_count(docs_per_shard, "docs_per_shard")
    dataset = data if isinstance(data, Dataset) else Dataset.of(data)
    corpus = dataset.corpus
    if not isinstance(corpus, Corpus):
        raise DataError("shards hold word counts; turn the documents into a Corpus first, with TextWords")
    table = None if features is None else FeatureTable.of(features).on_documents(dataset.doc_ids)
    if table is not None:
        table.check_finite()
    target = Path(path)
    with UnfinishedFolder(target, IN_MEMORY, resume=False, force=force) as unfinished:
        axes: dict[str, Any] = {
            "vocabulary": corpus.vocabulary,
            "classes": dataset.classes,
            **annotator_names(dataset.votes),
        }
        axes |= feature_names(table)
        files = write_names(unfinished.output, axes)
        if words is not None:
            files = write_words(unfinished.output, words) | files
        parts = [slice(start, start + docs_per_shard) for start in range(0, len(dataset), docs_per_shard)]
        entries = [
            write_part(unfinished.output, number, dataset.take(rows), None if table is None else table.values[rows])
            for number, rows in enumerate(parts)
        ]
        sizes = (len(dataset), corpus.n_words, len(dataset.classes), dataset.votes.n_annotators)
        unfinished.complete(Manifest(*sizes, corpus.texts is not None, tuple(entries), files, **feature_sizes(table)))
    return open_shards(target)


def annotator_names(votes: Votes) -> dict[str, Strings]:
    """Names of the annotators, and their kinds and families if they are known."""
    names = {"annotators": votes.annotators}
    traits = {"annotator_kinds": votes.annotator_kinds, "annotator_families": votes.annotator_families}
    return names | {name: values for name, values in traits.items() if len(values)}


def feature_names(table: FeatureTable | None) -> dict[str, Any]:
    """Names of the features, and the categories of those that are categories."""
    if table is None:
        return {}
    if not any(names is not None for names in table.categories):
        return {"features": table.names}
    return {
        "features": table.names,
        "feature_categories": [None if names is None else list(names) for names in table.categories],
    }


def feature_sizes(table: FeatureTable | None) -> dict[str, Any]:
    """Number and type of the features, as the manifest lists them."""
    return {} if table is None else {"features": table.n_columns, "feature_type": str(table.values.dtype)}


def write_names(folder: Path, axes: Mapping[str, Iterable[Any]]) -> dict[str, str]:
    """Write the names of all axes but the documents, and what is known about annotators; returns name and digest."""
    return {NAMES: write_json(folder / NAMES, {axis: list(names) for axis, names in axes.items()})}


def write_words(folder: Path, words: Words) -> dict[str, str]:
    """Write the fitted transformer; returns file name and digest."""
    from palda.data import words_to_arrays

    arrays, state = words_to_arrays(words)
    content = state | {"arrays": {name: array.tolist() for name, array in arrays.items()}}
    return {WORDS: write_json(folder / WORDS, content)}


def write_part(folder: Path, number: int, part: Dataset, features: Any = None) -> ShardEntry:
    """Write one shard; returns its entry in the manifest."""
    corpus: Any = part.corpus
    counts = corpus.counts
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    name = shard_name(number)
    digest, n_known = write_shard(folder / name, counts, part.votes, part.gold, corpus.texts, features)
    return ShardEntry(name, len(part), int(counts.nnz), len(part.votes), n_known, digest)
