"""Files of a shard folder: their names, their content, and its validation.

A folder holds ``manifest.json`` (sizes, and the SHA-256 of every other file), ``names.json`` (vocabulary, classes,
annotators), ``words.json`` (the fitted transformer that turns new documents into counts, if it is known) and one Arrow
IPC file per shard, ``shard-00000.arrow``. Equal data give equal bytes: no file holds a date.

A shard file is uncompressed, so that it can be memory-mapped, and has one row per document. Its columns are:

========================  ===========================  ==============================================================
``id``                    large_string                 id of the document
``text``                  large_string                 text of the document; only if the folder keeps texts
``words``                 large_list of integers       words of the document, as ascending positions in the vocabulary
``counts``                large_list of numbers        count of each of these words
``vote_annotators``       large_list of integers       annotator of each vote, as positions in the annotators
``vote_classes``          large_list of integers       class of each vote, as positions in the classes
``vote_values``           large_list of int8           1 for present, 0 for absent
``abstained``             large_list of integers       annotators who looked at the document and judged nothing
``gold``                  fixed_size_list of int8      known label per class, -1 if unknown; only if any is known
========================  ===========================  ==============================================================

Integers and counts have the smallest type that holds them exactly. A column of strings that are not valid Unicode (lone
surrogates) has the type large_binary.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation
from palda.errors import DataError
from palda.io.atomic import replacing
from palda.io.versions import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from palda.data import Counts, Strings, Votes

FORMAT_VERSION = 2
MANIFEST, NAMES, WORDS = "manifest.json", "names.json", "words.json"
_FORMAT = "palda-shards"
_FILE_NAME = re.compile(r"shard-\d{5,}\.arrow|names\.json|words\.json")
_EXACT_INTEGERS = {np.uint8: 1 << 8, np.uint16: 1 << 16}


@dataclass(frozen=True)
class ShardEntry:
    """Sizes and digest of one shard, as the manifest lists them."""

    file: str
    documents: int
    entries: int
    votes: int
    known: int
    """Number of gold labels."""
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Sizes of a shard folder, and the digests of its files."""

    documents: int
    words: int
    classes: int
    annotators: int
    texts: bool
    """Whether the shards hold the texts of the documents."""
    shards: tuple[ShardEntry, ...]
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files beside the shards."""

    def write(self, folder: Path) -> None:
        """Write the manifest, which comes last: a folder without it cannot be opened."""
        head = {"format": _FORMAT, "format_version": FORMAT_VERSION, "palda": package_version("palda")}
        write_json(folder / MANIFEST, head | asdict(self), indent=1)


def shard_name(number: int) -> str:
    """File name of a shard, counted from 0."""
    return f"shard-{number:05d}.arrow"


def read_manifest(folder: Path) -> Manifest:
    """Manifest of a folder, with every number in it checked."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not a shard folder" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{what}; palda shard DOCS VOTES -o FOLDER makes one", file=str(folder))
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DataError("is not the manifest of a shard folder", file=str(path))
    written = content.get("format_version")
    if isinstance(written, int) and written > FORMAT_VERSION:
        raise DataError(
            f"has format version {written}, and this palda reads version {FORMAT_VERSION}; "
            "upgrade with: pip install --upgrade palda",
            file=str(path),
        )
    if written == 1:
        raise DataError("was written by palda 0.1 in an older format; run palda shard again", file=str(folder))
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
        raise ValueError("the numbers of documents do not add up")
    if content["format_version"] != FORMAT_VERSION or not isinstance(content["texts"], bool):
        raise ValueError("a field has the wrong type")
    files = {_checked("file", name): _checked("sha256", digest) for name, digest in content["files"].items()}
    if NAMES not in files or len({shard.file for shard in shards} | set(files)) != len(shards) + len(files):
        raise ValueError("a file is missing or listed twice")
    return Manifest(**sizes, texts=content["texts"], shards=shards, files=files)


def _checked(name: str, value: Any) -> Any:
    if name == "sha256":
        return str(value)
    if name == "file":
        if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
            raise ValueError(f"unexpected file name {validation.shown(value)}")
        return value
    return _size(value)


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{validation.shown(value)} is not a size")
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
    """Write a JSON file atomically; returns its SHA-256."""
    text = json.dumps(content, indent=indent)
    return _write_atomically(path, lambda unfinished: unfinished.write_text(text, encoding="ascii"))


def _write_atomically(target: Path, write: Callable[[Path], object]) -> str:
    try:
        with replacing(target, unique=False) as unfinished:
            write(unfinished)
            return file_sha256(unfinished)
    except OSError as refused:
        raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(target)) from refused


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def names_of(content: Any, name: str, size: int, path: Path) -> Strings:
    """Names of one axis from the content of ``names.json``."""
    names = content.get(name) if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) != size or not all(isinstance(one, str) for one in names):
        raise DataError(f"is damaged ({name}: wrong number or type of names); write the folder again", file=str(path))
    return string_array(names)


