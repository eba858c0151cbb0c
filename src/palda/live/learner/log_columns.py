"""What the learner reads from the store, as columns: votes of the log, events, names and known labels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import func, select

from palda.live import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Select

    Ints = NDArray[np.int64]

WITHDRAWN = -1
"""Value of an entry that withdraws a vote."""

REMOVALS = frozenset({"document_deleted", "annotator_erased", "annotator_renamed"})
"""Events after which a model must not be stored: it contains data that are gone."""

_ROWS_PER_FETCH = 20_000
_MAX_IDS_PER_QUERY = 500


class VoteColumns(NamedTuple):
    """Entries of the log of votes, in its order."""

    position: Ints
    document: Ints  # ids
    person: Ints
    label: Ints
    value: NDArray[np.int8]  # 1, 0 or WITHDRAWN
    time: NDArray[np.float64]

    def take(self, rows: Any) -> VoteColumns:
        """Some of the entries."""
        return VoteColumns(*(column[rows] for column in self))

    def last_per_vote(self) -> VoteColumns:
        """The last entry of each document, annotator and class."""
        order = np.lexsort((self.label, self.person, self.document))  # stable: equal ones stay in the order of the log
        keys = np.column_stack((self.document, self.person, self.label))[order]
        is_last = np.append((keys[1:] != keys[:-1]).any(axis=1), True) if len(keys) else np.empty(0, dtype=bool)
        return self.take(np.sort(order[is_last]))


class Event(NamedTuple):
    """An entry of the log that is no vote."""

    kind: str
    details: dict[str, Any]


def vote_columns(connection: Connection, project_id: int, after: int, limit: int | None = None) -> VoteColumns:
    """Votes of a project after a position, at most ``limit`` entries."""
    vote = schema.vote.c
    query = (
        select(
            vote.position, vote.document_id, vote.person_id, vote.label_id,
            func.coalesce(vote.value, WITHDRAWN), vote.given_at,
        )
        .where(vote.project_id == project_id, vote.position > after)
        .order_by(vote.position)
        .limit(limit)
    )  # fmt: skip
    numbers = _numbers(connection, query, 6)
    position, document, person, label = (numbers[:, column].astype(np.int64) for column in range(4))
    return VoteColumns(position, document, person, label, numbers[:, 4].astype(np.int8), numbers[:, 5].copy())


def _numbers(connection: Connection, query: Select[Any], n_columns: int) -> NDArray[np.float64]:
    """(rows, columns): a query of numbers below 2^53, fetched in pieces so that no row objects pile up."""
    found = connection.execution_options(yield_per=_ROWS_PER_FETCH).execute(query)
    pieces = [
        np.fromiter(itertools.chain.from_iterable(rows), np.float64).reshape(-1, n_columns)
        for rows in found.partitions()
    ]
    return np.concatenate(pieces) if pieces else np.empty((0, n_columns))


def events(connection: Connection, project_id: int, after: int, until: int) -> list[Event]:
    """Events of a project after one position, up to another."""
    event = schema.event.c
    query = (
        select(event.kind, event.details)
        .where(event.project_id == project_id, event.position > after, event.position <= until)
        .order_by(event.position)
    )
    return [Event(row[0], row[1] or {}) for row in connection.execute(query)]


def has_removals(connection: Connection, project_id: int, after: int) -> bool:
    """Whether data of a project were removed after a position."""
    event = schema.event.c
    query = select(event.kind).where(event.project_id == project_id, event.position > after, event.kind.in_(REMOVALS))
    return connection.execute(query.limit(1)).first() is not None


def document_names(connection: Connection, project_id: int) -> tuple[Ints, list[str]]:
    """Ids and names of all documents of a project, in ascending order of ids."""
    document = schema.document.c
    query = select(document.id, document.name).where(document.project_id == project_id).order_by(document.id)
    rows = connection.execute(query).all()
    return np.array([row[0] for row in rows], dtype=np.int64), [row[1] for row in rows]


def texts(connection: Connection, document_ids: Sequence[int]) -> dict[int, str]:
    """Texts of some documents by id."""
    document = schema.document.c
    return dict(_some(connection, select(document.id, document.text), document.id, document_ids))


def existing_documents(connection: Connection, document_ids: Sequence[int]) -> set[int]:
    """Those of the documents that were not deleted."""
    document = schema.document.c
    return {row[0] for row in _some(connection, select(document.id), document.id, document_ids)}


def person_names(connection: Connection, person_ids: Iterable[int]) -> dict[int, str]:
    """Names of people by id; those who were erased are left out."""
    person = schema.person.c
    return dict(_some(connection, select(person.id, person.name), person.id, list(person_ids)))


def people_with_answers(connection: Connection, project_id: int, person_ids: Sequence[int]) -> set[int]:
    """Those of the people who have answered something in a project."""
    answer, person = schema.answer.c, schema.person.c
    has_answer = select(answer.document_id).where(answer.project_id == project_id, answer.person_id == person.id)
    query = select(person.id).where(has_answer.exists())
    return {row[0] for row in _some(connection, query, person.id, person_ids)}


class GoldRow(NamedTuple):
    """A known label."""

    document_id: int
    label_id: int
    value: int
    is_random: bool


def gold_rows(connection: Connection, project_id: int, document_ids: Sequence[int] | None = None) -> list[GoldRow]:
    """Known labels of a project, or of some of its documents."""
    gold = schema.gold.c
    query = select(gold.document_id, gold.label_id, gold.value, gold.is_random).where(gold.project_id == project_id)
    if document_ids is None:
        return [GoldRow(*row) for row in connection.execute(query)]
    return [GoldRow(*row) for row in _some(connection, query, gold.document_id, document_ids)]


def _some(
    connection: Connection, query: Select[*tuple[Any, ...]], column: ColumnElement[int], ids: Sequence[int]
) -> Iterator[Any]:
    """Rows of a query whose column is one of the ids, in pieces that fit into one query."""
    for first in range(0, len(ids), _MAX_IDS_PER_QUERY):
        yield from connection.execute(
            query.where(column.in_([int(one) for one in ids[first : first + _MAX_IDS_PER_QUERY]]))
        )
