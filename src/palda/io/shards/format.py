"""Files of a folder of shards: what they are called, what is in them, and whether it fits.

A folder holds ``manifest.json`` (sizes, and the SHA-256 of every other file), ``names.json`` (vocabulary, classes,
annotators), ``words.json`` and ``words.npz`` (what turns new documents into counts, where that is known) and a
``shard-00000.npz`` for every so many documents. Nothing in a file says when it was written: equal data, equal bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation
from palda.errors import DataError
from palda.io.atomic import replacing
from palda.io.shards.npz_maps import file_sha256, write_arrays
from palda.io.versions import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from palda.data import Counts, Strings, Votes

    Arrays = Mapping[str, NDArray[Any]]

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "NAMES",
    "WORDS",
    "WORDS_ARRAYS",
    "Manifest",
    "ShardEntry",
    "check_shard",
    "names_of",
    "packed_strings",
    "read_json",
    "read_manifest",
    "shard_arrays",
    "shard_name",
    "string_array",
    "unpacked_strings",
    "write_json",
    "write_shard",
]

FORMAT_VERSION = 1
MANIFEST, NAMES, WORDS, WORDS_ARRAYS = "manifest.json", "names.json", "words.json", "words.npz"
_FORMAT = "palda-shards"
_FILE_NAME = re.compile(r"shard-\d{5,}\.npz|names\.json|words\.json|words\.npz")
_LARGEST_EXACT = {np.uint8: 1 << 8, np.uint16: 1 << 16}


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says about a shard."""

    file: str
    documents: int
    entries: int
    votes: int
    known: int
    """Labels whose truth is known."""
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Sizes of a folder, and the digests of its files."""

    documents: int
    words: int
    classes: int
    annotators: int
    texts: bool
    """Whether the shards hold the documents' texts."""
    shards: tuple[ShardEntry, ...]
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files beside the shards."""

    def write(self, folder: Path) -> None:
        """The last file of a folder: without it there is nothing to open."""
        head = {"format": _FORMAT, "format_version": FORMAT_VERSION, "palda": package_version("palda")}
        write_json(folder / MANIFEST, head | asdict(self), indent=1)


def shard_name(number: int) -> str:
    """File of a shard, counted from 0."""
    return f"shard-{number:05d}.npz"


def read_manifest(folder: Path) -> Manifest:
    """Manifest of a folder, every number in it checked; anything else is an error of one line."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not a folder of shards" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{what}; palda shard DOCS VOTES -o FOLDER makes one", file=str(folder))
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DataError("is not the manifest of a folder of shards", file=str(path))
    written = content.get("format_version")
    if isinstance(written, int) and written > FORMAT_VERSION:
        raise DataError(
            f"has format version {written}, and this palda reads up to {FORMAT_VERSION}; "
            "upgrade with: pip install --upgrade palda",
            file=str(path),
        )
    try:
        return _manifest(content)
    except (KeyError, TypeError, ValueError) as broken:
        reason = " ".join(str(broken).split())
        raise DataError(f"is damaged ({reason}); write the folder again", file=str(path)) from None


def _manifest(content: dict[str, Any]) -> Manifest:
    sizes = {name: _size(content[name]) for name in ("documents", "words", "classes", "annotators")}
    shards = tuple(
        ShardEntry(**{name: _checked(name, entry[name]) for name in ShardEntry.__dataclass_fields__})
        for entry in content["shards"]
    )
    if sum(shard.documents for shard in shards) != sizes["documents"]:
        raise ValueError("the shards hold another number of documents")
    if content["format_version"] != FORMAT_VERSION or not isinstance(content["texts"], bool):
        raise ValueError("a field is not what it should be")
    files = {_checked("file", name): _checked("sha256", digest) for name, digest in content["files"].items()}
    if NAMES not in files or len({shard.file for shard in shards} | set(files)) != len(shards) + len(files):
        raise ValueError("a file is missing or listed twice")
    return Manifest(**sizes, texts=content["texts"], shards=shards, files=files)


def _checked(name: str, value: Any) -> Any:
    if name == "sha256":
        return str(value)
    if name == "file":
        if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
            raise ValueError(f"there should be no file {validation.shown(value)}")
        return value
    return _size(value)


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{validation.shown(value)} is not a number of things")
    return value


