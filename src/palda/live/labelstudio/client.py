"""Requests to Label Studio's API: timeouts, repetition, tokens that are renewed, pages."""

from __future__ import annotations

import email.utils
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx

from palda.errors import PaldaError
from palda.live.labelstudio.errors import RemoteError, UnreachableError
from palda.live.labelstudio.tokens import claims, is_personal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = 1000
"""Tasks per page."""

_TIMEOUT = httpx.Timeout(180.0, connect=10.0)  # a page of 1,000 tasks takes 5 s, on a busy machine far more
_ATTEMPTS = 6
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0  # seconds between attempts
_RENEW_BEFORE = 30.0  # seconds before a short-lived token expires
_IDEMPOTENT = frozenset({"GET", "PATCH", "PUT", "DELETE"})
_REPEATED = frozenset({408, 425, 429, 500, 502, 503, 504})
_MAX_REDIRECTS = 3
_MAX_MESSAGE = 200  # characters of an answer in an error
_ADVICE = {
    401: "the token is not accepted; give a valid one with --token-file. Legacy tokens must be enabled in Label Studio",
    403: "this user may not do this in Label Studio; use the token of an owner of the project",
    404: "there is nothing at this address; check the address and the number of the project",
}


def checked_url(text: str) -> str:
    """Address of a server without a slash at its end."""
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise PaldaError("the address of Label Studio is one such as http://localhost:8080, without a name or password")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


