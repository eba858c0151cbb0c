"""Users of Label Studio as members of a project."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from palda.live.errors import InvalidRequestError
from palda.live.schema import labelstudio_connection, labelstudio_user, member, person
from palda.live.service.names import MAX_NAME, checked_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

_FORMULA_STARTS = "=+-@＝＋－＠ "  # spreadsheets would run such a name


def user_names(users: Iterable[Any]) -> dict[int, str]:
    """Names of users by their number: first and last name, else the e-mail address."""
    found = {}
    for user in users:
        if isinstance(user, dict) and isinstance(user.get("id"), int):
            parts = [str(user.get(key) or "") for key in ("first_name", "last_name")]
            name = " ".join(part for part in parts if part.strip())
            found[user["id"]] = name or str(user.get("email") or user.get("username") or "")
    return found


def people_of(connection: Connection, project_id: int) -> dict[int, int]:
    """Members by the number of their user; users who were erased here are left out."""
    is_member = (member.c.project_id == labelstudio_user.c.project_id) & (
        member.c.person_id == labelstudio_user.c.member_id
    )
    query = select(labelstudio_user.c.user_id, labelstudio_user.c.member_id).join(member, is_member)
    return dict(connection.execute(query.where(labelstudio_user.c.project_id == project_id)).all())


def known_users(connection: Connection, project_id: int) -> set[int]:
    """Users who were seen, with those who were erased here."""
    query = select(labelstudio_user.c.user_id).where(labelstudio_user.c.project_id == project_id)
    return set(connection.execute(query).scalars())


def add_people(connection: Connection, project_id: int, url: str, names: Mapping[int, str]) -> None:
    """Make users annotators of a project, without credentials. In one store a user is one person."""
    for user_id, name in sorted(names.items()):
        if user_id in known_users(connection, project_id):
            continue
        person_id = _elsewhere(connection, url, user_id) or _new_person(connection, name, user_id)
        known = select(member.c.role).where(member.c.project_id == project_id, member.c.person_id == person_id)
        if connection.execute(known).scalar() is None:
            values = {"project_id": project_id, "person_id": person_id, "role": "annotator", "joined_at": time.time()}
            connection.execute(insert(member).values(**values))
        row = {"project_id": project_id, "user_id": user_id, "member_id": person_id}
        connection.execute(insert(labelstudio_user).values(**row))


def _elsewhere(connection: Connection, url: str, user_id: int) -> int | None:
    """The person who is the same user in another project of the same Label Studio."""
    of_url = labelstudio_connection.c.project_id == labelstudio_user.c.project_id
    query = (
        select(person.c.id)
        .join(labelstudio_user, labelstudio_user.c.member_id == person.c.id)
        .join(labelstudio_connection, of_url)
        .where(labelstudio_connection.c.url == url, labelstudio_user.c.user_id == user_id)
        .limit(1)
    )
    return connection.execute(query).scalar()


def _new_person(connection: Connection, name: str, user_id: int) -> int:
    try:
        wanted = checked_name(name[:MAX_NAME].lstrip(_FORMULA_STARTS), "name", MAX_NAME - 20)
    except InvalidRequestError:
        wanted = f"user {user_id}"
    taken = select(person.c.id).where(person.c.name == wanted)
    if connection.execute(taken).scalar() is not None:
        wanted = f"{wanted} ({user_id})"
        number = 1
        while connection.execute(select(person.c.id).where(person.c.name == wanted)).scalar() is not None:
            number += 1
            wanted = f"{wanted.partition(' #')[0]} #{number}"
    added = insert(person).values(name=wanted, created_at=time.time()).returning(person.c.id)
    return int(connection.execute(added).scalar_one())
