"""Exports of doccano: one file per user, in a zip archive or a folder."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from palda.data import validation
from palda.errors import DataError, PaldaWarning, reason_of
from palda.io import limits
from palda.io.csv_files import csv_rows
from palda.io.exports.rows import ABSTAINED, Answer, Export, Row, class_names, field_names, is_empty
from palda.io.files import check_header, decode_text, file_name, read_bytes
from palda.io.json_text import json_lines, parse_record

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from palda.data import Dataset

    EmptyRule = Literal["none", "abstained", "missing"]

_SUFFIXES = frozenset({".jsonl", ".json", ".csv"})
_TEXT_FIELDS = ("text", "data", "filename")
_OWN_FIELDS = ("id", "Comments")
_LABEL_FIELDS = ("label", "labels", "categories", "cats")
_BROKEN_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, struct.error, LookupError,
    ArithmeticError,
)  # fmt: skip


def read_doccano(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    empty: EmptyRule | None = None,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read a doccano export of text classification with one file per user.

    The name of a file is the annotator. ``unknown.jsonl``, which some versions write, has documents that nobody
    labelled. ``all.jsonl`` comes from projects that share annotations across users. It does not name the annotators and
    is refused.

    doccano writes an empty list both for "no class applies" and for a document that the user never opened, unless only
    approved documents are exported: then a file has only the documents that its user marked as done.

    Parameters
    ----------
    path : str or path-like
        The exported zip archive, a folder with the files, or the file of one user: JSONL, JSON or CSV. Nothing is
        unpacked to disk. An archive may have up to 10,000 files and 1 GiB.
    text : str, optional
        Field that holds the text. By default ``text``, ``data`` or ``filename``.
    label : str, optional
        Field that holds the classes. By default ``label`` and the like. CSV files join classes with ``#``.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default those that were chosen, sorted.
    partial : bool, default False
        Treat classes that a list does not name as not judged (default: absent).
    empty : {"none", "abstained", "missing"}, optional
        Meaning of an empty list: no class applies, the user looked but gave no judgement, or the user never looked.
        By default "none" if the users have different documents, as in an export of approved documents, else "missing"
        with a warning.
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Labels to keep if a user contradicts themselves.
    encoding : str, optional
        Encoding of files that are not UTF-8.

    Returns
    -------
    Dataset
        Documents with their meta data as fields, votes, and no gold labels.
    """
    validation.require_choice(empty, (None, "none", "abstained", "missing"), "empty")
    file = file_name(path)
    known = None if classes is None else list(classes)
    users = [(source.user, list(_rows(source, encoding))) for source in _sources(path)]
    header = field_names([row for _, rows in users for row in rows], file)
    text_name = _field(header, text, _TEXT_FIELDS, "text", file)
    label_name = _field(header, label, _LABEL_FIELDS, "label", file)
    export = Export("annotations", "without labels")
    looks: list[_Look] = []
    for user, rows in users:
        for row in rows:
            doc = row.name("id")
            fields = {
                name: cell for name, cell in row.cells.items() if name not in {*_OWN_FIELDS, text_name, label_name}
            }
            export.add_document(row, doc, row.text(text_name), fields)
            labels = _labels(row, label_name, known)
            if user != "unknown":
                looks.append(_Look(row, doc, user, labels))
            elif labels:
                export.add_unused("of unknown users")
    rule = empty or _guess_empty(looks, file)
    for look in looks:
        if look.labels or rule != "missing":
            answer = ABSTAINED if not look.labels and rule == "abstained" else Answer(look.labels)
            export.add_annotation(look.row, look.doc, look.user, answer)
    return export.dataset(path, classes=known, partial=partial, duplicates=duplicates)


class _Look(NamedTuple):
    row: Row
    doc: str
    user: str
    labels: list[str]


def _field(header: Sequence[str], given: str | None, usual: Iterable[str], role: str, file: str) -> str:
    if given is not None:
        return validation.find_column(header, role, given, validation.SourceLocation(file)) or given
    found = next((name for name in usual if name in header), None)
    if found is None:
        problem = f"no field holds the {role}; choose one of {validation.listed(header)} with {role}='...'"
        raise DataError(problem if header else "has no documents", file=file)
    return found


def _labels(row: Row, field: str, known: Sequence[str] | None) -> list[str]:
    value = row.cells.get(field)
    if is_empty(value):
        return []
    if isinstance(value, str):
        value = value.split("#") if row.file.lower().endswith(".csv") else [value]
    names = class_names(value)
    if names is None:
        row.fail(f"{validation.shown(value)} is not a list of classes; only text classification can be read", field)
    for name in names:
        if known is not None and name not in known:
            row.fail(validation.unknown_name(name, known, "class"), field)
    return names


