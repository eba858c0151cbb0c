"""Runs a server: store, project, learner and web server, until it is told to end."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError
from palda.live.learner import FitOptions, LearnerSupervisor
from palda.live.records import ProjectSettings
from palda.live.service import access, documents, projects
from palda.live.store import open_store
from palda.live.web import create_app, run

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from palda.live.labelstudio.following import Follower
    from palda.live.records import Actor, Project
    from palda.live.store import Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, and where fits run."""

    host: str = "127.0.0.1"
    port: int = 8600
    allowed_hosts: tuple[str, ...] = ()  # names in the header Host besides the address and loopback names
    secure_cookies: bool = False
    fits: FitOptions = field(default_factory=FitOptions)


@dataclass(frozen=True)
class NewProject:
    """A project that the command line asks for; one of the same name is extended."""

    name: str
    labels: Sequence[tuple[str, str]]  # name and meaning
    documents: Path | None = None
    gold: Path | None = None
    guidelines: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # those that are given; the others stay


@dataclass(frozen=True)
class ServerLinks:
    """How to get in."""

    url: str
    admin_link: str
    admin_token: str
    project_id: int | None


def serve(
    location: str | os.PathLike[str],
    options: ServerOptions,
    new: NewProject | None,
    started: Callable[[ServerLinks], None],
    follow: Callable[[Store, Actor], Follower] | None = None,
) -> None:
    """Serve a store until SIGINT or SIGTERM; ``started`` is called when the server accepts connections.

    ``follow`` makes what works beside the server, for the owner of the store.
    """
    store = open_store(location)
    supervisor = LearnerSupervisor(location, options.fits)
    follower: Follower | None = None
    try:
        server_name = f"{socket.gethostname()}:{options.port}"
        documents.end_interrupted_imports(store, server_name)
        link, token = access.start_tokens(store)
        project_id = None if new is None else set_up(store, access.enter(store, token), new, server_name)
        hosts = {*LOOPBACK, "[::1]", *options.allowed_hosts, options.host, f"[{options.host}]"}
        if follow is not None:
            follower = follow(store, access.enter(store, token))
            project_id = follower.project_id
            hosts |= set(follower.hosts)
        if options.host in ("0.0.0.0", "::") and not options.allowed_hosts:  # noqa: S104 - compared, not listened on
            hosts.add(socket.gethostname())
        app = create_app(
            store, allowed_hosts=sorted(hosts), secure_cookies=options.secure_cookies, server_name=server_name
        )
        if follower is None:
            supervisor.start()

        def ready(url: str) -> None:
            if follower is not None:
                follower.start(url, supervisor.start)
            started(ServerLinks(url, f"{url}/join/{link}", token, project_id))

        run(app, options.host, options.port, ready)
    finally:
        if follower is not None:
            follower.stop()
        supervisor.stop()
        store.close()


def set_up(store: Store, owner: Actor, new: NewProject, server_name: str = "") -> int:
    """Create the project, or add documents and classes to the one of the same name; returns its number."""
    rows = [] if new.documents is None else documents.read_upload(new.documents)
    project = _project_named(store, owner, new)
    known = {label.name for label in project.labels}
    for name, meaning in new.labels:
        if " ".join(name.split()) not in known:
            projects.add_label(store, project.id, name, meaning)
    if new.gold is None and rows:
        documents.start_import(store, project.id, rows, server_name)
    elif rows:  # known labels need their documents
        documents.import_documents(store, project.id, rows, server_name)
    if new.gold is not None:
        documents.import_gold_table(store, project.id, new.gold)
    return project.id


def _project_named(store: Store, owner: Actor, new: NewProject) -> Project:
    found = [project for project in projects.projects_of(store, owner) if project.name == new.name]
    if found:
        changes = {"settings": dict(new.settings) or None, "guidelines": new.guidelines or None}
        return projects.change(store, found[0].id, **changes) if any(changes.values()) else found[0]  # type: ignore[arg-type]
    if not new.labels:
        raise PaldaError("a new project needs classes; add --classes crime,sport,money")
    settings = ProjectSettings.from_json(new.settings)
    return projects.create(store, owner, new.name, new.labels, settings, new.guidelines)
