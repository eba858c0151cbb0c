"""Who may do what: credentials, sessions and invitations. Tokens are random, and only their hashes are stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, bindparam, delete, exists, false, insert, null, or_, select, true, update

from palda.live.errors import ConflictError, InvalidRequestError, NotAllowedError, NotFoundError, NotSignedInError
from palda.live.records import Actor, Invitation
from palda.live.schema import Key, credential, member, person, project
from palda.live.service.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from palda.live.records import Role
    from palda.live.store import Store

DAY = 86400.0
SESSION_DAYS, MAX_SESSIONS = 30, 20  # per person
_START_DAYS = 30
_OWNER = "admin"
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_SIGN_IN = "sign in with your invitation link; ask an admin of the project for a new one"


def _signed_in(*columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Statement that finds the holder of a token."""
    about = credential.c.id.label("credential_id"), credential.c.kind, credential.c.created_by
    return (
        select(person.c.id, person.c.name, person.c.is_owner, *about, *columns)
        .select_from(credential.join(person, person.c.id == credential.c.person_id))
        .where(credential.c.token_hash == bindparam("hash"), credential.c.kind != "invitation")
        .where(credential.c.expires_at > bindparam("now"))
    )


_SIGNED_IN = _signed_in(null().label("role"), false().label("is_paused"), false().label("is_project"))
_is_project = exists().where(project.c.id == bindparam("project")).label("is_project")
_SIGNED_IN_MEMBER = _signed_in(member.c.role, member.c.is_paused, _is_project).outerjoin(
    member, and_(member.c.person_id == person.c.id, member.c.project_id == bindparam("project"))
)


class Sender(NamedTuple):
    """Who sends a request: the holder of a token, if they have one of the roles in the project."""

    token: str
    roles: Collection[Role] = ()
    is_cookie: bool = False

    def parameters(self) -> dict[str, Any]:
        """Parameters of the statements that find the holder of the token."""
        return {"hash": token_hash(self.token), "now": time.time()}

    def find(self, connection: Connection, project_id: int | None) -> Actor:
        """The person. Owners are admins of every project."""
        if project_id is None:
            return self.actor(connection.execute(_SIGNED_IN, self.parameters()).one_or_none(), None)
        given = {**self.parameters(), "project": project_id}
        return self.actor(connection.execute(_SIGNED_IN_MEMBER, given).one_or_none(), project_id)

    def actor(self, row: Row[*tuple[Any, ...]] | None, project_id: int | None) -> Actor:
        """The person of a row of these statements."""
        if row is None:
            raise NotSignedInError(_SIGN_IN)
        role: Any = "admin" if row.is_owner and row.is_project and row.role is None else row.role
        if project_id is not None and role is None:
            raise NotFoundError("there is no such project, or you are not a member of it")
        is_session = row.kind == "session"
        if self.is_cookie and not is_session:
            raise NotSignedInError("a token of the API belongs into the header Authorization, not into a cookie")
        if self.roles and role not in self.roles:
            raise NotAllowedError(f"only the role {' or '.join(sorted(self.roles))} may do this; yours is {role}")
        signed = row.credential_id, is_session
        return Actor(row.id, row.name, row.is_owner, *signed, role, bool(row.is_paused), row.created_by)


class Context(NamedTuple):
    """A statement about a person in a project, alone and with that which finds the holder of a token."""

    alone: Select[*tuple[Any, ...]]
    signed_in: Select[*tuple[Any, ...]]  # one row, also if the statement finds none

    @classmethod
    def of(cls, about: Callable[[ColumnElement[int]], Select[*tuple[Any, ...]]]) -> Context:
        """Both, from a function of the person's id."""
        found = about(person.c.id).lateral("about")
        joined = _SIGNED_IN_MEMBER.add_columns(*found.c).outerjoin(found, true())
        return cls(about(bindparam("person", type_=Key)), joined)


def find_with(
    connection: Connection, who: Actor | Sender, context: Context, given: dict[str, Any]
) -> tuple[Actor, Row[*tuple[Any, ...]] | None]:
    """A person, and what a statement says about them; ``given`` are its parameters, with ``project``.

    A sender is found by the same statement on PostgreSQL: a round trip less.
    """
    if isinstance(who, Sender) and connection.dialect.name == "postgresql":
        row = connection.execute(context.signed_in, {**given, **who.parameters()}).one_or_none()
        return who.actor(row, given["project"]), row
    actor = who.find(connection, given["project"]) if isinstance(who, Sender) else who
    return actor, connection.execute(context.alone, {**given, "person": actor.person_id}).one_or_none()


def enter(store: Store, token: str | None, project_id: int | None = None) -> Actor:
    """Who holds a token."""
    if not token:
        raise NotSignedInError(_SIGN_IN)
    return store.read(lambda connection: Sender(token).find(connection, project_id))