def string_array(strings: list[str]) -> Strings:
    """Strings in a read-only array, unchanged."""
    array = np.fromiter(strings, dtype=object, count=len(strings))
    array.flags.writeable = False
    return array


# Shard files


def write_shard(
    path: Path, counts: Counts, votes: Votes, gold: NDArray[np.int8], texts: Strings | None
) -> tuple[str, int]:
    """Write a shard file atomically; returns its SHA-256 and the number of gold labels."""
    import pyarrow as pa

    abstained = np.searchsorted(votes.abstained[:, 0], np.arange(votes.n_docs + 1))
    vote_columns = {
        "vote_annotators": votes.annotator.astype(_code_type(votes.n_annotators)),
        "vote_classes": votes.label.astype(_code_type(votes.n_classes)),
        "vote_values": votes.value,
    }
    columns = {"id": _string_column(votes.doc_ids)}
    if texts is not None:
        columns["text"] = _string_column(texts)
    columns["words"] = _list_column(counts.indptr, counts.indices.astype(_code_type(counts.shape[1])))
    columns["counts"] = _list_column(counts.indptr, _compact(counts.data))
    columns |= {name: _list_column(votes.doc_starts, values) for name, values in vote_columns.items()}
    columns["abstained"] = _list_column(abstained, votes.abstained[:, 1].astype(_code_type(votes.n_annotators)))
    n_known = int(np.count_nonzero(gold >= 0))
    if n_known:
        columns["gold"] = pa.FixedSizeListArray.from_arrays(pa.array(gold.ravel()), gold.shape[1])
    batch = pa.RecordBatch.from_pydict(columns)

    def write(unfinished: Path) -> None:
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
            file.write_batch(batch)

    return _write_atomically(path, write), n_known


def _string_column(strings: Iterable[str]) -> pa.Array:
    import pyarrow as pa

    texts = list(strings)
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.large_binary())


def _list_column(starts: NDArray[Any], values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array(starts.astype(np.int64)), pa.array(np.ascontiguousarray(values)))


def _code_type(size: int) -> np.dtype[Any]:
    """Smallest type that holds positions on an axis of that length."""
    return np.min_scalar_type(max(size - 1, 0))


def _compact(data: NDArray[Any]) -> NDArray[Any]:
    """Counts in the smallest type that holds them exactly."""
    if not np.isfinite(data).all() or (len(data) and data.min() < 0):
        raise DataError("counts must be finite and not negative")
    for kind, limit in _EXACT_INTEGERS.items():
        if not len(data) or (data.max() < limit and (data == np.floor(data)).all()):
            return data.astype(kind)
    floats = data.astype(np.float64)
    with np.errstate(over="ignore"):
        single = floats.astype(np.float32)
    return single if (single == floats).all() else floats


@dataclass(frozen=True)
class Shard:
    """Columns of a shard as read-only arrays over the mapped file.

    The entries of document d are ``count_starts[d]:count_starts[d + 1]``; votes and abstentions alike.
    """

    ids: pa.Array
    texts: pa.Array | None
    count_starts: NDArray[np.int64]
    words: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[Any]
    vote_starts: NDArray[np.int64]
    vote_annotators: NDArray[np.unsignedinteger[Any]]
    vote_classes: NDArray[np.unsignedinteger[Any]]
    vote_values: NDArray[np.int8]
    abstained_starts: NDArray[np.int64]
    abstained: NDArray[np.unsignedinteger[Any]]
    gold: NDArray[np.int8] | None

    def strings(self, name: str, rows: slice | NDArray[np.int64]) -> list[str]:
        """Ids (``"ids"``) or texts (``"texts"``) of some documents."""
        import pyarrow as pa

        column = getattr(self, name)
        part = column[rows.start : rows.stop] if isinstance(rows, slice) else column.take(pa.array(rows))
        strings: list[Any] = part.to_pylist()
        if pa.types.is_large_binary(column.type):
            return [text.decode("utf-8", "surrogatepass") for text in strings]
        return strings


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Turn whatever is wrong with a shard file into an error of one line."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError("is missing; the folder is not complete", file=str(path)) from None
    except (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError) as wrong:
        reason = " ".join(str(wrong).split())
        raise DataError(f"is damaged or cut short ({reason}); write the folder again", file=str(path)) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused


def mapped_shard(path: Path) -> Shard:
    """Columns of a shard file, memory-mapped; the map is released with the last reference to one of the arrays."""
    import pyarrow as pa

    with _damage_reported(path), pa.memory_map(str(path)) as source:
        return _columns(_only_batch(source))


