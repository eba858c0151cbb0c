"""Pictures of the labelling server: ``python docs/pictures/labelling.py`` (needs playwright and Chromium).

A simulated crowd labels a small newsroom through the API of a real server; then its pages are photographed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright

from palda import simulate

N_DOCS, N_CLASSES, N_ANSWERS, N_BETWEEN = 120, 8, 215, 12
PEOPLE = {"Anna": 0.97, "Ben": 0.95, "Chiara": 0.93, "Dimitri": 0.88, "Emre": 0.96, "Fatima": 0.55}
"""Share of correct judgements per person."""
GUIDELINES = """Choose every class that the article is about.

If it only mentions a topic in passing, do not choose it. If you cannot decide, say "Cannot tell"."""


def call(url: str, token: str, method: str, path: str, body: Any = None) -> Any:
    """Answer of the API."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{url}/api/v1{path}", content, headers, method=method)) as answer:  # noqa: S310 - own server
        return json.loads(answer.read() or b"null")


def wait_for_estimate(url: str, token: str, project: str) -> None:
    """Wait until the learner has taken in all votes, for at most five minutes."""
    for _ in range(1000):
        status = call(url, token, "GET", f"{project}/status")
        if status["estimate"] and status["estimate"]["n_votes"] >= status["n_votes"]:
            return
        time.sleep(0.3)
    raise RuntimeError("the learner gave no estimate")


def label(links: dict[str, Any], truth: dict[str, np.ndarray]) -> None:
    """Let the crowd judge documents."""
    url, admin, project = links["url"], links["admin_token"], f"/projects/{links['project']}"
    rng = np.random.default_rng(0)
    tokens = {}
    call(url, admin, "PATCH", project, {"settings": {"min_seconds": 0.0}})  # nobody is too fast for a picture
    for name in PEOPLE:
        call(url, admin, "POST", f"{project}/invitations", {"role": "annotator", "name": name})
    for person in call(url, admin, "GET", f"{project}/people"):
        made = call(url, admin, "POST", f"{project}/people/{person['person_id']}/tokens", {})
        tokens[person["name"]] = made["token"]
    for number in range(N_ANSWERS):
        if number and number % N_BETWEEN == 0:  # people are slower: the learner takes in their votes
            time.sleep(2)
            wait_for_estimate(url, admin, project)
        name = list(PEOPLE)[number % len(PEOPLE)]
        task = call(url, tokens[name], "POST", f"{project}/next")
        if "reason" in task:
            continue
        is_right = rng.random(N_CLASSES) < PEOPLE[name]
        votes = np.where(is_right, truth[task["document"]], 1 - truth[task["document"]]).tolist()
        answer = {"document_id": task["document_id"], "client_id": f"{number}", "kind": "votes"}
        answer["votes"] = dict(zip(map(str, task["label_ids"]), votes, strict=True))
        call(url, tokens[name], "POST", f"{project}/votes", answer)


def photograph(links: dict[str, Any], folder: Path) -> None:
    """Pictures of the pages of an admin."""
    chromium = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    pages = f"{links['url']}/projects/{links['project']}"
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1200, "height": 760}, reduced_motion="reduce")
        page.goto(links["admin_link"])
        page.click("main button")
        page.goto(f"{pages}/dashboard")
        page.wait_for_selector("#chart .line", timeout=60_000)
        page.wait_for_selector("#contested li", timeout=60_000)
        page.set_viewport_size({"width": 1200, "height": 1330})
        page.screenshot(path=folder / "labelling-dashboard.png")
        page.set_viewport_size({"width": 1200, "height": 700})
        page.goto(f"{pages}/label")
        page.wait_for_selector("#work:visible")
        page.keyboard.press("2")
        page.keyboard.press("5")
        page.screenshot(path=folder / "labelling-label.png")
        page.goto(f"{pages}/adjudicate")
        page.wait_for_selector("#work:visible")
        page.set_viewport_size({"width": 1200, "height": 860})
        page.screenshot(path=folder / "labelling-adjudicate.png")
        browser.close()
    for picture in folder.glob("labelling-*.png"):  # 96 colours are enough for a page
        Image.open(picture).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> None:
    """Serve, label, photograph."""
    news = simulate.newsroom(N_DOCS, seed=2)
    truth = {name: row[:N_CLASSES].astype(int) for name, row in zip(news.doc_ids, news.labels, strict=True)}
    with TemporaryDirectory() as folder:
        documents, guidelines = Path(folder) / "newsroom.csv", Path(folder) / "guidelines.txt"
        pd.DataFrame({"id": news.doc_ids, "text": news.documents.texts}).to_csv(documents, index=False)
        guidelines.write_text(GUIDELINES)
        command = [sys.executable, "-m", "palda", "serve", f"{folder}/project.db", "--port", "0", "--json"]
        command += ["--documents", str(documents), "--classes", ",".join(news.classes[:N_CLASSES])]
        command += ["--guidelines", str(guidelines)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - own command
            if server.stdout is None:
                raise RuntimeError("no output of the server")
            links = json.loads(server.stdout.readline())
            try:
                label(links, truth)
                photograph(links, Path(__file__).parent)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
