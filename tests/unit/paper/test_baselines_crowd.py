"""Rivals that learn from votes: aggregate first and learn then, or both at once."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from palda import Votes, metrics, simulate
from palda.errors import DataError, MissingDependencyError
from palda.paper import Majority, OneVsRest, OnLabels, Rakel, Raykar, Thresholded, dawid_skene
from palda.paper.baselines import CROWD_BASELINES

ONE: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
GOOD_AND_POOR = [0.95, 0.9, 0.95, 0.9, 0.55, 0.5, 0.55, 0.5]


def needs_crowd_kit() -> None:
    pytest.importorskip("crowdkit", reason="Dawid-Skene needs crowd-kit: pip install 'palda[baselines]'")


def documents(n_docs: int = 300, seed: int = 0) -> tuple[Any, NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, 3)) < (0.5, 0.35, 0.25)).astype(np.int8)
    return sparse.csr_array(rng.poisson(0.4 + 0.8 * np.repeat(labels, 5, axis=1))), labels


COUNTS, TRUTH = documents()
NEW_COUNTS, NEW_TRUTH = documents(seed=1)
VOTES, PEOPLE = simulate.crowd(TRUTH, GOOD_AND_POOR, seed=0, votes_per_doc=4)


def test_clean_votes_teach_what_the_truth_teaches() -> None:
    votes, _ = simulate.crowd(TRUTH, [1.0, 1.0, 1.0], seed=0, votes_per_doc=3)
    base = Rakel(**ONE)
    from_truth = clone(base).fit(COUNTS, TRUTH).predict_proba(NEW_COUNTS)
    model = OnLabels(base).fit(COUNTS, votes)
    np.testing.assert_array_equal(model.labels_, TRUTH)
    np.testing.assert_array_equal(model.predict_proba(NEW_COUNTS), from_truth)
    np.testing.assert_array_equal(model.predict(NEW_COUNTS), from_truth >= 0.5)
    assert not hasattr(base, "learned_")


def test_ties_and_silence_are_absent_and_documents_without_votes_do_not_teach() -> None:
    table = np.full((4, 2, 2), -1)
    table[0] = [[1, 1], [1, 0]]  # agreed; a tie
    table[1, 0] = [0, -1]  # nobody judged the second class
    table[3, 1] = [1, 1]
    model = OnLabels(Majority()).fit(np.eye(4), Votes.from_array(table))
    np.testing.assert_array_equal(model.labels_, [[1, 0], [0, 0], [-1, -1], [1, 1]])
    np.testing.assert_array_equal(np.isnan(model.targets_).all(axis=1), [False, False, True, False])
    np.testing.assert_allclose(model.predict_proba(np.eye(4))[0], [2 / 3, 1 / 3])


def test_dawid_skene_beats_the_majority_when_half_of_the_annotators_are_poor() -> None:
    needs_crowd_kit()
    majority, weighed = (
        OnLabels(Majority(), kind, max_iter=10).fit(COUNTS, VOTES) for kind in ("majority", "dawid_skene")
    )
    before = metrics.micro_f1(TRUTH, majority.labels_)
    assert metrics.micro_f1(TRUTH, weighed.labels_) > before + 0.05
    np.testing.assert_array_equal(weighed.labels_, weighed.targets_ > 0.5)


def test_dawid_skene_takes_classes_that_all_agree_on_or_nobody_judged() -> None:
    needs_crowd_kit()
    table = np.full((5, 3, 4), -1)
    table[:, :, 0], table[:, :, 1] = 1, 0
    table[:3, :, 2] = [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    probs = dawid_skene(Votes.from_array(table))
    np.testing.assert_array_equal(probs > 0.5, [[1, 0, i in {0, 2}, 0] for i in range(5)])


def test_dawid_skene_without_crowd_kit_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crowdkit", None)
    monkeypatch.setitem(sys.modules, "crowdkit.aggregation", None)
    with pytest.raises(MissingDependencyError, match=r"palda\[baselines\]"):
        OnLabels(Majority(), "dawid_skene").fit(COUNTS, VOTES)


@pytest.mark.parametrize("coins", ["shared", "per_class"])
def test_raykar_recovers_annotators_and_labels(coins: Any) -> None:
    model = Raykar(coins, **ONE).fit(COUNTS, VOTES)
    sensitivity, specificity = (
        rates if coins == "shared" else rates.mean(axis=1) for rates in (model.sensitivity_, model.specificity_)
    )
    assert metrics.annotator_rmse(sensitivity, PEOPLE.quality) < 0.06
    assert metrics.annotator_rmse(specificity, PEOPLE.quality) < 0.06
    majority = metrics.micro_f1(TRUTH, OnLabels(Majority()).fit(COUNTS, VOTES).labels_)
    assert metrics.micro_f1(TRUTH, model.consensus_ >= 0.5) > majority + 0.1
    assert model.n_iter_ < 30


def test_raykar_is_nearly_as_good_as_a_classifier_that_knows_the_truth() -> None:
    from_truth = OneVsRest(**ONE).fit(COUNTS, TRUTH).predict(NEW_COUNTS)
    from_votes = Raykar(**ONE).fit(COUNTS, VOTES).predict(NEW_COUNTS)
    assert metrics.micro_f1(NEW_TRUTH, from_votes) > metrics.micro_f1(NEW_TRUTH, from_truth) - 0.02


def test_raykar_reads_values_and_ignores_documents_without_votes() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 3))
    truth = (values[:, :2] > 0).astype(np.int8)
    table = np.repeat(truth[:, None], 3, axis=1)
    table[150:] = -1
    model = Raykar(**ONE).fit(values, Votes.from_array(table))
    assert np.isnan(model.targets_[150:]).all()
    assert metrics.micro_f1(truth[150:], model.predict(values[150:])) > 0.9


@pytest.mark.parametrize("name", CROWD_BASELINES)
def test_rivals_of_crowds_are_repeatable_and_leave_votes_alone(name: str) -> None:
    if CROWD_BASELINES[name].extra:
        needs_crowd_kit()
    votes, _ = simulate.crowd(TRUTH[:80], [0.97, 0.95, 0.9], seed=0, votes_per_doc=3)
    before, values = COUNTS[:80].toarray(), votes.value.copy()
    rivals = [CROWD_BASELINES[name].make(3, 1, True).fit(COUNTS[:80], votes) for _ in range(2)]
    probs = [rival.predict_proba(NEW_COUNTS) for rival in rivals]
    np.testing.assert_array_equal(*probs)
    np.testing.assert_array_equal(votes.value, values)
    np.testing.assert_array_equal(COUNTS[:80].toarray(), before)
    assert metrics.micro_f1(NEW_TRUTH, probs[0] >= 0.5) > 0.6


@pytest.mark.parametrize("model", [OnLabels(OneVsRest(**ONE)), Raykar(**ONE)], ids=["majority", "raykar"])
def test_thresholds_are_chosen_from_votes_alone(model: Any) -> None:
    chosen = Thresholded(model, "micro_f1", random_state=0).fit(COUNTS, VOTES)
    assert chosen.thresholds_.shape == (3,)
    assert metrics.micro_f1(NEW_TRUTH, chosen.predict(NEW_COUNTS)) > 0.7


def test_votes_that_do_not_fit_are_refused_in_one_line() -> None:
    empty = Votes.from_array(np.full((300, 2, 3), -1))
    for model in (OnLabels(Majority()), Raykar(**ONE)):
        with pytest.raises(DataError, match="vote"):
            model.fit(COUNTS, empty)
        with pytest.raises(DataError, match="300 documents"):
            model.fit(COUNTS, VOTES.take(slice(0, 10)))
    with pytest.raises(DataError, match="aggregation must be one of"):
        OnLabels(Majority(), "mean").fit(COUNTS, VOTES)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="coins must be one of"):
        Raykar("three").fit(COUNTS, VOTES)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="2 features, but training had 15"):
        Raykar(**ONE).fit(COUNTS, VOTES).predict_proba(COUNTS[:, :2])
