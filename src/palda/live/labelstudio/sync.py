"""Keeps a project in step with Label Studio: pages of tasks, webhooks, and a comparison that heals what was missed."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from palda.errors import PaldaError
from palda.live.errors import InvalidRequestError, NotFoundError
from palda.live.labelstudio import annotators, answers, connections
from palda.live.labelstudio.answers import Scope, Target
from palda.live.labelstudio.remote import (
    STATE_FIELDS,
    TASK_FIELDS,
    Question,
    RemoteState,
    RemoteTask,
    number,
    remote_annotation,
    remote_task,
    task_state,
)
from palda.live.learner.writes import upsert
from palda.live.schema import document, labelstudio_annotation, labelstudio_event, labelstudio_task
from palda.live.service import documents, projects
from palda.live.service.names import MAX_TEXT, checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from palda.live.labelstudio.client import Client
    from palda.live.store import Store

_TASKS_PER_WRITE = 50
_TASKS_PER_READ = 200
_ALL_AGAIN = 0.3  # share of changed tasks from which pages are read instead of single tasks
_MAX_EVENTS = 100  # per pass


class Sync:
    """Takes in what Label Studio has.

    Parameters
    ----------
    store : Store
        The store.
    client : Client
        Of Label Studio.
    project_id : int
        Project of the store, which is connected.
    between : callable, default=None
        Called between pages, for work that cannot wait until all are read.
    """

    def __init__(
        self, store: Store, client: Client, project_id: int, between: Callable[[], object] | None = None
    ) -> None:
        self._store, self._client, self._project_id = store, client, project_id
        self._between = between or (lambda: None)
        self.n_ignored = 0
        self.refresh_project()

    def refresh_project(self) -> None:
        """Read the label config and add classes that are new."""
        found = self._store.read(lambda connection: connections.find(connection, self._project_id))
        if found is None:
            raise NotFoundError("the project is not connected to Label Studio")
        self.connection = found
        self.question = Question.of_project(self._client.get(f"/api/projects/{found.remote_project}"), found.question)
        self._add_classes(self.question.control.classes)

    def reconcile(self) -> int:
        """Compare all tasks with what is known, and take in the differences; returns how many tasks differed."""
        known = self._store.read(self._known_states)
        if not known:
            n_changed = self._read_all(known, set())
        else:
            states: dict[int, RemoteState] = {}
            for page in self._client.tasks(self.connection.remote_project, STATE_FIELDS, with_annotations=False):
                states |= {state.id: state for state in map(task_state, page)}
                self._between()
            changed = sorted(number for number, state in states.items() if known.get(number) != state)
            if len(changed) > max(_TASKS_PER_READ, _ALL_AGAIN * len(states)):
                n_changed = self._read_all(known, set(states))
            else:
                changed += sorted(set(known) - set(states))
                self.read_tasks(changed)
                n_changed = len(changed)
        connections.change(self._store, self._project_id, synced_at=time.time())
        return n_changed

    def _read_all(self, known: dict[int, RemoteState], seen: set[int]) -> int:
        n_changed = 0
        for page in self._client.tasks(self.connection.remote_project, TASK_FIELDS, with_annotations=True):
            seen |= {number(task, "id") for task in page}
            n_changed += self.take_tasks(page)
            self._between()
        missing = sorted(set(known) - seen)
        self.read_tasks(missing)  # pages shift when tasks are deleted, so each is looked at again
        return n_changed + len(missing)

    def read_tasks(self, ids: Sequence[int]) -> None:
        """Read single tasks again; those that are gone are removed."""
        for first in range(0, len(ids), _TASKS_PER_READ):
            some = ids[first : first + _TASKS_PER_READ]
            found = self._client.tasks_by_id(self.connection.remote_project, some, TASK_FIELDS)
            self.take_tasks(found)
            self._remove(set(some) - {number(task, "id") for task in found})
            if len(ids) > _TASKS_PER_READ:
                self._between()

    def take_tasks(self, tasks: Iterable[dict[str, Any]]) -> int:
        """Take in tasks with all their annotations; returns how many had changed annotations."""
        found = [remote_task(task, self.question, self.connection.settings) for task in tasks]
        self.n_ignored += sum(task.n_ignored for task in found)
        self._add_documents(found)
        self._add_people({one.user_id for task in found for one in task.annotations})
        self._add_classes({name for task in found for one in task.annotations for name in one.classes})
        n_changed = 0
        for first in range(0, len(found), _TASKS_PER_WRITE):
            some = found[first : first + _TASKS_PER_WRITE]
            n_changed += self._store.write(partial(self._write_tasks, some))
        return n_changed

    def take_events(self) -> tuple[int, bool]:
        """Take in webhooks that wait; returns how many, and whether one asks for a comparison of everything."""
        mine = labelstudio_event.c.project_id == self._project_id
        query = select(labelstudio_event.c.id, labelstudio_event.c.body).where(mine).order_by(labelstudio_event.c.id)
        rows = self._store.read(lambda connection: connection.execute(query.limit(_MAX_EVENTS)).all())
        needs_all = False
        for _, body in rows:
            try:
                needs_all |= self._take_event(body)
            except InvalidRequestError:
                needs_all = True
        if rows:
            done = delete(labelstudio_event).where(mine, labelstudio_event.c.id <= rows[-1][0])
            self._store.write(lambda connection: connection.execute(done).rowcount)
        return len(rows), needs_all

    def _take_event(self, body: dict[str, Any]) -> bool:
        if body.get("deleted"):
            self._take_deletions([number({"id": one}, "id") for one in body["deleted"]])
            return False
        if "annotation" not in body:
            if body.get("action") == "PROJECT_UPDATED":
                self.refresh_project()
            return body.get("action") != "PROJECT_UPDATED"
        state = task_state(body["task"])
        one = self.connection.settings.annotator_of(remote_annotation(body["annotation"], self.question), state.id)
        if one.is_gold or not self._store.read(partial(self._targets, [state.id])):  # what it means depends on others
            self.read_tasks([state.id])
            return False
        self._add_people({one.user_id})
        self._add_classes(one.classes)
        if body["task"].get("data") is not None:
            self._add_documents([RemoteTask(state, self.question.text_of(body["task"]["data"]), ())])

        def write(connection: Connection) -> None:
            scope, found = self._scope(connection), self._targets([state.id], connection)
            if state.id in found and one.user_id in scope.people:
                kind = answers.kind_of(one, scope.settings)
                if answers.take_in_one(connection, scope, found[state.id], one, kind):  # otherwise it is late
                    self.keep_state(state, connection)

        self._store.write(write)
        return False

    def _take_deletions(self, ids: list[int]) -> None:
        def write(connection: Connection) -> list[int]:
            scope, one, task = self._scope(connection), labelstudio_annotation.c, labelstudio_task.c
            query = select(task.task_id).join(labelstudio_annotation, one.document_id == task.document_id)
            query = query.where(one.project_id == self._project_id, one.annotation_id.in_(ids)).distinct()
            tasks = list(connection.execute(query).scalars())
            for gone in ids:
                answers.withdraw(connection, scope, gone)
            return tasks

        self.read_tasks(self._store.write(write))  # their overlap and state may have changed

    def _write_tasks(self, tasks: Sequence[RemoteTask], connection: Connection) -> int:
        scope, ids = self._scope(connection), [task.state.id for task in tasks]
        predicted = {number: target.predicted for number, target in self._targets(ids, connection).items()}
        stored = self._stored(tasks, connection)
        n_changed = 0
        for task in tasks:
            number = task.state.id
            if str(number) in stored:
                target = Target(number, stored[str(number)].id, predicted.get(number))
                self.keep_state(task.state, connection, target.document_id)
                n_changed += answers.take_in(connection, scope, target, task.annotations) > 0
        return n_changed

    def _targets(self, ids: Sequence[int], connection: Connection) -> dict[int, Target]:
        """Those of the tasks that are known."""
        task = labelstudio_task.c
        query = select(task.task_id, task.document_id, task.predicted)
        rows = connection.execute(query.where(task.project_id == self._project_id, task.task_id.in_(ids)))
        return {row.task_id: Target(*row) for row in rows}

    def _stored(self, tasks: Sequence[RemoteTask], connection: Connection) -> dict[str, Any]:
        """Number and text of the documents of tasks, by their names."""
        names = [str(task.state.id) for task in tasks]
        query = select(document.c.name, document.c.id, document.c.text).where(document.c.project_id == self._project_id)
        return {row.name: row for row in connection.execute(query.where(document.c.name.in_(names)))}

    def keep_state(self, state: RemoteState, connection: Connection, document_id: int | None = None) -> None:
        """Note what Label Studio said about a task, whose document is new or known."""
        values = {name: value for name, value in state.__dict__.items() if name != "id"}
        key = {"project_id": self._project_id, "task_id": state.id}
        if document_id is not None:
            upsert(connection, labelstudio_task, [{**key, **values, "document_id": document_id}])
            return
        which = (labelstudio_task.c[name] == value for name, value in key.items())
        connection.execute(update(labelstudio_task).where(*which).values(**values))

    def _scope(self, connection: Connection) -> Scope:
        labels = {label.name: label.id for label in projects.read_labels(connection, self._project_id)}
        people = annotators.people_of(connection, self._project_id)
        present = {user: one for user, one in people.items() if one is not None}
        return Scope(self._project_id, labels, present, self.connection.settings)

    def _known_states(self, connection: Connection) -> dict[int, RemoteState]:
        task = labelstudio_task.c
        columns = task.task_id, task.updated_at, task.n_annotations, task.n_cancelled, task.overlap, task.is_labeled
        rows = connection.execute(select(*columns).where(task.project_id == self._project_id))
        return {row[0]: RemoteState(*row) for row in rows}

    def _add_documents(self, tasks: Sequence[RemoteTask]) -> None:
        """Add documents of new tasks, and follow texts that were changed."""
        stored = self._store.read(partial(self._stored, tasks))
        texts = {str(task.state.id): task.text[:MAX_TEXT] for task in tasks}
        new = [documents.DocumentRow(name, text) for name, text in texts.items() if name not in stored]
        if new:
            documents.import_documents(self._store, self._project_id, new)
        changed = {row.id: texts[name] for name, row in stored.items() if row.text != texts[name]}
        if changed:
            self._store.write(lambda connection: documents.change_texts(connection, self._project_id, changed))

    def _add_people(self, users: set[int]) -> None:
        missing = users - self._store.read(lambda connection: annotators.people_of(connection, self._project_id)).keys()
        if missing:
            names = annotators.user_names(self._client.get("/api/users/"))
            new = {user: names.get(abs(user), "") for user in missing}
            url = self.connection.url
            self._store.write(lambda connection: annotators.add_people(connection, self._project_id, url, new))

    def _add_classes(self, names: Iterable[str]) -> None:
        known = {label.name for label in projects.project(self._store, self._project_id).labels}
        for name in names:
            try:
                if checked_name(name, "class") not in known:
                    projects.add_label(self._store, self._project_id, name)
            except PaldaError:  # too long, or too many: it stays unknown
                self.n_ignored += 1

    def _remove(self, ids: set[int]) -> None:
        for target in self._store.read(partial(self._targets, sorted(ids))).values() if ids else ():
            documents.delete_document(self._store, self._project_id, target.document_id)
