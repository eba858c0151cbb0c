"""Members of a project: roles, pauses, erasure."""

from __future__ import annotations

import secrets
import statistics
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, func, select, update

from palda.live import schema
from palda.live.errors import InvalidRequestError, NotFoundError
from palda.live.records import AnnotatorEstimate, Member
from palda.live.schema import annotator_estimate, answer, document, lease, member, person, submission
from palda.live.service.access import free_name, require_control, revoke_made_by
from palda.live.service.documents import forget_model
from palda.live.service.projects import delete_lonely_people
from palda.live.store import log_event

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Update

    from palda.live.records import Actor, Role
    from palda.live.store import Store

_ROLES = ("admin", "annotator", "viewer")
_RECENT = 31  # submissions that give the speed


def members(store: Store, project_id: int) -> list[Member]:
    """Members of a project in the order of joining, with what the learner knows about them."""

    def find(connection: Connection) -> list[Member]:
        stored = and_(
            annotator_estimate.c.project_id == member.c.project_id,
            annotator_estimate.c.person_id == member.c.person_id,
        )
        query = (
            select(person.c.id, person.c.name, member.c.role, member.c.is_paused, annotator_estimate.c.estimate)
            .select_from(member.join(person, person.c.id == member.c.person_id).outerjoin(annotator_estimate, stored))
            .where(member.c.project_id == project_id)
            .order_by(member.c.joined_at, person.c.id)
        )
        return [_member(connection, project_id, row) for row in connection.execute(query).all()]

    return store.read(find)


def set_paused(store: Store, project_id: int, person_id: int, *, is_paused: bool) -> None:
    """Stop or resume giving documents to a member; their votes still count."""

    def apply(connection: Connection) -> None:
        require_member(connection, project_id, person_id)
        connection.execute(_update_member(project_id, person_id).values(is_paused=is_paused))
        if is_paused:
            mine = and_(schema.queue.c.project_id == project_id, schema.queue.c.person_id == person_id)
            connection.execute(delete(schema.queue).where(mine))

    store.write(apply)


def set_role(store: Store, project_id: int, person_id: int, role: Role) -> None:
    """Give a member another role."""
    if role not in _ROLES:
        raise InvalidRequestError(f"a role is one of {', '.join(_ROLES)}")

    def apply(connection: Connection) -> None:
        require_member(connection, project_id, person_id)
        connection.execute(_update_member(project_id, person_id).values(role=role))
        if role != "admin":
            revoke_made_by(connection, project_id, person_id)

    store.write(apply)


def rename(store: Store, actor: Actor, project_id: int, person_id: int, name: str) -> str:
    """Give a person another name in all projects, and forget the old one."""

    def apply(connection: Connection) -> str:
        require_member(connection, project_id, person_id)
        require_control(connection, actor, person_id)
        new = free_name(connection, name, person_id)
        connection.execute(update(person).where(person.c.id == person_id).values(name=new))
        for other in (
            connection.execute(select(member.c.project_id).where(member.c.person_id == person_id)).scalars().all()
        ):
            _forget_names(connection, other)
            log_event(connection, other, "annotator_renamed")
        return new

    return store.write(apply)


def pseudonymise(store: Store, actor: Actor, project_id: int, person_id: int) -> str:
    """Replace the name of a person by a random one; the votes stay."""
    return rename(store, actor, project_id, person_id, f"annotator-{secrets.token_hex(4)}")


def erase(store: Store, actor: Actor, project_id: int, person_id: int) -> None:
    """Delete a member with all votes in the project; the log keeps only that it happened."""

    def remove(connection: Connection) -> None:
        require_member(connection, project_id, person_id)
        require_control(connection, actor, person_id)
        revoke_made_by(connection, project_id, person_id)
        looked = _looked_at(connection, project_id, person_id)
        for table in reversed(schema.metadata.sorted_tables):
            if "person_id" in table.c and "project_id" in table.c:
                mine = and_(table.c.person_id == person_id, table.c.project_id == project_id)
                connection.execute(delete(table).where(mine))
        for start in range(0, len(looked), 500):
            some = document.c.id.in_(looked[start : start + 500])
            connection.execute(update(document).where(some).values(n_looks=document.c.n_looks - 1))
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


def _looked_at(connection: Connection, project_id: int, person_id: int) -> list[int]:
    """Documents whose number of looks counts the person."""
    answered = select(answer.c.document_id).where(
        answer.c.project_id == project_id,
        answer.c.person_id == person_id,
        answer.c.kind.in_(schema.LOOKS),
    )
    leased = select(lease.c.document_id).where(lease.c.project_id == project_id, lease.c.person_id == person_id)
    return sorted({*connection.execute(answered).scalars(), *connection.execute(leased).scalars()})


def _member(connection: Connection, project_id: int, row: Row[*tuple[Any, ...]]) -> Member:
    mine = and_(answer.c.project_id == project_id, answer.c.person_id == row.id)
    is_vote = answer.c.kind.in_(schema.LOOKS)
    n_documents = connection.execute(select(func.count()).where(mine, is_vote)).scalar_one()
    last_seen = connection.execute(select(func.max(answer.c.answered_at)).where(mine)).scalar()
    recent = select(submission.c.seconds).where(submission.c.person_id == row.id, submission.c.project_id == project_id)
    recent = recent.where(submission.c.seconds.is_not(None)).order_by(submission.c.id.desc()).limit(_RECENT)
    seconds = connection.execute(recent).scalars().all()
    return Member(
        row.id,
        row.name,
        row.role,
        row.is_paused,
        n_documents,
        statistics.median(seconds) if seconds else None,
        last_seen,
        None if row.estimate is None else AnnotatorEstimate.from_json(row.estimate),
    )


def _update_member(project_id: int, person_id: int) -> Update:
    return update(member).where(member.c.project_id == project_id, member.c.person_id == person_id)


def require_member(connection: Connection, project_id: int, person_id: int) -> None:
    """Raise unless somebody is a member of a project."""
    query = select(member.c.role).where(member.c.project_id == project_id, member.c.person_id == person_id)
    if connection.execute(query).scalar() is None:
        raise NotFoundError("there is no such member")
