"""Who may call what: every route of the application with every role, and without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.routing import Mount, Route
from tests.live.world import Served, World, bearer, client

from palda.live.records import Task
from palda.live.service import access, labelling, projects
from palda.live.web import create_app
from palda.live.web.api import OPERATIONS

PREFIX = "/api/v1"
BACKEND = (("GET", "health"), ("POST", "setup"), ("POST", "predict"), ("POST", "webhook"))
"""Routes for Label Studio, which need the secret of a connection; no role gets in."""

SIGNED_IN = ("annotator", "paused annotator", "viewer", "admin", "admin of another project", "owner")
MEMBERS = ("annotator", "paused annotator", "viewer", "admin", "owner")
LABELLING = ("annotator", "paused annotator", "admin", "owner")
WATCHING = ("viewer", "admin", "owner")
ADMINS = ("admin", "owner")
OWNERS = ("owner",)


@dataclass(frozen=True)
class Entry:
    """A route, who may use it, and a request that succeeds."""

    method: str
    path: str
    allowed: tuple[str, ...] | None  # None: everybody
    status: int = 200
    body: Callable[[World], Any] | None = None
    takes_away: bool = False  # needs a world of its own
    conflicts: tuple[str, ...] = ()  # who may, but was not given the document

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _votes(world: World) -> dict[str, Any]:
    world.n_made += 1
    world.new_document()
    annotator = access.enter(world.store, world.tokens["annotator"], world.project)
    task = labelling.next_task(world.store, annotator, world.project)
    assert isinstance(task, Task)
    votes = {str(label): 1 for label in world.label_ids}
    return {"document_id": task.document_id, "client_id": f"client-{world.n_made}", "votes": votes}


def _fresh(what: str) -> Callable[[World], dict[str, Any]]:
    def body(world: World) -> dict[str, Any]:
        world.n_made += 1
        return {"name": f"{what} {world.n_made}"}

    return body


TABLE = [
    Entry("GET", "/health", None),
    Entry("GET", "/openapi.json", None),
    Entry("GET", "/session", SIGNED_IN),
    Entry("DELETE", "/session", SIGNED_IN, 204, takes_away=True),
    Entry("GET", "/projects", SIGNED_IN),
    Entry("POST", "/projects", OWNERS, 201, lambda _: {"name": "New", "labels": ["a", "b"]}),
    Entry("GET", "/projects/{project_id}", MEMBERS),
    Entry("PATCH", "/projects/{project_id}", ADMINS, 200, lambda _: {"guidelines": "Read to the end."}),
    Entry("DELETE", "/projects/{project_id}", ADMINS, 204, takes_away=True),
    Entry("POST", "/projects/{project_id}/labels", ADMINS, 201, _fresh("class")),
    Entry("GET", "/projects/{project_id}/documents", ADMINS),
    Entry("POST", "/projects/{project_id}/documents", ADMINS, 202, lambda _: b"id,text\nz1,rain\nz2,snow\n"),
    Entry("GET", "/projects/{project_id}/documents/{document_id}", ADMINS),
    Entry("DELETE", "/projects/{project_id}/documents/{document_id}", ADMINS, 204),
    Entry("PUT", "/projects/{project_id}/documents/{document_id}/gold", ADMINS, 200, lambda _: {"labels": {}}),
    Entry("GET", "/projects/{project_id}/imports/{import_id}", ADMINS),
    Entry("GET", "/projects/{project_id}/people", WATCHING),
    Entry("POST", "/projects/{project_id}/invitations", ADMINS, 201, lambda _: {"role": "viewer"}),
    Entry("PATCH", "/projects/{project_id}/people/{person_id}", ADMINS, 204, lambda _: {"is_paused": True}),
    Entry("DELETE", "/projects/{project_id}/people/{person_id}", ADMINS, 204),
    Entry("POST", "/projects/{project_id}/people/{person_id}/pseudonym", ADMINS),
    Entry("POST", "/projects/{project_id}/people/{person_id}/tokens", ADMINS, 201, lambda _: {"days": 3}),
    Entry("POST", "/projects/{project_id}/next", LABELLING),
    Entry("POST", "/projects/{project_id}/votes", LABELLING, 200, _votes, conflicts=("paused annotator",)),
    Entry("POST", "/projects/{project_id}/undo", LABELLING, 409, lambda _: {"client_id": "none"}, takes_away=True),
    Entry("GET", "/projects/{project_id}/own-progress", LABELLING),
    Entry("GET", "/projects/{project_id}/status", WATCHING),
    Entry("GET", "/projects/{project_id}/events", WATCHING),
    Entry("GET", "/projects/{project_id}/consensus", WATCHING),
    Entry("GET", "/projects/{project_id}/doubtful", ADMINS),
    Entry("POST", "/projects/{project_id}/doubtful/{document_id}", ADMINS, 204, lambda _: {"labels": {}}),
    Entry("GET", "/projects/{project_id}/exports/{export}", WATCHING),
]

PAGES = [
    Entry("GET", "/", SIGNED_IN, 303),
    Entry("GET", "/join/{token}", None),
    Entry("POST", "/join/{token}", None, 303, takes_away=True),
    Entry("GET", "/projects", SIGNED_IN),
    Entry("GET", "/projects/{project_id}", MEMBERS, 303),
    Entry("GET", "/projects/{project_id}/label", LABELLING),
    Entry("GET", "/projects/{project_id}/dashboard", WATCHING),
    Entry("GET", "/projects/{project_id}/adjudicate", ADMINS),
    Entry("GET", "/projects/{project_id}/settings", ADMINS),
]


def _path(entry: Entry, world: World) -> str:
    """Path with ids of things that exist."""
    return (PREFIX if entry in TABLE else "") + entry.path.format(
        project_id=_project(entry, world),
        document_id=world.new_document() if "{document_id}" in entry.path else 0,
        person_id=world.new_person() if "{person_id}" in entry.path else 0,
        import_id=1,
        export="labels.csv",
        token=_invitation(world) if "{token}" in entry.path else "",
    )


def _invitation(world: World) -> str:
    return access.invite(world.store, world.owner, world.project, "annotator", "the annotator")


def _project(entry: Entry, world: World) -> int:
    if world.project not in {project.id for project in projects.projects_of(world.store, world.owner)}:
        return projects.create(world.store, world.owner, "Another", ["a"]).id  # the admin has deleted the first
    return world.project


def _status(api: httpx.Client, entry: Entry, world: World, who: str) -> int:
    body = None if entry.body is None else entry.body(world)
    headers = bearer(world.tokens[who]) if who in world.tokens else {}
    options: dict[str, Any] = {"json": body}
    if isinstance(body, bytes):
        headers["Content-Type"] = "text/csv"
        options = {"content": body}
    with api.stream(entry.method, _path(entry, world), headers=headers, **options) as answer:
        return answer.status_code


def _expected(entry: Entry, who: str) -> int:
    if who in entry.conflicts:
        return 409
    if entry.allowed is None or who in entry.allowed:
        return entry.status
    if who in {"nobody", "expired"}:
        return 401
    return 404 if who == "admin of another project" and "{project_id}" in entry.path else 403


def _check(entry: Entry, world: World, url: str) -> None:
    with client(url) as api:
        seen = {who: _status(api, entry, world, who) for who in ("nobody", "expired", *SIGNED_IN)}
    assert seen == {who: _expected(entry, who) for who in seen}


@pytest.mark.parametrize("entry", [entry for entry in [*TABLE, *PAGES] if not entry.takes_away], ids=str)
def test_each_route_lets_in_only_the_roles_of_the_table(entry: Entry, shared: Served) -> None:
    _check(entry, shared.world, shared.url)


@pytest.mark.parametrize("entry", [entry for entry in [*TABLE, *PAGES] if entry.takes_away], ids=str)
def test_each_route_that_takes_away_lets_in_only_the_roles_of_the_table(entry: Entry, world: World, url: str) -> None:
    _check(entry, world, url)


def test_the_table_has_every_route_of_the_application_and_of_the_openapi_document(world: World) -> None:
    app = create_app(world.store)
    listed = {(entry.method, PREFIX + entry.path) for entry in TABLE}
    pages = {(entry.method, entry.path) for entry in PAGES}
    routes = {
        (method, route.path.replace(":int}", "}"))
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    followed = {(method, f"/labelstudio/{{connection}}/{name}") for method, name in BACKEND}
    assert routes == listed | pages | followed
    assert described == listed - {("GET", f"{PREFIX}/openapi.json")}
    assert [route.path for route in app.routes if isinstance(route, Mount)] == ["/static"]
    assert [route for route in app.routes if not isinstance(route, (Route, Mount))] == []


def test_roles_of_the_operations_are_those_of_the_table() -> None:
    names = {"admin": "admin", "annotator": "annotator", "viewer": "viewer", "owner": "owner"}
    table = {(entry.method, entry.path): entry for entry in TABLE}
    for operation in OPERATIONS:
        allowed = table[operation.method, operation.path].allowed
        if not operation.allowed:
            assert allowed == (None if operation.allowed is None else SIGNED_IN)
        else:
            assert {names[role] for role in operation.allowed} | {"owner"} == {
                one for one in allowed or () if one in names
            }


@pytest.mark.parametrize(
    ("export", "viewer"), [("labels.csv", 200), ("votes.csv", 403), ("model.palda", 403), ("report.html", 409)]
)
def test_viewers_may_export_labels_and_report_but_not_votes_and_model(export: str, viewer: int, shared: Served) -> None:
    with client(shared.url, shared.world.tokens["viewer"]) as api:
        assert api.get(f"{PREFIX}/projects/{shared.world.project}/exports/{export}").status_code == viewer


def test_annotators_see_name_guidelines_and_classes_of_a_project_alone(shared: Served) -> None:
    with client(shared.url, shared.world.tokens["annotator"]) as api:
        assert set(api.get(f"{PREFIX}/projects/{shared.world.project}").json()) == {
            "id",
            "name",
            "guidelines",
            "labels",
        }


def test_an_admin_of_one_project_cannot_act_as_the_owner_or_as_members_of_other_projects(shared: Served) -> None:
    people = f"{PREFIX}/projects/{shared.world.project}/people"
    with client(shared.url, shared.world.tokens["admin"]) as api:
        for name in ("owner", "admin of another project"):
            assert api.post(f"{people}/{shared.world.ids[name]}/tokens", json={}).status_code in {403, 404}
            assert api.patch(f"{people}/{shared.world.ids[name]}", json={"name": "Mine"}).status_code in {403, 404}
            assert api.delete(f"{people}/{shared.world.ids[name]}").status_code in {403, 404}
        invitation = {"name": "the admin of another project"}
        assert api.post(f"{PREFIX}/projects/{shared.world.project}/invitations", json=invitation).status_code == 409


def test_documents_and_imports_of_another_project_are_not_found(shared: Served) -> None:
    with client(shared.url, shared.world.tokens["admin of another project"]) as api:
        mine = f"{PREFIX}/projects/{shared.world.other_project}"
        document = shared.world.new_document()
        assert api.get(f"{mine}/documents/{document}").status_code == 404
        assert api.delete(f"{mine}/documents/{document}").status_code == 404
        assert api.get(f"{mine}/imports/1").status_code == 404
        assert api.post(f"{mine}/doubtful/{document}", json={"labels": {}}).status_code == 404
        assert api.patch(f"{mine}/people/{shared.world.ids['annotator']}", json={"is_paused": True}).status_code == 404
        votes = {"document_id": document, "client_id": "c", "votes": {"1": 1}}
        assert api.post(f"{mine}/votes", json=votes).status_code == 404
