"""Connects a project of Label Studio to a store, for the command line."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from palda.errors import PaldaError
from palda.live.labelstudio import connections
from palda.live.labelstudio.client import Client, checked_url
from palda.live.labelstudio.connections import ConnectionSettings, StoredConnection
from palda.live.labelstudio.connector import RECONCILE_SECONDS, Connector
from palda.live.labelstudio.predictions import version_name
from palda.live.labelstudio.registration import wanted_settings
from palda.live.labelstudio.remote import Question
from palda.live.labelstudio.steering import Steering
from palda.live.labelstudio.sync import Sync
from palda.live.labelstudio.tokens import SecretsFile, secret_hash
from palda.live.learner.options import FitOptions
from palda.live.records import ProjectSettings
from palda.live.service import access, projects, results
from palda.live.service.names import MAX_NAME, checked_name
from palda.live.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from palda.live.records import Actor
    from palda.live.store import Store

_FIT_SECONDS = 600.0  # for a dry run


@dataclass(frozen=True)
class ConnectOrder:
    """What ``palda labelstudio connect`` was told."""

    url: str
    remote_project: int
    token: str | None
    questions: tuple[str, ...] = ()
    project: dict[str, Any] = field(default_factory=dict)  # settings of the projects in the store
    settings: dict[str, Any] = field(default_factory=dict)  # of the connections
    backend_url: str | None = None
    seconds: float = RECONCILE_SECONDS


class Follower:
    """A connected project, and the threads that follow its questions.

    Parameters
    ----------
    store : Store
        The store.
    owner : Actor
        Owner of the store.
    order : ConnectOrder
        What to connect.
    say : callable
        Told in one line what happens.
    """

    def __init__(self, store: Store, owner: Actor, order: ConnectOrder, say: Callable[[str], None]) -> None:
        url = checked_url(order.url)
        file = SecretsFile(store)
        name = f"{url}/projects/{order.remote_project}"
        stored = file.read(name)
        token = order.token or (stored.token if stored else None)
        if token is None:
            raise PaldaError(
                "a token of Label Studio is needed: --token-file FILE, or the variable LABEL_STUDIO_API_KEY; "
                "copy one from Account & Settings, Personal Access Token"
            )
        client = Client(url, token)
        try:
            found = read_project(client, order.remote_project)
            secret = file.keep(name, token).secret
            numbers = set_up(store, owner, order, found, secret_hash(secret))
        except BaseException:
            client.close()
            raise
        self.project_id = numbers[0]
        self._address = order.backend_url
        self.hosts: Sequence[str] = [urlsplit(order.backend_url).hostname or ""] if order.backend_url else []
        clients = [client, *(Client(url, token) for _ in numbers[1:])]
        self._connectors = {
            number: Connector(store, one, number, secret, say, order.seconds)
            for number, one in zip(numbers, clients, strict=True)
        }

    def start(self, url: str, ready: Callable[[], None]) -> None:
        """Begin to follow; ``ready`` is called when all tasks have been read."""
        base = checked_url(self._address) if self._address else url
        n_ready = itertools.count(1)

        def one_is_ready() -> None:
            if next(n_ready) == len(self._connectors):
                ready()

        for number, connector in self._connectors.items():
            connector.start(f"{base}/labelstudio/{number}", one_is_ready)

    def stop(self) -> None:
        """End."""
        for connector in self._connectors.values():
            connector.stop()


def read_project(client: Client, number: int) -> dict[str, Any]:
    """A project of Label Studio."""
    found = client.get(f"/api/projects/{number}")
    if not isinstance(found, dict) or "label_config" not in found:
        raise PaldaError(f"{client.url}: project {number} cannot be read; is this Label Studio?")
    return found


def set_up(store: Store, owner: Actor, order: ConnectOrder, found: dict[str, Any], secret: str) -> list[int]:
    """Create projects and connections of the questions, or change what the order names; returns their numbers.

    Questions that the store follows already come first. A task has one overlap and one place in the queue, so that the
    first question steers and the others are read.
    """
    url = checked_url(order.url)
    stored = store.read(lambda connection: connections.of_remote(connection, order.remote_project, url))
    known = {one.question: one for one in stored}
    wanted = *known, *(order.questions or (() if known else (None,)))
    controls = {one.name: one for one in (Question.of_project(found, name).control for name in wanted)}
    numbers: list[int] = []
    for name, control in controls.items():
        settings = {**order.settings, **({"steer": False} if numbers else {})}
        if name in known:
            numbers.append(_change(store, known[name], order, settings, secret))
            continue
        classes = [checked_name(label, "class") for label in control.classes]
        if not classes:
            raise PaldaError(f"the question {name!r} names no classes; add choices to the label config")
        title = checked_name(str(found.get("title") or "Label Studio")[: MAX_NAME - 100], "name")
        title = f"{title}: {name[:40]}" if len(controls) > 1 else title
        title = f"{title} (Label Studio {order.remote_project})"
        project = projects.create(store, owner, title, dict.fromkeys(classes), ProjectSettings.from_json(order.project))
        row = StoredConnection(
            project.id, url, order.remote_project, name, ConnectionSettings(**settings), secret, {}, None, None, {}, "",
            None,
        )  # fmt: skip
        connections.add(store, row)
        numbers.append(project.id)
    return numbers


def _change(store: Store, known: StoredConnection, order: ConnectOrder, settings: dict[str, Any], secret: str) -> int:
    """Apply an order to a connection that is there."""
    if order.project:
        projects.change(store, known.project_id, settings=order.project)
    changed = ConnectionSettings.from_json({**known.settings.__dict__, **settings})
    connections.change(store, known.project_id, settings=changed, secret_hash=secret)
    return known.project_id


def dry_run(order: ConnectOrder) -> Iterator[str]:
    """What ``connect`` would change in Label Studio, in lines. Nothing is changed but a temporary store."""
    if order.token is None:
        raise PaldaError("a token of Label Studio is needed: --token-file FILE, or the variable LABEL_STUDIO_API_KEY")
    client = Client(order.url, order.token)
    with tempfile.TemporaryDirectory(prefix="palda-dry-run-") as folder:
        store = open_store(Path(folder) / "project.db")
        try:
            owner = access.enter(store, access.start_tokens(store)[1])
            found = read_project(client, order.remote_project)
            project_id, *others = set_up(store, owner, order, found, "")
            sync = Sync(store, client, project_id)
            sync.reconcile()
            yield from _settings_lines(sync.connection, found, len(others))
            _fit(store, project_id)
            yield from _task_lines(store, client, sync)
        finally:
            store.close()
            client.close()


def _settings_lines(connection: StoredConnection, found: dict[str, Any], n_others: int) -> Iterator[str]:
    steers = connection.settings.steer
    yield f"would add {1 + n_others} webhook{'s' if n_others else ''}{' and an ML backend' if steers else ''}"
    wanted = {**wanted_settings(connection), **({"model_version": version_name(1)} if steers else {})}
    for name, value in wanted.items():
        if found.get(name) != value:
            yield f"would set {name} = {value!r} (is {found.get(name)!r})"


def _fit(store: Store, project_id: int) -> None:
    """Fit once, as the learner does, if there is enough."""
    from palda.live.learner.fitting import MIN_JUDGED
    from palda.live.learner.loop import Learner

    state = results.status(store, project_id)
    if state.n_judged < min(MIN_JUDGED, state.n_documents) or not state.n_judged:
        return
    learner, end = Learner(store, FitOptions()), time.monotonic() + _FIT_SECONDS
    try:
        while time.monotonic() < end and not store.read(lambda one: results.fitted_labels(one, project_id))[0]:
            learner.step()
            time.sleep(0.1)
    finally:
        learner.close()


def _task_lines(store: Store, client: Client, sync: Sync) -> Iterator[str]:
    plan, known = Steering(store, client, sync).plan()
    yield f"read {len(known.rows):,} tasks with {sum(row.n_annotations for row in known.rows):,} annotations"
    if not sync.connection.settings.steer:
        yield "would leave tasks, predictions and settings alone"
        return
    if known.version == version_name(0):
        yield "too few tasks have annotations for a first fit: which tasks would open or close is not known yet"
        return
    yield f"would write predictions for {len(plan.predicted):,} tasks"
    counts = Counter(change.reason for change in plan.changes)
    for reason, text in _REASONS.items():
        yield f"would {text}: {counts[reason]:,} tasks"
    for change in plan.changes[:20]:
        state = "closed" if change.is_labeled else "open"
        yield f"  task {change.task_id}: overlap {change.overlap}, {state} ({change.reason})"


_REASONS = {
    "doubtful": "open for another annotator",
    "certain": "close because the labels are certain",
    "enough": "close because of the largest number of votes",
    "later": "close until others are done",
}
