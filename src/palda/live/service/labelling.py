"""What annotators do: the next document, answers, undo."""

from __future__ import annotations

import hashlib
import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy.exc import NoResultFound

from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import NoTask, OwnProgress, ProjectSettings, Receipt, Task
from palda.live.schema import LOOKS
from palda.live.service import labelling_queries as queries
from palda.live.service.access import find_with
from palda.live.service.answer_log import AnswerRecord, add_answer
from palda.live.service.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from palda.live.records import Actor, Answer, NoTaskReason
    from palda.live.service.access import Sender
    from palda.live.store import Store, Transaction

_MAX_CLIENT_ID = 64


class _Held(NamedTuple):
    """A document that somebody judges now."""

    document_id: int
    purpose: str
    label_ids: list[int] | None
    expires_at: float


class _Situation(NamedTuple):
    """What is known when somebody asks for a document."""

    me: dict[str, int]  # ids of the person and the project
    settings: ProjectSettings
    label_ids: list[int]
    held: _Held | None
    reason: NoTaskReason | None  # why there is nothing to do
    first_end: float  # of all leases


class _Request(NamedTuple):
    """An answer or its withdrawal, for the log."""

    kind: str
    document_id: int
    client_id: str
    body_hash: str


def next_task(store: Store | Transaction, who: Actor | Sender, project_id: int) -> Task | NoTask:
    """The document that a person should judge now; the same again until it is answered.

    The first is one that the person holds already, then the best of those that ``assign`` chose, then the document
    that the fewest have judged.
    """

    def find(connection: Connection) -> Task | NoTask:
        current = _current(connection, who, project_id)
        if current.reason is not None:
            return NoTask(current.reason)
        now = time.time()
        end = now + current.settings.lease_seconds
        if current.held is not None:
            connection.execute(queries.RENEW_LEASE, {**current.me, "document": current.held.document_id, "end": end})
            return _held_task(connection, current, current.held._replace(expires_at=end))
        if current.first_end < now:
            _end_expired(connection, project_id, now)
        given = {**current.me, "max_looks": current.settings.max_votes_per_doc}
        return _taken(connection, given, current.label_ids, now, end) or NoTask(_why_none(connection, current.me))

    return store.write(find)


def submit(store: Store | Transaction, who: Actor | Sender, project_id: int, given: Answer) -> Receipt:
    """Store an answer. The same request again is acknowledged without storing it twice."""
    body = {"document": given.document_id, "kind": given.kind, "votes": sorted(given.votes.items())}
    request = _Request(given.kind, given.document_id, _checked_client_id(given.client_id), _digest(body))

    def keep(connection: Connection) -> Receipt:
        on_document = {"project": project_id, "document": given.document_id, "client": request.client_id}
        actor, found = find_with(connection, who, queries.DOCUMENT_AND_ANSWER, on_document)
        if found is None or found.document_id is None:
            raise NotFoundError("there is no such document; it may have been deleted")
        me = {"person": actor.person_id, "project": project_id}
        if found.sent_id is not None:
            return _repeated(connection, request, found.sent_id, found.body_hash)
        is_held = found.purpose is not None
        if actor.role == "annotator" and not is_held and found.answer_kind is None:
            raise ConflictError("this document was not given to you; ask for the next one")
        entries = _entries(connection, me, given, queries.label_ids(found.label_keys), found.label_ids)
        n_looks = int(given.kind != "skip") - int(found.answer_kind in LOOKS)
        now = time.time()
        seconds = now - found.leased_at if is_held and now >= found.leased_at else None  # the clock may be set back
        record = _record(me, request, given.kind, n_looks, now)
        record = record._replace(purpose=found.purpose or "none", seconds=seconds)
        return Receipt(*add_answer(connection, record, entries), is_repeat=False)

    return store.write(keep)


