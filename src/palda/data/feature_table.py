"""Numbers and categories that describe documents beside their words: embeddings, measurements, metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from palda.data import validation
from palda.data.array_schema import MAX_NUMBER
from palda.data.frozen_arrays import Frozen, check_unique, freeze_fields, names_array
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data.frozen_arrays import Strings

    RowIndex: TypeAlias = slice | NDArray[np.int64]

FeatureRows: TypeAlias = "NDArray[np.floating[Any]] | StoredFeatures"

_VALUES_PER_BLOCK = 1 << 21  # about 8 MB in single precision
_KINDS = "biuf"
_NUMBERS_IN_OBJECTS = frozenset({"integer", "floating", "mixed-integer-float", "decimal", "boolean"})
_PART_OF_LIST = re.compile(r"(.+)\[\d+\]", re.DOTALL)


def group_of(name: str) -> str:
    """Name of the list that a column is part of, such as ``"embedding"`` for ``"embedding[3]"``; else its own name."""
    match = _PART_OF_LIST.fullmatch(name)
    return match[1] if match else name


class StoredFeatures(Protocol):
    """Feature values (documents, columns) that need not be in memory; rows are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single or double precision."""

    def __getitem__(self, rows: RowIndex) -> NDArray[np.floating[Any]]:
        """Some rows, in memory."""


@dataclass(frozen=True, eq=False)
class FeatureSubset:
    """Some rows of feature values, in any order, without a copy of them."""

    source: FeatureRows
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of columns."""
        return len(self.rows), self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single or double precision."""
        return self.source.dtype

    def __getitem__(self, rows: RowIndex) -> NDArray[np.floating[Any]]:
        """Some of the rows, in memory."""
        return self.source[self.rows[rows]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only these rows of an array, not all of them; stored features are pickled as their place."""
        if isinstance(self.source, np.ndarray):
            return FeatureSubset, (np.asarray(self.source[self.rows]), np.arange(len(self.rows)))
        return FeatureSubset, (self.source, self.rows)


@dataclass(frozen=True, eq=False)
class ConvertedFeatures:
    """Booleans, integers or other floating-point numbers that become single or double precision when rows are read."""

    source: NDArray[Any]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of columns."""
        return self.source.shape[0], self.source.shape[1]

    def __getitem__(self, rows: RowIndex) -> NDArray[np.floating[Any]]:
        """Some rows, in memory."""
        return np.asarray(self.source[rows]).astype(self.dtype)


def take_features(values: FeatureRows, rows: NDArray[np.int64]) -> FeatureRows:
    """Some documents; nothing is read or copied."""
    if isinstance(values, FeatureSubset):
        return FeatureSubset(values.source, values.rows[rows])
    return FeatureSubset(values, rows)


def feature_blocks(values: FeatureRows) -> Iterator[tuple[slice, NDArray[np.floating[Any]]]]:
    """All rows, one block at a time; the cuts do not depend on where they are stored."""
    n_docs, n_columns = values.shape
    size = max(1, _VALUES_PER_BLOCK // max(n_columns, 1))
    for start in range(0, n_docs, size):
        rows = slice(start, min(start + size, n_docs))
        yield rows, np.ascontiguousarray(values[rows])  # sums depend on the order in memory


def row_ids(table: Any) -> Strings | None:
    """Ids of the rows of a feature table or data frame; None for pandas' default numbering, and for arrays."""
    if isinstance(table, FeatureTable):
        return table.doc_ids
    if not _is_frame(table) or _has_default_index(table):
        return None
    return names_array(table.index)


def _is_frame(table: Any) -> bool:
    return hasattr(table, "columns") and hasattr(table, "index")


def _has_default_index(frame: pd.DataFrame) -> bool:
    import pandas as pd

    return isinstance(frame.index, pd.RangeIndex) and (frame.index.start, frame.index.step) == (0, 1)


