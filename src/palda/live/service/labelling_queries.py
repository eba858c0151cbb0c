"""Statements of the requests that annotators send all the time, built once and few per request.

Building a statement takes longer than running it on a small store, and each one is a round trip to PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    JSON,
    Float,
    Integer,
    String,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from palda.live.schema import LOOKS, OPEN, Key, answer, document, label, lease, project, queue, submission, vote
from palda.live.service.access import Context

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

_person, _project, _document = (
    bindparam("person", type_=Key),
    bindparam("project", type_=Key),
    bindparam("document", type_=Key),
)
_max_looks, _now = bindparam("max_looks", type_=Integer()), bindparam("now", type_=Float())
_is_vote = answer.c.kind.in_(LOOKS)
_my_lease = and_(lease.c.person_id == _person, lease.c.document_id == _document)
_my_queue = and_(queue.c.project_id == _project, queue.c.person_id == _person)
_is_answered = exists().where(
    answer.c.person_id == _person, answer.c.document_id == document.c.id, answer.c.kind.not_in(OPEN)
)


_label_key = cast(label.c.number, String) + ":" + cast(label.c.id, String)
_label_keys = select(func.aggregate_strings(_label_key, ",")).where(label.c.project_id == _project).scalar_subquery()


def label_ids(keys: str | None) -> list[int]:
    """Ids of classes in their order, from a column ``label_keys``."""
    pairs = [key.split(":") for key in (keys or "").split(",") if key]
    return [number for _, number in sorted((int(place), int(number)) for place, number in pairs)]


ANY_DOCUMENT = select(document.c.id).where(document.c.project_id == _project).limit(1)
TEXT = select(document.c.name, document.c.text).where(document.c.id == _document)
ADD_LOOKS = (
    update(document)
    .where(document.c.id == _document)
    .values(n_looks=document.c.n_looks + bindparam("n"))
    .returning(document.c.name, document.c.text)
)

_others = lease.alias()
_first_end = select(func.min(_others.c.expires_at)).where(_others.c.project_id == _project).scalar_subquery()


def _project_and_lease(person: ColumnElement[int]) -> Select[*tuple[Any, ...]]:
    """One row: the project, its classes, the first end of a lease, and the person's lease that began last if any."""
    mine = and_(lease.c.project_id == project.c.id, lease.c.person_id == person)
    return (
        select(project.c.settings, project.c.is_paused.label("is_project_paused"), project.c.is_complete)
        .add_columns(lease.c.document_id, lease.c.purpose, lease.c.label_ids, lease.c.expires_at)
        .add_columns(_label_keys.label("label_keys"), _first_end.label("first_end"))
        .select_from(project.outerjoin(lease, mine))
        .where(project.c.id == _project)
        .order_by(lease.c.leased_at.desc())
        .limit(1)
    )


PROJECT_AND_LEASE = Context.of(_project_and_lease)
RENEW_LEASE = update(lease).where(_my_lease).values(expires_at=bindparam("end"))
END_LEASE = delete(lease).where(_my_lease)
EXPIRED_LEASES = (
    select(lease.c.person_id, lease.c.document_id, lease.c.leased_at)
    .where(lease.c.project_id == _project, lease.c.expires_at < _now)
    .limit(100)
)
_LEASE = "project_id", "purpose", "label_ids", "leased_at", "expires_at"
ADD_LEASE = insert(lease).values(
    person_id=_person,
    document_id=_document,
    **{name: bindparam(f"new_{name}", type_=lease.c[name].type) for name in _LEASE},
)


class Choice(NamedTuple):
    """Statement that finds a document for somebody: its rank in the queue, its id, purpose and classes to judge."""

    find: Select[*tuple[Any, ...]]
    take: Select[*tuple[Any, ...]]
    """PostgreSQL alone: also leases it, leaves what came before it in the queue, and returns its name and text, which
    are None if another server gave it to too many people a moment ago."""

    @classmethod
    def of(cls, find: Select[*tuple[Any, ...]]) -> Choice:
        """Both, from the first."""
        found = find.limit(1).cte("chosen")
        given = {name: bindparam(f"new_{name}", type_=lease.c[name].type) for name in ("leased_at", "expires_at")}
        chosen = {name: found.c[name] for name in ("document_id", "purpose", "label_ids")}
        values = {"person_id": _person, "project_id": _project, **chosen, **given}
        leased = insert(lease).from_select(list(values), select(*values.values()))
        passed = delete(queue).where(_my_queue, queue.c.rank <= select(found.c.rank).scalar_subquery())
        looked = (
            update(document)
            .where(document.c.id == found.c.document_id, or_(document.c.n_looks < _max_looks, document.c.is_gold))
            .values(n_looks=document.c.n_looks + 1)
            .returning(document.c.name, document.c.text)
            .cte("looked")
        )
        taken = select(*found.c, *looked.c).select_from(found.outerjoin(looked, true()))
        return cls(find.limit(1), taken.add_cte(leased.cte("leased"), passed.cte("passed")))


