"""Annotations as votes in the log: new ones, changed ones, deleted ones.

What was taken in is noted in ``labelstudio_annotation`` in the same transaction, so that it is taken in once.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, bindparam, delete, select

from palda.live.learner.writes import upsert
from palda.live.schema import LOOKS, Key, gold, labelstudio_annotation, submission, vote
from palda.live.service import labelling_queries as queries
from palda.live.service.answer_log import AnswerRecord, add_answer
from palda.live.service.documents import write_gold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Row

    from palda.live.labelstudio.connections import ConnectionSettings
    from palda.live.labelstudio.remote import RemoteAnnotation

    Stored = Row[*tuple[Any, ...]]

PRELABEL = "prelabel"
"""Purpose of a submission that began from a prediction whose classes the annotator saw."""

WITHHELD = "withheld"
"""Purpose of a submission that began from a prediction without its classes."""

_one = labelstudio_annotation.c
_STORED = select(labelstudio_annotation).where(
    _one.project_id == bindparam("project", type_=Key), _one.annotation_id == bindparam("annotation", type_=Key)
)
_OF_DOCUMENT = select(labelstudio_annotation).where(_one.document_id == bindparam("document", type_=Key))
_VOTES_OF = select(vote.c.label_id, vote.c.value).where(vote.c.submission_id == bindparam("submission", type_=Key))
_PURPOSE_OF = select(submission.c.purpose).where(submission.c.id == bindparam("submission", type_=Key))


@dataclass(frozen=True)
class Scope:
    """What annotations of a project are read with."""

    project_id: int
    labels: dict[str, int]  # name -> number
    people: dict[int, int]  # user -> person, without those who were erased
    settings: ConnectionSettings


class Target(NamedTuple):
    """What annotations are about."""

    task_id: int
    document_id: int
    predicted: list[int] | None  # classes of the task's prediction, None without one


@dataclass(frozen=True)
class _Entry:
    """An answer for the log."""

    document_id: int
    person_id: int
    client_id: str
    kind: str  # votes, skip, undo
    votes: Sequence[tuple[int, int | None]]
    purpose: str = "none"
    seconds: float | None = None
    given_at: float | None = None


def take_in(connection: Connection, scope: Scope, target: Target, annotations: Iterable[RemoteAnnotation]) -> int:
    """Make the annotations of a document those that Label Studio has; returns how many have changed."""
    found = [one for one in annotations if one.user_id in scope.people]
    stored = {row.annotation_id for row in connection.execute(_OF_DOCUMENT, {"document": target.document_id})}
    n_changed = 0
    for gone in stored - {one.id for one in found}:
        n_changed += withdraw(connection, scope, gone)
    is_gold = {one.id: kind_of(one, scope.settings) == "gold" for one in found}
    if len({one.user_id for one in found if is_gold[one.id]}) > 1:  # import through the API marks every annotation
        is_gold = {}
    for one in sorted(found, key=lambda one: (one.updated_at, one.id)):
        kind = "gold" if is_gold.get(one.id) else "skip" if one.is_skipped else "votes"
        n_changed += take_in_one(connection, scope, target, one, kind)
    return n_changed


def kind_of(one: RemoteAnnotation, settings: ConnectionSettings) -> str:
    """What an annotation is by itself: votes, skip or gold."""
    if one.is_skipped:
        return "skip"
    return "gold" if one.is_gold and settings.ground_truth == "gold" else "votes"


def take_in_one(connection: Connection, scope: Scope, target: Target, one: RemoteAnnotation, kind: str) -> bool:
    """Take in one annotation; whether it is new or has changed. An older state than the known one is ignored."""
    known = connection.execute(_STORED, {"project": scope.project_id, "annotation": one.id}).one_or_none()
    if known is not None and (
        known.updated_at > one.updated_at or (known.updated_at, known.kind) == (one.updated_at, kind)
    ):
        return False
    if known is not None and known.kind == "gold" and kind != "gold":
        _set_gold(connection, scope.project_id, target.document_id, {})
    document_id = target.document_id
    values = {label: int(name in one.classes) for name, label in scope.labels.items()}
    person_id = scope.people[one.user_id] if known is None else known.person_id
    submission_id = None
    if kind == "gold":
        _withdraw_votes(connection, scope, known)
        _set_gold(connection, scope.project_id, document_id, values)
    else:
        votes: Sequence[tuple[int, int | None]] = sorted(values.items())
        if kind == "skip":
            votes = [(label, None) for label, _ in votes] if known is not None and known.kind == "votes" else []
        client_id = f"labelstudio-{one.id}-{one.updated_at}"
        shown = PRELABEL if scope.settings.shows_prelabel(target.task_id) else WITHHELD
        purpose = shown if one.from_prediction else "none"
        if known is not None and known.submission_id is not None:  # Label Studio forgets it with the prediction
            purpose = connection.execute(_PURPOSE_OF, {"submission": known.submission_id}).scalar_one()
        entry = _Entry(document_id, person_id, client_id, kind, votes, purpose, one.seconds, one.time)
        submission_id = _append(connection, scope, entry)
    row = {"project_id": scope.project_id, "annotation_id": one.id, "document_id": document_id, "kind": kind}
    state = {"person_id": person_id, "updated_at": one.updated_at, "submission_id": submission_id}
    before = {"predicted": target.predicted if known is None else known.predicted}
    upsert(connection, labelstudio_annotation, [row | state | before])
    return True


def withdraw(connection: Connection, scope: Scope, annotation_id: int) -> bool:
    """Forget an annotation that was deleted; whether it was known."""
    key = {"project": scope.project_id, "annotation": annotation_id}
    known = connection.execute(_STORED, key).one_or_none()
    if known is None:
        return False
    which = and_(_one.project_id == scope.project_id, _one.annotation_id == annotation_id)
    connection.execute(delete(labelstudio_annotation).where(which))
    if known.kind == "gold":
        _set_gold(connection, scope.project_id, known.document_id, {})
    else:
        _withdraw_votes(connection, scope, known)
    return True


def _withdraw_votes(connection: Connection, scope: Scope, known: Stored | None) -> None:
    """Take back the votes of an annotation; an older one of the same person on the document counts again."""
    if known is None or known.kind == "gold":
        return
    others = connection.execute(_OF_DOCUMENT, {"document": known.document_id}).all()
    mine = [row for row in others if row.person_id == known.person_id and row.annotation_id != known.annotation_id]
    earlier = max((row for row in mine if row.kind == "votes"), key=lambda row: row.updated_at, default=None)
    client_id = f"labelstudio-{known.annotation_id}-{known.updated_at}-gone"
    if earlier is not None:
        votes = [tuple(row) for row in connection.execute(_VOTES_OF, {"submission": earlier.submission_id})]
        entry = _Entry(known.document_id, known.person_id, client_id, "votes", sorted(votes))
    else:
        withdrawn = [(label, None) for label in sorted(scope.labels.values())] if known.kind == "votes" else []
        entry = _Entry(known.document_id, known.person_id, client_id, "undo", withdrawn)
    _append(connection, scope, entry)


def _append(connection: Connection, scope: Scope, entry: _Entry) -> int:
    """Add a submission with its votes; returns its number."""
    me = {"person": entry.person_id, "project": scope.project_id, "document": entry.document_id}
    now = time.time()
    client_id = entry.client_id[:64]
    found = connection.execute(queries.DOCUMENT_AND_ANSWER.alone, {**me, "client": client_id}).one()
    if found.sent_id is not None:
        client_id = f"{client_id[:44]}-{time.time_ns():x}"  # deleted and seen again
    body = hashlib.sha256(repr((entry.document_id, entry.kind, list(entry.votes))).encode()).hexdigest()
    record = AnswerRecord(
        scope.project_id,
        entry.document_id,
        entry.person_id,
        client_id,
        body,
        entry.kind,
        submitted_at=now,
        purpose=entry.purpose,
        seconds=entry.seconds,
        answer_kind="undone" if entry.kind == "undo" else entry.kind,
        given_at=entry.given_at or now,
        n_looks=int(entry.kind == "votes") - int(found.answer_kind in LOOKS),
    )
    return add_answer(connection, record, entry.votes)[0]


def _set_gold(connection: Connection, project_id: int, document_id: int, values: dict[int, int]) -> None:
    """Known labels from Label Studio; those that somebody decided here stay."""
    decided = select(gold.c.decided_by).where(gold.c.document_id == document_id, gold.c.decided_by.is_not(None))
    if connection.execute(decided.limit(1)).first() is None:
        write_gold(connection, project_id, {document_id: values}, None)