@dataclass(frozen=True, eq=False)
class FeatureTable(Frozen):
    """Columns of numbers and categories, one row per document.

    Attributes
    ----------
    values : array of shape (n_docs, n_columns)
        Numbers in single or double precision, NaN if missing. A categorical column holds positions in its categories.
        The rows may be a memory map, or those of a shard folder.
    names : array of str, shape (n_columns,)
        Names of the columns, without duplicates.
    categories : tuple of length n_columns
        Category names of each categorical column, None for a column of numbers.
    doc_ids : array of str, shape (n_docs,), or None
        Ids of the documents; None if the rows are in the order of the documents.

    Examples
    --------
    >>> import pandas as pd
    >>> from palda.data import FeatureTable
    >>> frame = pd.DataFrame({"length": [3.5, 1.0], "source": ["web", "print"]}, index=["d1", "d2"])
    >>> table = FeatureTable.of(frame)
    >>> table.names.tolist(), table.values.tolist(), table.categories[1].tolist()
    (['length', 'source'], [[3.5, 1.0], [1.0, 0.0]], ['print', 'web'])
    >>> table.on_documents(["d2"]).values[:].tolist()
    [[1.0, 0.0]]
    """

    values: FeatureRows
    names: Strings
    categories: tuple[Strings | None, ...]
    doc_ids: Strings | None = None

    def __post_init__(self) -> None:
        freeze_fields(self)
        n_docs, n_columns = self.values.shape
        if len(self.names) != n_columns or len(self.categories) != n_columns:
            raise DataError(f"features have {n_columns} columns, but {len(self.names)} names")
        if self.doc_ids is not None and len(self.doc_ids) != n_docs:
            raise DataError(f"features have {n_docs} rows, but {len(self.doc_ids)} document ids")
        check_unique(self.names, "feature")
        if self.doc_ids is not None:
            check_unique(self.doc_ids, "document id")

    @classmethod
    def of(cls, features: Any, doc_ids: Iterable[object] | None = None) -> FeatureTable:
        """Feature table from an array, tensor, data frame or Arrow table; a feature table is returned as it is.

        The index of a data frame holds document ids, unless it is pandas' default numbering.
        """
        if isinstance(features, FeatureTable):
            return features
        ids = None if doc_ids is None else names_array(doc_ids)
        if hasattr(features, "to_pandas"):
            features = features.to_pandas()
        if _is_frame(features):
            return _from_frame(features, row_ids(features) if ids is None else ids)
        if sparse.issparse(features):
            raise DataError("features must be dense; pass sparse counts as X, or call toarray()")
        values = _as_array(features)
        if len(values.shape) != 2:
            raise DataError(f"features have shape {tuple(values.shape)}, not (documents, columns)")
        if not values.shape[1]:
            raise DataError("features have no columns")
        if values.dtype.kind not in _KINDS:
            raise DataError("features must be numbers; pass columns of text in a data frame")
        names = names_array(f"features[{column}]" for column in range(values.shape[1]))
        return cls(_as_floats(values), names, (None,) * len(names), ids)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    def take(self, rows: NDArray[np.int64]) -> FeatureTable:
        """Some of the rows, in the given order; nothing is copied."""
        return replace(
            self,
            values=take_features(self.values, np.asarray(rows, dtype=np.int64)),
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
        )

    def on_documents(self, doc_ids: Iterable[object] | None, n_docs: int | None = None) -> FeatureTable:
        """The rows of these documents, matched by id if both have ids, else by position; further rows are left out.

        Raises ``DataError`` if a document has no row, or if the numbers of rows differ and there are no ids.
        """
        ids = None if doc_ids is None else names_array(doc_ids)
        if ids is None or self.doc_ids is None:
            expected = n_docs if ids is None else len(ids)
            if expected is not None and expected != len(self):
                raise DataError(
                    f"there are {expected} documents, but features have {len(self)} rows; "
                    "give both ids, or one row per document in the same order"
                )
            return self
        if np.array_equal(ids, self.doc_ids):
            return self
        position = {name: row for row, name in enumerate(self.doc_ids)}
        missing = [name for name in ids if name not in position]
        if missing:
            others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise DataError(
                f"features have no row for document {validation.shown(missing[0])}{others}; "
                "add one per document, with empty cells for unknown values"
            )
        return self.take(np.array([position[name] for name in ids], dtype=np.int64))

    def check_finite(self) -> None:
        """Raise ``DataError`` that names row and column of the first infinite value, or of a wrong category code."""
        n_categories = np.array([0 if names is None else len(names) for names in self.categories])
        for rows, some in feature_blocks(self.values):
            wrong = np.isinf(some) if some.dtype == np.float32 else np.abs(some) > MAX_NUMBER
            if n_categories.any():
                coded = n_categories > 0
                codes = some[:, coded]
                with np.errstate(invalid="ignore"):
                    bad = (codes < 0) | (codes >= n_categories[coded]) | (codes != np.floor(codes))
                wrong[:, coded] |= bad & ~np.isnan(codes)
            if wrong.any():
                row, column = (int(place) for place in np.argwhere(wrong)[0])
                place = rows.start + row
                where = f"row {place} (counted from 0)" if self.doc_ids is None else f"document {self.doc_ids[place]}"
                raise DataError(
                    f"features: {some[row, column]} in {where}, column {validation.shown(self.names[column])} "
                    "is not a finite number of usual size; leave unknown values empty (NaN)"
                )