FROM_QUEUE = Choice.of(
    select(queue.c.rank, queue.c.document_id, queue.c.purpose, queue.c.label_ids)
    .join(document, document.c.id == queue.c.document_id)
    .where(_my_queue, not_(_is_answered))
    .where(
        or_(
            and_(document.c.n_looks < _max_looks, not_(document.c.is_gold)),
            and_(document.c.is_gold, queue.c.purpose == "gold"),  # others were decided since they were chosen
        )
    )
    .order_by(queue.c.rank)
)
FEWEST_LOOKS = Choice.of(
    select(literal(-1).label("rank"), document.c.id.label("document_id"), literal("overlap").label("purpose"))
    .add_columns(cast(null(), JSON).label("label_ids"))
    .where(document.c.project_id == _project, document.c.n_looks < _max_looks, not_(document.c.is_gold))
    .where(not_(_is_answered))
    .order_by(document.c.n_looks, document.c.shuffle)
)
LEAVE_QUEUE = delete(queue).where(_my_queue, queue.c.rank <= bindparam("up_to"))


def _is_same(person: ColumnElement[int]) -> ColumnElement[bool]:
    mine = and_(submission.c.project_id == _project, submission.c.person_id == person)
    return and_(mine, submission.c.client_id == bindparam("client"))


def _document_and_answer(person: ColumnElement[int]) -> Select[*tuple[Any, ...]]:
    """One row about a document, or none if it does not exist: answer, lease, and the same request if it came before."""
    mine = (and_(table.c.person_id == person, table.c.document_id == _document) for table in (answer, lease))
    return (
        select(document.c.id.label("document_id"), answer.c.kind.label("answer_kind"))
        .add_columns(lease.c.purpose, lease.c.leased_at, lease.c.label_ids)
        .add_columns(submission.c.id.label("sent_id"), submission.c.body_hash, _label_keys.label("label_keys"))
        .select_from(
            document.outerjoin(answer, next(mine)).outerjoin(lease, next(mine)).outerjoin(submission, _is_same(person))
        )
        .where(document.c.id == _document, document.c.project_id == _project)
    )


DOCUMENT_AND_ANSWER = Context.of(_document_and_answer)
NOTE_EXPIRED = {
    name: dialect.insert(answer).on_conflict_do_nothing()
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}
LAST_ANSWER = (  # by the number of its submission: clocks may jump
    select(answer.c.document_id, answer.c.kind)
    .join(
        submission,
        and_(submission.c.person_id == answer.c.person_id, submission.c.document_id == answer.c.document_id),
    )
    .where(submission.c.person_id == _person, submission.c.project_id == _project)
    .where(submission.c.kind != "undo", answer.c.kind.not_in(OPEN))
    .order_by(submission.c.id.desc())
    .limit(1)
)
OWN_PROGRESS = select(
    func.count(), func.coalesce(func.sum(case((answer.c.answered_at >= bindparam("today"), 1), else_=0)), 0)
).where(answer.c.project_id == _project, answer.c.person_id == _person, _is_vote)

SUBMISSION = select(submission.c.id, submission.c.body_hash).where(_is_same(_person))
LAST_POSITION = select(func.max(vote.c.position)).where(vote.c.submission_id == bindparam("submission"))
ALL_VOTES = (
    select(vote.c.label_id, vote.c.value)
    .where(vote.c.person_id == _person, vote.c.document_id == _document)
    .order_by(vote.c.position)
)
_latest = (
    select(func.max(submission.c.id))
    .where(submission.c.person_id == _person, submission.c.document_id == _document, submission.c.kind != "undo")
    .scalar_subquery()
)
LAST_VOTES = select(vote.c.label_id, vote.c.value).where(
    vote.c.submission_id == _latest, vote.c.document_id == _document
)
