"""What annotators do: the next document, answers, undo."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, delete, exists, func, insert, not_, select, update
from sqlalchemy.exc import IntegrityError

from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import NoTask, OwnProgress, ProjectSettings, Receipt, Task
from palda.live.schema import answer, document, label, lease, project, queue, submission, vote
from palda.live.service.names import checked_name
from palda.live.store import next_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection, Row

    from palda.live.records import Actor, Answer
    from palda.live.store import Store

_MAX_EXPIRED = 100  # leases that one request ends
_MAX_CLIENT_ID = 64


class _Choice(NamedTuple):
    """A document for somebody, and why."""

    document_id: int
    purpose: str
    label_ids: list[int] | None


class _Held(NamedTuple):
    """A lease, with what its task needs."""

    person_id: int
    project_id: int
    document_id: int
    purpose: str
    label_ids: list[int] | None
    expires_at: float


def next_task(store: Store, actor: Actor, project_id: int) -> Task | NoTask:
    """The document that a person should judge now; the same again until it is answered.

    The first is one that the person holds already, then the best of those that ``assign`` chose, then the document
    that the fewest have judged.
    """

    def find(connection: Connection) -> Task | NoTask:
        row = _project_row(connection, project_id)
        settings, now = ProjectSettings.from_json(row.settings), time.time()
        reason = _why_none(actor, row)
        if reason is not None:
            return reason
        held = _held_lease(connection, actor.person_id, project_id)
        if held is not None:
            return _renewed(connection, held, now + settings.lease_seconds)
        _end_expired(connection, project_id, now)
        chosen = _from_queue(connection, actor.person_id, project_id, settings) or _fewest_looks(
            connection, actor.person_id, project_id, settings
        )
        if chosen is None:
            has_any = connection.execute(select(document.c.id).where(document.c.project_id == project_id).limit(1))
            return NoTask("nothing_left" if has_any.first() is not None else "no_documents")
        return _leased(connection, actor.person_id, project_id, chosen, now, settings)

    return store.write(find)


def submit(store: Store, actor: Actor, project_id: int, given: Answer) -> Receipt:
    """Store an answer. The same request again is acknowledged without storing it twice."""
    client_id = _checked_client_id(given.client_id)
    if given.kind != "votes" and given.votes:
        raise InvalidRequestError(f"an answer of the kind {given.kind} has no votes")
    if given.kind == "votes" and not given.votes:
        raise InvalidRequestError("no class is judged; say cannot_tell or skip instead")
    body = {"document": given.document_id, "kind": given.kind, "votes": sorted(given.votes.items())}

    def keep(connection: Connection) -> Receipt:
        repeated = _repeated(connection, actor.person_id, project_id, client_id, body)
        if repeated is not None:
            return repeated
        _check_document(connection, project_id, given.document_id)
        held = _end_lease(connection, actor.person_id, given.document_id)
        before = _answer_kind(connection, actor.person_id, given.document_id)
        entries = _entries(connection, project_id, given, held)
        counted = held is not None or before in ("votes", "cannot_tell")
        _add_looks(connection, given.document_id, int(given.kind != "skip") - int(counted))
        _set_answer(connection, actor.person_id, project_id, given.document_id, given.kind, before)
        return _log(
            connection, actor.person_id, project_id, given.document_id, client_id, given.kind, body, held, entries
        )

    return store.write(keep)


def undo(store: Store, actor: Actor, project_id: int, client_id: str) -> Task | NoTask:
    """Withdraw the last answer; its document comes back with the earlier votes."""
    client_id = _checked_client_id(client_id)

    def withdraw(connection: Connection) -> Task | NoTask:
        row = _project_row(connection, project_id)
        if _repeated(connection, actor.person_id, project_id, client_id, {"kind": "undo"}) is None:
            _withdraw_last(connection, actor, project_id, client_id, ProjectSettings.from_json(row.settings))
        held = _held_lease(connection, actor.person_id, project_id)
        return NoTask("nothing_left") if held is None else _task(connection, held)

    return store.write(withdraw)


def own_progress(store: Store, actor: Actor, project_id: int) -> OwnProgress:
    """Documents that a person has answered, in all and since midnight UTC."""
    today = time.time() // 86400 * 86400
    n_today = func.coalesce(func.sum(case((answer.c.answered_at >= today, 1), else_=0)), 0)
    query = select(func.count(), n_today).where(
        answer.c.project_id == project_id,
        answer.c.person_id == actor.person_id,
        answer.c.kind.in_(("votes", "cannot_tell")),
    )
    return store.read(lambda connection: OwnProgress(*(int(n) for n in connection.execute(query).one())))


def _project_row(connection: Connection, project_id: int) -> Row[*tuple[Any, ...]]:
    columns = project.c.settings, project.c.is_paused, project.c.is_complete
    row = connection.execute(select(*columns).where(project.c.id == project_id)).one_or_none()
    if row is None:
        raise NotFoundError("there is no such project")
    return row


def _why_none(actor: Actor, row: Row[*tuple[Any, ...]]) -> NoTask | None:
    if actor.is_paused:
        return NoTask("you_are_paused")
    if row.is_paused:
        return NoTask("paused")
    return NoTask("complete") if row.is_complete else None


def _held_lease(connection: Connection, person_id: int, project_id: int) -> _Held | None:
    columns = (lease.c[name] for name in _Held._fields)
    query = select(*columns).where(lease.c.person_id == person_id, lease.c.project_id == project_id)
    row = connection.execute(query.order_by(lease.c.leased_at.desc()).limit(1)).one_or_none()
    return None if row is None else _Held(*row)


def _renewed(connection: Connection, held: _Held, expires_at: float) -> Task:
    mine = and_(lease.c.person_id == held.person_id, lease.c.document_id == held.document_id)
    connection.execute(update(lease).where(mine).values(expires_at=expires_at))
    return _task(connection, held._replace(expires_at=expires_at))


def _task(connection: Connection, held: _Held) -> Task:
    row = connection.execute(select(document.c.name, document.c.text).where(document.c.id == held.document_id)).one()
    labels = held.label_ids or _label_ids(connection, held.project_id)
    votes = _last_votes(connection, held.person_id, held.document_id) if held.purpose == "undo" else {}
    return Task(held.document_id, row.name, row.text, tuple(labels), held.expires_at, votes)


def _label_ids(connection: Connection, project_id: int) -> list[int]:
    query = select(label.c.id).where(label.c.project_id == project_id).order_by(label.c.number)
    return list(connection.execute(query).scalars())


def _end_expired(connection: Connection, project_id: int, now: float) -> None:
    expired = select(lease.c.person_id, lease.c.document_id).where(
        lease.c.project_id == project_id, lease.c.expires_at < now
    )
    for row in connection.execute(expired.limit(_MAX_EXPIRED)).all():
        _end_lease(connection, row.person_id, row.document_id)
        _add_looks(connection, row.document_id, -1)


def _end_lease(connection: Connection, person_id: int, document_id: int) -> Row[*tuple[Any, ...]] | None:
    """Delete a lease; returns it."""
    mine = and_(lease.c.person_id == person_id, lease.c.document_id == document_id)
    columns = lease.c.purpose, lease.c.label_ids, lease.c.leased_at
    return connection.execute(delete(lease).where(mine).returning(*columns)).one_or_none()


def _add_looks(connection: Connection, document_id: int, n: int) -> None:
    if n:
        raised = update(document).where(document.c.id == document_id).values(n_looks=document.c.n_looks + n)
        connection.execute(raised)


def _is_answered(person_id: int) -> ColumnElement[bool]:
    mine = and_(answer.c.person_id == person_id, answer.c.document_id == document.c.id, answer.c.kind != "undone")
    return exists().where(mine)


def _from_queue(connection: Connection, person_id: int, project_id: int, settings: ProjectSettings) -> _Choice | None:
    """The best document that ``assign`` chose for somebody and that is still wanted; it leaves the queue."""
    mine = and_(queue.c.project_id == project_id, queue.c.person_id == person_id)
    wanted = (document.c.n_looks < settings.max_votes_per_doc) | document.c.is_gold
    query = (
        select(queue.c.rank, queue.c.document_id, queue.c.purpose, queue.c.label_ids)
        .join(document, document.c.id == queue.c.document_id)
        .where(mine, not_(_is_answered(person_id)), wanted)
        .order_by(queue.c.rank)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    connection.execute(delete(queue).where(mine, queue.c.rank <= row.rank))
    return _Choice(row.document_id, row.purpose, row.label_ids)


def _fewest_looks(connection: Connection, person_id: int, project_id: int, settings: ProjectSettings) -> _Choice | None:
    open_ones = and_(
        document.c.project_id == project_id,
        document.c.n_looks < settings.max_votes_per_doc,
        not_(document.c.is_gold),
    )
    query = select(document.c.id).where(open_ones, not_(_is_answered(person_id)))
    found = connection.execute(query.order_by(document.c.n_looks, document.c.shuffle).limit(1)).scalar()
    return None if found is None else _Choice(found, "overlap", None)


def _leased(
    connection: Connection,
    person_id: int,
    project_id: int,
    chosen: _Choice,
    now: float,
    settings: ProjectSettings,
) -> Task:
    held = _Held(person_id, project_id, *chosen, now + settings.lease_seconds)
    connection.execute(insert(lease).values(leased_at=now, **held._asdict()))
    _add_looks(connection, chosen.document_id, 1)
    return _task(connection, held)


def _checked_client_id(client_id: str) -> str:
    return checked_name(client_id, "client id", _MAX_CLIENT_ID)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _repeated(
    connection: Connection, person_id: int, project_id: int, client_id: str, body: dict[str, Any]
) -> Receipt | None:
    """Acknowledgement of a request that was stored before; another request with its client id is an error."""
    query = select(submission.c.id, submission.c.body_hash).where(
        submission.c.project_id == project_id,
        submission.c.person_id == person_id,
        submission.c.client_id == client_id,
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if row.body_hash != _digest(body):
        raise ConflictError("this client id was used for another answer; give every answer an id of its own")
    last = select(func.max(vote.c.position)).where(vote.c.submission_id == row.id)
    return Receipt(row.id, int(connection.execute(last).scalar() or 0), is_repeat=True)


def _check_document(connection: Connection, project_id: int, document_id: int) -> None:
    known = select(document.c.id).where(document.c.id == document_id, document.c.project_id == project_id)
    if connection.execute(known).scalar() is None:
        raise NotFoundError("there is no such document; it may have been deleted")


def _answer_kind(connection: Connection, person_id: int, document_id: int) -> str | None:
    mine = and_(answer.c.person_id == person_id, answer.c.document_id == document_id)
    return connection.execute(select(answer.c.kind).where(mine)).scalar()


def _entries(
    connection: Connection, project_id: int, given: Answer, held: Row[*tuple[Any, ...]] | None
) -> list[tuple[int, int | None]]:
    """Class and value of each entry of the log."""
    if given.kind == "skip":
        return []
    known = _label_ids(connection, project_id)
    if given.kind == "cannot_tell":
        asked = held.label_ids if held is not None and held.label_ids else known
        return [(label_id, None) for label_id in asked]
    if not set(given.votes) <= set(known):
        raise InvalidRequestError("a vote is on a class that the project does not have; reload the page")
    if not set(given.votes.values()) <= {0, 1}:
        raise InvalidRequestError("a vote must be 0 or 1")
    return sorted(given.votes.items())


def _set_answer(
    connection: Connection, person_id: int, project_id: int, document_id: int, kind: str, before: str | None
) -> None:
    values = {"kind": kind, "answered_at": time.time()}
    mine = {"person_id": person_id, "document_id": document_id}
    if before is None:
        connection.execute(insert(answer).values(project_id=project_id, **mine, **values))
    else:
        connection.execute(
            update(answer).where(*(answer.c[name] == key for name, key in mine.items())).values(**values)
        )


def _log(
    connection: Connection,
    person_id: int,
    project_id: int,
    document_id: int,
    client_id: str,
    kind: str,
    body: dict[str, Any],
    held: Row[*tuple[Any, ...]] | None,
    entries: Iterable[tuple[int, int | None]],
) -> Receipt:
    """Append a submission and its votes to the log."""
    now, rows = time.time(), list(entries)
    about = {"project_id": project_id, "document_id": document_id, "person_id": person_id}
    values = {
        "client_id": client_id,
        "body_hash": _digest(body),
        "kind": kind,
        "purpose": "none" if held is None else held.purpose,
        "seconds": None if held is None else now - held.leased_at,
        "submitted_at": now,
    }
    added = insert(submission).values(**about, **values).returning(submission.c.id)
    try:
        submission_id = int(connection.execute(added).scalar_one())
    except IntegrityError:
        raise ConflictError("the same answer was sent twice at once; send it again") from None
    first = next_positions(connection, max(len(rows), 1))
    entry = {**about, "given_at": now, "submission_id": submission_id}
    if rows:
        connection.execute(
            insert(vote),
            [
                {"position": first + number, "label_id": label_id, "value": value, **entry}
                for number, (label_id, value) in enumerate(rows)
            ],
        )
    return Receipt(submission_id, first + max(len(rows), 1) - 1, is_repeat=False)


def _withdraw_last(
    connection: Connection, actor: Actor, project_id: int, client_id: str, settings: ProjectSettings
) -> None:
    """Withdraw the votes of the last answer and give its document back."""
    mine = and_(answer.c.person_id == actor.person_id, answer.c.project_id == project_id, answer.c.kind != "undone")
    query = select(answer.c.document_id, answer.c.kind).where(mine).order_by(answer.c.answered_at.desc()).limit(1)
    last = connection.execute(query).one_or_none()
    if last is None:
        raise ConflictError("there is no answer to undo")
    now = time.time()
    _set_answer(connection, actor.person_id, project_id, last.document_id, "undone", last.kind)
    _add_looks(connection, last.document_id, int(last.kind == "skip"))
    judged = _last_votes(connection, actor.person_id, last.document_id)
    entries = [(label_id, None) for label_id in judged]
    body = {"kind": "undo"}
    _log(connection, actor.person_id, project_id, last.document_id, client_id, "undo", body, None, entries)
    _end_lease(connection, actor.person_id, last.document_id)
    held = _Held(actor.person_id, project_id, last.document_id, "undo", None, now + settings.lease_seconds)
    connection.execute(insert(lease).values(leased_at=now, **held._asdict()))


def _last_votes(connection: Connection, person_id: int, document_id: int) -> dict[int, int]:
    """Votes of somebody's last answer on a document that was not an undo."""
    mine = and_(submission.c.person_id == person_id, submission.c.document_id == document_id)
    latest = select(func.max(submission.c.id)).where(mine, submission.c.kind != "undo").scalar_subquery()
    query = select(vote.c.label_id, vote.c.value).where(
        vote.c.submission_id == latest, vote.c.document_id == document_id
    )
    return {row.label_id: row.value for row in connection.execute(query) if row.value is not None}
