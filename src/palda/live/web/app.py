"""The application: API, pages, errors as one line."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

import palda
from palda.errors import DataError, PaldaError
from palda.live.errors import ServiceError
from palda.live.labelstudio import backend
from palda.live.web.api import OPERATIONS
from palda.live.web.events import EventHub
from palda.live.web.limits import Limits, SlowRequests, TokenBuckets
from palda.live.web.operations import OperationRoute
from palda.live.web.pages import add_pages
from palda.live.web.security import COOKIE, LOOPBACK_HOSTS, Shield, Web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from palda.live.store import Store

PREFIX = "/api/v1"
_MAX_DETAIL = 300  # characters
_PLAIN = {404: "there is nothing at this address", 405: "this address does not take this method"}


def create_app(
    store: Store,
    *,
    allowed_hosts: Sequence[str] = LOOPBACK_HOSTS,
    secure_cookies: bool = False,
    server_name: str = "",
    limits: Limits | None = None,
) -> FastAPI:
    """Web application over a store, which the caller closes after the application has ended.

    ``allowed_hosts`` are names in the header Host without port, "*" for any. ``secure_cookies`` lets browsers send the
    cookie by https alone, as they always do if the request came by https.
    """
    limits = limits or Limits()
    app = FastAPI(
        title="palda",
        version=palda.__version__,
        summary="Labelling projects that learn while people label",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.web = Web(
        store,
        limits,
        TokenBuckets(limits.requests_per_second, limits.request_burst),
        TokenBuckets(limits.failures_per_second, limits.failure_burst),
        SlowRequests(limits),
        secure_cookies,
        server_name,
    )
    app.state.events = EventHub(store, limits.listeners_per_credential)
    app.router.routes.extend(_routes())
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    for kind in (PaldaError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refuse)
    add_pages(app)
    app.router.routes.extend(backend.routes())
    app.add_middleware(Shield, allowed_hosts=allowed_hosts, max_body_bytes=limits.body_bytes)
    return app


@cache
def _routes() -> list[OperationRoute]:
    return [operation.route(PREFIX) for operation in OPERATIONS]


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        described = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        described["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": COOKIE,
                "description": "Requests that change something also need the header X-Palda-Form-Key.",
            },
        }
        app.openapi_schema = described
    return app.openapi_schema


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer to a request that was refused: JSON for the API, a page elsewhere."""
    code, detail, headers = _problem(error)
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if code == 429:
        headers["Retry-After"] = "1"
    if not request.url.path.startswith("/api/"):
        page: Response = request.app.state.error_page(request, code, detail)
        page.headers.update(headers)
        return page
    return JSONResponse({"detail": detail}, code, headers)


def _problem(error: Exception) -> tuple[int, str, dict[str, str]]:
    if isinstance(error, HTTPException):
        return error.status_code, _PLAIN.get(error.status_code, str(error.detail)), dict(error.headers or {})
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return 422, "the body is not valid JSON", {}
        text = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        return 422, _line(text), {}
    code = error.status if isinstance(error, ServiceError) else 422 if isinstance(error, DataError) else 409
    return code, _line(str(error)), {}


def _line(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MAX_DETAIL else f"{line[: _MAX_DETAIL - 1]}…"
