"""The report in a browser: mouse, keyboard, security and accessibility."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mixed_crowd import CHANGED, COPIES, PEOPLE, mixed_crowd

from palda import CrowdPALDA, Votes, simulate
from palda.data import Corpus
from palda.report import write_report

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the report's browser tests need playwright: pip install playwright"
)

CHROMIUM = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: install one, or name it in PALDA_CHROMIUM"),
]

PHONE, DESK = {"width": 400, "height": 850}, {"width": 1400, "height": 900}
SERIOUS = ("serious", "critical")
QUALITIES = (0.02, 0.05, 0.08, *np.linspace(0.6, 0.95, 11))
N_ANNOTATORS = len(QUALITIES)
INJECTED = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = running.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report on a small newsroom with adversarial annotators."""
    news = simulate.newsroom(90, seed=1, doc_length=40)
    votes, _ = simulate.crowd(news, QUALITIES, votes_per_doc=5, seed=1)
    model = CrowdPALDA(5, label_prior="words", max_iter=4, tol=1.0, random_state=0, n_jobs=1).fit(news.corpus, votes)
    return write_report(model, tmp_path_factory.mktemp("report") / "report.html", votes=votes, X=news.corpus)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report on a crowd with copies, a change, soft votes, models and gold labels."""
    crowd = mixed_crowd()
    path = tmp_path_factory.mktemp("mixed") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palda.report.annotator_charts.MIN_RATE_SPREAD", 0.0)
        return write_report(crowd.model, path, votes=crowd.votes, X=crowd.news.corpus)


@pytest.fixture(scope="module")
def featured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report on documents with words and features."""
    world = simulate.featured_documents(80, 4, 6, seed=0, doc_length=30)
    votes, _ = simulate.crowd(world.dataset(), QUALITIES, votes_per_doc=4, seed=1)
    model = CrowdPALDA(4, max_iter=4, tol=1.0, random_state=0, n_jobs=1)
    model.fit(world.corpus, votes, features=world.features)
    path = tmp_path_factory.mktemp("featured") / "report.html"
    return write_report(model, path, votes=votes, X=world.corpus, features=world.features)


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report in which every name and text contains markup."""
    rng = np.random.default_rng(0)
    named = {
        kind: [f"{INJECTED}{kind}{n}" for n in range(size)] for kind, size in zip("dakw", (12, 3, 2, 6), strict=True)
    }
    corpus = Corpus.from_counts(rng.integers(0, 3, (12, 6)), named["w"], named["d"])
    votes = Votes.from_array(
        rng.integers(0, 2, (12, 3, 2)), doc_ids=named["d"], annotators=named["a"], classes=named["k"]
    )
    model = CrowdPALDA(2, max_iter=2, tol=1.0, random_state=0, n_jobs=1).fit(corpus, votes)
    path = tmp_path_factory.mktemp("injected") / "report.html"
    texts = [f"{INJECTED}</script><!--" for _ in named["d"]]
    return write_report(model, path, votes=votes, X=corpus, texts=texts, title=INJECTED)


class Watched:
    """A page with its console messages, errors and network requests."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(viewport=DESK, **options)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", lambda request: self._look(request.url, path.as_uri()))
        self.page.goto(path.as_uri())

    def _look(self, url: str, own: str) -> None:
        if url not in (own, "data:,"):
            self.faults.append(f"request: {url}")


@pytest.fixture
def watched(browser: Any, report: Path) -> Iterator[Watched]:
    watched = Watched(browser, report)
    yield watched
    watched.context.close()
    assert watched.faults == []


@pytest.fixture
def page(watched: Watched) -> Any:
    return watched.page


def column(page: Any, table: str, key: str) -> list[str]:
    cells = page.locator(f"#{table} tbody tr:visible [data-key={key}]")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value ?? cell.textContent)")  # type: ignore[no-any-return]


def sort_by(page: Any, table: str, key: str) -> list[str]:
    page.locator(f"#{table} button[data-key={key}]").click()
    return column(page, table, key)


def test_all_charts_and_lists_are_drawn(page: Any) -> None:
    for part in ("certainty", "agreement", "correlation", "calibration", "bound"):
        assert page.locator(f"#{part} svg").count() == 1
    assert page.locator("#agreement rect").count() == N_ANNOTATORS**2
    assert page.locator("#document-list > li").count() == 20
    assert page.locator("#topic-view li").count() > 10


