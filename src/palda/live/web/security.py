"""Who sends a request, and what every request and answer must satisfy.

Pages use ``current_actor`` (give it the field ``form_key`` of a form), ``form_key_of``, ``sign_in`` around work with an
invitation's token, ``set_session`` and ``clear_session``. All of them raise errors of the service.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse

from palda.live.errors import NotAllowedError, NotFoundError, NotSignedInError, TooManyRequestsError
from palda.live.service import access
from palda.live.web.limits import BodyLimit, Limits, SlowRequests, TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from palda.live.records import Actor, Role
    from palda.live.store import Store, Transaction

_LOG = logging.getLogger("palda.live")

COOKIE = "palda_session"
FORM_KEY_HEADER = "X-Palda-Form-Key"
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer; a route may set its own ``Cache-Control``."""

Allowed = Literal["admin", "annotator", "viewer", "owner"]

_MAX_ADDRESS = 2000  # characters
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,200}")
_JOIN_PATH = re.compile(r"(?<=^/join/).*", re.DOTALL)


@dataclass(frozen=True)
class Web:
    """What every request needs: ``request.app.state.web``."""

    store: Store
    limits: Limits
    requests: TokenBuckets  # per credential
    failures: TokenBuckets  # failed sign-ins per address
    slow_requests: SlowRequests
    is_secure: bool  # cookies are for https alone
    server_name: str

    @classmethod
    def of(cls, request: Request) -> Web:
        """That of the application that received the request."""
        web: Web = request.app.state.web
        return web


@dataclass(frozen=True)
class Credential:
    """Token of a request."""

    token: str
    is_cookie: bool  # the browser adds it by itself, so that other sites can cause requests that carry it


def credential_of(request: Request) -> Credential | None:
    """Token of the header ``Authorization: Bearer``, otherwise of the cookie."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return Credential(token.strip(), is_cookie=False)
    cookie = request.cookies.get(COOKIE)
    return None if cookie is None else Credential(cookie, is_cookie=True)


@contextmanager
def sign_in(
    request: Request, failures: tuple[type[Exception], ...] = (NotSignedInError, NotFoundError)
) -> Iterator[None]:
    """Count work with a token that is unknown as a failed sign-in, and refuse addresses with too many of them."""
    web, address = Web.of(request), request.client.host if request.client else ""
    if web.failures.is_empty(address):
        raise TooManyRequestsError("too many failed sign-ins from this address: wait a minute")
    try:
        yield
    except failures:
        web.failures.take(address)
        raise


def known_credential(request: Request) -> Credential | None:
    """Credential of a request if it was valid before, so that failures of others at the same address do not matter.

    Raises an error if it sends too many requests.
    """
    web, credential = Web.of(request), valid_credential(request)
    if hash(credential.token) not in web.requests:
        return None
    if not web.requests.take(hash(credential.token)):
        raise TooManyRequestsError("too many requests with this credential: wait a second")
    return credential


def valid_credential(request: Request) -> Credential:
    """Credential of a request; raises an error if there is none."""
    credential = credential_of(request)
    if credential is None:
        raise NotSignedInError("sign in with an invitation link, or send a token: Authorization: Bearer TOKEN")
    if not _TOKEN.fullmatch(credential.token):
        raise NotSignedInError("the token is not one of this server")
    return credential


def holder(
    store: Store | Transaction, credential: Credential, project_id: int | None, allowed: Collection[Allowed]
) -> Actor:
    """Who holds a credential, if they have one of the roles."""
    roles: list[Role] = [role for role in allowed if role != "owner"]
    actor = access.enter(store, credential.token, project_id, roles)
    if credential.is_cookie and not actor.is_session:
        raise NotSignedInError("a token of the API belongs into the header Authorization, not into a cookie")
    if "owner" in allowed and not roles and not actor.is_owner:
        raise NotAllowedError("only owners of the server may do this")
    return actor


def current_actor(
    request: Request, project_id: int | None = None, allowed: Collection[Allowed] = (), form_key: str | None = None
) -> Actor:
    """Who sends a request, if their role in the project is allowed; without roles everybody who is signed in.

    A request that changes something and is signed by the cookie must come from a page of this server: ``form_key`` is
    the field of that name of the page's form, by default the header ``X-Palda-Form-Key``.
    """
    web = Web.of(request)
    credential = known_credential(request)
    if credential is None:
        credential = valid_credential(request)
        with sign_in(request, (NotSignedInError,)):
            actor = holder(web.store, credential, project_id, allowed)
        web.requests.take(hash(credential.token))
    else:
        actor = holder(web.store, credential, project_id, allowed)
    check_origin(request, credential, form_key)
    return actor


def check_origin(request: Request, credential: Credential, form_key: str | None = None) -> None:
    """Refuse a change that a cookie signs unless it comes from a page of this server."""
    if not credential.is_cookie or request.method in SAFE_METHODS:
        return
    check_same_origin(request)
    given = form_key if form_key is not None else request.headers.get(FORM_KEY_HEADER, "")
    expected = access.form_key(Web.of(request).store, credential.token)
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise NotAllowedError("the page is out of date: reload it and try again")


def check_same_origin(request: Request) -> None:
    """Refuse a request that another site caused, as far as the browser says so."""
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise NotAllowedError("requests from other sites are refused")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise NotAllowedError("requests from other sites are refused; a reverse proxy must pass on the header Host")


def form_key_of(request: Request) -> str | None:
    """Form key for pages that this request's session sees; None without a cookie."""
    credential = credential_of(request)
    if credential is None or not credential.is_cookie:
        return None
    return access.form_key(Web.of(request).store, credential.token)


