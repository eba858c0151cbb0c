"""``palda serve``: a labelling project in the browser that learns while people label."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, standard_output
from palda.errors import PaldaError

if TYPE_CHECKING:
    from palda.live.serving import NewProject, ServerLinks, ServerOptions

SERVER = "Server"
_PROJECT, _COPIES = "Project", "Copies"
_EXTRA = ("sqlalchemy", "fastapi", "uvicorn", "starlette", "pydantic", "anyio", "multipart", "httptools", "httpx")


@dataclass(frozen=True)
class ProjectOptions:
    """A project that is wanted."""

    documents: Path | None
    classes: str | None
    name: str | None
    gold: Path | None
    guidelines: Path | None
    target_error: float | None
    max_votes_per_doc: int | None

    def new_project(self) -> NewProject | None:
        """The project, None if the options name none."""
        from palda.live.serving import NewProject

        if not (self.documents or self.classes or self.name):
            if self.gold or self.guidelines or self.target_error or self.max_votes_per_doc:
                raise typer.BadParameter("options of a project need --documents, --classes or --name")
            return None
        given = {"target_error": self.target_error, "max_votes_per_doc": self.max_votes_per_doc}
        return NewProject(
            self.name or (self.documents.stem if self.documents else "project"),
            _classes(self.classes or ""),
            self.documents,
            self.gold,
            "" if self.guidelines is None else _text_of(self.guidelines),
            {name: value for name, value in given.items() if value is not None},
        )


def _classes(given: str) -> list[tuple[str, str]]:
    """Names and meanings of classes: names separated by commas, or a text file with "name: meaning" per line."""
    if given.endswith(".txt"):
        pairs = [line.partition(": ")[::2] for line in _text_of(Path(given)).splitlines()]
    else:
        pairs = [(name, "") for name in given.split(",")]
    return [(name.strip(), meaning.strip()) for name, meaning in pairs if name.strip()]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise PaldaError(f"{path}: it is not a text in UTF-8; save it in that encoding") from None


def project_options(
    documents: Annotated[
        Path | None,
        opt.option(
            "Documents of a project: a table with ids and texts. Documents that are there already stay.",
            "--documents", "-d", show_default="none", panel=_PROJECT,
        ),
    ] = None,
    classes: Annotated[
        str | None,
        opt.option(
            "Names of the classes, separated by commas; or a file .txt with one per line, as in: crime: acts against "
            "the law.", show_default="none", panel=_PROJECT,
        ),
    ] = None,
    name: Annotated[
        str | None,
        opt.option(
            "Name of the project; one of this name is extended.", show_default="name of the file", panel=_PROJECT
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        opt.option("Known labels, to test annotators: a table like the votes, without annotators.", "--gold",
            show_default="none", panel=_PROJECT),
    ] = None,
    guidelines: Annotated[
        Path | None, opt.option("Text file that annotators see.", show_default="none", panel=_PROJECT)
    ] = None,
    target_error: Annotated[
        float | None,
        opt.option("Stop when at most this share of labels is wrong.", show_default="0.02", panel=_PROJECT),
    ] = None,
    max_votes_per_doc: Annotated[
        int | None,
        opt.option("Maximum number of annotators per document.", min=1, show_default="10", panel=_PROJECT),
    ] = None,
) -> ProjectOptions:  # fmt: skip
    """The project that is wanted."""
    return ProjectOptions(documents, classes, name, gold, guidelines, target_error, max_votes_per_doc)


@dataclass(frozen=True)
class RunOptions:
    """How a server runs, for every command that starts one."""

    host: str
    port: int
    as_json: bool
    jobs: int | None
    engine: str | None
    messages: Messages

    def server(self, *allowed_hosts: str, secure_cookies: bool = False) -> ServerOptions:
        """Options of the server; a warning if other machines reach it."""
        from palda.live.learner import FitOptions
        from palda.live.serving import LOOPBACK, ServerOptions

        if self.host not in LOOPBACK:
            self.messages.write(
                f"warning: the server listens on {self.host}, so that other machines reach it without encryption; "
                "put a reverse proxy with TLS before it, see the guide on the server"
            )
        return ServerOptions(self.host, self.port, allowed_hosts, secure_cookies, FitOptions(self.engine, self.jobs))

    def show(self, links: ServerLinks) -> None:
        """Print addresses and token."""
        with standard_output():
            sys.stdout.write(_links_as_json(links) if self.as_json else _links_as_text(links))


def run_options(
    host: Annotated[str, opt.option("Address to listen on.", panel=SERVER)] = "127.0.0.1",
    port: Annotated[int, opt.option("Port; 0 for any that is free.", min=0, max=65535, panel=SERVER)] = 8600,
    as_json: Annotated[bool, opt.flag("Print addresses and token as one line of JSON.", "--json")] = False,
    jobs: opt.Jobs = None,
    engine: opt.Engine = None,
    quiet: opt.Quiet = False,
) -> RunOptions:
    """How the server runs."""
    return RunOptions(host, port, as_json, jobs, engine, Messages(quiet=quiet))


@opt.option_groups(project=project_options, run=run_options)
def serve(
    store: Annotated[
        str,
        typer.Argument(help="SQLite file, created if missing, or postgresql://user@host/database.", show_default=False),
    ],
    *,
    project: ProjectOptions,
    run: RunOptions,
    allow_host: Annotated[
        list[str] | None,
        opt.option(
            "Name under which browsers reach the server, such as label.example.org; may be repeated.",
            show_default="loopback names", panel=SERVER,
        ),
    ] = None,
    secure_cookies: Annotated[
        bool,
        opt.flag("Browsers send cookies by https alone; for a reverse proxy with TLS.", "--secure-cookies",
            panel=SERVER),
    ] = False,
    backup: Annotated[
        Path | None,
        opt.option("Write a copy of the store to this SQLite file and exit; a server may run meanwhile.",
            show_default="none", panel=_COPIES),
    ] = None,
    restore: Annotated[
        Path | None,
        opt.option("Copy this backup to the store, which must be new, and exit.", show_default="none", panel=_COPIES),
    ] = None,
    force: opt.Force = False,
) -> None:  # fmt: skip
    """Serve a labelling project in the browser: what to label next, consensus, quality of annotators, when to stop."""
    with live_packages():
        from palda.live import copies
        from palda.live.serving import serve as run_server
    if backup is not None:
        run.messages.write(f"copied {copies.back_up(store, backup, force=force):,} rows to {backup}")
    elif restore is not None:
        run.messages.write(f"copied {copies.restore(restore, store):,} rows to {store}")
    else:
        options = run.server(*(allow_host or ()), secure_cookies=secure_cookies)
        run_server(store, options, project.new_project(), run.show)


@contextmanager
def live_packages() -> Iterator[None]:
    """Imports of the server; without its packages one line says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise PaldaError("the server needs more packages; install them with: pip install 'palda[live]'") from None


def _links_as_json(links: ServerLinks) -> str:
    """Addresses and token as one line of JSON."""
    fields = {"url": links.url, "admin_link": links.admin_link, "admin_token": links.admin_token}
    return json.dumps({**fields, "project": links.project_id}) + "\n"


def _links_as_text(links: ServerLinks) -> str:
    """Addresses for people."""
    return (
        f"palda serves at {links.url}\n"
        f"sign in as admin: {links.admin_link}\n"
        "keep this link to yourself; invite annotators on the dashboard. Ctrl-C ends the server.\n"
    )