def test_the_charts_of_annotators_are_drawn_and_explored(browser: Any, mixed: Path) -> None:
    watched = Watched(browser, mixed)
    page, tip = watched.page, watched.page.locator("#tip")
    n_annotators, n_classes = PEOPLE + len(COPIES), 10
    assert page.locator("#quality-curves figure svg").count() == n_annotators
    assert page.locator("#quality-curves .change.worse").count() == 1
    assert page.locator("#quality-curves .band").count() == n_annotators
    assert page.locator("#confidence-curves .diagonal").count() == len(COPIES)
    assert page.locator("#rates rect").count() == n_annotators * n_classes
    assert page.locator("#gold-check .bar").count() == page.locator("#gold-check circle").count() > 0
    first = page.locator("#quality-curves svg").first
    assert first.get_attribute("aria-label").startswith(f"Quality of {CHANGED} over time")
    first.focus()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text().startswith(f"{CHANGED}, 2023-11-")
    assert page.locator("#announcement").inner_text() != ""
    page.locator("#rates svg").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "sensitivity" in tip.inner_text()
    assert sort_by(page, "annotator-table", "kind")[0] == "model"
    watched.context.close()
    assert watched.faults == []


def test_tables_are_sorted_by_clicking_a_heading(page: Any) -> None:
    votes = [int(n) for n in sort_by(page, "annotator-table", "votes")]
    assert votes == sorted(votes, reverse=True)
    heading = page.locator("#annotator-table th:has(button[data-key=votes])")
    assert heading.get_attribute("aria-sort") == "descending"
    assert [int(n) for n in sort_by(page, "annotator-table", "votes")] == sorted(votes)
    names = sort_by(page, "annotator-table", "name")
    assert names == sorted(names)
    assert page.locator("#annotator-table th[aria-sort]").count() == 1
    thresholds = [float(n) for n in sort_by(page, "class-table", "threshold")]
    assert thresholds == sorted(thresholds, reverse=True)


def test_annotators_are_filtered_by_name_and_verdict(page: Any) -> None:
    page.get_by_label("Name").fill("annotator-1")
    assert column(page, "annotator-table", "name") != []
    assert all("annotator-1" in name for name in column(page, "annotator-table", "name"))
    page.get_by_label("Name").fill("")
    page.get_by_label("Verdict").select_option("adversarial")
    found = column(page, "annotator-table", "verdict")
    assert set(found) == {"adversarial"}
    assert page.locator("#annotator-count").inner_text() == f"{len(found)} of {N_ANNOTATORS} annotators"


def test_the_topics_of_another_class_are_shown(page: Any) -> None:
    before = page.locator("#topic-view").inner_text()
    chosen = page.locator("#topic-class option").nth(3).inner_text()
    page.locator("#topic-class").select_option(label=chosen)
    after = page.locator("#topic-view").inner_text()
    assert after != before
    assert f"{chosen} present" in after
    assert f"{chosen} absent" in after


def test_documents_are_searched_sorted_and_opened(page: Any) -> None:
    items = page.locator("#document-list > li")
    page.locator("#document-more").click()
    assert items.count() == 40
    page.get_by_label("Search").fill("NEWS-0017")
    assert items.count() == 1
    items.first.locator("summary").click()
    opened = items.first.locator(".inside").inner_text()
    for part in ("Votes for present:", "Words for the label:", "Words against the label:", "All other evidence:"):
        assert part in opened
    page.get_by_label("Search").fill("no such word anywhere")
    assert items.count() == 0
    assert page.locator("#document-count").inner_text() == "0 of 90 documents"
    page.get_by_label("Search").fill("")
    page.get_by_label("Order").select_option("expected_errors")
    errors = [
        float(text.split(" expected")[0].split("· ")[1]) for text in page.locator("summary .facts").all_inner_texts()
    ]
    assert errors == sorted(errors, reverse=True)
    page.get_by_label("Uncertain class").select_option(index=1)
    assert 0 < int(page.locator("#document-count").inner_text().split()[0]) < 90


