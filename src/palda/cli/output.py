"""Results as text, CSV, JSON, JSON lines or Parquet, on standard output or in a file."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from palda.cli.console import TerminalStream, print_table, printable, standard_output
from palda.errors import PaldaError
from palda.io import replaceable, replacing, reserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from palda.report import TableView

    Record = dict[str, Any]

_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Target:
    """Where results go: a file whose suffix gives the format, or standard output (``path`` is None)."""

    path: Path | None
    format: str
    """``"text"`` (standard output only), ``"csv"``, ``"json"``, ``"jsonl"`` or ``"parquet"``."""
    force: bool = False
    spreadsheet_safe: bool = False
    """Whether CSV cells that a spreadsheet would run as formulas start with an apostrophe."""

    @classmethod
    def file(cls, path: Path, *, force: bool = False, spreadsheet_safe: bool = False) -> Target:
        """A file; raises ``PaldaError`` before the work starts if it cannot be written."""
        if path.suffix.lower() not in _FORMATS:
            raise PaldaError(f"{path}: results are written to .csv, .json, .jsonl or .parquet; choose such a name")
        with _write_errors(path):
            check_target(path, force=force)
        return cls(path, _FORMATS[path.suffix.lower()], force, spreadsheet_safe)


def check_target(path: Path, *, force: bool) -> None:
    """Raise ``PaldaError`` if ``path`` exists (without ``force``), is not a regular file, or cannot be written.

    Of a symbolic link, the file that it points to is what will be written.
    """
    if path.is_dir():
        raise PaldaError(f"{path} is a folder; give the name of a file")
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise PaldaError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise PaldaError(f"{path} cannot be written: no permission to write to the folder {folder}")
    replaceable(path)
    if os.path.lexists(path) and not force:
        raise PaldaError(f"{path} already exists; pass --force to overwrite it, or choose another name")


@contextmanager
def output_files(outputs: Sequence[Path], inputs: Sequence[Path] = (), *, force: bool) -> Iterator[None]:
    """Check and reserve the files that are written in the block, before any work.

    Raises ``PaldaError`` if one of them cannot be written, is named twice, is an input or in a folder of inputs, or is
    being written by another process.
    """
    with ExitStack() as stack:
        for number, path in enumerate(outputs):
            with _write_errors(path):
                check_target(path, force=force)
                for other in outputs[:number]:
                    if _is_same(path, other):
                        raise PaldaError(f"{path} and {other} are the same file; give each output a name of its own")
                for source in inputs:
                    _check_source(path, source)
                stack.enter_context(reserved(path))
        yield


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names belong to one file, by symbolic links or hard links as well."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def _check_source(path: Path, source: Path) -> None:
    if _is_same(path, source):
        raise PaldaError(f"{path} is an input of this command; write the output to another file")
    real, folder = Path(os.path.realpath(path)), Path(os.path.realpath(source))
    if source.is_dir() and folder in real.parents and (real.exists() or (folder / "manifest.json").exists()):
        raise PaldaError(f"{path} is in the folder {source}, an input of this command; write the output elsewhere")


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PaldaError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """A temporary file that replaces ``path`` when the block succeeds and is removed otherwise."""
    with _write_errors(path):
        check_target(path, force=force)
        with replacing(path) as unfinished:
            yield unfinished


def write_table(view: TableView, target: Target) -> None:
    """Write a table; as aligned text if the target's format is ``"text"``."""
    if target.format != "text":
        write_records([view.rows], target, tuple(view.columns))
        return
    headings = [name.replace("_", " ") for name in view.columns]
    numeric = [any(isinstance(row.get(name), (int, float)) for row in view.rows) for name in view.columns]
    with standard_output():
        print_table(view.title, headings, view.texts(), view.notes, numeric=numeric)


def write_records(blocks: Iterable[Sequence[Record]], target: Target, columns: Sequence[str] = ()) -> None:
    """Write records block by block, so that their number is not limited by memory.

    CSV holds a list as ``a;b``, and probabilities and numbers of votes in one column per class. Without records, its
    header has ``columns``.
    """
    if target.path is None:
        with standard_output():
            stream: TextIO = cast("TextIO", TerminalStream()) if sys.stdout.isatty() else sys.stdout
            _write_stream(blocks, stream, target, columns)
        return
    with new_file(target.path, force=target.force) as unfinished:
        if target.format == "parquet":
            _write_parquet(blocks, unfinished)
        else:
            with unfinished.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
                _write_stream(blocks, stream, target, columns)


