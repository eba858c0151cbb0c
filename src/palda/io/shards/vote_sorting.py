"""Sorts the votes of a file of any length and order into shards, through one temporary file per shard.

The file is read twice: once for the names of classes and annotators, which determine every position, and once to append
each record to the temporary file of its shard. Duplicates are resolved when a shard is put together, by the same rules
as for a file that is read at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from palda.data import BLANK, SourceLocation, VoteRecords, names_array, validation
from palda.errors import DataError
from palda.io.coverage import check_rows, warn_about_blanks
from palda.io.files import file_name
from palda.io.shards.replacement import write_errors
from palda.io.shards.unfinished import RecordCounts
from palda.io.table_files import read_chunks
from palda.io.tables import vote_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from palda.data import Strings, Votes
    from palda.io.sources import ReadOptions
    from palda.io.tables import VoteTable

    Source = str | os.PathLike[str]
    Watch = Callable[[float, int], None]

_ROWS_PER_CHUNK = 10_000
_MAX_PENDING = 1 << 20  # records in memory before they are appended to the temporary files
_DIGEST_BYTES = 16


def digests_of(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """128-bit digest of each id; collisions are practically impossible."""
    digests = [blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest() for name in ids]
    return np.array(digests, dtype=f"S{_DIGEST_BYTES}")


class DocumentIndex:
    """Positions of documents by id, in 24 bytes per document, however long the ids are."""

    def __init__(self, digests: NDArray[np.bytes_], first_ids: list[str]) -> None:
        self._order = np.argsort(digests, kind="stable")
        self._sorted = digests[self._order]
        self._hints = first_ids  # an error may suggest one of them

    def __len__(self) -> int:
        return len(self._sorted)

    def duplicate(self) -> tuple[int, int] | None:
        """Positions of the first duplicate id: its first and its second occurrence."""
        equal = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if not len(equal):
            return None
        again = equal[np.argmin(self._order[equal + 1])]
        return int(self._order[again]), int(self._order[again + 1])

    def positions(self, ids: Strings) -> NDArray[np.int64]:
        """Position of each id; -1 if it is unknown."""
        if not len(self):
            return np.full(len(ids), -1)
        digests = digests_of(ids)
        places = np.minimum(np.searchsorted(self._sorted, digests), len(self) - 1)
        return np.where(self._sorted[places] == digests, self._order[places], -1)

    def document_positions(
        self, ids: Strings, doc: NDArray[np.integer[Any]], where: SourceLocation
    ) -> NDArray[np.int64]:
        """Positions of records whose ``doc`` points into ``ids``; an unknown id is an error."""
        positions: NDArray[np.int64] = self.positions(ids)[doc]
        unknown = np.flatnonzero(positions < 0)
        if len(unknown):
            problem = validation.unknown_name(ids[doc[unknown[0]]], self._hints, "document", len(self))
            where.fail(problem, int(unknown[0]))
        return positions


@dataclass(frozen=True)
class VoteFacts:
    """Names and layout of a file of votes, found in the first pass."""

    classes: list[str]
    annotators: list[str]
    layout: str
    timed: bool
    unite: bool
    soft: bool = False
    kinds: dict[str, str] = field(default_factory=dict)
    """Kinds of the annotators that have one."""
    families: dict[str, str] = field(default_factory=dict)

    def annotator_names(self) -> dict[str, list[str]]:
        """Names of the annotators, and their kinds and families if they are known."""
        traits = {"annotator_kinds": self.kinds, "annotator_families": self.families}
        known = {name: [given.get(one, "") for one in self.annotators] for name, given in traits.items() if given}
        return {"annotators": self.annotators, **known}

    def as_dict(self) -> dict[str, Any]:
        """Fields as JSON."""
        return asdict(self)

    @property
    def record_type(self) -> np.dtype[Any]:
        """Type of a record in a temporary file."""
        columns = [("doc", "<u4"), ("annotator", "<i4"), ("label", "<i4"), ("value", "i1"), ("row", "<i8")]
        columns += [("time", "<f8")] * self.timed + [("probability", "<f4")] * self.soft
        return np.dtype(columns)


@dataclass(frozen=True)
class GroupedVotes:
    """Records of each shard's temporary file, and their SHA-256; a shard without records has no file."""

    shards: dict[int, tuple[RecordCounts, str]]

    @property
    def records(self) -> RecordCounts:
        """Number of records of all shards."""
        counts = [counts for counts, _ in self.shards.values()]
        return RecordCounts(sum(one.votes for one in counts), sum(one.abstentions for one in counts))

    def as_json(self) -> list[Any]:
        """Rows of JSON values."""
        return [[shard, *counts, digest] for shard, (counts, digest) in self.shards.items()]

    @classmethod
    def from_json(cls, rows: list[Any]) -> GroupedVotes:
        """Inverse of ``as_json``."""
        return cls({shard: (RecordCounts(votes, silent), digest) for shard, votes, silent, digest in rows})


