"""Tables of results: means and standard deviations over seeds, as Markdown, CSV and records."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from palda.paper.cells import CellRecord


@dataclass(frozen=True)
class Stat:
    """Mean over seeds and the sample standard deviation, which is NaN for a single seed."""

    mean: float
    spread: float
    n_seeds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Stat | None:
        """Statistic of the values that are not NaN; None if there are none."""
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return None
        return cls(fmean(known), stdev(known) if len(known) > 1 else math.nan, len(known))


Value: TypeAlias = Stat | str | float | None


@dataclass(frozen=True)
class Column:
    """Name of a measure in the rows, its heading, and the number of decimals."""

    name: str
    heading: str
    digits: int = 3


@dataclass(frozen=True)
class Table:
    """Rows under columns; a value that a row does not have is left blank."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Value], ...]
    notes: tuple[str, ...] = ()

    def texts(self) -> list[list[str]]:
        """Formatted cells, row by row."""
        return [[format_value(row.get(column.name), column.digits) for column in self.columns] for row in self.rows]


def summarise(records: Sequence[CellRecord]) -> dict[str, Value]:
    """Statistic of every measure over records that differ only in their seed."""
    names = dict.fromkeys(name for record in records for name in record.measures)
    return {name: Stat.of(record.measures.get(name, math.nan) for record in records) for name in names}


def format_value(value: Value, digits: int) -> str:
    """Text of a value: ``.772 ± .003``, without decimals from 100 on."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Stat):
        spread = "" if math.isnan(value.spread) else f" ± {_number(value.spread, digits)}"
        return _number(value.mean, digits) + spread
    return _number(value, digits)


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    text = f"{value:.{0 if abs(value) >= 100 else digits}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def to_markdown(table: Table) -> str:
    """A table in Markdown, with its title above and its notes below."""
    head = [column.heading for column in table.columns]
    lines = [f"**{table.title}**", "", _row(head), _row("---" for _ in head), *map(_row, table.texts())]
    return "\n".join([*lines, *(line for note in table.notes for line in ("", note))]) + "\n"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def to_records(tables: Iterable[Table]) -> list[dict[str, str | float | int | None]]:
    """One record per row with the title of its table; a statistic becomes mean, spread and number of seeds."""
    return [_flat(table.title, row) for table in tables for row in table.rows]


def _flat(title: str, row: Mapping[str, Value]) -> dict[str, str | float | int | None]:
    flat: dict[str, str | float | int | None] = {"table": title}
    for name, value in row.items():
        if isinstance(value, Stat):
            spread = None if math.isnan(value.spread) else value.spread
            flat |= {name: value.mean, f"{name}_spread": spread, f"{name}_seeds": value.n_seeds}
        else:
            flat[name] = value
    return flat


def to_csv(tables: Iterable[Table]) -> str:
    """All rows of all tables as one CSV text; columns that a table does not have are blank."""
    records = to_records(tables)
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
