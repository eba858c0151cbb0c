"""Counts and votes of a shard folder, read when they are asked for.

A file is memory-mapped during a call and released after it; what calls return are copies.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from palda.data import Votes, selection
from palda.errors import DataError
from palda.io.shards.format import (
    MANIFEST,
    NAMES,
    feature_axes_of,
    names_of,
    read_json,
    read_manifest,
    string_array,
    traits_of,
)
from palda.io.shards.shard_file import check_shard, mapped_shard, min_file_size

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Counts, Rows, Strings
    from palda.io.shards.format import Manifest
    from palda.io.shards.shard_file import Shard


def open_reader(path: str | os.PathLike[str]) -> ShardReader:
    """Reader of a folder; the same object is returned again while the manifest stays unchanged."""
    folder = Path(path).absolute()
    return _open_reader(folder, _file_stamp(folder / MANIFEST))


@lru_cache(maxsize=8)
def _open_reader(folder: Path, stamp: tuple[int, int, int]) -> ShardReader:
    del stamp  # a changed manifest has another stamp
    return ShardReader(folder, read_manifest(folder))


def _file_stamp(path: Path) -> tuple[int, int, int]:
    """Time of the last change, size and inode of a file; zeros if it cannot be read."""
    try:
        status = path.lstat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


class Piece(NamedTuple):
    """Some documents of one shard, by their positions in it."""

    shard: int
    rows: slice | NDArray[np.int64]


class Selection(NamedTuple):
    """Requested documents, shard by shard in ascending order, and the permutation to the requested order."""

    pieces: list[Piece]
    length: int
    order: NDArray[np.int64] | None
    positions: NDArray[np.int64] | range


class ShardReader:
    """Access to the shards of a folder, shared by its counts and votes; pickled as its path. Thread-safe.

    A shard file is validated when it is first used and again if it changes, so that no position in a damaged file can
    point out of bounds.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.doc_bounds = np.cumsum([0, *(shard.documents for shard in manifest.shards)], dtype=np.int64)
        self._validated: dict[int, tuple[int, int, int]] = {}
        self._sizes_checked = False

    def __len__(self) -> int:
        return self.manifest.documents

    def __reduce__(self) -> tuple[Any, ...]:
        return open_reader, (self.path,)

    @cached_property
    def vocabulary(self) -> Strings:
        """Words, in the order of the columns of counts."""
        return self._names("vocabulary", self.manifest.words)

    @cached_property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self._names("classes", self.manifest.classes)

    @cached_property
    def annotators(self) -> Strings:
        """Names of the annotators."""
        return self._names("annotators", self.manifest.annotators)

    @cached_property
    def annotator_traits(self) -> tuple[Strings, Strings]:
        """Kinds and families of the annotators; of length 0 if they are not known."""
        path = self.path / NAMES
        content = read_json(path)
        kinds = traits_of(content, "annotator_kinds", self.manifest.annotators, path)
        return kinds, traits_of(content, "annotator_families", self.manifest.annotators, path)

    @cached_property
    def feature_axes(self) -> tuple[Strings, tuple[Strings | None, ...]] | None:
        """Names and categories of the features; None if the folder has no features."""
        if not self.manifest.features:
            return None
        path = self.path / NAMES
        return feature_axes_of(read_json(path), self.manifest.features, path)

    def check_sizes(self) -> None:
        """Raise unless every file is large enough for the sizes in the manifest, before memory is taken for them."""
        if self._sizes_checked:
            return
        manifest = self.manifest
        smallest = {shard.file: min_file_size(shard, manifest.features) for shard in manifest.shards}
        smallest[NAMES] = 2 * (manifest.words + manifest.classes + manifest.annotators + manifest.features)
        for name, n_bytes in smallest.items():
            path = self.path / name
            if not path.exists():
                raise DataError("is missing; the folder is not complete", file=str(path))
            if path.stat().st_size < n_bytes:
                raise DataError("is damaged or cut short (it is too small); write the folder again", file=str(path))
        self._sizes_checked = True

    def _names(self, axis: str, size: int) -> Strings:
        path = self.path / NAMES
        return names_of(read_json(path), axis, size, path)

    def shard(self, number: int) -> Shard:
        """Columns of a shard, memory-mapped; keep copies, never the arrays themselves."""
        entry = self.manifest.shards[number]
        path = self.path / entry.file
        stamp = _file_stamp(path)
        if self._validated.get(number) != stamp:
            check_shard(path, entry, self.manifest, self.feature_axes)
            self._validated[number] = stamp
        return mapped_shard(path)

    def strings(self, name: str, rows: Rows) -> Strings:
        """Ids (``"ids"``) or texts (``"texts"``) of some documents."""
        chosen = self.selected(rows)
        strings = string_array(
            [text for piece in chosen.pieces for text in self.shard(piece.shard).strings(name, piece.rows)]
        )
        return strings if chosen.order is None else string_array(strings[chosen.order].tolist())

    def selected(self, rows: Rows) -> Selection:
        """Location of documents that are requested by a slice, by positions or by booleans."""
        self.check_sizes()
        chosen = selection(rows)
        if isinstance(chosen, slice) and chosen.step in (None, 1):
            start, stop, _ = chosen.indices(len(self))
            stop = max(start, stop)
            return Selection(list(self._range_pieces(start, stop)), stop - start, None, range(start, stop))
        positions = np.arange(len(self))[chosen]
        order = None
        if (np.diff(positions) < 0).any():
            ascending = np.argsort(positions, kind="stable")
            order = np.empty_like(ascending)
            order[ascending] = np.arange(len(ascending))
            positions = positions[ascending]
        return Selection(list(self._array_pieces(positions)), len(positions), order, positions)

    def _range_pieces(self, start: int, stop: int) -> Iterator[Piece]:
        first = int(np.searchsorted(self.doc_bounds, start, side="right")) - 1
        for shard in range(first, len(self.manifest.shards)):
            low, high = (int(bound) for bound in self.doc_bounds[shard : shard + 2])
            if low >= stop:
                break
            if max(start, low) < min(stop, high):
                yield Piece(shard, slice(max(start, low) - low, min(stop, high) - low))

    def _array_pieces(self, positions: NDArray[np.int64]) -> Iterator[Piece]:
        cuts = np.searchsorted(positions, self.doc_bounds)
        for shard in np.flatnonzero(np.diff(cuts)):
            yield Piece(int(shard), positions[cuts[shard] : cuts[shard + 1]] - self.doc_bounds[shard])

    def all_starts(self, name: str) -> NDArray[np.int64]:
        """``count_starts`` or ``vote_starts`` of all shards as one array over all documents."""
        self.check_sizes()
        starts = np.zeros(len(self) + 1, dtype=np.int64)
        before = 0
        for shard, (low, high) in enumerate(zip(self.doc_bounds[:-1], self.doc_bounds[1:], strict=True)):
            own = getattr(self.shard(shard), name)
            starts[low + 1 : high + 1] = own[1:] + before
            before += int(own[-1])
        return starts


