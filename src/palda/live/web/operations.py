"""Operations of the API: function over the service, roles that may call it, entry in the OpenAPI document.

An operation runs in one thread of the pool from the check of its sender to the bytes of its answer. Those that every
labelled document needs run in the thread that writes to the store instead, from the check of the sender to the commit:
a thread less to wait for, and no other request can come between.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from palda.live.store import Transaction
from palda.live.web.bodies import Problem
from palda.live.web.security import (
    SAFE_METHODS,
    Allowed,
    Web,
    check_origin,
    current_actor,
    known_credential,
    sender,
    valid_credential,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sqlalchemy import Connection

    from palda.live.records import Actor
    from palda.live.service.access import Sender
    from palda.live.store import Store

EVERYBODY: tuple[Allowed, ...] = ("admin", "annotator", "viewer")
LABELLING: tuple[Allowed, ...] = ("admin", "annotator")
WATCHING: tuple[Allowed, ...] = ("admin", "viewer")
ADMINS: tuple[Allowed, ...] = ("admin",)
OWNERS: tuple[Allowed, ...] = ("owner",)
SIGNED_IN: tuple[Allowed, ...] = ()

_MAX_VALUES = 5000  # of a body; a project of 1,000 classes with meanings has 3,000
_PROBLEMS = {
    400: "The request is not for this server: its header Host has another name",
    401: "No credential, or one that has expired",
    403: "The role does not allow it, or the form key is missing",
    404: "It does not exist, or it belongs to a project that the sender is not a member of",
    408: "The body stopped arriving",
    409: "It contradicts what is stored",
    413: "The body is too large",
    414: "The address is too long",
    415: "The body has another media type",
    422: "The request is not valid",
    429: "Too many requests",
    503: "The store cannot be read or written now; the same request again is not stored twice",
}


@dataclass(frozen=True)
class Call:
    """A request whose sender may send it."""

    request: Request
    actor: Actor

    @property
    def web(self) -> Web:
        """What the application shares."""
        return Web.of(self.request)

    @property
    def store(self) -> Store:
        """The store of the application."""
        return self.web.store


class Writing(NamedTuple):
    """A request whose endpoint runs within a transaction, and checks the sender there."""

    sender: Sender
    transaction: Transaction


class Leasing(Writing):
    """Likewise, of an endpoint that takes no position of the log."""


@dataclass(frozen=True)
class Operation:
    """Entry of the API; ``allowed`` is None if no credential is needed, and () if any will do."""

    method: str
    path: str
    endpoint: Callable[..., Any]
    allowed: tuple[Allowed, ...] | None
    answer: Any  # type of the answer's body; None: no body
    status: int
    details: dict[str, Any]

    @property
    def name(self) -> str:
        """Operation id."""
        return self.endpoint.__name__

    def problems(self) -> dict[int | str, dict[str, Any]]:
        """Answers that are errors."""
        statuses = {400, 414}
        if self.allowed is not None:
            statuses |= {401, 403, 422, 429, 503}
        if "{" in self.path:
            statuses.add(404)
        if self.method not in SAFE_METHODS:
            statuses |= {408, 409, 413, 415, 422}
        return {status: {"model": Problem, "description": _PROBLEMS[status]} for status in sorted(statuses)}

    def route(self, prefix: str) -> OperationRoute:
        """Route of the operation."""
        summary, _, description = inspect.cleandoc(self.endpoint.__doc__ or "").partition("\n")
        details = {"response_model": self.answer, "status_code": self.status, **self.details}
        return OperationRoute(
            prefix + self.path,
            _entered(self),
            methods=[self.method],
            operation_id=self.name,
            summary=summary.rstrip("."),
            description=description.strip(),
            responses={**self.problems(), **details.pop("responses", {})},
            openapi_extra=_security(self.allowed) | details.pop("openapi_extra", {}),
            **details,
        )


def _security(allowed: tuple[Allowed, ...] | None) -> dict[str, Any]:
    if allowed is None:
        return {"security": []}
    who = ", ".join(allowed) or "everybody who is signed in"
    return {"security": [{"token": []}, {"session": []}], "x-roles": who}


def _entered(operation: Operation) -> Callable[..., Any]:
    """The endpoint behind a check of the sender; its parameter ``call`` becomes the request."""
    endpoint, allowed = operation.endpoint, operation.allowed
    signature = inspect.signature(endpoint, eval_str=True)
    adapter = None if operation.answer is None else TypeAdapter(operation.answer)

    def enter(request: Request, project_id: int | None) -> Any:
        return request if allowed is None else Call(request, current_actor(request, project_id, allowed))

    async def write(request: Request, **given: Any) -> Response:
        project_id, store = given.get("project_id"), Web.of(request).store
        credential = known_credential(request)
        if credential is None:  # strangers do not get as far as the writer
            await run_in_threadpool(current_actor, request, project_id, allowed or ())
            credential = valid_credential(request)
        else:
            check_origin(request, credential)

        def act(connection: Connection) -> Any:
            return endpoint(Writing(sender(credential, allowed or ()), Transaction(connection)), **given)

        return finish(await asyncio.wrap_future(store.write_soon(act, is_logged=first.annotation is Writing)))

    def finish(answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        content = b"" if adapter is None else adapter.dump_json(answer)
        return Response(content, operation.status, media_type=None if adapter is None else "application/json")

    def respond(request: Request, **given: Any) -> Response:
        return finish(endpoint(enter(request, given.get("project_id")), **given))

    async def respond_async(request: Request, **given: Any) -> Response:
        call = await run_in_threadpool(enter, request, given.get("project_id"))
        return finish(await endpoint(call, **given))

    first, *others = signature.parameters.values()
    entered: Any = respond_async if inspect.iscoroutinefunction(endpoint) else respond
    if first.annotation in (Writing, Leasing):
        entered = write
    request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
    entered.__signature__ = inspect.Signature([request, *others])
    entered.__name__ = operation.name
    entered.operation = operation
    return entered  # type: ignore[no-any-return]


class _JsonRequest(Request):
    """Request whose JSON is what RFC 8259 allows: no NaN, no half surrogate pairs, no nesting without end.

    The number of values is limited: each of them that is wrong makes an error.
    """

    async def json(self) -> Any:
        body = await self.body()
        try:
            found = from_json(body, allow_inf_nan=False, cache_strings="keys")
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None
        if _has_many_values(found):
            raise HTTPException(422, f"the body has more than {_MAX_VALUES:,} values")
        return found


def _has_many_values(found: Any) -> bool:
    n_values, waiting = 0, [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (dict, list)):
            n_values += len(one)
            if n_values > _MAX_VALUES:
                return True
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


class OperationRoute(APIRoute):
    """Route that answers strangers before it reads their body, and other roles before it says anything about it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handler of the route."""
        handle = super().get_route_handler()
        operation: Operation = self.endpoint.operation  # type: ignore[attr-defined]
        expects_json = self.body_field is not None

        async def handle_json(request: Request) -> Response:
            try:
                if expects_json:
                    if operation.allowed is not None:
                        await _refuse_strangers(request)
                    _check_media_type(request)
                return await handle(_JsonRequest(request.scope, request.receive))
            except (RequestValidationError, HTTPException):
                if operation.allowed is not None:
                    project_id = _project_id(request)
                    allowed = SIGNED_IN if project_id is None and "{" in operation.path else operation.allowed
                    await run_in_threadpool(current_actor, request, project_id, allowed)
                raise

        return handle_json


async def _refuse_strangers(request: Request) -> None:
    credential = valid_credential(request)
    if hash(credential.token) not in Web.of(request).requests:
        await run_in_threadpool(current_actor, request)


def _check_media_type(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send the body as application/json")


def _project_id(request: Request) -> int | None:
    text = request.path_params.get("project_id", "")
    return int(text) if text.isdecimal() and len(text) <= 18 else None