def read_json(path: Path) -> Any:
    """Content of one of the JSON files."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError("is missing; the folder is not complete", file=str(path)) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
    except (ValueError, RecursionError):
        raise DataError("is damaged or cut short: it is not JSON; write the folder again", file=str(path)) from None


def write_json(path: Path, content: Any, indent: int | None = None) -> str:
    """Write a JSON file whole or not at all; its SHA-256."""
    text = json.dumps(content, indent=indent)
    return _written(path, lambda unfinished: unfinished.write_text(text, encoding="ascii"))


def write_shard(path: Path, arrays: Arrays) -> str:
    """Write an npz file whole or not at all; its SHA-256."""
    return _written(path, lambda unfinished: write_arrays(unfinished, arrays))


def _written(target: Path, write: Callable[[Path], object]) -> str:
    """A file takes its name once it is safely on the disk."""
    try:
        with replacing(target, unique=False) as unfinished:
            write(unfinished)
            return file_sha256(unfinished)
    except OSError as refused:
        raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(target)) from refused


# What is in a shard


def shard_arrays(
    counts: Counts, votes: Votes, gold: NDArray[np.int8], texts: Strings | None, n_words: int
) -> dict[str, NDArray[Any]]:
    """Arrays of a shard, each in the smallest type that holds it exactly."""
    arrays = {
        "counts.indptr": counts.indptr.astype(np.int64),
        "counts.indices": counts.indices.astype(_code_type(n_words)),
        "counts.data": _compact(counts.data),
        "votes.starts": votes.doc_starts,
        "votes.annotator": votes.annotator.astype(_code_type(votes.n_annotators)),
        "votes.label": votes.label.astype(_code_type(votes.n_classes)),
        "votes.value": votes.value,
        "votes.abstained": votes.abstained,
    }
    for name, strings in (("ids", votes.doc_ids), ("texts", texts)):
        if strings is not None:
            arrays |= packed_strings(name, strings)
    if (gold >= 0).any():
        arrays["gold"] = gold
    return arrays


def _code_type(size: int) -> np.dtype[Any]:
    """Type that holds positions on an axis of that length."""
    return np.min_scalar_type(max(size - 1, 0))


def _compact(data: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(data).all() or (len(data) and data.min() < 0):
        raise DataError("counts must be finite and not negative")
    for kind, limit in _LARGEST_EXACT.items():
        if not len(data) or (data.max() < limit and (data == np.floor(data)).all()):
            return data.astype(kind)
    floats = data.astype(np.float64)
    with np.errstate(over="ignore"):
        single = floats.astype(np.float32)
    return single if (single == floats).all() else floats


def packed_strings(name: str, strings: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Strings as bytes and where each starts, so that they can be mapped."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{name}.starts": starts, f"{name}.bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


def unpacked_strings(arrays: Arrays, name: str, rows: Iterable[int]) -> list[str]:
    """Some of the strings."""
    starts, letters = arrays[f"{name}.starts"], arrays[f"{name}.bytes"]
    return [letters[starts[row] : starts[row + 1]].tobytes().decode("utf-8", "surrogatepass") for row in rows]


def check_shard(arrays: Arrays, entry: ShardEntry, manifest: Manifest, path: Path) -> None:
    """Complain unless the arrays fit each other and the manifest, so that no position in them leads outside."""
    try:
        _check_shard(arrays, entry, manifest)
    except KeyError as missing:
        raise DataError(f"the array {missing} is missing; write the folder again", file=str(path)) from None
    except ValueError as wrong:
        raise DataError(f"is damaged ({wrong}); write the folder again", file=str(path)) from None


def _check_shard(arrays: Arrays, entry: ShardEntry, manifest: Manifest) -> None:
    n_docs = entry.documents
    starts, words, data = (arrays[f"counts.{part}"] for part in ("indptr", "indices", "data"))
    _check_starts(starts, n_docs, entry.entries, "counts")
    _check_codes(words, entry.entries, manifest.words, "words")
    falls = np.flatnonzero(words[1:] <= words[:-1]) + 1
    if not np.isin(falls, starts).all():
        raise ValueError("the words of a document are out of order")
    if data.shape != (entry.entries,) or not np.isfinite(data).all() or (len(data) and data.min() < 0):
        raise ValueError("the counts are not finite, or negative")
    _check_starts(arrays["votes.starts"], n_docs, entry.votes, "votes")
    _check_codes(arrays["votes.annotator"], entry.votes, manifest.annotators, "annotators")
    _check_codes(arrays["votes.label"], entry.votes, manifest.classes, "classes")
    _check_codes(arrays["votes.value"], entry.votes, 2, "votes")
    abstained = arrays["votes.abstained"]
    if abstained.ndim != 2 or abstained.shape[1] != 2 or (np.diff(abstained[:, 0]) < 0).any():
        raise ValueError("the abstentions are out of order")
    _check_codes(abstained[:, 0], len(abstained), n_docs, "documents")
    _check_codes(abstained[:, 1], len(abstained), manifest.annotators, "annotators")
    for name in ("ids", "texts") if manifest.texts else ("ids",):
        _check_starts(arrays[f"{name}.starts"], n_docs, len(arrays[f"{name}.bytes"]), name)
        if arrays[f"{name}.bytes"].dtype != np.uint8:
            raise ValueError(f"the {name} are no bytes")
    if entry.known:
        gold = arrays["gold"]
        if gold.shape != (n_docs, manifest.classes) or gold.dtype != np.int8 or not np.isin(gold, (-1, 0, 1)).all():
            raise ValueError("the known labels do not fit")


def _check_starts(starts: NDArray[Any], n_docs: int, n_entries: int, name: str) -> None:
    if starts.shape != (n_docs + 1,) or starts.dtype != np.int64 or starts[0] != 0 or starts[-1] != n_entries:
        raise ValueError(f"the {name} do not fit the documents")
    if (np.diff(starts) < 0).any():
        raise ValueError(f"the {name} of a document end before they start")


def _check_codes(codes: NDArray[Any], length: int, size: int, name: str) -> None:
    if codes.shape != (length,) or codes.dtype.kind not in "iu":
        raise ValueError(f"the column of {name} has another length")
    if length and not (codes.min() >= 0 and codes.max() < size):
        raise ValueError(f"one of the {name} is not there")


def names_of(content: Any, name: str, size: int, path: Path) -> Strings:
    """Names of an axis from the file of names."""
    names = content.get(name) if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) != size or not all(isinstance(one, str) for one in names):
        raise DataError(f"is damaged (the {name} do not fit); write the folder again", file=str(path))
    return string_array(names)


def string_array(strings: list[str]) -> Strings:
    """Strings as they are, in a read-only array."""
    array = np.fromiter(strings, dtype=object, count=len(strings))
    array.flags.writeable = False
    return array
