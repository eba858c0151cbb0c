"""Access to the shards of a folder: which lie where, mapped one at a time."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import selection
from palda.errors import DataError
from palda.io.shards.format import (
    MANIFEST,
    NAMES,
    check_shard,
    names_of,
    read_json,
    read_manifest,
    string_array,
    unpacked_strings,
)
from palda.io.shards.npz_maps import array_places, mapped_arrays

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from palda.data import Rows, Strings
    from palda.io.shards.format import Manifest
    from palda.io.shards.npz_maps import Place

__all__ = ["Piece", "Selection", "ShardReader", "entries_of", "open_reader"]


def open_reader(path: str | os.PathLike[str]) -> ShardReader:
    """Reader of a folder; opening one again gives the same object while the folder stays as it is."""
    folder = Path(path).absolute()
    try:
        status = (folder / MANIFEST).stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        stamp = (0, 0, 0)
    return _opened(folder, stamp)


@lru_cache(maxsize=8)
def _opened(folder: Path, stamp: tuple[int, int, int]) -> ShardReader:
    del stamp  # tells the cache of a folder that was written anew
    return ShardReader(folder, read_manifest(folder))


class Piece(NamedTuple):
    """Some documents of one shard, by their positions in it."""

    shard: int
    rows: slice | NDArray[np.int64]


class Selection(NamedTuple):
    """Documents asked for, shard by shard in ascending order, and how to bring them into the order asked for."""

    pieces: list[Piece]
    length: int
    order: NDArray[np.int64] | None
    positions: NDArray[np.int64] | range


class ShardReader:
    """What everything that reads a folder shares; pickled as nothing but the path. Threads may share one.

    A shard is looked over when it is first used, so that no position in a damaged file leads outside.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.doc_bounds = np.cumsum([0, *(shard.documents for shard in manifest.shards)], dtype=np.int64)
        self._places: dict[int, dict[str, Place]] = {}

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

    def _names(self, axis: str, size: int) -> Strings:
        path = self.path / NAMES
        return names_of(read_json(path), axis, size, path)

    def strings(self, name: str, rows: Rows) -> Strings:
        """Ids or texts of some documents."""
        chosen = self.selected(rows)
        found: list[str] = []
        for shard, within in chosen.pieces:
            n_docs = self.manifest.shards[shard].documents
            try:
                with self.mapped(shard) as arrays:
                    found += unpacked_strings(arrays, name, np.arange(n_docs)[within].tolist())
            except UnicodeDecodeError:
                path = self.path / self.manifest.shards[shard].file
                raise DataError(
                    f"is damaged (the {name} are no text); write the folder again", file=str(path)
                ) from None
        strings = string_array(found)
        return strings if chosen.order is None else string_array(strings[chosen.order].tolist())

    def selected(self, rows: Rows) -> Selection:
        """Where documents lie that are asked for by a slice, by positions or by booleans."""
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

    def mapped(self, shard: int) -> AbstractContextManager[dict[str, NDArray[Any]]]:
        """Arrays of a shard, for the time of a block; keep copies, never the arrays themselves."""
        return mapped_arrays(self.path / self.manifest.shards[shard].file, self.places(shard))

    def places(self, shard: int) -> dict[str, Place]:
        """Where the arrays of a shard lie; the first time, its whole content is looked over."""
        known = self._places.get(shard)
        if known is None:
            entry = self.manifest.shards[shard]
            path = self.path / entry.file
            known = array_places(path)
            with mapped_arrays(path, known) as arrays:
                check_shard(arrays, entry, self.manifest, path)
            self._places[shard] = known
        return known

    def joined_starts(self, name: str) -> NDArray[np.int64]:
        """Starts of all shards as one array over all documents."""
        starts = np.zeros(len(self) + 1, dtype=np.int64)
        before = 0
        for shard, (low, high) in enumerate(zip(self.doc_bounds[:-1], self.doc_bounds[1:], strict=True)):
            with self.mapped(shard) as arrays:
                starts[low + 1 : high + 1] = arrays[name][1:] + before
                before += int(arrays[name][-1])
        return starts


def entries_of(
    starts: NDArray[np.int64], rows: slice | NDArray[np.int64]
) -> tuple[slice | NDArray[np.int64], NDArray[np.int64]]:
    """Entries of some rows, and how many each row has."""
    if isinstance(rows, slice):
        part = starts[rows.start : rows.stop + 1]
        return slice(int(part[0]), int(part[-1])), np.diff(part)
    first, lengths = starts[rows], starts[rows + 1] - starts[rows]
    run = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return run + np.arange(len(run)), lengths