def set_session(request: Request, response: Response, token: str, seconds: int = 30 * 86_400) -> None:
    """Sign the browser in."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=seconds,
        path="/",
        httponly=True,
        samesite="lax",  # "strict" would sign people out who follow a link in a message
        secure=Web.of(request).is_secure or request.url.scheme == "https",
    )


def clear_session(response: Response) -> None:
    """Sign the browser out."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")


def logged_path(path: str) -> str:
    """Path of a request for the log: a token of an invitation is left out."""
    return ascii(_JOIN_PATH.sub("…", path))[1:-1]


class Shield:
    """Checks the header Host, limits the body, adds headers to every answer, and answers unexpected errors.

    A route may raise the limit of its body.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], max_body_bytes: int) -> None:
        self.app = app
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        self._max_body_bytes = max_body_bytes
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; there are no web sockets, and a connection that asks for one is closed."""
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in self._headers if pair[0] not in present)]
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        body = scope["palda.body"] = BodyLimit(receive, self._max_body_bytes)
        try:
            await self.app(scope, body, send_with_headers)
        except Exception:
            error_id = secrets.token_hex(4)
            _LOG.exception("error %s: %s %s", error_id, scope["method"], logged_path(scope["path"]))
            if is_started:
                raise  # the connection is cut, so that the client sees that the answer is not complete
            detail = f"internal error {error_id}: the server's log says more"
            await self._answer(scope, 500, detail)(scope, receive, send_with_headers)

    @staticmethod
    def _answer(scope: Scope, status: int, detail: str) -> Response:
        """Answer without the application: a page for people, unless the page itself fails."""
        error_page = getattr(scope["app"].state, "error_page", None)
        if error_page is not None and not scope["path"].startswith("/api/"):
            with suppress(Exception):
                page: Response = error_page(Request(scope), status, detail)
                return page
        return JSONResponse({"detail": detail}, status)

    def _refusal(self, scope: Scope) -> Response | None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or not ("*" in self._hosts or re.sub(r":\d*$", "", hosts[0]).lower() in self._hosts):
            detail = "the header Host is not a name of this server; its owner adds names with --allow-host"
            return self._answer(scope, 400, detail)
        if len(scope["path"]) + len(scope["query_string"]) > _MAX_ADDRESS:
            return self._answer(scope, 414, "the address is too long")
        return None