def _only_batch(source: pa.NativeFile) -> pa.RecordBatch:
    import pyarrow as pa

    file = pa.ipc.open_file(source)
    if file.num_record_batches != 1:
        raise ValueError(f"{file.num_record_batches} record batches instead of one")
    return file.get_batch(0)


def _columns(batch: pa.RecordBatch) -> Shard:
    """Columns of a record batch; their types are checked here, their content in ``check_shard``."""
    import pyarrow as pa

    batch.validate()  # the sizes of all buffers
    names = batch.schema.names
    for name in names:
        if batch.column(name).null_count:
            raise ValueError(f"column {name!r} has missing values")
    lists = {}
    for name in ("words", "counts", "vote_annotators", "vote_classes", "vote_values", "abstained"):
        column = _column(batch, name)
        if not pa.types.is_large_list(column.type) or column.values.null_count:
            raise ValueError(f"column {name!r} is not a list of numbers")
        lists[name] = (column.offsets.to_numpy(), column.values.to_numpy())
    for group in (("words", "counts"), ("vote_annotators", "vote_classes", "vote_values")):
        if not all(np.array_equal(lists[group[0]][0], lists[name][0]) for name in group):
            raise ValueError(f"the lists of {' and '.join(group)} differ in length")
    gold = None
    if "gold" in names:
        column = batch.column("gold")
        if not pa.types.is_fixed_size_list(column.type):
            raise ValueError("column 'gold' is not a list of labels")
        gold = column.flatten().to_numpy().reshape(len(column), -1)
    return Shard(
        _string_array(batch, "id"), _string_array(batch, "text") if "text" in names else None,
        *lists["words"], lists["counts"][1], *lists["vote_annotators"], lists["vote_classes"][1],
        lists["vote_values"][1], *lists["abstained"], gold,
    )  # fmt: skip


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in batch.schema.names:
        raise ValueError(f"column {name!r} is missing")
    return batch.column(name)


def _string_array(batch: pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    column = _column(batch, name)
    if not (pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)):
        raise ValueError(f"column {name!r} holds no strings")
    return column


def check_shard(path: Path, entry: ShardEntry, manifest: Manifest) -> None:
    """Raise unless all offsets and positions in a shard file are within bounds and its sizes fit the manifest."""
    import pyarrow as pa

    shard = mapped_shard(path)
    with _damage_reported(path):
        for column in (shard.ids, shard.texts) if manifest.texts else (shard.ids,):
            if column is None or len(column) != entry.documents:
                raise ValueError("the number of documents differs from the manifest")
            column.validate(full=True)
            if pa.types.is_large_binary(column.type):
                for text in column.to_pylist():
                    text.decode("utf-8", "surrogatepass")
        _check_starts(shard.count_starts, entry.documents, entry.entries, "words")
        _check_codes(shard.words, entry.entries, manifest.words, "words")
        falls = np.flatnonzero(shard.words[1:] <= shard.words[:-1]) + 1
        if not np.isin(falls, shard.count_starts).all():
            raise ValueError("the words of a document are not in ascending order")
        data = shard.counts
        if data.shape != (entry.entries,) or not np.isfinite(data).all() or (len(data) and data.min() < 0):
            raise ValueError("a count is negative or not finite")
        _check_starts(shard.vote_starts, entry.documents, entry.votes, "votes")
        _check_codes(shard.vote_annotators, entry.votes, manifest.annotators, "vote_annotators")
        _check_codes(shard.vote_classes, entry.votes, manifest.classes, "vote_classes")
        _check_codes(shard.vote_values, entry.votes, 2, "vote_values")
        _check_starts(shard.abstained_starts, entry.documents, len(shard.abstained), "abstained")
        _check_codes(shard.abstained, len(shard.abstained), manifest.annotators, "abstained")
        if entry.known:
            _check_gold(shard.gold, (entry.documents, manifest.classes))


def _check_starts(starts: NDArray[Any], n_docs: int, n_entries: int, name: str) -> None:
    if starts.shape != (n_docs + 1,) or starts[0] != 0 or starts[-1] != n_entries or (np.diff(starts) < 0).any():
        raise ValueError(f"the list offsets of {name!r} are out of bounds")


def _check_codes(codes: NDArray[Any], length: int, size: int, name: str) -> None:
    if codes.shape != (length,) or codes.dtype.kind not in "iu":
        raise ValueError(f"column {name!r} has the wrong length or type")
    if length and not (codes.min() >= 0 and codes.max() < size):
        raise ValueError(f"a value in column {name!r} is out of range")


def _check_gold(gold: NDArray[np.int8] | None, shape: tuple[int, int]) -> None:
    if gold is None or gold.shape != shape or gold.dtype != np.int8 or not np.isin(gold, (-1, 0, 1)).all():
        raise ValueError("column 'gold' has the wrong shape or a value other than -1, 0 and 1")