def _write_stream(
    blocks: Iterable[Sequence[Record]], stream: TextIO, target: Target, columns: Sequence[str] = ()
) -> None:
    if target.format == "csv":
        _write_csv(blocks, stream, columns, spreadsheet_safe=target.spreadsheet_safe)
    else:
        _WRITERS[target.format](blocks, stream)


def labels_cell(labels: Sequence[str]) -> str:
    """Labels in one cell, in a form that ``read_votes`` reads."""
    if any(";" in label or label.startswith("[") or label != label.strip() for label in labels):
        return json.dumps(list(labels), ensure_ascii=False)
    return ";".join(labels)


def json_text(record: Record, indent: int | None = None) -> str:
    """A record as JSON; NaN becomes null."""
    return json.dumps(_json_value(record), ensure_ascii=False, indent=indent)


def _write_text(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    """One line per document with its labels and probabilities, then one line per label with its word evidence."""
    for record in chain.from_iterable(blocks):
        labels = [f"{label} {record['probabilities'][label]:.2f}" for label in record["labels"]]
        lines = [f"{record['doc']}: {', '.join(labels) or '(none)'}"]
        lines += [f"    {label}: {_evidence_text(words)}" for label, words in record.get("words", {}).items()]
        stream.writelines(f"{printable(line)}\n" for line in lines)


def _write_csv(
    blocks: Iterable[Sequence[Record]], stream: TextIO, columns: Sequence[str] = (), *, spreadsheet_safe: bool
) -> None:
    quoting: Any = csv.QUOTE_NONNUMERIC if spreadsheet_safe else csv.QUOTE_MINIMAL
    writer = None
    for record in chain.from_iterable(blocks):
        cells = _flat(record)
        if spreadsheet_safe:
            cells = {_safe_cell(name): _safe_cell(cell) for name, cell in cells.items()}
        if writer is None:
            writer = csv.DictWriter(stream, list(cells), lineterminator="\n", quoting=quoting)
            writer.writeheader()
        writer.writerow(cells)
    if writer is None and columns:
        csv.writer(stream, lineterminator="\n", quoting=quoting).writerow(columns)


_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _safe_cell(cell: Any) -> Any:
    """The cell with an apostrophe before a text that a spreadsheet would run as a formula; numbers stay."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def _write_json(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    separator = "[\n"
    for record in chain.from_iterable(blocks):
        stream.write(f"{separator} {json_text(record)}")
        separator = ",\n"
    stream.write("[]\n" if separator == "[\n" else "\n]\n")


def _write_json_lines(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    for record in chain.from_iterable(blocks):
        stream.write(json_text(record) + "\n")


_WRITERS = {"text": _write_text, "json": _write_json, "jsonl": _write_json_lines}


def _write_parquet(blocks: Iterable[Sequence[Record]], path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    try:
        for block in blocks:
            rows = [_flat(record) | {"labels": record["labels"]} if "labels" in record else record for record in block]
            table = pa.Table.from_pylist(rows, schema=None if writer is None else writer.schema)
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


_PER_CLASS = {"probabilities": "p", "n_votes": "n_votes", "n_present": "n_present"}


def _flat(record: Record) -> Record:
    """The record with a number or a text in every cell."""
    cells: Record = {}
    for name, value in record.items():
        if name in _PER_CLASS and isinstance(value, dict):
            cells |= {f"{_PER_CLASS[name]}_{label}": number for label, number in value.items()}
        elif isinstance(value, dict):
            cells[name] = " | ".join(f"{label}: {_evidence_text(words)}" for label, words in value.items())
        elif isinstance(value, (list, tuple)):
            cells[name] = labels_cell(value)
        else:
            cells[name] = _json_value(value)
    return cells


def _evidence_text(words: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{word} {weight:+.2f}" for word, weight in words)


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json_value(cell) for name, cell in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
