"""A store with two projects and people of every role, and a server of it on the loopback address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fastapi import FastAPI

from palda.live.records import Actor, Role
from palda.live.service import access, documents, people, projects
from palda.live.store import Store, open_store
from palda.live.web.limits import Limits
from palda.live.web.running import Server, listen

MANY = Limits(requests_per_second=1e6, request_burst=1_000_000, failures_per_second=1e6, failure_burst=1_000_000)
"""Rates that no test reaches."""

TEXTS = ["the match ended in a draw", "the court heard a witness", "shares fell again", "a goal in the last minute"]


@dataclass
class World:
    """People and their tokens. The admin, annotator, paused annotator and viewer are members of ``project``."""

    store: Store
    owner: Actor
    project: int
    other_project: int
    label_ids: list[int]
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    n_made: int = 0

    def add_person(self, name: str, role: Role, project_id: int) -> int:
        """A new member, called "the ..." because the owner is "admin"; the token of the API is in ``tokens``."""
        invitation = access.invite(self.store, self.owner, project_id, role, f"the {name}")
        session, _ = access.accept(self.store, invitation)
        self.ids[name] = access.enter(self.store, session).person_id
        self.tokens[name] = access.create_api_token(self.store, self.owner, self.ids[name])
        return self.ids[name]

    def new_person(self) -> int:
        """A new annotator of the project."""
        self.n_made += 1
        return self.add_person(f"annotator {self.n_made}", "annotator", self.project)

    def new_document(self) -> int:
        """A new document of the project."""
        self.n_made += 1
        add_documents(self.store, self.project, [f"document {self.n_made}"])
        return documents.documents(self.store, self.project, limit=10_000)[-1].id

    def session(self, name: str) -> str:
        """Token of a new session, for a cookie."""
        return self.store.write(lambda connection: access.add_session(connection, self.ids[name]))


@dataclass(frozen=True)
class Served:
    """A world, and the URL of its server."""

    world: World
    url: str


def add_documents(store: Store, project_id: int, texts: list[str]) -> None:
    """Add documents and wait for them."""
    rows = [documents.DocumentRow(text, text) for text in texts]
    assert documents.import_documents(store, project_id, rows).state == "finished"


def make_world(folder: Path, location: str | None = None) -> World:
    """The world on a new file in a folder, or at an address."""
    store = open_store(location or folder / "project.db")
    _, token = access.start_tokens(store)
    owner = access.enter(store, token)
    first, second = (projects.create(store, owner, name, ["crime", "sport"]) for name in ("First", "Second"))
    world = World(store, owner, first.id, second.id, [label.id for label in first.labels], {"owner": token})
    world.ids["owner"] = owner.person_id
    world.add_person("annotator", "annotator", first.id)
    world.add_person("paused annotator", "annotator", first.id)
    people.set_paused(store, first.id, world.ids["paused annotator"], is_paused=True)
    world.add_person("viewer", "viewer", first.id)
    world.add_person("admin", "admin", first.id)
    world.add_person("admin of another project", "admin", second.id)
    world.tokens["expired"] = store.write(
        lambda connection: access.add_credential(connection, "api", world.ids["admin"], -1.0)
    )
    add_documents(store, first.id, TEXTS)
    return world


class QuickServer(Server):
    """Ends at once: uvicorn looks ten times per second whether it should."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """URL of a server of the application, in a thread."""
    is_started = threading.Event()
    with listen("127.0.0.1", 0) as listener:
        server = QuickServer(app, is_started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        assert is_started.wait(60)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def bearer(token: str) -> dict[str, str]:
    """Header of a token."""
    return {"Authorization": f"Bearer {token}"}


def client(url: str, token: str | None = None, headers: dict[str, str] | None = None) -> httpx.Client:
    """A client of the API."""
    sent = {} if token is None else bearer(token)
    return httpx.Client(base_url=url, headers=sent | (headers or {}), trust_env=False, timeout=60)
