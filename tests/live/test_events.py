"""Streams of events, and the server's end while they are open."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.live.world import MANY, World, bearer, client, serving

from palda.errors import PaldaError
from palda.live.service import people, projects
from palda.live.web import create_app, events, run
from palda.live.web.limits import Limits

API = "/api/v1"


def _statuses(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SECONDS_BETWEEN_READS", 0.02)
    monkeypatch.setattr(events, "SECONDS_BETWEEN_SIGNS", 0.1)


@pytest.mark.usefixtures("quick")
def test_a_listener_gets_the_status_now_and_after_each_change(world: World, url: str) -> None:
    path = f"{API}/projects/{world.project}/events"
    with client(url, world.tokens["viewer"]) as api, api.stream("GET", path) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        statuses = _statuses(answer)
        first = next(statuses)
        projects.change(world.store, world.project, is_paused=True)
        second = next(statuses)
    assert (first["project"]["is_paused"], second["project"]["is_paused"]) == (False, True)
    assert first["n_documents"] == 4


@pytest.mark.usefixtures("quick")
def test_all_listeners_of_a_project_share_one_reader_and_no_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    marker = events.status_marker
    monkeypatch.setattr(events, "status_marker", lambda store, number: (reads.append(number), marker(store, number))[1])
    monkeypatch.setattr(events, "SECONDS_BETWEEN_SIGNS", 60.0)  # no checks of the listeners' roles meanwhile
    limits = Limits(listeners_per_credential=100, request_burst=1000)
    path = f"{API}/projects/{world.project}/events"
    with serving(create_app(world.store, limits=limits)) as url, client(url, world.tokens["admin"]) as api:
        streams = [api.stream("GET", path) for _ in range(60)]
        answers = [stream.__enter__() for stream in streams]
        n_threads = threading.active_count()
        begun, n_before = time.monotonic(), len(reads)
        time.sleep(0.5)
        n_reads, seconds = len(reads) - n_before, time.monotonic() - begun
        assert all(answer.status_code == 200 for answer in answers)
        assert api.get(f"{API}/session").status_code == 200  # 40 threads would all be taken
        for stream in streams:
            stream.__exit__(None, None, None)
    assert n_reads <= seconds / 0.02 + 2
    assert n_threads < 40


@pytest.mark.usefixtures("quick")
def test_a_stream_ends_when_its_listener_may_no_longer_see_it(world: World, url: str) -> None:
    path = f"{API}/projects/{world.project}/events"
    with client(url, world.tokens["viewer"]) as api, api.stream("GET", path) as answer:
        statuses = _statuses(answer)
        next(statuses)
        people.set_role(world.store, world.project, world.ids["viewer"], "annotator")
        assert list(statuses) == []


@pytest.mark.usefixtures("quick")
def test_a_quiet_stream_shows_that_it_is_alive(world: World, url: str) -> None:
    path = f"{API}/projects/{world.project}/events"
    with client(url, world.tokens["viewer"]) as api, api.stream("GET", path) as answer:
        comments = (line for line in answer.iter_lines() if line.startswith(":"))
        assert [next(comments) for _ in range(3)] == [": "] * 3


@pytest.mark.usefixtures("quick")
def test_streams_per_credential_are_limited_and_free_again_after_one_is_closed(world: World) -> None:
    limits = Limits(listeners_per_credential=2)
    path = f"{API}/projects/{world.project}/events"
    with serving(create_app(world.store, limits=limits)) as url, client(url, world.tokens["viewer"]) as api:
        with api.stream("GET", path) as first, api.stream("GET", path) as second:
            open_streams = [_statuses(first), _statuses(second)]
            for statuses in open_streams:
                next(statuses)
            with api.stream("GET", path) as third:
                assert third.status_code == 429
            with api.stream("GET", path, headers=bearer(world.tokens["admin"])) as other:
                assert other.status_code == 200
        deadline = time.monotonic() + 60
        while True:
            with api.stream("GET", path) as answer:
                if answer.status_code == 200:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_streams_that_begin_at_once_do_not_pass_the_limit(world: World) -> None:
    async def count() -> int:
        hub = events.EventHub(world.store, 2)
        for _ in range(5):
            hub.check("credential")
        streams = [hub.listen(world.project, "credential", lambda: None) for _ in range(5)]
        first = [await anext(stream, None) for stream in streams]
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        hub.check("credential")
        return sum(part is not None for part in first)

    assert asyncio.run(count()) == 2


def test_the_server_ends_streams_that_are_open(world: World) -> None:
    path = f"{API}/projects/{world.project}/events"
    ended = threading.Event()
    is_listening = threading.Event()

    def listen(url: str) -> None:
        with client(url, world.tokens["viewer"]) as api, api.stream("GET", path) as answer:
            for _ in _statuses(answer):
                is_listening.set()
            ended.set()

    with serving(create_app(world.store, limits=MANY)) as url:
        thread = threading.Thread(target=listen, args=(url,))
        thread.start()
        assert is_listening.wait(60)
    thread.join(60)
    assert ended.is_set()  # to its last part: a connection that is cut raises


def test_a_port_that_is_taken_is_one_line(world: World, url: str) -> None:
    with pytest.raises(PaldaError, match=r"^cannot listen on 127\.0\.0\.1 port \d+: .*; choose another with --port$"):
        run(create_app(world.store), "127.0.0.1", int(url.rpartition(":")[2]), print)


SERVER = """
import sys
from palda.live.store import open_store
from palda.live.web import create_app, run
store = open_store(sys.argv[1])
run(create_app(store), "127.0.0.1", 0, lambda url: print(url, flush=True))
store.close()
print("closed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_cleanly_while_a_stream_is_open(number: int, world: World, tmp_path: Path) -> None:
    token, project = world.tokens["viewer"], world.project
    world.store.close()
    command = [sys.executable, "-W", "error", "-c", SERVER, str(tmp_path / "project.db")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # noqa: S603 - our own interpreter
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        with client(url, token) as api, api.stream("GET", f"{API}/projects/{project}/events") as answer:
            statuses = _statuses(answer)
            next(statuses)
            process.send_signal(number)
            assert list(statuses) == []
        assert process.stdout.read().strip() == "closed"
        assert process.stderr.read() == ""
        assert process.wait(60) == 0
