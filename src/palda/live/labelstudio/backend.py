"""What Label Studio calls: the protocol of an ML backend, and webhooks. Outside of the JSON API.

Every request must carry the secret of the connection, as the password of basic authentication or in a header.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from sqlalchemy import insert
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route

from palda.errors import PaldaError
from palda.io import Control
from palda.live.errors import InvalidRequestError, NotSignedInError, ServiceError, TooManyRequestsError
from palda.live.labelstudio import connections
from palda.live.labelstudio.predictions import known_tasks, predictions_for, version_name
from palda.live.labelstudio.remote import (
    ANNOTATION_FIELDS,
    STATE_FIELDS,
    Question,
    number,
    remote_annotation,
    task_state,
)
from palda.live.labelstudio.tokens import secret_hash
from palda.live.schema import labelstudio_event
from palda.live.service.results import fitted_labels

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection
    from starlette.requests import Request
    from starlette.responses import Response

    from palda.live.labelstudio.connections import StoredConnection
    from palda.live.store import Store

USER = "palda"
"""Name of basic authentication."""

HEADER = "X-Palda-Secret"
"""Header of webhooks."""

MAX_BYTES = 64_000_000
"""Largest request: Label Studio sends predictions for 100 tasks with all their annotations."""

_MAX_TASKS = 10_000
_MAX_ID = 2**63 - 1
_NO_QUESTION = Question(Control("", ""), None)


def routes() -> list[Route]:
    """Routes of all connections."""
    path = "/labelstudio/{connection:int}"
    return [
        Route(f"{path}/health", _guarded(_health), methods=["GET"]),
        Route(f"{path}/setup", _guarded(_health), methods=["POST"]),
        Route(f"{path}/predict", _guarded(_predict), methods=["POST"]),
        Route(f"{path}/webhook", _guarded(_webhook), methods=["POST"]),
    ]


def _guarded(
    action: Callable[[Store, StoredConnection, dict[str, Any]], dict[str, Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """A route that answers in JSON, if the request has the secret."""

    async def handle(request: Request) -> Response:
        try:
            connection = await run_in_threadpool(_enter, request)
            body: dict[str, Any] = {}
            if request.method == "POST":
                limit = request.scope.get("palda.body")
                if limit is not None:
                    limit.max_bytes = max(limit.max_bytes, MAX_BYTES)
                body = await run_in_threadpool(_object, await request.body())
            answer = await run_in_threadpool(action, request.app.state.web.store, connection, body)
        except ServiceError as error:
            headers = {"WWW-Authenticate": f'Basic realm="{USER}"'} if error.status == 401 else {}
            return JSONResponse({"detail": str(error)}, error.status, headers)
        return JSONResponse(answer)

    return handle


def _enter(request: Request) -> StoredConnection:
    """The connection of a request with its secret. What is wrong stays open: connection or secret."""
    web = request.app.state.web
    address = request.client.host if request.client else ""
    given = secret_hash(_given_secret(request)).encode()
    number = int(request.path_params["connection"])
    store: Store = web.store
    found = store.read(lambda connection: connections.find(connection, number)) if number <= _MAX_ID else None
    if found is not None and hmac.compare_digest(given, found.secret_hash.encode()):
        return found
    if web.failures.is_empty(address):
        raise TooManyRequestsError("too many failed sign-ins from this address: wait a minute")
    web.failures.take(address)
    raise NotSignedInError("the secret is not that of this connection; run palda labelstudio connect again")


def _given_secret(request: Request) -> str:
    header = request.headers.get(HEADER)
    if header is not None:
        return header
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        return ""
    return password if user == USER else ""


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise InvalidRequestError("the body is not valid JSON") from None
    if not isinstance(found, dict):
        raise InvalidRequestError("the body is not an object")
    return found


def _health(store: Store, connection: StoredConnection, _body: dict[str, Any]) -> dict[str, Any]:
    """The answer to ``setup`` too, whose request holds a token of Label Studio, which is neither used nor kept."""
    generation, _ = store.read(lambda one: fitted_labels(one, connection.project_id))
    return {"status": "UP", "model_class": "palda", "model_version": version_name(generation)}


def _predict(store: Store, connection: StoredConnection, body: dict[str, Any]) -> dict[str, Any]:
    """Predictions from what is stored: never waits for a fit."""
    tasks = body.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > _MAX_TASKS:
        raise InvalidRequestError(f"tasks is not a list of at most {_MAX_TASKS:,} tasks")
    ids = [number(task, "id") for task in tasks]
    try:
        question = Question.of_project({"label_config": body.get("label_config")}, connection.question)
    except PaldaError:
        raise InvalidRequestError("the label config cannot be read, or lacks the question") from None
    known = store.read(lambda one: known_tasks(one, connection.project_id, ids))
    found = predictions_for(known, ids, question.control, connection.settings)
    return {"results": [one.body for one in found]}


def _webhook(store: Store, connection: StoredConnection, body: dict[str, Any]) -> dict[str, Any]:
    """Keep what happened; it is taken in later."""
    action = body.get("action")
    if not isinstance(action, str) or len(action) > 100:
        raise InvalidRequestError("action is not a text")
    event = _event(action, body)
    if event is not None:
        values = {"project_id": connection.project_id, "body": event, "received_at": time.time()}

        def keep(one: Connection) -> None:
            one.execute(insert(labelstudio_event).values(**values))

        store.write(keep)
    return {"status": "accepted"}


def _event(action: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The part of a webhook that matters; None if nothing does."""
    if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
        annotation, task = body.get("annotation"), body.get("task")
        if not isinstance(annotation, dict) or not isinstance(task, dict):
            raise InvalidRequestError("the annotation or its task is missing")
        kept = {name: annotation.get(name) for name in ANNOTATION_FIELDS}
        state = {name: task.get(name) for name in (*STATE_FIELDS, "data")}
        task_state(state)
        remote_annotation(kept, _NO_QUESTION)
        return {"action": action, "annotation": kept, "task": state}
    if action == "ANNOTATIONS_DELETED":
        gone = body.get("annotations")
        if not isinstance(gone, list):
            raise InvalidRequestError("annotations is not a list")
        return {"action": action, "deleted": [number(one, "id") for one in gone]}
    known = ("ANNOTATIONS_CREATED", "TASKS_CREATED", "TASKS_DELETED", "PROJECT_UPDATED")
    return {"action": action} if action in known else None
