"""Reading of shard files: columns as arrays over a memory-mapped file, and the schema they match.

A file is opened as a regular file, never through a symbolic link. Compressed files are refused: reading them would take
memory that their size does not show.
"""

from __future__ import annotations

import mmap
import struct
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import ArraySpec, FeatureTable, check_arrays
from palda.errors import DataError, reason_of
from palda.io.arrow_messages import MAGIC, N_MAGIC, is_compressed
from palda.io.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.io.shards.format import Manifest, ShardEntry

    FeatureAxes = tuple[Strings, tuple[Strings | None, ...]]

_LISTS = ("words", "counts", "vote_annotators", "vote_classes", "vote_values", "abstained")
_OPTIONAL_LISTS = ("vote_probabilities", "vote_times")
_FIXED_LISTS = {"gold": "labels", "features": "numbers"}
_STARTS = ArraySpec((("documents", "one more"),), "int64", low=0, ascending=True)

SHARD_ARRAYS = {
    "count_starts": _STARTS,
    "words": ArraySpec(("entries",), "integer", low=0, below="words"),
    "counts": ArraySpec(("entries",), "number", low=0),
    "vote_starts": _STARTS,
    "vote_annotators": ArraySpec(("votes",), "integer", low=0, below="annotators"),
    "vote_classes": ArraySpec(("votes",), "integer", low=0, below="classes"),
    "vote_values": ArraySpec(("votes",), "int8", low=0, high=1),
    "vote_probabilities": ArraySpec(("votes",), "float32", low=0, high=1, nan=True, group="probabilities"),
    "vote_times": ArraySpec(("votes",), "float64", nan=True, group="times"),
    "abstained_starts": _STARTS,
    "abstained": ArraySpec(("abstentions",), "integer", low=0, below="annotators"),
    "gold": ArraySpec(("documents", "classes"), "int8", low=-1, high=1, group="gold"),
    "features": ArraySpec(("documents", "features"), "number", nan=True, group="features"),
}
"""Schema of the arrays of a shard; sizes are those of the manifest."""


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
    vote_probabilities: NDArray[np.float32] | None
    vote_times: NDArray[np.float64] | None
    features: NDArray[np.floating[Any]] | None

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
    except (
        pa.ArrowException,
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
        AttributeError,
        struct.error,
    ) as wrong:
        raise DataError(
            f"is damaged or cut short ({reason_of(wrong)}); write the folder again", file=str(path)
        ) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused


def mapped_shard(path: Path) -> Shard:
    """Columns of a shard file, memory-mapped; the map is released with the last reference to one of the arrays."""
    import pyarrow as pa

    with _damage_reported(path), open_regular(path) as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _columns(_only_batch(pa.py_buffer(mapped)))


def _only_batch(content: pa.Buffer) -> pa.RecordBatch:
    """The record batch of a file that has a schema, one uncompressed record batch, and nothing else."""
    import pyarrow as pa

    if content[: len(MAGIC)].to_pybytes() != MAGIC or content[-len(MAGIC) :].to_pybytes() != MAGIC:
        raise ValueError("not a whole Arrow file")
    messages = pa.ipc.MessageReader.open_stream(content.slice(N_MAGIC))
    try:
        first, second = messages.read_next_message(), messages.read_next_message()
    except StopIteration:
        raise ValueError("it has no record batch") from None
    if (first.type, second.type) != ("schema", "record batch"):
        raise ValueError(f"{first.type} and {second.type} instead of a schema and a record batch")
    if is_compressed(second.metadata):
        raise ValueError("it is compressed, and shard files never are")
    schema = pa.ipc.read_schema(first)
    _check_types(schema)
    return pa.ipc.read_record_batch(second, schema)


