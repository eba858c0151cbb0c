"""``aggregate``: consensus from votes without texts."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from palda import metrics, simulate
from palda.data import Votes
from palda.errors import PaldaWarning
from palda.estimators import ANNOTATOR_MODELS, aggregate
from palda.io import catalog

RNG = np.random.default_rng(0)
SETS = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 0]])
TRUTH = SETS[RNG.integers(0, 3, 300)] ^ (RNG.random((300, 4)) < 0.05)
VOTES, PEOPLE = simulate.crowd(TRUTH, [0.95, 0.9, 0.8, 0.7, 0.6, 0.1], seed=1, votes_per_doc=4)


def as_array(votes: Votes) -> np.ndarray:
    table = np.full((votes.n_docs, votes.n_annotators, votes.n_classes), -1)
    table[votes.doc, votes.annotator, votes.label] = votes.value
    return table


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
def test_consensus_is_better_than_majority_vote(annotators: str) -> None:
    found = aggregate(VOTES, annotators)
    majority = VOTES.yes_per_pair() / VOTES.per_pair() > 0.5
    assert metrics.micro_f1(TRUTH, found.consensus > 0.5) > metrics.micro_f1(TRUTH, majority) + 0.1
    assert found.converged
    assert found.n_iter == len(found.log_likelihoods)
    assert np.diff(found.log_likelihoods).min() >= -1e-9 * abs(found.log_likelihoods[-1])


def test_annotator_quality_is_recovered() -> None:
    table = aggregate(VOTES, "one_coin").annotator_quality
    assert table["annotator"].tolist() == VOTES.annotators.tolist()
    assert metrics.annotator_rmse(table["quality"], PEOPLE.quality) < 0.03
    assert table["verdict"].iloc[-1] == "adversarial"
    assert table["n_votes"].tolist() == VOTES.per_annotator().tolist()


def test_all_forms_of_votes_give_equal_results() -> None:
    found = aggregate(VOTES).consensus
    np.testing.assert_array_equal(aggregate(VOTES.to_frame()).consensus, found)
    np.testing.assert_array_equal(aggregate(as_array(VOTES)).consensus, found)


def test_number_of_threads_does_not_change_results() -> None:
    first, second = aggregate(VOTES, n_profiles=3, n_jobs=1), aggregate(VOTES, n_profiles=3, n_jobs=2)
    np.testing.assert_array_equal(first.consensus, second.consensus)
    np.testing.assert_array_equal(first.log_likelihoods, second.log_likelihoods)


def test_n_profiles_is_chosen_or_respected() -> None:
    assert len(aggregate(VOTES).profiles.weights) > 1
    assert aggregate(VOTES, n_profiles=1).profiles.rates.shape == (1, 4)
    assert aggregate(VOTES, n_profiles=5).profiles.rates.shape == (5, 4)


def test_to_frame_is_long_or_wide() -> None:
    found = aggregate(VOTES, n_profiles=1)
    long, wide = found.to_frame(), found.to_frame(wide=True)
    assert long.columns.tolist() == ["doc", "label", "probability"]
    assert wide.index.tolist() == VOTES.doc_ids.tolist()
    assert wide.columns.tolist() == VOTES.classes.tolist()
    np.testing.assert_array_equal(wide.to_numpy(), found.consensus)
    pivoted = long.pivot_table(index="doc", columns="label", values="probability", sort=False)
    np.testing.assert_array_equal(pivoted.to_numpy(), found.consensus)


def test_gold_labels_are_kept_and_correct_an_adversarial_crowd() -> None:
    votes, _ = simulate.crowd(TRUTH, [0.2, 0.25, 0.3, 0.1], seed=2, votes_per_doc=3)
    gold = np.full(TRUTH.shape, -1)
    gold[:60] = TRUTH[:60]
    found = aggregate(votes, gold=gold)
    np.testing.assert_array_equal(found.consensus[:60], TRUTH[:60])
    assert metrics.micro_f1(TRUTH[60:], found.consensus[60:] > 0.5) > 0.85
    assert set(found.annotator_quality["verdict"]) == {"adversarial"}


def test_gold_data_frame_is_matched_by_name() -> None:
    gold = np.full(TRUTH.shape, np.nan)
    gold[[7, 200], 1] = TRUTH[[7, 200], 1]
    named = pd.DataFrame({VOTES.classes[1]: TRUTH[[200, 7], 1]}, index=VOTES.doc_ids[[200, 7]])
    by_name, by_place = (aggregate(VOTES, n_profiles=1, gold=table).consensus for table in (named, gold))
    np.testing.assert_array_equal(by_name, by_place)


def test_annotator_prior_improves_quality_estimates() -> None:
    few = simulate.votes(TRUTH[:12], PEOPLE, seed=3, votes_per_doc=2)
    earlier = aggregate(VOTES, n_profiles=1).annotator_quality
    fresh, informed = (aggregate(few, n_profiles=1, annotator_prior=prior) for prior in (None, earlier))
    errors = [metrics.annotator_rmse(found.annotator_quality["quality"], PEOPLE.quality) for found in (fresh, informed)]
    assert errors[1] < errors[0] / 2


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
@pytest.mark.parametrize(
    "table",
    [
        np.full((3, 2, 2), -1),
        np.ones((1, 1, 1)),
        np.zeros((4, 1, 3)),
        np.where(np.arange(3) == 1, -1, as_array(VOTES)[:6, :, :3]),
        np.where(np.arange(8)[:, None, None] < 5, -1, as_array(VOTES)[:8]),
    ],
    ids=["no votes", "one of everything", "one annotator", "a class without votes", "documents without votes"],
)
def test_very_few_votes_give_finite_results(table: np.ndarray, annotators: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="nobody voted on", category=PaldaWarning)
        found = aggregate(table, annotators)
    assert found.consensus.shape == (table.shape[0], table.shape[2])
    assert ((found.consensus >= 0) & (found.consensus <= 1)).all()
    assert np.isfinite(found.annotator_quality["quality"]).all()


def test_earlier_votes_of_a_model_count_in_its_rates() -> None:
    kinds = np.array(["model", "model", *["person"] * 4], dtype=object)
    votes = replace(VOTES, annotator_kinds=kinds).select(VOTES.annotator > 0)
    prior = pd.DataFrame({"annotator": VOTES.annotators[:1], "sensitivity": 0.2, "specificity": 0.9, "n_votes": 300})
    table = aggregate(votes, annotator_prior=prior, n_profiles=1).annotator_quality
    assert table["n_votes"][0] == 0
    assert abs(table["sensitivity"][0] - 0.2) < 0.1
    assert abs(table["specificity"][0] - 0.9) < 0.1


def test_rates_without_votes_are_those_of_the_crowd_although_somebody_changes() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((150, 1, 3)) < 0.3
    table = (truth ^ (rng.random((150, 6, 3)) < 0.2)).astype(float)
    table[75:, 4] = 1 - table[75:, 4]
    table[:, 5] = np.nan
    votes = Votes.from_array(table)
    votes = replace(votes, time=86400.0 * votes.doc)
    found, plain = (aggregate(votes, drift=drift, n_profiles=1) for drift in (True, False))
    assert len(found.changes) == 1
    for name in ("sensitivity", "specificity"):
        assert abs(found.annotator_quality[name][5] - plain.annotator_quality[name][5]) < 0.08


@pytest.mark.parametrize("sure", [1.0, 0.9])
def test_votes_of_one_half_are_no_judgement(sure: float) -> None:
    table = as_array(VOTES)[:50].astype(float)
    table[table == 1] = sure
    undecided = np.random.default_rng(0).random(table.shape) < 0.3
    half, missing = (np.where(undecided, value, table) for value in (0.5, -1.0))
    assert Votes.from_array(half) == Votes.from_array(missing)
    frames = []
    for values in (half, missing):
        rows = [(*(str(k) for k in place), value) for place, value in np.ndenumerate(values)]
        frames.append(pd.DataFrame(rows, columns=["doc", "annotator", "label", "value"]).replace(-1.0, np.nan))
    assert Votes.from_frame(frames[0]) == Votes.from_frame(frames[1])


def test_a_class_without_votes_is_absent_and_named_in_a_warning() -> None:
    table = as_array(VOTES)[:100].copy()
    others = aggregate(table[:, :, :3], n_profiles=1).consensus
    table[:, :, 3] = -1
    with pytest.warns(PaldaWarning, match="nobody voted on '3'"):
        found = aggregate(table, n_profiles=1)
    assert found.consensus[:, 3].max() < 1e-6
    np.testing.assert_allclose(found.consensus[:, :3], others, atol=0.02)


def test_gold_labels_decide_on_a_class_without_votes() -> None:
    table = as_array(VOTES)[:100].copy()
    table[:, :, 3] = -1
    gold = np.full((100, 4), -1)
    gold[:50, 3] = np.arange(50) < 40
    found = aggregate(table, n_profiles=1, gold=gold).consensus[:, 3]  # without a warning
    np.testing.assert_array_equal(found[:50], gold[:50, 3])
    assert found[50:] == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
def test_votes_on_one_document_make_nobody_reliable(annotators: str) -> None:
    truth = RNG.random((60, 14)) < 0.4
    table = np.repeat(truth[:, None], 4, axis=1).astype(int)
    table[1:, 3] = -1  # the last annotator judged all 14 classes of the first document
    quality = aggregate(table, annotators, n_profiles=1, copies=False).annotator_quality
    assert quality["n_votes"].tolist() == [840, 840, 840, 14]
    assert quality["verdict"].tolist() == ["reliable", "reliable", "reliable", "too few votes"]


@pytest.mark.parametrize("annotators", list(ANNOTATOR_MODELS))
def test_a_single_annotator_is_reliable_only_with_gold_labels(annotators: str) -> None:
    alone = TRUTH[:, None]
    assert aggregate(alone, annotators).annotator_quality["verdict"].tolist() == ["too few votes"]
    gold = np.where(np.arange(300)[:, None] < 60, TRUTH, -1)
    assert aggregate(alone, annotators, gold=gold).annotator_quality["verdict"].tolist() == ["reliable"]


def test_too_few_iterations_warn() -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations; raise max_iter or tol"):
        found = aggregate(VOTES, n_profiles=1, max_iter=2)
    assert not found.converged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"votes": None}, "votes are missing"),
        ({"votes": np.ones((3, 2))}, "votes need a numeric array of shape"),
        ({"votes": np.ones((0, 2, 2))}, "at least one document, annotator and class; there are 0, 2 and 2"),
        ({"annotators": "three_coin"}, "'annotators' parameter of aggregate must be a str among"),
        ({"n_profiles": "many"}, "'n_profiles' parameter of aggregate .* Got 'many'"),
        ({"n_profiles": 0}, "'n_profiles' parameter of aggregate must be an int in the range"),
        ({"max_iter": 0}, "'max_iter' parameter of aggregate must be an int in the range"),
        ({"tol": -1.0}, "'tol' parameter of aggregate must be a float in the range"),
        ({"random_state": "x"}, "'random_state' parameter of aggregate must be an int in the range"),
        ({"gold": np.zeros((2, 4))}, r"gold has shape \(2, 4\), not"),
        ({"gold": pd.DataFrame({"0": [1]}, index=["nobody"])}, "gold: .*nobody"),
        ({"gold": pd.DataFrame({"0": [1, 0]}, index=["5", "5"])}, "gold names document '5' twice"),
    ],
)
def test_invalid_input_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        aggregate(**({"votes": VOTES} | options))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("name", "votes_per_doc", "least_gain"), [("yeast", 2, 0.012), ("scene", 5, 0.02)])
def test_profiles_improve_consensus_on_real_label_sets(
    data_folder: Path, name: str, votes_per_doc: int, least_gain: float
) -> None:
    train = catalog.load(name, seed=0, folder=data_folder).train
    votes, _ = simulate.crowd(train.Y, "paper", seed=0, votes_per_doc=votes_per_doc)
    alone, together = (metrics.micro_f1(train.Y, aggregate(votes, n_profiles=n).consensus > 0.5) for n in (1, "auto"))
    assert together > alone + least_gain
