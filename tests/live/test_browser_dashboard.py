"""Dashboard, adjudication, projects and settings in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")

from sqlalchemy import select
from tests.live.page_server import PageServer
from tests.live.watched import BROWSER_MARKS, Person

from palda.live import schema
from palda.live.records import AnnotatorEstimate, Project, ProjectEstimate
from palda.live.service import documents, people, projects

pytestmark = BROWSER_MARKS

CLASSES = ("crime", "sport", "money")
TEXTS = {f"news-{number}": f"text of document {number}" for number in range(8)}


@pytest.fixture
def project(server: PageServer) -> Project:
    """Two annotators have judged two documents; the learner has said what it thinks of it."""
    made = server.project("News", CLASSES, TEXTS)
    labels, ids = [label.id for label in made.labels], server.document_ids(made.id)
    estimates = []
    for name, value, quality, verdict in [("Anna", 1, 0.9, "reliable"), ("Ben", 0, 0.5, "spammer")]:
        actor = server.annotator(made.id, name)
        for key in ("news-0", "news-1"):
            server.answer(actor, made.id, ids[key], dict.fromkeys(labels, value), f"{name} {key}".replace(" ", "-"))
        alarms = ("spammer: the votes do not depend on the labels",) if verdict == "spammer" else ()
        estimate = AnnotatorEstimate(quality, quality - 0.1, quality + 0.05, 0.8, 0.9, 2, verdict, alarms)
        estimates.append((actor.person_id, estimate))
    server.write_estimates(made.id, estimates)
    sure = {key: [0.01, 0.02, 0.99] for key in ids.values()}
    words = {ids["news-1"]: {str(labels[0]): [["robbery", 1.5], ["match", -0.7]]}}
    server.write_posterior(made.id, {**sure, ids["news-1"]: [0.6, 0.2, 0.9], ids["news-0"]: [0.3, 0.01, 0.02]}, words)
    server.write_progress(made.id, 1, expected(2, 6.0))
    server.write_progress(made.id, 2, expected(4, 3.0))
    server.write_learner(made.id, "waiting")
    return made


@pytest.fixture
def admin(browser: Any, server: PageServer, project: Project) -> Iterator[Person]:
    person = Person(browser, server.url, f"{server.url}/join/{server.owner_link}")
    yield person
    faults = person.without_network_faults()
    person.close()
    assert faults == []


def expected(n_votes: int, wrong: float, *, is_met: bool = False) -> ProjectEstimate:
    return ProjectEstimate(n_votes, 2, wrong, wrong + 1.5, 24, 0.9, wrong, 10.0, 1, is_met)


def member_names(server: PageServer, project: Project) -> set[str]:
    return {one.name for one in people.members(server.store, project.id)}


def test_the_dashboard_follows_without_a_reload(server: PageServer, project: Project, admin: Person) -> None:
    admin.page.clock.install()
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.evaluate("() => { window.notReloaded = true; }")
    page.wait_for_selector("#connection:has-text('Live')")
    assert page.inner_text("[data-field=judged]") == "2 of 8"
    assert page.inner_text("[data-field=wrong]") == "12.5%"
    assert page.inner_text("[data-field=saved]") == "6 (60%)"
    assert page.get_attribute("#chart svg", "aria-label").startswith(
        "Share of wrong labels against votes: expected 25.0%"
    )
    anna = server.annotator(project.id, "Anna")
    document_id = server.document_ids(project.id)["news-5"]
    server.answer(anna, project.id, document_id, {project.labels[0].id: 1}, "one-more")
    assert "provisional" not in page.inner_text("#progress-text")
    page.wait_for_selector("#learner-state:has-text('1 vote is not in the estimate yet.')")
    server.write_learner(project.id, "waiting", position=1_000_000)
    page.wait_for_selector("#learner-state:text-is('The learner waits for votes.')")
    server.write_progress(project.id, 3, replace(expected(5, 2.4), n_labels=48, is_provisional=True))
    page.wait_for_selector("[data-field=judged]:has-text('3 of 8')")
    page.wait_for_selector("[data-field=wrong]:has-text('5.0%')")
    page.wait_for_selector("#people tr:has-text('Anna') td:nth-child(4):has-text('3')")
    assert page.locator("#chart-table td:nth-child(2)").all_text_contents() == ["25.0%", "12.5%", "5.0%"]
    assert "these numbers are provisional" in page.inner_text("#progress-text")
    server.annotator(project.id, "Dora")  # who joins is no event
    page.clock.fast_forward(30_000)
    page.wait_for_selector("#people tr:has-text('Dora')")
    assert page.evaluate("() => window.notReloaded")


def test_a_contradiction_by_known_labels_and_models_are_plainly_visible(
    server: PageServer, project: Project, admin: Person
) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.wait_for_selector("#connection:has-text('Live')")
    assert page.is_hidden("#contradiction")
    assert page.is_hidden("#models")
    told = {"contradiction": "9 of 30 gold labels are wrong", "models": "all votes are by 3 models"}
    server.write_progress(project.id, 3, replace(expected(5, 2.4), **told))
    page.wait_for_selector("#contradiction:visible")
    assert "9 of 30 gold labels are wrong." in page.inner_text("#contradiction")
    assert page.inner_text("#models") == "All votes are by 3 models."


def test_annotators_are_shown_with_interval_verdict_and_alarm(
    server: PageServer, project: Project, admin: Person
) -> None:
    document_id = server.document_ids(project.id)["news-5"]
    server.answer(server.owner, project.id, document_id, {project.labels[0].id: 1}, "owner")
    page = admin.open(f"/projects/{project.id}/dashboard")
    owner = page.locator("#people tr:has-text('owner')")
    assert "not estimated yet" in owner.inner_text()
    assert owner.locator("button:visible").all_inner_texts() == ["Manage"]  # the owner cannot be paused
    row = page.locator("#people tr:has-text('Anna')")
    assert "0.90 (0.80–0.95)" in row.inner_text()
    assert row.locator("svg .bar").count() == 1
    assert "Ben" in page.inner_text("#alarm-list")
    assert "do not depend on the labels" in page.inner_text("#alarm-list")
    assert page.inner_text("#contested li >> nth=0").startswith("news-1")


def test_a_failed_learner_is_plainly_visible(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    assert page.is_hidden("#learner-problem")
    server.write_learner(project.id, "failed", "MemoryError: 3 GB", n_failures=2)
    page.wait_for_selector("#learner-problem:visible")
    assert "MemoryError: 3 GB. It has failed 2 times." in page.inner_text("#learner-problem")


def test_a_lost_connection_is_shown_and_ends(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.wait_for_selector("#connection:has-text('Live')")
    server.stop()
    page.wait_for_selector("#connection:has-text('Connection lost')")
    server.write_progress(project.id, 3, expected(5, 0.24, is_met=True))
    server.start()
    page.wait_for_selector("#connection:has-text('Live')")
    page.wait_for_selector("[data-field=wrong]:has-text('1.0%')")
    page.wait_for_selector("#progress-text:has-text('The target is met.')")


def test_somebody_is_invited_paused_and_erased(
    browser: Any, server: PageServer, project: Project, admin: Person
) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.fill("#invite-name", "Chiara")
    page.click("text=Make a link")
    page.wait_for_selector("#invited:visible")
    page.wait_for_selector("#people tr:has-text('Chiara')")
    chiara = Person(browser, server.url, page.input_value("#invite-link"))
    chiara.page.wait_for_selector("#work:visible")
    page.click("#people button[aria-label='Pause Ben']")
    page.wait_for_selector("#people button[aria-label='Resume Ben']")
    assert next(one for one in people.members(server.store, project.id) if one.name == "Ben").is_paused
    page.wait_for_selector("#alarms", state="hidden")  # the alarm was about somebody who no longer gets documents
    page.click("button[aria-label='Manage Ben']")
    page.click("dialog >> text=Erase …")
    page.click("#confirm >> text=Cancel")
    assert "Ben" in member_names(server, project)
    page.click("dialog >> text=Erase …")
    page.click("#confirm-yes")
    page.wait_for_selector("#people tr:has-text('Ben')", state="detached")
    assert member_names(server, project) == {"Anna", "Chiara"}
    page.click("button[aria-label='Manage Anna']")
    page.select_option("#manage-role", "viewer")
    page.wait_for_selector("#people tr:has-text('Anna'):has-text('viewer')")
    page.click("dialog >> text=New sign-in link")
    page.wait_for_selector("#manage-link:visible")
    assert "/join/" in page.input_value("#manage-link")
    page.click("dialog >> text=Replace the name")
    page.click("#confirm-yes")
    page.wait_for_selector("#people tr:has-text('Anna')", state="detached")
    assert "Anna" not in member_names(server, project)
    faults = chiara.faults
    chiara.close()
    assert faults == []


def test_the_project_is_paused_and_resumed(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.click("text=Pause the project")
    page.wait_for_selector("#project-state:has-text('Paused')")
    assert projects.project(server.store, project.id).is_paused
    page.click("text=Resume the project")
    page.wait_for_selector("#project-state:has-text('Labelling')")
    assert not projects.project(server.store, project.id).is_paused


def test_labels_are_downloaded(project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    with page.expect_download() as started:
        page.click("text=labels.csv")
    assert started.value.suggested_filename == "labels.csv"
    assert "news-1" in Path(started.value.path()).read_text()


def test_a_viewer_sees_results_and_cannot_change_anything(browser: Any, server: PageServer, project: Project) -> None:
    viewer = Person(browser, server.url, server.join_link(project.id, "viewer", "Vera"))
    page = viewer.open(f"/projects/{project.id}/dashboard")
    page.wait_for_selector("#connection:has-text('Live')")
    page.wait_for_selector("#people tr:has-text('Anna')")
    assert page.locator("main button, main form").count() == 0
    assert page.locator(".top nav a").all_inner_texts() == ["Dashboard"]
    faults = viewer.faults.copy()
    assert viewer.open(f"/projects/{project.id}/settings").inner_text("h1") == "Not allowed"
    viewer.close()
    assert faults == []


def test_a_doubtful_document_is_decided_by_keyboard(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/adjudicate")
    page.wait_for_selector("#document-name:has-text('news-1')")
    assert page.locator("#votes-body tr").all_inner_texts()[0].split("\t") == ["Anna", "0.90", "yes", "yes", "yes"]
    assert page.locator("#words dd").first.inner_text() == "+ robbery − match"
    checked = page.locator("#toggles input:checked").evaluate_all("inputs => inputs.map(input => input.dataset.key)")
    assert checked == ["1", "3"]  # what is more probable than not
    page.evaluate("() => localStorage.setItem('palda-no-keys', '1')")
    page.keyboard.press("1")
    assert page.locator("#toggles input:checked").count() == 2
    page.evaluate("() => localStorage.removeItem('palda-no-keys')")
    page.keyboard.press("1")
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.wait_for_selector("#document-name:has-text('news-0')")
    first, second, third = (label.id for label in project.labels)
    decided = documents.find_document(server.store, project.id, server.document_ids(project.id)["news-1"])
    assert decided.gold == {first: 0, second: 1, third: 1}
    page.keyboard.press("u")
    page.wait_for_selector("#document-name:has-text('news-1')")
    assert "decided" in page.inner_text("#place")


def test_the_dashboard_leads_to_a_contested_document(project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/dashboard")
    page.click("#contested a >> text=news-0")
    page.wait_for_selector("#document-name:has-text('news-0')")
    assert page.inner_text("#place").startswith("1 of the ")


def test_a_list_that_cannot_be_loaded_is_not_taken_for_an_empty_one(
    server: PageServer, project: Project, admin: Person
) -> None:
    admin.page.route("**/doubtful?*", lambda route: route.abort())
    page = admin.open(f"/projects/{project.id}/adjudicate")
    page.wait_for_selector("#problem:has-text('cannot be reached')")
    assert page.is_hidden("#rest")
    page = admin.open(f"/projects/{project.id}/adjudicate?document={server.document_ids(project.id)['news-0']}")
    page.wait_for_selector("#document-name:has-text('news-0')")


def test_a_project_is_created_by_dropping_a_file(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open("/projects")
    page.click("summary >> text=New project")
    page.fill("#name", "Letters")
    page.fill("#classes", "praise: of our work\ncomplaint\n")
    page.fill("#target", "1.5")
    assert page.inner_text("#classes-read") == "2 classes: praise (of our work) · complaint"
    lines = "\n".join(json.dumps({"id": f"l{number}", "text": f"dear sirs {number}"}) for number in range(30))
    beside = "() => document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true }))"
    assert not page.evaluate(beside)  # the browser would open the file instead of the page
    drop_file(page, "letters.jsonl", lines)
    assert page.inner_text("#chosen-file").startswith("letters.jsonl")
    polls: list[Any] = []

    def lose_first(route: Any) -> None:
        polls.append(route)
        route.abort() if len(polls) == 1 else route.continue_()

    page.route("**/imports/*", lose_first)
    page.click("text=Create the project")
    page.wait_for_url(re.compile(r"/projects/\d+/dashboard"))
    page.wait_for_selector("[data-field=judged]:has-text('0 of 30')")
    assert len(polls) > 1
    assert page.is_visible("text=votes.csv")
    assert page.is_hidden("text=report.html")  # there is no fit yet
    made = next(one for one in projects.projects_of(server.store, server.owner) if one.name == "Letters")
    assert [(label.name, label.description) for label in made.labels] == [("praise", "of our work"), ("complaint", "")]
    assert made.settings.target_error == 0.015


def test_a_faulty_file_is_explained_and_another_one_taken(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open("/projects")
    page.click("summary >> text=New project")
    page.fill("#name", "Letters")
    page.fill("#classes", "praise")
    page.set_input_files("#file", {"name": "a.csv", "mimeType": "text/csv", "buffer": b"id,other\n1,2\n"})
    page.click("#create-button")
    page.wait_for_selector("#problem:visible")
    assert "its documents are not imported" in page.inner_text("#problem")
    page.set_input_files("#file", {"name": "a.csv", "mimeType": "text/csv", "buffer": b"id,text\n1,hello you\n"})
    page.click("#create-button")
    page.wait_for_url(re.compile(r"/projects/\d+/dashboard"))
    names = [one.name for one in projects.projects_of(server.store, server.owner)]
    assert names == ["News", "Letters"]
    admin.faults[:] = [fault for fault in admin.faults if "status of 422" not in fault]


def drop_file(page: Any, name: str, content: str) -> None:
    page.evaluate(
        """([name, content]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([content], name));
            const event = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
            document.getElementById("drop").dispatchEvent(event);
        }""",
        [name, content],
    )


def test_settings_and_classes_are_changed(server: PageServer, project: Project, admin: Person) -> None:
    page = admin.open(f"/projects/{project.id}/settings")
    page.fill("#name", "News of today")
    page.fill("#guidelines", "Read it twice.")
    page.fill("#target", "")
    page.fill("#max-votes", "4")
    page.click("button:has-text('Save')")
    page.wait_for_selector("#change-said:has-text('Saved.')")
    page.fill("#class-name", "weather")
    page.click("text=Add the class")
    page.wait_for_selector("#class-list li:has-text('weather')")
    page.fill("#class-name", "weather")
    page.click("text=Add the class")
    page.wait_for_selector("#add-said:has-text('The project has a class of this name.')")
    page.evaluate("() => { document.getElementById('lease').value = ''; }")
    page.click("button:has-text('Save')")
    assert page.is_visible("#lease")  # a field that is not valid is shown
    changed = projects.project(server.store, project.id)
    assert (changed.name, changed.guidelines) == ("News of today", "Read it twice.")
    assert changed.settings.target_error is None
    assert changed.settings.max_votes_per_doc == 4
    assert changed.settings.lease_seconds == project.settings.lease_seconds
    assert [label.name for label in changed.labels] == [*CLASSES, "weather"]
    page.click("text=Delete …")
    assert page.inner_text("#confirm-title") == "Delete “News of today”?"
    page.click("#confirm-yes")
    page.wait_for_url("**/projects")
    admin.faults[:] = [fault for fault in admin.faults if "status of 409" not in fault]
    query = select(schema.project.c.id)
    assert server.store.read(lambda connection: connection.execute(query).all()) == []


def test_signing_out_ends_the_session(admin: Person) -> None:
    cookies = admin.context.cookies()
    admin.page.click("#sign-out")
    admin.page.wait_for_selector("h1:has-text('Please sign in')")
    admin.context.add_cookies(cookies)
    assert admin.open("/projects").inner_text("h1") == "Please sign in"
    admin.faults[:] = [fault for fault in admin.faults if "status of 401" not in fault]