def _guess_empty(looks: Sequence[_Look], file: str) -> EmptyRule:
    """Meaning of an empty list: an answer only if the users have different documents, those they marked as done."""
    empty = [look for look in looks if not look.labels]
    docs: dict[str, set[str]] = {}
    for look in looks:
        docs.setdefault(look.user, set()).add(look.doc)
    if not empty or len(set(map(frozenset, docs.values()))) > 1:
        return "none"
    warnings.warn(
        f"{file}: {len(empty)} documents without labels, the first in {empty[0].row.file}, row {empty[0].row.number}, "
        "were treated as not seen by that user; export only approved documents, or pass empty='none' if no class "
        "applies to them (empty='missing' suppresses this warning)",
        PaldaWarning,
        stacklevel=3,
    )
    return "missing"


# Files


class _Source(NamedTuple):
    user: str
    file: str
    content: bytes


def _sources(path: str | os.PathLike[str]) -> list[_Source]:
    """Files of the users, in the order of their names."""
    sources = _in_folder(Path(path)) if Path(path).is_dir() else _in_file(path)
    if not sources:
        raise DataError("has no .jsonl, .json or .csv file; export from doccano as JSONL", file=file_name(path))
    for source in sources:
        if source.user == "all":
            raise DataError(
                "does not name the annotators: the project shares annotations across users; switch 'Share annotations "
                "across all users' off in its settings and export again, which gives one file per user",
                file=source.file,
            )
    return sorted(sources, key=lambda source: (source.user, source.file))


def _source(file: str, content: bytes) -> _Source:
    return _Source(PurePosixPath(file).stem, file, content)


def _is_export(file: str) -> bool:
    name = PurePosixPath(file)
    return name.suffix.lower() in _SUFFIXES and not name.name.startswith(".") and "__MACOSX" not in name.parts


def _in_folder(folder: Path) -> list[_Source]:
    try:
        found = [item for item in folder.iterdir() if _is_export(item.name)]
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=folder.name) from refused
    _check_size(len(found), sum(item.stat().st_size for item in found), folder.name)
    return [_source(f"{folder.name}/{item.name}", read_bytes(item)) for item in found]


def _check_size(n_files: int, n_bytes: int, name: str) -> None:
    if n_files > limits.MAX_ARCHIVE_FILES or n_bytes > limits.MAX_ARCHIVE_BYTES:
        raise DataError(
            f"holds more than {limits.MAX_ARCHIVE_FILES:,} files or {limits.MAX_ARCHIVE_BYTES:,} bytes, the limits; "
            "export fewer users or documents at a time",
            file=name,
        )


def _in_file(path: str | os.PathLike[str]) -> list[_Source]:
    content = read_bytes(path)
    if not content.startswith(b"PK"):
        return [_source(file_name(path), content)] if _is_export(file_name(path)) else []
    try:
        return _in_archive(content, file_name(path))
    except DataError:
        raise
    except _BROKEN_ARCHIVE as broken:
        raise DataError(
            f"the archive is damaged ({reason_of(broken)}); export it again", file=file_name(path)
        ) from None


def _in_archive(content: bytes, name: str) -> list[_Source]:
    _check_size(content.count(_ENTRY), 0, name)  # before the directory of the archive is read
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [member for member in archive.infolist() if not member.is_dir() and _is_export(member.filename)]
        # zipfile never returns more bytes than the stated size, so the sum is an upper bound
        n_bytes = sum(member.file_size for member in members)
        _check_size(len(members), n_bytes, name)
        limits.check_unpacked(n_bytes, len(content), name)
        for member in members:
            _check_member(member, name)
        return [_source(f"{name}/{member.filename}", archive.read(member)) for member in members]


_ENTRY = b"PK\x01\x02"  # starts each entry in the directory of a zip archive


def _check_member(member: zipfile.ZipInfo, name: str) -> None:
    shown = validation.shown(member.filename)
    path = PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"{shown} is a path outside of the archive; export it again", file=name)
    if member.flag_bits & 1:
        raise DataError(f"{shown} is encrypted; unpack it and give the folder", file=name)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{shown} uses an unusual compression; unpack it and give the folder", file=name)


def _rows(source: _Source, encoding: str | None) -> Iterator[Row]:
    text = decode_text(source.content, encoding, source.file)
    suffix = PurePosixPath(source.file).suffix.lower()
    if suffix == ".csv":
        yield from _csv_records(text, source.file)
    elif suffix == ".json":
        yield from _json_records(text, source.file)
    else:
        for number, record in json_lines(text.split("\n"), source.file):
            yield Row(source.file, number, record)


def _csv_records(text: str, file: str) -> Iterator[Row]:
    rows = csv_rows(io.StringIO(text, newline=""), ",", file)
    _, header = next(rows, (0, []))
    check_header(header, validation.SourceLocation(file))
    for number, cells in rows:
        if len(cells) != len(header):
            problem = f"has {len(cells)} cells where the header has {len(header)}"
            raise DataError(problem, file=file, row=number)
        yield Row(file, number, dict(zip(header, cells, strict=True)))


def _json_records(text: str, file: str) -> Iterator[Row]:
    records = parse_record(text, file, None) if text.strip() else []
    for number, record in enumerate(records if isinstance(records, list) else [records], start=1):
        if not isinstance(record, dict):
            raise DataError(f"{validation.shown(record)} is not an object", file=file, row=number)
        yield Row(file, number, record)
