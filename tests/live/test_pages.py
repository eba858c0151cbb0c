"""Pages without a browser: joining, redirects, errors, static files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from palda.live.records import Project
from palda.live.service import access, people, projects
from palda.live.store import Store, open_store
from palda.live.web.app import create_app

ORIGIN = "http://127.0.0.1:8600"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "project.db")
    yield store
    store.close()


@pytest.fixture
def project(store: Store) -> Project:
    owner = access.enter(store, access.start_tokens(store)[1])
    return projects.create(store, owner, "News", ["crime"])


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(create_app(store), base_url=ORIGIN, follow_redirects=False)


def join_path(store: Store, project: Project, name: str | None = None) -> str:
    owner = access.enter(store, access.start_tokens(store)[1])
    return f"/join/{access.invite(store, owner, project.id, 'annotator', name)}"


def test_joining_sets_a_cookie_and_leaves_the_address(store: Store, project: Project, client: TestClient) -> None:
    path = join_path(store, project)
    page = client.get(path)
    assert "News" in page.text
    assert page.headers["referrer-policy"] == "same-origin"
    joined = client.post(path, data={"name": "Anna"}, headers={"Origin": ORIGIN})
    assert (joined.status_code, joined.headers["location"]) == (303, f"/projects/{project.id}")
    assert client.get(joined.headers["location"]).headers["location"] == f"/projects/{project.id}/label"
    assert client.get("/").headers["location"] == f"/projects/{project.id}"
    assert [member.name for member in people.members(store, project.id)] == ["Anna"]


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_another_site_cannot_sign_somebody_in(
    store: Store, project: Project, client: TestClient, headers: dict[str, str]
) -> None:
    refused = client.post(join_path(store, project), data={"name": "Anna"}, headers=headers)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert people.members(store, project.id) == []


@pytest.mark.parametrize("name", ["", "   ", "a\tb\x00", "x" * 201])
def test_a_name_that_cannot_be_used_is_asked_for_again(
    store: Store, project: Project, client: TestClient, name: str
) -> None:
    refused = client.post(join_path(store, project), data={"name": name})
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert "set-cookie" not in refused.headers


def test_who_is_signed_in_joins_as_the_same_person(store: Store, project: Project, client: TestClient) -> None:
    client.post(join_path(store, project), data={"name": "Anna"})
    before = client.cookies["palda_session"]
    owner = access.enter(store, access.start_tokens(store)[1])
    other = projects.create(store, owner, "Letters", ["praise"])
    path = join_path(store, other)
    personal = access.invite(store, owner, other.id, "annotator", "Ben")
    assert 'This signs out <span class="name" dir="auto">Anna</span>' in client.get(f"/join/{personal}").text
    assert "You join as" in client.get(path).text
    assert client.post(path).status_code == 403  # without the key of the form
    assert client.post(path, data={"form_key": access.form_key(store, before)}).status_code == 303
    assert [member.name for member in people.members(store, other.id)] == ["Ben", "Anna"]
    assert f'<a href="/projects/{project.id}">News</a>' in client.get("/projects").text  # to what the role needs first
    client.cookies.set("palda_session", before, domain="127.0.0.1")
    assert client.get("/projects").status_code == 401  # the session from before is ended


@pytest.mark.parametrize("path", ["/projects/99/label", f"/projects/{10**30}/label", "/nothing", "/static/../pages.py"])
def test_what_does_not_exist_is_a_page_of_one_line(
    store: Store, project: Project, client: TestClient, path: str
) -> None:
    client.post(join_path(store, project), data={"name": "Anna"})
    missing = client.get(path)
    assert missing.status_code == 404
    assert "<h1>Not found</h1>" in missing.text


def test_an_unexpected_error_is_a_page_without_details(client: TestClient) -> None:
    def fail(request: Request) -> Response:
        raise ZeroDivisionError("secret detail")

    client.app.router.routes.insert(0, Route("/fails", fail))  # type: ignore[attr-defined]
    failed = client.get("/fails")
    assert failed.status_code == 500
    assert "<h1>Something went wrong</h1>" in failed.text
    assert "secret detail" not in failed.text


def test_scripts_and_styles_are_checked_for_changes_each_time(client: TestClient) -> None:
    found = client.get("/static/label.js")
    assert found.headers["cache-control"] == "no-cache"
    assert found.headers["content-type"].startswith("text/javascript")
    again = client.get("/static/label.js", headers={"If-None-Match": found.headers["etag"]})
    assert again.status_code == 304


def test_templates_have_no_inline_script_or_style() -> None:
    folder = Path(create_app.__code__.co_filename).parent / "templates"
    for template in folder.glob("*.html"):
        text = template.read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|\|\s*safe", text), template.name
