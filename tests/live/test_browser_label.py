"""The page of annotators: keyboard, undo, reasons to wait, lost connections, expired sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")

from sqlalchemy import delete, insert, update
from tests.live.page_server import PageServer
from tests.live.watched import BROWSER_MARKS, PHONE, Person

from palda.live import schema
from palda.live.records import Project
from palda.live.service import documents, projects

pytestmark = BROWSER_MARKS

CLASSES = ("crime", "sport", "money")
TEXTS = {f"news-{number}": f"text of document {number}" for number in range(12)}


@pytest.fixture
def project(server: PageServer) -> Project:
    return server.project("News", CLASSES, TEXTS, "Choose all that apply.")


@pytest.fixture
def join(browser: Any, server: PageServer, project: Project) -> Iterator[Callable[..., Person]]:
    """People who join the project as annotators; afterwards their pages had no faults."""
    people: list[Person] = []

    def add(name: str, **options: Any) -> Person:
        people.append(Person(browser, server.url, server.join_link(project.id), name, **options))
        wait_for_document(people[-1].page)
        return people[-1]

    yield add
    faults = [fault for person in people for fault in person.without_network_faults()]
    for person in people:
        person.close()
    assert faults == []


def wait_for_document(page: Any, other_than: str = "") -> str:
    """Name of the document on the page, when the page waits for an answer."""
    page.wait_for_function(
        """other => document.querySelector("main").ariaBusy === "false"
            && !document.getElementById("work").hidden
            && document.getElementById("document-name").textContent !== other""",
        arg=f"Document {other_than}",
    )
    return str(page.inner_text("#document-name")).removeprefix("Document ")


def answer(page: Any, *keys: str) -> str:
    """Type keys; returns the document that they were about, when the next one is there."""
    name = wait_for_document(page)
    for key in keys:
        page.keyboard.press(key)
    wait_for_document(page, name)
    return name


def votes_of(server: PageServer, project: Project, person: str) -> dict[str, list[int]]:
    """Values in the order of the classes, per document."""
    found: dict[str, list[int]] = {}
    for (document, who, _), value in sorted(
        server.current_votes(project.id).items(), key=lambda entry: CLASSES.index(entry[0][2])
    ):
        if who == person:
            found.setdefault(document, []).append(value)
    return found


def test_the_token_of_an_invitation_leaves_the_address(join: Callable[..., Person]) -> None:
    person = join("Anna")
    assert re.search(r"/projects/\d+/label$", person.page.url)
    cookie = next(one for one in person.context.cookies() if one["name"] == "palda_session")
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"


def test_documents_are_labelled_by_keyboard(server: PageServer, project: Project, join: Callable[..., Person]) -> None:
    page = join("Anna").page
    assert page.inner_text(".toggle >> nth=1") == "2\nsport"
    first = answer(page, "1", "3", "Enter")
    second = answer(page, "0")
    third = answer(page, "1", "1", "2", "Enter")
    told = answer(page, "t")
    skipped = answer(page, "s")
    assert votes_of(server, project, "Anna") == {first: [1, 0, 1], second: [0, 0, 0], third: [0, 1, 0]}
    assert len({first, second, third, told, skipped}) == 5
    assert page.inner_text("#own") == "4 documents judged, 4 today"


def test_undo_brings_the_last_answer_back(server: PageServer, project: Project, join: Callable[..., Person]) -> None:
    page = join("Anna").page
    first = answer(page, "2", "Enter")
    page.keyboard.press("u")
    page.wait_for_function(
        "name => document.getElementById('document-name').textContent === name", arg=f"Document {first}"
    )
    page.wait_for_selector("#toggles input:checked", state="attached")
    assert "taken back" in page.inner_text("#said")
    assert answer(page, "1", "Enter") == first
    assert votes_of(server, project, "Anna") == {first: [1, 1, 0]}


def test_an_empty_choice_is_asked_about_and_a_choice_is_not_dropped_silently(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    page.keyboard.press("Enter")
    assert "None of these" in page.inner_text("#said")
    page.keyboard.press("2")
    page.keyboard.press("0")
    assert "cleared" in page.inner_text("#said")
    assert page.locator("#toggles input:checked").count() == 0
    assert server.n_submissions(project.id) == 0
    page.keyboard.press("3")
    page.reload()
    wait_for_document(page)
    assert page.locator("#toggles input:checked").get_attribute("data-key") == "3"  # the choice survives a reload


def test_a_mouse_click_and_enter_work_together(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    page.click(".toggle:has-text('sport')")
    name = answer(page, "Enter")
    assert votes_of(server, project, "Anna") == {name: [0, 1, 0]}
    page.click("summary >> text=Keyboard")
    page.uncheck("#use-keys")
    page.keyboard.press("1")
    assert page.locator("#toggles input:checked").count() == 0


def test_a_class_that_is_added_appears_with_the_next_document(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    projects.add_label(server.store, project.id, "weather", "storms and floods")
    answer(page, "1", "Enter")
    assert page.inner_text(".toggle >> nth=3") == "4\nweather"
    page.keyboard.press("g")
    assert page.inner_text("#descriptions") == "weather\nstorms and floods"


def test_only_the_classes_that_are_asked_for_are_shown(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    document_id = next(key for name, key in server.document_ids(project.id).items() if name != wait_for_document(page))
    row = {"project_id": project.id, "person_id": 2, "rank": 0, "document_id": document_id, "purpose": "gain"}
    row |= {"gain": 1.0, "label_ids": [project.labels[1].id], "position": 0}
    server.store.write(lambda connection: connection.execute(insert(schema.queue).values(**row)).rowcount)
    answer(page, "1", "Enter")
    assert page.locator(".toggle").all_inner_texts() == ["1\nsport"]
    assert "Only 1 class of 3" in page.inner_text("#mode")
    name = answer(page, "1", "Enter")
    assert votes_of(server, project, "Anna")[name] == [1]


def test_the_page_says_why_there_is_nothing_to_do_and_goes_on_by_itself(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    projects.change(server.store, project.id, is_paused=True)
    page.keyboard.press("0")
    page.wait_for_selector("#rest:visible")
    assert page.inner_text("#rest-title") == "The project is paused"
    projects.change(server.store, project.id, is_paused=False)
    page.click("#look-now")
    wait_for_document(page)
    finished = update(schema.project).values(is_complete=True)
    server.store.write(lambda connection: connection.execute(finished).rowcount)
    page.keyboard.press("0")
    page.wait_for_selector("#rest:visible")
    assert page.inner_text("#rest-title") == "The project is finished"
    page.route("**/undo", lambda route: route.abort())
    page.click("#rest-undo")
    page.wait_for_selector("#rest-said:has-text('not taken back')")


# Lost connections


def test_an_answer_survives_a_stopped_server(server: PageServer, project: Project, join: Callable[..., Person]) -> None:
    page = join("Anna").page
    name = wait_for_document(page)
    server.stop()
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#sending:visible")
    page.wait_for_selector("#sending-text:has-text('Not sent yet: 1')")
    server.start()
    wait_for_document(page, name)
    assert page.is_hidden("#sending")
    assert votes_of(server, project, "Anna") == {name: [1, 0, 0]}
    assert server.n_submissions(project.id) == 1


def test_an_answer_survives_a_reload_before_it_was_sent(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    name = wait_for_document(page)
    page.route("**/votes", lambda route: route.abort())
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.wait_for_selector("#sending:visible")
    page.unroute("**/votes")
    page.reload()
    wait_for_document(page, name)
    assert votes_of(server, project, "Anna") == {name: [0, 1, 0]}


def test_an_answer_whose_acknowledgement_is_lost_is_stored_once(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna").page
    sent: list[str] = []

    def lose(route: Any) -> None:
        sent.append(route.request.post_data)
        if len(sent) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    name = wait_for_document(page)
    page.route("**/votes", lose)
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    wait_for_document(page, name)
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert server.n_submissions(project.id) == 1
    assert votes_of(server, project, "Anna") == {name: [0, 0, 1]}


def test_work_goes_on_after_the_network_was_gone(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    person = join("Anna")
    names = [answer(person.page, "1", "Enter")]
    person.context.set_offline(True)
    names.append(wait_for_document(person.page))
    person.page.keyboard.press("0")
    person.page.wait_for_selector("#sending:visible")
    person.context.set_offline(False)
    names.append(wait_for_document(person.page, names[-1]))
    answer(person.page, "2", "Enter")
    votes = votes_of(server, project, "Anna")
    assert votes == dict(zip(names, ([1, 0, 0], [0, 0, 0], [0, 1, 0]), strict=True))
    assert server.n_submissions(project.id) == 3


def test_an_answer_is_kept_until_the_person_signs_in_again(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    person = join("Anna")
    name = wait_for_document(person.page)
    gone = delete(schema.credential).where(schema.credential.c.kind == "session")
    server.store.write(lambda connection: connection.execute(gone).rowcount)
    person.page.keyboard.press("1")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#sending-text:has-text('signed out')")
    assert "Not sent yet: 1" in person.page.inner_text("#sending-text")
    assert server.n_submissions(project.id) == 0
    other = server.join_link(project.id, "annotator", "Ben")
    person.sign_in(other)
    wait_for_document(person.page)
    assert server.n_submissions(project.id) == 0  # Anna's answer is not sent as Ben's
    person.sign_in(server.join_link(project.id, "annotator", "Anna"))
    wait_for_document(person.page, name)
    assert votes_of(server, project, "Anna") == {name: [1, 0, 0]}
    person.faults[:] = [fault for fault in person.faults if "status of 401" not in fault]


def test_an_answer_that_is_refused_is_told_and_does_not_block(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    person = join("Anna")
    name = wait_for_document(person.page)
    documents.delete_document(server.store, project.id, server.document_ids(project.id)[name])
    person.page.keyboard.press("1")
    person.page.keyboard.press("Enter")
    wait_for_document(person.page, name)
    assert "did not accept an answer" in person.page.inner_text("#refused")
    person.page.click("#refused-seen")
    assert person.page.is_hidden("#refused")
    server.store.write(lambda connection: connection.execute(delete(schema.lease)).rowcount)  # as in an older backup
    person.page.keyboard.press("0")
    person.page.wait_for_selector("#refused-text:has-text('was not given to you')")
    wait_for_document(person.page)
    assert person.page.is_hidden("#sending")
    known = ("status of 404", "status of 409")
    person.faults[:] = [fault for fault in person.faults if not any(one in fault for one in known)]


def test_a_phone_shows_text_classes_and_actions(
    server: PageServer, project: Project, join: Callable[..., Person]
) -> None:
    page = join("Anna", viewport=PHONE, has_touch=True, is_mobile=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    name = wait_for_document(page)
    page.tap(".toggle:has-text('money')")
    page.tap("#submit")
    wait_for_document(page, name)
    assert votes_of(server, project, "Anna") == {name: [0, 0, 1]}
