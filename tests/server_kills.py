"""Kills a labelling server and its learner at random moments under load; no acknowledged vote may be lost or doubled.

``python -m tests.server_kills LOCATION KILLS [SEED]`` prints what was found; LOCATION is a new SQLite file or an empty
database of PostgreSQL. The server starts again with the same command every time.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from palda.live import schema
from palda.live.store import open_store

N_ANNOTATORS, CLASSES = 6, ("a", "b", "c", "d")
_START_SECONDS, _PATIENCE = 60.0, 120.0
_TOPICS = ("ships carry wheat", "the bank lends money", "the team won the match", "court sentences thief")


@dataclass
class Acknowledged:
    """What clients know for sure: body per client id."""

    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    n_sent: int = 0
    n_repeats: int = 0
    errors: list[str] = field(default_factory=list)


class Server:
    """``palda serve`` as a process that can be killed and started again."""

    def __init__(self, location: str, folder: Path, n_docs: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        table = folder / "documents.csv"
        rows = (f'd{number},"{_TOPICS[number % 4]} number {number}"' for number in range(n_docs))
        table.write_text("id,text\n" + "\n".join(rows) + "\n")
        self._command = [
            sys.executable, "-m", "palda", "serve", location, "--documents", str(table), "--classes", ",".join(CLASSES),
            "--target-error", "0.000001", "--port", str(self.port), "--json",
        ]  # fmt: skip
        self._folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.token = ""

    def start(self) -> None:
        """Start and wait until it accepts connections."""
        with (self._folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server did not start: {(self._folder / 'server.log').read_text()[-500:]}"
        self.token = json.loads(line)["admin_token"]

    def children(self) -> list[int]:
        """Processes that the server has started: the learner and its fits."""
        assert self.process is not None
        found, waiting = [], [self.process.pid]
        while waiting:
            path = Path(f"/proc/{waiting.pop()}/task")
            for file in path.glob("*/children"):
                try:
                    ids = [int(number) for number in file.read_text().split()]
                except OSError:
                    continue
                found += ids
                waiting += ids
        return found

    def kill(self) -> None:
        """End the server without warning."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        """End the server in order; returns its exit code."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


def call(port: int, token: str, method: str, path: str, body: Any = None) -> Any:
    """Answer of the API; raises ``OSError`` or ``HTTPException`` if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 500:
            raise OSError(f"{answer.status} {content[:200]!r}")
        if answer.status >= 400:
            raise AssertionError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return json.loads(content) if content else None
    finally:
        connection.close()


def annotate(port: int, token: str, seed: int, stop: threading.Event, seen: Acknowledged) -> None:
    """Label until told to stop; an answer without acknowledgement is sent again with the same client id."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    try:
        while not stop.is_set():
            task = _patiently(stop, port, token, "POST", "/projects/1/next")
            if task is None or "document_id" not in task:
                return
            votes = {str(label): rng.randrange(2) for label in task["label_ids"]}
            client_id = uuid.UUID(int=rng.getrandbits(128)).hex
            body = {"document_id": task["document_id"], "client_id": client_id, "kind": "votes", "votes": votes}
            seen.n_sent += 1
            receipt = _patiently(stop, port, token, "POST", "/projects/1/votes", body)
            if receipt is None:
                return
            seen.n_repeats += receipt["is_repeat"]
            seen.bodies[client_id] = body
            time.sleep(rng.uniform(0.0, 0.1))
    except AssertionError as error:
        seen.errors.append(str(error))


def _patiently(stop: threading.Event, *request: Any) -> Any:
    """Answer of the server, which may be down for a while; None if told to stop."""
    end = time.monotonic() + _PATIENCE
    while not stop.is_set():
        try:
            return call(*request)
        except (OSError, http.client.HTTPException) as error:
            assert time.monotonic() < end, f"no answer for {_PATIENCE} s: {error}"
            time.sleep(0.05)
    return None


