"""Embeddings on disk, so that a text is embedded once per model.

The cache of a model is a folder of segments: uncompressed zip files with the hashes of texts and their vectors, each
written atomically. A killed process loses at most the vectors that it has not written yet, a damaged segment is deleted
and its texts are embedded again, and nothing is unpickled. Many small segments are merged into larger ones.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import ArraySpec, SchemaError, check_content, check_headers
from palda.errors import PaldaError
from palda.io.array_archive import READ_ERRORS, ArrayArchive
from palda.io.atomic import TEMPORARY_FILE, FolderLock, replacing
from palda.io.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from numpy.typing import NDArray

    Keys: TypeAlias = NDArray[np.bytes_]
    Vectors: TypeAlias = NDArray[np.float32]

_HASH_BYTES = 16
_SEGMENT_BYTES = 16 << 20
"""Size of a full segment. Reading takes memory for one segment at a time."""
_MAX_SMALL_SEGMENTS = 16
_MAX_UNWRITTEN_SECONDS = 30.0
_STALE_SECONDS = 86_400.0
_PATTERN = "segment-*.npz"
_SCHEMA = {
    "keys": ArraySpec(("texts", _HASH_BYTES), "uint8"),
    "vectors": ArraySpec(("texts", "width"), "float32"),
}


def text_keys(texts: Iterable[str]) -> Keys:
    """Hashes of texts, shape (texts,)."""
    hashes = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest() for text in texts]
    return np.frombuffer(b"".join(hashes), dtype=f"S{_HASH_BYTES}")


class EmbeddingCache:
    """Vectors of texts by hash, for one model.

    Parameters
    ----------
    folder : Path
        Folder of the model's segments; it is created.

    Raises
    ------
    PaldaError
        If the folder cannot be created or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unwritten: list[tuple[Keys, Vectors]] = []
        self._last_write = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._remove_stale()
        except OSError as refused:
            raise self._refusal(refused) from refused

    def find(self, keys: Keys) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        """Positions in ``keys`` and their vectors, segment by segment; ``keys`` are ascending and distinct.

        A position may occur twice, with the same vector.
        """
        width: int | None = None
        for path in self._segments():
            with suppress(FileNotFoundError):  # another process has merged it: its texts are embedded again
                found = self._found(path, keys, width)
                if found is not None:
                    width = found[1].shape[1]
                    yield found

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Store vectors; they are written once there are enough of them, or after half a minute."""
        self._unwritten.append((keys, vectors))
        size = sum(some.nbytes for _, some in self._unwritten)
        if size >= _SEGMENT_BYTES or time.monotonic() - self._last_write > _MAX_UNWRITTEN_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what is not written yet."""
        parts, self._unwritten = self._unwritten, []
        self._last_write = time.monotonic()
        if not parts:
            return
        try:
            self._write_segment(
                np.concatenate([keys for keys, _ in parts]), np.concatenate([some for _, some in parts])
            )
        except OSError as refused:
            raise self._refusal(refused) from refused

    def merge(self) -> None:
        """Merge small segments, if there are many and no other process is doing so."""
        if len(self._small_segments()) > _MAX_SMALL_SEGMENTS:
            with suppress(OSError), FolderLock(self._folder):
                self._merge_segments(self._small_segments())

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob(_PATTERN))

    def _small_segments(self) -> list[Path]:
        return [path for path in self._segments() if path.stat().st_size < _SEGMENT_BYTES // 2]

    def _found(self, path: Path, keys: Keys, width: int | None) -> tuple[NDArray[np.int64], Vectors] | None:
        """Positions in ``keys`` that a segment holds, and their vectors; None if it is damaged or has none of them."""
        try:
            with open_regular(path) as stream:
                archive = ArrayArchive(stream)
                stored = _read_keys(archive, width)
                place = np.minimum(np.searchsorted(keys, stored), len(keys) - 1)
                rows = np.flatnonzero(keys[place] == stored)
                if not len(rows):
                    return None
                vectors = archive.read("vectors")
                check_content("vectors", vectors, _SCHEMA["vectors"], {})
                return place[rows], vectors[rows]
        except FileNotFoundError:
            raise
        except (OSError, MemoryError):
            return None  # it cannot be read now, but it may be whole
        except READ_ERRORS:
            self._delete(path)
            return None

    def _write_segment(self, keys: Keys, vectors: Vectors) -> Path:
        name = blake2b(keys.tobytes(), digest_size=8).hexdigest()
        target = self._folder / f"segment-{name}.npz"
        with suppress(BlockingIOError), replacing(target) as unfinished, unfinished.open("wb") as stream:
            np.savez(stream, keys=keys.view(np.uint8).reshape(-1, _HASH_BYTES), vectors=vectors)
        return target  # another process that is writing it has the same texts

    def _merge_segments(self, paths: list[Path]) -> None:
        group: list[Path] = []
        size = 0
        for path in paths:
            group.append(path)
            size += path.stat().st_size
            if size >= _SEGMENT_BYTES or path == paths[-1]:
                self._merge_group(group)
                group, size = [], 0

    def _merge_group(self, group: list[Path]) -> None:
        parts: list[tuple[Keys, Vectors]] = []
        width: int | None = None
        for path in group:
            try:
                with open_regular(path) as stream:
                    archive = ArrayArchive(stream)
                    parts.append((_read_keys(archive, width), archive.read("vectors")))
                width = parts[-1][1].shape[1]
            except READ_ERRORS:
                self._delete(path)
        if not parts:
            return
        keys, first = np.unique(np.concatenate([keys for keys, _ in parts]), return_index=True)
        merged = self._write_segment(keys, np.concatenate([some for _, some in parts])[first])
        if merged.exists():
            for path in group:
                if path != merged:
                    self._delete(path)

    def _delete(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()

    def _remove_stale(self) -> None:
        """Delete temporary files that processes killed long ago have left."""
        for path in self._folder.iterdir():
            if TEMPORARY_FILE.fullmatch(path.name) and time.time() - path.stat().st_mtime > _STALE_SECONDS:
                self._delete(path)

    def _refusal(self, refused: OSError) -> PaldaError:
        return PaldaError(f"{self._folder}: the cache cannot be written: {refused.strerror or refused}")


def _read_keys(archive: Any, width: int | None) -> Keys:
    """Keys of a segment whose arrays have the expected types and shapes."""
    headers = {name: archive.header(name) for name in archive.array_names}
    sizes = check_headers(headers, _SCHEMA, {} if width is None else {"width": width})
    if not sizes["texts"] or not sizes["width"]:
        raise SchemaError("it is empty")
    keys: Keys = archive.read("keys").view(f"S{_HASH_BYTES}").ravel()
    return keys
