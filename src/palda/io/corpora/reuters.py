"""The Reuters-21578 collection: SGML files of news stories with their topics."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import Dataset, Documents, names_array, shown
from palda.errors import DataError
from palda.io import limits
from palda.io.files import file_name, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_reuters(source: Source) -> Dataset:
    """Read the news stories and topics of Reuters-21578 from its SGML files.

    Parameters
    ----------
    source : path or iterable of paths
        Folder with the ``.sgm`` files (also gzipped), one such file, or several.

    Returns
    -------
    Dataset
        ``Documents`` in file order; the ids are NEWID. A text is the title, a line break and the body, or the text that
        replaces the body in stories without one (``kind`` BRIEF and UNPROC); author and dateline are omitted. The
        fields are ``title``, ``split`` (LEWISSPLIT), ``topics`` (the TOPICS attribute), ``kind`` and ``date``. The
        classes are all topics that occur, sorted. The labels of a story without topics whose TOPICS attribute is not
        YES are unknown (-1): it may never have been indexed.
    """
    stories: list[_Story] = []
    home: dict[str, str] = {}
    for path in _sgml_files(source):
        name = file_name(path)
        for story in _stories(read_text(path, encoding="latin-1"), name):
            if story.newid in home:
                other = home[story.newid]
                raise DataError(
                    f"the story {shown(story.newid)} is in {other} too; remove one", file=name, row=story.row
                )
            home[story.newid] = name
            stories.append(story)
    if not stories:
        raise DataError("no files were given to read stories from")
    documents = Documents(
        names_array(story.newid for story in stories),
        _texts(f"{story.title}\n{story.body}".strip() for story in stories),
        {
            field: _texts(getattr(story, field) for story in stories)
            for field in ("title", "split", "topics", "kind", "date")
        },
    )
    classes = sorted({name for story in stories for name in story.topic_names})
    limits.check_n_fields(len(classes), name, what="topics")
    limits.check_n_cells(len(stories), len(classes), name, "topics")
    return Dataset.of(documents, gold=_gold(stories, classes), classes=classes)


class _Story(NamedTuple):
    newid: str
    row: int
    title: str
    body: str
    split: str
    topics: str
    kind: str
    date: str
    topic_names: tuple[str, ...]


def _sgml_files(source: Source) -> list[str | os.PathLike[str]]:
    if not isinstance(source, (str, os.PathLike)):
        return list(source)
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    files = sorted(path for path in folder.iterdir() if re.search(r"\.sgml?(\.gz)?$", path.name, re.IGNORECASE))
    if not files:
        raise DataError("the folder has no .sgm or .sgm.gz files", file=str(source))
    return [*files]


def _stories(text: str, name: str) -> Iterator[_Story]:
    start = text.find("<REUTERS")
    if start < 0:
        raise DataError("has no <REUTERS> story; is it a file of Reuters-21578?", file=name)
    row = 1
    counted = 0
    while start >= 0:
        row += text.count("\n", counted, start)
        counted = start
        end = text.find("</REUTERS>", start)
        following = text.find("<REUTERS", start + 1)
        if end < 0 or 0 <= following < end:
            raise DataError("the story has no </REUTERS>; the file is damaged or cut short", file=name, row=row)
        if end - start > limits.MAX_RECORD_LENGTH:
            limits.fail_record_length(name, row)
        yield _story(text[start:end], name, row)
        start = following


def _story(markup: str, name: str, row: int) -> _Story:
    attributes = _attributes(markup.partition(">")[0])
    newid = attributes.get("NEWID", "").strip()
    if not newid:
        raise DataError("the story has no NEWID", file=name, row=row)
    opening = _TEXT.search(markup)
    text = markup[opening.end() :].partition("</TEXT>")[0] if opening else ""
    return _Story(
        newid,
        row,
        title=" ".join(_plain(_element(text, "TITLE")).split()),
        body=_plain(_element(text, "BODY") or _outside(text, ("TITLE", "AUTHOR", "DATELINE"))).strip(),
        split=attributes.get("LEWISSPLIT", ""),
        topics=attributes.get("TOPICS", ""),
        kind=_attributes(opening[1]).get("TYPE", "NORM") if opening else "",
        date=_plain(_element(markup, "DATE")).strip(),
        topic_names=tuple(filter(None, (_plain(part).strip() for part in _items(_element(markup, "TOPICS"))))),
    )


_TEXT = re.compile(r"<TEXT\b([^<>]*)>")
_ATTRIBUTE = re.compile(r'(?<![A-Z])([A-Z]+)="([^"]*)"')
_ENTITY = re.compile(r"&(?:#(\d{1,7})|(lt|gt|amp|quot|apos));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL = {point: None for point in (*range(0x20), *range(0x7F, 0xA0)) if chr(point) not in "\t\n"}


def _attributes(opening: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in _ATTRIBUTE.findall(opening)}


def _element(markup: str, tag: str) -> str:
    """Content of the first element with this tag, "" if there is none."""
    return markup.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]


def _outside(markup: str, tags: Iterable[str]) -> str:
    """Markup without the first element of each tag."""
    for tag in tags:
        before, opening, rest = markup.partition(f"<{tag}>")
        if opening:
            markup = f"{before}\n{rest.partition(f'</{tag}>')[2]}"
    return markup


def _items(markup: str) -> list[str]:
    """Contents of the <D> elements of a list."""
    return [part.partition("</D>")[0] for part in markup.split("<D>")[1:]]


def _plain(markup: str) -> str:
    """Text with its entities resolved; the control characters of the wire service are removed."""
    return _ENTITY.sub(_character, markup).translate(_CONTROL)


def _character(entity: re.Match[str]) -> str:
    number, named = entity.groups()
    if named:
        return _NAMED[named]
    point = int(number)
    return chr(point) if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF else ""


def _texts(texts: Iterable[str]) -> NDArray[np.object_]:
    listed = list(texts)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _gold(stories: list[_Story], classes: list[str]) -> NDArray[np.int8]:
    position = {name: place for place, name in enumerate(classes)}
    gold = np.zeros((len(stories), len(classes)), dtype=np.int8)
    for row, story in enumerate(stories):
        if not story.topic_names and story.topics != "YES":
            gold[row] = -1
        gold[row, [position[name] for name in story.topic_names]] = 1
    return gold
