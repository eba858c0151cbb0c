"""Results as CSV, JSON, JSON lines or Parquet: to standard output, or to a file that appears whole or not at all."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TextIO

from palda.cli.console import print_view, printable, results
from palda.errors import PaldaError
from palda.io import atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from palda.report import View

    Record = dict[str, Any]

__all__ = ["check_target", "emit_records", "emit_view", "form_of", "label_text", "replacing"]

_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}


def form_of(output: Path | None, *, as_json: bool, as_csv: bool) -> str:
    """How results are to be written: what the file's name says, else the flags, else for people."""
    if output is None:
        return "json" if as_json else "csv" if as_csv else "people"
    suffix = output.suffix.lower()
    if suffix not in _SUFFIXES:
        raise PaldaError(f"{output}: results are written to .csv, .json, .jsonl or .parquet; choose such a name")
    return _SUFFIXES[suffix]


def check_target(path: Path, *, force: bool) -> None:
    """Complain now rather than after the work about a file that could not be written."""
    if path.is_dir():
        raise PaldaError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise PaldaError(f"{path} is there already; pass --force to replace it, or choose another name")
    if not path.parent.is_dir():
        raise PaldaError(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise PaldaError(f"{path} cannot be written: the folder {path.parent} does not allow it")


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[Path]:
    """A file to write to; it takes the place of ``path`` if all goes well, and vanishes otherwise."""
    check_target(path, force=force)
    try:
        with atomic.replacing(path) as unfinished:
            yield unfinished
    except OSError as refused:
        raise PaldaError(f"{path} cannot be written: {refused.strerror or refused}") from refused


def emit_view(view: View, output: Path | None, form: str, *, force: bool = False) -> None:
    """A table, all at once."""
    if output is None and form == "people":
        with results():
            print_view(view)
    else:
        emit_records([view.rows], output, form, force=force)


def emit_records(blocks: Iterable[Sequence[Record]], output: Path | None, form: str, *, force: bool = False) -> None:
    """Records as they come, so that there may be any number of them.

    A list in a cell of CSV is written ``a;b``, and a mapping as a column for each of its keys.
    """
    if form == "parquet" and output is not None:
        with replacing(output, force=force) as unfinished:
            _write_parquet(blocks, unfinished)
        return
    write = {"people": _write_lines, "csv": _write_csv, "json": _write_json, "jsonl": _write_json_lines}[form]
    with _stream(output, force=force) as stream:
        write(blocks, stream)


@contextmanager
def _stream(output: Path | None, *, force: bool) -> Iterator[TextIO]:
    if output is None:
        with results():
            yield sys.stdout
    else:
        with (
            replacing(output, force=force) as unfinished,
            unfinished.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream,
        ):
            yield stream


def label_text(labels: Sequence[str]) -> str:
    """Labels in one cell, as ``read_votes`` understands them."""
    if any(";" in label or label.startswith("[") or label != label.strip() for label in labels):
        return json.dumps(list(labels), ensure_ascii=False)
    return ";".join(labels)


def _write_lines(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    """A line a document: its labels with their probabilities, then the words that spoke for them."""
    for record in chain.from_iterable(blocks):
        found = [f"{label} {record['probabilities'][label]:.2f}" for label in record["labels"]]
        lines = [f"{record['doc']}: {', '.join(found) or '(none)'}"]
        lines += [f"    {label}: {_words_text(words)}" for label, words in record.get("words", {}).items()]
        stream.writelines(f"{printable(line)}\n" for line in lines)


def _write_csv(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    writer = None
    for record in chain.from_iterable(blocks):
        cells = _flat(record)
        if writer is None:
            writer = csv.DictWriter(stream, list(cells), lineterminator="\n")
            writer.writeheader()
        writer.writerow(cells)


def _write_json(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    before = "[\n"
    for record in chain.from_iterable(blocks):
        stream.write(f"{before} {json.dumps(_plain(record), ensure_ascii=False)}")
        before = ",\n"
    stream.write("[]\n" if before == "[\n" else "\n]\n")


def _write_json_lines(blocks: Iterable[Sequence[Record]], stream: TextIO) -> None:
    for record in chain.from_iterable(blocks):
        stream.write(json.dumps(_plain(record), ensure_ascii=False) + "\n")


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


def _flat(record: Record) -> Record:
    """Record in which every cell is a number or a text."""
    cells: Record = {}
    for name, value in record.items():
        if name == "probabilities":
            cells |= {f"p_{label}": probability for label, probability in value.items()}
        elif isinstance(value, dict):
            cells[name] = " | ".join(f"{label}: {_words_text(words)}" for label, words in value.items())
        elif isinstance(value, (list, tuple)):
            cells[name] = label_text(value)
        else:
            cells[name] = _plain(value)
    return cells


def _words_text(words: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{word} {weight:+.2f}" for word, weight in words)


def _plain(value: Any) -> Any:
    """Value as JSON knows it; what could not be measured is null."""
    if isinstance(value, dict):
        return {name: _plain(cell) for name, cell in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return None
    return value
