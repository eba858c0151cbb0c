"""The API keeps to its OpenAPI document: requests that Schemathesis draws from it get no other answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy import select
from tests.live.world import MANY, World, add_documents, bearer, make_world, serving

from palda.live.errors import ConflictError, NotFoundError
from palda.live.schema import member
from palda.live.service import access, documents, exports, projects
from palda.live.web import create_app
from palda.live.web.events import EventHub, status_marker

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
WHO = ["owner"] * 8 + ["admin", "annotator", "viewer", "admin of another project", "expired", "nobody"]


class _FirstEvents(EventHub):
    """Streams that end after their first part, so that a client can read them whole."""

    async def _parts(self, watch: Any, check: Callable[[], object]) -> AsyncIterator[bytes]:
        async for part in super()._parts(watch, check):
            yield part
            return


def _invalid_parts(case: Any) -> set[ParameterLocation]:
    return {where for where, part in case.meta.components.items() if part.mode.is_negative}


class Targets:
    """Requests of Schemathesis with ids of things that exist, so that they reach more than "not found"."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.person = world.new_person()
        self.statuses: Counter[tuple[str, int]] = Counter()

    def restore(self) -> None:
        """Bring back what requests have deleted."""
        world = self.world
        try:
            projects.project(world.store, world.project)
        except NotFoundError:
            made = projects.create(world.store, world.owner, "First", ["crime", "sport"])
            world.project, world.label_ids = made.id, [label.id for label in made.labels]
            for name, role in (("annotator", "annotator"), ("viewer", "viewer"), ("admin", "admin")):
                world.n_made += 1
                world.add_person(f"{name} {world.n_made}", role, made.id)  # type: ignore[arg-type]
                world.tokens[name] = world.tokens[f"{name} {world.n_made}"]
        if not documents.documents(world.store, world.project, limit=1):
            add_documents(world.store, world.project, ["one", "two", "three"])
        is_member = select(member.c.role).where(member.c.project_id == world.project, member.c.person_id == self.person)
        if world.store.read(lambda connection: connection.execute(is_member).scalar()) is None:
            self.person = world.new_person()

    def aim(self, case: Any) -> None:
        """Replace some ids by those that exist, in parts of the request that are valid."""
        world, draw = self.world, self.random
        found = [one.id for one in documents.documents(world.store, world.project, limit=20)]
        known = {
            "project_id": world.project,
            "document_id": draw.choice(found),
            "person_id": self.person,
            "import_id": 1,
        }
        invalid = _invalid_parts(case)
        for name in set(case.path_parameters or {}) & set(known) if ParameterLocation.PATH not in invalid else ():
            if draw.random() < 0.85:
                case.path_parameters[name] = known[name]
        if ParameterLocation.BODY in invalid:
            return
        if isinstance(case.body, dict) and draw.random() < 0.8:
            self._aim_body(case.body, found)
        elif case.media_type == "text/csv" and draw.random() < 0.3:
            case.body = f"id,text\nrow {draw.randrange(99)},some words\n"

    def _aim_body(self, body: dict[str, Any], found: list[int]) -> None:
        world, draw = self.world, self.random
        if isinstance(body.get("document_id"), int):
            body["document_id"] = draw.choice(found)
            if body.get("kind") in {"skip", "cannot_tell"}:
                body["votes"] = {}
        for field in ("votes", "labels"):
            if isinstance(body.get(field), dict) and body.get("kind", "votes") == "votes":
                body[field] = {str(label): draw.randrange(2) for label in world.label_ids}

    def send(self, case: Any, who: str, session: requests.Session) -> None:
        """Send a request and check its answer."""
        token = self.world.tokens.get(who)
        if case.method == "DELETE" and case.path.endswith("/session") and who == "owner":
            token = access.create_api_token(self.world.store, self.world.owner, self.world.owner.person_id)
        case.cookies = {}
        answer = case.call(session=session, headers={} if token is None else bearer(token))
        self.statuses[f"{case.method} {case.path}", answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)
        invalid = _invalid_parts(case) - {ParameterLocation.HEADER, ParameterLocation.COOKIE}
        if who == "owner" and invalid and answer.status_code != 414:
            case.validate_response(answer, checks=[negative_data_rejection])


def exercise(world: World, url: str, n_examples: int, start: int) -> Counter[tuple[str, int]]:
    """Send requests for every operation; returns how often each status was answered."""
    targets = Targets(world, start)
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    with requests.Session() as session:
        session.trust_env = False
        for found in schema.get_all_operations():
            operation = found.ok()
            drawn = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

            @seed(start)
            @settings(
                max_examples=n_examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=st.one_of(drawn), who=st.sampled_from(WHO))
            def send(case: Any, who: str) -> None:
                targets.restore()
                targets.aim(case)
                targets.send(case, who, session)

            send()
    return targets.statuses


@contextmanager
def _served(location: str, folder: Path) -> Iterator[tuple[World, str]]:
    world = make_world(folder, location)
    app = create_app(world.store, limits=MANY)
    app.state.events = _FirstEvents(lambda number: status_marker(world.store, number), lambda _: b"{}", 100)
    with serving(app) as url:
        yield world, url
    world.store.close()


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report takes seconds, and there is no model to report on."""

    def refuse(*_: object, **__: object) -> None:
        raise ConflictError("there is no model yet")

    monkeypatch.setattr(exports, "write_report_file", refuse)


@pytest.mark.slow
def test_requests_drawn_from_the_openapi_document_get_documented_answers(tmp_path: Path) -> None:
    with _served(str(tmp_path / "project.db"), tmp_path) as (world, url):
        statuses = exercise(world, url, n_examples=7, start=random.randrange(10**6))  # noqa: S311 - no secret
    assert statuses.total() >= 200
    assert {status for _, status in statuses} >= {200, 201, 204, 401, 404, 422}


@pytest.mark.long
def test_ten_thousand_requests_drawn_from_the_openapi_document_get_documented_answers(
    store_location: str, tmp_path: Path
) -> None:
    with _served(store_location, tmp_path) as (world, url):
        statuses = exercise(world, url, n_examples=400, start=random.randrange(10**6))  # noqa: S311 - no secret
    assert statuses.total() >= 10_000
    operations = {name for name, _ in statuses}
    reached = {name for name, status in statuses if status < 300 or status == 409}
    assert operations - reached == set()


def test_the_openapi_document_says_of_every_operation_what_it_does_who_may_call_it_and_how_it_refuses(
    world: World,
) -> None:
    described = create_app(world.store).openapi()
    operations = [operation for methods in described["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        refusals = {status: answer for status, answer in operation["responses"].items() if int(status) >= 400}
        assert {"400", "414"} <= set(refusals)
        assert {"401", "403", "422", "429", "503"} <= set(refusals) or operation["security"] == []
        for answer in refusals.values():
            assert answer["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert set(described["components"]["securitySchemes"]) == {"token", "session"}
    assert "HTTPValidationError" not in described["components"]["schemas"]
