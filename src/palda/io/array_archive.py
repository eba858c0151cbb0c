"""Zip files of NumPy arrays from unknown sources: sizes are checked before memory is taken, and nothing is unpickled.

What reading may take is limited by the size of the file: ``MIN_ALLOWANCE`` bytes plus ``MAX_EXPANSION`` times that
size. A few kilobytes of compressed zeros therefore cannot fill the memory.
"""

from __future__ import annotations

import hashlib
import os
import struct
import warnings
import zipfile
import zlib
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from palda.data import Header, SchemaError, check_content, check_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Schema

MIN_ALLOWANCE = 64 << 20
MAX_EXPANSION = 100
"""Zip files may expand to ``MIN_ALLOWANCE`` bytes plus ``MAX_EXPANSION`` times their size."""

MIN_JSON_ALLOWANCE = 4 << 20
MAX_JSON_EXPANSION = 25
"""The same for JSON text, which takes more memory when it is parsed."""

READ_ERRORS = (
    OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    LookupError, TypeError, OverflowError, MemoryError, SyntaxError,
)  # fmt: skip
"""What reading a damaged archive may raise."""

_SUFFIX = ".npy"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_CHUNK = 1 << 22
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def allowance(file_size: int) -> int:
    """Bytes that a zip file of that size may expand to."""
    return MIN_ALLOWANCE + MAX_EXPANSION * file_size


class ArrayArchive:
    """An open zip file of arrays, and perhaps one JSON member.

    Parameters
    ----------
    stream
        The file.

    Raises
    ------
    SchemaError
        If members are encrypted, compressed in an unusual way, listed twice, or too large for the file.
    """

    def __init__(self, stream: BinaryIO) -> None:
        file_size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        self._zip = zipfile.ZipFile(stream)
        self.members = {info.filename: info for info in self._zip.infolist()}
        if len(self.members) != len(self._zip.infolist()):
            raise SchemaError("a member is listed twice")
        for info in self.members.values():
            if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
                raise SchemaError(f"the member {info.filename[:60]!r} is encrypted or compressed in an unusual way")
        if sum(info.file_size for info in self.members.values()) > allowance(file_size):
            raise SchemaError("it would expand to far more than its size")

    def json_text(self, name: str) -> bytes:
        """Text of a JSON member; ``KeyError`` if it is missing."""
        info = self.members[name]
        if info.file_size > MIN_JSON_ALLOWANCE + MAX_JSON_EXPANSION * info.compress_size:
            raise SchemaError(f"{name} would expand to far more than its size")
        return self._zip.read(info)

    @property
    def array_names(self) -> list[str]:
        """Names of all members that are arrays."""
        return [name.removesuffix(_SUFFIX) for name in self.members if name.endswith(_SUFFIX)]

    def header(self, name: str) -> Header:
        """Type and shape of an array, which agree with the size of its member."""
        info = self.members[name + _SUFFIX]
        with self._zip.open(info) as member:
            try:
                header, _ = read_header(member)
            except (ValueError, TypeError, SyntaxError, LookupError, OverflowError, RecursionError) as wrong:
                raise SchemaError(f"the array {name!r} cannot be read ({' '.join(str(wrong).split())})") from None
            if header.n_bytes != info.file_size - member.tell():
                raise SchemaError(f"the array {name!r} is truncated, or longer than it says")
        return header

    def read(self, name: str, digest: Any = None) -> NDArray[Any]:
        """An array whose header was checked; the hash object ``digest`` gets all bytes of the member."""
        with self._zip.open(self.members[name + _SUFFIX]) as member:
            header, is_fortran = read_header(member)
            n_header = member.tell()
            array = np.empty(header.shape[::-1] if is_fortran else header.shape, header.dtype)
            if digest is not None:
                member.seek(0)
                digest.update(member.read(n_header))
            view = memoryview(cast("Any", array.reshape(-1).view(np.uint8)))
            for start in range(0, len(view), _CHUNK):
                part = view[start : start + _CHUNK]
                if _read_into(member, part) != len(part):
                    raise SchemaError(f"the array {name!r} is truncated")
                if digest is not None:
                    digest.update(part)
            member.read(1)  # the end, where the checksum is compared
        return np.ascontiguousarray(array.T) if is_fortran else array

    def read_all(
        self, schema: Schema, sizes: Mapping[str, int], digests: Mapping[str, Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """All arrays, checked against a schema; ``digests`` are their SHA-256 sums, if they are known."""
        names = self.array_names
        known = check_headers({name: self.header(name) for name in names}, schema, sizes)
        arrays = {}
        for name in names:
            digest = None if digests is None else hashlib.sha256()
            array = self.read(name, digest)
            if digests is not None and digest is not None and digest.hexdigest() != digests[name]:
                raise SchemaError(f"the array {name!r} was altered after it was saved")
            check_content(name, array, schema[name], known)
            arrays[name] = array
        return arrays


def read_header(member: Any) -> tuple[Header, bool]:
    """Type and shape in the header of a NumPy file, and whether it is in Fortran order; no object is allowed."""
    version = np.lib.format.read_magic(member)
    if version not in _HEADER_READERS:
        raise SchemaError(f"an array has the unknown format version {version}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a header written by Python 2: palda never did
            shape, is_fortran, dtype = _HEADER_READERS[version](member)
    except (UserWarning, TokenError):
        raise SchemaError("the header of an array is damaged") from None
    if dtype.hasobject or dtype.itemsize == 0 or not all(type(length) is int and length >= 0 for length in shape):
        raise SchemaError("an array has a type or shape that is not allowed")
    return Header(dtype, shape), is_fortran


def _read_into(member: Any, part: memoryview) -> int:
    n_read = 0
    while n_read < len(part):
        step = member.readinto(part[n_read:])
        if not step:
            break
        n_read += step
    return n_read
