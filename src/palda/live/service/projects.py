"""Projects: their classes, settings and guidelines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete as delete_rows
from sqlalchemy import func, insert, select, true, update

from palda.live import schema
from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import Label, Project, ProjectSettings
from palda.live.service.access import require_owner
from palda.live.service.names import checked_name, checked_text
from palda.live.store import log_event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import ColumnElement, Connection

    from palda.live.records import Actor, Role
    from palda.live.store import Store

MAX_LABELS = 1000


def create(
    store: Store,
    actor: Actor,
    name: str,
    labels: Iterable[str | tuple[str, str]],
    settings: ProjectSettings | None = None,
    guidelines: str = "",
) -> Project:
    """A new project. Its classes are names, or names and their meanings; they may be extended later."""
    require_owner(actor)
    pairs = [(label, "") if isinstance(label, str) else label for label in labels]
    described = {checked_name(label, "class"): checked_text(meaning, "description") for label, meaning in pairs}
    if not pairs:
        raise InvalidRequestError("a project needs at least one class")
    if len(pairs) > MAX_LABELS:
        raise InvalidRequestError(f"a project has at most {MAX_LABELS} classes")
    if len(described) < len(pairs):
        raise InvalidRequestError("two classes have the same name")
    values = {
        "name": checked_name(name, "name"),
        "guidelines": checked_text(guidelines, "guidelines"),
        "settings": (settings or ProjectSettings()).model_dump(),
        "created_at": time.time(),
    }

    def add(connection: Connection) -> Project:
        added = insert(schema.project).values(**values).returning(schema.project.c.id)
        project_id = int(connection.execute(added).scalar_one())
        rows = [
            {"project_id": project_id, "number": number, "name": label, "description": meaning}
            for number, (label, meaning) in enumerate(described.items())
        ]
        connection.execute(insert(schema.label), rows)
        return read_project(connection, project_id)

    return store.write(add)


def projects_of(store: Store, actor: Actor) -> list[Project]:
    """Projects that a person is a member of; all of them for the owner."""
    mine = select(schema.member.c.project_id).where(schema.member.c.person_id == actor.person_id)
    which = true() if actor.is_owner else schema.project.c.id.in_(mine)
    return store.read(lambda connection: _read_projects(connection, which))


def roles_of(store: Store, actor: Actor) -> dict[int, Role]:
    """Role of a person in each project that they are a member of."""
    table = schema.member
    query = select(table.c.project_id, table.c.role).where(table.c.person_id == actor.person_id)
    return store.read(lambda connection: dict(connection.execute(query).all()))


def project(store: Store, project_id: int) -> Project:
    """One project."""
    return store.read(lambda connection: read_project(connection, project_id))


def read_project(connection: Connection, project_id: int) -> Project:
    """One project, inside of a transaction."""
    found = _read_projects(connection, schema.project.c.id == project_id)
    if not found:
        raise NotFoundError("there is no such project")
    return found[0]


def _read_projects(connection: Connection, which: ColumnElement[bool]) -> list[Project]:
    rows = connection.execute(select(schema.project).where(which).order_by(schema.project.c.id)).all()
    labels = _labels(connection, [row.id for row in rows])
    return [
        Project(
            row.id,
            row.name,
            row.guidelines,
            ProjectSettings.from_json(row.settings),
            tuple(labels[row.id]),
            row.is_paused,
            row.is_complete,
            row.created_at,
        )
        for row in rows
    ]


def read_labels(connection: Connection, project_id: int) -> list[Label]:
    """Classes of a project in their order."""
    return _labels(connection, [project_id])[project_id]


def _labels(connection: Connection, project_ids: Collection[int]) -> dict[int, list[Label]]:
    found: dict[int, list[Label]] = {number: [] for number in project_ids}
    table = schema.label
    query = select(table.c.project_id, table.c.id, table.c.number, table.c.name, table.c.description)
    for project_id, *label in connection.execute(
        query.where(table.c.project_id.in_(project_ids)).order_by(table.c.number)
    ):
        found[project_id].append(Label(*label))
    return found


def change(
    store: Store,
    project_id: int,
    *,
    name: str | None = None,
    guidelines: str | None = None,
    settings: dict[str, Any] | None = None,
    is_paused: bool | None = None,
) -> Project:
    """Change what is given; settings that are not named stay."""
    values: dict[str, Any] = {}
    if name is not None:
        values["name"] = checked_name(name, "name")
    if guidelines is not None:
        values["guidelines"] = checked_text(guidelines, "guidelines")
    if is_paused is not None:
        values["is_paused"] = is_paused

    def apply(connection: Connection) -> Project:
        before = read_project(connection, project_id)
        if settings is not None:
            changed = ProjectSettings.from_json({**before.settings.model_dump(), **settings})
            values["settings"] = changed.model_dump()
            log_event(connection, project_id, "settings_changed")
        if is_paused is not None and is_paused != before.is_paused:
            log_event(connection, project_id, "project_paused", is_paused=is_paused)
        if values:
            connection.execute(update(schema.project).where(schema.project.c.id == project_id).values(**values))
        return read_project(connection, project_id)

    return store.write(apply)


def add_label(store: Store, project_id: int, name: str, description: str = "") -> Label:
    """A new class; earlier votes have not judged it."""
    table, title = schema.label, checked_name(name, "class")
    text = checked_text(description, "description")

    def add(connection: Connection) -> Label:
        labels = read_project(connection, project_id).labels
        if any(label.name == title for label in labels):
            raise ConflictError("the project has a class of this name")
        if len(labels) >= MAX_LABELS:
            raise InvalidRequestError(f"a project has at most {MAX_LABELS} classes")
        values = {"project_id": project_id, "number": len(labels), "name": title, "description": text}
        added = connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one()
        connection.execute(update(schema.project).where(schema.project.c.id == project_id).values(is_complete=False))
        log_event(connection, project_id, "label_added", label_id=added)
        return Label(added, len(labels), title, text)

    return store.write(add)


def delete(store: Store, project_id: int) -> None:
    """Delete a project with everything in it, and people who are in no other project."""

    def remove(connection: Connection) -> None:
        read_project(connection, project_id)
        delete_from_all_tables(connection, project_id=project_id)
        connection.execute(delete_rows(schema.project).where(schema.project.c.id == project_id))
        delete_lonely_people(connection)

    store.write(remove)


def delete_from_all_tables(connection: Connection, **keys: int) -> None:
    """Delete the rows with these values from all tables that have these columns."""
    for table in reversed(schema.metadata.sorted_tables):
        if keys.keys() <= set(table.c.keys()):
            connection.execute(delete_rows(table).where(*(table.c[name] == value for name, value in keys.items())))


def delete_lonely_people(connection: Connection) -> None:
    """Delete people who are in no project, and their credentials."""
    members = select(schema.member.c.person_id)
    lonely = select(schema.person.c.id).where(~schema.person.c.is_owner, schema.person.c.id.not_in(members))
    ids = connection.execute(lonely).scalars().all()
    made = schema.credential.c
    connection.execute(delete_rows(schema.credential).where(made.person_id.in_(ids) | made.created_by.in_(ids)))
    connection.execute(delete_rows(schema.person).where(schema.person.c.id.in_(ids)))


def head_position(connection: Connection) -> int:
    """Last position of the log."""
    return int(connection.execute(select(func.max(schema.log_head.c.position))).scalar_one())
