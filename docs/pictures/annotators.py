"""Screenshot annotators.png: ``python docs/pictures/annotators.py`` (needs playwright and Chromium)."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import sync_playwright

from palda import CrowdPALDA, Votes, simulate
from palda.report import write_report

N_DOCS, WIDTH = 200, 1200
QUALITIES = [0.95, 0.9, 0.9, 0.85, 0.8, 0.8, 0.75, 0.7]
PROMPTS = ["news-llm, prompt a", "news-llm, prompt b", "news-llm, prompt c"]
SHOWN = ("#changes-title", "#agreement-title")  # from here to there


def crowd(news: simulate.SimulatedDocuments) -> Votes:
    """Eight people, of whom the second gets worse and the seventh better, and three prompts of one model."""
    before = simulate.annotators(QUALITIES, n_classes=news.labels.shape[1])
    later = QUALITIES.copy()
    later[1], later[6] = 0.6, 0.92
    after = simulate.annotators(later, n_classes=news.labels.shape[1])
    votes = simulate.drifting_votes(news, before, after, votes_per_doc=5, seed=1)
    votes, _ = simulate.siblings(news, replace(votes, time=votes.time[:0]), before, 3, quality=0.8, correlation=0.8)
    kinds = ["overconfident", "calibrated", "underconfident"]
    votes = simulate.confidences(votes, news, [*["none"] * len(QUALITIES), *kinds], seed=1)
    names = [*votes.annotators[: len(QUALITIES)], *PROMPTS]
    return replace(votes, annotators=np.array(names, dtype=object), time=1.7e9 + 86400.0 * votes.doc)


def main() -> None:
    """Fit a model and take a screenshot of the charts of its annotators."""
    chromium = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    news = simulate.newsroom(N_DOCS, seed=1)
    votes = crowd(news)
    model = CrowdPALDA(4, label_prior="words", max_iter=4, tol=1.0, random_state=0).fit(news.corpus, votes)
    with TemporaryDirectory() as folder, sync_playwright() as running:
        path = write_report(model, Path(folder) / "report.html", votes=votes)
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = running.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(path.as_uri())
        page.add_style_tag(content="nav { position: static; }")
        top, bottom = (page.evaluate(f"document.querySelector('{at}').getBoundingClientRect().top") for at in SHOWN)
        clip = {"x": 0, "y": top - 8, "width": WIDTH, "height": bottom - top - 8}
        page.screenshot(path=Path(__file__).with_suffix(".png"), full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main()