def run(location: str, folder: Path, n_kills: int, seed: int = 0, n_docs: int = 300) -> dict[str, int]:
    """Kill ``n_kills`` times; every third time the learner or its fit instead of the server."""
    rng, server, stop = random.Random(seed), Server(location, folder, n_docs), threading.Event()  # noqa: S311
    seen = [Acknowledged() for _ in range(N_ANNOTATORS)]
    counts: Counter[str] = Counter()
    server.start()
    try:
        tokens = _tokens(server)
        threads = [
            threading.Thread(target=annotate, args=(server.port, token, seed * 1000 + number, stop, record))
            for number, (token, record) in enumerate(zip(tokens, seen, strict=True))
        ]
        for thread in threads:
            thread.start()
        for number in range(n_kills):
            time.sleep(rng.uniform(0.1, 3.0))
            children = server.children()
            if number % 3 == 2 and children:
                victim = rng.choice(children)
                counts["learners or fits killed"] += 1
                with suppress(ProcessLookupError):  # a fit that has just ended
                    os.kill(victim, signal.SIGKILL)
            else:
                counts["servers killed"] += 1
                server.kill()
                server.start()
        time.sleep(1.0)
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        code = server.stop()
    errors = [error for record in seen for error in record.errors]
    assert not errors, errors[0]
    assert code == 0, f"the server ended with {code}"
    counts.update(compare(location, seen))
    return dict(counts)


def _tokens(server: Server) -> list[str]:
    """Tokens of new annotators."""
    for number in range(N_ANNOTATORS):
        call(
            server.port,
            server.token,
            "POST",
            "/projects/1/invitations",
            {"role": "annotator", "name": f"person {number}"},
        )
    people = call(server.port, server.token, "GET", "/projects/1/people")
    path = "/projects/1/people/{}/tokens"
    return [call(server.port, server.token, "POST", path.format(person["person_id"]), {})["token"] for person in people]


def compare(location: str, seen: list[Acknowledged]) -> dict[str, int]:
    """Compare the store with what clients know; raises ``AssertionError`` if a vote is lost, changed or doubled."""
    store = open_store(location)
    try:
        submission, vote, document = schema.submission, schema.vote, schema.document
        stored = store.read(
            lambda c: c.execute(select(submission.c.id, submission.c.client_id, submission.c.document_id)).all()
        )
        votes = store.read(lambda c: c.execute(select(vote.c.submission_id, vote.c.label_id, vote.c.value)).all())
        looks = store.read(lambda c: c.execute(select(func.sum(document.c.n_looks))).scalar_one())
        n_answers = store.read(lambda c: c.execute(select(func.count()).select_from(schema.answer)).scalar_one())
        n_leases = store.read(lambda c: c.execute(select(func.count()).select_from(schema.lease)).scalar_one())
    finally:
        store.close()
    times = Counter(row.client_id for row in stored)
    assert max(times.values(), default=1) == 1, "an answer is stored twice"
    entries: dict[int, list[tuple[int, int]]] = {row.id: [] for row in stored}
    for submission_id, label_id, value in votes:
        entries[submission_id].append((label_id, value))
    found = {row.client_id: (row.document_id, sorted(entries[row.id])) for row in stored}
    acknowledged = {client_id: body for record in seen for client_id, body in record.bodies.items()}
    for client_id, body in acknowledged.items():
        expected = sorted((int(label), value) for label, value in body["votes"].items())
        assert found.get(client_id) == (body["document_id"], expected), f"an acknowledged answer is lost: {body}"
    assert looks == n_answers + n_leases, "the numbers of looks do not agree with answers and leases"
    assert len(stored) <= sum(record.n_sent for record in seen)
    return {
        "answers acknowledged": len(acknowledged),
        "answers stored": len(stored),
        "sent again after a kill": sum(record.n_repeats for record in seen),
    }


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        result = run(sys.argv[1], Path(place), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0, 4000)
    sys.stdout.write(", ".join(f"{count:,} {name}" for name, count in result.items()) + "\n")
