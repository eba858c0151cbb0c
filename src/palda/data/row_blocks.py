"""Counts and votes in blocks of rows, whether they are in memory or on disk.

Fits need only the number of documents, their lengths, and some rows at a time. ``Counts`` and ``Votes`` in memory
provide that, and so do those of a shard folder, which are never in memory as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from palda.data.documents import Counts
    from palda.data.frozen_arrays import Strings
    from palda.data.votes import Votes

    Array: TypeAlias = NDArray[np.float64]
    Rows: TypeAlias = slice | NDArray[np.int64]

CountRows: TypeAlias = "Counts | StoredCounts"
VoteRows: TypeAlias = "Votes | StoredVotes"

_BLOCK_ENTRIES = 1 << 21  # about 25 MB of counts


class StoredCounts(Protocol):
    """Counts (documents, words) that are not in memory; rows are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of words."""

    @property
    def nnz(self) -> int:
        """Number of entries."""

    @property
    def indptr(self) -> NDArray[np.int64]:
        """(documents + 1,): number of entries before each document, and in total."""

    def __getitem__(self, rows: Rows) -> Counts:
        """Some rows, in memory."""


class StoredVotes(Protocol):
    """Votes that are not in memory."""

    @property
    def n_docs(self) -> int:
        """Number of documents, including those without votes."""

    @property
    def n_annotators(self) -> int:
        """Number of annotators."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    @property
    def annotators(self) -> Strings:
        """Names of the annotators."""

    @property
    def annotator_kinds(self) -> Strings:
        """Kinds of the annotators; of length 0 if they are not known."""

    @property
    def annotator_families(self) -> Strings:
        """Families of the annotators; of length 0 if they are not known."""

    @property
    def classes(self) -> Strings:
        """Names of the classes."""

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents."""

    @property
    def doc_starts(self) -> NDArray[np.int64]:
        """(documents + 1,): number of votes before each document, and in total."""

    def __len__(self) -> int:
        """Number of votes."""

    def take(self, rows: Rows) -> Votes:
        """Votes on some documents, in memory; ``doc_ids`` may be positions."""


def in_memory(counts: CountRows) -> TypeGuard[Counts]:
    """Whether counts are a matrix in memory."""
    return sparse.issparse(counts)


@dataclass(frozen=True, eq=False)
class CountSubset:
    """Some documents of stored counts; rows are read when they are asked for."""

    source: StoredCounts
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of words."""
        return len(self.rows), self.source.shape[1]

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return int(self.indptr[-1])

    @property
    def indptr(self) -> NDArray[np.int64]:
        """(documents + 1,): number of entries before each document, and in total."""
        return _starts(self.source.indptr, self.rows)

    def __getitem__(self, rows: Rows) -> Counts:
        """Some of the rows."""
        return self.source[self.rows[rows]]


