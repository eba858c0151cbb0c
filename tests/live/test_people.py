"""Credentials and names of people: who can get in, and what an admin of one project may not reach in another."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.live.world import MANY, World, client, make_world, serving
from tests.live_projects import Newsroom, run

from palda.live import report_file, schema
from palda.live.errors import ConflictError, InvalidRequestError, NotAllowedError, NotFoundError, NotSignedInError
from palda.live.records import Answer, Task
from palda.live.service import access, documents, exports, labelling, people
from palda.live.store import open_store
from palda.live.web import create_app

API = "/api/v1"


def test_the_owner_finds_no_project_that_does_not_exist(world: World, url: str) -> None:
    with client(url, world.tokens["owner"]) as api:
        for path in ("people", "documents", "consensus", "doubtful", "own-progress", "exports/votes.csv"):
            assert api.get(f"{API}/projects/999/{path}").status_code == 404, path


def test_a_link_made_in_one_project_does_not_reach_another_that_the_person_joins(world: World) -> None:
    store, admin = world.store, access.enter(world.store, world.tokens["admin"], world.project)
    link = access.invite(store, admin, world.project, "annotator", "the annotator")
    token = access.create_api_token(store, admin, world.ids["annotator"])
    taken, _ = access.accept(store, link)
    person = access.enter(store, world.session("annotator"))
    joined, _ = access.accept(store, access.invite(store, world.owner, world.other_project, "annotator"), None, person)
    assert access.enter(store, joined, world.other_project).person_id == person.person_id
    for known_to_admin in (token, taken):
        with pytest.raises(NotSignedInError):
            access.enter(store, known_to_admin, world.other_project)
    with pytest.raises(NotFoundError):
        access.accept(store, link)
    access.enter(store, world.tokens["annotator"], world.other_project)  # made by the owner


def test_credentials_that_come_from_a_link_of_an_admin_end_with_it(world: World) -> None:
    store, admin = world.store, access.enter(world.store, world.tokens["admin"], world.project)
    person = world.add_person("other admin", "admin", world.project)
    taken, _ = access.accept(store, access.invite(store, admin, world.project, "admin", "the other admin"))
    as_other = access.enter(store, taken, world.project)
    kept = [
        access.accept(store, access.invite(store, as_other, world.project, "viewer"), None, as_other)[0],
        access.create_api_token(store, as_other, person),
    ]
    assert {access.enter(store, token).person_id for token in kept} == {person}
    own = access.enter(store, world.session("other admin"))
    access.accept(store, access.invite(store, world.owner, world.other_project, "viewer"), None, own)
    for token in (taken, *kept):
        with pytest.raises(NotSignedInError):
            access.enter(store, token)


@pytest.mark.parametrize("how", ["role", "erasure"])
def test_who_is_no_longer_admin_has_no_way_back(world: World, how: str) -> None:
    store, admin = world.store, access.enter(world.store, world.tokens["admin"], world.project)
    open_link = access.invite(store, admin, world.project, "admin")
    other = world.add_person("other admin", "admin", world.project)
    token = access.create_api_token(store, admin, other)
    if how == "role":
        people.set_role(store, world.project, admin.person_id, "viewer")
        assert access.enter(store, world.tokens["admin"], world.project).role == "viewer"
    else:
        people.erase(store, world.owner, world.project, admin.person_id)
    with pytest.raises(NotFoundError):
        access.accept(store, open_link, "somebody")
    with pytest.raises(NotSignedInError):
        access.enter(store, token)
    assert access.enter(store, world.tokens["other admin"], world.project).role == "admin"


def test_a_new_name_that_is_a_formula_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequestError, match="formula"):
        people.rename(world.store, world.owner, world.project, world.ids["annotator"], "=1+1")


def test_owners_invite_members_of_other_projects_by_name_and_admins_do_not(world: World) -> None:
    store, admin = world.store, access.enter(world.store, world.tokens["admin"], world.project)
    token = access.create_api_token(store, admin, world.ids["annotator"])
    other_admin = access.enter(store, world.tokens["admin of another project"], world.other_project)
    with pytest.raises(ConflictError, match="link without a name"):
        access.invite(store, other_admin, world.other_project, "viewer", "the annotator")
    link = access.invite(store, world.owner, world.other_project, "viewer", "the annotator")
    actor = access.enter(store, access.accept(store, link)[0], world.other_project)
    assert (actor.person_id, actor.role) == (world.ids["annotator"], "viewer")
    assert access.enter(store, world.tokens["annotator"], world.project).role == "annotator"
    with pytest.raises(NotSignedInError):  # its maker would get into a project of others
        access.enter(store, token)
    with pytest.raises(ConflictError):  # the link would sign in the owner
        access.invite(store, world.owner, world.project, "annotator", world.owner.name)


def test_nobody_else_on_the_machine_reads_a_new_store(tmp_path: Path) -> None:
    open_store(tmp_path / "project.db").close()
    assert (tmp_path / "project.db").stat().st_mode & 0o077 == 0


def _answer(world: World, person: str, document_id: int) -> None:
    actor = access.enter(world.store, world.tokens[person], world.project)
    votes = Answer(document_id, f"{person}-{document_id}", "votes", {world.label_ids[0]: 1})
    labelling.submit(world.store, actor, world.project, votes)


def test_the_owner_is_listed_and_can_be_pseudonymised_and_erased_after_labelling(world: World) -> None:
    store, owner = world.store, world.owner
    known = {one.person_id for one in people.members(store, world.project)}
    assert owner.person_id not in known
    task = labelling.next_task(store, access.enter(store, world.tokens["owner"], world.project), world.project)
    assert isinstance(task, Task)
    _answer(world, "owner", task.document_id)
    (listed,) = (one for one in people.members(store, world.project) if one.person_id not in known)
    assert (listed.person_id, listed.role, listed.is_owner, listed.n_documents) == (owner.person_id, "admin", True, 1)
    assert people.pseudonymise(store, owner, world.project, owner.person_id).startswith("annotator-")
    link = access.invite(store, owner, world.project, "annotator")
    people.erase(store, owner, world.project, owner.person_id)
    assert {one.person_id for one in people.members(store, world.project)} == known
    assert b"".join(exports.votes_csv(store, world.project)).count(b"\n") == 1  # the header
    assert documents.find_document(store, world.project, task.document_id).n_looks == 0
    assert access.enter(store, world.tokens["owner"], world.project).role == "admin"
    access.accept(store, link, "somebody")  # links of the owner stay
    with pytest.raises(NotFoundError):
        people.erase(store, owner, world.project, owner.person_id)


def test_changes_of_a_person_are_made_together_or_not_at_all(world: World, url: str) -> None:
    owner = access.enter(world.store, world.tokens["owner"], world.project)
    task = labelling.next_task(world.store, owner, world.project)
    assert isinstance(task, Task)
    _answer(world, "owner", task.document_id)
    with client(url, world.tokens["owner"]) as api:
        path = f"{API}/projects/{world.project}/people/{owner.person_id}"
        assert api.patch(path, json={"name": "somebody else", "is_paused": True}).status_code == 404
    assert access.enter(world.store, world.tokens["owner"]).name == owner.name


def test_a_name_that_is_erased_leaves_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.live.store._CHECKPOINT_SECONDS", 0.01)
    monkeypatch.setattr("palda.live.store._TRUNCATE_SECONDS", 0.01)
    world = make_world(tmp_path)
    person = world.add_person("Wilhelmina", "annotator", world.project)

    def is_there() -> bool:
        return any(b"Wilhelmina" in path.read_bytes() for path in tmp_path.iterdir())

    assert is_there()
    people.erase(world.store, world.owner, world.project, person)
    end = time.monotonic() + 20
    while is_there() and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_there()
    world.store.close()


def test_a_lease_that_expired_is_not_an_answer(world: World) -> None:
    store, annotator = world.store, access.enter(world.store, world.tokens["annotator"], world.project)
    labelling.next_task(store, annotator, world.project)
    store.write(lambda connection: connection.execute(update(schema.lease).values(expires_at=1.0)).rowcount)
    labelling.next_task(store, access.enter(store, world.tokens["admin"], world.project), world.project)
    (member,) = (one for one in people.members(store, world.project) if one.person_id == annotator.person_id)
    assert member.last_answer_at is None


def test_admins_of_a_project_do_not_erase_the_owner(world: World) -> None:
    task = labelling.next_task(
        world.store, access.enter(world.store, world.tokens["owner"], world.project), world.project
    )
    assert isinstance(task, Task)
    _answer(world, "owner", task.document_id)
    admin = access.enter(world.store, world.tokens["admin"], world.project)
    with pytest.raises(NotAllowedError):
        people.erase(world.store, admin, world.project, world.owner.person_id)


def test_of_many_sessions_of_a_person_the_oldest_end(world: World) -> None:
    store = world.store
    link = access.invite(store, world.owner, world.project, "annotator", "the annotator")
    sessions = [access.accept(store, link)[0] for _ in range(access.MAX_SESSIONS + 2)]
    for ended in sessions[:2]:
        with pytest.raises(NotSignedInError):
            access.enter(store, ended)
    for token in (*sessions[2:], world.tokens["annotator"]):  # tokens of programs are no sessions
        access.enter(store, token)


@pytest.mark.slow
def test_the_report_for_viewers_shows_no_single_vote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    news = Newsroom(tmp_path / "news.db")
    news.label(24)
    learner = news.learner()
    run(learner, lambda: bool(news.rows("project")[0]["generation"]))
    learner.close()
    path = tmp_path / "report.html"
    exports.write_report_file(news.store, news.id, path, has_votes=False)
    assert not re.search(r'"yes": ?\[\d', path.read_text())
    monkeypatch.setenv(exports.STORE_VARIABLE, news.url)
    report_file.main(news.id, path, has_votes=True)
    assert re.search(r'"yes": ?\[\d', path.read_text())
    news.store.close()


def test_only_admins_get_the_report_with_votes(world: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def write(_store: object, _project_id: int, path: Path, *, has_votes: bool) -> None:
        asked.append(has_votes)
        path.write_text("report")

    monkeypatch.setattr(exports, "write_report_file", write)
    for name in ("viewer", "admin", "owner"):
        with client(url, world.tokens[name]) as api:
            assert api.get(f"{API}/projects/{world.project}/exports/report.html").text == "report"
    assert asked == [False, True, True]


@pytest.mark.parametrize(("waiting", "per_person"), [(2, 9), (9, 3)])
def test_slow_requests_do_not_pile_up_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch, waiting: int, per_person: int
) -> None:
    limits = replace(MANY, slow_requests=1, waiting_slow_requests=waiting, slow_requests_per_person=per_person)
    is_done = threading.Event()

    def write(_store: object, _project_id: int, path: Path, *, has_votes: bool) -> None:
        is_done.wait(60)
        path.write_text(f"report {has_votes}")

    monkeypatch.setattr(exports, "write_report_file", write)
    path = f"{API}/projects/{world.project}/exports/report.html"
    with serving(create_app(world.store, limits=limits)) as address:

        def ask() -> int:
            with client(address, world.tokens["viewer"]) as api:
                status = api.get(path).status_code
            if status == 429:
                is_done.set()
            return status

        with ThreadPoolExecutor(4) as pool:
            statuses = sorted(one.result() for one in [pool.submit(ask) for _ in range(4)])
    assert statuses == [200, 200, 200, 429]
