"""Mulan's XML files of label names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.errors import DataError
from palda.io import limits
from palda.io.files import file_name, read_bytes
from palda.io.xml_elements import read_elements

if TYPE_CHECKING:
    import os


def read_label_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the labels in Mulan's XML, nested ones included."""
    file = file_name(path)
    found: list[str] = []

    def start(tag: str, attributes: dict[str, str], row: int) -> None:
        if tag.rpartition(":")[2] != "label":
            return
        if "name" not in attributes:
            raise DataError("the <label> has no name", file=file, row=row)
        found.append(attributes["name"])
        limits.check_n_fields(len(found), file, row, "labels")

    read_elements(read_bytes(path), file, "a label file", start)
    if not found:
        raise DataError('names no <label name="...">', file=file)
    return found
