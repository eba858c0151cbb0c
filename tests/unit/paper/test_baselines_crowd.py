"""Learning from votes: aggregated labels, and Raykar's joint model."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from palda import Votes, metrics, simulate
from palda.errors import DataError, MissingDependencyError
from palda.paper.baselines import (
    CROWD_BASELINES,
    OneVsRest,
    Raykar,
    aggregate_labels,
    dawid_skene,
    out_of_fold_probs,
)

pytestmark = pytest.mark.slow

ONE: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
QUALITIES = [0.95, 0.9, 0.95, 0.9, 0.55, 0.5, 0.55, 0.5]


def needs_crowd_kit() -> None:
    pytest.importorskip("crowdkit", reason="Dawid-Skene needs crowd-kit: pip install 'palda[baselines]'")


def documents(n_docs: int = 300, seed: int = 0) -> tuple[Any, NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, 3)) < (0.5, 0.35, 0.25)).astype(np.int8)
    return sparse.csr_array(rng.poisson(0.4 + 0.8 * np.repeat(labels, 5, axis=1))), labels


COUNTS, TRUTH = documents()
NEW_COUNTS, NEW_TRUTH = documents(seed=1)
VOTES, PEOPLE = simulate.crowd(TRUTH, QUALITIES, seed=0, votes_per_doc=4)


def test_votes_without_errors_give_the_true_labels() -> None:
    votes, _ = simulate.crowd(TRUTH, [1.0, 1.0, 1.0], seed=0, votes_per_doc=3)
    labels, targets = aggregate_labels(votes, "majority")
    np.testing.assert_array_equal(labels, TRUTH)
    np.testing.assert_array_equal(targets, TRUTH)


def test_ties_and_classes_without_votes_count_as_absent() -> None:
    table = np.full((4, 2, 2), -1)
    table[0] = [[1, 1], [1, 0]]  # agreed; a tie
    table[1, 0] = [0, -1]  # nobody judged the second class
    table[3, 1] = [1, 1]
    labels, _ = aggregate_labels(Votes.from_array(table), "majority")
    np.testing.assert_array_equal(labels, [[1, 0], [0, 0], [0, 0], [1, 1]])


def test_dawid_skene_beats_the_majority_when_half_of_the_annotators_are_poor() -> None:
    needs_crowd_kit()
    majority, weighted = (aggregate_labels(VOTES, rule) for rule in ("majority", "dawid_skene"))  # type: ignore[arg-type]
    before = metrics.micro_f1(TRUTH, majority.labels)
    assert metrics.micro_f1(TRUTH, weighted.labels) > before + 0.05
    np.testing.assert_array_equal(weighted.labels, weighted.targets > 0.5)


def test_dawid_skene_accepts_classes_with_unanimous_votes_or_none() -> None:
    needs_crowd_kit()
    table = np.full((5, 3, 4), -1)
    table[:, :, 0], table[:, :, 1] = 1, 0
    table[:3, :, 2] = [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    probs = dawid_skene(Votes.from_array(table))
    np.testing.assert_array_equal(probs > 0.5, [[1, 0, i in {0, 2}, 0] for i in range(5)])


def test_one_coin_is_as_good_as_dawid_skene_where_annotators_have_one_rate() -> None:
    needs_crowd_kit()
    one, two = (metrics.micro_f1(TRUTH, dawid_skene(VOTES, one_coin=one_coin) > 0.5) for one_coin in (True, False))
    assert one >= two - 0.01
    assert one > metrics.micro_f1(TRUTH, aggregate_labels(VOTES, "majority").labels) + 0.05


def test_dawid_skene_without_crowd_kit_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crowdkit", None)
    monkeypatch.setitem(sys.modules, "crowdkit.aggregation", None)
    with pytest.raises(MissingDependencyError, match=r"palda\[baselines\]"):
        aggregate_labels(VOTES, "dawid_skene")


@pytest.mark.parametrize("coins", ["shared", "per_class"])
def test_raykar_recovers_annotators_and_labels(coins: Any) -> None:
    model = Raykar(coins, **ONE).fit(COUNTS, VOTES)
    sensitivity, specificity = (
        rates if coins == "shared" else rates.mean(axis=1) for rates in (model.sensitivity_, model.specificity_)
    )
    assert metrics.annotator_rmse(sensitivity, PEOPLE.quality) < 0.06
    assert metrics.annotator_rmse(specificity, PEOPLE.quality) < 0.06
    majority = metrics.micro_f1(TRUTH, aggregate_labels(VOTES, "majority").labels)
    assert metrics.micro_f1(TRUTH, model.consensus_ >= 0.5) > majority + 0.1
    assert model.n_iter_ < 30


def test_raykar_is_nearly_as_good_as_a_classifier_trained_on_the_truth() -> None:
    from_truth = OneVsRest(**ONE).fit(COUNTS, TRUTH).predict(NEW_COUNTS)
    from_votes = Raykar(**ONE).fit(COUNTS, VOTES).predict(NEW_COUNTS)
    assert metrics.micro_f1(NEW_TRUTH, from_votes) > metrics.micro_f1(NEW_TRUTH, from_truth) - 0.02


def test_out_of_fold_probabilities_of_raykar_are_as_good_as_those_of_new_documents() -> None:
    model = Raykar(**ONE).fit(COUNTS, VOTES)
    out_of_fold = metrics.micro_f1(TRUTH, model.out_of_fold_probs_ >= 0.5)
    assert abs(out_of_fold - metrics.micro_f1(NEW_TRUTH, model.predict(NEW_COUNTS))) < 0.05
    assert out_of_fold < metrics.micro_f1(TRUTH, model.consensus_ >= 0.5)  # they have not seen the votes


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
def test_crowd_baselines_are_reproducible_and_do_not_change_their_input(name: str) -> None:
    votes, _ = simulate.crowd(TRUTH[:80], [0.97, 0.95, 0.9], seed=0, votes_per_doc=3)
    before, values = COUNTS[:80].toarray(), votes.value.copy()
    baselines = [CROWD_BASELINES[name].make(3, 1, True).fit(COUNTS[:80], votes) for _ in range(2)]
    probs = [baseline.predict_proba(NEW_COUNTS) for baseline in baselines]
    np.testing.assert_array_equal(*probs)
    np.testing.assert_array_equal(votes.value, values)
    np.testing.assert_array_equal(COUNTS[:80].toarray(), before)
    assert metrics.micro_f1(NEW_TRUTH, probs[0] >= 0.5) > 0.6


def test_thresholds_can_be_chosen_from_votes_alone() -> None:
    model = Raykar(**ONE)
    probs = out_of_fold_probs(model, COUNTS, VOTES, random_state=0)
    model.fit(COUNTS, VOTES)
    thresholds = metrics.choose_thresholds(model.targets_, probs)
    assert thresholds.shape == (3,)
    assert metrics.micro_f1(NEW_TRUTH, model.predict_proba(NEW_COUNTS) >= thresholds) > 0.7


def test_invalid_votes_and_options_are_refused() -> None:
    empty = Votes.from_array(np.full((300, 2, 3), -1))
    with pytest.raises(DataError, match="votes"):
        Raykar(**ONE).fit(COUNTS, empty)
    with pytest.raises(DataError, match="300 documents"):
        Raykar(**ONE).fit(COUNTS, VOTES.take(slice(0, 10)))
    with pytest.raises(DataError, match="rule must be one of"):
        aggregate_labels(VOTES, "mean")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="coins must be one of"):
        Raykar("three").fit(COUNTS, VOTES)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="2 features, but training had 15"):
        Raykar(**ONE).fit(COUNTS, VOTES).predict_proba(COUNTS[:, :2])
