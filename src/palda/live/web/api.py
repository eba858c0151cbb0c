"""The JSON API: every operation with the roles that may call it. The work is done by the service."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

import palda
from palda.live.errors import NotAllowedError
from palda.live.records import (
    Answer,
    ConsensusRow,
    DoubtfulDocument,
    ImportJob,
    Label,
    Member,
    NoTask,
    OwnProgress,
    Project,
    ProjectStatus,
    Receipt,
    Task,
)
from palda.live.schema import log_head
from palda.live.service import access, documents, exports, labelling, people, projects, results
from palda.live.store import Store
from palda.live.web import bodies
from palda.live.web.bodies import After, DocumentId, ImportId, Limit, PersonId, ProjectId
from palda.live.web.events import EventHub
from palda.live.web.operations import (
    ADMINS,
    EVERYBODY,
    LABELLING,
    OWNERS,
    SIGNED_IN,
    WATCHING,
    Call,
    Leasing,
    Operation,
    Writing,
)
from palda.live.web.security import Allowed, Web, clear_session, credential_of, current_actor, form_key_of

_PART_BYTES = 65_536

OPERATIONS: list[Operation] = []
"""All operations; those that every labelled document needs come first, because routes are tried in order."""


def _report(store: Store, project_id: int, *, has_votes: bool) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="palda-") as folder:
        path = Path(folder, "report.html")
        exports.write_report_file(store, project_id, path, has_votes=has_votes)
        with path.open("rb") as report:
            while part := report.read(_PART_BYTES):
                yield part


Export = Literal["labels.csv", "votes.csv", "model.palda", "report.html"]

_EXPORTS: dict[str, tuple[Callable[..., Iterator[bytes]], str, tuple[Allowed, ...]]] = {
    "labels.csv": (exports.labels_csv, "text/csv; charset=utf-8", WATCHING),
    "votes.csv": (exports.votes_csv, "text/csv; charset=utf-8", ADMINS),
    "model.palda": (exports.model_parts, "application/octet-stream", ADMINS),
    "report.html": (_report, "text/html; charset=utf-8", WATCHING),
}
_UPLOADS = {
    media_type: {"schema": {"type": "string"}, "example": example}
    for media_type, example in {
        "text/csv": "id,text\na1,the match ended in a draw\n",
        "application/x-ndjson": '{"id": "a1", "text": "the match ended in a draw"}\n',
    }.items()
}


def _operation(
    method: str, path: str, allowed: tuple[Allowed, ...] | None, answer: Any = None, status: int = 200, **details: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(endpoint: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS.append(Operation(method, path, endpoint, allowed, answer, status, details))
        return endpoint

    return register


# Labelling


@_operation("POST", "/projects/{project_id}/next", LABELLING, Task | NoTask)
def next_task(call: Leasing, project_id: ProjectId) -> Task | NoTask:
    """Document to judge now.

    The same document until it is answered. Without one, the answer says why.
    """
    return labelling.next_task(call.transaction, call.actor, project_id)


@_operation("POST", "/projects/{project_id}/votes", LABELLING, Receipt)
def submit_votes(call: Writing, project_id: ProjectId, body: bodies.NewAnswer) -> Receipt:
    """Votes on a document, "cannot tell", or skip.

    Acknowledged after it is stored. Sending the same request again changes nothing; the same client id with another
    body is a conflict. An answer is accepted after its lease has expired.
    """
    answer = Answer(body.document_id, body.client_id, body.kind, body.votes)
    return labelling.submit(call.transaction, call.actor, project_id, answer)


@_operation("POST", "/projects/{project_id}/undo", LABELLING, Task | NoTask)
def undo(call: Writing, project_id: ProjectId, body: bodies.Undo) -> Task | NoTask:
    """Take back the last answer.

    Its document comes back with the earlier votes.
    """
    return labelling.undo(call.transaction, call.actor, project_id, body.client_id)


@_operation("GET", "/projects/{project_id}/own-progress", LABELLING, OwnProgress)
def own_progress(call: Call, project_id: ProjectId) -> OwnProgress:
    """Number of documents that the sender has answered."""
    return labelling.own_progress(call.store, call.actor, project_id)


# Session


@_operation("GET", "/health", None, bodies.Health, responses={503: {"model": bodies.Problem}})
def health(request: Request) -> bodies.Health:
    """Whether the server answers and its store can be read."""
    Web.of(request).store.read(lambda connection: connection.execute(select(log_head.c.position)).scalar_one())
    return bodies.Health("ok", palda.__version__)


@_operation("GET", "/session", SIGNED_IN, bodies.Session)
def session(call: Call) -> bodies.Session:
    """Who is signed in."""
    actor = call.actor
    return bodies.Session(actor.person_id, actor.name, actor.is_owner, form_key_of(call.request))


@_operation("DELETE", "/session", SIGNED_IN, status=204)
def sign_out(call: Call) -> Response:
    """Sign out: the credential is worth nothing from now on."""
    credential = credential_of(call.request)
    if credential is not None:
        access.end_session(call.store, credential.token)
    answer = Response(status_code=204)
    clear_session(answer)
    return answer


# Projects


@_operation("GET", "/projects", SIGNED_IN, list[bodies.ProjectSummary])
def list_projects(call: Call) -> list[bodies.ProjectSummary]:
    """Projects that the sender is a member of; all of them for owners."""
    found = projects.projects_of(call.store, call.actor)
    return [bodies.ProjectSummary(one.id, one.name, one.is_paused, one.is_complete) for one in found]


@_operation("POST", "/projects", OWNERS, Project, 201)
def create_project(call: Call, body: bodies.NewProject) -> Project:
    """Create a project."""
    labels = [one if isinstance(one, str) else (one.name, one.description) for one in body.labels]
    return projects.create(call.store, call.actor, body.name, labels, body.settings, body.guidelines)


@_operation("GET", "/projects/{project_id}", EVERYBODY, Project | bodies.AnnotatorProject)
def get_project(call: Call, project_id: ProjectId) -> Project | bodies.AnnotatorProject:
    """A project.

    Annotators see its name, guidelines and classes.
    """
    found = projects.project(call.store, project_id)
    if call.actor.role == "annotator":
        return bodies.AnnotatorProject(found.id, found.name, found.guidelines, found.labels)
    return found


@_operation("PATCH", "/projects/{project_id}", ADMINS, Project)
def change_project(call: Call, project_id: ProjectId, body: bodies.ProjectChange) -> Project:
    """Change the name, guidelines or settings of a project, pause or resume it."""
    return projects.change(call.store, project_id, **body.model_dump(exclude_unset=True))


@_operation("DELETE", "/projects/{project_id}", ADMINS, status=204)
def delete_project(call: Call, project_id: ProjectId) -> None:
    """Delete a project with its documents and votes."""
    projects.delete(call.store, project_id)


@_operation("POST", "/projects/{project_id}/labels", ADMINS, Label, 201)
def add_label(call: Call, project_id: ProjectId, body: bodies.NewLabel) -> Label:
    """Add a class; earlier votes have not judged it."""
    return projects.add_label(call.store, project_id, body.name, body.description)


# Documents


@_operation("GET", "/projects/{project_id}/documents", ADMINS, list[documents.StoredDocument])
def list_documents(
    call: Call, project_id: ProjectId, after: After = 0, limit: Limit = 100
) -> list[documents.StoredDocument]:
    """Documents in the order of their ids."""
    return documents.documents(call.store, project_id, after, limit)


@_operation(
    "POST",
    "/projects/{project_id}/documents",
    ADMINS,
    ImportJob,
    202,
    openapi_extra={"requestBody": {"required": True, "content": _UPLOADS}},
)
async def import_documents(call: Call, project_id: ProjectId) -> ImportJob:
    """Add documents from a table or JSON lines with columns id and text.

    The import goes on after the answer; documents whose id exists already stay as they are.
    """
    request, web = call.request, call.web
    suffix = documents.SUFFIXES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
    if suffix is None:
        raise HTTPException(415, "send documents as text/csv or application/x-ndjson")
    request.scope["palda.body"].max_bytes = web.limits.upload_bytes
    with tempfile.NamedTemporaryFile(prefix="palda-", suffix=suffix) as upload:
        async for part in request.stream():
            upload.write(part)
        upload.flush()

        def start() -> ImportJob:
            rows = documents.read_upload(Path(upload.name), name="the file")
            return documents.start_import(web.store, project_id, rows, web.server_name)

        return await web.slow_requests.run(start)


@_operation("GET", "/projects/{project_id}/imports/{import_id}", ADMINS, ImportJob)
def get_import(call: Call, project_id: ProjectId, import_id: ImportId) -> ImportJob:
    """Progress of an import."""
    return documents.find_import(call.store, project_id, import_id)


@_operation("GET", "/projects/{project_id}/documents/{document_id}", ADMINS, documents.StoredDocument)
def get_document(call: Call, project_id: ProjectId, document_id: DocumentId) -> documents.StoredDocument:
    """A document with its known labels."""
    return documents.find_document(call.store, project_id, document_id)


@_operation("DELETE", "/projects/{project_id}/documents/{document_id}", ADMINS, status=204)
def delete_document(call: Call, project_id: ProjectId, document_id: DocumentId) -> None:
    """Delete a document with its votes."""
    documents.delete_document(call.store, project_id, document_id)


@_operation("PUT", "/projects/{project_id}/documents/{document_id}/gold", ADMINS, documents.StoredDocument)
def set_gold(
    call: Call, project_id: ProjectId, document_id: DocumentId, body: bodies.LabelSet
) -> documents.StoredDocument:
    """Known labels of a document; no label makes all unknown."""
    documents.set_gold(call.store, project_id, document_id, body.labels, call.actor)
    return documents.find_document(call.store, project_id, document_id)


# People


@_operation("GET", "/projects/{project_id}/people", WATCHING, list[Member])
def list_people(call: Call, project_id: ProjectId) -> list[Member]:
    """Members of a project, with the quality of annotators."""
    return people.members(call.store, project_id)


@_operation("POST", "/projects/{project_id}/invitations", ADMINS, bodies.InvitationLink, 201)
def invite(call: Call, project_id: ProjectId, body: bodies.NewInvitation) -> bodies.InvitationLink:
    """Create an invitation link."""
    token = access.invite(call.store, call.actor, project_id, body.role, body.name, body.uses, body.days)
    return bodies.InvitationLink(token, f"/join/{token}")


@_operation("PATCH", "/projects/{project_id}/people/{person_id}", ADMINS, status=204)
def change_person(call: Call, project_id: ProjectId, person_id: PersonId, body: bodies.PersonChange) -> None:
    """Pause or resume a member, change the role or the name."""
    _require_member(call, project_id, person_id)
    if body.name is not None:
        people.rename(call.store, call.actor, project_id, person_id, body.name)
    if body.role is not None:
        people.set_role(call.store, project_id, person_id, body.role)
    if body.is_paused is not None:
        people.set_paused(call.store, project_id, person_id, is_paused=body.is_paused)


@_operation("DELETE", "/projects/{project_id}/people/{person_id}", ADMINS, status=204)
def erase_person(call: Call, project_id: ProjectId, person_id: PersonId) -> None:
    """Remove a member and all their votes."""
    people.erase(call.store, call.actor, project_id, person_id)


@_operation("POST", "/projects/{project_id}/people/{person_id}/pseudonym", ADMINS, bodies.PersonName)
def pseudonymise_person(call: Call, project_id: ProjectId, person_id: PersonId) -> bodies.PersonName:
    """Replace the name of a member by a random one; the votes stay."""
    return bodies.PersonName(people.pseudonymise(call.store, call.actor, project_id, person_id))


@_operation("POST", "/projects/{project_id}/people/{person_id}/tokens", ADMINS, bodies.ApiToken, 201)
def create_token(call: Call, project_id: ProjectId, person_id: PersonId, body: bodies.NewToken) -> bodies.ApiToken:
    """Create a token with which a program acts as a member."""
    if person_id != call.actor.person_id:
        _require_member(call, project_id, person_id)
    return bodies.ApiToken(access.create_api_token(call.store, call.actor, person_id, body.days))


def _require_member(call: Call, project_id: int, person_id: int) -> None:
    call.store.read(lambda connection: people.require_member(connection, project_id, person_id))


# Results


@_operation("GET", "/projects/{project_id}/status", WATCHING, ProjectStatus)
def get_status(call: Call, project_id: ProjectId) -> ProjectStatus:
    """Progress and expected errors of a project."""
    return results.status(call.store, project_id)


@_operation(
    "GET",
    "/projects/{project_id}/events",
    WATCHING,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events of the kind status",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def events(call: Call, project_id: ProjectId) -> Response:
    """Status of a project whenever it changes, as server-sent events."""
    hub: EventHub = call.request.app.state.events
    hub.check(call.actor.credential_id)
    may_see = partial(current_actor, call.request, project_id, WATCHING)
    parts = hub.listen(project_id, call.actor.credential_id, may_see)
    return StreamingResponse(parts, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@_operation("GET", "/projects/{project_id}/consensus", WATCHING, list[ConsensusRow])
def consensus(call: Call, project_id: ProjectId, after: After = 0, limit: Limit = 100) -> list[ConsensusRow]:
    """Probability of each class per document."""
    return results.consensus(call.store, project_id, after, limit)


@_operation("GET", "/projects/{project_id}/doubtful", ADMINS, list[DoubtfulDocument])
def doubtful(call: Call, project_id: ProjectId, limit: Limit = 20) -> list[DoubtfulDocument]:
    """Documents whose labels are the most doubtful, with their votes and evidence."""
    return results.doubtful(call.store, project_id, limit)


@_operation("POST", "/projects/{project_id}/doubtful/{document_id}", ADMINS, status=204)
def adjudicate(call: Call, project_id: ProjectId, document_id: DocumentId, body: bodies.LabelSet) -> None:
    """Decide the labels of a document; the decision becomes gold."""
    documents.set_gold(call.store, project_id, document_id, body.labels, call.actor)


@_operation(
    "GET",
    "/projects/{project_id}/exports/{export}",
    WATCHING,
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                media_type.partition(";")[0]: {"schema": {"type": "string"}} for _, media_type, _ in _EXPORTS.values()
            }
        },
        409: {"model": bodies.Problem, "description": "There is nothing to export yet"},
    },
)
async def export(call: Call, project_id: ProjectId, export: Export) -> Response:
    """A file with results.

    Viewers may read labels.csv, and report.html without single votes; admins all.
    """
    write, media_type, allowed = _EXPORTS[export]
    if call.actor.role not in allowed:
        raise NotAllowedError(f"only admins may read {export}")

    def begin() -> Iterator[bytes]:
        details = {"has_votes": call.actor.role == "admin"} if export == "report.html" else {}
        parts = iter(write(call.store, project_id, **details))
        return chain([next(parts, b"")], parts)  # errors before the first part are answers

    parts = await call.web.slow_requests.run(begin)
    disposition = {"Content-Disposition": f'attachment; filename="{export}"'}
    return StreamingResponse(parts, media_type=media_type, headers=disposition)