def test_charts_show_values_to_mouse_and_keyboard(page: Any) -> None:
    tip = page.locator("#tip")
    page.locator("#bound circle").first.hover()
    assert tip.inner_text().startswith("iteration 1:")
    page.locator("#agreement svg").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "kappa" in tip.inner_text() or "unknown" in tip.inner_text()
    assert page.locator("#announcement").inner_text() != ""
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator("#calibration-class").select_option(index=1)
    assert page.locator("#calibration circle").count() > 0


def test_every_control_is_reached_by_the_tab_key(page: Any) -> None:
    wanted = set(
        page.evaluate(
            "() => [...document.querySelectorAll('button, input, select, summary, nav a')]"
            ".filter(node => node.checkVisibility()).map((node, place) => (node.dataset.place = String(place)))"
        )
    )
    reached = set()
    for _ in range(2 * len(wanted) + 20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.place"))
    assert wanted <= reached


def test_markup_in_names_and_texts_never_runs(browser: Any, injected: Path) -> None:
    watched = Watched(browser, injected)
    page = watched.page
    for item in page.locator("#document-list > li > details").all():
        item.locator("summary").click()
    page.locator("#topic-class").select_option(index=1)
    page.locator("#agreement rect").nth(1).hover()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("h1").inner_text() == INJECTED
    assert INJECTED in page.locator("#document-list .text").first.inner_text()
    assert INJECTED in page.locator("#annotator-table tbody th").first.inner_text()
    assert INJECTED in page.locator("#tip").inner_text()
    watched.context.close()
    assert watched.faults == []


@pytest.mark.parametrize(
    ("path", "colours", "size"),
    [
        pytest.param(path, colours, size, marks=[pytest.mark.long] * is_long, id=f"{path}-{colours}-{name}")
        for path, name, size, colours, is_long in [
            ("report", "desk", DESK, "light", False),
            ("report", "phone", PHONE, "dark", False),
            ("mixed", "desk", DESK, "dark", False),
            ("mixed", "phone", PHONE, "light", False),
            ("report", "desk", DESK, "dark", True),
            ("report", "phone", PHONE, "light", True),
            ("mixed", "desk", DESK, "light", True),
            ("mixed", "phone", PHONE, "dark", True),
        ]
    ],
)
def test_the_accessibility_audit_finds_no_serious_fault(
    browser: Any, path: str, colours: str, size: dict[str, int], request: pytest.FixtureRequest
) -> None:
    audit = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="the audit needs: pip install axe-playwright-python"
    )
    watched = Watched(browser, request.getfixturevalue(path), color_scheme=colours)
    watched.page.set_viewport_size(size)
    watched.page.locator("#document-list summary").first.click()
    found = audit.Axe().run(watched.page).response["violations"]
    watched.context.close()
    serious = [(fault["id"], fault["nodes"][0]["html"]) for fault in found if fault["impact"] in SERIOUS]
    assert serious == []


def test_evidence_of_features_is_drawn_and_sorted(browser: Any, featured: Path) -> None:
    watched = Watched(browser, featured)
    page = watched.page
    assert page.locator("#evidence-table .sources").count() == 4
    shares = [float(share) for share in sort_by(page, "evidence-table", "features")]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]
    widths = page.locator("#evidence-table .sources .from-features").evaluate_all(
        "bars => bars.map(bar => bar.getBoundingClientRect().width)"
    )
    by_share = widths[0] / shares[0]  # shares are rounded to hundredths
    np.testing.assert_allclose(widths, by_share * np.array(shares), rtol=0.02, atol=0.006 * by_share)
    page.locator("#document-list summary").first.click()
    page.get_by_text("Features:", exact=True).first.wait_for(timeout=60_000)  # drawn when the document is opened
    watched.context.close()
    assert watched.faults == []


@pytest.mark.parametrize("path", ["report", "mixed", "featured", "injected"])
def test_the_page_fits_the_width_of_a_phone(browser: Any, path: str, request: pytest.FixtureRequest) -> None:
    watched = Watched(browser, request.getfixturevalue(path))
    watched.page.set_viewport_size(PHONE)
    watched.page.locator("#document-list summary").first.click()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    watched.context.close()


def test_the_page_follows_the_colour_scheme(browser: Any, report: Path) -> None:
    brightness = {}
    for colours in ("light", "dark"):
        watched = Watched(browser, report, color_scheme=colours)
        colour = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness[colours] = sum(int(part) for part in colour[4:-1].split(","))
        watched.context.close()
    assert brightness["dark"] < 200 < 600 < brightness["light"]