def _as_array(values: Any) -> Any:
    """Values with a type of NumPy: as they are, or as an array; masked ones are NaN."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in _KINDS:
        return np.ma.filled(values.astype(np.float64), np.nan)
    is_plain = isinstance(getattr(values, "dtype", None), np.dtype) and not isinstance(values, np.matrix)
    return values if is_plain else np.asarray(values)


def _as_floats(values: Any) -> Any:
    """Values in single or double precision, without a copy if they have one of them or are memory-mapped."""
    if values.dtype in (np.float32, np.float64):
        return values
    exact_in_single = values.dtype.kind in "bf" or values.dtype.itemsize <= 2
    dtype = np.dtype(np.float32 if exact_in_single and values.dtype.itemsize <= 4 else np.float64)
    return ConvertedFeatures(values, dtype) if isinstance(values, np.memmap) else np.asarray(values).astype(dtype)


def _from_frame(frame: pd.DataFrame, doc_ids: Strings | None) -> FeatureTable:
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"features have two columns {validation.shown(twice)}; rename one of them")
    parts: list[NDArray[Any]] = []
    names: list[str] = []
    categories: list[Strings | None] = []
    for name in frame.columns:
        values, own_names, own_categories = _column(frame[name], str(name))
        parts.append(values)
        names += own_names
        categories += own_categories
    if not names:
        raise DataError("features have no columns")
    kind = np.float32 if all(part.dtype == np.float32 for part in parts) else np.float64
    table = np.empty((len(frame), len(names)), dtype=kind)
    first = 0
    for part in parts:
        table[:, first : first + part.shape[1]] = part
        first += part.shape[1]
    return FeatureTable(table, names_array(names), tuple(categories), doc_ids)


def _column(column: pd.Series[Any], name: str) -> tuple[NDArray[Any], list[str], Sequence[Strings | None]]:
    """Values (documents, columns), names and categories of one column of a data frame; a column of lists has many."""
    import pandas as pd

    kinds = pd.api.types
    if kinds.is_bool_dtype(column.dtype) or kinds.is_numeric_dtype(column.dtype):
        if kinds.is_complex_dtype(column.dtype):
            raise DataError("features must be real numbers", column=name)
        single = str(column.dtype).lower() in ("float32", "float16", "bool", "boolean", "int8", "uint8")
        values = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return values[:, None], [name], [None]
    if kinds.is_datetime64_any_dtype(column.dtype) or kinds.is_timedelta64_dtype(column.dtype):
        raise DataError("is a column of times; turn it into a number, such as days since a date", column=name)
    present = column.dropna()
    if len(present) and isinstance(present.iloc[0], (list, tuple, np.ndarray)):
        return _list_column(column, name)
    if kinds.is_object_dtype(column.dtype) and kinds.infer_dtype(present) in _NUMBERS_IN_OBJECTS:
        numbers = column.map(float, na_action="ignore").to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers[:, None], [name], [None]
    texts = column.astype(object).map(validation.name_text, na_action="ignore")
    codes, found = pd.factorize(texts.where(texts != ""), sort=True)
    positions = np.where(codes < 0, np.nan, codes).astype(np.float64)
    return positions[:, None], [name], [names_array(found)]


def _list_column(column: pd.Series[Any], name: str) -> tuple[NDArray[Any], list[str], Sequence[Strings | None]]:
    """A column of lists of numbers of equal length, such as embeddings; a missing list is a row of NaN."""
    lists = column.tolist()
    is_list = [isinstance(cell, (list, tuple, np.ndarray)) for cell in lists]
    width = len(lists[is_list.index(True)])
    values = np.full((len(lists), width), np.nan, dtype=np.float32)
    for row, cell in enumerate(lists):
        if not is_list[row]:
            if cell is None or (isinstance(cell, float) and np.isnan(cell)):
                continue
            raise DataError(f"row {row} (counted from 0) holds {validation.shown(cell)} instead of a list", column=name)
        if len(cell) != width:
            raise DataError(f"row {row} (counted from 0) holds {len(cell)} numbers, not {width}", column=name)
        try:
            values[row] = cell
        except (TypeError, ValueError):
            message = f"row {row} (counted from 0) holds something that is not a number"
            raise DataError(message, column=name) from None
    return values, [f"{name}[{position}]" for position in range(width)], [None] * width
