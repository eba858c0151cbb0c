"""Which tasks are open in Label Studio, and which predictions they carry.

The free edition serves open tasks by rules of its own: those with the most annotations first, then those whose
prediction has the current model version. Steering therefore opens few tasks at a time, those where another vote is
worth the most, and gives predictions to these. Tasks that nobody has annotated stay open.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import and_, bindparam, case, func, select, update

from palda.live.labelstudio import connections
from palda.live.labelstudio.predictions import KnownTasks, known_tasks, predictions_for
from palda.live.labelstudio.remote import task_state
from palda.live.schema import labelstudio_task, member, posterior, project
from palda.live.service import projects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from palda.live.labelstudio.client import Client
    from palda.live.labelstudio.connections import StoredConnection
    from palda.live.labelstudio.sync import Sync
    from palda.live.records import Project
    from palda.live.store import Store

KEPT_SECONDS = 2 * 3600.0
"""For which predictions stay after later ones, because somebody may have them open."""

_MIN_OPEN, _OPEN_PER_PERSON = 30, 10  # tasks that wait for another vote
_PREDICTIONS_PER_REQUEST = 100
_CHANGES_PER_PASS = 40  # so that webhooks need not wait for long
_ORDER = ("doubtful", "certain", "enough", "later")  # in which changes are made


@dataclass(frozen=True)
class Change:
    """Another overlap for a task."""

    task_id: int
    overlap: int
    is_labeled: bool
    reason: str  # certain, doubtful, enough, later


@dataclass(frozen=True)
class Plan:
    """What should change now, the most useful first."""

    version: str
    changes: list[Change]
    predicted: list[int]  # tasks that need a prediction of this version


def plan(known: KnownTasks, found: Project, n_people: int) -> Plan:
    """What should change, from what is known and what Label Studio has.

    A task is certain if at most the target share of its labels is expected to be wrong. Of the others, those with the
    largest gain are open, one vote at a time, up to the largest number of votes.
    """
    settings = found.settings
    n_open = max(_MIN_OPEN, _OPEN_PER_PERSON * n_people)
    limit = (settings.target_error or 0.0) * max(len(known.classes), 1)
    gold = np.array([bool(row.is_gold) for row in known.rows], dtype=bool)
    n_votes = np.array([row.n_annotations for row in known.rows], dtype=int)
    is_certain = gold | (known.expected_wrong <= limit if settings.target_error is not None else np.zeros_like(gold))
    is_certain |= found.is_complete
    is_open = ~is_certain & (n_votes < settings.max_votes_per_doc) & ~np.isnan(known.gain)
    order = np.argsort(-np.where(is_open, known.gain, -1.0), kind="stable").tolist()
    window = _window(known, order[: int(is_open.sum())], n_open)
    changes = []
    for place in order:
        row, n = known.rows[place], int(n_votes[place])
        if not n or np.isnan(known.gain[place]):
            continue  # not annotated yet, or unknown to the fit: stays as it is
        if place in window:
            if row.is_labeled or not n < row.overlap <= settings.max_votes_per_doc:
                changes.append(Change(row.task_id, n + 1, False, "doubtful"))
        elif (row.overlap, row.is_labeled) != (n, True):
            reason = "certain" if is_certain[place] else "later" if is_open[place] else "enough"
            changes.append(Change(row.task_id, n, True, reason))
    changes.sort(key=lambda change: _ORDER.index(change.reason))
    predicted = [known.rows[place].task_id for place in window if known.rows[place].version != known.version]
    return Plan(known.version, changes, predicted)


def _window(known: KnownTasks, order: list[int], n_open: int) -> dict[int, None]:
    """Tasks that should be open, best first; those that are open already stay while they are nearly as good."""
    near = order[: 2 * n_open]
    held = [place for place in near if known.rows[place].n_annotations and not known.rows[place].is_labeled]
    chosen = set(list(dict.fromkeys([*held, *order]))[:n_open])
    return {place: None for place in order if place in chosen}


class Steering:
    """Carries out plans. It changes overlap and state of tasks, predictions, and the model version; never annotations.

    Parameters
    ----------
    store : Store
        The store.
    client : Client
        Of Label Studio.
    sync : Sync
        What knows the project's question.
    between : callable, default=None
        Called between changes, for work that cannot wait until all are made.
    """

    def __init__(self, store: Store, client: Client, sync: Sync, between: Callable[[], object] | None = None) -> None:
        self._store, self._client, self._sync = store, client, sync
        self._between = between or (lambda: None)
        self._seen: tuple[Any, ...] | None = None

    @property
    def _connection(self) -> StoredConnection:
        return self._sync.connection

    def plan(self) -> tuple[Plan, KnownTasks]:
        """What should change now."""
        project_id = self._connection.project_id
        found = projects.project(self._store, project_id)
        known = self._store.read(lambda connection: known_tasks(connection, project_id))
        return plan(known, found, self._store.read(self._n_people)), known

    def step(self) -> int:
        """Make some of the changes; returns how many. Nothing is looked at while nothing has changed."""
        state = self._store.read(self._state)
        if state == self._seen:
            return 0
        wanted, known = self.plan()
        if known.version.endswith("-0") or not self._connection.settings.steer:  # no fit yet
            self._seen = state
            return 0
        self._predict(wanted, known)
        for change in wanted.changes[:_CHANGES_PER_PASS]:
            self._apply(change)
            self._between()
        is_all = len(wanted.changes) <= _CHANGES_PER_PASS
        self._seen = self._store.read(self._state) if is_all else None
        return len(wanted.predicted) + len(wanted.changes[:_CHANGES_PER_PASS])

    def _predict(self, wanted: Plan, known: KnownTasks) -> None:
        """Write predictions, make them the current ones, and delete old ones that nobody has open any more."""
        connection, ids = self._connection, wanted.predicted
        if ids and connection.versions.get(wanted.version, 0.0) is not None:
            old = {name: time.time() if since is None else since for name, since in connection.versions.items()}
            self._keep(versions={**old, wanted.version: None})  # before there are any
        for first in range(0, len(ids), _PREDICTIONS_PER_REQUEST):
            some = ids[first : first + _PREDICTIONS_PER_REQUEST]
            found = predictions_for(known, some, self._sync.question.control, connection.settings)
            rows = [{"task": task, **one.body} for task, one in zip(some, found, strict=True)]
            self._client.send("POST", self._path("/import/predictions"), rows)
            noted = [{"task": task, "labels": one.labels} for task, one in zip(some, found, strict=True)]
            self._store.write(partial(self._note_predictions, wanted.version, noted))
            self._between()
        if ids and self._connection.changed.get("model_version", [None, None])[1] != wanted.version:
            set_project(self._store, self._client, self._sync, {"model_version": wanted.version})
        self._delete_old()

    def _note_predictions(self, version: str, noted: list[dict[str, Any]], connection: Connection) -> None:
        predicted = bindparam("labels", type_=labelstudio_task.c.predicted.type)
        which = and_(self._mine, labelstudio_task.c.task_id == bindparam("task"))
        connection.execute(update(labelstudio_task).where(which).values(version=version, predicted=predicted), noted)

    def _delete_old(self) -> None:
        """Delete predictions of earlier fits. Whoever has one open could not submit the annotation without it."""
        end = time.time() - KEPT_SECONDS
        versions = self._connection.versions
        old = [name for name, since in versions.items() if since is not None and since < end]
        for name in old:
            delete_predictions(self._client, self._path(""), name)
        if old:
            self._keep(versions={name: since for name, since in versions.items() if name not in old})

    def _apply(self, change: Change) -> None:
        body = {"overlap": change.overlap, "is_labeled": change.is_labeled}
        task = labelstudio_task.c
        which = and_(self._mine, task.task_id == change.task_id)

        def keep_first(connection: Connection) -> None:
            first = case((task.first_overlap.is_(None), task.overlap), else_=task.first_overlap)
            connection.execute(update(labelstudio_task).where(which).values(first_overlap=first))

        self._store.write(keep_first)
        answer = self._client.send("PATCH", f"/api/tasks/{change.task_id}/", body, may_be_gone=True)
        if answer is not None:  # otherwise it was deleted, which the next comparison sees
            self._store.write(partial(self._sync.keep_state, task_state(answer)))

    @property
    def _mine(self) -> Any:
        return labelstudio_task.c.project_id == self._connection.project_id

    def _path(self, end: str) -> str:
        return f"/api/projects/{self._connection.remote_project}{end}"

    def _keep(self, **values: Any) -> None:
        self._sync.connection = connections.change(self._store, self._connection.project_id, **values)

    def _n_people(self, connection: Connection) -> int:
        query = select(member.c.person_id).where(member.c.project_id == self._connection.project_id)
        return len(connection.execute(query).all())

    def _state(self, connection: Connection) -> tuple[Any, ...]:
        """What a plan depends on, roughly: the fit, the last estimates, and the states of tasks."""
        task = labelstudio_task.c
        sums = select(func.count(), func.max(task.updated_at), func.sum(task.n_annotations)).where(self._mine)
        columns = project.c.generation, project.c.settings, project.c.is_complete
        head = connection.execute(select(*columns).where(project.c.id == self._connection.project_id)).one()
        last = select(func.max(posterior.c.position)).where(
            posterior.c.project_id == self._connection.project_id, posterior.c.generation == head.generation
        )
        return (*connection.execute(sums).one(), *head, connection.execute(last).scalar())


def set_project(store: Store, client: Client, sync: Sync, values: dict[str, Any]) -> None:
    """Change settings of the project in Label Studio, after noting what they were."""
    found = sync.connection
    path = f"/api/projects/{found.remote_project}"
    present = client.get(path)
    changed = dict(found.changed)
    for name, value in values.items():
        before = changed[name][0] if name in changed else present.get(name)
        changed[name] = [before, value]
    sync.connection = connections.change(store, found.project_id, changed=changed)
    client.send("PATCH", path, values)


def delete_predictions(client: Client, project_path: str, version: str) -> None:
    """Delete the predictions of a version; nothing happens if there are none."""
    client.send("DELETE", f"{project_path}/model-versions/", {"model_version": version}, may_be_gone=True)
