"""Standardised columns of feature tables: numbers, one column per category, and indicators of missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import validation
from palda.data.array_schema import ArraySpec
from palda.data.feature_table import (
    FeatureRows,
    FeatureSubset,
    FeatureTable,
    feature_blocks,
    group_of,
    take_features,
)
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data.feature_table import RowIndex
    from palda.data.frozen_arrays import Array, Strings

    Ints = NDArray[np.int64]

_NUMBER, _MISSING = -1, -2  # in place of a category: the number itself, or whether it is missing
_MAX_CATEGORIES = 1000
_MIN_DOCS_WITH_IDS = 50  # from which on a column with another text in every document is taken for one of ids
_MAX_DEVIATIONS = 5.0  # standard deviations at which columns are clipped: a linear score would follow outliers
_MAX_LISTED = 5
_ROWS_PER_BLOCK = 1024  # documents that are standardised at a time

FEATURE_COLUMN_ARRAYS = {
    "source": ArraySpec(("feature columns",), "int64", low=0, below="features", group="columns"),
    "category": ArraySpec(("feature columns",), "int64", low=_MISSING, high=_MAX_CATEGORIES, group="columns"),
    "mean": ArraySpec(("feature columns",), group="columns"),
    "spread": ArraySpec(("feature columns",), above=0.0, group="columns"),
}
"""Schema of ``FeatureColumns`` in a file, without names."""


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """How the columns of a feature table become standardised columns.

    ``names`` and ``categories`` are those of the table. Each standardised column is made of the column ``source`` of
    the table: the number itself, the indicator of a ``category``, or the indicator of a missing value. A missing value
    counts as the mean. A category that the training documents do not have counts as missing.
    """

    names: Strings
    categories: tuple[Strings | None, ...]
    source: Ints
    category: Ints
    mean: Array
    spread: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def groups(self) -> Strings:
        """Name of what each standardised column belongs to: a column of the table, or the list that it is part of."""
        return np.array([group_of(name) for name in self.names], dtype=object)[self.source]

    def apply(self, values: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
        """Standardised columns (documents, columns) of rows of a table with these names and categories."""
        plain = len(self) == len(self.names) and (self.category == _NUMBER).all()
        columns = values.astype(np.float64) if plain else self._expanded(values)
        columns -= self.mean
        columns /= self.spread
        np.nan_to_num(columns, copy=False, nan=0.0)
        np.clip(columns, -_MAX_DEVIATIONS, _MAX_DEVIATIONS, out=columns)
        return columns.astype(dtype, order="C", copy=False)

    def _expanded(self, values: NDArray[Any]) -> Array:
        columns = values[:, self.source].astype(np.float64)
        missing = np.isnan(columns)
        for position in np.flatnonzero(self.category >= 0):
            columns[:, position] = np.where(
                missing[:, position], np.nan, columns[:, position] == self.category[position]
            )
        indicators = self.category == _MISSING
        columns[:, indicators] = missing[:, indicators]
        return columns

    def rows_of(self, table: FeatureTable) -> FeatureRows:
        """Rows of another table in the order and with the category codes of this one; nothing is copied.

        Raises ``DataError`` if a column is missing, or if a list of numbers has another length.
        """
        position = {name: column for column, name in enumerate(table.names)}
        if any(name not in position for name in self.names):
            return self._rows_by_position(table)
        groups, expected = (_group_sizes(names) for names in (table.names, self.names))
        for group, size in expected.items():
            if groups.get(group, size) != size:
                raise DataError(f"features: {group!r} has {groups[group]} numbers, but the model learned from {size}")
        columns = np.array([position[name] for name in self.names], dtype=np.int64)
        codes = tuple(
            _code_map(own, _given_categories(table, int(column), own), name)
            for own, column, name in zip(self.categories, columns, self.names, strict=True)
        )
        same = table.n_columns == len(columns) and bool((np.diff(columns) == 1).all())
        if same and all(code is None for code in codes):
            return table.values
        return _ConvertedRows(table.values, columns, codes)

    def _rows_by_position(self, table: FeatureTable) -> FeatureRows:
        """Rows of a table without names of its own, such as an array, if it has as many columns of numbers."""
        unnamed = all(group_of(name) == UNNAMED for name in table.names)
        if unnamed and table.n_columns == len(self.names) and not any(names is not None for names in self.categories):
            return table.values
        if unnamed or all(group_of(name) == UNNAMED for name in self.names):
            raise DataError(f"features have {table.n_columns} columns{self._other_columns(table, unnamed=unnamed)}")
        known = set(table.names)
        lost = [name for name in self.names if name not in known]
        others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise DataError(f"features have no column {validation.shown(lost[0])}{others}, which the model learned from")

    def _other_columns(self, table: FeatureTable, *, unnamed: bool) -> str:
        """How the columns of the model differ from those of a table, one of which has no names."""
        if table.n_columns != len(self.names):
            return f", but the model learned from {len(self.names)}; pass the same columns"
        if unnamed:
            return " without names, but some that the model learned from hold categories; pass a data frame"
        return " with names, but the model learned from an array; pass an array with the same columns in their order"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All but the names, as arrays of a file."""
        return {"source": self.source, "category": self.category, "mean": self.mean, "spread": self.spread}

    @classmethod
    def from_arrays(
        cls, names: Strings, categories: tuple[Strings | None, ...], arrays: Mapping[str, NDArray[Any]]
    ) -> FeatureColumns:
        """The columns whose names and ``arrays`` these are; raises ``ValueError`` if they do not fit together."""
        sizes = np.array([0 if own is None else len(own) for own in categories], dtype=np.int64)
        source, category = arrays["source"], arrays["category"]
        if len(names) != len(categories) or (len(source) and source.max() >= len(names)):
            raise ValueError("the numbers of features differ")
        if (category >= sizes[source]).any() or ((category == _NUMBER) & (sizes[source] > 0)).any():
            raise ValueError("a category is out of range")
        return cls(names, categories, source, category, arrays["mean"], arrays["spread"])


UNNAMED = "features"
"""Group of the columns of an array, which have no names."""


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Rows of a feature table, and how they become standardised columns."""

    values: FeatureRows
    columns: FeatureColumns

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return int(self.values.shape[0])

    @property
    def in_memory(self) -> bool:
        """Whether the rows are an array, which may be a memory map, rather than those of a shard folder."""
        values = self.values
        return isinstance(values.source if isinstance(values, FeatureSubset) else values, np.ndarray)

    def take(self, rows: Ints) -> EncodedFeatures:
        """Some documents; nothing is read or copied."""
        return EncodedFeatures(take_features(self.values, rows), self.columns)

    def standardised(self, rows: RowIndex = slice(None), dtype: Any = np.float64) -> NDArray[Any]:
        """Standardised columns (documents, columns) of some documents.

        They are computed block by block, in double precision, so that only the result takes memory for all of them.
        """
        is_range = isinstance(rows, slice) and rows.step in (None, 1)
        places = np.arange(self.n_docs)[rows]
        columns = np.empty((len(places), len(self.columns)), dtype)
        for start in range(0, len(places), _ROWS_PER_BLOCK):
            some = places[start : start + _ROWS_PER_BLOCK]
            values = self.values[slice(some[0], some[-1] + 1) if is_range else some]
            columns[start : start + len(some)] = self.columns.apply(values, dtype)
        return columns

    def is_empty(self) -> NDArray[np.bool_]:
        """(documents,): whether all values of a document are missing."""
        return np.concatenate([np.isnan(some).all(axis=1) for _, some in feature_blocks(self.values)])


class LearnedColumns(NamedTuple):
    """Standardised columns, and what a user should know about them, one line each."""

    columns: FeatureColumns
    notes: list[str]


def learn_feature_columns(table: FeatureTable) -> LearnedColumns:
    """Standardised columns from the training documents; constant columns and columns without values are left out."""
    if not len(table):
        raise DataError("features have no rows")
    for name, categories in zip(table.names, table.categories, strict=True):
        _check_categories(name, categories, len(table))
    table.check_finite()
    found = _statistics(table)
    parts: list[tuple[int, int, float, float]] = []  # source, category, mean, spread
    is_constant = (found.low == found.high) | (found.spread == 0.0)  # or differences too small for their squares
    for column, own in enumerate(table.categories):
        if own is None:
            if found.n_present[column] and not is_constant[column]:
                parts.append((column, _NUMBER, found.mean[column], found.spread[column]))
        else:
            share = found.category_counts[column] / max(found.n_present[column], 1)
            parts += [
                (column, code, float(rate), float(np.sqrt(rate * (1.0 - rate))))
                for code, rate in enumerate(share)
                if 0.0 < rate < 1.0
            ]
    missing = 1.0 - found.n_present / max(len(table), 1)
    for column in np.flatnonzero((missing > 0.0) & (missing < 1.0)).tolist():
        rate = float(missing[column])
        parts.append((column, _MISSING, rate, float(np.sqrt(rate * (1.0 - rate)))))
    if not parts:
        raise DataError("features have the same values in all documents; there is nothing to learn from them")
    source, category, mean, spread = (np.array(column) for column in zip(*parts, strict=True))
    columns = FeatureColumns(table.names, table.categories, source, category, mean, spread)
    return LearnedColumns(columns, _notes(table, found, columns))


def _check_categories(name: str, categories: Strings | None, n_docs: int) -> None:
    """Raise ``DataError`` if texts are no categories: too many, or another one in every document."""
    n_categories = 0 if categories is None else len(categories)
    if n_categories > _MAX_CATEGORIES:
        raise DataError(
            f"has {n_categories:,} categories, but at most {_MAX_CATEGORIES:,} are possible; "
            "is it an id or a text? leave it out",
            column=name,
        )
    if n_categories == n_docs >= _MIN_DOCS_WITH_IDS:
        raise DataError(
            "has another text in every row, from which nothing can be learned; if it holds the ids of the documents, "
            "name it as such, else leave it out",
            column=name,
        )


class _Statistics(NamedTuple):
    n_present: Ints
    mean: Array
    spread: Array
    low: Array
    high: Array
    category_counts: list[Array]  # of length 0 for a column of numbers


def _statistics(table: FeatureTable) -> _Statistics:
    n_columns = table.n_columns
    n_present, total, squares = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns), np.zeros(n_columns)
    low, high = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    counts = [np.zeros(0 if own is None else len(own)) for own in table.categories]
    for _, some in feature_blocks(table.values):
        n_present += np.count_nonzero(~np.isnan(some), axis=0)
        total += np.nansum(some, axis=0, dtype=np.float64)
        low, high = np.fmin(low, np.fmin.reduce(some, axis=0)), np.fmax(high, np.fmax.reduce(some, axis=0))
        for column, own in enumerate(counts):
            if len(own):
                codes = some[:, column]
                counts[column] = own + np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=len(own))
    mean = total / np.maximum(n_present, 1)
    for _, some in feature_blocks(table.values):
        squares += np.nansum(np.square(some - mean), axis=0, dtype=np.float64)
    spread = np.sqrt(squares / np.maximum(n_present, 1))
    return _Statistics(n_present, mean, spread, low, high, counts)


def _notes(table: FeatureTable, found: _Statistics, columns: FeatureColumns) -> list[str]:
    unused = np.setdiff1d(np.arange(table.n_columns), columns.source)
    n_missing = len(table) - found.n_present
    gaps = np.flatnonzero((n_missing > 0) & (found.n_present > 0))
    notes = []
    if len(unused):
        names = validation.listed(table.names[unused], _MAX_LISTED)
        notes.append(f"features: {len(unused)} columns have the same value everywhere and are not used: {names}")
    if len(gaps):
        names = validation.listed(table.names[gaps], _MAX_LISTED)
        notes.append(
            f"features: {int(n_missing[gaps].sum()):,} values are missing, in {len(gaps)} columns ({names}); "
            "they count as the mean, beside a column that says that they are missing"
        )
    return notes


@dataclass(frozen=True, eq=False)
class _ConvertedRows:
    """Rows with columns in another order, and with other codes of categories."""

    source: FeatureRows
    columns: Ints
    codes: tuple[Array | None, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of columns."""
        return int(self.source.shape[0]), len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single or double precision."""
        return self.source.dtype

    def __getitem__(self, rows: RowIndex) -> NDArray[np.floating[Any]]:
        """Some rows, in memory."""
        values = self.source[rows][:, self.columns]
        for column, codes in enumerate(self.codes):
            if codes is not None:
                old = values[:, column]
                known = ~np.isnan(old)
                values[known, column] = codes[old[known].astype(np.int64)]
        return values


def _code_map(own: Strings | None, given: Strings | None, name: str) -> Array | None:
    """New code of each given category, NaN for an unknown one; None if codes are equal or the column has numbers."""
    if (own is None) != (given is None):
        kinds = ("numbers", "categories") if own is None else ("categories", "numbers")
        raise DataError(f"features: the model learned from {kinds[0]}, but here are {kinds[1]}", column=name)
    if own is None or given is None or np.array_equal(own, given):
        return None
    position = {category: float(code) for code, category in enumerate(own)}
    return np.array([position.get(category, np.nan) for category in given])


def _given_categories(table: FeatureTable, column: int, own: Strings | None) -> Strings | None:
    """Categories of a column; a column without values may be of either kind, and is taken for that of ``own``."""
    given = table.categories[column]
    if own is None:
        return None if given is None or not len(given) else given
    if given is None and all(np.isnan(some[:, column]).all() for _, some in feature_blocks(table.values)):
        return own
    return given


def _group_sizes(names: Strings) -> dict[str, int]:
    """Number of columns of each list of numbers."""
    sizes: dict[str, int] = {}
    for name in names:
        group = group_of(name)
        if group != name:
            sizes[group] = sizes.get(group, 0) + 1
    return sizes
