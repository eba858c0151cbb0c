"""Connections in the store: which project follows which, how, and what was changed in Label Studio for it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from sqlalchemy import insert, select, true, update

from palda.live.errors import NotFoundError
from palda.live.schema import labelstudio_connection

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palda.live.labelstudio.remote import RemoteAnnotation
    from palda.live.store import Store

table = labelstudio_connection

GroundTruth = Literal["gold", "votes"]
PrelabelRule = Literal["keep", "separate"]


@dataclass(frozen=True)
class ConnectionSettings:
    """What the connection does besides reading."""

    prelabel_share: float = 0.8  # of the tasks that show pre-labels; 0: none
    ground_truth: GroundTruth = "gold"  # what annotations marked as ground truth are
    steer: bool = True  # set overlap, order and predictions
    prelabelled: PrelabelRule = "keep"  # separate: annotations that began from a pre-label are another annotator's

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Settings as stored; unknown names of later versions are ignored."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    def shows_prelabel(self, task_id: int) -> bool:
        """Whether annotators see pre-labels of a task; the same at every start."""
        digest = hashlib.sha256(f"palda {task_id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2.0**64 < self.prelabel_share

    def annotator_of(self, one: RemoteAnnotation, task_id: int) -> RemoteAnnotation:
        """An annotation with the number of its annotator, which is negative for another self on pre-labelled tasks."""
        is_other = self.prelabelled == "separate" and one.from_prediction and self.shows_prelabel(task_id)
        return replace(one, user_id=-one.user_id) if is_other else one


@dataclass(frozen=True)
class StoredConnection:
    """A row of ``labelstudio_connection``."""

    project_id: int
    url: str
    remote_project: int
    question: str
    settings: ConnectionSettings
    secret_hash: str
    changed: dict[str, list[Any]]
    webhook_id: int | None
    backend_id: int | None
    versions: dict[str, float | None]
    message: str
    synced_at: float | None

    @property
    def name(self) -> str:
        """Address of the project in Label Studio."""
        return f"{self.url}/projects/{self.remote_project}"

    @property
    def task_link(self) -> str:
        """Address of a task without its number."""
        return f"{self.name}/data?task="


def find(connection: Connection, project_id: int) -> StoredConnection | None:
    """The connection of a project, if it has one."""
    return next(iter(_read(connection, table.c.project_id == project_id)), None)


def of_remote(connection: Connection, remote_project: int, url: str | None = None) -> list[StoredConnection]:
    """Connections to a project of Label Studio, one per question, the oldest first."""
    which = table.c.remote_project == remote_project
    return _read(connection, which if url is None else which & (table.c.url == url))


def all_connections(connection: Connection) -> list[StoredConnection]:
    """All connections of a store."""
    return _read(connection, true())


def add(store: Store, new: StoredConnection) -> None:
    """Store a new connection."""
    values = {**new.__dict__, "settings": asdict(new.settings)}
    store.write(lambda connection: connection.execute(insert(table).values(**values)).rowcount)


def change(store: Store, project_id: int, **values: Any) -> StoredConnection:
    """Change some columns; returns the connection as it is now."""
    if isinstance(values.get("settings"), ConnectionSettings):
        values["settings"] = asdict(values["settings"])

    def apply(connection: Connection) -> StoredConnection:
        connection.execute(update(table).where(table.c.project_id == project_id).values(**values))
        found = find(connection, project_id)
        if found is None:
            raise NotFoundError("the project is not connected to Label Studio")
        return found

    return store.write(apply)


def _read(connection: Connection, which: Any) -> list[StoredConnection]:
    rows = connection.execute(select(table).where(which).order_by(table.c.project_id)).mappings()
    return [StoredConnection(**{**row, "settings": ConnectionSettings.from_json(row["settings"])}) for row in rows]
