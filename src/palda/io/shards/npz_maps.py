"""npz files that are mapped rather than read: arrays lie in the file as they lie in memory.

The files are ordinary npz archives without compression. Reading one looks at the directory and the headers only,
checks every number in them against the size of the file, and never unpickles anything.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import struct
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Place", "array_places", "file_sha256", "mapped_arrays", "write_arrays"]

_ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ZIP64_EXTRA = 20  # bytes that zipfile adds to the header of a member that may be large
_PADDING_ID = 0xD935  # what zip files that align their members call the padding
_LONGEST_HEADER = 4096  # of an array; ours take 128 bytes
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_START = struct.Struct("<8sH")  # the magic and how long the text is that follows
_NPY_TEXT = re.compile(rb"\{'descr': '([<|][iuf][1248])', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n")


class Place(NamedTuple):
    """Where in a file an array lies, and of what kind it is."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an npz file whose arrays start at multiples of 64 bytes; equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed
            start = _position(archive) + _LOCAL_HEADER.size + len(info.filename) + _ZIP64_EXTRA + 4
            padding = -start % _ALIGNMENT
            info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)


def _position(archive: zipfile.ZipFile) -> int:
    return 0 if archive.fp is None else archive.fp.tell()


def file_sha256(path: Path) -> str:
    """Digest of a file's bytes, read some at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def array_places(path: Path) -> dict[str, Place]:
    """Where the arrays of a file lie; anything that does not fit its size is an error of one line."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return {info.filename.removesuffix(".npy"): _place(file, info, size) for info in archive.infolist()}
    except FileNotFoundError:
        raise DataError("is missing; the folder is not complete", file=str(path)) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, TypeError) as broken:
        reason = " ".join(str(broken).split())
        raise DataError(f"is damaged or cut short ({reason}); write the folder again", file=str(path)) from None


def _place(file: Any, info: zipfile.ZipInfo, size: int) -> Place:
    """Place of a member, whose local header says where its bytes start."""
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
        raise ValueError(f"{info.filename} is packed, so that it cannot be mapped")
    file.seek(info.header_offset)
    header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if header[0] != b"PK\x03\x04":
        raise ValueError(f"{info.filename} does not start where the directory says")
    start = info.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1]
    if start + info.file_size > size:
        raise ValueError(f"{info.filename} ends after the end of the file")
    file.seek(start)
    dtype, shape, header_length = _npy_header(file.read(min(info.file_size, _LONGEST_HEADER)), info.filename)
    n_bytes = dtype.itemsize
    for length in shape:
        n_bytes *= length
    if header_length + n_bytes != info.file_size:
        raise ValueError(f"{info.filename} has another length than its header says")
    return Place(start + header_length, dtype, shape)


def _npy_header(head: bytes, name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, shape and length of the header of an array of plain numbers; what else NumPy may write is refused."""
    length = _NPY_START.size + (_NPY_START.unpack_from(head)[1] if len(head) >= _NPY_START.size else 0)
    found = _NPY_TEXT.fullmatch(head, _NPY_START.size, length)
    if not head.startswith(_NPY_MAGIC) or found is None:
        raise ValueError(f"{name} is not an array of plain numbers")
    shape = tuple(int(size) for size in found[2].split(b",") if size.strip())
    return np.dtype(found[1].decode()), shape, length


@contextmanager
def mapped_arrays(path: Path, places: Mapping[str, Place]) -> Iterator[dict[str, NDArray[Any]]]:
    """Read-only arrays over the mapped file, which is let go at the end: keep copies, never the arrays themselves."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if any(_end(place) > size for place in places.values()):
                raise DataError("was cut short while it was in use; write the folder again", file=str(path))
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise DataError("is missing; the folder is not complete", file=str(path)) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
    # The arrays hold on to the map; it goes with the last of them, which is at the end of the block unless one escapes.
    yield {name: _array(view, place) for name, place in places.items()}


def _end(place: Place) -> int:
    return place.offset + place.dtype.itemsize * int(np.prod(place.shape, dtype=np.int64))


def _array(view: mmap.mmap, place: Place) -> NDArray[Any]:
    return np.ndarray(place.shape, place.dtype, view, place.offset)
