"""How strongly two annotators agree: correlations of their votes on the documents that both judged.

Votes are centred by class and pair of annotators, so that neither a frequent class nor the choice of documents that two
annotators happened to share makes them look alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import Votes, take_votes, vote_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows

    Ints = NDArray[np.int64]

_MAX_COMPARISONS = 20_000_000  # pairs of votes that are compared; documents are sampled if there are more
_MAX_CELLS = 5_000_000  # (annotator pair, class) cells whose means are kept
_CHUNK = 1 << 21  # pairs of votes that are compared at a time
_MAX_GOLD_DOCS = 20_000  # documents with known labels that annotators are compared with
_UNKNOWN = -1  # no vote


@dataclass(frozen=True)
class VotePairs:
    """Sums over the documents that both annotators of a pair judged; arrays (pairs,), ``first`` < ``second``.

    With x and y the centred votes of both, P = Σ x y and Q = (g Σ x² + Σ y² / g) / 2 are sums over the classes of a
    document, g being the ratio of the standard deviations. The correlation is ΣP / ΣQ over documents, and the sums of
    squares give its standard error for any correlation that is expected (maths, eqs. 83 and 84).
    """

    first: Ints
    second: Ints
    n_docs: Ints
    """Documents that both judged."""
    n_votes: Ints
    """Judgements, (document, class), that both made."""
    agreement: Array
    """Share of those on which they agree."""
    product: Array  # ΣP
    scale: Array  # ΣQ
    product_squares: Array  # ΣP²
    mixed: Array  # ΣPQ
    scale_squares: Array  # ΣQ²

    def __len__(self) -> int:
        return len(self.first)

    def __add__(self, other: VotePairs) -> VotePairs:
        """Pairs of both."""
        return VotePairs(
            *(np.concatenate((getattr(self, spec.name), getattr(other, spec.name))) for spec in fields(self))
        )

    def select(self, which: NDArray[np.bool_]) -> VotePairs:
        """Some of the pairs."""
        return VotePairs(*(getattr(self, spec.name)[which] for spec in fields(self)))

    @property
    def correlation(self) -> Array:
        """Correlation of the votes within classes."""
        return self.product / self.scale

    def variance(self, expected: Array) -> Array:
        """Sampling variance of the correlation if its expectation is ``expected``, documents being independent.

        At least that of independent judgements, since few documents may have votes that hardly vary.
        """
        squares = self.product_squares - 2.0 * expected * self.mixed + expected**2 * self.scale_squares
        variance: Array = np.maximum(squares / self.scale**2, (1.0 - expected**2) ** 2 / self.n_votes)
        return variance


class _Annotations(NamedTuple):
    """Votes on some documents, one row per (document, annotator)."""

    doc: Ints
    annotator: Ints
    votes: NDArray[np.int8]  # (rows, classes): 1, 0 or _UNKNOWN


def vote_pairs(votes: VoteRows, min_docs: int, seed: int = 0) -> VotePairs:
    """All pairs of annotators with at least ``min_docs`` common documents and votes that vary on them.

    Of more votes than ``_MAX_COMPARISONS`` allows, random documents are used; of more pairs than ``_MAX_CELLS`` allows,
    those with most common documents.
    """
    sample = _sample(votes, seed)
    keys, n_docs = _common_documents(sample, min_docs, max(1, _MAX_CELLS // votes.n_classes))
    cells = np.zeros((len(keys) * votes.n_classes, 2, 2))
    for pair, first, second in _comparisons(sample, keys):
        row, label = np.nonzero((first != _UNKNOWN) & (second != _UNKNOWN))
        cell = (pair[row] * votes.n_classes + label) * 4 + 2 * first[row, label] + second[row, label]
        cells += np.bincount(cell, minlength=cells.size).reshape(cells.shape)
    table = _Table.from_cells(cells.reshape(len(keys), votes.n_classes, 2, 2))
    sums = np.zeros((5, len(keys)))
    for pair, first, second in _comparisons(sample, keys):
        product, scale = table.document_sums(pair, first, second)
        parts = (product, scale, product**2, product * scale, scale**2)
        sums += [np.bincount(pair, part, minlength=len(keys)) for part in parts]
    low, high = np.divmod(keys, votes.n_annotators)
    varied = sums[1] > 0
    return VotePairs(
        *(column[varied] for column in (low, high, n_docs, table.n_votes, table.agreement, *sums)),
    )


def gold_pairs(votes: VoteRows, known: NDArray[np.int8], min_docs: int) -> VotePairs:
    """Pairs of each annotator with the known labels, which get the position after the last annotator.

    ``known`` is (documents, classes): 1, 0, and -1 for unknown.
    """
    rows = np.flatnonzero((known >= 0).any(axis=1))[:_MAX_GOLD_DOCS]
    judged = votes.take(rows)
    doc, label = np.nonzero(known[rows] >= 0)
    with_gold = Votes.from_codes(
        np.concatenate((judged.doc, doc)),
        np.concatenate((judged.annotator, np.full(len(doc), votes.n_annotators))),
        np.concatenate((judged.label, label)),
        np.concatenate((judged.value, known[rows][doc, label])),
        doc_ids=judged.doc_ids,
        annotators=np.append(judged.annotators, ["known labels"]),
        classes=judged.classes,
    )
    pairs = vote_pairs(with_gold, min_docs)
    return pairs.select(pairs.second == votes.n_annotators)


class _Table(NamedTuple):
    """Means of the common votes per pair and class, and per pair the ratio of the standard deviations."""

    first_mean: Array  # (pairs, classes)
    second_mean: Array
    ratio: Array  # (pairs,): g; 0 if the votes of either do not vary
    n_votes: Ints
    agreement: Array

    @classmethod
    def from_cells(cls, cells: Array) -> _Table:
        """From the numbers of joint votes (pairs, classes, vote of the first, vote of the second)."""
        n_votes = cells.sum(axis=(2, 3))
        safe = np.maximum(n_votes, 1.0)
        first, second = cells[:, :, 1].sum(axis=2) / safe, cells[:, :, :, 1].sum(axis=2) / safe
        squares = [np.sum(n_votes * mean * (1.0 - mean), axis=1) for mean in (first, second)]
        varied = (squares[0] > 0) & (squares[1] > 0)
        ratio = np.sqrt(np.divide(squares[1], squares[0], out=np.zeros(len(cells)), where=varied))
        total = n_votes.sum(axis=1)
        agreement = (cells[:, :, 0, 0] + cells[:, :, 1, 1]).sum(axis=1) / np.maximum(total, 1.0)
        return cls(first, second, ratio, total.astype(np.int64), agreement)

    def document_sums(self, pair: Ints, first: NDArray[np.int8], second: NDArray[np.int8]) -> tuple[Array, Array]:
        """P and Q of each comparison of two annotators on a document."""
        both = (first != _UNKNOWN) & (second != _UNKNOWN)
        x = np.where(both, first - self.first_mean[pair], 0.0)
        y = np.where(both, second - self.second_mean[pair], 0.0)
        ratio = self.ratio[pair]
        product = np.einsum("ri,ri->r", x, y)
        squares = [np.einsum("ri,ri->r", values, values) for values in (x, y)]
        inverse = np.divide(1.0, ratio, out=np.zeros(len(pair)), where=ratio > 0)
        return np.where(ratio > 0, product, 0.0), (ratio * squares[0] + inverse * squares[1]) / 2.0


def _sample(votes: VoteRows, seed: int) -> VoteRows:
    """Documents whose comparisons stay within ``_MAX_COMPARISONS``, chosen at random; all of them if they do."""
    n_annotations = np.concatenate([_annotations_per_doc(some) for _, some in vote_blocks(votes)])
    n_pairs = n_annotations * (n_annotations - 1) // 2
    judged = np.diff(votes.doc_starts) / np.maximum(n_annotations, 1)  # classes per annotation
    order = np.random.default_rng(seed).permutation(votes.n_docs)
    kept = order[np.cumsum((n_pairs * judged)[order]) <= _MAX_COMPARISONS]
    kept = kept[n_pairs[kept] > 0]
    return votes if len(kept) == votes.n_docs else take_votes(votes, np.sort(kept))


def _starts_of_annotations(votes: Votes) -> NDArray[np.bool_]:
    """(votes,): whether a vote is the first of its annotator on its document."""
    starts = np.ones(len(votes), dtype=bool)
    starts[1:] = (votes.doc[1:] != votes.doc[:-1]) | (votes.annotator[1:] != votes.annotator[:-1])
    return starts


def _annotations_per_doc(votes: Votes) -> Ints:
    return np.bincount(votes.doc[_starts_of_annotations(votes)], minlength=votes.n_docs)


def _common_documents(votes: VoteRows, min_docs: int, max_pairs: int) -> tuple[Ints, Ints]:
    """Keys (sorted) of the pairs with enough common documents, and how many those are."""
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for _, some in vote_blocks(votes):
        starts = _starts_of_annotations(some)
        doc, annotator = some.doc[starts].astype(np.int64), some.annotator[starts].astype(np.int64)
        for low, high in _rows_of_one_document(doc):
            found, n_found = np.unique(annotator[low] * votes.n_annotators + annotator[high], return_counts=True)
            merged, place = np.unique(np.concatenate((keys, found)), return_inverse=True)
            counts = np.bincount(place, np.concatenate((counts, n_found)), minlength=len(merged)).astype(np.int64)
            keys = merged
    enough = np.flatnonzero(counts >= min_docs)
    if len(enough) > max_pairs:
        enough = np.sort(enough[np.argsort(-counts[enough], kind="stable")[:max_pairs]])
    return keys[enough], counts[enough]


def _rows_of_one_document(doc: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Positions of all pairs of rows of the same document, in chunks of about ``_CHUNK``."""
    chunk: list[tuple[Ints, Ints]] = []
    size = 0
    for distance in range(1, int(np.bincount(doc).max(initial=1))):
        low = np.flatnonzero(doc[distance:] == doc[:-distance])
        chunk.append((low, low + distance))
        size += len(low)
        if size >= _CHUNK:
            yield np.concatenate([part for part, _ in chunk]), np.concatenate([part for _, part in chunk])
            chunk, size = [], 0
    if size:
        yield np.concatenate([part for part, _ in chunk]), np.concatenate([part for _, part in chunk])


def _comparisons(votes: VoteRows, keys: Ints) -> Iterator[tuple[Ints, NDArray[np.int8], NDArray[np.int8]]]:
    """Position of the pair in ``keys``, and the votes (rows, classes) of both annotators, document by document."""
    if not len(keys):
        return
    rows_at_a_time = max(1, _CHUNK // votes.n_classes)
    for _, some in vote_blocks(votes):
        annotations = _annotations(some)
        for low, high in _rows_of_one_document(annotations.doc):
            key = annotations.annotator[low] * votes.n_annotators + annotations.annotator[high]
            pair = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            chosen = np.flatnonzero(keys[pair] == key)
            for start in range(0, len(chosen), rows_at_a_time):
                part = chosen[start : start + rows_at_a_time]
                yield pair[part], annotations.votes[low[part]], annotations.votes[high[part]]


def _annotations(votes: Votes) -> _Annotations:
    starts = _starts_of_annotations(votes)
    row = np.cumsum(starts) - 1
    table = np.full((int(starts.sum()), votes.n_classes), _UNKNOWN, dtype=np.int8)
    table[row, votes.label] = votes.value
    return _Annotations(votes.doc[starts].astype(np.int64), votes.annotator[starts].astype(np.int64), table)
