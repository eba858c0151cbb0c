"""``palda demo --live``: a server on a temporary file, and simulated annotators who label through its API."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import numpy as np

from palda.errors import PaldaError
from palda.live.serving import ServerOptions, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.live.serving import ServerLinks
    from palda.simulate import SimulatedDocuments

N_DOCS, N_GOLD = 300, 12
SETTINGS = {"target_error": 0.02, "min_seconds": 0.3}
GUIDELINES = "Simulated annotators label simulated news. Sign in as one of them, or pause them on the dashboard."
_POLL_SECONDS = 1.0  # while there is nothing to label
_TIMEOUT = 30.0


class SimulatedAnnotator(NamedTuple):
    """An annotator who is right with some probability, or repeats what somebody else says."""

    name: str
    quality: float
    seconds: float = 1.0  # per document, on average
    copies: str | None = None

    def votes(self, document: str, truth: NDArray[np.integer[Any]], seed: int) -> list[int]:
        """Votes on the classes of a document; the same whenever they are asked for."""
        rng = np.random.default_rng([seed, *(self.copies or self.name).encode(), 0, *document.encode()])
        is_right = rng.random(len(truth)) < self.quality
        return [int(value) for value in np.where(is_right, truth, 1 - truth)]


CROWD = (
    *(SimulatedAnnotator(name, quality) for name, quality in (
        ("Ada", 0.97), ("Bela", 0.95), ("Chen", 0.94), ("Dana", 0.92), ("Emre", 0.9), ("Fatou", 0.88), ("Goran", 0.85),
        ("Hana", 0.8), ("Ivo", 0.75),
    )),
    SimulatedAnnotator("Copier of Ada", 0.97, copies="Ada"),
    SimulatedAnnotator("Liar", 0.15),
    SimulatedAnnotator("Spammer", 0.5, seconds=0.2),
)  # fmt: skip


class ApiClient:
    """Requests to the API of a server, with the token of a person."""

    def __init__(self, url: str, token: str) -> None:
        sent = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers=sent, timeout=_TIMEOUT, trust_env=False)

    def send(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        """Answer to a request; raises ``PaldaError`` if it is refused, ``httpx.HTTPError`` if there is none."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        answer = self._client.request(method, path, content=content, headers={"Content-Type": media_type})
        if answer.is_error:
            raise PaldaError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class SimulatedCrowd:
    """Annotators in threads, who label the documents of a project until they are stopped or nothing is left.

    ``token`` is that of the server's owner.
    """

    def __init__(
        self, url: str, token: str, news: SimulatedDocuments, people: Sequence[SimulatedAnnotator], seed: int = 0
    ) -> None:
        self._url, self._owner, self._news, self._people, self._seed = url, ApiClient(url, token), news, people, seed
        self._truth = dict(zip(news.doc_ids.tolist(), news.labels, strict=True))
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.project_id = 0

    def create_project(self, name: str, settings: dict[str, Any], n_gold: int = 0) -> int:
        """Create the project with its documents and classes; returns its number."""
        body = {"name": name, "labels": self._news.classes.tolist(), "guidelines": GUIDELINES, "settings": settings}
        project = self._owner.send("POST", "/projects", body)
        self.project_id, path = project["id"], f"/projects/{project['id']}"
        self._labels = [label["id"] for label in project["labels"]]
        lines = (
            json.dumps({"doc": doc, "text": text})
            for doc, text in zip(self._news.doc_ids.tolist(), self._news.documents.texts, strict=True)
        )
        job = self._owner.send("POST", f"{path}/documents", "\n".join(lines).encode(), "application/x-ndjson")
        while job["state"] == "running":
            time.sleep(0.05)
            job = self._owner.send("GET", f"{path}/imports/{job['id']}")
        for row in self._owner.send("GET", f"{path}/documents?limit={n_gold}") if n_gold else []:
            known = dict(zip(map(str, self._labels), self._truth[row["name"]].tolist(), strict=True))
            self._owner.send("PUT", f"{path}/documents/{row['id']}/gold", {"labels": known})
        return self.project_id

    def start(self) -> None:
        """Invite the annotators, and let them begin."""
        path = f"/projects/{self.project_id}"
        for one in self._people:
            self._owner.send("POST", f"{path}/invitations", {"name": one.name})
        ids = {member["name"]: member["person_id"] for member in self._owner.send("GET", f"{path}/people")}
        for one in self._people:
            token = self._owner.send("POST", f"{path}/people/{ids[one.name]}/tokens", {})["token"]
            thread = threading.Thread(target=self._label, args=(one, ApiClient(self._url, token)), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the annotators."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=_TIMEOUT)
        self._owner.close()

    def status(self) -> dict[str, Any]:
        """Status of the project."""
        status: dict[str, Any] = self._owner.send("GET", f"/projects/{self.project_id}/status")
        return status

    def _label(self, who: SimulatedAnnotator, client: ApiClient) -> None:
        rng, path, number = np.random.default_rng([self._seed, *who.name.encode()]), f"/projects/{self.project_id}", 0
        try:
            while not self._stop.is_set():
                task = client.send("POST", f"{path}/next")
                if "document_id" not in task:
                    self._stop.wait(_POLL_SECONDS)
                    continue
                said = who.votes(task["document"], self._truth[task["document"]], self._seed)
                votes = dict(zip(self._labels, said, strict=True))
                asked = {str(label): votes[label] for label in task["label_ids"] if label in votes}
                self._stop.wait(rng.exponential(who.seconds) if who.seconds else 0.0)
                body = {"document_id": task["document_id"], "client_id": f"demo-{number}", "votes": asked}
                client.send("POST", f"{path}/votes", body)
                number += 1
        except (PaldaError, httpx.HTTPError):
            return  # the server ends, or the admin has removed this annotator
        finally:
            client.close()


def run_live_demo(
    port: int, started: Callable[[ServerLinks, str], None], seconds: float | None = None, seed: int = 0
) -> None:
    """Serve a simulated project on a temporary file until Ctrl-C, or for some seconds.

    ``started`` is called with the links and the address of the dashboard.
    """
    from palda import simulate

    news = simulate.newsroom(N_DOCS, seed=seed)
    crowds: list[SimulatedCrowd] = []
    errors: list[BaseException] = []

    def label(links: ServerLinks) -> None:
        try:
            crowd = SimulatedCrowd(links.url, links.admin_token, news, CROWD, seed)
            crowds.append(crowd)
            project_id = crowd.create_project("Simulated newsroom", SETTINGS, N_GOLD)
            crowd.start()
            started(links, f"{links.url}/projects/{project_id}/dashboard")
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            errors.append(error)
            os.kill(os.getpid(), signal.SIGINT)

    def begin(links: ServerLinks) -> None:
        threading.Thread(target=label, args=(links,), daemon=True).start()
        if seconds is not None:
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()

    with tempfile.TemporaryDirectory(prefix="palda-demo-") as folder:
        try:
            serve(Path(folder) / "demo.db", ServerOptions(port=port), None, begin)
        finally:
            for crowd in crowds:
                crowd.stop()
    if errors:
        raise errors[0]
