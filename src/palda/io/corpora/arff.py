"""ARFF files with several labels per row, as in Mulan: attributes and rows in one file, label names in an XML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.data import Corpus, Dataset, Values, names_array, validation
from palda.errors import DataError
from palda.io import limits
from palda.io.corpora.label_files import read_label_names
from palda.io.files import file_name, read_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    PathLike = str | os.PathLike[str]
    Floats = NDArray[np.float64]


def read_arff(
    path: PathLike, labels_xml: PathLike | None = None, *, label_names: Iterable[str] | None = None
) -> Dataset:
    """Read features and gold labels from an ARFF file, dense or sparse, gzipped or not.

    Parameters
    ----------
    path : str or path-like
        The ARFF file. Attributes are numeric or nominal; strings, dates and relations are refused.
    labels_xml : str or path-like, optional
        Mulan's XML file with the attributes that are labels. Classes keep their order in the ARFF file.
    label_names : iterable of str, optional
        Labels in the wanted order, instead of the XML file. With neither there are no classes.

    Returns
    -------
    Dataset
        If every feature is nominal with the values 0 and 1, a ``Corpus`` whose words are the names of the attributes (a
        missing value counts 0); otherwise ``Values``, with NaN for missing values. Gold labels are 1, 0, and -1 for
        "?". ARFF rows have no ids, so documents are numbered from 0.
    """
    name = file_name(path)
    attributes, rows = _parse(_decoded(read_bytes(path)), name)
    labels = _label_positions(attributes, labels_xml, label_names, name)
    table = _read_rows(rows, attributes, name)
    features = sorted(set(range(len(attributes))) - set(labels))
    classes = [attributes[place].name for place in labels]
    dense = [] if all(attributes[place].is_binary for place in features) else features
    limits.check_n_cells(len(rows.lines), len(labels) + len(dense), name, "attributes")
    gold = _gold(table[:, labels], classes, rows, name)
    return Dataset.of(
        _corpus(table[:, features], [attributes[place] for place in features]), gold=gold, classes=classes
    )


@dataclass(frozen=True)
class _Attribute:
    """Name of a column and, if it is nominal, the number of each value."""

    name: str
    codes: dict[str, float] | None = None

    @property
    def is_binary(self) -> bool:
        return self.codes is not None and set(self.codes.values()) <= {0.0, 1.0}

    @property
    def default(self) -> float:
        """Value of the attribute if a sparse row omits it: 0, or the first value of a nominal attribute."""
        return 0.0 if self.codes is None else next(iter(self.codes.values()))

    def number(self, cell: str) -> float | None:
        """Value of a cell: NaN if it is missing, None if it is invalid."""
        if self.codes is not None and cell in self.codes:
            return self.codes[cell]
        if cell == "?":
            return np.nan
        number = _finite(cell)
        return number if self.codes is None or number in self.codes.values() else None


@dataclass(frozen=True)
class _Rows:
    """Lines of data and their row numbers in the file."""

    lines: list[str]
    numbers: list[int]


_YES_NO = {"false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0, "n": 0.0, "y": 1.0}
_QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
_DECLARATION = re.compile(rf"""({_QUOTED}|[^\s'"{{}},%][^\s{{]*)\s*(.*)""", re.DOTALL)
_CELL = re.compile(rf"""(?:[^,'"]+|{_QUOTED})*""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_NOT_A_NUMBER = re.compile(r"[^0-9eE+\-.,\s?]")


# The header


def _decoded(data: bytes) -> str:
    """Text of a file without a declared encoding: UTF-8 if it is valid, else Latin-1."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _parse(text: str, name: str) -> tuple[list[_Attribute], _Rows]:
    """Attributes, and the lines of data."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for row, line in enumerate(lines, start=1):
        if len(line) > limits.MAX_RECORD_LENGTH:
            limits.fail_record_length(name, row)
    attributes: list[_Attribute] = []
    for row, line in enumerate(lines, start=1):
        keyword, *rest = line.split(maxsplit=1) or [""]
        match keyword.lower():
            case "@attribute":
                attributes.append(_attribute("".join(rest), name, row))
                limits.check_n_fields(len(attributes), name, row, "attributes")
            case "@data":
                _check_names(attributes, name)
                return attributes, _data_lines(lines, row)
            case word if word and word != "@relation" and not word.startswith("%"):
                raise DataError(f"{validation.shown(line.strip())} is not a line of an ARFF header", file=name, row=row)
    raise DataError("there is no @data line; is it an ARFF file?", file=name)


def _data_lines(lines: list[str], n_before: int) -> _Rows:
    stripped = [line.strip() for line in lines[n_before:]]
    kept = [place for place, line in enumerate(stripped) if line and not line.startswith("%")]
    return _Rows([stripped[place] for place in kept], [n_before + place + 1 for place in kept])


def _check_names(attributes: list[_Attribute], name: str) -> None:
    if not attributes:
        raise DataError("there is no @attribute line before @data", file=name)
    twice = validation.first_duplicate([attribute.name for attribute in attributes])
    if twice is not None:
        raise DataError("two attributes have this name; rename one", file=name, column=attributes[twice[1]].name)


def _attribute(declaration: str, name: str, row: int) -> _Attribute:
    parts = _DECLARATION.fullmatch(declaration.strip())
    if parts is None:
        raise DataError(f"the attribute {validation.shown(declaration)} has no readable name", file=name, row=row)
    column, kind = validation.name_text(_unquoted(parts[1])), parts[2]
    if kind.startswith("{"):
        codes = _nominal_codes(kind[1:].rpartition("}")[0])
        if codes is not None:
            return _Attribute(column, codes)
    elif kind.lower().split()[:1] in (["numeric"], ["real"], ["integer"]):
        return _Attribute(column)
    problem = (
        f"the type {validation.shown(kind)} is neither numeric nor {{0,1}}; remove the attribute or make it numbers"
    )
    raise DataError(problem, file=name, row=row, column=column)


def _nominal_codes(values: str) -> dict[str, float] | None:
    """Numbers for the values of a nominal attribute: their own, or 0 and 1 for no and yes."""
    codes = {}
    for value in _cells(values) or [""]:
        number = _YES_NO.get(value.lower(), _finite(value))
        if number is None:
            return None
        codes[value] = number
    return codes


def _finite(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in cell else None


def _unquoted(cell: str) -> str:
    """Text of a name or cell; a quoted one has its escapes resolved."""
    cell = cell.strip()
    if len(cell) < 2 or cell[0] not in "'\"" or cell[0] != cell[-1]:
        return cell
    return _ESCAPED.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), cell[1:-1])


def _cells(line: str) -> list[str] | None:
    """Cells between commas outside of quotes; None if a quote is never closed."""
    if "'" not in line and '"' not in line:
        return [cell.strip() for cell in line.split(",")]
    cells: list[str] = []
    place = -1
    while place < len(line):
        match = _CELL.match(line, place + 1)
        cells.append(_unquoted(match[0] if match else ""))
        place = match.end() if match else len(line)
        if line[place : place + 1] not in {",", ""}:
            return None
    return cells


# The rows


def _read_rows(rows: _Rows, attributes: Sequence[_Attribute], name: str) -> Any:
    """(rows, attributes) as numbers, NaN where missing: a sparse array if the rows are sparse, else a dense one."""
    is_sparse = [line.startswith("{") for line in rows.lines]
    if not any(is_sparse):
        table = _plain_numbers(rows.lines, attributes)
        return _careful_numbers(rows, attributes, name) if table is None else table
    if not all(is_sparse):
        row = rows.numbers[is_sparse.index(not is_sparse[0])]
        raise DataError("dense rows and sparse rows {...} do not mix", file=name, row=row)
    return _sparse_numbers(rows, attributes, name)


def _plain_numbers(lines: list[str], attributes: Sequence[_Attribute]) -> Floats | None:
    """Rows of plain numbers, read by NumPy; None for all other rows, which ``_careful_numbers`` reads."""
    if not lines:
        return np.empty((0, len(attributes)))
    if any(map(_NOT_A_NUMBER.search, lines)):
        return None
    try:
        table = np.loadtxt([line.replace("?", "nan") for line in lines], delimiter=",", comments=None, ndmin=2)
    except ValueError:
        return None
    if table.shape != (len(lines), len(attributes)) or np.isinf(table).any():
        return None
    for column, attribute in zip(table.T, attributes, strict=True):
        if attribute.codes and not (np.isin(column, [*attribute.codes.values()]) | np.isnan(column)).all():
            return None
    return table


def _careful_numbers(rows: _Rows, attributes: Sequence[_Attribute], name: str) -> Floats:
    limits.check_n_cells(len(rows.lines), len(attributes), name, "attributes")
    table = np.empty((len(rows.lines), len(attributes)))
    for place, (line, row) in enumerate(zip(rows.lines, rows.numbers, strict=True)):
        cells = _closed_cells(line, name, row)
        if len(cells) != len(attributes):
            raise DataError(f"has {len(cells)} cells, but there are {len(attributes)} attributes", file=name, row=row)
        table[place] = [_number(*pair, name, row) for pair in zip(cells, attributes, strict=True)]
    return table


def _sparse_numbers(rows: _Rows, attributes: Sequence[_Attribute], name: str) -> Any:
    columns: list[int] = []
    numbers: list[float] = []
    ends = [0]
    for line, row in zip(rows.lines, rows.numbers, strict=True):
        pairs = _sparse_pairs(line, len(attributes), name, row)
        columns += pairs
        numbers += [_number(cell, attributes[column], name, row) for column, cell in pairs.items()]
        ends.append(len(columns))
    shape = len(rows.lines), len(attributes)
    default = np.array([attribute.default for attribute in attributes])
    if default.any():
        limits.check_n_cells(*shape, name, "attributes")
        table = np.tile(default, (len(rows.lines), 1))
        table[np.repeat(np.arange(len(rows.lines)), np.diff(ends)), columns] = numbers
        return table
    return sparse.csr_array((np.array(numbers, dtype=np.float64), columns, ends), shape=shape)


def _sparse_pairs(line: str, n_attributes: int, name: str, row: int) -> dict[int, str]:
    """Cells of a row {position cell, position cell, ...}."""
    if not line.endswith("}"):
        raise DataError("the sparse row is not closed by '}'", file=name, row=row)
    pairs: dict[int, str] = {}
    for pair in _closed_cells(line[1:-1], name, row) if line[1:-1].strip() else ():
        position, cell = [*pair.split(maxsplit=1), "", ""][:2]
        column = int(position) if position.isascii() and position.isdigit() and len(position) < 10 else n_attributes
        if column >= n_attributes or column in pairs:
            raise DataError(
                f"{validation.shown(pair)} does not start with a new position from 0 to {n_attributes - 1}",
                file=name,
                row=row,
            )
        pairs[column] = _unquoted(cell)
    return pairs


def _closed_cells(line: str, name: str, row: int) -> list[str]:
    cells = _cells(line)
    if cells is None:
        raise DataError("a quote is opened and never closed", file=name, row=row)
    return cells


def _number(cell: str, attribute: _Attribute, name: str, row: int) -> float:
    number = attribute.number(cell)
    if number is None:
        wanted = "a finite number" if attribute.codes is None else f"one of {validation.listed(attribute.codes)}"
        problem = f"{validation.shown(cell)} is not {wanted}; '?' stands for a missing value"
        raise DataError(problem, file=name, row=row, column=attribute.name)
    return number


# Labels and features


def _label_positions(
    attributes: Sequence[_Attribute], labels_xml: PathLike | None, label_names: Iterable[str] | None, name: str
) -> list[int]:
    if labels_xml is not None and label_names is not None:
        raise DataError("give either labels_xml or label_names, not both")
    if isinstance(label_names, str):
        raise DataError("label_names is a list of names, not one string")
    given = read_label_names(labels_xml) if labels_xml is not None else label_names or ()
    wanted = [validation.name_text(label) for label in given]
    position = {attribute.name: place for place, attribute in enumerate(attributes)}
    for label in wanted:
        if label not in position:
            raise DataError(validation.unknown_name(label, position, "the label"), file=name)
    if len(set(wanted)) < len(wanted):
        raise DataError(f"a label is named twice: {validation.listed(wanted)}", file=name)
    if len(wanted) == len(attributes):
        raise DataError("every attribute is a label; there are no features", file=name)
    places = [position[label] for label in wanted]
    return places if labels_xml is None else sorted(places)


def _gold(table: Any, classes: list[str], rows: _Rows, name: str) -> NDArray[np.int8]:
    values = _dense(table)
    wrong = np.argwhere(~np.isin(values, [0.0, 1.0]) & ~np.isnan(values))
    if len(wrong):
        place, label = wrong[0]
        problem = f"the label is {values[place, label]:g}; labels are 0, 1 or '?'"
        raise DataError(problem, file=name, row=rows.numbers[place], column=classes[label])
    return np.where(np.isnan(values), validation.BLANK, values).astype(np.int8)


def _corpus(table: Any, features: list[_Attribute]) -> Corpus | Values:
    names, doc_ids = names_array(feature.name for feature in features), names_array(range(table.shape[0]))
    if not all(feature.is_binary for feature in features):
        return Values(_dense(table), names, doc_ids)
    counts = sparse.csr_array(table)
    counts.data = np.nan_to_num(counts.data).astype(np.int32)
    counts.sort_indices()
    counts.eliminate_zeros()
    return Corpus(counts, names, doc_ids)


def _dense(table: Any) -> Floats:
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)
