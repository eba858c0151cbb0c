"""Pages for people: server-rendered, with scripts that call the JSON API."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from palda.live.errors import ConflictError, InvalidRequestError, NotFoundError, NotSignedInError
from palda.live.labelstudio import connections
from palda.live.labelstudio.prelabels import COLUMNS, NOTE, prelabel_influence
from palda.live.records import Project, ProjectSettings
from palda.live.service import access, people, projects, results
from palda.live.web.events import status_json
from palda.live.web.security import (
    Web,
    check_same_origin,
    credential_of,
    current_actor,
    form_key_of,
    set_session,
    sign_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

    from palda.live.records import Actor, Role

_MAX_ID = 2**63 - 1
_MAX_FORM_BYTES = 10_000

_PAGES: dict[str, tuple[str, frozenset[Role]]] = {
    "label": ("Label", frozenset({"annotator", "admin"})),
    "dashboard": ("Dashboard", frozenset({"admin", "viewer"})),
    "adjudicate": ("Adjudicate", frozenset({"admin"})),
    "settings": ("Settings", frozenset({"admin"})),
}
_EXPORTS = (
    ("labels.csv", "labels and probabilities", False),
    ("report.html", "report; takes a while", False),
    ("votes.csv", "all votes", True),
    ("model.palda", "fitted model", True),
)
_TITLES = {
    401: "Please sign in",
    403: "Not allowed",
    404: "Not found",
    429: "Too many requests",
    500: "Something went wrong",
    503: "The server cannot work now",
}

_TEMPLATES = Environment(
    loader=PackageLoader("palda.live.web", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def add_pages(app: FastAPI) -> None:
    """Add the pages, their static files and the page for errors to the application."""
    app.state.error_page = _error_page
    app.router.routes.extend(
        [
            Route("/", _start),
            Route("/join/{token}", _join_page),
            Route("/join/{token}", _join, methods=["POST"]),
            Route("/projects", _projects_page),
            Route("/projects/{project_id:int}", _first_page),
            *(Route(f"/projects/{{project_id:int}}/{name}", page) for name, page in _PROJECT_PAGES.items()),
            Mount("/static", _Static(directory=Path(__file__).parent / "static")),
        ]
    )


class _Static(StaticFiles):
    """Files that browsers keep and ask about each time, so that pages and scripts are of one version."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _render(request: Request, template: str, actor: Actor | None = None, **values: Any) -> HTMLResponse:
    values = {"actor": actor, "project": None, "page": None, "needs_script": False, **values}
    form_key = form_key_of(request) if actor is not None else None
    return HTMLResponse(_TEMPLATES.get_template(template).render(form_key=form_key, **values))


def _project_page(request: Request, page: str, actor: Actor, project: Project, **values: Any) -> HTMLResponse:
    source = Web.of(request).store.read(partial(connections.find, project_id=project.id))
    labels = _json([asdict(label) for label in project.labels])
    return _render(
        request,
        f"{page}.html",
        actor,
        project=project,
        page=page,
        pages=_pages_of(actor.role),
        role=actor.role,
        labels_json=labels,
        source=source,
        needs_script=True,
        **values,
    )


def _pages_of(role: Role | None) -> list[tuple[str, str]]:
    """Address and title of the pages of a project that a role may open, the most used first."""
    return [(name, title) for name, (title, roles) in _PAGES.items() if role in roles]


