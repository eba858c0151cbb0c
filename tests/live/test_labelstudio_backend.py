from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.live.fake_labelstudio import CONFIG
from tests.live.studio_world import SECRET, StudioWorld, new_world
from tests.live.world import MANY, client, serving

from palda.live import schema
from palda.live.labelstudio.backend import HEADER, USER
from palda.live.labelstudio.connections import ConnectionSettings
from palda.live.service import documents
from palda.live.web import create_app

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "fixtures" / "labelstudio-requests.jsonl").read_text().splitlines()
]
MALFORMED: list[Any] = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"[" * 100_000,
    b'{"action": "TASKS_CREATED", "n": NaN}', b'{"action": "\\ud800"}',
    {}, {"action": 5}, {"action": "x" * 1000}, {"action": "ANNOTATION_CREATED"},
    {"action": "ANNOTATION_CREATED", "annotation": [], "task": {}},
    {"action": "ANNOTATION_CREATED", "annotation": {"id": 1}, "task": {"id": "1"}},
    {"action": "ANNOTATION_CREATED", "annotation": {"id": True, "completed_by": 2}, "task": {"id": 1}},
    {"action": "ANNOTATION_CREATED", "annotation": {"id": 1, "completed_by": -2}, "task": {"id": 1}},
    {"action": "ANNOTATION_UPDATED", "annotation": {"id": 1, "completed_by": 2, "result": 7}, "task": {"id": 1}},
    {"action": "ANNOTATION_UPDATED", "annotation": {"id": 2**70, "completed_by": 2}, "task": {"id": 1}},
    {"action": "ANNOTATIONS_DELETED"}, {"action": "ANNOTATIONS_DELETED", "annotations": [5]},
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StudioWorld]:
    with new_world(tmp_path) as made:
        yield made


@pytest.fixture
def http(world: StudioWorld) -> Iterator[httpx.Client]:
    with serving(create_app(world.store, limits=MANY)) as url, client(url, headers={HEADER: SECRET}) as found:
        found.base_url = httpx.URL(f"{url}/labelstudio/{world.project_id}")
        yield found


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_recorded_requests_are_answered_in_the_form_that_label_studio_reads(
    world: StudioWorld, http: httpx.Client
) -> None:
    world.reconciled()
    for recorded in RECORDED:
        answer = http.request(recorded["method"], recorded["path"], json=recorded["body"])
        assert answer.status_code == 200
        found = answer.json()
        if recorded["path"] == "/setup":
            assert found["model_version"] == "palda-0"
        if recorded["path"] == "/predict":
            assert len(found["results"]) == len(recorded["body"]["tasks"])
            assert {tuple(sorted(one)) for one in found["results"]} == {("model_version", "result", "score")}


def test_every_route_needs_the_secret(world: StudioWorld, http: httpx.Client) -> None:
    http.headers.pop(HEADER)
    refused: list[dict[str, str]] = [
        {}, {HEADER: "wrong"}, {HEADER: ""}, basic(USER, "wrong"), basic("admin", SECRET),
        {"Authorization": "Basic %%%"}, {"Authorization": f"Bearer {SECRET}"},
    ]  # fmt: skip
    for method, path in [("GET", "health"), ("POST", "setup"), ("POST", "predict"), ("POST", "webhook")]:
        for headers in refused:
            answer = http.request(method, path, json={"action": "TASKS_CREATED"}, headers=headers)
            assert answer.status_code == 401
    assert world.rows(select(schema.labelstudio_event)) == []
    assert http.get("health", headers=basic(USER, SECRET)).status_code == 200


def test_other_connections_are_no_different_from_a_wrong_secret(http: httpx.Client) -> None:
    for number in (0, 999, 2**70):
        answer = http.get(str(http.base_url.copy_with(path=f"/labelstudio/{number}/health")))
        assert answer.status_code == 401


def test_malformed_webhooks_are_refused_and_keep_nothing(world: StudioWorld, http: httpx.Client) -> None:
    for body in MALFORMED:
        sent = {"content": body} if isinstance(body, bytes) else {"json": body}
        assert http.post("webhook", **sent).status_code == 422, str(body)[:80]
    assert world.rows(select(schema.labelstudio_event)) == []


def test_malformed_requests_for_predictions_are_refused(http: httpx.Client) -> None:
    one = [{"id": 1}]
    for body in ({}, {"tasks": 5}, {"tasks": [{}]}, {"tasks": one, "label_config": "<View"}, {"tasks": one}):
        assert http.post("predict", json=body).status_code == 422, body


def test_unknown_actions_are_acknowledged_and_dropped(world: StudioWorld, http: httpx.Client) -> None:
    for action in ("START_TRAINING", "LABEL_LINK_CREATED", "something new"):
        assert http.post("webhook", json={"action": action, "project": {"id": 3}}).status_code == 200
    assert world.rows(select(schema.labelstudio_event)) == []


