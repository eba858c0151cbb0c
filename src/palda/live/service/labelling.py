"""What annotators do: the next document, answers, undo."""

from __future__ import annotations

import hashlib
import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import NoTask, OwnProgress, ProjectSettings, Receipt, Task
from palda.live.schema import LOOKS
from palda.live.service import labelling_queries as queries
from palda.live.service.answer_log import AnswerRecord, add_answer
from palda.live.service.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from palda.live.records import Actor, Answer, NoTaskReason
    from palda.live.store import Store, Transaction

_MAX_CLIENT_ID = 64


class _Held(NamedTuple):
    """A document that somebody judges now."""

    document_id: int
    purpose: str
    label_ids: list[int] | None
    expires_at: float


class _Chosen(NamedTuple):
    """A document to judge next, and its rank in the queue."""

    held: _Held
    rank: int = -1  # not from the queue


class _Situation(NamedTuple):
    """What is known when somebody asks for a document."""

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


def next_task(store: Store | Transaction, actor: Actor, project_id: int) -> Task | NoTask:
    """The document that a person should judge now; the same again until it is answered.

    The first is one that the person holds already, then the best of those that ``assign`` chose, then the document
    that the fewest have judged.
    """
    me = {"person": actor.person_id, "project": project_id}

    def find(connection: Connection) -> Task | NoTask:
        current = _current(connection, actor, me)
        if current.reason is not None:
            return NoTask(current.reason)
        now = time.time()
        end = now + current.settings.lease_seconds
        if current.held is not None:
            connection.execute(queries.RENEW_LEASE, {**me, "document": current.held.document_id, "end": end})
            return _held_task(connection, me, current.held._replace(expires_at=end), current.label_ids)
        if current.first_end < now:
            _end_expired(connection, project_id, now)
        chosen = _chosen(connection, {**me, "max_looks": current.settings.max_votes_per_doc}, end)
        if chosen is None:
            has_any = connection.execute(queries.ANY_DOCUMENT, me).first() is not None
            return NoTask("nothing_left" if has_any else "no_documents")
        name, text = _take(connection, me, chosen, now)
        return Task(chosen.held.document_id, name, text, tuple(chosen.held.label_ids or current.label_ids), end)

    return store.write(find)


def submit(store: Store | Transaction, actor: Actor, project_id: int, given: Answer) -> Receipt:
    """Store an answer. The same request again is acknowledged without storing it twice."""
    if given.kind != "votes" and given.votes:
        raise InvalidRequestError(f"an answer of the kind {given.kind} has no votes")
    if given.kind == "votes" and not given.votes:
        raise InvalidRequestError("no class is judged; say cannot_tell or skip instead")
    body = {"document": given.document_id, "kind": given.kind, "votes": sorted(given.votes.items())}
    request = _Request(given.kind, given.document_id, _checked_client_id(given.client_id), _digest(body))
    me = {"person": actor.person_id, "project": project_id}

    def keep(connection: Connection) -> Receipt:
        on_document = {**me, "document": given.document_id, "client": request.client_id}
        found = connection.execute(queries.DOCUMENT_AND_ANSWER, on_document).one_or_none()
        if found is None:
            raise NotFoundError("there is no such document; it may have been deleted")
        if found.sent_id is not None:
            return _repeated(connection, request, found.sent_id, found.body_hash)
        is_held = found.purpose is not None
        if actor.role == "annotator" and not is_held and found.kind is None:
            raise ConflictError("this document was not given to you; ask for the next one")
        entries = _entries(connection, me, given, queries.label_ids(found.label_keys), found.label_ids)
        n_looks = int(given.kind != "skip") - int(is_held or found.kind in LOOKS)
        now = time.time()
        seconds = now - found.leased_at if is_held and now >= found.leased_at else None  # the clock may be set back
        record = _record(me, request, given.kind, n_looks, now)
        record = record._replace(purpose=found.purpose or "none", seconds=seconds)
        return Receipt(*add_answer(connection, record, entries), is_repeat=False)

    return store.write(keep)


def undo(store: Store | Transaction, actor: Actor, project_id: int, client_id: str) -> Task | NoTask:
    """Withdraw the last answer; its document comes back with the earlier votes."""
    client_id, me = _checked_client_id(client_id), {"person": actor.person_id, "project": project_id}

    def withdraw(connection: Connection) -> Task | NoTask:
        settings = _current(connection, actor, me).settings
        used = connection.execute(queries.SUBMISSION, {**me, "client": client_id}).one_or_none()
        request = _Request("undo", 0, client_id, _digest({"kind": "undo"}))
        if used is None:
            _withdraw_last(connection, me, request, settings)
        else:
            _repeated(connection, request, used.id, used.body_hash)
        current = _current(connection, actor, me)
        if current.held is None:
            return NoTask("nothing_left")
        return _held_task(connection, me, current.held, current.label_ids)

    return store.write(withdraw)