def require_owner(actor: Actor) -> None:
    """Raise unless the actor administers the whole store."""
    if not actor.is_owner:
        raise NotAllowedError("only the owner of this server may do this")


def token_hash(token: str) -> str:
    """What is stored of a token. Tokens have 256 random bits, so that a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def form_key(store: Store, token: str) -> str:
    """Value that pages of a session send with every change, so that other sites cannot send one for the person."""
    return hmac.new(store.secret.encode(), token_hash(token).encode(), hashlib.sha256).hexdigest()


def add_session(connection: Connection, person_id: int, created_by: int | None = None) -> str:
    """Token of a new session, for a cookie; of too many the oldest ends: a link does not make any number of them."""
    token = add_credential(connection, "session", person_id, SESSION_DAYS, created_by=created_by)
    mine = and_(credential.c.person_id == person_id, credential.c.kind == "session")
    kept = select(credential.c.id).where(mine).order_by(credential.c.id.desc()).limit(MAX_SESSIONS)
    connection.execute(delete(credential).where(mine, credential.c.id.not_in(kept)))
    return token


def create_api_token(store: Store, actor: Actor, person_id: int, days: float = 90) -> str:
    """Token for programs that send requests as a person.

    One's own counts as made by who made the credential of the request: an admin may have signed in as this person.
    """

    def add(connection: Connection) -> str:
        require_control(connection, actor, person_id)
        is_own = actor.person_id == person_id
        made_by = actor.made_by if is_own and actor.made_by is not None else actor.person_id
        return add_credential(connection, "api", person_id, days, created_by=made_by)

    return store.write(add)


def require_control(connection: Connection, actor: Actor, person_id: int) -> None:
    """Raise unless the actor is an admin of every project that a person is a member of.

    Who gets a sign-in link of somebody can do everything that this person can.
    """
    if actor.is_owner or actor.person_id == person_id:
        return
    is_owner = select(person.c.is_owner).where(person.c.id == person_id)
    if connection.execute(is_owner).scalar() or connection.execute(_outside(actor.person_id, person_id)).first():
        raise NotAllowedError("this person belongs to projects that you do not administer; ask the owner of the server")


def _outside(admin_id: int | ColumnElement[int], person_id: int) -> Select[int]:
    """Projects of a person that an admin does not administer."""
    theirs, mine = member.alias(), member.alias()
    managed = and_(mine.c.project_id == theirs.c.project_id, mine.c.person_id == admin_id, mine.c.role == "admin")
    return select(theirs.c.project_id).where(theirs.c.person_id == person_id, ~exists().where(managed))


def end_session(store: Store, token: str) -> None:
    """Sign out: the token is worth nothing from now on."""
    gone = delete(credential).where(credential.c.token_hash == token_hash(token), credential.c.kind != "invitation")
    store.write(lambda connection: connection.execute(gone).rowcount)


def invite(
    store: Store,
    actor: Actor,
    project_id: int,
    role: Role,
    name: str | None = None,
    uses: int | None = None,
    days: float = 14,
) -> str:
    """Token of an invitation link. With a name it is for one person, who may use it again to sign in."""

    def add(connection: Connection) -> str:
        invited = None
        if name is not None:
            invited = _invited(connection, actor, project_id, checked_name(name, "name"), role)
            require_control(connection, actor, invited)
        about = {"project_id": project_id, "role": role, "uses_left": uses, "created_by": actor.person_id}
        return add_credential(connection, "invitation", invited, days, **about)

    return store.write(add)


def invitation(store: Store, token: str) -> Invitation:
    """What an invitation is for."""

    def find(connection: Connection) -> Invitation:
        row = _invitation_row(connection, token)
        name = connection.execute(select(person.c.name).where(person.c.id == row.person_id)).scalar()
        title = connection.execute(select(project.c.name).where(project.c.id == row.project_id)).scalar()
        return Invitation(row.project_id, title or "all projects", row.role or "admin", name)

    return store.read(find)


def accept(store: Store, token: str, name: str | None = None, actor: Actor | None = None) -> tuple[str, int | None]:
    """Token of a session for the person who follows an invitation, and the project that it is for.

    Somebody who is signed in joins as the same person, unless the invitation is for somebody else.
    """

    def join(connection: Connection) -> tuple[str, int | None]:
        row = _invitation_row(connection, token)
        person_id = row.person_id
        if person_id is None and actor is not None:
            person_id = actor.person_id
            if not actor.is_owner:
                add_member(connection, row.project_id, person_id, row.role)
        elif person_id is None:
            if not name:
                raise InvalidRequestError("give the name under which your votes are kept")
            person_id = _add_person(connection, name)
            add_member(connection, row.project_id, person_id, row.role)
        if row.uses_left is not None:
            changed = update(credential).where(credential.c.id == row.id).values(uses_left=row.uses_left - 1)
            connection.execute(changed)
        made_by = row.created_by
        if row.person_id is None:
            made_by = None if actor is None else actor.made_by
        return add_session(connection, person_id, made_by), row.project_id

    return store.write(join)


def _revoke_foreign(connection: Connection, person_id: int) -> None:
    """Delete credentials of somebody that were made by others who do not administer all their projects any more."""
    made_by = credential.c.created_by
    owners = select(person.c.id).where(person.c.is_owner)
    foreign = and_(made_by != person_id, made_by.not_in(owners), _outside(made_by, person_id).exists())
    connection.execute(delete(credential).where(credential.c.person_id == person_id, foreign))


def revoke_made_by(connection: Connection, project_id: int, person_id: int) -> None:
    """Delete what somebody has made to get into a project, who is no longer its admin: links, and tokens of others."""
    members = select(member.c.person_id).where(member.c.project_id == project_id)
    into = or_(
        credential.c.project_id == project_id,
        and_(credential.c.person_id.in_(members), credential.c.person_id != person_id),
    )
    connection.execute(delete(credential).where(credential.c.created_by == person_id, into))


def start_tokens(store: Store) -> tuple[str, str]:
    """Tokens of a sign-in link and of programs for the owner of the store, who is created at the first start."""

    def add(connection: Connection) -> tuple[str, str]:
        owner = connection.execute(select(person.c.id).where(person.c.is_owner).order_by(person.c.id)).scalar()
        if owner is None:
            values = {"name": _OWNER, "is_owner": True, "created_at": time.time()}
            owner = connection.execute(insert(person).values(**values).returning(person.c.id)).scalar_one()
        connection.execute(delete(credential).where(credential.c.expires_at < time.time()))
        link = add_credential(connection, "invitation", owner, _START_DAYS, role="admin")
        return link, add_credential(connection, "api", owner, _START_DAYS)

    return store.write(add)


def add_credential(connection: Connection, kind: str, person_id: int | None, days: float, **details: object) -> str:
    """Store a new credential; returns its token."""
    token, now = secrets.token_urlsafe(32), time.time()
    values = {"token_hash": token_hash(token), "kind": kind, "person_id": person_id, **details}
    connection.execute(insert(credential).values(created_at=now, expires_at=now + days * DAY, **values))
    return token


def _invitation_row(connection: Connection, token: str) -> Row[*tuple[Any, ...]]:
    usable = and_(
        credential.c.expires_at > time.time(), or_(credential.c.uses_left.is_(None), credential.c.uses_left > 0)
    )
    query = select(credential).where(
        credential.c.token_hash == token_hash(token), credential.c.kind == "invitation", usable
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError("this invitation has expired or was used; ask an admin of the project for a new one")
    return row


def _invited(connection: Connection, actor: Actor, project_id: int, name: str, role: Role) -> int:
    """The person of a name as a member of the project: a new one, or a member of this name and role.

    Owners may add somebody who is a member of another project.
    """
    joined = and_(member.c.person_id == person.c.id, member.c.project_id == project_id)
    query = select(person.c.id, person.c.is_owner, member.c.role).select_from(person.outerjoin(member, joined))
    found = connection.execute(query.where(person.c.name == name)).one_or_none()
    if found is not None and found.role is not None:
        if found.role != role:
            raise InvalidRequestError(f"{name} is a member with the role {found.role}; change the role instead")
        return int(found.id)
    if found is not None and found.is_owner:
        raise ConflictError("this is the name of the owner of the server, who is an admin of every project")
    if found is not None and not actor.is_owner:
        raise ConflictError(
            "somebody of another project has this name; choose another one, or make a link without a name: who is "
            "signed in joins as the same person"
        )
    person_id = _add_person(connection, name) if found is None else int(found.id)
    add_member(connection, project_id, person_id, role)
    return person_id


def free_name(connection: Connection, name: str, person_id: int | None = None) -> str:
    """A name of a person that nobody else has."""
    name = checked_name(name, "name")
    if name.startswith(_FORMULA_STARTS):
        raise InvalidRequestError(
            "a name starts with a letter or a digit: spreadsheets would run this one as a formula"
        )
    holder = connection.execute(select(person.c.id).where(person.c.name == name)).scalar()
    if holder is not None and holder != person_id:
        raise ConflictError("somebody has this name already; choose another one")
    return name


def _add_person(connection: Connection, name: str) -> int:
    name = free_name(connection, name)
    added = insert(person).values(name=name, created_at=time.time()).returning(person.c.id)
    return int(connection.execute(added).scalar_one())


def add_member(connection: Connection, project_id: int, person_id: int, role: Role) -> None:
    """Membership with this role; who is a member already stays what they are."""
    known = select(member.c.role).where(member.c.project_id == project_id, member.c.person_id == person_id)
    if connection.execute(known).scalar() is None:
        values = {"project_id": project_id, "person_id": person_id, "role": role, "joined_at": time.time()}
        connection.execute(insert(member).values(**values))
        _revoke_foreign(connection, person_id)