class ShardVotes(NamedTuple):
    """Votes on the documents of a shard, and how many records they were made from."""

    votes: Votes
    records: RecordCounts


def scan_votes(path: Source, options: ReadOptions, watch: Watch) -> VoteFacts:
    """First pass over a file of votes: names and layout."""
    annotators: set[str] = set()
    classes: set[str] = set()
    n_rows = n_blank = n_votes = n_lines = n_judging = 0
    first_blank, layout = "", options.layout
    timed = unite = soft = False
    kinds: dict[str, str] = {}
    families: dict[str, str] = {}
    for rows, share in _chunks(path, options):
        found = rows.records
        layout = rows.layout
        annotators.update(found.annotators)
        classes.update(found.classes)
        timed |= found.time is not None
        unite |= found.unite
        soft |= found.probability is not None
        _add_traits(kinds, found.annotator_kinds, found)
        _add_traits(families, found.annotator_families, found)
        n_votes += int(np.count_nonzero(found.value != BLANK))
        first_blank = first_blank or rows.first_blank
        n_blank += rows.n_blank
        n_rows += len(found.value)
        n_lines += rows.n_rows
        n_judging += rows.n_judging
        watch(share, n_rows)
    if layout == "lists" and not classes:
        raise DataError("no list names a class; pass them with classes=[...]", file=file_name(path))
    if n_blank and options.blank is None:
        warn_about_blanks(n_blank, first_blank)
    if not n_votes:
        raise DataError("has no votes; at least one 1 or 0 is needed", file=file_name(path))
    check_rows(file_name(path), n_lines, n_judging)
    axis = sorted(classes) if options.classes is None else names_array(options.classes).tolist()
    return VoteFacts(axis, sorted(annotators), layout, timed, unite, soft, kinds, families)


def _add_traits(known: dict[str, str], traits: Strings | None, records: VoteRecords) -> None:
    """Add the kinds or families of the annotators in some records; those of an annotator must agree."""
    for position, (name, trait) in enumerate(zip(records.annotators, () if traits is None else traits, strict=False)):
        if trait and known.setdefault(name, trait) != trait:
            record = int(np.argmax(records.annotator == position))
            problem = f"annotator {validation.shown(name)} is {trait!r} here and {known[name]!r} in another row"
            records.where.fail(f"{problem}; write one of them", record)


