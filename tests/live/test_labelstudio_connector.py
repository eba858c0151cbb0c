from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.live.studio_world import SECRET, StudioWorld, new_world

from palda.live import schema
from palda.live.labelstudio import client as client_module
from palda.live.labelstudio import connector as connector_module
from palda.live.labelstudio.client import Client
from palda.live.labelstudio.connector import Connector


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudioWorld]:
    monkeypatch.setattr(client_module, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(client_module, "_ATTEMPTS", 2)
    monkeypatch.setattr(connector_module, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(connector_module, "_WITHOUT_WEBHOOKS", 0.2)
    monkeypatch.setattr(connector_module, "_REGISTER_AGAIN", 0.2)
    with new_world(tmp_path) as made:
        yield made


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def said(world: StudioWorld) -> Iterator[list[str]]:
    """What a connector says, which follows the world until the test ends."""
    lines: list[str] = []
    client = Client(world.studio.url, world.client._token)
    connector = Connector(world.store, client, world.project_id, SECRET, lines.append)
    connector.start("http://127.0.0.1:8600/labelstudio/1")
    yield lines
    connector.stop()


def test_what_was_missed_while_label_studio_was_away_is_read_when_it_is_back(
    world: StudioWorld, said: list[str]
) -> None:
    wait_until(lambda: any("registered" in line for line in said))
    world.studio.faults = [500] * 1000
    world.store.write(lambda connection: connection.execute(schema.labelstudio_event.insert().values(
        project_id=world.project_id, body={"action": "TASKS_CREATED"}, received_at=0.0)).rowcount)  # fmt: skip
    wait_until(lambda: any("it answers 500" in line for line in said))
    world.studio.annotate(1, 2, "sport")  # no webhook arrives
    world.studio.faults = []
    wait_until(lambda: ("1", "Ada Lovelace") in world.votes())
    wait_until(lambda: any("answers again" in line for line in said))


def test_without_webhooks_annotations_still_arrive_and_the_reason_is_said_once(
    world: StudioWorld, request: pytest.FixtureRequest
) -> None:
    world.studio.refuse_backend = True
    said = request.getfixturevalue("said")
    wait_until(lambda: any("SSRF_PROTECTION_ENABLED" in line for line in said))
    world.studio.annotate(1, 2, "sport")
    wait_until(lambda: ("1", "Ada Lovelace") in world.votes())
    n_tried = len(world.studio.requests)
    wait_until(lambda: len(world.studio.requests) > n_tried + 10)
    assert sum("SSRF_PROTECTION_ENABLED" in line for line in said) == 1
    world.studio.refuse_backend = False
    wait_until(lambda: any("registered" in line for line in said))


def test_a_webhook_that_waits_is_taken_in(world: StudioWorld, said: list[str]) -> None:
    wait_until(lambda: any("registered" in line for line in said))
    number = world.studio.annotate(1, 2, "sport")
    body = world.studio.webhook("ANNOTATION_CREATED", number)
    values = {"project_id": world.project_id, "body": body, "received_at": 0.0}
    world.store.write(
        lambda connection: connection.execute(schema.labelstudio_event.insert().values(**values)).rowcount
    )
    wait_until(lambda: ("1", "Ada Lovelace") in world.votes())
    wait_until(lambda: world.rows(select(schema.labelstudio_event)) == [])
