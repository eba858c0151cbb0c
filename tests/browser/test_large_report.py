"""The report on 100,000 documents, 500 classes and 2,000 annotators: it is small, opens, and filters at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from palda import CrowdPALDA, Votes
from palda.data import Corpus, names_array
from palda.report import write_report

CHROMIUM = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
N_DOCS, N_CLASSES, N_ANNOTATORS, N_WORDS = 100_000, 500, 2_000, 1_000
MAX_BYTES = 5_000_000


def names(kind: str, number: int) -> Any:
    return names_array(f"{kind} {position:06d}" for position in range(number))


def large_votes(rng: np.random.Generator) -> Votes:
    """Thirty votes per document, on random classes by random annotators."""
    doc = np.repeat(np.arange(N_DOCS, dtype=np.int64), 30)
    annotator, label = rng.integers(0, N_ANNOTATORS, len(doc)), rng.integers(0, N_CLASSES, len(doc))
    key = np.unique((doc * N_ANNOTATORS + annotator) * N_CLASSES + label)
    doc, annotator, label = key // (N_ANNOTATORS * N_CLASSES), key // N_CLASSES % N_ANNOTATORS, key % N_CLASSES
    value = (rng.random(len(key)) < 0.3).astype(np.int8)
    axes = names("document", N_DOCS), names("annotator", N_ANNOTATORS), names("class", N_CLASSES)
    return Votes(doc.astype(np.int32), annotator.astype(np.int32), label.astype(np.int32), value, *axes)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model fitted to the first documents, with the consensus and the predictions of as many as the report needs."""
    rng = np.random.default_rng(0)
    votes = large_votes(rng)
    counts = sparse.random_array((N_DOCS, N_WORDS), density=0.02, rng=rng, format="csr")
    counts.data[:] = 1
    corpus = Corpus(counts.astype(np.int64), names("word", N_WORDS), votes.doc_ids)
    some = slice(0, 300)
    model = CrowdPALDA(3, label_prior="base_rate", max_iter=2, tol=1e9, random_state=0)
    model.fit(corpus.take(some), votes.take(some))
    model.doc_ids_ = votes.doc_ids
    model.consensus_ = rng.beta(0.1, 0.4, (N_DOCS, N_CLASSES))
    model.out_of_fold_probs_ = rng.beta(0.2, 0.6, (N_DOCS, N_CLASSES)).astype(np.float32)
    texts = ["ships carry wheat and corn " * 100] * N_DOCS
    return write_report(model, tmp_path_factory.mktemp("large") / "report.html", texts=texts, votes=votes, X=corpus)


@pytest.mark.long
def test_it_is_small(report: Path) -> None:
    assert report.stat().st_size < MAX_BYTES


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: install one, or name it in PALDA_CHROMIUM")
@pytest.mark.parametrize("width", [400, 1400])
def test_it_opens_and_states_what_is_left_out(report: Path, width: int) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = running.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(report.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert "500 of 2,000" in page.inner_text("#annotator-table caption")
        assert "the 300 most frequent, of 500" in page.inner_text("#class-table caption")
        assert "of 100,000 documents" in page.inner_text("#documents")
        page.fill("#annotator-search", "annotator 0001")
        n_shown = page.locator("#annotator-table tbody tr:visible").count()
        assert 0 < n_shown < 500
        assert page.inner_text("#annotator-count") == f"{n_shown} of 500 annotators"
        page.fill("#document-search", "no such word")
        assert page.inner_text("#document-count").startswith("0 of ")
        browser.close()
        assert not faults
