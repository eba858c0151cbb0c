"""Schemas of the arrays in a file: names, types, shapes and ranges, checked once when the file is read.

A shape is written in named sizes, such as ``("topics", "words")``. A size that is not given is that of the first array
that has it; all other arrays must agree. Types and shapes come from the headers of a file, so they are checked before
memory is taken for any content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from palda.data.validation import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Axis: TypeAlias = int | str | tuple[str, ...]
"""Length of an axis: a number, a named size, or the sum of several named sizes (0 for one that no array has)."""

MAX_NUMBER = 1e50
"""Largest absolute value of a number in a file: products of a few of them are still finite."""

_SUM_TOLERANCE = 1e-6
_BLOCK = 1 << 20  # numbers that are compared at a time
_KINDS = {"integer": "bBhHiIlLqQ", "number": "bBhHiIlLqQfd"}  # characters of NumPy types


class Header(NamedTuple):
    """Type and shape of a stored array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Memory that the array takes."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ArraySpec:
    """What one array of a file may be.

    Attributes
    ----------
    shape
        Lengths of the axes.
    dtype
        A NumPy type, ``"integer"`` for any type of integers, or ``"number"`` for those and floating-point numbers.
    low, high
        Smallest and largest number.
    above, below
        Bounds that no number reaches; ``below`` may be a named size, for positions on an axis.
    nan, infinite
        Whether NaN or infinite numbers may occur; ranges do not apply to them.
    sum_axis
        Axis along which the numbers sum to 1; None if they need not.
    ascending
        Whether no number is smaller than the one before.
    also
        A second name for the length of the first axis, for sums of sizes.
    group
        Arrays of a group are all in the file, or none of them is; "" for an array that must be there.
    """

    shape: tuple[Axis, ...]
    dtype: str = "float64"
    low: float = -MAX_NUMBER
    high: float = MAX_NUMBER
    above: float | None = None
    below: float | str | None = None
    nan: bool = False
    infinite: bool = False
    sum_axis: int | None = None
    ascending: bool = False
    also: str = ""
    group: str = ""

    def accepts_type(self, dtype: np.dtype[Any]) -> bool:
        """Whether an array may have this type."""
        if self.dtype in _KINDS:
            return dtype.char in _KINDS[self.dtype] and dtype.isnative
        return dtype == np.dtype(self.dtype)


Schema: TypeAlias = Mapping[str, ArraySpec]
"""Arrays of a file by name, in the order in which they determine the named sizes."""


class SchemaError(ValueError):
    """Arrays that differ from their schema; the message is one line without the name of the file."""


def prefixed(prefix: str, schema: Schema, group: str = "", own: Iterable[str] = ()) -> dict[str, ArraySpec]:
    """The same schema with the prefix and a dot before each name.

    ``group`` is one more group around its groups. The sizes named in ``own`` are not shared with other arrays.
    """
    renamed = {size: f"{prefix} {size}" for size in own}

    def moved(spec: ArraySpec) -> ArraySpec:
        inner = f"{prefix} {spec.group}" if spec.group else ""
        shape = tuple(renamed.get(axis, axis) if isinstance(axis, str) else axis for axis in spec.shape)
        below = renamed.get(spec.below, spec.below) if isinstance(spec.below, str) else spec.below
        return replace(spec, shape=shape, below=below, group="/".join(part for part in (group, inner) if part))

    return {f"{prefix}.{name}": moved(spec) for name, spec in schema.items()}


