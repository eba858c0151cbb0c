"""How an answer is written: submission, answer and votes in the log.

On PostgreSQL all of it is one statement, because each statement is a round trip; SQLite needs one per table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import SmallInteger, and_, bindparam, delete, func, insert, select, true, update
from sqlalchemy.dialects import postgresql, sqlite

from palda.live.schema import Key, answer, document, lease, log_head, submission, vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Table


class AnswerRecord(NamedTuple):
    """An answer, its change or its withdrawal."""

    project_id: int
    document_id: int
    person_id: int
    client_id: str
    body_hash: str
    kind: str  # of the submission
    submitted_at: float
    purpose: str
    seconds: float | None
    answer_kind: str
    given_at: float
    n_looks: int  # by which the number of people who look at the document changes, besides the lease that ends


def _given(table: Table, *columns: str, **named: str) -> dict[str, Any]:
    """Parameters of the columns, which are fields of the same names or those of ``named``."""
    names = {column: column for column in columns} | named
    return {column: bindparam(f"new_{name}", type_=table.c[column].type) for column, name in names.items()}


_WHO = "project_id", "document_id", "person_id"
_person, _document = bindparam("new_person_id", type_=Key), bindparam("new_document_id", type_=Key)
_n_entries, _n_looks = bindparam("n_entries", type_=Key), bindparam("new_n_looks", type_=SmallInteger())
_END_LEASE = delete(lease).where(and_(lease.c.person_id == _person, lease.c.document_id == _document))
_ADD_LOOKS = update(document).where(document.c.id == _document).values(n_looks=document.c.n_looks + _n_looks)
_SENT = "client_id", "body_hash", "kind", "submitted_at", "purpose", "seconds"
_ADD_SUBMISSION = insert(submission).values(_given(submission, *_WHO, *_SENT)).returning(submission.c.id)
_RAISE_HEAD = update(log_head).values(position=log_head.c.position + _n_entries).returning(log_head.c.position)


def _set_answer(dialect: Any) -> Any:
    added = dialect.insert(answer).values(_given(answer, *_WHO, kind="answer_kind", answered_at="given_at"))
    changed = {"kind": added.excluded.kind, "answered_at": added.excluded.answered_at}
    return added.on_conflict_do_update(index_elements=[answer.c.person_id, answer.c.document_id], set_=changed)


_SET_ANSWER = _set_answer(sqlite)


def _all_at_once() -> Any:
    """Statement of PostgreSQL that writes everything and returns the number of the submission and the last position."""
    sent, head = _ADD_SUBMISSION.cte("sent"), _RAISE_HEAD.cte("head")
    ended = _END_LEASE.returning(lease.c.document_id).cte("ended")  # another server may have ended it a moment ago
    n_looks = _n_looks - select(func.count()).select_from(ended).scalar_subquery()
    looks = (
        update(document).where(document.c.id == _document, n_looks != 0).values(n_looks=document.c.n_looks + n_looks)
    )
    both = sent.join(head, true())  # one row each
    entry = (
        func.unnest(
            bindparam("label_ids", type_=postgresql.ARRAY(Key)),
            bindparam("values", type_=postgresql.ARRAY(SmallInteger())),
        )
        .table_valued("label_id", "value", with_ordinality="place")
        .render_derived()
    )
    about = _given(vote, *_WHO, "given_at")
    votes = insert(vote).from_select(
        ["position", "submission_id", "label_id", "value", *about],
        select(head.c.position - _n_entries + entry.c.place, sent.c.id, entry.c.label_id, entry.c.value)
        .add_columns(*about.values())
        .select_from(both.join(entry, true())),
    )
    others = looks, _set_answer(postgresql), votes
    parts = (one.cte(f"part_{number}") for number, one in enumerate(others))
    return select(sent.c.id, head.c.position).select_from(both).add_cte(*parts)


_ALL_AT_ONCE = _all_at_once()


def add_answer(
    connection: Connection, record: AnswerRecord, entries: Sequence[tuple[int, int | None]]
) -> tuple[int, int]:
    """Write an answer with the class and value of each vote, and end its lease.

    Returns the number of the submission and its last position in the log. An answer without votes takes a position
    too, so that listeners see that something happened.
    """
    given = {f"new_{name}": value for name, value in record._asdict().items()} | {"n_entries": max(len(entries), 1)}
    if connection.dialect.name == "postgresql":
        label_ids, values = [label_id for label_id, _ in entries], [value for _, value in entries]
        row = connection.execute(_ALL_AT_ONCE, {**given, "label_ids": label_ids, "values": values}).one()
        return int(row[0]), int(row[1])
    n_looks = record.n_looks - connection.execute(_END_LEASE, given).rowcount
    if n_looks:
        connection.execute(_ADD_LOOKS, {**given, "new_n_looks": n_looks})
    connection.execute(_SET_ANSWER, given)
    submission_id = int(connection.execute(_ADD_SUBMISSION, given).scalar_one())
    last = int(connection.execute(_RAISE_HEAD, given).scalar_one())
    if entries:
        about = {name: getattr(record, name) for name in (*_WHO, "given_at")} | {"submission_id": submission_id}
        rows = [
            {**about, "position": position, "label_id": label_id, "value": value}
            for position, (label_id, value) in enumerate(entries, last - len(entries) + 1)
        ]
        connection.execute(insert(vote), rows)
    return submission_id, last
