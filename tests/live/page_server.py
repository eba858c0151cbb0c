"""A server of pages in a thread of the test process, and what the learner would have written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from sqlalchemy import Connection, delete, insert, select, update

from palda.live import schema
from palda.live.records import Actor, AnnotatorEstimate, Answer, Project, ProjectEstimate, ProjectSettings
from palda.live.service import access, documents, labelling, projects
from palda.live.store import Store, open_store
from palda.live.web.app import create_app


class PageServer:
    """The application alone, without a learner; it can be stopped and started again on the same port."""

    def __init__(self, path: Path) -> None:
        self.store: Store = open_store(str(path))
        self.port = 0
        self.owner_link, token = access.start_tokens(self.store)
        self.owner = access.enter(self.store, token)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        app = create_app(self.store)
        config = uvicorn.Config(
            app, port=self.port, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1
        )
        self._app, self._server = app, uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self._app.state.events.close()
        self._server.should_exit = True
        self._thread.join(60)

    def close(self) -> None:
        self.stop()
        self.store.close()

    # Projects and people

    def project(
        self,
        name: str,
        classes: Sequence[str],
        texts: Mapping[str, str],
        guidelines: str = "",
        settings: ProjectSettings | None = None,
    ) -> Project:
        made = projects.create(self.store, self.owner, name, list(classes), settings, guidelines)
        rows = [documents.DocumentRow(key, text) for key, text in texts.items()]
        if rows:
            documents.import_documents(self.store, made.id, rows)
        return made

    def join_link(self, project_id: int, role: Any = "annotator", name: str | None = None) -> str:
        return f"{self.url}/join/{access.invite(self.store, self.owner, project_id, role, name)}"

    def annotator(self, project_id: int, name: str) -> Actor:
        session, _ = access.accept(self.store, access.invite(self.store, self.owner, project_id, "annotator", name))
        return access.enter(self.store, session, project_id)

    def answer(self, actor: Actor, project_id: int, document_id: int, votes: Mapping[int, int], client_id: str) -> None:
        given = Answer(document_id, client_id, "votes", dict(votes))
        labelling.submit(self.store, replace(actor, role="admin"), project_id, given)  # whatever was given to them

    def document_ids(self, project_id: int) -> dict[str, int]:
        return {one.name: one.id for one in documents.documents(self.store, project_id, 0, 1000)}

    def current_votes(self, project_id: int) -> dict[tuple[str, str, str], int]:
        """Value per document, person and class: the last entry of the log counts."""
        vote, person, document, label = schema.vote, schema.person, schema.document, schema.label
        query = (
            select(document.c.name, person.c.name, label.c.name, vote.c.value)
            .join(document, document.c.id == vote.c.document_id)
            .join(person, person.c.id == vote.c.person_id)
            .join(label, label.c.id == vote.c.label_id)
            .where(vote.c.project_id == project_id)
            .order_by(vote.c.position)
        )
        rows = self.store.read(lambda connection: connection.execute(query).all())
        return {(doc, who, what): value for doc, who, what, value in rows if value is not None}

    def n_submissions(self, project_id: int) -> int:
        query = select(schema.submission.c.id).where(schema.submission.c.project_id == project_id)
        return len(self.store.read(lambda connection: connection.execute(query).all()))

    # What the learner would write

    def write_posterior(
        self,
        project_id: int,
        probabilities: Mapping[int, Sequence[float]],
        words: Mapping[int, dict[str, Any]] | None = None,
    ) -> None:
        """Probabilities per document, in the order of the classes, as a fit of the next generation."""
        label_ids = [label.id for label in projects.project(self.store, project_id).labels]

        def write(connection: Connection) -> None:
            of_project = schema.project.c.id == project_id
            generation = connection.execute(select(schema.project.c.generation).where(of_project)).scalar_one() + 1
            key = {"project_id": project_id, "generation": generation}
            fit = {"position": 0, "label_ids": label_ids, "n_docs": len(probabilities), "seconds": 1.0}
            connection.execute(insert(schema.fit).values(**key, **fit, finished_at=time.time()))
            for document_id, row in probabilities.items():
                values = np.asarray(row, dtype="<f4")
                wrong = float(np.minimum(values, 1 - values).sum())
                entry = {"probabilities": values.tobytes(), "expected_wrong": wrong, "position": 0}
                connection.execute(insert(schema.posterior).values(**key, document_id=document_id, **entry))
            connection.execute(update(schema.project).where(of_project).values(generation=generation))
            connection.execute(delete(schema.evidence).where(schema.evidence.c.project_id == project_id))
            for document_id, found in (words or {}).items():
                connection.execute(insert(schema.evidence).values(**key, document_id=document_id, words=found))

        self.store.write(write)

    def write_estimates(self, project_id: int, found: Iterable[tuple[int, AnnotatorEstimate]]) -> None:
        def write(connection: Connection) -> None:
            table = schema.annotator_estimate
            connection.execute(delete(table).where(table.c.project_id == project_id))
            for person_id, estimate in found:
                row = {"project_id": project_id, "person_id": person_id, "estimate": asdict(estimate), "position": 0}
                connection.execute(insert(table).values(**row))

        self.store.write(write)

    def write_progress(self, project_id: int, position: int, estimate: ProjectEstimate) -> None:
        row = {"project_id": project_id, "position": position, "estimate": asdict(estimate), "computed_at": time.time()}
        self.store.write(lambda connection: connection.execute(insert(schema.progress).values(**row)).rowcount)

    def write_learner(
        self, project_id: int, activity: str, message: str = "", n_failures: int = 0, position: int = 0
    ) -> None:
        row = {"activity": activity, "message": message, "position": position, "n_failures": n_failures}
        table = schema.learner_state

        def write(connection: Connection) -> None:
            connection.execute(delete(table).where(table.c.project_id == project_id))
            connection.execute(insert(table).values(project_id=project_id, heartbeat_at=time.time(), **row))

        self.store.write(write)