def _json(value: object) -> str:
    """JSON as plain text, which the template escapes for an attribute."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _records(found: Iterable[Any]) -> str:
    return _json([asdict(one) for one in found])


def _enter(request: Request, page: str) -> tuple[Actor, Project]:
    """Who opens a page of a project, if their role may, and the project."""
    project_id = _project_id(request)
    actor = current_actor(request, project_id, _PAGES[page][1])
    return actor, projects.project(Web.of(request).store, project_id)


def _project_id(request: Request) -> int:
    project_id = int(request.path_params["project_id"])
    if project_id > _MAX_ID:
        raise NotFoundError("there is no such project")
    return project_id


def _start(request: Request) -> Response:
    """The only project of somebody who has one, otherwise the list."""
    actor = current_actor(request)
    found = projects.projects_of(Web.of(request).store, actor)
    is_one = len(found) == 1 and not actor.is_owner
    return RedirectResponse(f"/projects/{found[0].id}" if is_one else "/projects", 303)


def _first_page(request: Request) -> Response:
    project_id = _project_id(request)
    actor = current_actor(request, project_id)
    pages = [name for name, _ in _pages_of(actor.role)]
    return RedirectResponse(f"/projects/{project_id}/{'dashboard' if 'dashboard' in pages else pages[0]}", 303)


def _projects_page(request: Request) -> Response:
    actor, store = current_actor(request), Web.of(request).store
    roles = projects.roles_of(store, actor)
    rows = []
    for project in projects.projects_of(store, actor):
        role = roles.get(project.id, "admin")  # owners are admins where they are no members
        rows.append({"project": project, "role": role, "pages": _pages_of(role)})
    return _render(request, "projects.html", actor, rows=rows, settings=ProjectSettings())


def _label_page(request: Request) -> Response:
    actor, project = _enter(request, "label")
    return _project_page(
        request, "label", actor, project, has_descriptions=any(label.description for label in project.labels)
    )


def _dashboard_page(request: Request) -> Response:
    actor, project = _enter(request, "dashboard")
    store, is_admin = Web.of(request).store, actor.role == "admin"
    return _project_page(
        request,
        "dashboard",
        actor,
        project,
        status_json=status_json(results.status(store, project.id)).decode(),
        now=time.time(),
        people_json=_records(people.members(store, project.id)),
        influence=store.read(partial(prelabel_influence, project_id=project.id)),
        prelabel_columns=COLUMNS,
        prelabel_note=NOTE,
        exports=[(name, text) for name, text, for_admins in _EXPORTS if is_admin or not for_admins],
    )


def _adjudicate_page(request: Request) -> Response:
    actor, project = _enter(request, "adjudicate")
    wanted = request.query_params.get("document", "")
    found = []
    if wanted.isascii() and wanted.isdecimal() and int(wanted) <= _MAX_ID:
        found = [results.doubtful_document(Web.of(request).store, project.id, int(wanted))]
    return _project_page(request, "adjudicate", actor, project, first_json=_records(found))


def _settings_page(request: Request) -> Response:
    actor, project = _enter(request, "settings")
    return _project_page(request, "settings", actor, project)


_PROJECT_PAGES = {
    "label": _label_page,
    "dashboard": _dashboard_page,
    "adjudicate": _adjudicate_page,
    "settings": _settings_page,
}


def _signed_in(request: Request, form_key: str | None = None) -> Actor | None:
    """Who follows an invitation, if they are signed in already."""
    try:
        return current_actor(request, form_key=form_key)
    except NotSignedInError:
        return None


def _join_form(request: Request, actor: Actor | None, **values: Any) -> HTMLResponse:
    with sign_in(request):
        invitation = access.invitation(Web.of(request).store, request.path_params["token"])
    values = {"problem": None, "given_name": "", **values}
    page = _render(request, "join.html", actor, invitation=invitation, session_days=access.SESSION_DAYS, **values)
    page.headers["Referrer-Policy"] = "same-origin"  # otherwise browsers send the form without its origin
    return page


def _join_page(request: Request) -> Response:
    return _join_form(request, _signed_in(request))


async def _join(request: Request) -> Response:
    request.scope["palda.body"].max_bytes = _MAX_FORM_BYTES  # from strangers
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return await run_in_threadpool(_accept, request, {name: values[0] for name, values in fields.items()})


def _accept(request: Request, fields: dict[str, str]) -> Response:
    """Sign in and leave the address with the token."""
    store, token = Web.of(request).store, request.path_params["token"]
    check_same_origin(request)
    actor = _signed_in(request, fields.get("form_key", ""))
    name = fields.get("name", "").strip()
    try:
        with sign_in(request):
            session, project_id = access.accept(store, token, name or None, actor)
    except (ConflictError, InvalidRequestError) as error:
        page = _join_form(request, actor, problem=_sentence(str(error)), given_name=name)
        page.status_code = error.status
        return page
    before = credential_of(request)
    if actor is not None and before is not None and before.is_cookie:
        access.end_session(store, before.token)
    response = RedirectResponse("/projects" if project_id is None else f"/projects/{project_id}", 303)
    set_session(request, response, session)
    return response


def _error_page(request: Request, status: int, message: str) -> Response:
    """Page for a request that was refused."""
    title = _TITLES.get(status, "This did not work")
    page = _render(request, "problem.html", status=status, title=title, message=_sentence(message))
    page.status_code = status
    return page


def _sentence(message: str) -> str:
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