@dataclass(frozen=True, eq=False)
class VoteSubset:
    """Votes on some documents of stored votes."""

    source: StoredVotes
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.doc_starts[-1])

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.rows)

    @property
    def n_annotators(self) -> int:
        """Number of annotators."""
        return self.source.n_annotators

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.source.n_classes

    @property
    def annotators(self) -> Strings:
        """Names of the annotators."""
        return self.source.annotators

    @property
    def annotator_kinds(self) -> Strings:
        """Kinds of the annotators; of length 0 if they are not known."""
        return self.source.annotator_kinds

    @property
    def annotator_families(self) -> Strings:
        """Families of the annotators; of length 0 if they are not known."""
        return self.source.annotator_families

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.source.classes

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents."""
        return self.source.doc_ids[self.rows]

    @property
    def doc_starts(self) -> NDArray[np.int64]:
        """(documents + 1,): number of votes before each document, and in total."""
        return _starts(self.source.doc_starts, self.rows)

    def take(self, rows: Rows) -> Votes:
        """Some of them, in memory."""
        return self.source.take(self.rows[rows])


@dataclass(frozen=True, eq=False)
class ConvertedVotes(VoteSubset):
    """Stored votes that are converted when they are read; ``convert`` keeps documents and classes.

    ``doc_starts`` are those of the stored votes.
    """

    convert: Callable[[Votes], Votes]

    @cached_property
    def _no_votes(self) -> Votes:
        return self.take(slice(0, 0))

    @property
    def n_annotators(self) -> int:
        """Number of annotators after conversion."""
        return self._no_votes.n_annotators

    @property
    def annotators(self) -> Strings:
        """Names of the annotators after conversion."""
        return self._no_votes.annotators

    @property
    def annotator_kinds(self) -> Strings:
        """Kinds of the annotators after conversion."""
        return self._no_votes.annotator_kinds

    @property
    def annotator_families(self) -> Strings:
        """Families of the annotators after conversion."""
        return self._no_votes.annotator_families

    def take(self, rows: Rows) -> Votes:
        """Some of them, converted, in memory."""
        return self.convert(super().take(rows))


def _starts(starts: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(starts[rows + 1] - starts[rows])))


def take_counts(counts: CountRows, rows: NDArray[np.int64]) -> CountRows:
    """Some documents; stored counts are not read."""
    if isinstance(counts, CountSubset):
        return CountSubset(counts.source, counts.rows[rows])
    return counts[rows] if in_memory(counts) else CountSubset(cast("StoredCounts", counts), rows)


def take_votes(votes: VoteRows, rows: NDArray[np.int64]) -> VoteRows:
    """Votes on some documents; stored votes are not read."""
    from palda.data.votes import Votes

    if isinstance(votes, VoteSubset):
        return replace(votes, rows=votes.rows[rows])
    return votes.take(rows) if isinstance(votes, Votes) else VoteSubset(votes, rows)


def even_ranges(starts: NDArray[Any], n_parts: int) -> list[tuple[int, int]]:
    """Ranges of documents with about equal numbers of entries plus documents.

    ``starts`` (documents + 1,) has the number of entries before each document, and in total.
    """
    n_docs = len(starts) - 1
    load = np.arange(n_docs + 1) + np.asarray(starts, dtype=np.int64)
    cuts = np.unique(np.searchsorted(load, np.linspace(0, load[-1], n_parts + 1)[1:-1]))
    edges = [0, *(int(cut) for cut in cuts if 0 < cut < n_docs), n_docs]
    return list(pairwise(edges))


def block_ranges(starts: NDArray[Any]) -> Iterator[slice]:
    """Ranges of documents with at most about ``_BLOCK_ENTRIES`` entries; ``starts`` as in ``even_ranges``."""
    n_parts = max(1, -(-int(starts[-1]) // _BLOCK_ENTRIES))
    return (slice(*edges) for edges in even_ranges(starts, n_parts))


def count_blocks(counts: CountRows) -> Iterator[tuple[slice, Counts]]:
    """All rows, one block at a time; the cuts do not depend on where they are stored, so sums are equal bit by bit."""
    for rows in block_ranges(counts.indptr):
        yield rows, counts[rows]


def vote_blocks(votes: VoteRows) -> Iterator[tuple[slice, Votes]]:
    """All votes, one block of documents at a time."""
    for rows in block_ranges(votes.doc_starts):
        yield rows, votes.take(rows)


def document_lengths(counts: CountRows) -> Array:
    """(documents,): number of tokens per document."""
    return np.concatenate([np.asarray(some.sum(axis=1), dtype=np.float64).ravel() for _, some in count_blocks(counts)])


def word_totals(counts: CountRows) -> Array:
    """(words,): total count per word."""
    parts = (np.asarray(some.sum(axis=0), dtype=np.float64).ravel() for _, some in count_blocks(counts))
    return np.asarray(sum(parts, start=np.zeros(counts.shape[1])))


def word_doc_counts(counts: CountRows) -> NDArray[np.int64]:
    """(words,): number of documents per word."""
    total = np.zeros(counts.shape[1], dtype=np.int64)
    for _, some in count_blocks(counts):
        total += np.bincount(some.indices[some.data > 0], minlength=counts.shape[1])
    return total


def weighted_sums(counts: CountRows, dense: Array) -> Array:
    """(words, columns): Σ over documents of the count of each word times the row of a dense table."""
    total = np.zeros((counts.shape[1], dense.shape[1]))
    for rows, some in count_blocks(counts):
        total += np.asarray(some.T @ dense[rows], dtype=np.float64)
    return total