def _check_types(schema: pa.Schema) -> None:
    """Raise unless the schema has the columns of a shard, each once and of the right type."""
    import pyarrow as pa

    names = schema.names
    for name in ("id", *_LISTS):
        if name not in names:
            raise ValueError(f"column {name!r} is missing")
    if len(set(names)) < len(names) or not set(names) <= {"id", "text", *_FIXED_LISTS, *_LISTS, *_OPTIONAL_LISTS}:
        raise ValueError("there is a column that does not belong there")
    for name in {"id", "text"} & set(names):
        kind = schema.field(name).type
        if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
            raise ValueError(f"column {name!r} holds no strings")
    for name in (*_LISTS, *(set(_OPTIONAL_LISTS) & set(names))):
        kind = schema.field(name).type
        if not pa.types.is_large_list(kind) or not _is_number(kind.value_type):
            raise ValueError(f"column {name!r} is not a list of numbers")
    for name in set(_FIXED_LISTS) & set(names):
        kind = schema.field(name).type
        if not pa.types.is_fixed_size_list(kind) or not _is_number(kind.value_type):
            raise ValueError(f"column {name!r} is not a list of {_FIXED_LISTS[name]}")


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _columns(batch: pa.RecordBatch) -> Shard:
    """Columns of a record batch; their content is checked in ``check_shard``."""
    batch.validate()  # the sizes of all buffers
    names = batch.schema.names
    present = [name for name in (*_LISTS, *_OPTIONAL_LISTS) if name in names]
    for name in names:
        column = batch.column(name)
        if column.null_count or (name in present and column.values.null_count):
            raise ValueError(f"column {name!r} has missing values")
    lists = {name: (batch.column(name).offsets.to_numpy(), batch.column(name).values.to_numpy()) for name in present}
    optional = [name for name in _OPTIONAL_LISTS if name in names]
    for group in (("words", "counts"), ("vote_annotators", "vote_classes", "vote_values", *optional)):
        if not all(np.array_equal(lists[group[0]][0], lists[name][0]) for name in group):
            raise ValueError(f"the lists of {' and '.join(group)} differ in length")
    return Shard(
        batch.column("id"), batch.column("text") if "text" in names else None,
        *lists["words"], lists["counts"][1], *lists["vote_annotators"], lists["vote_classes"][1],
        lists["vote_values"][1], *lists["abstained"], _fixed_lists(batch, "gold"),
        *(lists[name][1] if name in lists else None for name in _OPTIONAL_LISTS), *[_fixed_lists(batch, "features")],
    )  # fmt: skip


def _fixed_lists(batch: pa.RecordBatch, name: str) -> NDArray[Any] | None:
    """Lists of equal length as one array (rows, length); None if there is no such column."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    values = column.flatten()
    if values.null_count:
        raise ValueError(f"column {name!r} has missing values")
    table: NDArray[Any] = values.to_numpy().reshape(len(column), column.type.list_size)
    return table


def check_shard(path: Path, entry: ShardEntry, manifest: Manifest, feature_axes: FeatureAxes | None) -> None:
    """Raise unless a shard file matches ``SHARD_ARRAYS`` and its sizes fit the manifest.

    ``feature_axes`` are names and categories of the features, if the folder has features.
    """
    shard = mapped_shard(path)
    with _damage_reported(path):
        _check_strings(shard, entry, has_texts=manifest.texts)
        stored = ((spec.name, getattr(shard, spec.name)) for spec in fields(shard) if spec.name in SHARD_ARRAYS)
        arrays = {name: array for name, array in stored if array is not None}
        sizes = {name: getattr(manifest, name) for name in ("words", "classes", "annotators", "features")}
        sizes |= {name: getattr(entry, name) for name in ("documents", "entries", "votes")}
        check_arrays(arrays, SHARD_ARRAYS, sizes | {"one more": 1})
        for starts, values in (
            ("count_starts", "words"),
            ("vote_starts", "vote_values"),
            ("abstained_starts", "abstained"),
        ):
            if arrays[starts][0] != 0 or arrays[starts][-1] != len(arrays[values]):
                raise ValueError(f"the list offsets of {values!r} are out of bounds")
        falls = np.flatnonzero(shard.words[1:] <= shard.words[:-1]) + 1
        if not np.isin(falls, shard.count_starts).all():
            raise ValueError("the words of a document are not in ascending order")
        n_known = 0 if shard.gold is None else int(np.count_nonzero(shard.gold >= 0))
        if n_known != entry.known:
            raise ValueError("the number of gold labels differs from the manifest")
        found = "" if shard.features is None else str(shard.features.dtype)
        if found != manifest.feature_type:
            raise ValueError("it has other features than the manifest says")
        if shard.features is not None and feature_axes is not None:
            FeatureTable(shard.features, *feature_axes).check_finite()


def _check_strings(shard: Shard, entry: ShardEntry, *, has_texts: bool) -> None:
    import pyarrow as pa

    if (shard.texts is not None) != has_texts:
        raise ValueError("it has texts, or lacks them, against the manifest")
    for column in (shard.ids,) if shard.texts is None else (shard.ids, shard.texts):
        if len(column) != entry.documents:
            raise ValueError("the number of documents differs from the manifest")
        column.validate(full=True)
        if pa.types.is_large_binary(column.type):
            for text in column.to_pylist():
                text.decode("utf-8", "surrogatepass")


def min_file_size(entry: ShardEntry, n_features: int) -> int:
    """Bytes that a shard file with these sizes has at least; a smaller file cannot hold what the manifest says."""
    return (8 * (len(_LISTS) + 1) + 4 * n_features) * entry.documents + 2 * entry.entries + 3 * entry.votes