def undo(store: Store | Transaction, who: Actor | Sender, project_id: int, client_id: str) -> Task | NoTask:
    """Withdraw the last answer; its document comes back with the earlier votes."""
    client_id = _checked_client_id(client_id)

    def withdraw(connection: Connection) -> Task | NoTask:
        before = _current(connection, who, project_id)
        used = connection.execute(queries.SUBMISSION, {**before.me, "client": client_id}).one_or_none()
        request = _Request("undo", 0, client_id, _digest({"kind": "undo"}))
        if used is None:
            _withdraw_last(connection, before.me, request, before.settings)
        else:
            _repeated(connection, request, used.id, used.body_hash)
        current = _current(connection, who, project_id)
        return NoTask("nothing_left") if current.held is None else _held_task(connection, current, current.held)

    return store.write(withdraw)


def own_progress(store: Store, actor: Actor, project_id: int) -> OwnProgress:
    """Documents that a person has answered, in all and since midnight UTC."""
    given = {"person": actor.person_id, "project": project_id, "today": time.time() // 86400 * 86400}
    n_answered, n_today = store.read(lambda connection: connection.execute(queries.OWN_PROGRESS, given).one())
    return OwnProgress(int(n_answered), int(n_today))


def _current(connection: Connection, who: Actor | Sender, project_id: int) -> _Situation:
    actor, row = find_with(connection, who, queries.PROJECT_AND_LEASE, {"project": project_id})
    if row is None:
        raise NotFoundError("there is no such project")
    held = None if row.document_id is None else _Held(row.document_id, row.purpose, row.label_ids, row.expires_at)
    reasons: dict[NoTaskReason, bool] = {
        "you_are_paused": actor.is_paused,
        "paused": row.is_project_paused,
        "complete": row.is_complete,
    }
    reason = next((key for key, holds in reasons.items() if holds), None)
    settings, me = ProjectSettings.from_json(row.settings), {"person": actor.person_id, "project": project_id}
    return _Situation(me, settings, queries.label_ids(row.label_keys), held, reason, row.first_end or math.inf)


def _held_task(connection: Connection, current: _Situation, held: _Held) -> Task:
    about = {"person": current.me["person"], "document": held.document_id}
    name, text = connection.execute(queries.TEXT, about).one()
    votes = _last_votes(connection, about) if held.purpose == "undo" else {}
    return Task(held.document_id, name, text, tuple(held.label_ids or current.label_ids), held.expires_at, votes)


def _end_expired(connection: Connection, project_id: int, now: float) -> None:
    """Let others have the documents of expired leases; a late answer of the person is still taken."""
    for row in connection.execute(queries.EXPIRED_LEASES, {"project": project_id, "now": now}).all():
        lease = {"person": row.person_id, "document": row.document_id}
        if not connection.execute(queries.END_LEASE, lease).rowcount:
            continue  # it was answered meanwhile, or another server has ended it
        connection.execute(queries.ADD_LOOKS, {"document": row.document_id, "n": -1}).one()
        given = {"person_id": row.person_id, "document_id": row.document_id, "project_id": project_id}
        note = queries.NOTE_EXPIRED[connection.dialect.name]
        connection.execute(note, {**given, "kind": "expired", "answered_at": row.leased_at})


def _lease(me: dict[str, int], held: _Held, now: float) -> dict[str, Any]:
    values = {"project_id": me["project"], "leased_at": now, **held._asdict()}
    return {**me, "document": held.document_id, **{f"new_{name}": value for name, value in values.items()}}


def _taken(connection: Connection, me: dict[str, int], label_ids: list[int], now: float, end: float) -> Task | None:
    """Lease the best document that ``assign`` chose and that is still wanted, else one with the fewest looks."""
    is_together = connection.dialect.name == "postgresql"
    given = {**me, "new_leased_at": now, "new_expires_at": end}
    for choice in (queries.FROM_QUEUE, queries.FEWEST_LOOKS):
        row = connection.execute(choice.take if is_together else choice.find, given).one_or_none()
        if row is not None:
            found = row if is_together else _take(connection, me, row, now, end)
            if found.name is None:
                raise NoResultFound("another server gave the document to somebody a moment ago")  # it is done again
            return Task(row.document_id, found.name, found.text, tuple(row.label_ids or label_ids), end)
    return None


def _take(
    connection: Connection, me: dict[str, int], row: Row[*tuple[Any, ...]], now: float, end: float
) -> Row[str, str]:
    """Lease a document and leave what came before it in the queue; returns its id and its text."""
    if row.rank >= 0:
        connection.execute(queries.LEAVE_QUEUE, {**me, "up_to": row.rank})
    held = _Held(row.document_id, row.purpose, row.label_ids, end)
    connection.execute(queries.ADD_LEASE, _lease(me, held, now))
    return connection.execute(queries.ADD_LOOKS, {"document": row.document_id, "n": 1}).one()


def _why_none(connection: Connection, me: dict[str, int]) -> NoTaskReason:
    return "no_documents" if connection.execute(queries.ANY_DOCUMENT, me).first() is None else "nothing_left"


def _checked_client_id(client_id: str) -> str:
    return checked_name(client_id, "client id", _MAX_CLIENT_ID)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _record(me: dict[str, int], request: _Request, answer_kind: str, n_looks: int, now: float) -> AnswerRecord:
    return AnswerRecord(
        project_id=me["project"],
        person_id=me["person"],
        **request._asdict(),
        submitted_at=now,
        purpose="none",
        seconds=None,
        answer_kind=answer_kind,
        given_at=now,
        n_looks=n_looks,
    )


def _repeated(connection: Connection, request: _Request, submission_id: int, body_hash: str) -> Receipt:
    """Acknowledgement of a request that was stored before; another request with its client id is an error."""
    if body_hash != request.body_hash:
        raise ConflictError("this client id was used for another answer; give every answer an id of its own")
    last = connection.execute(queries.LAST_POSITION, {"submission": submission_id}).scalar()
    return Receipt(submission_id, int(last or 0), is_repeat=True)


def _entries(
    connection: Connection, me: dict[str, int], given: Answer, known: list[int], asked: list[int] | None
) -> Sequence[tuple[int, int | None]]:
    """Class and value of each entry of the log; a skip withdraws what was said before."""
    if given.kind != "votes" and given.votes:
        raise InvalidRequestError(f"an answer of the kind {given.kind} has no votes")
    if given.kind == "votes" and not given.votes:
        raise InvalidRequestError("no class is judged; say cannot_tell or skip instead")
    if given.kind == "skip":
        return _withdrawals(connection, {"person": me["person"], "document": given.document_id})
    if given.kind == "cannot_tell":
        return [(label_id, None) for label_id in asked or known]
    if not set(given.votes) <= set(known):
        raise InvalidRequestError("a vote is on a class that the project does not have; reload the page")
    if not set(given.votes.values()) <= {0, 1}:
        raise InvalidRequestError("a vote must be 0 or 1")
    return sorted(given.votes.items())


def _withdraw_last(connection: Connection, me: dict[str, int], request: _Request, settings: ProjectSettings) -> None:
    """Withdraw the votes of the last answer and give its document back."""
    last = connection.execute(queries.LAST_ANSWER, me).one_or_none()
    if last is None:
        raise ConflictError("there is no answer to undo")
    about = {"person": me["person"], "document": last.document_id}
    asked = [row.label_id for row in connection.execute(queries.LAST_VOTES, about)] if settings.ask == "labels" else []
    now = time.time()
    request = request._replace(document_id=last.document_id)
    record = _record(me, request, "undone", int(last.kind == "skip"), now)
    add_answer(connection, record, _withdrawals(connection, about))
    held = _Held(last.document_id, "undo", asked or None, now + settings.lease_seconds)
    connection.execute(queries.ADD_LEASE, _lease(me, held, now))


def _withdrawals(connection: Connection, about: dict[str, int]) -> list[tuple[int, None]]:
    """Entries that withdraw all current votes of somebody on a document."""
    current = dict(connection.execute(queries.ALL_VOTES, about).all())
    return [(label_id, None) for label_id, value in current.items() if value is not None]


def _last_votes(connection: Connection, about: dict[str, int]) -> dict[int, int]:
    """Votes of somebody's last answer on a document that was not an undo."""
    rows = connection.execute(queries.LAST_VOTES, about)
    return {label_id: value for label_id, value in rows if value is not None}
