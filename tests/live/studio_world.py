"""A store that follows a small Label Studio, without its learner."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, select, update
from tests.live.fake_labelstudio import LEGACY, FakeLabelStudio, label_studio

from palda.live import schema
from palda.live.labelstudio.client import Client
from palda.live.labelstudio.following import ConnectOrder, read_project, set_up
from palda.live.labelstudio.steering import Steering
from palda.live.labelstudio.sync import Sync
from palda.live.labelstudio.tokens import secret_hash
from palda.live.service import access, projects
from palda.live.store import Store, open_store

SECRET = "a secret that only tests know"  # noqa: S105


@dataclass
class StudioWorld:
    """A Label Studio, a store, and what connects them."""

    studio: FakeLabelStudio
    store: Store
    client: Client
    project_id: int

    def sync(self) -> Sync:
        """A new follower, as after a restart."""
        return Sync(self.store, self.client, self.project_id)

    def reconciled(self) -> Sync:
        """A follower that has compared everything."""
        sync = self.sync()
        sync.reconcile()
        return sync

    def steering(self) -> Steering:
        """Steering after a restart."""
        return Steering(self.store, self.client, self.sync())

    def votes(self, project_id: int | None = None) -> dict[tuple[str, str], dict[str, int]]:
        """Current votes: task and person -> class -> value."""
        query = (
            select(schema.document.c.name, schema.person.c.name, schema.label.c.name, schema.vote.c.value)
            .join(schema.document, schema.document.c.id == schema.vote.c.document_id)
            .join(schema.person, schema.person.c.id == schema.vote.c.person_id)
            .join(schema.label, schema.label.c.id == schema.vote.c.label_id)
            .where(schema.vote.c.project_id == (project_id or self.project_id))
            .order_by(schema.vote.c.position)
        )
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for task, person, label, value in self.rows(query):
            found.setdefault((task, person), {})[label] = value
        kept = {key: {name: value for name, value in one.items() if value is not None} for key, one in found.items()}
        return {key: one for key, one in kept.items() if one}

    def rows(self, query: Any) -> list[Any]:
        """Rows of a query."""
        return self.store.read(lambda connection: list(connection.execute(query)))

    def n_entries(self) -> int:
        """Entries of the log of votes."""
        return len(self.rows(select(schema.vote.c.position)))

    def looks(self) -> dict[str, int]:
        """Number of looks per task."""
        return dict(self.rows(select(schema.document.c.name, schema.document.c.n_looks)))

    def fit(self, probabilities: dict[int, list[float]], generation: int = 1) -> None:
        """What a fit would say about tasks."""
        labels = [label.id for label in projects.project(self.store, self.project_id).labels]
        ids = dict(self.rows(select(schema.document.c.name, schema.document.c.id)))

        def write(connection: Any) -> None:
            common = {"project_id": self.project_id, "generation": generation, "position": 0}
            fit = {**common, "label_ids": labels, "n_docs": 1, "seconds": 1.0, "finished_at": time.time()}
            connection.execute(insert(schema.fit).values(**fit))
            for task, row in probabilities.items():
                packed = np.array(row, dtype="<f4").tobytes()
                wrong = sum(min(value, 1.0 - value) for value in row)
                values = {"document_id": ids[str(task)], "probabilities": packed, "expected_wrong": wrong}
                connection.execute(insert(schema.posterior).values(**common, **values))
            which = schema.project.c.id == self.project_id
            connection.execute(update(schema.project).where(which).values(generation=generation))

        self.store.write(write)


@contextmanager
def studio_world(
    folder: Path, studio: FakeLabelStudio, location: str | None = None, **order: Any
) -> Iterator[StudioWorld]:
    """A connected store."""
    store = open_store(location or folder / "project.db")
    owner = access.enter(store, access.start_tokens(store)[1])
    client = Client(studio.url, LEGACY)
    wanted = ConnectOrder(studio.url, 3, LEGACY, **order)
    try:
        project_id, *_ = set_up(store, owner, wanted, read_project(client, 3), secret_hash(SECRET))
        yield StudioWorld(studio, store, client, project_id)
    finally:
        client.close()
        store.close()


@contextmanager
def new_world(folder: Path, config: str | None = None, **order: Any) -> Iterator[StudioWorld]:
    """A new Label Studio with three tasks, and a connected store."""
    with label_studio(**({"config": config} if config else {})) as studio:
        for text in ("the team won", "a robbery", "shares fell"):
            studio.add_task(text)
        with studio_world(folder, studio, **order) as world:
            yield world
