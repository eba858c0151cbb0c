from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from palda import metrics
from palda.data import Votes
from palda.errors import DataError
from palda.metrics import annotators as module

VOTES = Votes.from_array([[[1], [0]]])


def random_array(seed: int, n_docs: int = 30, n_annotators: int = 6, n_classes: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, 2, (n_docs, n_annotators, n_classes))
    votes[rng.random(votes.shape) < 0.6] = -1
    return votes


def test_rmse_is_over_annotators_with_both_qualities() -> None:
    assert metrics.annotator_rmse([0.5, 0.9], [0.6, 0.6]) == pytest.approx(np.sqrt((0.01 + 0.09) / 2))
    assert metrics.annotator_rmse([0.5, np.nan], [0.6, 0.6]) == pytest.approx(0.1)
    assert np.isnan(metrics.annotator_rmse([np.nan], [0.5]))


def test_annotators_without_votes_are_left_out_of_the_rmse() -> None:
    votes = Votes.from_array([[[1], [-1], [0]]])
    assert metrics.annotator_rmse([0.5, 0.0, 0.7], [0.6, 1.0, 0.6], votes) == pytest.approx(0.1)


def test_oracle_quality_is_the_share_of_votes_that_equal_the_known_truth() -> None:
    votes = Votes.from_array(
        [
            [[1, 0], [0, -1], [-1, -1]],
            [[0, 1], [1, 1], [-1, -1]],
        ]
    )
    truth = np.array([[1, 0], [1, -1]])
    np.testing.assert_allclose(metrics.oracle_quality(votes, truth), [2 / 3, 1 / 2, np.nan])
    np.testing.assert_allclose(metrics.oracle_quality(votes, truth, given=1), [1 / 2, 1 / 2, np.nan])
    np.testing.assert_allclose(metrics.oracle_quality(votes, truth, given=0), [1, np.nan, np.nan])
    assert metrics.oracle_rmse(votes, truth, [0.5, 0.5, 0.9]) == pytest.approx(np.sqrt((1 / 6) ** 2 / 2))


def test_the_oracle_error_falls_with_the_square_root_of_the_votes() -> None:
    rng = np.random.default_rng(0)
    quality = np.linspace(0.3, 0.95, 40)
    errors = []
    for n_docs in (100, 10_000):
        truth = rng.integers(0, 2, (n_docs, 1))
        right = rng.random((n_docs, 40, 1)) < quality[:, np.newaxis]
        votes = Votes.from_array(np.where(right, truth[:, np.newaxis], 1 - truth[:, np.newaxis]))
        errors.append(metrics.oracle_rmse(votes, truth, quality))
        expected = np.sqrt(np.mean(quality * (1 - quality) / n_docs))
        assert errors[-1] == pytest.approx(expected, rel=0.4)
    assert errors[0] > 6 * errors[1]


def test_the_oracle_without_votes_is_nan() -> None:
    votes = Votes.empty(["a"], ["x"], ["me"])
    assert np.isnan(metrics.oracle_quality(votes, [[1]])).all()
    assert np.isnan(metrics.oracle_rmse(votes, [[1]], [0.5]))


def brute_force_pairs(array: np.ndarray) -> dict[tuple[int, int], tuple[int, float, float]]:
    found = {}
    for one in range(array.shape[1]):
        for two in range(one + 1, array.shape[1]):
            mine, theirs = array[:, one].ravel(), array[:, two].ravel()
            both = (mine >= 0) & (theirs >= 0)
            if both.any():
                mine, theirs = mine[both], theirs[both]
                varied = len({*mine, *theirs}) > 1
                kappa = cohen_kappa_score(mine, theirs) if varied else np.nan
                found[one, two] = (int(both.sum()), float((mine == theirs).mean()), kappa)
    return found


@pytest.mark.parametrize("block", [1, 7, 1 << 21])
@pytest.mark.parametrize("full", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_equal_brute_force_and_cohens_kappa(monkeypatch, seed: int, full: float, block: int) -> None:
    monkeypatch.setattr(module, "_MAX_MATRIX_CELLS", block)
    monkeypatch.setattr(module, "_DENSE_SHARE", full)
    array = random_array(seed)
    array[:, 5] = np.where(np.arange(30)[:, np.newaxis] < 29, -1, array[:, 5])
    pairs = metrics.annotator_pairs(Votes.from_array(array))
    expected = brute_force_pairs(array)
    assert list(zip(pairs.first, pairs.second, strict=True)) == list(expected)
    n_shared, agreement, kappa = (np.array(column) for column in zip(*expected.values(), strict=True))
    np.testing.assert_array_equal(pairs.n_shared, n_shared)
    np.testing.assert_allclose(pairs.agreement, agreement)
    np.testing.assert_allclose(pairs.kappa, kappa, atol=1e-12)


def test_kappa_of_constant_votes_is_nan() -> None:
    pairs = metrics.annotator_pairs(Votes.from_array(np.zeros((4, 2, 1))))
    assert (pairs.agreement[0], pairs.n_shared[0]) == (1, 4)
    assert np.isnan(pairs.kappa[0])


def test_the_matrix_of_pairs_is_symmetric_and_nan_where_nothing_is_shared() -> None:
    votes = Votes.from_array([[[1], [1], [-1]], [[1], [0], [-1]], [[-1], [-1], [1]]])
    pairs = metrics.annotator_pairs(votes)
    nan = np.nan
    np.testing.assert_array_equal(pairs.matrix(pairs.agreement), [[nan, 0.5, nan], [0.5, nan, nan], [nan, nan, nan]])


@pytest.mark.parametrize("annotators", [(), ("me",), ("me", "you")])
def test_without_shared_votes_there_are_no_pairs(annotators: tuple[str, ...]) -> None:
    assert len(metrics.annotator_pairs(Votes.empty(["a"], ["x"], annotators))) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.annotator_rmse([0.5], [0.5, 0.5]), "1 estimated qualities were given for 2 true ones"),
        (lambda: metrics.annotator_rmse([0.5], [0.5], VOTES), "1 qualities were given for votes of 2 annotators"),
        (lambda: metrics.annotator_rmse([[0.5]], [0.5]), "estimated qualities must have one number per annotator"),
        (lambda: metrics.annotator_rmse([0.5, 1.5], [0.5, 1]), "estimated quality of annotator 1 is 1.5"),
        (lambda: metrics.annotator_rmse([0.5], ["good"]), "true qualities must be numbers"),
        (
            lambda: metrics.oracle_quality(VOTES, [[1], [0]]),
            "truth has 2 documents x 1 classes; expected 1 x 1",
        ),
        (lambda: metrics.oracle_quality(VOTES, [[1]], given=2), "given is 2; choose 1"),
    ],
)
def test_invalid_input_is_refused(call, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()
