"""What the API promises to people who do not trust its clients: cookies, forgery, hosts, headers, limits, logs."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.live.world import MANY, Served, World, bearer, client, serving

from palda.live.errors import InvalidRequestError
from palda.live.service import access, labelling, projects
from palda.live.web import create_app, limits, running
from palda.live.web.limits import Limits
from palda.live.web.security import COOKIE, HEADERS, logged_path, set_session

API = "/api/v1"


def _cookie(shared: Served, name: str = "admin") -> tuple[dict[str, str], str]:
    """Cookie of a new session, and its form key."""
    token = shared.world.session(name)
    return {"Cookie": f"{COOKIE}={token}"}, access.form_key(shared.world.store, token)


def _invite(shared: Served, headers: dict[str, str]) -> int:
    path = f"{API}/projects/{shared.world.project}/invitations"
    with client(shared.url) as api:
        return api.post(path, json={}, headers=headers).status_code


def test_a_change_with_a_cookie_needs_the_form_key_of_its_session(shared: Served) -> None:
    cookie, key = _cookie(shared)
    _, key_of_another_session = _cookie(shared)
    assert _invite(shared, cookie) == 403
    assert _invite(shared, {**cookie, "X-Palda-Form-Key": key_of_another_session}) == 403
    assert _invite(shared, {**cookie, "X-Palda-Form-Key": key}) == 201


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
    ],
)
def test_a_change_with_a_cookie_from_another_site_is_refused(
    headers: dict[str, str], status: int, shared: Served
) -> None:
    cookie, key = _cookie(shared)
    assert _invite(shared, {**cookie, "X-Palda-Form-Key": key, **headers}) == status


def test_a_change_from_a_page_of_the_server_itself_is_accepted(shared: Served) -> None:
    cookie, key = _cookie(shared)
    assert _invite(shared, {**cookie, "X-Palda-Form-Key": key, "Origin": shared.url}) == 201


def test_reading_with_a_cookie_needs_no_form_key_and_tells_it(shared: Served) -> None:
    cookie, key = _cookie(shared)
    with client(shared.url, headers=cookie) as api:
        assert api.get(f"{API}/session").json()["form_key"] == key


def test_a_token_of_the_api_is_refused_as_a_cookie(shared: Served) -> None:
    with client(shared.url) as api:
        headers = {"Cookie": f"{COOKIE}={shared.world.tokens['admin']}"}
        assert api.get(f"{API}/session", headers=headers).status_code == 401


def test_the_session_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(world: World) -> None:
    host, by_proxy = (b"host", b"localhost"), (b"x-forwarded-proto", b"https")
    for is_secure, scheme, headers, expected in (
        (False, "http", [host], False),
        (True, "http", [host], True),
        (False, "https", [host], True),
        (False, "http", [host, by_proxy], True),
    ):
        app = create_app(world.store, secure_cookies=is_secure)
        scope = {"type": "http", "app": app, "scheme": scheme, "path": "/", "headers": headers}
        response = Response()
        set_session(Request(scope), response, "TOKEN")
        parts = response.headers["set-cookie"].lower().split("; ")
        assert {"httponly", "samesite=lax", "path=/"} <= set(parts)
        assert ("secure" in parts) == expected


def test_signing_out_ends_the_session_and_removes_the_cookie(shared: Served) -> None:
    cookie, key = _cookie(shared, "viewer")
    with client(shared.url, headers=cookie) as api:
        answer = api.delete(f"{API}/session", headers={"X-Palda-Form-Key": key})
        assert answer.status_code == 204
        assert 'palda_session=""' in answer.headers["set-cookie"]
        assert api.get(f"{API}/session").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "[::1", "127.0.0.1@evil"])
def test_other_names_in_the_header_host_are_refused(host: str, shared: Served) -> None:
    with client(shared.url) as api:
        answer = api.get(f"{API}/health", headers={"Host": host})
        page = api.get("/projects", headers={"Host": host})
    assert answer.status_code == 400
    assert "Host" in answer.json()["detail"]
    assert page.status_code == 400
    assert "--allow-host" in page.text
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("host", ["localhost:99", "LOCALHOST", "127.0.0.1", "[::1]:8600"])
def test_names_of_the_loopback_address_are_served(host: str, shared: Served) -> None:
    with client(shared.url) as api:
        assert api.get(f"{API}/health", headers={"Host": host}).status_code == 200


def test_two_host_headers_are_refused(shared: Served) -> None:
    assert _raw(
        shared.url, b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n"
    ).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "path", [f"{API}/health", f"{API}/session", f"{API}/nothing", f"{API}/openapi.json", "/nothing"]
)
def test_every_answer_has_the_security_headers(path: str, shared: Served) -> None:
    with client(shared.url) as api:
        answer = api.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert "server" not in answer.headers


def test_an_unexpected_error_is_one_line_with_headers_and_its_trace_is_in_the_log_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("SELECT secret FROM /home/somebody")

    monkeypatch.setattr(labelling, "next_task", fail)
    with serving(create_app(world.store, limits=MANY)) as url, client(url, world.tokens["annotator"]) as api:
        answer = api.post(f"{API}/projects/{world.project}/next")
    error_id = answer.json()["detail"].split()[2].rstrip(":")
    assert answer.status_code == 500
    assert set(answer.json()) == {"detail"}
    assert not {"SELECT", "home", "Traceback"} & set(answer.text.split())
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    assert f"error {error_id}: POST {API}/projects/{world.project}/next" in caplog.text
    assert "SELECT secret" in caplog.text


def test_no_token_is_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.ERROR)
    invitation = access.invite(world.store, world.owner, world.project, "viewer")
    tokens = [world.tokens["admin"], world.session("admin"), invitation, "unknown-token-0123456789"]
    with serving(create_app(world.store, limits=MANY)) as url, client(url) as api:
        for token in tokens:
            api.get(f"{API}/session", headers=bearer(token))
            api.get(f"{API}/session", headers={"Cookie": f"{COOKIE}={token}"})
            api.get(f"/join/{token}")
    ours = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("http", "asyncio"))
    )
    assert not [token for token in tokens if token in ours]


def test_paths_of_invitations_are_logged_without_their_token_and_on_one_line() -> None:
    assert logged_path("/join/SECRET/x") == r"/join/\u2026"
    assert logged_path("/a\n\x1b[31mb") == r"/a\n\x1b[31mb"


def test_a_body_larger_than_the_limit_is_refused_whatever_its_length_header_says(world: World) -> None:
    limits = Limits(body_bytes=1000, upload_bytes=5000)
    path = f"{API}/projects/{world.project}"
    with serving(create_app(world.store, limits=limits)) as url, client(url, world.tokens["admin"]) as api:
        headers = {"Content-Type": "application/json"}
        small, large = b'{"guidelines":"a"}', b'{"guidelines":"' + b"a" * 2000 + b'"}'
        assert api.patch(path, content=small, headers=headers).status_code == 200
        assert api.patch(path, content=large, headers=headers).status_code == 413
        assert api.patch(path, content=iter([large]), headers=headers).status_code == 413  # chunked: no length
        table = b"id,text\n" + b"".join(b"%d,word\n" % number for number in range(300))
        headers = {"Content-Type": "text/csv"}
        assert api.post(f"{path}/documents", content=table, headers=headers).status_code == 202
        assert api.post(f"{path}/documents", content=table * 4, headers=headers).status_code == 413
        assert api.post(f"{path}/documents", content=iter([table] * 4), headers=headers).status_code == 413


def test_a_form_of_strangers_is_small_and_a_name_of_accents_takes_no_time(shared: Served) -> None:
    token = access.invite(shared.world.store, shared.world.owner, shared.world.project, "annotator")
    accents = "a" + "\u0300" * 20_000 + "\u0316" * 20_000  # seconds to normalise
    start = time.monotonic()
    with client(shared.url) as api:
        assert api.post(f"/join/{token}", data={"name": "Ann", "more": "x" * 10_000}).status_code == 413
    with pytest.raises(InvalidRequestError, match="at most 200 are allowed"):
        access.accept(shared.world.store, token, accents)
    assert time.monotonic() - start < 2.0


def test_a_client_that_goes_away_is_not_an_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    sent: list[object] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/join/x",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(create_app(world.store)(scope, receive, send))  # type: ignore[arg-type]
    assert (sent, caplog.text) == ([], "")


def test_an_upload_leaves_no_temporary_file(shared: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with client(shared.url, shared.world.tokens["admin"]) as api:
        path = f"{API}/projects/{shared.world.project}/documents"
        for content, status in ((b"id,text\nup1,snow\n", 202), (b"\xff\xfe\x00", 422), (b"", 422)):
            assert api.post(path, content=content, headers={"Content-Type": "text/csv"}).status_code == status
    assert list(tmp_path.iterdir()) == []


def test_errors_of_an_upload_name_row_and_column_and_no_path(shared: Served) -> None:
    with client(shared.url, shared.world.tokens["admin"]) as api:
        path = f"{API}/projects/{shared.world.project}/documents"
        for content in (b"id,text\na1,one\na1,two\n", b"a,b\n1,2\n", b"\x00\x01", b"id,text\na1,a\x00b\n"):
            answer = api.post(path, content=content, headers={"Content-Type": "text/csv"})
            assert answer.status_code == 422
            assert answer.json()["detail"].startswith("the file")
            assert "tmp" not in answer.text


def test_more_requests_than_the_rate_are_answered_429_per_credential(world: World) -> None:
    limits = Limits(requests_per_second=0.001, request_burst=5)
    with serving(create_app(world.store, limits=limits)) as url, client(url) as api:
        headers = bearer(world.tokens["annotator"])
        seen = [api.get(f"{API}/session", headers=headers) for _ in range(8)]
        assert [answer.status_code for answer in seen] == [200] * 5 + [429] * 3
        assert seen[-1].headers["retry-after"] == "1"
        assert api.get(f"{API}/session", headers=bearer(world.tokens["viewer"])).status_code == 200


def test_failed_sign_ins_are_limited_per_address_but_do_not_lock_out_who_is_signed_in(world: World) -> None:
    limits = Limits(failures_per_second=0.001, failure_burst=4)
    with serving(create_app(world.store, limits=limits)) as url, client(url) as api:
        known = bearer(world.tokens["annotator"])
        assert api.get(f"{API}/session", headers=known).status_code == 200
        pretended = [{"X-Forwarded-For": f"10.0.0.{n}"} for n in range(7)]  # counts for nothing
        sent = [bearer(f"guess{n}") | header for n, header in enumerate(pretended)]
        guesses = [api.get(f"{API}/session", headers=headers).status_code for headers in sent]
        assert guesses == [401] * 4 + [429] * 3
        assert api.get(f"{API}/session", headers=known).status_code == 200
        assert api.get(f"{API}/session", headers=bearer(world.tokens["viewer"])).status_code == 429
        assert api.get(f"{API}/health").status_code == 200


HOSTILE_NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE person; --",
    "{{ 7 * 7 }} {% include '/etc/passwd' %}",
    "${jndi:ldap://evil}",
    "../../etc/passwd",
    "%00%0a%s%n",
    "\u202eabc",
    "a\u0000b",
    "a\nb",
    "\ud800",
    " ",
    "😀" * 50,
    "a" * 100_000,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name)[:30])
def test_hostile_names_and_texts_are_stored_as_they_are_or_refused(name: str, shared: Served) -> None:
    content = b'{"name": %s, "description": %s}' % ((_json(name),) * 2)
    project = f"{API}/projects/{shared.world.project}"
    with client(shared.url, shared.world.tokens["admin"]) as api:
        answer = api.post(f"{project}/labels", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in {201, 422}
        if answer.status_code == 201:
            assert answer.json()["name"] == name
            assert name in [label["name"] for label in api.get(project).json()["labels"]]
        assert api.get(f"{API}/session").status_code == 200
    assert projects.project(shared.world.store, shared.world.project).name == "First"


def _json(text: str) -> bytes:
    return ('"' + "".join(f"\\u{unit:04x}" for unit in _units(text)) + '"').encode()


def _units(text: str) -> list[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"name": NaN}',
        b'{"name": Infinity}',
        b'{"days": 1e999}',
        b'{"days": ' + b"9" * 5000 + b"}",
        b'{"days": 9223372036854775808}',
        b'{"days": true}',
        b'{"days": 1.5}',
        b'{"role": "owner"}',
        b'{"role": ["admin"]}',
        b'{"unknown": 1}',
        b'{"name": "\\ud800"}',
        b'{"name": "\\u0000"}',
        b'{"name": {"$ne": 1}}',
    ],
    ids=lambda body: ascii(body[:24]),
)
def test_a_hostile_body_is_refused_with_one_line(body: bytes, shared: Served) -> None:
    path = f"{API}/projects/{shared.world.project}/invitations"
    with client(shared.url, shared.world.tokens["admin"]) as api:
        answer = api.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert set(answer.json()) == {"detail"}
    assert 0 < len(answer.json()["detail"]) <= 300
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "content",
    [",".join(f'"k{n}":0' for n in range(6000)), '"votes":{' + ",".join(f'"{n}":9' for n in range(6000)) + "}"],
)
def test_a_body_of_many_values_is_refused_before_each_of_them_is_checked(content: str, shared: Served) -> None:
    headers = {"Content-Type": "application/json"}
    with client(shared.url, shared.world.tokens["annotator"]) as api:
        answer = api.post(f"{API}/projects/{shared.world.project}/votes", content=f"{{{content}}}", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (422, "the body has more than 5,000 values")


@pytest.mark.parametrize("project_id", ["0", "-1", "1.0", "%201", "1_0", "x", str(2**63), "9" * 400, "%00", "٣", "1e3"])
def test_ids_that_are_no_ids_are_refused(project_id: str, shared: Served) -> None:
    with client(shared.url, shared.world.tokens["admin"]) as api:
        assert api.get(f"{API}/projects/{project_id}/status").status_code in {404, 422}
        assert api.get(f"{API}/projects/{shared.world.project}/people?after={project_id}").status_code == 200
        documents = f"{API}/projects/{shared.world.project}/documents"
        assert api.get(f"{documents}?after={project_id}").status_code == (200 if project_id == "0" else 422)


def test_an_address_that_is_too_long_is_refused(shared: Served) -> None:
    with client(shared.url) as api:
        assert api.get(f"/projects/{'9' * 5000}/label").status_code == 414
        assert api.get(f"/projects/1/adjudicate?document={'9' * 5000}").status_code == 414


def test_strangers_learn_nothing_about_the_body_that_they_send(shared: Served) -> None:
    path = f"{API}/projects/{shared.world.project}/invitations"
    with client(shared.url) as api:
        for headers, status in (
            ({}, 401),
            (bearer("unknown"), 401),
            (bearer(shared.world.tokens["annotator"]), 403),
            (bearer(shared.world.tokens["admin of another project"]), 404),
        ):
            assert api.post(path, content=b"{", headers=headers).status_code == status
            assert api.post(path, json={"days": -1}, headers=headers).status_code == status


@pytest.mark.parametrize("token", [None, "unknown"])
def test_bodies_of_strangers_are_not_read(token: str | None, world: World) -> None:
    seen: list[object] = []

    async def receive() -> dict[str, object]:
        seen.append("read")
        return {"type": "http.request", "body": b"{}"}

    async def send(message: dict[str, object]) -> None:
        seen.append(message.get("status"))

    headers = {"host": "localhost", "content-type": "application/json"} | ({} if token is None else bearer(token))
    scope = {"type": "http", "method": "POST", "path": f"{API}/projects/{world.project}/votes", "query_string": b""}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(create_app(world.store)(scope, receive, send))  # type: ignore[arg-type]
    assert seen == [401, None]


def test_a_body_of_another_media_type_is_refused(shared: Served) -> None:
    project = f"{API}/projects/{shared.world.project}"
    with client(shared.url, shared.world.tokens["admin"]) as api:
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            headers = {"Content-Type": media_type}
            assert api.post(f"{project}/invitations", content=b"{}", headers=headers).status_code == 415
            assert api.post(f"{project}/documents", content=b"id,text\n", headers=headers).status_code == 415


def _connection(url: str, seconds: float = 60) -> socket.socket:
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), timeout=seconds)


def _raw(url: str, request: bytes, seconds: float = 60) -> bytes:
    """Answer to bytes; the connection is read until the server closes it, or until nothing has come for a while."""
    received = b""
    with _connection(url, seconds) as connection, suppress(TimeoutError, ConnectionResetError, BrokenPipeError):
        connection.sendall(request)
        while part := connection.recv(65_536):
            received += part
    return received


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 100 + b"\r\n", b"a" * 100], ids=["headers", "header"])
def test_headers_without_end_close_the_connection(line: bytes, shared: Served) -> None:
    start = time.monotonic()
    answer = _raw(shared.url, b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-B: " + line * 1000, seconds=15)
    assert answer[:12] in {b"", b"HTTP/1.1 400"}
    assert time.monotonic() - start < 15  # before the client gave up, and before the limit of time


def test_slow_headers_close_the_connection(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_HEADER_SECONDS", 0.1)
    with _connection(shared.url) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: loc")
        assert connection.recv(100) == b""
    second = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = _raw(shared.url, second + b"GET /api/v1/health HTTP/1.1\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_the_server_may_have_more_connections_than_the_usual_limit_of_files() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] // 2, before[1]))
    try:
        running.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(before[0], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_body_that_stops_arriving_is_answered_408(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_SECONDS_BETWEEN_PARTS", 0.1)
    head = f"POST {API}/projects/{shared.world.project}/undo HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {shared.world.tokens['annotator']}\r\nContent-Type: application/json\r\n"
    answer = _raw(shared.url, f"{head}Content-Length: 100\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408")


def test_the_documents_of_the_api_load_nothing_from_elsewhere(shared: Served) -> None:
    with client(shared.url) as api:
        assert [api.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404, 404, 404]
