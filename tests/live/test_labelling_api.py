"""Labelling over HTTP: answers are stored once, late answers count, people see their own work alone."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from sqlalchemy import func, select, update
from tests.live.world import World, client

from palda.live.schema import lease, vote

API = "/api/v1"


def _next(api: httpx.Client, world: World) -> dict[str, Any]:
    answer = api.post(f"{API}/projects/{world.project}/next")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def _answer(world: World, task: dict[str, Any], client_id: str, **fields: Any) -> dict[str, Any]:
    votes = {str(label): 1 for label in world.label_ids}
    return {"document_id": task["document_id"], "client_id": client_id, "votes": votes} | fields


def _n_votes(world: World) -> int:
    return world.store.read(lambda connection: connection.execute(select(func.count()).select_from(vote)).scalar_one())


def test_the_same_document_comes_until_it_is_answered(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api:
        first = _next(api, world)
        assert _next(api, world)["document_id"] == first["document_id"]
        votes = f"{API}/projects/{world.project}/votes"
        assert api.post(votes, json=_answer(world, first, "a")).status_code == 200
        assert _next(api, world)["document_id"] != first["document_id"]


def test_the_same_answer_twice_is_stored_once_and_another_under_its_id_is_a_conflict(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api:
        task, votes = _next(api, world), f"{API}/projects/{world.project}/votes"
        first = api.post(votes, json=_answer(world, task, "a"))
        again = api.post(votes, json=_answer(world, task, "a"))
        other = api.post(votes, json=_answer(world, task, "a", kind="skip", votes={}))
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert (first.json()["is_repeat"], again.json()["is_repeat"]) == (False, True)
    assert again.json()["submission_id"] == first.json()["submission_id"]
    assert _n_votes(world) == 2


def test_the_same_answer_sent_at_once_by_many_connections_is_stored_once(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api, ThreadPoolExecutor(8) as pool:
        body = _answer(world, _next(api, world), "a")
        votes = f"{API}/projects/{world.project}/votes"
        answers = list(pool.map(lambda _: api.post(votes, json=body), range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["is_repeat"] for answer in answers) == [False] + [True] * 15
    assert _n_votes(world) == 2


def test_client_ids_of_two_people_do_not_meet(world: World, url: str) -> None:
    votes = f"{API}/projects/{world.project}/votes"
    for name in ("annotator", "admin"):
        with client(url, world.tokens[name]) as api:
            answer = api.post(votes, json=_answer(world, _next(api, world), "the same id"))
            assert answer.status_code == 422  # no blanks
            answer = api.post(votes, json=_answer(world, _next(api, world), "the-same-id"))
            assert answer.json()["is_repeat"] is False


def test_an_answer_after_its_lease_has_expired_is_accepted(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api, client(url, world.tokens["admin"]) as other:
        task = _next(api, world)
        expired = update(lease).values(expires_at=time.time() - 10)
        world.store.write(lambda connection: connection.execute(expired).rowcount)
        _next(other, world)  # ends leases that have expired
        answer = api.post(f"{API}/projects/{world.project}/votes", json=_answer(world, task, "late"))
    assert answer.status_code == 200
    assert _n_votes(world) == 2


def test_undo_gives_the_document_back_with_the_earlier_votes_and_is_idempotent(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api:
        task = _next(api, world)
        project = f"{API}/projects/{world.project}"
        api.post(f"{project}/votes", json=_answer(world, task, "a"))
        assert api.get(f"{project}/own-progress").json()["n_answered"] == 1
        back = [api.post(f"{project}/undo", json={"client_id": "u"}).json() for _ in range(2)]
        assert [one["document_id"] for one in back] == [task["document_id"]] * 2
        assert back[0]["votes"] == {str(label): 1 for label in world.label_ids}
        assert api.get(f"{project}/own-progress").json()["n_answered"] == 0


def test_a_vote_on_a_class_of_another_project_is_refused(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api:
        body = _answer(world, _next(api, world), "a", votes={"999": 1})
        assert api.post(f"{API}/projects/{world.project}/votes", json=body).status_code == 422


def test_a_paused_annotator_gets_no_document_but_keeps_what_was_answered(world: World, url: str) -> None:
    with client(url, world.tokens["paused annotator"]) as api:
        assert _next(api, world) == {"reason": "you_are_paused"}


def test_a_document_that_was_deleted_takes_no_votes(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api, client(url, world.tokens["admin"]) as admin:
        task = _next(api, world)
        assert admin.delete(f"{API}/projects/{world.project}/documents/{task['document_id']}").status_code == 204
        answer = api.post(f"{API}/projects/{world.project}/votes", json=_answer(world, task, "a"))
    assert answer.status_code == 404


def test_documents_arrive_by_csv_and_json_lines_and_their_import_shows_progress(world: World, url: str) -> None:
    project = f"{API}/projects/{world.project}"
    uploads = {
        "text/csv": ("id,text\nn1,snow\nn2,rain\n", 2),
        "application/x-ndjson": ('{"id": "n3", "text": "wind"}\n', 1),
    }
    with client(url, world.tokens["admin"]) as api:
        for media_type, (content, n_new) in uploads.items():
            job = api.post(f"{project}/documents", content=content, headers={"Content-Type": media_type})
            assert job.status_code == 202
            assert _finished(api, f"{project}/imports/{job.json()['id']}")["n_new"] == n_new
        names = [one["name"] for one in api.get(f"{project}/documents?limit=1000").json()]
    assert {"n1", "n2", "n3"} <= set(names)


def _finished(api: httpx.Client, path: str) -> dict[str, Any]:
    for _ in range(200):
        job: dict[str, Any] = api.get(path).json()
        if job["state"] != "running":
            assert job["state"] == "finished"
            return job
        time.sleep(0.02)
    raise AssertionError("the import does not end")


def test_pages_of_documents_and_consensus_follow_each_other(world: World, url: str) -> None:
    with client(url, world.tokens["admin"]) as api:
        for what, key in (("documents", "id"), ("consensus", "document_id")):
            path = f"{API}/projects/{world.project}/{what}"
            first = api.get(path, params={"limit": 3}).json()
            rest = api.get(path, params={"after": first[-1][key], "limit": 3}).json()
            assert [row[key] for row in first + rest] == [row[key] for row in api.get(path).json()]


def test_exports_are_attachments_in_parts(world: World, url: str) -> None:
    with client(url, world.tokens["annotator"]) as api:
        api.post(f"{API}/projects/{world.project}/votes", json=_answer(world, _next(api, world), "a"))
    with client(url, world.tokens["admin"]) as api:
        exports = f"{API}/projects/{world.project}/exports"
        labels, votes = api.get(f"{exports}/labels.csv"), api.get(f"{exports}/votes.csv")
        assert labels.headers["content-disposition"] == 'attachment; filename="labels.csv"'
        assert labels.headers["content-type"].startswith("text/csv")
        assert labels.text.splitlines()[0] == "doc,labels,n_votes,crime,sport"
        assert len(votes.text.splitlines()) == 3
        assert api.get(f"{exports}/model.palda").status_code == 409
        assert api.get(f"{exports}/passwd").status_code == 422
