"""What is set up in Label Studio when a project is connected, and taken away when it is disconnected."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update

from palda.live.labelstudio import connections
from palda.live.labelstudio.backend import HEADER, USER
from palda.live.labelstudio.errors import RemoteError
from palda.live.labelstudio.steering import KEPT_SECONDS, delete_predictions, set_project
from palda.live.schema import labelstudio_event, labelstudio_task, vote

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Update

    from palda.live.labelstudio.client import Client
    from palda.live.labelstudio.connections import StoredConnection
    from palda.live.labelstudio.sync import Sync
    from palda.live.store import Store

ACTIONS = (
    "ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED", "TASKS_CREATED",
    "TASKS_DELETED", "PROJECT_UPDATED",
)  # fmt: skip
"""What Label Studio tells."""

TITLE = "palda"
_UNCERTAINTY = "Uncertainty sampling"


def wanted_settings(connection: StoredConnection) -> dict[str, Any]:
    """Settings of the project in Label Studio that steering needs, besides the model version."""
    if not connection.settings.steer:
        return {}
    shown = {"show_collab_predictions": True} if connection.settings.prelabel_share > 0 else {}
    return {"sampling": _UNCERTAINTY, **shown}


def register(store: Store, client: Client, sync: Sync, backend_url: str, secret: str) -> None:
    """Register webhook and backend, and set the settings of the project; what is there already stays.

    Label Studio calls the backend before it accepts it: the server must be running. A connection that only reads needs
    the webhook alone.
    """
    found = sync.connection
    headers = {HEADER: secret}
    hook_url = f"{backend_url}/webhook"
    hook: dict[str, Any] = {"url": hook_url, "headers": headers, "actions": list(ACTIONS), "is_active": True}
    hook |= {"project": found.remote_project, "send_payload": True, "send_for_all_actions": False}
    hook_id = _present(client.get("/api/webhooks/", project=found.remote_project), found.webhook_id, hook_url)
    # The webhook comes first: with the backend, Label Studio would add one without the secret.
    hook_id = _put(client, "/api/webhooks/", hook_id, hook)
    sync.connection = connections.change(store, found.project_id, webhook_id=hook_id)
    if not found.settings.steer:
        return
    present = client.get(f"/api/projects/{found.remote_project}")
    changed = {"model_version": [present.get("model_version"), TITLE], **found.changed}
    sync.connection = connections.change(store, found.project_id, changed=changed)
    wanted = {key: value for key, value in wanted_settings(found).items() if present.get(key) != value}
    if wanted:
        set_project(store, client, sync, wanted)
    # The backend's title becomes the model version, which is noted above.
    backend = {"url": backend_url, "title": TITLE, "project": found.remote_project, "is_interactive": False}
    backend |= {"auth_method": "BASIC_AUTH", "basic_auth_user": USER, "basic_auth_pass": secret}
    backend_id = _present(client.get("/api/ml/", project=found.remote_project), found.backend_id, backend_url)
    try:
        backend_id = _put(client, "/api/ml/", backend_id, backend)
    except RemoteError as error:
        if error.status not in (400, 403):
            raise
        raise RemoteError(
            f"Label Studio does not accept the backend {backend_url}: {error}. It must reach this address "
            "(--backend-url); to reach this machine it must be started with ML_BLOCK_LOCAL_IP=false "
            "SSRF_PROTECTION_ENABLED=false",
            error.status,
        ) from None
    sync.connection = connections.change(store, found.project_id, backend_id=backend_id)


def _present(rows: Any, known: int | None, url: str) -> int | None:
    """Number of what is there already: the one that was registered, else one of the same address."""
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    same = [row["id"] for row in found if row.get("id") == known] or [
        row["id"] for row in found if row.get("url") == url
    ]
    return int(same[0]) if same else None


def _put(client: Client, path: str, number: int | None, body: dict[str, Any]) -> int:
    """Create something, or bring what is there up to date."""
    if number is None:
        return int(client.send("POST", path, body, repeat=False)["id"])
    client.send("PATCH", f"{path}{number}/" if "webhooks" in path else f"{path}{number}", body)
    return number


def disconnect(
    store: Store,
    client: Client,
    connection: StoredConnection,
    say: Callable[[str], None],
    predictions: str | None = None,
) -> None:
    """Restore what was changed in Label Studio, and delete what was added.

    Whoever has a prediction open cannot submit the annotation without it. Therefore recent ones stay if somebody
    annotated in the last hours, unless ``predictions`` is "delete"; "keep" leaves all.

    Votes, documents and people stay in the store, so that the project can be connected again.
    Settings that somebody has changed since are left as they are.
    """
    path = f"/api/projects/{connection.remote_project}"
    for what, number in (("webhooks", connection.webhook_id), ("ml", connection.backend_id)):
        if number is not None:
            client.send("DELETE", f"/api/{what}/{number}{'/' if what == 'webhooks' else ''}", may_be_gone=True)
    versions = {} if predictions == "keep" else connection.versions
    deleted = versions if predictions == "delete" else _deleted_versions(store, connection.project_id, versions)
    for version in deleted:
        delete_predictions(client, path, version)
    stay = {name: since or time.time() for name, since in versions.items() if name not in deleted}
    say(f"removed the webhook, the backend and predictions of {len(deleted)} versions")
    if stay:
        say(
            "recent predictions stay, because somebody annotated in the last two hours and may have one open: run this "
            "again later, or with --predictions delete if nobody does"
        )
    present = client.get(path)
    old = {}
    for name, (before, mine) in connection.changed.items():
        if present.get(name) == mine or (name == "model_version" and present.get(name) in ("", None)):
            old[name] = before
    if old.get("model_version") and not _has_version(client, path, old["model_version"]):
        say(f"the model version {old['model_version']!r} of before has no predictions any more; it stays empty")
        old["model_version"] = ""
    if old:
        client.send("PATCH", path, {name: value if value is not None else "" for name, value in old.items()})
    say("restored " + (", ".join(f"{name} = {value!r}" for name, value in old.items()) or "no settings"))
    say(f"restored the overlap of {_restore_overlaps(store, client, connection.project_id):,} tasks")
    ended: dict[str, Any] = {"webhook_id": None, "backend_id": None, "versions": stay, "changed": {}, "secret_hash": ""}
    connections.change(store, connection.project_id, message="disconnected", **ended)
    store.write(lambda one: _forget_predictions(one, connection.project_id))


def _deleted_versions(store: Store, project_id: int, versions: dict[str, float | None]) -> list[str]:
    """Versions whose predictions nobody can have open."""
    end = time.time() - KEPT_SECONDS
    query = select(func.max(vote.c.given_at)).where(vote.c.project_id == project_id)
    last = store.read(lambda connection: connection.execute(query).scalar()) or 0.0
    return [name for name, since in versions.items() if last < end or (since or math.inf) < end]


def _restore_overlaps(store: Store, client: Client, project_id: int) -> int:
    """Give tasks the overlap that they had; returns how many."""
    task = labelstudio_task.c
    changed = task.project_id == project_id, task.first_overlap.is_not(None)
    columns = task.task_id, task.first_overlap, task.n_annotations
    rows = store.read(lambda connection: connection.execute(select(*columns).where(*changed)).all())
    for row in rows:
        body = {"overlap": row.first_overlap, "is_labeled": row.n_annotations >= row.first_overlap}
        client.send("PATCH", f"/api/tasks/{row.task_id}/", body, may_be_gone=True)
        done = update(labelstudio_task).where(*changed, task.task_id == row.task_id).values(first_overlap=None)
        store.write(partial(_execute, done))
    return len(rows)


def _execute(statement: Update, connection: Connection) -> None:
    connection.execute(statement)


def _has_version(client: Client, path: str, version: str) -> bool:
    found = client.get(f"{path}/model-versions/")
    return isinstance(found, dict) and version in found


def _forget_predictions(connection: Connection, project_id: int) -> None:
    of_project = labelstudio_task.c.project_id == project_id
    connection.execute(update(labelstudio_task).where(of_project).values(version=None))
    connection.execute(delete(labelstudio_event).where(labelstudio_event.c.project_id == project_id))
