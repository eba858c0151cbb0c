"""The report on a model with features: where its evidence comes from, in classes and in documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from palda import PALDA, CrowdPALDA, DataError, Votes, simulate
from palda.report import render_report, report_inputs, report_parts
from palda.simulate import FeaturedDocuments

N_DOCS = 120


@pytest.fixture(scope="module")
def world() -> FeaturedDocuments:
    return simulate.featured_documents(N_DOCS, 4, 6, seed=0, doc_length=30)


@pytest.fixture(scope="module")
def votes(world: FeaturedDocuments) -> Votes:
    return simulate.crowd(world.dataset(), "paper", votes_per_doc=4, seed=1)[0]


@pytest.fixture(scope="module")
def frame(world: FeaturedDocuments) -> pd.DataFrame:
    sources = np.where(world.features[:, 1] > 0, "web", "print")
    return pd.DataFrame({"<source>": sources, "vector": list(world.features)}, index=world.doc_ids)


@pytest.fixture(scope="module")
def model(world: FeaturedDocuments, votes: Votes, frame: pd.DataFrame) -> CrowdPALDA:
    model = CrowdPALDA(4, max_iter=4, tol=1.0, random_state=0, n_jobs=1)
    return model.fit(world.corpus, votes, features=frame)


@pytest.fixture(scope="module")
def parts(model: CrowdPALDA, votes: Votes, world: FeaturedDocuments, frame: pd.DataFrame) -> dict[str, Any]:
    backwards = frame.iloc[::-1]  # matched by id
    return report_parts(report_inputs(model, None, votes, world.corpus, None, backwards))


def test_shares_of_evidence_are_those_of_the_model(model: CrowdPALDA, parts: dict[str, Any]) -> None:
    evidence, shares = parts["evidence"], model.evidence_shares_
    assert evidence["sources"] == ["words", "topics", "features"]
    assert [row["name"] for row in evidence["rows"]] == [row["name"] for row in parts["classes"]]
    for row in evidence["rows"]:
        np.testing.assert_allclose(row["shares"], shares.loc[row["name"]], atol=1e-3)
    np.testing.assert_allclose(evidence["mean"], shares.mean(), atol=1e-3)


def test_a_class_that_was_not_learned_has_no_shares(
    model: CrowdPALDA, votes: Votes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = model.evidence_shares_
    shares.iloc[2] = 0.0
    monkeypatch.setattr(CrowdPALDA, "evidence_shares_", property(lambda _: shares))
    parts = report_parts(report_inputs(model, None, votes, None, None))
    unlearned = {row["name"] for row in parts["evidence"]["rows"] if row["shares"] is None}
    assert unlearned == {shares.index[2]}
    np.testing.assert_allclose(parts["evidence"]["mean"], shares.drop(shares.index[2]).mean(), atol=1e-3)
    assert "–" in render_report(model, votes=votes).partition('id="evidence-table"')[2].partition("</table>")[0]


def test_evidence_of_words_features_and_the_rest_sums_to_the_log_odds(
    model: CrowdPALDA, parts: dict[str, Any], world: FeaturedDocuments, frame: pd.DataFrame
) -> None:
    document = parts["documents"]["shown"][0]
    row = int(np.flatnonzero(world.doc_ids == document["id"])[0])
    for label in document["labels"]:
        words = label["words"]
        found = sum(weight for side in ("pro", "con", "features") for _, weight in words[side]) + words["rest"]
        name = model.classes_[label["label"]]
        table = model.explain(world.corpus.take([row]), name, features=frame.iloc[[row]])
        assert found == pytest.approx(table["weight"].sum(), abs=0.1)
    names = {name for label in document["labels"] for name, _ in label["words"]["features"]}
    assert names <= {"<source>", "vector"}
    assert "vector" in names


def test_the_page_names_features_as_text(
    model: CrowdPALDA, votes: Votes, world: FeaturedDocuments, frame: pd.DataFrame
) -> None:
    page = render_report(model, votes=votes, X=world.corpus, features=frame)
    assert "Where the evidence comes from" in page
    assert "<source>" not in page
    assert "from words and features" in page


def test_evidence_needs_words_and_features(model: CrowdPALDA, votes: Votes, world: FeaturedDocuments) -> None:
    for X, missing in ((None, "word counts"), (world.corpus, "features")):
        documents = report_parts(report_inputs(model, None, votes, X, None))["documents"]
        assert documents["no_evidence"] == f"Evidence is not shown: the report was written without {missing}."


def test_features_of_other_documents_are_one_clear_line(model: CrowdPALDA, frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="features have no row for document"):
        render_report(model, features=frame.iloc[1:])


def test_features_for_a_model_without_them_are_one_clear_line(world: FeaturedDocuments, votes: Votes) -> None:
    model = CrowdPALDA(2, label_prior="base_rate", max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    with pytest.raises(DataError, match="fitted without features: leave out features"):
        render_report(model.fit(world.corpus, votes), features=world.features)


@pytest.mark.filterwarnings("ignore:X is None")
def test_a_model_of_features_alone_has_a_report_without_topics(
    votes: Votes, frame: pd.DataFrame, world: FeaturedDocuments
) -> None:
    model = CrowdPALDA(random_state=0, n_jobs=1).fit(None, votes, features=frame)
    parts = report_parts(report_inputs(model, None, votes, None, None, frame))
    assert parts["topics"] == []
    assert parts["evidence"] is None  # one source alone
    assert parts["documents"]["no_evidence"] is None
    assert parts["summary"]["n_features"] == 7
    page = render_report(model, votes=votes, features=frame)
    assert "There are no topics: the model was fitted to features alone" in page
    assert "0 iterations" not in page
    labelled = PALDA(random_state=0, n_jobs=1).fit(None, world.labels, features=frame)
    shown = report_parts(report_inputs(labelled, None, None, None, None, frame))["documents"]["shown"]
    assert {entry["id"] for entry in shown} <= set(world.doc_ids)
