"""The report as a file: its content, refusals, and escaping of names and texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.naive_bayes import MultinomialNB

from palda import PALDA, CrowdPALDA, TextWords, Votes, load, simulate
from palda.data import Corpus, Documents
from palda.errors import DataError, PaldaError
from palda.report import TableView, render_report, write_report

EVIL = "</script><script>alert(1)</script><!-- <b onclick='x'>&amp;\u2028"
N_DOCS = 70


@pytest.fixture(scope="module")
def news() -> simulate.SimulatedDocuments:
    return simulate.newsroom(N_DOCS, seed=5, doc_length=30)


@pytest.fixture(scope="module")
def votes(news: simulate.SimulatedDocuments) -> Votes:
    return simulate.crowd(news, "adversarial", votes_per_doc=5, seed=5)[0]


@pytest.fixture(scope="module")
def crowd(news: simulate.SimulatedDocuments, votes: Votes) -> CrowdPALDA:
    return CrowdPALDA(4, label_prior="words", max_iter=3, tol=1.0, random_state=0, n_jobs=1).fit(news.corpus, votes)


@pytest.fixture(scope="module")
def known(news: simulate.SimulatedDocuments) -> PALDA:
    """A model fitted to known labels, with base rates and named words."""
    frame = pd.DataFrame(news.corpus.counts.toarray(), columns=news.corpus.vocabulary)
    return PALDA(4, label_prior="base_rate", max_iter=3, tol=1.0, random_state=0, n_jobs=1).fit(frame, news.labels)


def embedded(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_contains_its_data_and_fetches_nothing(
    crowd: CrowdPALDA, news: simulate.SimulatedDocuments, votes: Votes, tmp_path: Path
) -> None:
    path = write_report(crowd, tmp_path / "new" / "report.html", votes=votes, X=news.corpus)
    page = path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    assert not re.search(r"""(src|href)=["'](?!#|data:,)""", page)
    assert "url(" not in page
    assert "@import" not in page
    data = embedded(page)
    assert data["summary"]["n_docs"] == N_DOCS
    assert data["summary"]["n_votes"] == len(votes)
    assert len(data["documents"]["shown"]) == N_DOCS
    assert all(str(name) in page for name in crowd.annotators_)


def test_the_same_model_gives_the_same_page(crowd: CrowdPALDA, votes: Votes) -> None:
    assert render_report(crowd, votes=votes) == render_report(crowd, votes=votes)


def test_the_security_policy_allows_only_the_script_of_the_page(crowd: CrowdPALDA, votes: Votes) -> None:
    page = render_report(crowd, votes=votes)
    assert len(re.findall(r"<script", page)) == 2
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]+';", policy[1])


def test_markup_in_names_and_texts_is_escaped() -> None:
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.integers(0, 3, (12, 6)))
    corpus = Corpus.from_counts(counts, [f"{EVIL}w{n}" for n in range(6)], [f"{EVIL}d{n}" for n in range(12)])
    votes = Votes.from_array(
        rng.integers(0, 2, (12, 3, 2)),
        doc_ids=corpus.doc_ids,
        annotators=[f"{EVIL}a{n}" for n in range(3)],
        classes=[f"{EVIL}c{n}" for n in range(2)],
    )
    model = CrowdPALDA(2, max_iter=2, tol=1.0, random_state=0, n_jobs=1).fit(corpus, votes)
    page = render_report(model, texts=[EVIL] * 12, votes=votes, X=corpus, title=EVIL)
    assert "<script>alert" not in page
    assert "<b onclick" not in page
    assert "<!--" not in page
    assert page.count("</script>") == 2
    shown = embedded(page)["documents"]["shown"]
    assert {entry["text"] for entry in shown} == {EVIL.replace("\u2028", "\\u2028")}


def test_further_tables_are_shown_after_those_on_annotators(crowd: CrowdPALDA) -> None:
    table = TableView({"measure": "", "shown": ".1%"}, [{"measure": EVIL, "shown": 0.25}], "Pre-labels", ("A note.",))
    page = render_report(crowd, tables=[table])
    shown = page[page.index("<h3>Pre-labels</h3>") : page.index('id="classes-title"')]
    assert "A note." in shown
    assert "25.0%" in shown
    assert "<script>alert" not in page


def test_lone_surrogates_in_texts_are_shown_as_escapes(crowd: CrowdPALDA, tmp_path: Path) -> None:
    path = write_report(crowd, tmp_path / "report.html", texts=["\ud800 \x00 ok"] * N_DOCS)
    assert embedded(path.read_text(encoding="utf-8"))["documents"]["shown"][0]["text"] == r"\ud800 \x00 ok"


