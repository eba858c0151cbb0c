"""A whole project: two annotators and an admin in three browsers at once, with the real server and its learner."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the server is not installed: pip install 'palda[live]'")

from tests.live.watched import BROWSER_MARKS, Person, running_browser

pytestmark = BROWSER_MARKS

N_DOCS, TARGET = 40, 0.35  # without known labels the bound allows for mistakes that annotators share
PAUSE_AFTER = 20  # answers
SHOWS_VOTES = "n => Number(document.querySelector('[data-field=votes]').textContent) >= n"
FIT_MS = 60_000  # for the first fit, on a busy machine
WORDS = {
    "crime": ["police", "robbery", "court", "thief", "trial"],
    "sport": ["match", "goal", "team", "stadium", "coach"],
    "money": ["bank", "shares", "budget", "profit", "market"],
}
"""Words per class, in the order of the keys 1, 2 and 3."""


def texts() -> dict[str, tuple[str, list[str]]]:
    """Text and classes of each document: a document has the words of its classes."""
    rng = np.random.default_rng(5)
    found = {}
    for number in range(N_DOCS):
        labels = [name for name in WORDS if rng.random() < 0.35]
        words = [word for name in labels for word in rng.choice(WORDS[name], 3, replace=False)]
        found[f"news-{number:02d}"] = " ".join(["today", "the", "city", *words]), labels
    return found


@pytest.fixture
def links(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Addresses of a running ``palda serve``."""
    with (tmp_path / "documents.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((name, text) for name, (text, _) in texts().items())])
    command = [sys.executable, "-m", "palda", "serve", str(tmp_path / "project.db"), "--port", "0", "--json"]
    command += ["--documents", str(tmp_path / "documents.csv"), "--classes", ",".join(WORDS)]
    command += ["--target-error", str(TARGET)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
        server.terminate()
        assert server.wait(60) == 0


def label_one(page: Any, known: dict[str, tuple[str, list[str]]]) -> str | None:
    """Judge the document on the page by keyboard; returns why there is none instead."""
    page.wait_for_function("() => document.querySelector('main').ariaBusy === 'false'")
    if page.is_visible("#rest"):
        return str(page.inner_text("#rest-title"))
    name = page.inner_text("#document-name").removeprefix("Document ")
    text, labels = known[name]
    assert page.inner_text("#text") == text
    for key, label in enumerate(WORDS, 1):
        if label in labels:
            page.keyboard.press(str(key))
    page.keyboard.press("Enter" if labels else "0")
    return None


def test_a_project_is_labelled_to_its_target(links: dict[str, Any]) -> None:
    known = texts()
    with running_browser() as browser:
        admin = Person(browser, links["url"], links["admin_link"])
        board = admin.open(f"/projects/{links['project']}/dashboard")
        board.evaluate("() => { window.notReloaded = true; }")
        annotators = []
        for name in ("Anna", "Ben"):
            board.fill("#invite-name", name)
            board.click("text=Make a link")
            board.wait_for_selector(f"#invited-text:has-text('{name}')")
            annotators.append(Person(browser, links["url"], board.input_value("#invite-link")))
        reasons: list[str | None] = [None, None]
        n_answers = 0
        while None in reasons:
            if n_answers and n_answers % PAUSE_AFTER == 0:  # these annotators are faster than people
                # The page follows by events: before it shows all answers, it may show an estimate of fewer.
                board.wait_for_function(SHOWS_VOTES, arg=n_answers)
                board.wait_for_selector(
                    "#progress-text:has-text('are expected to be wrong, and at most')", timeout=FIT_MS
                )
                board.wait_for_selector("#learner-state:not(:has-text('estimate yet'))", timeout=FIT_MS)
            reasons = [reason or label_one(one.page, known) for reason, one in zip(reasons, annotators, strict=True)]
            n_answers += reasons.count(None)
        assert "The project is finished" in reasons
        assert n_answers < 2 * N_DOCS  # not everybody has judged everything
        board.wait_for_selector("#project-state:has-text('Target met')")
        board.wait_for_selector("#progress-text:has-text('The target is met.')")
        judged = re.fullmatch(rf"(\d+) of {N_DOCS}", board.inner_text("[data-field=judged]"))
        assert judged is not None
        assert int(judged[1]) >= N_DOCS // 2  # the words may say enough about the rest
        assert int(board.inner_text("[data-field=votes]")) <= n_answers
        assert board.locator("#chart .line").count() == 1
        assert board.locator("#people tr").count() == 2
        assert board.is_hidden("#learner-problem")
        assert board.evaluate("() => window.notReloaded")
        with board.expect_download() as started:
            board.click("text=labels.csv")
        labels = Path(started.value.path()).read_text()
        faults = [fault for one in (admin, *annotators) for fault in one.faults]
        for one in (admin, *annotators):
            one.close()
    assert faults == []
    rows = {row["doc"]: row for row in csv.DictReader(labels.splitlines())}
    assert sorted(rows) == sorted(known)