class Client:
    """Sends requests to one Label Studio.

    Reads and changes that may be repeated are repeated with growing random pauses while the server does not answer, is
    overloaded or fails. Redirects to other hosts are not followed, because they would be sent the token.

    Parameters
    ----------
    url : str
        Address of the server.
    token : str
        Personal access token or legacy token; its form tells which.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = checked_url(url)
        self._token, self._stop = token, threading.Event()
        self._access, self._expires_at = "", 0.0
        self._http = httpx.Client(timeout=_TIMEOUT, follow_redirects=False, headers={"Accept": "application/json"})

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def close(self) -> None:
        """Close connections, and end pauses between attempts."""
        self._stop.set()
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """Answer to a read."""
        return self.send("GET", path, query=query)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        repeat: bool | None = None,
        may_be_gone: bool = False,
    ) -> Any:
        """Answer to a request as JSON; ``repeat`` says whether it may be sent again, by default by its method.

        With ``may_be_gone``, None if there is nothing at the address.
        """
        attempts = _ATTEMPTS if (method in _IDEMPOTENT if repeat is None else repeat) else 1
        for attempt in range(attempts):
            try:
                return self._answer(self._exchange(method, path, body, query or {}), path)
            except UnreachableError as error:
                if attempt + 1 == attempts or self._stop.is_set():
                    raise
                self._stop.wait(_pause(attempt, error))
            except RemoteError as error:
                if error.status == 404 and may_be_gone:
                    return None
                raise
        raise AssertionError("no attempt")

    def tasks(self, project: int, fields: Sequence[str], *, with_annotations: bool) -> Iterator[list[dict[str, Any]]]:
        """All tasks of a project in the order of their numbers, in pages."""
        query = {"ordering": ["tasks:id"]}
        yield from self._pages(project, fields, query, "all" if with_annotations else "task_only")

    def tasks_by_id(self, project: int, ids: Sequence[int], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Those tasks of a project that exist."""
        query = {"selectedItems": {"all": False, "included": list(ids)}, "ordering": ["tasks:id"]}
        return [task for page in self._pages(project, fields, query, "all") for task in page] if ids else []

    def _pages(
        self, project: int, fields: Sequence[str], query: dict[str, Any], which: str
    ) -> Iterator[list[dict[str, Any]]]:
        """Pages; the next one is read while the caller works on one."""
        fixed = {"project": project, "page_size": PAGE, "fields": which, "include": ",".join(fields)}

        def read(page: int) -> tuple[list[dict[str, Any]], int]:
            found = self.get("/api/tasks", **fixed, page=page, query=json.dumps(query))
            tasks = found.get("tasks") if isinstance(found, dict) else None
            if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
                raise RemoteError(f"{self.url}: the list of tasks has an unknown form; is this Label Studio 1.x?")
            return tasks, int(found.get("total") or 0)

        with ThreadPoolExecutor(1) as reader:
            tasks, total = read(1)
            seen, page = len(tasks), 1
            while tasks and seen < total:
                page += 1
                following = reader.submit(read, page)
                yield tasks
                try:
                    tasks, total = following.result()
                except RemoteError as error:
                    if error.status != 404:  # tasks were deleted, and the last page is gone
                        raise
                    return
                seen += len(tasks)
            yield tasks

    def _exchange(self, method: str, path: str, body: Any, query: dict[str, Any]) -> httpx.Response:
        """Send a request, once more with a new token if the old one has expired."""
        for is_last in (False, True):
            response = self._once(method, f"{self.url}{path}", body, query, self._authorization())
            if response.status_code != 401 or not is_personal(self._token) or is_last:
                return response
            self._expires_at = 0.0
        raise AssertionError("no answer")

    def _once(self, method: str, url: str, body: Any, query: dict[str, Any], authorization: str) -> httpx.Response:
        headers = {"Authorization": authorization} if authorization else {}
        for _ in range(_MAX_REDIRECTS):
            try:
                response = self._http.request(method, url, json=body, params=query or None, headers=headers)
            except httpx.TransportError as error:
                raise UnreachableError(f"{self.url}: no answer ({type(error).__name__}); is it running?") from None
            except httpx.HTTPError as error:
                raise RemoteError(f"{self.url}: {type(error).__name__}") from None
            if not response.is_redirect:
                return response
            url, query = self._redirected(url, response), {}
        raise RemoteError(f"{self.url}: it redirects in a circle")

    def _redirected(self, url: str, response: httpx.Response) -> str:
        target: str = urljoin(str(response.url) if response.url else url, response.headers.get("location", ""))
        here, there = urlsplit(self.url), urlsplit(target)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise RemoteError(f"{self.url}: it redirects to {there.scheme}://{there.netloc}; give that address instead")
        if response.request.method != "GET":
            raise RemoteError(f"{self.url}: it redirects a change to {there.path}; give the right address")
        return target

    def _authorization(self) -> str:
        if not is_personal(self._token):
            return f"Token {self._token}"
        if time.time() > self._expires_at - _RENEW_BEFORE:
            response = self._once("POST", f"{self.url}/api/token/refresh/", {"refresh": self._token}, {}, "")
            answer = self._answer(response, "/api/token/refresh/")
            access = answer.get("access") if isinstance(answer, dict) else None
            if not isinstance(access, str):
                raise RemoteError(f"{self.url}: it gives no access token for the personal access token")
            self._access = access
            self._expires_at = float(claims(access).get("exp") or time.time() + 60.0)
        return f"Bearer {self._access}"

    def _answer(self, response: httpx.Response, path: str) -> Any:
        code = response.status_code
        if code in _REPEATED:
            wait = _seconds(response.headers.get("retry-after", ""))
            raise UnreachableError(f"{self.url}: it answers {code} to {path}", code, wait)
        if code >= 400:
            advice = _ADVICE.get(code) or _detail(response)
            raise RemoteError(f"{self.url}: it answers {code} to {path}: {advice}", code)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise RemoteError(f"{self.url}: the answer to {path} is not JSON; is this Label Studio?") from None


def _pause(attempt: int, error: UnreachableError) -> float:
    """Seconds until the next attempt: what the server asks for, else growing and random."""
    growing = min(_FIRST_PAUSE * 2.0**attempt, _MAX_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311 - a pause
    return min(max(error.wait, growing), 2 * _MAX_PAUSE)


def _seconds(text: str) -> float:
    """Seconds of a header Retry-After: a number, or a date."""
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time()) if text else 0.0
    except ValueError:
        return 0.0


def _detail(response: httpx.Response) -> str:
    """What an answer says, in one line."""
    try:
        found = response.json()
    except ValueError:
        return "no reason given"
    if isinstance(found, dict):
        found = found.get("validation_errors") or found.get("detail") or found
    text = " ".join((found if isinstance(found, str) else json.dumps(found)).split())
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 1]}…"
