"""The loop of the learner over the projects of a store."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from palda.errors import reason_of
from palda.live import schema
from palda.live.learner.fitting import FitProcess
from palda.live.learner.project_learner import ProjectLearner, ProjectRow
from palda.live.learner.writes import upsert
from palda.live.records import LearnerState, ProjectSettings
from palda.live.service.projects import head_position

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from sqlalchemy import Connection

    from palda.live.learner.options import FitOptions
    from palda.live.store import Store

HEARTBEAT_SECONDS = 3.0
_IDLE_PAUSE, _BUSY_PAUSE = 0.15, 0.01  # seconds between two steps
_MAX_PAUSE = 60.0  # after failures


class Learner:
    """Keeps posteriors, annotators, queues and estimates of all projects up to date.

    ``start_fit`` starts a fit of a project; by default in another process. One fit runs at a time.
    """

    def __init__(self, store: Store, options: FitOptions, start_fit: Callable[[int], FitProcess] | None = None) -> None:
        self._store = store
        url = store.url.render_as_string(hide_password=False)
        self._start_fit = start_fit or (lambda project_id: FitProcess(url, project_id, options))
        self._projects: dict[int, ProjectLearner] = {}
        self._failures: dict[int, int] = {}
        self._retry_at: dict[int, float] = {}
        self._beat_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set."""
        try:
            while not stop.is_set():
                stop.wait(_BUSY_PAUSE if self.step() else _IDLE_PAUSE)
        finally:
            self.close()

    def step(self) -> bool:
        """One pass over all projects; whether there was something to do."""
        head, rows = self._store.read(_projects)
        for gone in set(self._projects) - {row.id for row in rows}:
            self._projects.pop(gone).close()
        was_busy = False
        for row in rows:
            was_busy |= self._step_project(row, head)
        self._beat()
        return was_busy

    def close(self) -> None:
        """End a fit that runs."""
        for learner in self._projects.values():
            learner.close()
        self._projects.clear()

    def _step_project(self, row: ProjectRow, head: int) -> bool:
        if time.monotonic() < self._retry_at.get(row.id, 0.0):
            return False
        learner = self._projects.get(row.id)
        if learner is None:
            learner = self._projects[row.id] = ProjectLearner(self._store, row.id, self._start_fit, self._beat)
        may_fit = not any(other.is_fitting for other in self._projects.values())
        try:
            was_busy = learner.step(row, head, may_fit=may_fit)
        except Exception as error:  # noqa: BLE001 - one project must not end the others
            self._fail(row.id, error)
            return False
        if self._failures.pop(row.id, None):
            self._beat_at = 0.0
        return was_busy

    def _fail(self, project_id: int, error: Exception) -> None:
        """Note a failure; the project starts again from the store after a pause."""
        self._projects.pop(project_id).close()
        n_failures = self._failures[project_id] = self._failures.get(project_id, 0) + 1
        self._retry_at[project_id] = time.monotonic() + min(2.0**n_failures, _MAX_PAUSE)
        message = f"{type(error).__name__}: {reason_of(error)}"
        self._write_states({project_id: LearnerState("failed", message[:500], 0, n_failures, time.time())})

    def _beat(self) -> None:
        """Say what is being done, every few seconds."""
        if time.monotonic() < self._beat_at:
            return
        self._beat_at = time.monotonic() + HEARTBEAT_SECONDS
        working = {number: one for number, one in self._projects.items() if number not in self._failures}
        self._write_states({number: learner.state() for number, learner in working.items()})

    def _write_states(self, states: dict[int, LearnerState]) -> None:
        rows = [{"project_id": number, **asdict(state)} for number, state in states.items()]

        def write(connection: Connection) -> None:
            project = schema.project.c.id
            there = set(connection.execute(select(project).where(project.in_(list(states)))).scalars())
            upsert(connection, schema.learner_state, [row for row in rows if row["project_id"] in there])

        if rows:
            self._store.write(write, is_logged=False)


def _projects(connection: Connection) -> tuple[int, list[ProjectRow]]:
    """Last position of the log, and all projects."""
    project = schema.project.c
    query = select(project.id, project.settings, project.is_paused, project.is_complete).order_by(project.id)
    found: list[Any] = list(connection.execute(query))
    rows = [ProjectRow(row[0], ProjectSettings.from_json(row[1]), row[2], row[3]) for row in found]
    return head_position(connection), rows
