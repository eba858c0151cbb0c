"""Counts and votes in a folder of shards, which come into memory as they are asked for.

They are the ``StoredCounts`` and ``StoredVotes`` of ``stretches``, which has what is summed over them. A file is mapped
for the time of a call and let go; what calls return are copies.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.data import Votes
from palda.errors import DataError
from palda.io.shards.reader import entries_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Counts, Rows, Strings
    from palda.io.shards.reader import ShardReader

__all__ = ["MappedCounts", "MappedVotes"]


class MappedCounts:
    """Counts (documents, words) on disk; rows come into memory as they are asked for."""

    def __init__(self, reader: ShardReader) -> None:
        self.reader = reader

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedCounts, (self.reader,)

    def __repr__(self) -> str:
        n_docs, n_words = self.shape
        return f"MappedCounts({n_docs:,} x {n_words:,}, {self.nnz:,} entries in {str(self.reader.path)!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Documents and words."""
        return self.reader.manifest.documents, self.reader.manifest.words

    @property
    def nnz(self) -> int:
        """Entries that are stored."""
        return sum(shard.entries for shard in self.reader.manifest.shards)

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """Entries before each document, and before the end."""
        return self.reader.joined_starts("counts.indptr")

    def __getitem__(self, rows: Rows) -> Counts:
        """Rows as a matrix in memory: 64-bit floats, columns sorted."""
        chosen = self.reader.selected(rows)
        lengths, words, data = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
        for shard, within in chosen.pieces:
            with self.reader.mapped(shard) as arrays:
                entries, of_rows = entries_of(arrays["counts.indptr"], within)
                lengths.append(of_rows)
                words.append(arrays["counts.indices"][entries].astype(np.int32))
                data.append(arrays["counts.data"][entries].astype(np.float64))
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        kind = np.int32 if starts[-1] <= np.iinfo(np.int32).max else np.int64  # SciPy makes one type of both
        parts = (np.concatenate(data), np.concatenate(words), starts.astype(kind))
        matrix: Counts = sparse.csr_array(parts, shape=(chosen.length, self.shape[1]))
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix if chosen.order is None else sparse.csr_array(matrix[chosen.order])


class MappedVotes:
    """Votes on disk; those on some documents come into memory as ``Votes``."""

    def __init__(self, reader: ShardReader) -> None:
        self.reader = reader

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedVotes, (self.reader,)

    def __repr__(self) -> str:
        return (
            f"MappedVotes({len(self)} votes of {self.n_annotators} annotators on {self.n_docs} documents x "
            f"{self.n_classes} classes in {str(self.reader.path)!r})"
        )

    def __len__(self) -> int:
        return sum(shard.votes for shard in self.reader.manifest.shards)

    @property
    def n_docs(self) -> int:
        """Documents, those without votes included."""
        return self.reader.manifest.documents

    @property
    def n_annotators(self) -> int:
        """Annotators, those without votes included."""
        return self.reader.manifest.annotators

    @property
    def n_classes(self) -> int:
        """Classes, those without votes included."""
        return self.reader.manifest.classes

    @property
    def annotators(self) -> Strings:
        """Names of the annotators."""
        return self.reader.annotators

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.reader.classes

    @property
    def doc_ids(self) -> Strings:
        """Names of the documents, read anew each time."""
        return self.reader.strings("ids", slice(None))

    @cached_property
    def doc_starts(self) -> NDArray[np.int64]:
        """Votes before each document, and before the end."""
        return self.reader.joined_starts("votes.starts")

    def take(self, rows: Rows, *, named: bool = False) -> Votes:
        """Votes on some documents, in memory.

        Names of documents cost more than the votes on them, so the ids are positions in the folder unless ``named``.
        """
        chosen = self.reader.selected(rows)
        positions = np.asarray(chosen.positions, dtype=np.int64)
        if not isinstance(chosen.positions, range) and (np.diff(positions) == 0).any():
            raise DataError("a document was asked for twice; votes on it would count twice")
        columns: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in (np.int32, np.int32, np.int32, np.int8)]
        silent = [np.empty((0, 2), np.int32)]
        before = 0
        for shard, within in chosen.pieces:
            with self.reader.mapped(shard) as arrays:
                votes, lengths = entries_of(arrays["votes.starts"], within)
                columns[0].append(np.repeat(np.arange(before, before + len(lengths), dtype=np.int32), lengths))
                columns[1].append(arrays["votes.annotator"][votes].astype(np.int32))
                columns[2].append(arrays["votes.label"][votes].astype(np.int32))
                columns[3].append(arrays["votes.value"][votes].astype(np.int8))
                silent.append(_renumbered(arrays["votes.abstained"], within, before))
            before += len(lengths)
        ids: Any = self.reader.strings("ids", positions) if named else positions
        parts = [np.concatenate(column) for column in columns]
        found = Votes.assembled(*parts, ids, self.annotators, self.classes, np.concatenate(silent))
        return found if chosen.order is None else found.take(chosen.order)


def _renumbered(abstained: NDArray[np.int32], rows: slice | NDArray[np.int64], before: int) -> NDArray[np.int32]:
    """Abstentions on some documents of a shard, which are renumbered from ``before``."""
    if isinstance(rows, slice):
        low, high = np.searchsorted(abstained[:, 0], [rows.start, rows.stop])
        return abstained[low:high] + np.array([before - rows.start, 0], dtype=np.int32)
    place = np.minimum(np.searchsorted(rows, abstained[:, 0]), len(rows) - 1)
    kept = rows[place] == abstained[:, 0]
    return np.column_stack((place[kept] + before, abstained[kept, 1])).astype(np.int32)
