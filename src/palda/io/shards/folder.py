"""``ShardFolder``: documents, votes and gold labels on disk, read when they are needed."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Corpus, Dataset, FeatureTable
from palda.errors import DataError
from palda.io.shards.format import MANIFEST, WORDS, file_sha256, read_json
from palda.io.shards.mapped_features import MappedFeatures
from palda.io.shards.reader import MappedCounts, MappedVotes, open_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.data import Rows, Strings, TextWords, ValueWords
    from palda.io.shards.reader import ShardReader

_ALL = slice(None)


def is_shards(path: object) -> bool:
    """Whether a path is a shard folder."""
    return isinstance(path, (str, os.PathLike)) and (Path(path) / MANIFEST).is_file()


def open_shards(path: str | os.PathLike[str]) -> ShardFolder:
    """Open a folder written by ``palda shard`` or ``write_shards``.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Returns
    -------
    ShardFolder
        Only the manifest is read now; everything else is read when it is used.

    Raises
    ------
    DataError
        If this is not a shard folder, or one of an older version: run ``palda shard`` again.
    """
    return ShardFolder(open_reader(path))


class ShardFolder:
    """Word counts, votes and gold labels on disk, as ``open_shards`` and ``write_shards`` return them.

    Estimators accept it instead of data in memory and give the same bits. It is pickled as its path, and several
    threads may use it. Each shard file is validated when it is first used, so that no position in a damaged file can
    point out of bounds; ``verify`` compares every byte with its checksum.

    Attributes
    ----------
    path : Path
        The folder.
    manifest : Manifest
        Sizes, and the digests of the files.
    counts : MappedCounts
        Word counts (documents, words); ``counts[rows]`` is a sparse matrix in memory.
    votes : MappedVotes
        Votes; ``votes.take(rows)`` is a ``Votes`` in memory.
    features : FeatureTable or None
        Numbers and categories of the documents; ``features.values[rows]`` is an array in memory.

    Examples
    --------
    >>> import tempfile
    >>> from palda import open_shards, write_shards
    >>> from palda.data import Corpus
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     _ = write_shards(f"{parent}/corpus", Corpus.from_counts([[1, 0], [0, 2]], doc_ids=["d1", "d2"]))
    ...     folder = open_shards(f"{parent}/corpus")
    ...     folder.verify()
    ...     folder.ids([1]).tolist(), folder.counts[1:].toarray().tolist()
    (['d2'], [[0.0, 2.0]])
    """

    def __init__(self, reader: ShardReader) -> None:
        self._reader = reader
        self.path = reader.path
        self.manifest = reader.manifest
        self.counts = MappedCounts(reader)
        self.votes = MappedVotes(reader)

    def __len__(self) -> int:
        return self.manifest.documents

    def __repr__(self) -> str:
        return (
            f"ShardFolder({str(self.path)!r}: {len(self):,} documents, {self.manifest.words:,} words, "
            f"{len(self.votes):,} votes, {len(self.manifest.shards):,} shards)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shards, (self.path,)

    @property
    def n_docs(self) -> int:
        """Number of documents, including those without votes."""
        return self.manifest.documents

    @property
    def vocabulary(self) -> Strings:
        """Words, in the order of the columns of counts."""
        return self._reader.vocabulary

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self._reader.classes

    @property
    def annotators(self) -> Strings:
        """Names of the annotators."""
        return self._reader.annotators

    @property
    def doc_bounds(self) -> NDArray[np.int64]:
        """(shards + 1,): number of documents before each shard, and in total."""
        return self._reader.doc_bounds

    @cached_property
    def words(self) -> TextWords | ValueWords | None:
        """The fitted transformer from documents to counts, if the folder has it."""
        if WORDS not in self.manifest.files:
            return None
        from palda.io.transformer_state import restore_words

        content = read_json(self.path / WORDS)
        try:
            return restore_words(content, self.manifest.words)
        except (LookupError, TypeError, ValueError) as wrong:
            raise DataError(f"is damaged ({wrong}); write the folder again", file=str(self.path / WORDS)) from None

    @cached_property
    def features(self) -> FeatureTable | None:
        """Features of the documents, in their order, if the folder has features; rows are read when they are used."""
        axes = self._reader.feature_axes
        return None if axes is None else FeatureTable(MappedFeatures(self._reader), *axes)

    @property
    def X(self) -> MappedCounts:  # noqa: N802 - scikit-learn's name
        """Counts, as estimators take them."""
        return self.counts

    @property
    def doc_ids(self) -> Strings:
        """Ids of all documents, read anew each time."""
        return self.ids(_ALL)

    def ids(self, rows: Rows = _ALL) -> Strings:
        """Ids of some documents."""
        return self._reader.strings("ids", rows)

    @property
    def has_texts(self) -> bool:
        """Whether the folder has the texts of the documents."""
        return self.manifest.texts

    def texts(self, rows: Rows = _ALL) -> Strings | None:
        """Texts of some documents, if the folder has them."""
        return self._reader.strings("texts", rows) if self.has_texts else None

    @property
    def has_gold(self) -> bool:
        """Whether any gold label is known."""
        return any(shard.known for shard in self.manifest.shards)

    @property
    def gold(self) -> NDArray[np.int8]:
        """(documents, classes): gold labels, -1 if unknown; read anew each time."""
        return self.known(_ALL)

    def known(self, rows: Rows = _ALL) -> NDArray[np.int8]:
        """Gold labels of some documents, -1 if unknown."""
        chosen = self._reader.selected(rows)
        gold = np.full((chosen.length, self.manifest.classes), -1, dtype=np.int8)
        start = 0
        for shard, within in chosen.pieces:
            n_docs = within.stop - within.start if isinstance(within, slice) else len(within)
            stop = start + n_docs
            labels = self._reader.shard(shard).gold if self.manifest.shards[shard].known else None
            if labels is not None:
                gold[start:stop] = labels[within]
            start = stop
        return gold if chosen.order is None else gold[chosen.order]

    def corpus(self, rows: Rows = _ALL) -> Corpus:
        """Some documents in memory."""
        return Corpus(self.counts[rows], self.vocabulary, self.ids(rows), self.texts(rows))

    def dataset(self, rows: Rows = _ALL) -> Dataset:
        """Some documents in memory, with their votes and gold labels."""
        return Dataset(self.corpus(rows), self.votes.take(rows, named=True), self.known(rows))

    def verify(self, watch: Callable[[float], None] | None = None) -> None:
        """Compare every file with its checksum; raises ``DataError`` for the first that differs.

        ``watch`` is called with the share of the files that has been read.
        """
        digests = self.manifest.files | {shard.file: shard.sha256 for shard in self.manifest.shards}
        for number, (name, digest) in enumerate(digests.items()):
            path = self.path / name
            try:
                found = file_sha256(path)
            except FileNotFoundError:
                raise DataError("is missing; the folder is not complete", file=str(path)) from None
            except OSError as refused:
                raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
            if found != digest:
                raise DataError("was altered or damaged after it was written; write the folder again", file=str(path))
            if watch is not None:
                watch((number + 1) / len(digests))
        for shard in range(len(self.manifest.shards)):
            self._reader.shard(shard)
