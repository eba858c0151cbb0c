"""Projects: their classes, settings and guidelines."""

from __future__ import annotations

import time
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete as delete_rows
from sqlalchemy import func, insert, select, update

from palda.live import schema
from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError
from palda.live.records import Label, Project, ProjectSettings
from palda.live.service.access import require_owner
from palda.live.service.names import checked_name, checked_text
from palda.live.store import log_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from palda.live.records import Actor
    from palda.live.store import Store

MAX_LABELS = 1000
_LIMITS = {  # smallest and largest value of each setting that is a number
    "target_error": (1e-6, 0.5),
    "max_votes_per_doc": (1, 1000),
    "fixed_votes_per_doc": (1, 1000),
    "gold_share": (0.0, 0.5),
    "check_share": (0.0, 0.5),
    "lease_seconds": (10, 7 * 86400),
    "min_seconds": (0.0, 3600.0),
}


def create(
    store: Store,
    actor: Actor,
    name: str,
    labels: Iterable[str],
    settings: ProjectSettings | None = None,
    guidelines: str = "",
) -> Project:
    """A new project. Its classes may be extended later."""
    require_owner(actor)
    names = [checked_name(label, "class") for label in labels]
    if not names:
        raise InvalidRequestError("a project needs at least one class")
    if len(names) > MAX_LABELS:
        raise InvalidRequestError(f"a project has at most {MAX_LABELS} classes")
    if len(set(names)) < len(names):
        raise InvalidRequestError("two classes have the same name")
    values = {
        "name": checked_name(name, "name"),
        "guidelines": checked_text(guidelines, "guidelines"),
        "settings": asdict(check_settings(settings or ProjectSettings())),
        "created_at": time.time(),
    }

    def add(connection: Connection) -> Project:
        added = insert(schema.project).values(**values).returning(schema.project.c.id)
        project_id = int(connection.execute(added).scalar_one())
        rows = [{"project_id": project_id, "number": number, "name": label} for number, label in enumerate(names)]
        connection.execute(insert(schema.label), rows)
        return read_project(connection, project_id)

    return store.write(add)


def projects_of(store: Store, actor: Actor) -> list[Project]:
    """Projects that a person is a member of; all of them for the owner."""

    def find(connection: Connection) -> list[Project]:
        query = select(schema.project.c.id).order_by(schema.project.c.id)
        if not actor.is_owner:
            query = query.join(schema.member, schema.member.c.project_id == schema.project.c.id)
            query = query.where(schema.member.c.person_id == actor.person_id)
        return [read_project(connection, project_id) for project_id in connection.execute(query).scalars().all()]

    return store.read(find)


def project(store: Store, project_id: int) -> Project:
    """One project."""
    return store.read(lambda connection: read_project(connection, project_id))


def read_project(connection: Connection, project_id: int) -> Project:
    """One project, inside of a transaction."""
    row = connection.execute(select(schema.project).where(schema.project.c.id == project_id)).one_or_none()
    if row is None:
        raise NotFoundError("there is no such project")
    settings = ProjectSettings.from_json(row.settings)
    labels = read_labels(connection, project_id)
    return Project(row.id, row.name, row.guidelines, settings, labels, row.is_paused, row.is_complete, row.created_at)


def read_labels(connection: Connection, project_id: int) -> tuple[Label, ...]:
    """Classes of a project in their order."""
    table = schema.label
    query = select(table.c.id, table.c.number, table.c.name, table.c.description)
    rows = connection.execute(query.where(table.c.project_id == project_id).order_by(table.c.number))
    return tuple(Label(*row) for row in rows)


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
            values["settings"] = asdict(
                check_settings(ProjectSettings.from_json({**asdict(before.settings), **settings}))
            )
            log_event(connection, project_id, "settings_changed")
        if is_paused is not None and is_paused != before.is_paused:
            log_event(connection, project_id, "project_paused", is_paused=is_paused)
        if values:
            connection.execute(update(schema.project).where(schema.project.c.id == project_id).values(**values))
        return read_project(connection, project_id)

    return store.write(apply)


def check_settings(settings: ProjectSettings) -> ProjectSettings:
    """The settings, if all are possible."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name not in _LIMITS or (one.name == "target_error" and value is None):
            continue
        low, high = _LIMITS[one.name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise InvalidRequestError(f"{one.name} must be a number from {low:g} to {high:g}")
        if isinstance(low, int) and value != int(value):
            raise InvalidRequestError(f"{one.name} must be a whole number")
    if settings.ask not in ("document", "labels"):
        raise InvalidRequestError('ask must be "document" or "labels"')
    if not isinstance(settings.random_gold, bool):
        raise InvalidRequestError("random_gold must be true or false")
    return settings


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
        for table in reversed(schema.metadata.sorted_tables):
            if "project_id" in table.c:
                connection.execute(delete_rows(table).where(table.c.project_id == project_id))
            elif table is schema.project:
                connection.execute(delete_rows(table).where(table.c.id == project_id))
        delete_lonely_people(connection)

    store.write(remove)


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