def group_votes(
    path: Source,
    options: ReadOptions,
    facts: VoteFacts,
    index: DocumentIndex,
    docs_per_shard: int,
    temporary: Path,
    watch: Watch,
) -> GroupedVotes:
    """Second pass: append every record to the temporary file of its shard, in file order."""
    fixed_options = replace(options, classes=tuple(facts.classes), layout=facts.layout)
    place = {name: position for position, name in enumerate(facts.annotators)}
    files = _VoteFiles(temporary)
    pending: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    n_pending = n_rows = 0
    for rows, share in _chunks(path, fixed_options):
        found = rows.records
        doc = index.document_positions(found.doc_ids, found.doc, found.where)
        records = np.empty(len(doc), facts.record_type)
        records["doc"] = doc % docs_per_shard
        records["annotator"] = np.array([place[name] for name in found.annotators], dtype=np.int64)[found.annotator]
        records["label"] = found.label
        records["value"] = found.value
        records["row"] = _rows(found)
        if facts.timed:
            records["time"] = np.nan if found.time is None else found.time
        if facts.soft:
            records["probability"] = np.nan if found.probability is None else found.probability
        pending.append((doc // docs_per_shard, records))
        n_pending += len(records)
        n_rows += len(records)
        if n_pending >= _MAX_PENDING:
            files.append(pending)
            pending, n_pending = [], 0
        watch(share, n_rows)
    files.append(pending)
    return files.content()


def _rows(records: VoteRecords) -> np.ndarray[Any, Any]:
    where = records.where
    return np.arange(len(records.value)) + where.first_row if where.rows is None else where.rows


class _VoteFiles:
    """Temporary files of shards, with the number of their records and their checksums."""

    def __init__(self, temporary: Path) -> None:
        self._temporary = temporary
        self._counts: dict[int, RecordCounts] = {}
        self._digests: dict[int, Any] = {}

    def append(self, pending: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        """Append records, given with the numbers of their shards."""
        if not any(len(shards) for shards, _ in pending):
            return
        shard = np.concatenate([shards for shards, _ in pending])
        records = np.concatenate([records for _, records in pending])
        order = np.argsort(shard, kind="stable")
        shard, records = shard[order], records[order]
        cuts = np.flatnonzero(np.diff(shard)) + 1
        for number, part in zip(shard[np.concatenate(([0], cuts))].tolist(), np.split(records, cuts), strict=True):
            content = part.tobytes()
            path = vote_file(self._temporary, number)
            with write_errors(path), path.open("ab") as file:
                file.write(content)
            self._digests.setdefault(number, sha256()).update(content)
            before, more = self._counts.get(number, RecordCounts(0, 0)), _record_counts(part)
            self._counts[number] = RecordCounts(before.votes + more.votes, before.abstentions + more.abstentions)

    def content(self) -> GroupedVotes:
        """What the files must contain."""
        return GroupedVotes(
            {shard: (self._counts[shard], self._digests[shard].hexdigest()) for shard in sorted(self._counts)}
        )


def _record_counts(records: np.ndarray[Any, Any]) -> RecordCounts:
    n_votes = int(np.count_nonzero(records["value"] != BLANK))
    return RecordCounts(n_votes, len(records) - n_votes)


def vote_file(temporary: Path, shard: int) -> Path:
    """Temporary file with the records of a shard."""
    return temporary / f"votes-{shard:05d}"


def votes_of_shard(
    temporary: Path, shard: int, facts: VoteFacts, grouped: GroupedVotes, doc_ids: Strings, rule: str, file: str
) -> ShardVotes:
    """Votes on the documents of a shard, sorted and without duplicates."""
    records = np.empty(0, facts.record_type)
    if shard in grouped.shards:
        path = vote_file(temporary, shard)
        try:
            content = path.read_bytes()
        except OSError as refused:
            raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
        if sha256(content).hexdigest() != grouped.shards[shard][1]:
            raise DataError("was changed after it was written; resume=True writes it again", file=str(path))
        records = np.frombuffer(content, facts.record_type)
    given = VoteRecords(
        records["doc"].astype(np.int64), records["annotator"], records["label"], records["value"], doc_ids,
        names_array(facts.annotators), names_array(facts.classes), SourceLocation(file, records["row"]),
        records["time"] if facts.timed else None, facts.unite, records["probability"] if facts.soft else None,
        *(names_array(facts.annotator_names().get(name, ())) for name in ("annotator_kinds", "annotator_families")),
    )  # fmt: skip
    return ShardVotes(given.votes(cast("Any", rule)), _record_counts(records))


def _chunks(path: Source, options: ReadOptions) -> Iterator[tuple[VoteTable, float]]:
    """Records of a table, some rows at a time."""
    layout: Any = options.layout
    for table, share in read_chunks(path, _ROWS_PER_CHUNK, options.encoding):
        rows = vote_rows(
            table, classes=options.classes, layout=layout, partial=options.partial, present_at=options.present_at,
            ignore=options.ignore, blank=cast("Any", options.blank), columns=dict(options.columns), whole=False,
        )  # fmt: skip
        layout = rows.layout
        yield rows, share
