"""Documents cut into shards, as the E-step reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logit

from palda.data import Votes, even_ranges, in_memory, take_counts, take_votes
from palda.kernels import Bags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, CountRows, Counts, EncodedFeatures, VoteRows
    from palda.models.crowd import AnnotatorBelief

    Indices = NDArray[np.int64]

NEARLY_CERTAIN = 0.03
"""A label whose probability is this close to 0 or 1 counts as known. The E-step of an uncertain label is more
expensive, and as expensive for a nearly certain one as for any other."""
_ENTRIES_PER_SHARD = 15_000
_MAX_SHARDS = 256  # unless a shard would then have more than _MAX_ENTRIES
_MAX_ENTRIES = 2_000_000


class _StoredRows(NamedTuple):
    """Rows of counts or votes on disk."""

    source: Any
    rows: slice


@dataclass(frozen=True)
class DocumentShard:
    """Some documents: their words, their known labels, and the votes on them.

    ``fixed_log_odds``, if given, fix the labels that are not known: words and votes do not change them. Words and votes
    on disk are read at each access, or once by ``loaded``.
    """

    stored_bags: Bags | _StoredRows
    known: NDArray[np.int8]
    stored_votes: Votes | _StoredRows | None = None
    fixed_log_odds: Array | None = None

    @property
    def bags(self) -> Bags:
        """Words of the documents."""
        stored = self.stored_bags
        return bags_of(stored.source[stored.rows]) if isinstance(stored, _StoredRows) else stored

    @property
    def votes(self) -> Votes | None:
        """Votes on the documents."""
        stored = self.stored_votes
        return stored.source.take(stored.rows) if isinstance(stored, _StoredRows) else stored

    def loaded(self) -> DocumentShard:
        """The same shard with everything in memory."""
        return replace(self, stored_bags=self.bags, stored_votes=self.votes)


@dataclass(frozen=True)
class TrainingData:
    """Documents with known labels, votes, and initial label probabilities from both."""

    counts: CountRows
    known: NDArray[np.int8]
    guess: Array  # (docs, classes): initial label probabilities
    votes: VoteRows | None = None
    belief: AnnotatorBelief | None = None  # prior of the annotators
    features: EncodedFeatures | None = None  # what describes the documents besides words

    def take(self, rows: Indices) -> TrainingData:
        """The documents in these rows."""
        return replace(
            self,
            counts=take_counts(self.counts, rows),
            known=self.known[rows],
            guess=self.guess[rows],
            votes=None if self.votes is None else take_votes(self.votes, rows),
            features=None if self.features is None else self.features.take(rows),
        )

    def shards(self) -> list[DocumentShard]:
        """The documents as shards."""
        return cut_shards(self.counts, self.known, self.votes)


def shard_ranges(counts: CountRows, n_shards: int | None = None) -> list[tuple[int, int]]:
    """First row of each shard, and the row after its last."""
    if n_shards is None:
        n_shards = max(1, min(counts.nnz // _ENTRIES_PER_SHARD, _MAX_SHARDS), counts.nnz // _MAX_ENTRIES)
    return even_ranges(counts.indptr, n_shards)


def cut_shards(
    counts: CountRows,
    known: NDArray[np.int8],
    votes: VoteRows | None = None,
    n_shards: int | None = None,
    fixed_log_odds: Array | None = None,
) -> list[DocumentShard]:
    """Shards with about equal numbers of entries; the cuts depend on the data alone, not on the machine.

    Shards of counts in memory are views of one table.
    """
    shards = []
    bags = bags_of(sparse.csr_array(counts)) if in_memory(counts) else None
    for start, stop in shard_ranges(counts, n_shards):
        rows = slice(start, stop)
        shards.append(
            DocumentShard(
                _StoredRows(counts, rows) if bags is None else _take_bags(bags, rows),
                np.require(known[rows], np.int8, ["C", "W"]),
                votes.take(rows) if isinstance(votes, Votes) else None if votes is None else _StoredRows(votes, rows),
                None if fixed_log_odds is None else fixed_log_odds[rows],
            )
        )
    return shards


def unlabelled_shards(counts: CountRows, n_classes: int, fixed_log_odds: Array | None = None) -> list[DocumentShard]:
    """Shards of documents without known labels; log-odds may fix them."""
    unknown = np.full((counts.shape[0], n_classes), -1, dtype=np.int8)
    return cut_shards(counts, unknown, fixed_log_odds=fixed_log_odds)


def labelled_shards(counts: CountRows, label_probs: Array) -> list[DocumentShard]:
    """Shards whose labels have fixed probabilities; nearly certain ones count as known."""
    certain = (label_probs < NEARLY_CERTAIN) | (label_probs > 1.0 - NEARLY_CERTAIN)
    known = np.where(certain, label_probs > 0.5, -1).astype(np.int8)
    return cut_shards(counts, known, fixed_log_odds=logit(np.clip(label_probs, NEARLY_CERTAIN, 1.0 - NEARLY_CERTAIN)))


def bags_of(counts: Counts) -> Bags:
    """Rows of a CSR matrix as the kernels read them, without a copy where the types allow.

    Read-only arrays are copied, because Numba would compile the kernels a second time for them.
    """
    return Bags(
        np.require(counts.indptr, np.int64, ["C", "W"]),
        np.require(counts.indices, np.int32, ["C", "W"]),
        np.require(counts.data, np.float64, ["C", "W"]),
    )


def _take_bags(bags: Bags, rows: slice) -> Bags:
    """Words of neighbouring documents, without a copy."""
    starts = bags.starts[rows.start : rows.stop + 1]
    entries = slice(starts[0], starts[-1])
    return Bags(starts - starts[0], bags.words[entries], bags.counts[entries])


def concatenate_bags(parts: Sequence[Bags]) -> Bags:
    """Documents of several shards in one."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Bags(
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )
