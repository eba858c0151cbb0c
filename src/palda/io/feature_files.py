"""Features of documents from files: NumPy arrays, which are memory-mapped, and tables."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from palda.data import FeatureTable, names_array, shown, validation
from palda.errors import DataError, reason_of
from palda.io import limits
from palda.io.array_archive import READ_ERRORS, read_header
from palda.io.feature_cells import FileColumns
from palda.io.files import file_name, open_bytes, read_text
from palda.io.shards.vote_sorting import DocumentIndex, digests_of
from palda.io.table_files import read_chunks, read_table
from palda.io.tables import document_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.io.files import Table

    Source = str | os.PathLike[str]
    Floats = NDArray[np.floating[Any]]

_ROWS_PER_CHUNK = 500
_ID_LINES = frozenset({"", ".txt", ".ids"})
_INDEX_COLUMN = re.compile(r"__index_level_\d+__")
"""Column of an index without a name, as pandas writes it; default numbering is not written."""
TEMPORARY_FEATURES = "features.bin"
"""Name of the file with the numbers of a table, as long as they are memory-mapped."""


@dataclass(frozen=True)
class FeatureSource:
    """A file of features, and how it is read."""

    path: Source
    ids: Source | Iterable[object] | None = None
    """File with the ids of the rows, or the ids."""
    id: str | None = None
    encoding: str | None = None
    id_required: bool = True
    """Whether it is an error if there is no column ``id``: it may be the column of another file."""
    ignored: tuple[str, ...] = ()
    """Columns that are no features."""
    categorical: frozenset[str] = frozenset()
    """Columns that hold categories, even if all of them look like numbers."""

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return file_name(self.path)

    @property
    def is_array(self) -> bool:
        """Whether the file is a NumPy array."""
        return Path(self.path).suffix.lower() == ".npy"


def read_features(
    path: Source,
    doc_ids: Iterable[object] | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the name that users expect
    ids: Source | Iterable[object] | None = None,
    encoding: str | None = None,
) -> FeatureTable:
    r"""Read features of documents, such as embeddings, measurements or metadata.

    Parameters
    ----------
    path : str or path-like
        A NumPy file (.npy) with one row per document, which is memory-mapped and not read into memory; or a table (CSV,
        TSV, JSON lines, Parquet or Arrow). Columns of a table hold numbers, texts (categories), or lists of numbers of
        equal length (embeddings); a column of a CSV or JSON file in which every cell is a number or blank holds
        numbers. Texts of documents (``text``, ``body``, ...) and gold labels (``gold_...``) are left out.
    doc_ids : iterable of str, optional
        Ids of the documents. The result has one row per document, matched by id if the file has ids, else in the order
        of the rows.
    id : str, optional
        Column of ids, if it does not have one of the usual names (``doc``, ``id``, ...). Without such a column the
        index that pandas wrote into a Parquet file holds the ids; without an index the rows are in the order of the
        documents.
    ids : path or iterable of str, optional
        Ids of the rows of a file without ids: a text file with one id per line, a table with a column of ids, or the
        ids themselves.
    encoding : str, optional
        Encoding of a text file that is not UTF-8.

    Returns
    -------
    FeatureTable
        Numbers (single precision if the file has single precision, or lists), names of the columns and categories. The
        columns of an array are ``features[0]``, ``features[1]``, ..., those of a column of lists ``name[0]``,
        ``name[1]``, ...

    Raises
    ------
    DataError
        If the file cannot be read, if a number is infinite, if lists differ in length, or if a document has no row.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from palda import read_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "features.jsonl")
    ...     rows = ['{"doc": "d1", "vector": [0.5, 1], "source": "web"}', '{"doc": "d2", "vector": [2, 0]}']
    ...     _ = file.write_text("\n".join(rows))
    ...     table = read_features(file, ["d2", "d1"])
    >>> table.names.tolist(), table.values[:].tolist()
    (['vector[0]', 'vector[1]', 'source'], [[2.0, 0.0, nan], [0.5, 1.0, 0.0]])
    """
    return load_features(FeatureSource(path, ids, id, encoding), doc_ids)


def load_features(source: FeatureSource, doc_ids: Iterable[object] | None = None) -> FeatureTable:
    """Features of all rows or of some documents; arrays are memory-mapped, tables are read into memory."""
    found = _read(source, _MemoryBlocks(source.name), keep_ids=True)
    with _file_named(source.name):
        table = FeatureTable(found.values, found.names, found.categories, found.ids)
        table.check_finite()
        return table if doc_ids is None else table.on_documents(doc_ids)


def open_features(source: FeatureSource, folder: Path) -> FeatureReader:
    """Features that stay on disk: those of an array in its file, those of a table in a temporary file in ``folder``."""
    found = _read(source, _FileBlocks(folder / TEMPORARY_FEATURES), keep_ids=False)
    with _file_named(source.name):
        table = FeatureTable(found.values, found.names, found.categories)
    return FeatureReader(table, None if found.ids is None else DocumentIndex(found.ids, []), source.name)


@dataclass(frozen=True)
class FeatureReader:
    """Features of consecutive documents, matched by id if the rows have ids, else in their order."""

    table: FeatureTable
    index: DocumentIndex | None
    file: str

    def rows(self, doc_ids: Strings, first: int) -> FeatureTable:
        """Rows of some documents in memory, of which ``first`` is the number of documents before them."""
        values = self.table.values
        if self.index is None:
            if first + len(doc_ids) > len(self.table):
                raise _wrong_length(self.file, len(self.table), "more")
            some = values[first : first + len(doc_ids)]
        else:
            places = self.index.positions(doc_ids)
            missing = np.flatnonzero(places < 0)
            if len(missing):
                others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
                raise DataError(
                    f"has no row for document {shown(doc_ids[missing[0]])}{others}; "
                    "add one per document, with empty cells for unknown values",
                    file=self.file,
                )
            some = values[places]
        table = FeatureTable(np.array(some), self.table.names, self.table.categories, doc_ids)
        with _file_named(self.file):
            table.check_finite()
        return table

    def check_length(self, n_docs: int) -> None:
        """Raise if rows without ids are not as many as the documents."""
        if self.index is None and n_docs != len(self.table):
            raise _wrong_length(self.file, len(self.table), f"{n_docs}")


def _wrong_length(file: str, n_rows: int, n_docs: str) -> DataError:
    return DataError(
        f"has {n_rows} rows, but there are {n_docs} documents; add ids, or write one row per document in their order",
        file=file,
    )


@contextmanager
def _file_named(name: str) -> Iterator[None]:
    """Add the name of the file to errors that do not know it."""
    try:
        yield
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(error.problem, file=name, row=error.row, column=error.column) from None


class _Content(NamedTuple):
    """Content of a file; ``ids`` are strings or their digests."""

    values: Any
    names: Strings
    categories: tuple[Strings | None, ...]
    ids: NDArray[Any] | None


def _read(source: FeatureSource, blocks: _MemoryBlocks | _FileBlocks, *, keep_ids: bool) -> _Content:
    with _file_named(source.name):
        _check_suffix(source)
        if source.is_array:
            table = FeatureTable.of(_mapped_array(source))
            content = _Content(table.values, table.names, table.categories, None)
        else:
            content = _read_table(source, blocks, keep_ids=keep_ids)
        if source.ids is None:
            return content
        if content.ids is not None:
            raise DataError("has a column of ids; leave out the other ids", file=source.name)
        ids = _given_ids(source, content.values.shape[0])
        return content._replace(ids=ids if keep_ids else digests_of(ids))


def _check_suffix(source: FeatureSource) -> None:
    suffixes = [suffix.lower() for suffix in Path(source.path).suffixes]
    if ".npz" in suffixes:
        raise DataError("is an archive of arrays; write the one with the features with numpy.save", file=source.name)
    if ".npy" in suffixes[:-1]:
        raise DataError("is compressed; unpack it, since an array is read in place", file=source.name)


# Arrays


def _mapped_array(source: FeatureSource) -> NDArray[Any]:
    """Array of a NumPy file; its header is checked before memory is taken, and nothing is unpickled."""
    name = source.name
    try:
        with open_bytes(source.path) as stream:
            header, is_fortran = read_header(stream)
            offset, n_bytes = stream.tell(), os.fstat(stream.fileno()).st_size
    except READ_ERRORS as wrong:
        if isinstance(wrong, DataError):
            raise
        raise DataError(f"is not a readable NumPy file: {reason_of(wrong)}", file=name) from None
    if len(header.shape) != 2:
        raise DataError(f"has shape {header.shape}, not (documents, columns)", file=name)
    if header.dtype.kind not in "biuf":
        raise DataError(f"holds {shown(str(header.dtype))}, not numbers", file=name)
    n_rows, n_columns = header.shape
    if not n_rows or not n_columns:
        raise DataError("is empty; it needs at least one row and one column", file=name)
    limits.check_n_fields(n_columns, name)
    if offset + header.n_bytes != n_bytes:
        raise DataError("is cut short, or longer than its header says; write it again", file=name)
    values: NDArray[Any] = np.memmap(
        Path(source.path), header.dtype, "r", offset, header.shape, "F" if is_fortran else "C"
    )
    return values


# Tables


class _MemoryBlocks:
    """Rows in memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.clear()

    def clear(self) -> None:
        self._blocks: list[Floats] = []
        self._n_rows = 0

    def append(self, block: Floats) -> None:
        self._blocks.append(block)
        self._n_rows += len(block)
        if self._n_rows * block.shape[1] > limits.MAX_CELLS:
            raise DataError(
                f"has more than {limits.MAX_CELLS:,} numbers; write them as .npy, which is not read into memory",
                file=self._name,
            )

    def array(self, dtype: np.dtype[Any], n_columns: int) -> Floats:
        """All rows; the blocks are released one by one."""
        values = np.empty((self._n_rows, n_columns), dtype=dtype)
        stop = self._n_rows
        while self._blocks:
            block = self._blocks.pop()
            values[stop - len(block) : stop] = block
            stop -= len(block)
        return values


class _FileBlocks:
    """Rows in a temporary file, which is memory-mapped when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.clear()

    def clear(self) -> None:
        self._n_rows = 0
        self._write(b"", "wb")

    def append(self, block: Floats) -> None:
        self._n_rows += len(block)
        self._write(np.ascontiguousarray(block).data, "ab")

    def _write(self, content: Any, mode: str) -> None:
        try:
            with self._path.open(mode) as file:
                file.write(content)
        except OSError as refused:
            raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(self._path)) from refused

    def array(self, dtype: np.dtype[Any], n_columns: int) -> Floats:
        return np.memmap(self._path, dtype, "r", 0, (self._n_rows, n_columns))


class _RowIds:
    """Ids of the rows, or their digests, and where the rows are in the file."""

    def __init__(self, *, keep_ids: bool) -> None:
        self._keep_ids = keep_ids
        self._parts: list[NDArray[Any]] = []
        self._rows: list[NDArray[np.int64]] = []

    def append(self, ids: Strings, where: validation.SourceLocation) -> None:
        self._parts.append(ids if self._keep_ids else digests_of(ids))
        self._rows.append(np.array([where.row(record) for record in range(len(ids))], dtype=np.int64))

    def array(self, source: FeatureSource, column: str | None) -> NDArray[Any] | None:
        """All ids; a duplicate is an error."""
        if not self._parts:
            return None
        ids = np.concatenate(self._parts)
        digests = digests_of(ids) if self._keep_ids else ids
        duplicate = DocumentIndex(digests, []).duplicate()
        if duplicate is not None:
            self._fail(source, column, *duplicate)
        return ids

    def _fail(self, source: FeatureSource, column: str | None, first: int, again: int) -> NoReturn:
        rows = np.concatenate(self._rows)
        raise DataError(
            f"the id is in row {rows[first]} too; write one row per document",
            file=source.name, row=int(rows[again]), column=column,
        )  # fmt: skip


def _read_table(source: FeatureSource, blocks: _MemoryBlocks | _FileBlocks, *, keep_ids: bool) -> _Content:
    """The first pass finds out what the columns hold, and makes the rows unless that changes or needs sorting.

    A second pass is needed for categories, a third for those in columns that seemed to hold numbers at first.
    """
    columns = FileColumns(source.categorical)
    for is_last in (False, False, True):
        blocks.clear()
        ids = _RowIds(keep_ids=keep_ids)
        id_column: str | None = None
        ignored: tuple[str, ...] = ()
        for number, (table, _) in enumerate(read_chunks(source.path, _ROWS_PER_CHUNK, source.encoding)):
            if not number:
                id_column = _id_column(table, source)
                ignored = (*source.ignored, *_no_features(table, id_column))
            if id_column is not None:
                ids.append(_ids_of(table, id_column), table.where)
            block = columns.rows(table, ignored)
            if block is not None:
                blocks.append(block)
        names = columns.names()
        if not len(names):
            raise DataError("has no column of features beside ids, texts and gold labels", file=source.name)
        found = ids.array(source, id_column)
        if columns.settle():
            break
        if is_last:
            raise DataError("changed while it was read; read it again", file=source.name)
    return _Content(blocks.array(columns.dtype, len(names)), names, columns.categories(), found)


def _id_column(table: Table, source: FeatureSource) -> str | None:
    header = list(table.frame.columns)
    given = source.id if source.id_required or source.id in header else None
    found = validation.find_column(header, "doc", given, table.where)
    return next(filter(_INDEX_COLUMN.fullmatch, header), None) if found is None else found


def _no_features(table: Table, id_column: str | None) -> list[str]:
    """The column of ids, and columns of indexes."""
    return [name for name in table.frame.columns if name == id_column or _INDEX_COLUMN.fullmatch(name)]


def _ids_of(table: Table, column: str) -> Strings:
    if column not in table.frame.columns:
        table.where.fail("the document id is blank", 0, column)
    return document_ids(table.frame[column], table.where)


# Ids beside a file


def _given_ids(source: FeatureSource, n_rows: int) -> Strings:
    """Ids of all rows, from a file or as they were given."""
    given: Any = source.ids
    if isinstance(given, (str, os.PathLike)):
        name, ids = file_name(given), _ids_in_file(given, source)
    else:
        name, ids = None, names_array(given)
    if len(ids) != n_rows:
        what = "there are" if name is None else "has"
        raise DataError(f"{what} {len(ids)} ids, but {source.name} has {n_rows} rows", file=name or source.name)
    blank = next((record for record, one in enumerate(ids) if not one), None)
    if blank is not None:
        raise DataError(f"the id of row {blank + 1} is blank", file=name or source.name)
    duplicate = validation.first_duplicate(ids) if len(set(ids)) < len(ids) else None
    if duplicate is not None:
        raise DataError(f"the id {shown(ids[duplicate[0]])} occurs twice; ids must differ", file=name or source.name)
    return ids


def _ids_in_file(path: Source, source: FeatureSource) -> Strings:
    """One id per line, or the column of ids of a table; a table of one column needs no name for it."""
    if Path(path).suffix.lower() in _ID_LINES:
        return names_array(read_text(path, source.encoding).splitlines())
    table = read_table(path, source.encoding)
    header = list(table.frame.columns)
    column = header[0] if len(header) == 1 else _id_column(table, source)
    if column is None:
        table.where.fail(f"no column of document ids among {validation.listed(header)}; name one 'doc'")
    return document_ids(table.frame[column], table.where)