def _entries_of(
    starts: NDArray[np.int64], rows: slice | NDArray[np.int64]
) -> tuple[slice | NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the entries of some rows, and the number of entries per row."""
    if isinstance(rows, slice):
        part = starts[rows.start : rows.stop + 1]
        return slice(int(part[0]), int(part[-1])), np.diff(part)
    first, lengths = starts[rows], starts[rows + 1] - starts[rows]
    run = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return run + np.arange(len(run)), lengths


class MappedCounts:
    """Counts (documents, words) on disk; rows are read when they are asked for."""

    def __init__(self, reader: ShardReader) -> None:
        self.reader = reader

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedCounts, (self.reader,)

    def __repr__(self) -> str:
        n_docs, n_words = self.shape
        return f"MappedCounts({n_docs:,} x {n_words:,}, {self.nnz:,} entries in {str(self.reader.path)!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of words."""
        return self.reader.manifest.documents, self.reader.manifest.words

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return sum(shard.entries for shard in self.reader.manifest.shards)

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """(documents + 1,): number of entries before each document, and in total."""
        return self.reader.all_starts("count_starts")

    def __getitem__(self, rows: Rows) -> Counts:
        """Rows as a matrix in memory: 64-bit floats, columns sorted."""
        chosen = self.reader.selected(rows)
        lengths, words, data = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
        for number, within in chosen.pieces:
            shard = self.reader.shard(number)
            entries, of_rows = _entries_of(shard.count_starts, within)
            lengths.append(of_rows)
            words.append(shard.words[entries].astype(np.int32))
            data.append(shard.counts[entries].astype(np.float64))
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        kind = np.int32 if starts[-1] <= np.iinfo(np.int32).max else np.int64  # SciPy makes one type of both
        parts = (np.concatenate(data), np.concatenate(words), starts.astype(kind))
        matrix: Counts = sparse.csr_array(parts, shape=(chosen.length, self.shape[1]))
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix if chosen.order is None else sparse.csr_array(matrix[chosen.order])


class _OptionalColumns:
    """Probabilities and times of votes, from shards that may lack them."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {
            "vote_probabilities": [np.empty(0, np.float32)],
            "vote_times": [np.empty(0, np.float64)],
        }
        self._found: set[str] = set()

    def add(self, shard: Shard, votes: slice | NDArray[np.int64], n_votes: int) -> None:
        """Add some votes of a shard."""
        for name, parts in self._parts.items():
            column = getattr(shard, name)
            if column is not None:
                self._found.add(name)
            parts.append(np.full(n_votes, np.nan, parts[0].dtype) if column is None else column[votes])

    def arrays(self) -> list[NDArray[Any]]:
        """One array per column; of length 0 if no shard has it."""
        return [np.concatenate(parts if name in self._found else parts[:1]) for name, parts in self._parts.items()]


class MappedVotes:
    """Votes on disk; those on some documents are read as ``Votes`` when they are asked for."""

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
        """Number of documents, including those without votes."""
        return self.reader.manifest.documents

    @property
    def n_annotators(self) -> int:
        """Number of annotators, including those without votes."""
        return self.reader.manifest.annotators

    @property
    def n_classes(self) -> int:
        """Number of classes, including those without votes."""
        return self.reader.manifest.classes

    @property
    def annotators(self) -> Strings:
        """Names of the annotators."""
        return self.reader.annotators

    @property
    def annotator_kinds(self) -> Strings:
        """Kinds of the annotators; of length 0 if they are not known."""
        return self.reader.annotator_traits[0]

    @property
    def annotator_families(self) -> Strings:
        """Families of the annotators; of length 0 if they are not known."""
        return self.reader.annotator_traits[1]

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.reader.classes

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents, read anew each time."""
        return self.reader.strings("ids", slice(None))

    @cached_property
    def doc_starts(self) -> NDArray[np.int64]:
        """(documents + 1,): number of votes before each document, and in total."""
        return self.reader.all_starts("vote_starts")

    def take(self, rows: Rows, *, named: bool = False) -> Votes:
        """Votes on some documents, in memory.

        Reading ids costs more than reading the votes, so ``doc_ids`` are positions in the folder unless ``named``.
        """
        chosen = self.reader.selected(rows)
        positions = np.asarray(chosen.positions, dtype=np.int64)
        if not isinstance(chosen.positions, range) and (np.diff(positions) == 0).any():
            raise DataError("a document was requested twice; votes on it would count twice")
        kinds = (np.int32, np.int32, np.int32, np.int8)
        columns: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in kinds]
        optional = _OptionalColumns()
        abstained = [np.empty((0, 2), np.int32)]
        before = 0
        for number, within in chosen.pieces:
            shard = self.reader.shard(number)
            votes, lengths = _entries_of(shard.vote_starts, within)
            docs = np.arange(before, before + len(lengths), dtype=np.int32)
            columns[0].append(np.repeat(docs, lengths))
            columns[1].append(shard.vote_annotators[votes].astype(np.int32))
            columns[2].append(shard.vote_classes[votes].astype(np.int32))
            columns[3].append(shard.vote_values[votes].astype(np.int8))
            optional.add(shard, votes, len(columns[0][-1]))
            looks, lengths = _entries_of(shard.abstained_starts, within)
            abstained.append(np.column_stack((np.repeat(docs, lengths), shard.abstained[looks].astype(np.int32))))
            before += len(docs)
        ids: Any = self.reader.strings("ids", positions) if named else positions
        parts = [np.concatenate(column) for column in columns]
        found = Votes.assembled(
            *parts, ids, self.annotators, self.classes, np.concatenate(abstained), *optional.arrays(),
            *self.reader.annotator_traits,
        )  # fmt: skip
        return found if chosen.order is None else found.take(chosen.order)
