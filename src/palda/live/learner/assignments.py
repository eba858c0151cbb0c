"""Who should look at what next: keeps a short queue of documents for every annotator who is at work."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import and_, delete, func, insert, select

from palda.live import schema
from palda.live.learner import log_columns
from palda.live.learner.writes import Paced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from sqlalchemy import Connection

    from palda.live.learner.live_model import LiveModel
    from palda.live.learner.log_columns import VoteColumns
    from palda.live.records import ProjectSettings
    from palda.live.store import Store

ACTIVE_SECONDS = 1800.0
"""Somebody who has done nothing for this long gets no documents reserved; the next request shows that they are back."""

_MIN_LENGTH, _MAX_LENGTH = 2, 60  # of a queue
_SHARE = 0.25  # of one processor, for assignments
_MAX_PAIRS = 400  # per call, so that the log is followed meanwhile; 0.5 s with 100,000 documents of 20 classes
_PERIODS, _MAX_SECONDS = 8.0, 30.0  # a queue holds the work of so many calls, and of so many seconds at most
_RATE_SECONDS = 60.0  # over which speeds are averaged
_MIN_PERIOD, _IDLE_PERIOD = 0.1, 1.0  # seconds between two looks at the queues; with nobody at work
_ROWS_PER_WRITE = 100
_CLOCK_SECONDS = 60.0  # by which clocks and the duration of transactions may differ


class _Member(NamedTuple):
    """An annotator who may get documents."""

    name: str
    n_queued: int
    last_rank: int


class _State(NamedTuple):
    """What the store says before a refill."""

    members: dict[int, _Member]
    pending: list[tuple[int, int]]  # people and documents under way


class Activity:
    """Who is at work, and how fast."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._rate: dict[int, float] = {}  # documents per second
        self._counted_at = time.time()

    def add(self, entries: VoteColumns) -> None:
        """Count the documents of new entries of the log."""
        now = time.time()
        elapsed, self._counted_at = max(now - self._counted_at, 0.0), now  # the clock may be set back
        recent = entries.take(entries.time > now - _RATE_SECONDS)
        pairs = np.unique(np.column_stack((recent.person, recent.document)), axis=0)
        people, counts = np.unique(pairs[:, 0], return_counts=True)
        weight = math.exp(-elapsed / _RATE_SECONDS)
        self._rate = {person: rate * weight for person, rate in self._rate.items()}
        for person, count in zip(people.tolist(), counts.tolist(), strict=True):
            self._rate[person] = self._rate.get(person, 0.0) + count / _RATE_SECONDS
        last = dict(zip(entries.person.tolist(), entries.time.tolist(), strict=True))
        for person, at in last.items():
            self.see(person, at)

    def see(self, person: int, at: float) -> None:
        """Note that a person did something."""
        self._seen[person] = max(at, self._seen.get(person, 0.0))

    def present(self) -> list[int]:
        """People who did something lately."""
        since = time.time() - ACTIVE_SECONDS
        return [person for person, at in self._seen.items() if at > since]

    def rate(self, person: int) -> float:
        """Documents per second."""
        return self._rate.get(person, 0.0)


