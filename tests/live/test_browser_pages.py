"""All pages: accessibility in light and dark, width of a phone, markup in names and texts stays text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")

from tests.live.page_server import PageServer
from tests.live.watched import BROWSER_MARKS, DESK, PHONE, Person

from palda.live.records import AnnotatorEstimate, ProjectEstimate
from palda.live.service import projects

pytestmark = BROWSER_MARKS

SERIOUS = ("serious", "critical")
INJECTED = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 3
PROJECT, EMPTY = 1, 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A project in which every name and text has markup, with long words and 30 classes; and an empty one."""
    server = PageServer(tmp_path_factory.mktemp("pages") / "project.db")
    classes = [f"{INJECTED} class", LONG, *(f"class {number}" for number in range(28))]
    texts = {f"{INJECTED} {number}": f"{INJECTED}</div></script>{LONG} text {number}" for number in range(6)}
    made = server.project(f"{INJECTED} project", classes, texts, INJECTED)
    projects.add_label(server.store, made.id, "described", INJECTED)
    ids = list(server.document_ids(made.id).values())
    actor = server.annotator(made.id, f"{INJECTED} person")
    labels = [label.id for label in projects.project(server.store, made.id).labels]
    server.answer(actor, made.id, ids[0], dict.fromkeys(labels, 1), "first")
    words = {str(labels[0]): [[INJECTED, 1.0], [LONG, -1.0]]}
    server.write_posterior(made.id, {ids[0]: [0.4] * len(labels)}, {ids[0]: words})
    estimate = AnnotatorEstimate(0.4, 0.3, 0.5, 0.5, 0.5, 9, "adversarial", (INJECTED,))
    server.write_estimates(made.id, [(actor.person_id, estimate)])
    server.write_progress(made.id, 1, ProjectEstimate(1, 1, 30.0, 50.0, 186, 0.5, 29.0, None, 0, is_met=False))
    server.write_progress(made.id, 2, ProjectEstimate(2, 1, 20.0, 40.0, 186, 0.5, 19.0, None, 0, is_met=False))
    server.write_learner(made.id, "failed", INJECTED)
    server.project("Empty", ["one"], {})
    yield server
    server.close()


PAGES = {
    f"/projects/{PROJECT}/label": "#work:visible",
    f"/projects/{EMPTY}/label": "#rest:visible",
    f"/projects/{PROJECT}/dashboard": "#contested li",
    f"/projects/{EMPTY}/dashboard": "#connection:has-text('Live')",
    f"/projects/{PROJECT}/adjudicate": "#work:visible",
    f"/projects/{EMPTY}/adjudicate": "#rest:visible",
    f"/projects/{PROJECT}/settings": "#change",
    "/projects": "#create",
}
"""Address, and what is there when the page is complete."""


def settled(page: Any, wanted: str) -> None:
    page.wait_for_selector(wanted, state="attached")
    page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")


@pytest.mark.parametrize(("theme", "viewport"), [("light", PHONE), ("dark", DESK)], ids=["light phone", "dark desk"])
def test_pages_are_accessible_fit_and_show_markup_as_text(
    browser: Any, server: PageServer, theme: str, viewport: dict[str, int]
) -> None:
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")
    link = f"{server.url}/join/{server.owner_link}"
    person = Person(browser, server.url, link, color_scheme=theme, viewport=viewport)
    found: list[str] = []
    for path, wanted in PAGES.items():
        page = person.open(path)
        settled(page, wanted)
        if page.evaluate("() => document.documentElement.scrollWidth") > viewport["width"]:
            found.append(f"{path} is wider than the window")
        if page.evaluate("() => window.hacked") or page.locator("main img, main script, header script").count():
            found.append(f"{path} takes text for markup")
        found += serious(axe_module, page, path)
    dialog = person.open(f"/projects/{PROJECT}/dashboard")
    dialog.click("button[aria-label^=Manage]")
    found += serious(axe_module, dialog, "dialog")
    faults = person.faults
    person.close()
    assert found == []
    assert faults == []


def serious(axe_module: Any, page: Any, name: str) -> list[str]:
    violations = axe_module.Axe().run(page).response["violations"]
    return [
        f"{name}: {one['id']} {[node['html'][:120] for node in one['nodes']][:3]}"
        for one in violations
        if one["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_before_signing_in_are_accessible(browser: Any, server: PageServer, theme: str) -> None:
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")
    context = browser.new_context(color_scheme=theme, viewport=PHONE)
    page = context.new_page()
    found = []
    for address, title in [
        (server.join_link(PROJECT), "Join"),
        (server.join_link(PROJECT, "annotator", f"{INJECTED} person"), "Sign in"),
        (f"{server.url}/join/unknown", "Not found"),
        (f"{server.url}/projects", "Please sign in"),
        (f"{server.url}/nothing", "Not found"),
    ]:
        page.goto(address)
        assert page.inner_text("h1") == title
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
        assert not page.evaluate("() => window.hacked")
        found += serious(axe_module, page, address)
    context.close()
    assert found == []


def test_a_name_that_is_taken_is_explained(browser: Any, server: PageServer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.join_link(PROJECT))
    page.fill("#name", f"{INJECTED} person")
    page.click("main button")
    assert "Somebody has this name already" in page.inner_text("[role=alert]")
    assert page.input_value("#name") == f"{INJECTED} person"
    context.close()


def test_the_keyboard_reaches_the_content_first(browser: Any, server: PageServer) -> None:
    person = Person(browser, server.url, f"{server.url}/join/{server.owner_link}")
    page = person.open(f"/projects/{PROJECT}/settings")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.id") == "pause-project"
    person.close()


def test_all_actions_are_in_the_window_with_many_classes(browser: Any, server: PageServer) -> None:
    person = Person(browser, server.url, f"{server.url}/join/{server.owner_link}")
    for path, last in [("label", "#undo"), ("adjudicate", "#next")]:
        page = person.open(f"/projects/{PROJECT}/{path}")
        page.wait_for_selector("#work:visible")
        box = page.locator(last).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= DESK["height"]
    person.close()
