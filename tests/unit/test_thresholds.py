from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from palda import metrics
from palda.errors import DataError
from palda.metrics import choose_thresholds, expected_measure, thresholds

MEASURES = ("micro_f1", "macro_f1", "jaccard")
SCORES: dict[str, Any] = {
    "micro_f1": metrics.micro_f1,
    "macro_f1": metrics.macro_f1,
    "jaccard": metrics.jaccard_accuracy,
}


def table(seed: int, n_docs: int = 8, n_classes: int = 2) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    probs = rng.random((n_docs, n_classes)).round(2)
    return (rng.random(probs.shape) < probs**2).astype(np.int64), probs


def best_by_search(targets: NDArray[Any], probs: NDArray[Any], measure: Any) -> float:
    """Maximum of the measure over all distinct pairs of thresholds."""
    cuts = [[*np.unique(column), 1.5] for column in probs.T]
    return max(expected_measure(targets, probs, choice, measure) for choice in product(*cuts))


@pytest.mark.parametrize("measure", MEASURES)
@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_the_expected_measure_of_labels_equals_the_measure(measure: Any, seed: int) -> None:
    targets, probs = table(seed)
    targets[0, 0] = -1
    reached = expected_measure(targets, probs, [0.3, 0.6], measure)
    assert reached == pytest.approx(SCORES[measure](targets, metrics.apply_thresholds(probs, [0.3, 0.6])))


@pytest.mark.parametrize("measure", ["micro_f1", "macro_f1"])
@pytest.mark.parametrize("soft", [False, True])
def test_without_a_prior_the_chosen_f1_is_the_maximum(
    measure: Any, soft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "PRIOR_POSITIVES", 0.0)
    for seed in range(20):
        targets, probs = table(seed)
        targets[0] = 1
        given_targets = 0.1 + 0.7 * targets if soft else targets
        cuts = choose_thresholds(given_targets, probs, measure)
        best = best_by_search(given_targets, probs, measure)
        assert expected_measure(given_targets, probs, cuts, measure) == pytest.approx(best)


def test_coordinate_ascent_nearly_maximises_jaccard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "PRIOR_POSITIVES", 0.0)
    lost = []
    for seed in range(20):
        targets, probs = table(seed)
        targets[0] = 1
        cuts = choose_thresholds(targets, probs, "jaccard")
        lost.append(best_by_search(targets, probs, "jaccard") - expected_measure(targets, probs, cuts, "jaccard"))
    assert min(lost) > -1e-12
    assert np.mean(np.array(lost) < 1e-12) >= 0.8
    assert max(lost) < 0.1


@pytest.mark.parametrize("measure", MEASURES)
@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=st.integers(0, 10_000), soft=st.booleans())
def test_chosen_thresholds_are_never_worse_than_one_half_on_the_same_data(measure: Any, seed: int, soft: bool) -> None:
    targets, probs = table(seed, n_docs=12, n_classes=3)
    given_targets = np.where(targets == 1, 0.8, 0.1) if soft else targets
    cuts = choose_thresholds(given_targets, probs, measure)
    half = expected_measure(given_targets, probs, [0.5] * 3, measure)
    assert expected_measure(given_targets, probs, cuts, measure) >= half - 1e-12


def test_with_calibrated_probabilities_every_threshold_is_half_of_the_f1_reached() -> None:
    rng = np.random.default_rng(0)
    probs = rng.beta(0.5, 2.0, (20_000, 3))
    cuts = choose_thresholds(probs, probs, "micro_f1")  # soft targets that equal the probabilities
    np.testing.assert_allclose(cuts, expected_measure(probs, probs, cuts) / 2.0, atol=1e-3)


def test_a_rare_class_gets_the_common_threshold_and_a_frequent_one_its_own() -> None:
    rng = np.random.default_rng(0)
    probs = rng.beta(0.5, 2.0, (5000, 3))
    labels = (rng.random(probs.shape) < probs).astype(np.int64)
    labels[:, 1] = rng.random(5000) < probs[:, 1] ** 3  # overestimated, seen in many documents
    labels[1:, 2] = -1
    labels[0, 2], probs[0, 2] = 1, 0.05  # its only document suggests a threshold of .05
    cuts = choose_thresholds(labels, probs)
    assert cuts[1] > cuts[0] + 0.1
    assert cuts[2] > 0.05
    assert cuts[2] == pytest.approx(expected_measure(labels, probs, cuts) / 2.0, abs=0.05)


@pytest.mark.parametrize("measure", MEASURES)
def test_unknown_cells_have_no_influence(measure: Any) -> None:
    targets, probs = table(3, n_docs=40)
    targets[::3, 1] = -1
    other = probs.copy()
    other[::3, 1] = 0.99
    nan = np.where(targets < 0, np.nan, targets)
    cuts = choose_thresholds(targets, probs, measure)
    assert np.array_equal(choose_thresholds(nan, other, measure), cuts)


@pytest.mark.parametrize("measure", MEASURES)
def test_classes_without_positives_or_known_cells_get_usable_thresholds(measure: Any) -> None:
    targets, probs = table(5, n_docs=30, n_classes=4)
    targets[:, 1], targets[:, 2] = 0, -1
    probs[:, 3], targets[:, 3] = 0.4, 1  # equal probabilities allow no cut between them
    cuts = choose_thresholds(targets, probs, measure)
    assert np.isfinite(cuts).all()
    assert ((cuts >= 0) & (cuts <= 1.0 + 1e-9)).all()
    metrics.apply_thresholds(probs, cuts)


def test_a_threshold_above_1_leaves_a_probability_of_1_unflagged() -> None:
    targets, probs = np.zeros((50, 2)), np.full((50, 2), 1.0)
    targets[:, 0] = 1
    cuts = thresholds._Ranking.of(probs[:, 1], np.ones(50, dtype=bool)).threshold(0, 0.3)
    assert not (probs[:, 1] >= cuts).any()


@pytest.mark.parametrize(
    ("targets", "probs", "measure", "message"),
    [
        ([[1, 0]], [[0.5, 0.5]], "accuracy", "choose from"),
        ([[1, 0]], [[0.5]], "micro_f1", "must be equal"),
        ([[2, 0]], [[0.5, 0.5]], "micro_f1", "targets holds 2.0 at document 0, class 0"),
        ([[1, 0]], [[0.5, 1.5]], "micro_f1", "between 0 and 1"),
    ],
)
def test_invalid_input_is_refused(targets: Any, probs: Any, measure: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        choose_thresholds(targets, probs, measure)


def test_unknown_targets_are_not_changed_in_place() -> None:
    targets, probs = np.array([[1.0, -1.0], [0.0, 1.0]]), np.array([[0.9, 0.2], [0.1, 0.7]])
    choose_thresholds(targets, probs)
    assert targets[0, 1] == -1.0
