"""``assign`` and ``stopping_report`` of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from palda import CrowdPALDA, DataError, load, simulate
from palda.models.crowd import Profiles

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(300, seed=7)
VOTES, PEOPLE = simulate.crowd(NEWS, np.linspace(0.55, 0.97, 12), votes_per_doc=1, seed=7)
SETTINGS: dict[str, Any] = {"n_topics": 4, "tol": 0.1, "random_state": 0, "n_jobs": 1, "label_prior": "words"}
GIVEN = {(VOTES.annotators[k], VOTES.doc_ids[d]) for d, k in zip(VOTES.doc, VOTES.annotator, strict=True)}
BEST, WORST = VOTES.annotators[int(PEOPLE.quality.argmax())], VOTES.annotators[int(PEOPLE.quality.argmin())]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("models") / "model.palda"
    gold = pd.DataFrame(NEWS.labels[:30], index=list(NEWS.doc_ids[:30]), columns=list(NEWS.classes))
    CrowdPALDA(**SETTINGS).fit(NEWS.corpus, VOTES, gold=gold).save(file)
    return file


@pytest.fixture
def model(path: Path) -> CrowdPALDA:
    loaded = load(path)
    assert isinstance(loaded, CrowdPALDA)
    return loaded


def pairs(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(table["annotator"], table["doc"], strict=True))


def test_nobody_gets_a_document_twice_and_best_pairs_come_first(model: CrowdPALDA) -> None:
    table = model.assign(n=200)
    assert table.columns.tolist() == ["annotator", "doc", "gain", "price"]
    found = pairs(table)
    assert len(found) == len(set(found)) == 200
    assert not set(found) & GIVEN
    assert (table["gain"] > 0).all()
    assert table["gain"].iloc[:20].mean() > table["gain"].iloc[-20:].mean()
    assert not set(table["doc"]) & set(NEWS.doc_ids[:30]), "known labels gain nothing"


def test_gains_include_the_profiles_of_the_model(model: CrowdPALDA, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = model.assign(n=20)["gain"].sum()
    rates = np.full((2, len(NEWS.classes)), 0.1)
    rates[0, ::2] = rates[1, 1::2] = 0.9  # every second class occurs with the others
    monkeypatch.setattr(CrowdPALDA, "_vote_profiles", Profiles(np.full(2, 0.5), rates))
    assert model.assign(n=20)["gain"].sum() > 1.01 * alone


def test_pending_and_excluded_pairs_are_not_assigned_again(model: CrowdPALDA) -> None:
    first = model.assign([BEST], n=5)
    second = model.assign([BEST], n=5, pending=first)
    third = model.assign([BEST], n=5, pending=pairs(first), exclude=second)
    found = pairs(first) + pairs(second) + pairs(third)
    assert len(set(found)) == 15


def test_votes_under_way_count_as_if_given(model: CrowdPALDA) -> None:
    top = model.assign([BEST], n=1)
    doc = top["doc"][0]
    under_way = [(f"other-{number}", doc) for number in range(3)]
    after = model.assign([BEST], n=300, pending=under_way).set_index("doc")["gain"]
    assert after[doc] < 0.5 * top["gain"][0]
    several = model.assign([f"new-{number}" for number in range(8)])
    assert several["doc"].nunique() > 4


def test_a_document_waits_for_the_vote_that_is_under_way_unless_the_batch_is_large(model: CrowdPALDA) -> None:
    small = model.assign(n=len(NEWS) // 4)
    assert small["doc"].is_unique
    later = model.assign(n=5, pending=small.head(10))
    assert not set(later["doc"]) & set(small["doc"].head(10))
    large = model.assign(n=len(NEWS))["doc"].value_counts()
    assert 1 < large.max() <= 4


def test_entries_of_the_list_are_slots_and_newcomers_are_typical(model: CrowdPALDA) -> None:
    table = model.assign([BEST, BEST, "newcomer"])
    assert sorted(table["annotator"]) == sorted([BEST, BEST, "newcomer"])
    gains = {name: model.assign([name], n=1)["gain"][0] for name in (BEST, WORST, "newcomer")}
    assert gains[BEST] > gains["newcomer"] > gains[WORST]


def test_budget_prices_and_limits_hold(model: CrowdPALDA) -> None:
    prices = {BEST: 3.0, "cheap": 1.0}
    table = model.assign(list(prices), budget=20.5, price=prices)
    assert table["price"].sum() <= 20.5
    assert table["price"].sum() > 17.0
    np.testing.assert_array_equal(table["price"], table["annotator"].map(prices))
    capped = model.assign(["x", "y"], n=30, max_votes_per_annotator={"x": 3, "y": 4})
    assert capped["annotator"].value_counts().to_dict() == {"x": 3, "y": 4}
    judged = sum(annotator == BEST for annotator, _ in GIVEN)
    assert not len(model.assign([BEST], n=5, max_votes_per_annotator=judged))
    assert not len(model.assign(n=5, max_votes_per_doc=1)), "every document has a vote"
    assert model.assign(n=600, max_votes_per_doc=2)["doc"].value_counts().max() == 1
    tokens = model.assign([BEST], budget=500, price="tokens")
    assert tokens["price"].sum() <= 500


def test_only_doubtful_classes_are_asked_for_and_priced(model: CrowdPALDA) -> None:
    table = model.assign([BEST], n=20, ask="labels", price=2.0)
    assert table["price"].tolist() == [2.0 * len(labels) for labels in table["labels"]]
    place = {doc: row for row, doc in enumerate(model.doc_ids_)}
    column = {name: position for position, name in enumerate(model.classes_)}
    for doc, labels in zip(table["doc"], table["labels"], strict=True):
        doubt = np.minimum(model.consensus_[place[doc]], 1 - model.consensus_[place[doc]])
        asked = [column[label] for label in labels]
        assert 0 < len(asked) < len(column)
        assert doubt[asked].min() > np.delete(doubt, asked).mean()


def test_a_target_that_is_met_ends_the_project(model: CrowdPALDA) -> None:
    report = model.stopping_report(target_error=0.4)
    assert report.met
    assert not len(model.assign(n=10, target_error=0.4))
    assert model.assign(n=10, target_error=0.4).columns.tolist()[:4] == ["annotator", "doc", "gain", "price"]
    assert not model.stopping_report(target_error=1e-4).met
    assert len(model.assign(n=10, target_error=1e-4)) == 10
    assert model.stopping_report(target_f1=0.3).met
    assert not model.stopping_report(target_f1=0.9999).met


def test_report_is_consistent_and_readable(model: CrowdPALDA) -> None:
    report = model.stopping_report()
    assert report.met is None
    assert report.n_votes == 300
    assert report.expected_wrong < report.upper_wrong
    assert report.lower_f1 < report.expected_f1 <= 1.0
    assert report.wrong_after_one_vote < report.expected_wrong
    unknown = model.consensus_[30:]
    np.testing.assert_allclose(report.wrong_per_doc.sum(), np.minimum(unknown, 1 - unknown).sum())
    assert 0.5 < report.fixed_votes_per_doc < 1.5, "every document has one vote"
    text = str(report)
    assert "labels expected wrong" in text
    assert "errors that all annotators share are not covered" in text
    with_gold = model.stopping_report(random_gold=True)
    assert "not covered" not in str(with_gold)
    assert with_gold.calibration.n_votes > report.calibration.n_votes


def test_check_votes_are_random_pairs_that_gains_never_choose(model: CrowdPALDA) -> None:
    table = model.assign(n=60, check_share=0.2)
    checks, chosen = table[table["purpose"] == "check"], table[table["purpose"] == "gain"]
    assert len(checks)
    assert len(chosen)
    before = model.stopping_report(check_share=0.2).n_check_votes
    values = [(doc, who, label, 1) for who, doc in pairs(checks) for label in NEWS.classes]
    model.update(pd.DataFrame(values, columns=["doc", "annotator", "label", "value"]))
    assert model.stopping_report(check_share=0.2).n_check_votes == before + len(checks)
    values = [(doc, who, label, 1) for who, doc in pairs(chosen) for label in NEWS.classes]
    model.update(pd.DataFrame(values, columns=["doc", "annotator", "label", "value"]))
    assert model.stopping_report(check_share=0.2).n_check_votes == before + len(checks)


def test_known_labels_test_newcomers_first(model: CrowdPALDA) -> None:
    judged = sum(doc in set(NEWS.doc_ids[:30]) for _, doc in GIVEN)
    share = (judged + 3.5) / 310
    table = model.assign([BEST, WORST, "new-1", "new-2"], n=10, gold_share=share)
    gold = table[table["purpose"] == "gold"]
    assert len(gold) == 3
    assert set(gold["annotator"].iloc[:2]) == {"new-1", "new-2"}
    assert set(gold["doc"]) <= set(NEWS.doc_ids[:30])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"annotators": []}, "annotators is empty"),
        ({"annotators": [None]}, "empty or missing"),
        ({"n": 0}, "n=0 must be an integer of at least 1"),
        ({"n": 2.5}, "n=2.5 must be an integer"),
        ({"budget": -1}, "budget=-1 must be a number above 0"),
        ({"price": 0}, "prices must be finite numbers above 0"),
        ({"price": {"somebody": 1}}, "price has no entry for annotator"),
        ({"price": "words"}, "price='words' must be a number"),
        ({"price": [1, 2]}, "price must be a number or a mapping"),
        ({"ask": "everything"}, "ask='everything' must be"),
        ({"target_error": 2}, "target_error=2 must be a number between 0 and 1"),
        ({"target_f1": "high"}, "target_f1='high' must be"),
        ({"gold_share": 1.5}, "gold_share=1.5 must be a number from 0 to below 1"),
        ({"check_share": -0.1}, "check_share=-0.1"),
        ({"max_votes_per_doc": 0}, "max_votes_per_doc=0 must be an integer"),
        ({"max_votes_per_annotator": -1}, "must not be below 0"),
        ({"pending": ["ab"]}, "pending must hold pairs"),
        ({"pending": [("a", "nowhere")]}, "pending: document 'nowhere' is not among"),
        ({"exclude": pd.DataFrame({"doc": ["a"]})}, "exclude has no column 'annotator'"),
    ],
)
def test_hostile_arguments_are_one_line(model: CrowdPALDA, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message) as problem:
        model.assign(**arguments)
    assert "\n" not in str(problem.value)


def test_documents_on_which_votes_disagree_wait_for_others(model: CrowdPALDA, monkeypatch: pytest.MonkeyPatch) -> None:
    first = model.assign(n=1)["doc"][0]
    worth = np.ones_like(model.consensus_)
    worth[model.doc_ids_.tolist().index(first)] = 0.1
    for ask in ("document", "labels"):
        monkeypatch.setattr(CrowdPALDA, "_vote_worth", lambda _: np.ones_like(worth))
        before = model.assign([BEST], n=250, ask=ask).set_index("doc")["gain"]
        monkeypatch.setattr(CrowdPALDA, "_vote_worth", lambda _: worth)
        after = model.assign([BEST], n=250, ask=ask).set_index("doc")["gain"]
        assert after[first] == pytest.approx(0.1 * before[first])
        others = before.index.intersection(after.index).drop(first)
        pd.testing.assert_series_equal(after[others], before[others])
