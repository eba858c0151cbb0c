"""Read-only arrays, and dataclasses made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from palda.data import validation
from palda.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


Rows: TypeAlias = "NDArray[np.integer[Any]] | NDArray[np.bool_] | slice | Sequence[int]"
Strings: TypeAlias = "NDArray[np.object_]"
Array: TypeAlias = "NDArray[np.float64]"

_Array = TypeVar("_Array", bound="np.ndarray[Any, Any]")


def selection(rows: Rows) -> NDArray[Any] | slice:
    """Rows as NumPy accepts them: a slice, or an array of positions or of booleans."""
    if isinstance(rows, slice):
        return rows
    chosen = np.asarray(rows)
    return chosen if chosen.size else chosen.astype(np.int64)


def names_array(names: Iterable[object]) -> Strings:
    """Names as a read-only array of Python strings."""
    listed = [name.strip() if type(name) is str else validation.name_text(name) for name in names]
    array = np.fromiter(listed, dtype=object, count=len(listed))
    return _frozen(array)


def _frozen(array: _Array) -> _Array:
    """A read-only view; the caller's own array stays writable."""
    view = array.view()
    view.flags.writeable = False
    return view


def _frozen_matrix(matrix: Any) -> Any:
    parts = tuple(_frozen(part) for part in (matrix.data, matrix.indices, matrix.indptr))
    view = sparse.csr_array(parts, shape=matrix.shape, copy=False)
    view.has_sorted_indices = matrix.has_sorted_indices  # known, so that SciPy does not try to sort in place
    view.has_canonical_format = matrix.has_canonical_format
    return view


def freeze_fields(instance: Any) -> None:
    """Make the arrays of a frozen dataclass read-only too."""
    for spec in fields(instance):
        value = getattr(instance, spec.name)
        if isinstance(value, np.ndarray):
            object.__setattr__(instance, spec.name, _frozen(value))
        elif isinstance(value, sparse.csr_array):
            object.__setattr__(instance, spec.name, _frozen_matrix(value))
        elif isinstance(value, Mapping):
            object.__setattr__(instance, spec.name, {name: _frozen(column) for name, column in value.items()})


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        equal_nan = left.dtype.kind == right.dtype.kind == "f"
        return bool(np.array_equal(left, right, equal_nan=equal_nan))
    if sparse.issparse(left) and sparse.issparse(right):
        return _same_matrix(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _same_matrix(left: Any, right: Any) -> bool:
    return bool(left.shape == right.shape and (left != right).nnz == 0)


class Frozen:
    """Field-by-field equality for frozen dataclasses with arrays."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [spec.name for spec in fields(self)]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


def check_unique(names: Strings, kind: str) -> None:
    """Raise for a duplicate name on an axis, and for a name that no file can hold."""
    texts = [name for name in names if isinstance(name, str)]
    if not validation.encodable("".join(texts)):
        broken = next(name for name in texts if not validation.encodable(name))
        raise DataError(f"{kind} {validation.shown(broken)} has half of a surrogate pair; remove that character")
    duplicate = validation.first_duplicate(names) if len(set(names)) < len(names) else None
    if duplicate is not None:
        raise DataError(
            f"{kind} {validation.shown(names[duplicate[0]])} occurs twice (positions {duplicate[0]} and {duplicate[1]})"
        )