def own_progress(store: Store, actor: Actor, project_id: int) -> OwnProgress:
    """Documents that a person has answered, in all and since midnight UTC."""
    given = {"person": actor.person_id, "project": project_id, "today": time.time() // 86400 * 86400}
    n_answered, n_today = store.read(lambda connection: connection.execute(queries.OWN_PROGRESS, given).one())
    return OwnProgress(int(n_answered), int(n_today))


def _current(connection: Connection, actor: Actor, me: dict[str, int]) -> _Situation:
    row = connection.execute(queries.PROJECT_AND_LEASE, me).one_or_none()
    if row is None:
        raise NotFoundError("there is no such project")
    held = None if row.document_id is None else _Held(row.document_id, row.purpose, row.label_ids, row.expires_at)
    reasons: dict[NoTaskReason, bool] = {
        "you_are_paused": actor.is_paused,
        "paused": row.is_paused,
        "complete": row.is_complete,
    }
    reason = next((key for key, holds in reasons.items() if holds), None)
    settings = ProjectSettings.from_json(row.settings)
    return _Situation(settings, queries.label_ids(row.label_keys), held, reason, row.first_end or math.inf)


def _held_task(connection: Connection, me: dict[str, int], held: _Held, label_ids: list[int]) -> Task:
    about = {"person": me["person"], "document": held.document_id}
    name, text = connection.execute(queries.TEXT, about).one()
    votes = _last_votes(connection, about) if held.purpose == "undo" else {}
    return Task(held.document_id, name, text, tuple(held.label_ids or label_ids), held.expires_at, votes)


def _end_expired(connection: Connection, project_id: int, now: float) -> None:
    """Let others have the documents of expired leases; a late answer of the person is still taken."""
    for row in connection.execute(queries.EXPIRED_LEASES, {"project": project_id, "now": now}).all():
        lease = {"person": row.person_id, "document": row.document_id}
        if not connection.execute(queries.END_LEASE, lease).rowcount:
            continue  # it was answered meanwhile, or another server has ended it
        _add_looks(connection, row.document_id, -1)
        given = {"person_id": row.person_id, "document_id": row.document_id, "project_id": project_id}
        note = queries.NOTE_EXPIRED[connection.dialect.name]
        connection.execute(note, {**given, "kind": "expired", "answered_at": row.leased_at})


def _add_looks(connection: Connection, document_id: int, n: int) -> tuple[str, str]:
    """Change the number of people who look at a document; returns its id and its text."""
    name, text = connection.execute(queries.ADD_LOOKS, {"document": document_id, "n": n}).one()
    return name, text


def _lease(me: dict[str, int], held: _Held, now: float) -> dict[str, Any]:
    values = {"project_id": me["project"], "leased_at": now, **held._asdict()}
    return {**me, "document": held.document_id, **{f"new_{name}": value for name, value in values.items()}}


def _take(connection: Connection, me: dict[str, int], chosen: _Chosen, now: float) -> tuple[str, str]:
    """Lease a document and leave what came before it in the queue; returns its id and its text."""
    given = {**_lease(me, chosen.held, now), "up_to": chosen.rank, "n": 1}
    if connection.dialect.name == "postgresql":
        name, text = connection.execute(queries.TAKE, given).one()
        return name, text
    if chosen.rank >= 0:
        connection.execute(queries.LEAVE_QUEUE, given)
    connection.execute(queries.ADD_LEASE, given)
    return _add_looks(connection, chosen.held.document_id, 1)


def _chosen(connection: Connection, me: dict[str, int], end: float) -> _Chosen | None:
    """The best document that ``assign`` chose for somebody and that is still wanted, else one with the fewest looks."""
    row = connection.execute(queries.FROM_QUEUE, me).one_or_none()
    if row is not None:
        return _Chosen(_Held(row.document_id, row.purpose, row.label_ids, end), row.rank)
    document_id = connection.execute(queries.FEWEST_LOOKS, me).scalar()
    return None if document_id is None else _Chosen(_Held(document_id, "overlap", None, end))


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
