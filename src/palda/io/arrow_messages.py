"""Messages of the Arrow IPC format: whether they are compressed, and how much memory they take when they are unpacked.

A message is a flatbuffer that Arrow has verified, followed by a body of buffers. A compressed buffer starts with its
size in memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"ARROW1"
"""First and last bytes of an Arrow file."""

N_MAGIC = 8
"""Bytes before the first message."""

_HEADER, _DICTIONARY_DATA = 2, 1  # numbers of fields in the tables Message and DictionaryBatch
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # numbers of fields in the table RecordBatch


def is_compressed(metadata: pa.Buffer) -> bool:
    """Whether a message that holds a record batch says how its buffers are compressed."""
    raw = metadata.to_pybytes()
    batch = _table(raw, struct.unpack_from("<I", raw, 0)[0], _HEADER)
    return _field(raw, batch, _COMPRESSION) != batch


def batch_sizes(message: Any) -> tuple[int, int]:
    """Rows of a record batch or a batch of dictionary entries, and bytes that it takes in memory."""
    raw = message.metadata.to_pybytes()
    batch = _table(raw, struct.unpack_from("<I", raw, 0)[0], _HEADER)
    if message.type == "dictionary":
        batch = _table(raw, batch, _DICTIONARY_DATA)
    place = _field(raw, batch, _LENGTH)
    n_rows = 0 if place == batch else int(struct.unpack_from("<q", raw, place)[0])
    if _field(raw, batch, _COMPRESSION) == batch:
        return n_rows, message.body.size
    return n_rows, sum(_unpacked_size(message.body, *buffer) for buffer in _buffers(raw, batch))


def _buffers(raw: bytes, batch: int) -> list[tuple[int, int]]:
    """Offset and length of each buffer in the body."""
    place = _field(raw, batch, _BUFFERS)
    if place == batch:
        return []
    vector = place + struct.unpack_from("<I", raw, place)[0]
    (length,) = struct.unpack_from("<I", raw, vector)
    return [struct.unpack_from("<qq", raw, vector + 4 + 16 * number) for number in range(length)]


def _unpacked_size(body: pa.Buffer, offset: int, length: int) -> int:
    if not 0 <= offset <= body.size or length < 0:
        raise ValueError("a buffer is out of bounds")
    if not length:
        return 0
    (size,) = struct.unpack_from("<q", body.slice(offset, min(8, body.size - offset)).to_pybytes())
    return length if size == -1 else int(size)  # -1: this buffer is not compressed


def _table(raw: bytes, table: int, number: int) -> int:
    """Position of the table that a field of another table points to."""
    place = _field(raw, table, number)
    if place == table:
        raise ValueError("a message has no content")
    return int(place + struct.unpack_from("<I", raw, place)[0])


def _field(raw: bytes, table: int, number: int) -> int:
    """Position of a field of a flatbuffer table; that of the table itself if it has no such field."""
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    (n_bytes,) = struct.unpack_from("<H", raw, vtable)
    place = 4 + 2 * number
    return int(table + (struct.unpack_from("<H", raw, vtable + place)[0] if place < n_bytes else 0))
