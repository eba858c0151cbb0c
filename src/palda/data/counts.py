"""Sums over counts of words, wherever the counts are: in memory, or in a folder of shards.

Both are read in blocks of documents that depend on nothing but the number of documents, and the sums of the blocks are
added in order. So memory does not grow with the documents, and both give the same sums to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data.types import Counts

__all__ = ["BLOCK_DOCS", "CountRows", "block_slices", "doc_lengths", "weighted_sums", "word_doc_counts", "word_totals"]

BLOCK_DOCS = 1 << 14
"""Documents in a block."""


class CountRows(Protocol):
    """Counts (documents, words) of which some rows at a time are looked at; a ``csr_array`` is one."""

    @property
    def shape(self) -> tuple[int, int]:
        """Documents and words."""

    @property
    def nnz(self) -> int:
        """Entries that are stored."""

    @property
    def indptr(self) -> NDArray[Any]:
        """Entries before each document, and before the end."""

    def __getitem__(self, rows: Any, /) -> Any:
        """Rows as a ``csr_array`` in memory."""


def block_slices(n_docs: int) -> Iterator[slice]:
    """Blocks of documents, in order."""
    for start in range(0, n_docs, BLOCK_DOCS):
        yield slice(start, min(start + BLOCK_DOCS, n_docs))


def _blocks(counts: CountRows) -> Iterator[tuple[slice, Counts]]:
    for rows in block_slices(counts.shape[0]):
        yield rows, sparse.csr_array(counts[rows])


def word_totals(counts: CountRows) -> NDArray[np.float64]:
    """(words,): how often each word occurs."""
    totals = np.zeros(counts.shape[1])
    for _, block in _blocks(counts):
        totals += np.asarray(block.sum(axis=0), dtype=np.float64)
    return totals


def doc_lengths(counts: CountRows) -> NDArray[np.float64]:
    """(documents,): how many words each document has."""
    lengths = np.zeros(counts.shape[0])
    for rows, block in _blocks(counts):
        lengths[rows] = block.sum(axis=1)
    return lengths


def word_doc_counts(counts: CountRows) -> NDArray[np.int64]:
    """(words,): how many documents have a positive count of each word."""
    n_words = counts.shape[1]
    present = np.zeros(n_words, dtype=np.int64)
    for _, block in _blocks(counts):
        present += np.bincount(block.indices[block.data > 0], minlength=n_words)
    return present


def weighted_sums(counts: CountRows, dense: NDArray[Any]) -> NDArray[np.float64]:
    """(words, columns): counts summed over documents with the weights of each column of ``dense``."""
    sums = np.zeros((counts.shape[1], *dense.shape[1:]))
    for rows, block in _blocks(counts):
        sums += block.T @ dense[rows]
    return sums
