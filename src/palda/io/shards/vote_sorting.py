"""Votes of a file of any length, in any order, sorted into shards: through files on disk, a shard at a time in memory.

The file is read twice: once for the names of classes and annotators, which decide about every position, and once to
append each record to the file of its shard. What counts where records disagree is settled when a shard is put
together, by the same rules as for a file that is read at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palda.data import BLANK, SourceLocation, VoteRecords, names_array
from palda.errors import DataError
from palda.io.files import file_name
from palda.io.sources import guess_format, read_any_votes
from palda.io.table_files import read_chunks
from palda.io.tables import VoteTable, vote_rows, warn_about_blanks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palda.data import Strings, Votes
    from palda.io.shards.document_index import DocIndex
    from palda.io.sources import ReadOptions

    Source = str | os.PathLike[str]
    Watch = Callable[[float, int], None]

__all__ = ["VoteFacts", "group_votes", "scan_votes", "votes_of_shard"]

_ROWS = 10_000  # of a file, in memory at a time
_RECORDS = 1 << 20  # in memory before they are appended to the files of their shards


@dataclass(frozen=True)
class VoteFacts:
    """What must be known of all votes before any can be put in its place."""

    classes: list[str]
    annotators: list[str]
    layout: str
    timed: bool
    unite: bool

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON knows it."""
        return asdict(self)

    @property
    def record_type(self) -> np.dtype[Any]:
        """A record in the file of a shard, as compact as may be: there are many."""
        columns = [("doc", "<u4"), ("annotator", "<i4"), ("label", "<i4"), ("value", "i1"), ("row", "<i8")]
        return np.dtype([*columns, ("time", "<f8")] if self.timed else columns)


def scan_votes(path: Source, options: ReadOptions, watch: Watch) -> VoteFacts:
    """Names in a file of votes, and how it is laid out."""
    annotators: set[str] = set()
    classes: set[str] = set()
    n_rows = n_blank = n_votes = 0
    first_blank, layout = "", options.layout
    timed = unite = False
    for rows, share in _chunks(path, options):
        found = rows.records
        layout = rows.layout
        annotators.update(found.annotators)
        classes.update(found.classes)
        timed |= found.time is not None
        unite |= found.unite
        n_votes += int(np.count_nonzero(found.value != BLANK))
        first_blank = first_blank or rows.first_blank
        n_blank += rows.n_blank
        n_rows += len(found.value)
        watch(share, n_rows)
    if layout == "lists" and not classes:
        raise DataError("no class is named in any list; say which there are with classes=[...]", file=file_name(path))
    if n_blank and options.blank is None:
        warn_about_blanks(n_blank, first_blank)
    if not n_votes:
        raise DataError("holds not a single vote; at least one 1 or 0 is needed", file=file_name(path))
    axis = sorted(classes) if options.classes is None else names_array(options.classes).tolist()
    return VoteFacts(axis, sorted(annotators), layout, timed, unite)


def group_votes(
    path: Source,
    options: ReadOptions,
    facts: VoteFacts,
    index: DocIndex,
    docs_per_shard: int,
    room: Path,
    watch: Watch,
) -> None:
    """Append every record to the file of its shard, in the order in which they stand in the file."""
    settled = replace(options, classes=tuple(facts.classes), layout=facts.layout)
    place = {name: position for position, name in enumerate(facts.annotators)}
    waiting: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    n_waiting = n_rows = 0
    for rows, share in _chunks(path, settled):
        found = rows.records
        doc = index.joined(found.doc_ids, found.doc, found.where)
        records = np.empty(len(doc), facts.record_type)
        records["doc"] = doc % docs_per_shard
        records["annotator"] = np.array([place[name] for name in found.annotators], dtype=np.int64)[found.annotator]
        records["label"] = found.label
        records["value"] = found.value
        records["row"] = _rows(found)
        if facts.timed:
            records["time"] = np.nan if found.time is None else found.time
        waiting.append((doc // docs_per_shard, records))
        n_waiting += len(records)
        n_rows += len(records)
        if n_waiting >= _RECORDS:
            _append(waiting, room)
            waiting, n_waiting = [], 0
        watch(share, n_rows)
    _append(waiting, room)


def _rows(records: VoteRecords) -> np.ndarray[Any, Any]:
    where = records.where
    return np.arange(len(records.value)) + where.first_row if where.rows is None else where.rows


def _append(waiting: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]], room: Path) -> None:
    if not any(len(shards) for shards, _ in waiting):
        return
    shard = np.concatenate([shards for shards, _ in waiting])
    records = np.concatenate([records for _, records in waiting])
    order = np.argsort(shard, kind="stable")
    shard, records = shard[order], records[order]
    cuts = np.flatnonzero(np.diff(shard)) + 1
    for number, part in zip(shard[np.concatenate(([0], cuts))], np.split(records, cuts), strict=True):
        with _file(room, int(number)).open("ab") as file:
            file.write(part.tobytes())


def _file(room: Path, shard: int) -> Path:
    return room / f"votes-{shard:05d}"


def votes_of_shard(room: Path, shard: int, facts: VoteFacts, doc_ids: Strings, rule: str, file: str) -> Votes:
    """Votes on the documents of a shard, sorted and settled."""
    path = _file(room, shard)
    records = np.fromfile(path, facts.record_type) if path.is_file() else np.empty(0, facts.record_type)
    given = VoteRecords(
        records["doc"].astype(np.int64), records["annotator"], records["label"], records["value"], doc_ids,
        names_array(facts.annotators), names_array(facts.classes), SourceLocation(file, records["row"]),
        records["time"] if facts.timed else None, facts.unite,
    )  # fmt: skip
    return given.votes(cast("Any", rule))


def _chunks(path: Source, options: ReadOptions) -> Iterator[tuple[VoteTable, float]]:
    """Records of a table, some rows at a time; an export of a labelling platform is read at once."""
    kind = guess_format(path, options.encoding) if options.format == "auto" else options.format
    if kind != "table":
        yield VoteTable(_as_records(read_any_votes(path, options), file_name(path)), "auto"), 1.0
        return
    layout: Any = options.layout
    for table, share in read_chunks(path, _ROWS, options.encoding):
        rows = vote_rows(
            table, classes=options.classes, layout=layout, partial=options.partial, present_at=options.present_at,
            ignore=options.ignore, blank=cast("Any", options.blank), columns=dict(options.columns), whole=False,
        )  # fmt: skip
        layout = rows.layout
        yield rows, share


def _as_records(votes: Votes, file: str) -> VoteRecords:
    silent = np.full(len(votes.abstained), BLANK)
    return VoteRecords(
        np.concatenate((votes.doc, votes.abstained[:, 0])),
        np.concatenate((votes.annotator, votes.abstained[:, 1])),
        np.concatenate((votes.label, silent)),
        np.concatenate((votes.value, silent)),
        votes.doc_ids,
        votes.annotators,
        votes.classes,
        SourceLocation(file, first_row=0),
    )
