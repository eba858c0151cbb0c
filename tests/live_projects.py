"""A small labelling project in a store, with simulated annotators and a learner that fits in the same process."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sqlalchemy import select

from palda import simulate
from palda.live import schema
from palda.live.learner.fitting import FitResult, write_fit
from palda.live.learner.loop import Learner
from palda.live.learner.options import FitOptions
from palda.live.records import Actor, Answer, ProjectSettings, Task
from palda.live.service import access, documents, labelling, projects
from palda.live.store import Store, open_store


class LocalFit:
    """A fit that has finished in this process."""

    def __init__(self, url: str, project_id: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._result = write_fit(url, project_id, FitOptions(jobs=1), Path(self._folder.name))

    def result(self) -> FitResult:
        return self._result

    def close(self) -> None:
        self._folder.cleanup()


class Newsroom:
    """Simulated news as a project, with annotators of given qualities."""

    def __init__(
        self,
        location: str | Path,
        n_docs: int = 20,
        qualities: Sequence[float] = (0.95, 0.9, 0.85),
        settings: ProjectSettings | None = None,
        n_classes: int = 4,
    ) -> None:
        self.store: Store = open_store(location)
        self.url = self.store.url.render_as_string(hide_password=False)
        self.owner = access.enter(self.store, access.start_tokens(self.store)[1])
        news = simulate.newsroom(n_docs, seed=0)
        self.truth = dict(zip(news.doc_ids.tolist(), news.labels[:, :n_classes], strict=True))
        texts = [
            documents.DocumentRow(name, text) for name, text in zip(news.doc_ids, news.documents.texts, strict=True)
        ]
        names = news.classes[:n_classes].tolist()
        self.project = projects.create(self.store, self.owner, "news", names, settings)
        self.id = self.project.id
        self.add(list(texts))
        self.qualities = dict(enumerate(qualities))
        self.people: list[Actor] = [self.join(f"annotator-{number}") for number in range(len(qualities))]
        self._client = itertools.count()
        self._rng = np.random.default_rng(0)

    def add(self, rows: Sequence[documents.DocumentRow]) -> None:
        assert documents.import_documents(self.store, self.id, rows).n_new == len(rows)

    def join(self, name: str) -> Actor:
        invitation = access.invite(self.store, self.owner, self.id, "annotator", name)
        token, _ = access.accept(self.store, invitation)
        return access.enter(self.store, token, self.id)

    def task(self, who: int) -> Task:
        found = labelling.next_task(self.store, self.people[who], self.id)
        assert isinstance(found, Task)
        return found

    def answer(self, who: int, task: Task) -> None:
        truth = self.truth[task.document]
        ids = [label.id for label in projects.project(self.store, self.id).labels]
        votes = {}
        for label_id in task.label_ids:
            place = ids.index(label_id)
            value = int(truth[place]) if place < len(truth) else 0
            votes[label_id] = value if self._rng.random() < self.qualities[who] else 1 - value
        self.send(who, task.document_id, votes)

    def send(self, who: int, document_id: int, votes: dict[int, int]) -> None:
        given = Answer(document_id, f"client-{next(self._client)}", "votes", votes)
        labelling.submit(self.store, self.people[who], self.id, given)

    def label(self, n: int, people: Sequence[int] | None = None) -> None:
        """Label until ``n`` more answers were given, in turns; everybody takes what comes."""
        turns = itertools.cycle(range(len(self.people)) if people is None else people)
        for who in itertools.islice(turns, n):
            self.answer(who, self.task(who))

    def learner(self) -> Learner:
        return Learner(self.store, FitOptions(), lambda project_id: LocalFit(self.url, project_id))

    def rows(self, table: str) -> list[dict[str, object]]:
        columns = schema.metadata.tables[table]
        query = select(columns).where(columns.c["id" if table == "project" else "project_id"] == self.id)
        return [dict(row) for row in self.store.read(lambda connection: connection.execute(query).mappings().all())]

    def posteriors(self) -> dict[int, np.ndarray]:
        generation = self.rows("project")[0]["generation"]
        return {
            row["document_id"]: np.frombuffer(row["probabilities"], "<f4")
            for row in self.rows("posterior")
            if row["generation"] == generation
        }


def run(learner: Learner, until: Callable[[], bool], seconds: float = 60.0, *, refit: bool = False) -> None:
    """Steps of a learner until something holds. With ``refit`` a fit need not wait for the pause after the last one."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "the learner did not get there"
        for one in learner._projects.values() if refit else ():
            one._fit_at = min(one._fit_at, 1e-9)
        if not learner.step():
            time.sleep(0.01)
        assert not learner._failures, "a step of the learner failed"
