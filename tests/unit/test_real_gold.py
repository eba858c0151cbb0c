"""Figures and crowds of ``python -m benchmarks real_gold``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.real_gold_data import CROWDS, load
from benchmarks.real_gold_hidden import pooled_rates
from benchmarks.real_gold_measures import (
    bootstrap_weights,
    bounds_held,
    evaluate,
    rate_coverage,
    resampled_figures,
    standard_errors,
    weighted_figures,
)
from benchmarks.real_gold_rivals import METHODS, Task, run
from benchmarks.real_gold_store import outcome_of
from sklearn.metrics import average_precision_score, f1_score

from palda import Votes
from palda.models.assignment import no_calibration


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    """A reference with gaps, and probabilities with ties that are a little better than chance."""
    generator = np.random.default_rng(0)
    gold = (generator.random((80, 3)) < 0.3).astype(float)
    probs = np.round(np.clip(0.3 * gold + 0.7 * generator.random((80, 3)), 0.0, 1.0), 1)
    gold[generator.random((80, 3)) < 0.2] = np.nan
    return gold, probs


def test_figures_are_those_of_scikit_learn(table: tuple[np.ndarray, np.ndarray]) -> None:
    gold, probs = table
    known = ~np.isnan(gold)
    truth, given = gold[known], probs[known]
    figures = evaluate(gold, probs)
    assert figures["auprc"] == pytest.approx(average_precision_score(truth, given))
    assert figures["f1"] == pytest.approx(f1_score(truth, given > 0.5))
    assert figures["best_f1"] == pytest.approx(max(f1_score(truth, given >= t) for t in np.unique(given)))
    assert figures["n_labels"] == known.sum()
    assert figures["n_wrong"] == ((given > 0.5) != truth).sum()


def test_log_likelihood_is_clipped_but_the_order_is_not() -> None:
    gold = np.array([[1.0, 0.0, 1.0, 0.0]])
    figures = evaluate(gold, np.array([[1.0, 0.0, 1e-7, 1e-9]]))
    assert figures["log_likelihood"] == pytest.approx((np.log(1e-4) + 3 * np.log(1 - 1e-4)) / 4)
    assert figures["auprc"] == 1.0


def test_calibration_error_and_expected_wrong_labels() -> None:
    gold = np.array([[1.0], [0.0], [0.0], [0.0]])
    figures = evaluate(gold, np.full((4, 1), 0.75))
    assert figures["ece"] == pytest.approx(0.5)
    assert figures["wrong_ratio"] == pytest.approx(4 * 0.25 / 3)


def test_weights_count_labels(table: tuple[np.ndarray, np.ndarray]) -> None:
    gold, probs = table
    known = ~np.isnan(gold)
    truth, given = gold[known] > 0.5, probs[known]
    weights = np.random.default_rng(1).integers(0, 3, len(given))
    repeated = np.repeat(np.arange(len(given)), weights)
    expected = weighted_figures(truth[repeated], given[repeated], np.ones((1, len(repeated))))
    np.testing.assert_allclose(weighted_figures(truth, given, weights[None].astype(float)), expected)


def test_equal_methods_differ_by_nothing(table: tuple[np.ndarray, np.ndarray]) -> None:
    gold, probs = table
    difference = resampled_figures(gold, probs) - resampled_figures(gold, probs)
    np.testing.assert_array_equal(standard_errors([difference, difference]), 0.0)
    assert bootstrap_weights(80).sum(axis=1).tolist() == [80.0] * 200


def test_coverage_counts_annotators_with_enough_reference_votes() -> None:
    gold = np.repeat([[1.0], [0.0]], 50, axis=0)
    answers = np.full((100, 2, 1), -1)
    answers[:, 0, 0] = np.tile([1, 1, 1, 1, 0], 20)  # sensitivity .8, specificity .2
    answers[:10, 1, 0] = 1  # ten votes do not count
    intervals = np.array([[0.75, 0.85, 0.6, 0.7], [0.0, 0.1, 0.0, 0.1]])
    assert rate_coverage(Votes.from_array(answers), gold, intervals) == (1, 2)
    assert rate_coverage(Votes.from_array(answers), gold, np.full((2, 4), np.nan)) == (0, 0)


def test_a_bound_is_that_of_the_labels_of_each_sample_of_documents() -> None:
    rng = np.random.default_rng(0)
    probs = rng.beta(0.3, 0.6, (400, 3))
    gold = np.where(rng.random(probs.shape) < probs, 1.0, 0.0)
    gold[200:] = np.nan  # a bound of all labels would hold whatever it said
    slopes = no_calibration().posterior
    assert bounds_held(gold, probs, slopes, 1.0, 100) >= 80
    assert bounds_held(gold, probs, slopes, 0.6, 100) <= 5
    assert bounds_held(1.0 - gold, probs, slopes, 1.0, 100) == 0


def test_pooled_rates_follow_the_votes() -> None:
    generator = np.random.default_rng(0)
    labels = generator.random((300, 2)) < 0.4
    answers = np.stack([labels, generator.random((300, 2)) < 0.5], axis=1).astype(int)
    rates = pooled_rates(Votes.from_array(answers), labels.astype(float))
    assert (rates[0] > 0.95).all()
    np.testing.assert_allclose(rates[1], 0.5, atol=0.12)


def test_results_are_stored(tmp_path: Path) -> None:
    answers = np.random.default_rng(0).integers(0, 2, (30, 3, 2))
    task = Task(Votes.from_array(answers), ["text"] * 30)
    for method in ("share", "palda"):
        first = outcome_of(tmp_path, "toy", method, task)
        again = outcome_of(tmp_path, "toy", method, task)
        np.testing.assert_array_equal(first.probs, again.probs)
        assert (first.intervals.shape, first.seconds) == (again.intervals.shape, again.seconds)
    assert len(list(tmp_path.rglob("*.npz"))) == 2


def test_stacked_regression_learns_from_known_documents_alone() -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random((200, 1)) < 0.5).astype(float)
    answers = np.stack([1 - labels, generator.random((200, 1)) < 0.5], axis=1).astype(int)  # the first is always wrong
    taught = labels.copy()
    taught[40:] = np.nan
    task = Task(Votes.from_array(answers), [""] * 200, taught)
    assert evaluate(labels[40:], run(METHODS["stacked"], task).probs[40:])["f1"] == 1.0


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_labels", "n_annotators"),
    [
        ("arq2", 10791, 9),
        ("hin2", 15899, 5),
        ("ambient", 4497, 28),
        ("csta1", 327, 51),
        ("csta1_3", 327, 51),
        ("premo60", 3462, 48),
        ("babe", 3021, 13),
    ],
)
def test_crowds_are_read(data_folder: Path, name: str, n_labels: int, n_annotators: int) -> None:
    if not (data_folder / CROWDS[name].folder).is_dir():
        pytest.skip(f"{CROWDS[name].folder} was not found; set PALDA_DATA")
    case = load(name)
    assert (int(np.isfinite(case.gold).sum()), case.votes.n_annotators) == (n_labels, n_annotators)
    assert case.gold.shape == (case.votes.n_docs, case.votes.n_classes)
    assert len(case.texts) == case.votes.n_docs


@pytest.mark.data
def test_people_whose_votes_are_used_are_not_the_reference(data_folder: Path) -> None:
    if not (data_folder / CROWDS["premo60"].folder).is_dir():
        pytest.skip("crowd_premo_llm was not found; set PALDA_DATA")
    case = load("premo60", draw=3)
    assert case.people is not None
    judged = np.flatnonzero(case.people.per_pair().any(axis=1))
    assert len(judged) == 60
    assert np.isnan(case.gold[judged]).all()
    assert load("premo60", 3, "one").people.per_pair().max() == 1  # type: ignore[union-attr]