class Assignments:
    """Refills the queues of a project, spending a bounded share of the time."""

    def __init__(self, store: Store, project_id: int) -> None:
        self._store, self._project_id = store, project_id
        self.activity = Activity()
        self._next_at = 0.0
        self._period = 0.0  # seconds between refills
        self._usual: list[list[str]] = []  # classes that documents were asked for last
        self._declined: set[tuple[int, int]] = set()
        self._declined_at: dict[int, float] = {}  # when the answers of a person were read last

    def refill(self, live: LiveModel, settings: ProjectSettings) -> int:
        """Queue documents for people whose queue is short; returns how many."""
        start, used = time.monotonic(), time.process_time()
        if start < self._next_at:
            return 0
        state = self._store.read(self._read)
        self._drop_absent(state)
        wanted = self._wanted(state)
        n_queued = 0
        if wanted:
            self._store.read(lambda connection: live.learn_names(connection, state.members))
            n_queued = self._assign(live, settings, state, wanted)
            self._period = (time.process_time() - used) / _SHARE
        self._next_at = start + max(self._period if wanted else 0.0, _MIN_PERIOD if state.members else _IDLE_PERIOD)
        return n_queued

    def _read(self, connection: Connection) -> _State:
        lease, queue = schema.lease.c, schema.queue.c
        now, project_id = time.time(), self._project_id
        leases = connection.execute(
            select(lease.person_id, lease.document_id, lease.leased_at).where(
                lease.project_id == project_id, lease.expires_at > now
            )
        ).all()
        for person, _, at in leases:
            self.activity.see(person, at)
        queued = connection.execute(
            select(queue.person_id, queue.document_id).where(queue.project_id == project_id)
        ).all()
        members = self._members(connection)
        self._read_declined(connection, list(members), now)
        return _State(members, [(row[0], row[1]) for row in (*leases, *queued)])

    def _read_declined(self, connection: Connection, people: Sequence[int], now: float) -> None:
        """Documents that people have answered without a vote; only answers that are new since the last time."""
        answer = schema.answer.c
        since = min((self._declined_at.get(person, 0.0) for person in people), default=now)
        query = select(answer.person_id, answer.document_id).where(
            answer.project_id == self._project_id, answer.person_id.in_(people), answer.answered_at >= since,
            answer.kind.in_(("cannot_tell", "skip")),
        )  # fmt: skip
        self._declined.update((row[0], row[1]) for row in connection.execute(query))
        self._declined_at.update(dict.fromkeys(people, now - _CLOCK_SECONDS))

    def _members(self, connection: Connection) -> dict[int, _Member]:
        """Annotators at work who are not paused."""
        member, person, queue = schema.member.c, schema.person.c, schema.queue.c
        joined = select(member.person_id, member.joined_at).where(
            member.project_id == self._project_id, member.joined_at > time.time() - ACTIVE_SECONDS,
            member.role != "viewer",
        )  # fmt: skip
        for row in connection.execute(joined):
            self.activity.see(row[0], row[1])
        stopped = select(member.person_id).where(
            member.project_id == self._project_id, member.is_paused | (member.role == "viewer")
        )
        members = select(member.person_id).where(member.project_id == self._project_id)
        query = select(person.id, person.name).where(
            person.id.in_(self.activity.present()), person.id.not_in(stopped), person.is_owner | person.id.in_(members)
        )
        names = dict(connection.execute(query).all())
        lengths = (
            select(queue.person_id, func.count(), func.max(queue.rank))
            .where(queue.project_id == self._project_id)
            .group_by(queue.person_id)
        )
        found = {row[0]: (int(row[1]), int(row[2])) for row in connection.execute(lengths)}
        return {number: _Member(name, *found.get(number, (0, -1))) for number, name in names.items()}

    def _drop_absent(self, state: _State) -> None:
        """Free the documents that are queued for people who have left or are paused."""
        absent = {person for person, _ in state.pending} - set(state.members)
        queue = schema.queue
        which = and_(queue.c.project_id == self._project_id, queue.c.person_id.in_(absent))
        query = select(queue.c.rank).where(which).limit(1)
        if absent and self._store.read(lambda connection: connection.execute(query).scalar()) is not None:
            self._store.write(lambda connection: connection.execute(delete(queue).where(which)), is_logged=False)

    def _wanted(self, state: _State) -> dict[int, int]:
        """Documents that people need now: those first whose queue is used up first, as many as one call may take."""
        horizon = min(max(_PERIODS * self._period, 1.0), _MAX_SECONDS)
        short: list[tuple[float, int, int]] = []
        for person, member in state.members.items():
            rate = self.activity.rate(person)
            full = min(_MIN_LENGTH + math.ceil(rate * horizon), _MAX_LENGTH)
            if member.n_queued <= full / 2:
                short.append(((member.n_queued + 1) / (rate + 1e-3), person, full - member.n_queued))
        wanted: dict[int, int] = {}
        n_pairs = 0
        for _, person, n in sorted(short):
            if n_pairs + n > _MAX_PAIRS and wanted:
                break
            wanted[person] = n
            n_pairs += n
        return wanted

    def _assign(self, live: LiveModel, settings: ProjectSettings, state: _State, wanted: dict[int, int]) -> int:
        names = {person: live.name_of.get(person, state.members[person].name) for person in state.members}
        pending = self._pairs(live, state.pending, names)
        table = live.model.assign(
            [names[person] for person, n in wanted.items() for _ in range(n)],
            pending=pending,
            exclude=self._pairs(live, sorted(self._declined), names),
            max_votes_per_doc=settings.max_votes_per_doc,
            ask=settings.ask,
            check_share=settings.check_share if settings.target_error is not None else 0.0,
            random_gold=settings.random_gold and live.is_random_gold,
            gold_share=settings.gold_share,
        )
        person_of = {name: person for person, name in names.items() if person in wanted}
        rows = self._rows(live, table, person_of, {person: one.last_rank for person, one in state.members.items()})
        pieces = [rows[first : first + _ROWS_PER_WRITE] for first in range(0, len(rows), _ROWS_PER_WRITE)]
        return sum(Paced(self._store).write(*(partial(self._insert, rows=piece) for piece in pieces)))

    def _pairs(
        self, live: LiveModel, pairs: Sequence[tuple[int, int]], names: dict[int, str]
    ) -> list[tuple[str, str]] | None:
        """Names of annotators and documents that the model knows; people who are absent get a name of no annotator."""
        rows = live.rows_of(np.array([document for _, document in pairs], dtype=np.int64))
        docs = live.model.doc_ids_
        found = [
            (names.get(person, f"\x00{person}"), str(docs[row]))
            for (person, _), row in zip(pairs, rows.tolist(), strict=True)
            if row >= 0
        ]
        return found or None

    def _rows(
        self, live: LiveModel, table: pd.DataFrame, person_of: dict[str, int], ranks: dict[int, int]
    ) -> list[dict[str, Any]]:
        """Rows of the queue from a table of assignments, the best first."""
        label_of = dict(zip(live.model.classes_.tolist(), live.label_ids.tolist(), strict=True))
        if "labels" in table and "purpose" in table:
            self._usual = table["labels"][table["purpose"] == "gain"].tolist() or self._usual
        rows = []
        for one in table.to_dict("records"):
            document, person = live.id_of[one["doc"]], person_of[one["annotator"]]
            if document < 0:
                continue
            ranks[person] += 1
            asked = [label_of[name] for name in self._asked_labels(one, ranks[person])] if "labels" in one else None
            rows.append(
                {
                    "project_id": self._project_id, "person_id": person, "rank": ranks[person],
                    "document_id": document, "purpose": one.get("purpose", "gain"), "gain": float(one["gain"]),
                    "label_ids": asked if asked and len(asked) < len(label_of) else None, "position": live.position,
                }
            )  # fmt: skip
        return rows

    def _asked_labels(self, one: dict[Any, Any], rank: int) -> list[str]:
        """Classes to ask for; a test that asked for all would be known by that, so that it asks for what is usual."""
        labels: list[str] = one["labels"]
        if one.get("purpose") != "gold":
            return labels
        usual = self._usual or [labels[::2], labels[1::2]]
        return usual[rank % len(usual)]

    def _insert(self, connection: Connection, rows: list[dict[str, Any]]) -> int:
        """Insert those rows whose pairs were neither answered nor leased nor queued meanwhile."""
        documents = [row["document_id"] for row in rows]
        taken = set(self._taken(connection, documents))
        there = log_columns.existing_documents(connection, documents)
        people = {row["person_id"] for row in rows}
        known = set(log_columns.person_names(connection, people))
        kept = [
            row
            for row in rows
            if (row["person_id"], row["document_id"]) not in taken
            and row["document_id"] in there
            and row["person_id"] in known
        ]
        if kept and not self._is_stopped(connection):
            connection.execute(insert(schema.queue), kept)
            return len(kept)
        return 0

    def _taken(self, connection: Connection, documents: Sequence[int]) -> Iterable[tuple[int, int]]:
        for table in (schema.answer, schema.lease, schema.queue):
            columns = table.c
            which = and_(columns.project_id == self._project_id, columns.document_id.in_(documents))
            if table is schema.answer:
                which = and_(which, columns.kind.not_in(schema.OPEN))
            yield from connection.execute(select(columns.person_id, columns.document_id).where(which))

    def _is_stopped(self, connection: Connection) -> bool:
        project = schema.project.c
        query = select(project.is_complete | project.is_paused).where(project.id == self._project_id)
        return bool(connection.execute(query).scalar())