def check_headers(headers: Mapping[str, Header], schema: Schema, sizes: Mapping[str, int]) -> dict[str, int]:
    """Check which arrays there are, their types and shapes; returns all named sizes.

    Raises
    ------
    SchemaError
        If an array is missing, unknown, or has another type or shape than it should.
    """
    _check_names(headers, schema)
    known = dict(sizes)
    for name, spec in schema.items():
        if name not in headers:
            continue
        header = headers[name]
        if not spec.accepts_type(header.dtype):
            raise SchemaError(f"the array {name!r} has the type {shown(str(header.dtype))} instead of {spec.dtype}")
        if len(header.shape) != len(spec.shape):
            raise SchemaError(f"the array {name!r} has {len(header.shape)} axes instead of {len(spec.shape)}")
        for axis, length in zip(spec.shape, header.shape, strict=True):
            expected = _length(axis, known, length)
            if length != expected:
                what = axis if isinstance(axis, str) else "entries"
                raise SchemaError(f"the array {name!r} does not match: it has {length} {what} instead of {expected}")
        if spec.also:
            known[spec.also] = header.shape[0]
    return known


def _check_names(headers: Mapping[str, Header], schema: Schema) -> None:
    unknown = [name for name in headers if name not in schema]
    if unknown:
        raise SchemaError(f"the array {shown(unknown[0])} does not belong there")
    groups = {"", *(_group for name in headers for _group in _groups(schema[name].group))}
    for name, spec in schema.items():
        if name not in headers and all(_group in groups for _group in _groups(spec.group)):
            raise SchemaError(f"the array {name!r} is missing")


def _groups(group: str) -> list[str]:
    """The group and the groups that it is part of: "a/b" is within "a"."""
    parts = group.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _length(axis: Axis, known: dict[str, int], found: int) -> int:
    if isinstance(axis, int):
        return axis
    if isinstance(axis, str):
        return known.setdefault(axis, found)
    return sum(known.get(part, 0) for part in axis)


def check_content(name: str, array: NDArray[Any], spec: ArraySpec, sizes: Mapping[str, int]) -> None:
    """Check the numbers of an array whose header was checked.

    Raises
    ------
    SchemaError
        If a number is out of range.
    """
    flat = array.reshape(-1)
    for start in range(0, len(flat), _BLOCK):
        _check_range(name, flat[start : start + _BLOCK], spec, sizes)
    if spec.ascending and (array[1:] < array[:-1]).any():
        raise SchemaError(f"the numbers of the array {name!r} are not in ascending order")
    if spec.sum_axis is not None and (np.abs(array.sum(axis=spec.sum_axis) - 1.0) > _SUM_TOLERANCE).any():
        raise SchemaError(f"the numbers of the array {name!r} do not sum to 1")


def _check_range(name: str, part: NDArray[Any], spec: ArraySpec, sizes: Mapping[str, int]) -> None:
    if part.dtype.kind == "f":
        nan, infinite = np.isnan(part), np.isinf(part)
        if nan.any() and not spec.nan:
            raise SchemaError(f"the array {name!r} has a NaN in it")
        if infinite.any() and not spec.infinite:
            raise SchemaError(f"the array {name!r} has an infinite number in it")
        part = part[~(nan | infinite)]
    if not len(part) or part.dtype.kind == "b":
        return
    low, high = part.min().item(), part.max().item()
    below = sizes.get(spec.below, 0) if isinstance(spec.below, str) else spec.below
    outside = low < spec.low or high > spec.high
    outside = outside or (spec.above is not None and low <= spec.above) or (below is not None and high >= below)
    if outside:
        raise SchemaError(f"a number of the array {name!r} is out of range (they are from {low:.6g} to {high:.6g})")


def check_arrays(arrays: Mapping[str, NDArray[Any]], schema: Schema, sizes: Mapping[str, int]) -> dict[str, int]:
    """Check arrays that are in memory already; returns all named sizes."""
    known = check_headers({name: Header(array.dtype, array.shape) for name, array in arrays.items()}, schema, sizes)
    for name, array in arrays.items():
        check_content(name, array, schema[name], known)
    return known


def schema_for(names: Iterable[str], schemas: Iterable[Schema]) -> Schema:
    """The schema of several alternatives that these names fit; the last one if there is none."""
    found = set(names)
    chosen: Schema = {}
    for chosen in schemas:
        try:
            _check_names(dict.fromkeys(found, Header(np.dtype(np.float64), ())), chosen)
        except SchemaError:
            continue
        return chosen
    return chosen
