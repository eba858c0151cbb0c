"""Load on ``palda serve``: annotators who label over HTTP at a fixed rate, whether the server keeps up or not.

``python -m benchmarks server [--store sqlite postgresql] [--seconds 300] [--rate 150] [--annotators 200]
[--documents 100000]``. A project of 20 classes starts with half a vote per document. The first fit is over when the
load begins; then a document is added, so that the learner fits again at low priority, while it updates posteriors and
fills queues. Documents are due at random moments (Poisson), on average ``--rate`` per second over all annotators, whose
sessions are cookies. For each one the annotator asks for the next document and sends the votes on all classes. Latency
is counted from the moment a document was due, so it includes the time that requests of the same annotator had to wait
for each other. PostgreSQL is started from ``--postgresql`` (Debian's packages) in a temporary folder, as user postgres
if this is root.

``python -m benchmarks server saved`` labels a newsroom of 400 documents through the API to the stop rule, and compares
votes with a fixed number per document.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import insert

from benchmarks.processes import Watch, n_bytes
from palda import simulate
from palda.live import schema
from palda.live.demo import ApiClient
from palda.live.records import ProjectSettings
from palda.live.service import access, documents, projects
from palda.live.store import Store, next_positions, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

N_CLASSES, N_WORDS, N_TOPICS, DOC_LENGTH = 20, 8000, 30, 60
START_VOTES = 0.5  # per document
CHUNK = 2000
QUALITY = (0.7, 0.95)
TARGET_MS = 250.0
Session = tuple[str, str]  # token and form key


class Crowd(NamedTuple):
    """Simulated annotators: true labels, and how often each annotator is right."""

    truth: np.ndarray
    quality: np.ndarray

    def votes(self, who: int, doc: int, rng: np.random.Generator) -> np.ndarray:
        """(classes,): votes on all classes of a document."""
        right = rng.random(self.truth.shape[1]) < self.quality[who]
        return np.where(right, self.truth[doc], 1 - self.truth[doc])


class Prepared(NamedTuple):
    """A store with a project."""

    project_id: int
    label_ids: list[int]
    sessions: list[Session]
    crowd: Crowd


def prepare(location: str, n_docs: int, n_annotators: int) -> Prepared:
    """Documents, annotators with sessions, and the first votes."""
    rng = np.random.default_rng(0)
    news = simulate.documents(n_docs, N_CLASSES, N_TOPICS, N_WORDS, seed=0, doc_length=DOC_LENGTH, texts=True)
    crowd = Crowd(news.labels.astype(np.int8), rng.uniform(*QUALITY, n_annotators))
    store = open_store(location)
    owner = access.enter(store, access.start_tokens(store)[1])
    settings = ProjectSettings(target_error=0.001)
    project = projects.create(store, owner, "load", [f"class {number}" for number in range(N_CLASSES)], settings)
    rows = [documents.DocumentRow(str(number), text) for number, text in enumerate(news.documents.texts)]
    documents.import_documents(store, project.id, rows)
    people, sessions = [], []
    for number in range(n_annotators):
        token, _ = access.accept(store, access.invite(store, owner, project.id, "annotator", f"annotator-{number:03d}"))
        people.append(access.enter(store, token, project.id).person_id)
        sessions.append((token, access.form_key(store, token)))
    label_ids = [label.id for label in project.labels]
    first_votes(store, project.id, label_ids, people, crowd, rng.permutation(n_docs)[: int(START_VOTES * n_docs)])
    store.close()
    return Prepared(project.id, label_ids, sessions, crowd)


def first_votes(
    store: Store, project_id: int, label_ids: list[int], people: list[int], crowd: Crowd, docs: np.ndarray
) -> None:
    """Votes of one annotator each on some documents, as many requests would have left them."""
    rng, now = np.random.default_rng(1), time.time() - 86400
    query = schema.document.c.id, schema.document.c.name
    by_name = store.read(
        lambda connection: dict(
            connection.execute(
                schema.document.select().with_only_columns(query[1], query[0]).where(
                    schema.document.c.project_id == project_id
                )
            ).all()
        )
    )  # fmt: skip
    numbers = itertools.count(1)
    for first in range(0, len(docs), CHUNK):
        chunk = docs[first : first + CHUNK].tolist()
        who = rng.integers(len(people), size=len(chunk)).tolist()
        ids = [next(numbers) for _ in chunk]
        about = [
            {"project_id": project_id, "document_id": by_name[str(doc)], "person_id": people[one]}
            for doc, one in zip(chunk, who, strict=True)
        ]
        values = [crowd.votes(one, doc, rng).tolist() for doc, one in zip(chunk, who, strict=True)]

        def write(connection: Any, ids: Any = ids, about: Any = about, values: Any = values) -> None:
            sent = {"body_hash": "", "kind": "votes", "purpose": "overlap", "seconds": 6.0, "submitted_at": now}
            connection.execute(
                insert(schema.submission),
                [{"id": key, "client_id": f"first-{key}", **one, **sent} for key, one in zip(ids, about, strict=True)],
            )
            connection.execute(insert(schema.answer), [{"kind": "votes", "answered_at": now, **one} for one in about])
            position = itertools.count(next_positions(connection, len(about) * len(label_ids)))
            entries = [
                {"position": next(position), "label_id": label, "value": value, "given_at": now, "submission_id": key}
                | one
                for key, one, row in zip(ids, about, values, strict=True)
                for label, value in zip(label_ids, row, strict=True)
            ]
            connection.execute(insert(schema.vote), entries)
            looked = [one["document_id"] for one in about]
            raised = schema.document.update().where(schema.document.c.id.in_(looked)).values(n_looks=1)
            connection.execute(raised)

        store.write(write)
    if not store.is_sqlite:
        store.write(
            lambda connection: connection.exec_driver_sql(
                "SELECT setval(pg_get_serial_sequence('submission', 'id'), (SELECT max(id) FROM submission))"
            )
        )


class Server:
    """``palda serve`` as a child process."""

    def __init__(self, location: str, *options: str) -> None:
        command = [sys.executable, "-m", "palda", "serve", location, "--port", "0", "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit("the server did not start")
        self.links = json.loads(line)
        self.port = int(self.links["url"].rsplit(":", 1)[1])

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(timeout=30)


class Connection:
    """HTTP/1.1 with keep-alive, as cheap as possible: the measured program is the server."""

    def __init__(self, port: int, session: Session) -> None:
        self._port = port
        self._head = (
            f"Host: 127.0.0.1:{port}\r\nCookie: palda_session={session[0]}\r\nX-Palda-Form-Key: {session[1]}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: str = "") -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(f"POST {path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n{body}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            place = head.lower().index(b"content-length: ") + 16
            return int(head[9:12]), await reader.readexactly(int(head[place : head.index(b"\r\n", place)]))
        except (OSError, asyncio.IncompleteReadError):
            self._streams = None
            raise

    def close(self) -> None:
        """Close it."""
        if self._streams is not None:
            self._streams[1].close()


class Sample(NamedTuple):
    """One labelled document: seconds since the start when it was due, and until next and submit were answered."""

    due: float
    next: float
    total: float


class Load:
    """Open-loop arrivals."""

    def __init__(self, port: int, prepared: Prepared, rate: float, seconds: float) -> None:
        self._prepared, self._seconds, self._rate = prepared, seconds, rate
        self._connections = [Connection(port, session) for session in prepared.sessions]
        self._path = f"/api/v1/projects/{prepared.project_id}"
        self._keys = [f'"{label}":' for label in prepared.label_ids]
        self._rng = np.random.default_rng(2)
        self._numbers = itertools.count()
        self._waiting: list[deque[float]] = [deque() for _ in self._connections]
        self._is_busy = [False] * len(self._connections)
        self.samples: list[Sample] = []
        self.problems: dict[str, int] = {}

    async def run(self) -> None:
        """Send requests when they are due, and wait for the last answers."""
        start, due, tasks = time.monotonic(), 0.0, set()
        self._start = start
        while True:
            due += self._rng.exponential(1.0 / self._rate)
            if due > self._seconds:
                break
            delay = start + due - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            who = int(self._rng.integers(len(self._connections)))
            self._waiting[who].append(due)
            if not self._is_busy[who]:
                self._is_busy[who] = True
                task = asyncio.create_task(self._work(who))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks, timeout=60)
        for connection in self._connections:
            connection.close()

    async def _work(self, who: int) -> None:
        waiting = self._waiting[who]
        while waiting:
            due = waiting.popleft()
            try:
                problem = await self._label(who, due)
            except (OSError, asyncio.IncompleteReadError) as error:
                problem = type(error).__name__
            if problem:
                self.problems[problem] = self.problems.get(problem, 0) + 1
        self._is_busy[who] = False

    async def _label(self, who: int, due: float) -> str:
        """Label one document; returns what went wrong."""
        connection, start = self._connections[who], self._start
        status, body = await connection.post(f"{self._path}/next")
        answered = time.monotonic() - start - due
        if status != 200:
            return f"next: {status}"
        task = json.loads(body)
        if "document_id" not in task:
            return f"next: {task.get('reason')}"
        doc = int(task["document"]) if task["document"] != "added" else 0
        values = self._prepared.crowd.votes(who, doc, self._rng).tolist()
        votes = ",".join(f"{key}{value}" for key, value in zip(self._keys, values, strict=True))
        text = (
            f'{{"document_id":{task["document_id"]},"client_id":"load-{next(self._numbers)}","kind":"votes",'
            f'"votes":{{{votes}}}}}'
        )
        status, _ = await connection.post(f"{self._path}/votes", text)
        if status != 200:
            return f"votes: {status}"
        self.samples.append(Sample(due, answered, time.monotonic() - start - due))
        return ""


def wait_for_fit(server: Server, project_id: int, patience: float) -> None:
    """Wait until the first model is in use; without it, the load begins all the same."""
    owner, start = ApiClient(server.links["url"], server.links["admin_token"]), time.monotonic()
    while time.monotonic() < start + patience:
        status = owner.send("GET", f"/projects/{project_id}/status")
        if status["estimate"] is not None:
            print(f"  first fit after {time.monotonic() - start:.0f} s", flush=True)
            break
        time.sleep(1.0)
    else:
        print("  no fit yet", flush=True)
    added = json.dumps({"doc": "added", "text": "w1 w2 w3 w4"}).encode()
    owner.send("POST", f"/projects/{project_id}/documents", added, "application/x-ndjson")
    owner.close()


def measure(name: str, location: str, given: argparse.Namespace, database: int | None = None) -> dict[str, Any]:
    """Run the load on a store and return one row of the table."""
    print(f"{name}: preparing {given.documents:,} documents", flush=True)
    prepared = prepare(location, given.documents, given.annotators)
    server = Server(location)
    watch = Watch(server.process.pid, database)
    try:
        wait_for_fit(server, prepared.project_id, given.patience)
        load = Load(server.port, prepared, given.rate, given.seconds)
        used = time.process_time()
        watch.start()
        asyncio.run(load.run())
        watch.stop()
        used = time.process_time() - used
    finally:
        server.stop()
    return report(name, load, watch, used, given)


def report(name: str, load: Load, watch: Watch, used: float, given: argparse.Namespace) -> dict[str, Any]:
    """Print what was measured; returns the row of the table."""
    due = np.array([sample.due for sample in load.samples])
    total = 1000 * np.array([sample.total for sample in load.samples])
    first = 1000 * np.array([sample.next for sample in load.samples])
    for start in range(0, int(given.seconds), 30):
        part = (due >= start) & (due < start + 30)
        if part.any():
            fits = watch.share_with("fit", start, start + 30)
            low, high = np.percentile(total[part], [50, 99])
            print(
                f"  {start:4d} s: {part.sum() / 30:6.1f} documents per second, p50 {low:6.1f} ms, p99 {high:7.1f} ms, "
                f"fit running {fits:4.0%}",
                flush=True,
            )
    quantiles = np.percentile(total, [50, 95, 99, 99.9]) if len(total) else np.full(4, np.nan)
    row = {
        "store": name,
        "documents per second": round(len(total) / given.seconds, 1),
        "next p99 ms": round(float(np.percentile(first, 99)), 1) if len(first) else np.nan,
        **{
            f"next + submit {label} ms": round(float(value), 1)
            for label, value in zip(("p50", "p95", "p99", "p99.9"), quantiles, strict=True)
        },
        "max ms": round(float(total.max(initial=0.0)), 1),
        "problems": sum(load.problems.values()),
        "fit running": f"{watch.share_with('fit', 0, given.seconds):.0%}",
        **{f"{role} MB": round(n_bytes(watch.peak[role]) / 1e6) for role in watch.peak},
        **{f"{role} CPU": f"{seconds / given.seconds:.0%}" for role, seconds in watch.cpu_seconds().items()},
        "generator CPU": f"{used / given.seconds:.0%}",
    }
    if load.problems:
        print("  problems:", load.problems)
    return row


@contextmanager
def postgresql(binaries: Path) -> Iterator[tuple[str, int]]:
    """URL and process id of a PostgreSQL server in a temporary folder."""
    if not (binaries / "initdb").exists():
        raise SystemExit(f"{binaries}: there is no PostgreSQL")
    folder = Path(tempfile.mkdtemp(prefix="palda-benchmark-pg-"))
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", 54_329
    run = [*user, str(binaries / "pg_ctl"), "-D", str(data), "-w"]
    initdb = [*user, str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "palda"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    subprocess.run([*run, "-o", options, "-l", str(folder / "log"), "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        yield f"postgresql://palda@127.0.0.1:{port}/postgres", int((data / "postmaster.pid").read_text().split()[0])
    finally:
        subprocess.run([*run, "-m", "immediate", "stop"], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Measurements as rows, stores as columns."""
    print("| | " + " | ".join(str(row["store"]) for row in rows) + " |")
    print("|---|" + "---|" * len(rows))
    for name in dict.fromkeys(key for row in rows for key in row if key != "store"):
        print(f"| {name} | " + " | ".join(str(row.get(name, "")) for row in rows) + " |")
    for row in rows:
        verdict = "within" if row["next + submit p99 ms"] <= TARGET_MS else "NOT WITHIN"
        print(f"{row['store']}: 99th percentile {verdict} {TARGET_MS:.0f} ms")


def main() -> None:
    if sys.argv[2:3] == ["saved"] or sys.argv[1:2] == ["saved"]:
        from benchmarks.votes_saved import main as compare

        compare()
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks server", description=__doc__)
    parser.add_argument("--store", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--annotators", type=int, default=200)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds that the first fit may take")
    parser.add_argument("--postgresql", type=Path, default=Path("/usr/lib/postgresql/15/bin"))
    given = parser.parse_args([one for one in sys.argv[1:] if one != "server"])
    rows = []
    for name in given.store:
        if name == "sqlite":
            with tempfile.TemporaryDirectory(prefix="palda-benchmark-") as folder:
                rows.append(measure(name, str(Path(folder) / "load.db"), given))
        else:
            with postgresql(given.postgresql) as (url, process):
                rows.append(measure(name, url, given, process))
        print_table(rows)


if __name__ == "__main__":
    main()
