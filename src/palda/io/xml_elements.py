"""Elements of an XML file, read without document types, entities or deep nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from palda.errors import DataError
from palda.io import limits

if TYPE_CHECKING:
    from collections.abc import Callable


def read_elements(
    content: bytes | str,
    file: str,
    what: str,
    start: Callable[[str, dict[str, str], int], None],
    end: Callable[[str], None] = lambda _tag: None,
) -> None:
    """Call ``start`` with tag, attributes and line of each element, and ``end`` with its tag when it is closed.

    ``what`` is the kind of file, such as "a label file". A document type is refused: such files have none, and entities
    declared in it could expand without bound.
    """
    depth = 0
    parser = expat.ParserCreate()

    def open_element(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        row = parser.CurrentLineNumber
        depth += 1
        if depth > limits.MAX_DEPTH:
            raise DataError(f"is nested deeper than {limits.MAX_DEPTH} levels, the limit", file=file, row=row)
        start(tag, attributes, row)

    def close_element(tag: str) -> None:
        nonlocal depth
        depth -= 1
        end(tag)

    def refuse_document_type(*_: object) -> None:
        raise DataError(f"{what} has no document type; remove the <!DOCTYPE> part", file=file)

    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(content, True)
    except expat.ExpatError as broken:
        raise DataError(f"is not XML: {expat.ErrorString(broken.code)}", file=file, row=broken.lineno) from None
    except (ValueError, LookupError) as unreadable:
        if isinstance(unreadable, DataError):
            raise
        raise DataError(f"cannot be decoded: {unreadable}", file=file) from None
