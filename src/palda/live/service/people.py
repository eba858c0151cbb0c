"""Members of a project: roles, pauses, erasure."""

from __future__ import annotations

import secrets
import statistics
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, delete, func, or_, select, union, update

from palda.live import schema
from palda.live.errors import NotFoundError
from palda.live.records import AnnotatorEstimate, Member
from palda.live.schema import annotator_estimate, answer, document, lease, member, person, submission
from palda.live.service.access import free_name, require_control, revoke_made_by
from palda.live.service.documents import forget_model
from palda.live.service.projects import delete_from_all_tables, delete_lonely_people
from palda.live.store import log_event

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from palda.live.records import Actor, Role
    from palda.live.store import Store, Transaction

_RECENT = 50  # submissions that give the speed


def members(store: Store, project_id: int) -> list[Member]:
    """Members of a project in the order of joining, with what the learner knows about them.

    An owner who has answered something is listed like an admin.
    """

    def find(connection: Connection) -> list[Member]:
        answered = _answered(connection, project_id)
        joined = and_(member.c.person_id == person.c.id, member.c.project_id == project_id)
        stored = and_(annotator_estimate.c.person_id == person.c.id, annotator_estimate.c.project_id == project_id)
        columns = person.c.id, person.c.name, person.c.is_owner, member.c.role, member.c.is_paused
        query = (
            select(*columns, annotator_estimate.c.estimate)
            .select_from(person.outerjoin(member, joined).outerjoin(annotator_estimate, stored))
            .where(or_(member.c.role.is_not(None), and_(person.c.is_owner, person.c.id.in_(list(answered)))))
            .order_by(member.c.joined_at.nulls_last(), person.c.id)
        )
        return [
            Member(
                row.id,
                row.name,
                row.role or "admin",
                row.is_owner,
                bool(row.is_paused),
                answered[row.id].n_looks if row.id in answered else 0,
                answered[row.id].last_at if row.id in answered else None,
                median_seconds(connection, project_id, row.id),
                None if row.estimate is None else AnnotatorEstimate.from_json(row.estimate),
            )
            for row in connection.execute(query).all()
        ]

    return store.read(find)


def median_seconds(connection: Connection, project_id: int, person_id: int, min_number: int = 1) -> float | None:
    """Median time per document of the last answers of a person; None with too few."""
    one = submission.c
    recent = select(one.seconds).where(one.person_id == person_id, one.project_id == project_id)
    recent = recent.where(one.seconds.is_not(None)).order_by(one.id.desc()).limit(_RECENT)
    found = connection.execute(recent).scalars().all()
    return statistics.median(found) if len(found) >= min_number else None


def set_paused(store: Store | Transaction, project_id: int, person_id: int, *, is_paused: bool) -> None:
    """Stop or resume giving documents to a member; their votes still count."""

    def apply(connection: Connection) -> None:
        _update_member(connection, project_id, person_id, is_paused=is_paused)
        if is_paused:
            mine = and_(schema.queue.c.project_id == project_id, schema.queue.c.person_id == person_id)
            connection.execute(delete(schema.queue).where(mine))

    store.write(apply)


def set_role(store: Store | Transaction, project_id: int, person_id: int, role: Role) -> None:
    """Give a member another role."""

    def apply(connection: Connection) -> None:
        _update_member(connection, project_id, person_id, role=role)
        if role != "admin":
            revoke_made_by(connection, project_id, person_id)

    store.write(apply)


def _update_member(connection: Connection, project_id: int, person_id: int, **values: object) -> None:
    mine = and_(member.c.project_id == project_id, member.c.person_id == person_id)
    if not connection.execute(update(member).where(mine).values(**values)).rowcount:
        raise NotFoundError("there is no such member; the owner of the server has no role to change")


def rename(store: Store | Transaction, actor: Actor, project_id: int, person_id: int, name: str) -> str:
    """Give a person another name in all projects, and forget the old one."""

    def apply(connection: Connection) -> str:
        require_member(connection, project_id, person_id)
        require_control(connection, actor, person_id)
        new = free_name(connection, name, person_id)
        connection.execute(update(person).where(person.c.id == person_id).values(name=new))
        theirs = (select(table.c.project_id).where(table.c.person_id == person_id) for table in (member, answer))
        for other in connection.execute(union(*theirs)).scalars().all():
            _forget_names(connection, other)
            log_event(connection, other, "annotator_renamed")
        return new

    return store.write(apply)


def pseudonymise(store: Store, actor: Actor, project_id: int, person_id: int) -> str:
    """Replace the name of a person by a random one; the votes stay."""
    return rename(store, actor, project_id, person_id, f"annotator-{secrets.token_hex(4)}")


def erase(store: Store, actor: Actor, project_id: int, person_id: int) -> None:
    """Delete a member with all votes in the project; the log keeps only that it happened. An owner stays admin."""

    def remove(connection: Connection) -> None:
        require_member(connection, project_id, person_id)
        require_control(connection, actor, person_id)
        locked = select(person.c.is_owner).where(person.c.id == person_id).with_for_update()  # no new lease meanwhile
        if not connection.execute(locked).scalar():
            revoke_made_by(connection, project_id, person_id)
        _remove_looks(connection, project_id, person_id)
        delete_from_all_tables(connection, person_id=person_id, project_id=project_id)
        decided = and_(schema.gold.c.decided_by == person_id, schema.gold.c.project_id == project_id)
        connection.execute(update(schema.gold).where(decided).values(decided_by=None))
        delete_lonely_people(connection)
        _forget_names(connection, project_id)
        log_event(connection, project_id, "annotator_erased")

    store.write(remove)


def _forget_names(connection: Connection, project_id: int) -> None:
    """Delete what may contain the name of a person: models, and alarms of others; the next fit makes them anew."""
    forget_model(connection, project_id)
    connection.execute(delete(annotator_estimate).where(annotator_estimate.c.project_id == project_id))


def _remove_looks(connection: Connection, project_id: int, person_id: int) -> None:
    """Count a person no longer who has judged documents or holds some, and end the leases."""
    held, judged = (and_(table.c.project_id == project_id, table.c.person_id == person_id) for table in (lease, answer))
    ended = connection.execute(delete(lease).where(held).returning(lease.c.document_id)).scalars().all()
    answered = select(answer.c.document_id).where(judged, answer.c.kind.in_(schema.LOOKS))
    for documents in (ended, answered):
        one_less = update(document).where(document.c.id.in_(documents)).values(n_looks=document.c.n_looks - 1)
        connection.execute(one_less)


def _answered(connection: Connection, project_id: int) -> dict[int, Row[*tuple[Any, ...]]]:
    """Documents that each person has judged, and when they answered last."""
    n_looks = func.sum(case((answer.c.kind.in_(schema.LOOKS), 1), else_=0)).label("n_looks")
    last_at = func.max(case((answer.c.kind != "expired", answer.c.answered_at)))
    query = select(answer.c.person_id, n_looks, last_at.label("last_at"))
    rows = connection.execute(query.where(answer.c.project_id == project_id).group_by(answer.c.person_id))
    return {row.person_id: row for row in rows}


def require_member(connection: Connection, project_id: int, person_id: int) -> None:
    """Raise unless somebody is a member of a project, or has answered something in it as owner."""
    for table in (member, answer):
        known = select(table.c.person_id).where(table.c.project_id == project_id, table.c.person_id == person_id)
        if connection.execute(known.limit(1)).scalar() is not None:
            return
    raise NotFoundError("there is no such member")
