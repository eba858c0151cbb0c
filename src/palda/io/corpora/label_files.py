"""Mulan's XML files of label names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from palda.errors import DataError
from palda.io import limits
from palda.io.files import file_name, read_bytes

if TYPE_CHECKING:
    import os


def read_label_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the labels in Mulan's XML, nested ones included."""
    content, name = read_bytes(path), file_name(path)
    labels = _LabelNames(name)
    try:
        labels.parser.Parse(content, True)
    except expat.ExpatError as broken:
        raise DataError(f"is not XML: {expat.ErrorString(broken.code)}", file=name, row=broken.lineno) from None
    except (ValueError, LookupError) as unreadable:
        if isinstance(unreadable, DataError):
            raise
        raise DataError(f"cannot be decoded: {unreadable}", file=name) from None
    if not labels.found:
        raise DataError('names no <label name="...">', file=name)
    return labels.found


class _LabelNames:
    """Collects the names while a parser reads the file.

    A document type is refused: label files have none, and entities declared in it could expand without bound.
    """

    def __init__(self, file: str) -> None:
        self.found: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._document_type
        self._file = file
        self._depth = 0

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        row = self.parser.CurrentLineNumber
        self._depth += 1
        if self._depth > limits.MAX_DEPTH:
            raise DataError(f"is nested deeper than {limits.MAX_DEPTH} levels, the limit", file=self._file, row=row)
        if tag.rpartition(":")[2] != "label":
            return
        if "name" not in attributes:
            raise DataError("the <label> has no name", file=self._file, row=row)
        self.found.append(attributes["name"])
        limits.check_n_fields(len(self.found), self._file, row, "labels")

    def _end(self, _tag: str) -> None:
        self._depth -= 1

    def _document_type(self, *_: object) -> None:
        raise DataError("a label file has no document type; remove the <!DOCTYPE> part", file=self._file)