def test_an_existing_page_is_overwritten_only_with_force(crowd: CrowdPALDA, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(PaldaError, match=r"report\.html already exists.*force"):
        write_report(crowd, path)
    assert path.read_text() == "mine"
    write_report(crowd, path, force=True)
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written_is_refused(crowd: CrowdPALDA, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PaldaError, match="cannot be written"):
        write_report(crowd, tmp_path / "file" / "report.html")
    with pytest.raises(PaldaError, match="cannot be written"):
        write_report(crowd, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_texts_are_matched_by_id_or_position(crowd: CrowdPALDA, news: simulate.SimulatedDocuments) -> None:
    name = str(crowd.doc_ids_[3])
    numbered = [f"text {n}" for n in range(N_DOCS)]
    for texts in ({name: "text 3"}, Documents(crowd.doc_ids_[::-1], np.array(numbered[::-1], dtype=object)), numbered):
        shown = embedded(render_report(crowd, texts=texts))["documents"]["shown"]
        assert {entry["text"] for entry in shown if entry["id"] == name} == {"text 3"}


def test_votes_and_counts_in_another_order_give_the_same_page(
    crowd: CrowdPALDA, news: simulate.SimulatedDocuments, votes: Votes
) -> None:
    backwards = np.arange(N_DOCS)[::-1]
    page = render_report(crowd, votes=votes.take(backwards), X=news.corpus.take(backwards))
    assert page == render_report(crowd, votes=votes, X=news.corpus)


def test_a_report_without_votes_texts_and_counts_says_what_is_missing(crowd: CrowdPALDA) -> None:
    page = render_report(crowd)
    data = embedded(page)
    assert data["agreement"] is None
    assert data["documents"]["shown"][0]["text"] is None
    assert data["documents"]["shown"][0]["labels"][0]["words"]["rest"] is None
    assert "the report was written without votes" in page
    assert "Evidence is not shown" in page


def test_columns_without_names_are_numbered(news: simulate.SimulatedDocuments, votes: Votes) -> None:
    model = CrowdPALDA(2, max_iter=2, tol=1.0, label_prior="base_rate", random_state=0, n_jobs=1)
    model.fit(news.corpus.counts, votes)
    assert re.fullmatch(r"word \d+", embedded(render_report(model))["topics"][0]["words"][0][0])
    named = embedded(render_report(model, X=news.corpus))["topics"][0]["words"][0][0]
    assert named in set(news.corpus.vocabulary)


def test_a_model_fitted_to_known_labels_has_no_annotator_section(
    known: PALDA, news: simulate.SimulatedDocuments
) -> None:
    bare = render_report(known)
    assert 'id="annotators"' not in bare
    assert embedded(bare)["documents"] is None
    data = embedded(render_report(known, X=news.corpus, texts=news.documents))
    assert data["topics"][0]["words"][0][0] in set(news.corpus.vocabulary)
    assert data["documents"]["n_all"] == N_DOCS
    assert data["documents"]["no_evidence"] is None


def test_a_loaded_model_gives_the_same_page(
    crowd: CrowdPALDA, news: simulate.SimulatedDocuments, votes: Votes, tmp_path: Path
) -> None:
    crowd.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    before, after = (embedded(render_report(model, votes=votes, X=news.corpus)) for model in (crowd, loaded))
    assert all(row["curve"] is not None for row in before["classes"])
    assert after == before


def test_word_names_are_taken_from_the_model(
    crowd: CrowdPALDA, news: simulate.SimulatedDocuments, tmp_path: Path
) -> None:
    data = embedded(render_report(crowd))  # fitted to a corpus, which has names
    assert set(data["vocabulary"]) <= set(news.corpus.vocabulary)
    words = TextWords()
    counts = words.fit_transform(["Theatres and theatres, ministers"] * 3 + ["a theatre, a minister of theatres"] * 3)
    votes = Votes.from_array(np.array([[[1, 0]]] * 3 + [[[0, 1]]] * 3))
    CrowdPALDA(2, max_iter=9, tol=1.0, random_state=0, n_jobs=1).fit(counts, votes).save(tmp_path / "m", words=words)
    shown = embedded(render_report(load(tmp_path / "m"), X=counts))
    assert set(shown["vocabulary"]) <= {"theatres", "minister"}
    shown_words = {word for entry in shown["documents"]["shown"] for label in entry["labels"]
            for word, _ in label["words"]["pro"] + label["words"]["con"]}  # fmt: skip
    assert shown_words <= {"theatres", "minister"}


def test_the_page_says_why_word_evidence_is_missing(news: simulate.SimulatedDocuments, votes: Votes) -> None:
    model = CrowdPALDA(3, label_prior=MultinomialNB(), max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    assert "not an external classifier" in render_report(model.fit(news.corpus, votes), X=news.corpus)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"texts": ["one"]}, "1 texts for 70 documents"),
        ({"X": np.ones((3, 2))}, r"X has shape \(3, 2\)"),
        ({"words": ["a", "b"]}, "2 names for the"),
    ],
)
def test_inputs_that_do_not_match_the_model_are_refused(crowd: CrowdPALDA, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        render_report(crowd, **wrong)


def test_a_corpus_without_a_training_document_is_refused(crowd: CrowdPALDA, news: simulate.SimulatedDocuments) -> None:
    with pytest.raises(DataError, match="X lacks the document 'news-0001'"):
        render_report(crowd, X=news.corpus.take(slice(1, None)))


def test_votes_are_refused_for_a_model_fitted_to_known_labels(known: PALDA, votes: Votes) -> None:
    with pytest.raises(DataError, match="votes need a CrowdPALDA"):
        render_report(known, votes=votes)
    with pytest.raises(PaldaError, match="not dict"):
        render_report({})  # type: ignore[arg-type]


def test_the_size_of_the_documents_is_limited(crowd: CrowdPALDA, votes: Votes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palda.report.documents.MAX_BYTES", 60_000)
    shown = embedded(render_report(crowd, votes=votes, texts=["é" * 5000] * N_DOCS))["documents"]["shown"]
    assert 0 < len(shown) < N_DOCS
    assert {len(entry["text"]) for entry in shown} == {1500}
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < 60_000 + 100 * len(shown)
