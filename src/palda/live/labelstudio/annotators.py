"""Users of Label Studio as members of a project."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from palda.live.errors import InvalidRequestError
from palda.live.schema import labelstudio_connection, labelstudio_user, member, person
from palda.live.service.access import add_member
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


def people_of(connection: Connection, project_id: int) -> dict[int, int | None]:
    """Members by the number of their user, None for those who were erased here.

    A negative number is that of the user as an annotator of pre-labelled tasks.
    """
    user = labelstudio_user.c
    is_member = (member.c.project_id == user.project_id) & (member.c.person_id == user.member_id)
    query = select(user.user_id, member.c.person_id).join(member, is_member, isouter=True)
    return dict(connection.execute(query.where(user.project_id == project_id)).all())


def add_people(connection: Connection, project_id: int, url: str, names: Mapping[int, str]) -> None:
    """Make users annotators of a project, without credentials. In one store a user is one person."""
    for user_id, name in sorted(names.items(), key=lambda one: (one[0] < 0, one[0])):
        person_id = _elsewhere(connection, url, user_id) or _new_person(connection, name, user_id)
        add_member(connection, project_id, person_id, "annotator")
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
    number, end = abs(user_id), " (pre-labelled)" if user_id < 0 else ""
    try:
        wanted = checked_name(name[:MAX_NAME].lstrip(_FORMULA_STARTS), "name", MAX_NAME - 40)
    except InvalidRequestError:
        wanted = f"user {number}"
    for attempt in itertools.count():
        other = f" ({number})" if attempt else ""
        full = f"{wanted}{other}{f' #{attempt}' if attempt > 1 else ''}{end}"
        if connection.execute(select(person.c.id).where(person.c.name == full)).scalar() is None:
            break
    added = insert(person).values(name=full, created_at=time.time()).returning(person.c.id)
    return int(connection.execute(added).scalar_one())