def test_the_secret_and_tokens_of_label_studio_are_not_in_the_store(world: StudioWorld, http: httpx.Client) -> None:
    sent = {"project": "3.1", "schema": CONFIG, "hostname": "http://x", "access_token": "deadbeef" * 5}
    assert http.post("setup", json=sent).status_code == 200
    path = Path(world.store.url.database or "")
    content = b"".join(one.read_bytes() for one in path.parent.glob("project.db*"))
    assert SECRET.encode() not in content
    assert b"deadbeef" * 5 not in content


def test_webhooks_are_taken_in_like_pages(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    first = world.studio.annotate(1, 2, "sport")
    http.post("webhook", json=world.studio.webhook("ANNOTATION_CREATED", first))
    assert world.votes() == {}
    assert world.sync().take_events() == (1, False)
    assert world.votes() == {("1", "Ada Lovelace"): {"crime": 0, "sport": 1, "money": 0}}
    old = world.studio.webhook("ANNOTATION_CREATED", first)
    old = json.loads(json.dumps(old))
    world.studio.change(first, "money")
    http.post("webhook", json=world.studio.webhook("ANNOTATION_UPDATED", first))
    http.post("webhook", json=old)  # late
    world.sync().take_events()
    assert world.votes()["1", "Ada Lovelace"] == {"crime": 0, "sport": 0, "money": 1}
    before = world.n_entries()
    assert world.sync().reconcile() == 0
    assert world.n_entries() == before
    world.studio.delete(first)
    http.post("webhook", json={"action": "ANNOTATIONS_DELETED", "annotations": [{"id": first}, {"id": 12345}]})
    world.sync().take_events()
    assert world.votes() == {}


def test_a_webhook_that_was_never_taken_in_or_never_came_is_healed(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    for task in (1, 2):
        number = world.studio.annotate(task, 2, "sport")
        if task == 1:
            http.post("webhook", json=world.studio.webhook("ANNOTATION_CREATED", number))
    sync = world.reconciled()
    assert len(world.votes()) == 2
    sync.take_events()
    assert world.n_entries() == 6


def test_a_webhook_about_an_unknown_task_or_ground_truth_reads_the_task(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    new = world.studio.add_task("later")
    for number in (world.studio.annotate(new, 2, "sport"), world.studio.annotate(1, 2, "crime", ground_truth=True)):
        http.post("webhook", json=world.studio.webhook("ANNOTATION_CREATED", number))
    world.sync().take_events()
    assert set(world.votes()) == {(str(new), "Ada Lovelace")}
    assert documents.documents(world.store, world.project_id)[0].gold


def test_a_webhook_brings_a_changed_text(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    world.studio.tasks[1]["data"] = {"text": "the team lost"}
    http.post("webhook", json=world.studio.webhook("ANNOTATION_CREATED", world.studio.annotate(1, 2, "sport")))
    world.sync().take_events()
    assert documents.documents(world.store, world.project_id)[0].text == "the team lost"
    assert len(world.votes()) == 1


def test_other_webhooks_ask_for_a_comparison(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    http.post("webhook", json={"action": "TASKS_CREATED", "tasks": [{"id": 99}], "project": {"id": 3}})
    assert world.sync().take_events() == (1, True)
    assert world.sync().take_events() == (0, False)


def test_predictions_come_from_the_last_fit_with_scores_and_a_version(world: StudioWorld, http: httpx.Client) -> None:
    world.reconciled()
    world.fit({3: [0.9, 0.6, 0.1], 2: [0.5, 0.5, 0.5]}, generation=7)
    assert ConnectionSettings().shows_prelabel(3)
    body = {"tasks": [{"id": 2}, {"id": 3}, {"id": 555}], "label_config": CONFIG}
    second, first, unknown = http.post("predict", json=body).json()["results"]
    assert {one["model_version"] for one in (first, second, unknown)} == {"palda-7"}
    assert unknown["result"] == []
    assert second["score"] < first["score"] < 1
    (item,) = first["result"]
    assert (item["from_name"], item["to_name"], item["type"]) == ("topics", "text", "choices")
    assert item["value"] == {"choices": ["crime", "sport"]}
    assert item["scores"] == {"crime": 0.9, "sport": 0.6, "money": 0.1}


def test_pre_labels_are_withheld_from_a_share_of_tasks_chosen_by_their_number() -> None:
    settings = ConnectionSettings(prelabel_share=0.8)
    shown = [settings.shows_prelabel(task) for task in range(5000)]
    assert 0.77 < sum(shown) / 5000 < 0.83
    assert not any(ConnectionSettings(prelabel_share=0.0).shows_prelabel(task) for task in range(200))
    assert all(ConnectionSettings(prelabel_share=1.0).shows_prelabel(task) for task in range(200))
