"""Expected errors, their calibration on check votes, and check votes and known labels among assignments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from palda import Votes
from palda.models.assignment import (
    Candidates,
    LabelHistogram,
    Rates,
    calibrate,
    check_documents,
    check_looks,
    choose_check_pairs,
    choose_gold_pairs,
    fixed_overlap_errors,
    is_check_pair,
    n_due,
    name_hashes,
    no_calibration,
    slope_log_likelihoods,
    split_looks,
    vote_log_likelihoods,
    votes_needed,
)
from palda.models.crowd import Profiles


def unknown(shape: tuple[int, int]) -> np.ndarray:
    return np.full(shape, -1, dtype=np.int8)


def test_expected_numbers_are_those_of_the_probabilities() -> None:
    probs = np.random.default_rng(0).beta(0.2, 0.4, (400, 5))
    known = unknown(probs.shape)
    known[0], probs[0] = [1, 0, 1, 0, 0], [1, 0, 1, 0, 0]
    quality = LabelHistogram.of(probs, known).quality(1.0)
    wrong = np.minimum(probs, 1 - probs).sum()
    found = probs[probs >= 0.5].sum()
    assert quality.wrong == pytest.approx(wrong, rel=0.01)
    assert quality.found == pytest.approx(found, rel=0.01)
    assert quality.f1 == pytest.approx(2 * found / (2 * found + wrong), rel=0.01)
    assert LabelHistogram.of(probs, known).n_labels == probs.size


@pytest.mark.parametrize("slope", [0.6, 1.0, 1.5])
def test_check_votes_find_the_slope_of_the_log_odds(slope: float) -> None:
    rng = np.random.default_rng(1)
    probs = rng.beta(0.5, 0.5, (6000, 3))
    present = rng.random(probs.shape) < expit(slope * logit(np.clip(probs, 1e-9, 1 - 1e-9)))
    rates = Rates(np.full(probs.shape, 0.9), np.full(probs.shape, 0.85))
    yes = np.where(present, rng.random(probs.shape) < 0.9, rng.random(probs.shape) > 0.85)
    tables = vote_log_likelihoods(yes.astype(np.int8), rates)
    found = calibrate(slope_log_likelihoods(probs, *tables), probs.size)
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.low < slope < found.high


def test_without_check_votes_the_bound_is_wider_than_sampling_alone() -> None:
    probs = np.random.default_rng(2).beta(0.1, 0.4, (500, 5))
    histogram = LabelHistogram.of(probs, unknown(probs.shape))
    expected, prior = histogram.quality(1.0), no_calibration()
    assert prior.slope == pytest.approx(1.0)
    assert prior.upper_wrong(histogram) > expected.wrong + 1.3 * expected.deviation
    certain = LabelHistogram.of(np.zeros((3, 2)), unknown((3, 2)))
    assert prior.upper_wrong(certain) < 1.0


def test_the_bound_holds_in_nine_of_ten_projects_at_any_look() -> None:
    """Labels drawn from calibrated probabilities; the project stops at the first look that meets a target."""
    rng, exceeded, prior = np.random.default_rng(3), 0, no_calibration()
    for _ in range(120):
        probs = rng.beta(0.2, 0.2, (60, 4))
        truth = rng.random(probs.shape) < probs
        bound = prior.upper_wrong(LabelHistogram.of(probs, unknown(probs.shape)))
        for _ in range(6):
            if bound <= 20.0:
                break
            vote = np.where(truth, rng.random(probs.shape) < 0.8, rng.random(probs.shape) > 0.8)
            ratio = np.where(vote, 4.0, 0.25)
            probs = probs * ratio / (probs * ratio + 1.0 - probs)
            bound = prior.upper_wrong(LabelHistogram.of(probs, unknown(probs.shape)))
        exceeded += int(((probs >= 0.5) != truth).sum() > bound)
    assert exceeded <= 12


def test_check_documents_and_pairs_follow_from_names_alone() -> None:
    docs, people = [f"doc-{n}" for n in range(4000)], [f"ann-{n}" for n in range(30)]
    hashes, own = name_hashes(docs, "document"), name_hashes(people, "annotator")
    chosen = check_documents(hashes, 0.05)
    assert 0.04 < chosen.mean() < 0.06
    again = check_documents(name_hashes(docs[::-1], "document"), 0.05)
    np.testing.assert_array_equal(again[::-1], chosen)
    pairs = is_check_pair(hashes[chosen], own[:, None])
    assert 0.47 < pairs.mean() < 0.53
    assert (pairs.mean(axis=1) > 0.35).all()
    looks = np.array([(d, k) for d in np.flatnonzero(chosen)[:20] for k in range(30)])
    found = check_looks(looks, hashes, own, 0.05)
    assert len(found) == pairs[:, :20].sum()


def test_votes_are_split_into_looks_and_others() -> None:
    votes = Votes.from_records([("a", "x", "p", 1), ("a", "x", "q", 0), ("a", "y", "p", 0), ("b", "x", "p", 1)])
    others, values = split_looks(votes, np.array([(1, 0), (0, 0)]))
    assert values.tolist() == [[1, -1], [1, 0]]
    assert others.to_frame()[["doc", "annotator", "label", "value"]].to_numpy().tolist() == [["a", "y", "p", 0]]


def candidates(n_annotators: int, n_docs: int, room: int = 100) -> Candidates:
    half = np.full((n_annotators, 2), 0.8)
    return Candidates(
        np.full((n_docs, 2), 0.5), np.zeros(n_docs, dtype=np.int64), np.full(n_docs, 100), Rates(half, half),
        np.arange(n_annotators), np.full(n_annotators, room), np.ones((n_annotators, n_docs)),
        np.ones((n_annotators, n_docs), dtype=bool),
    )  # fmt: skip


def test_check_votes_spread_over_documents() -> None:
    given, rng = candidates(4, 3), np.random.default_rng(0)
    allowed = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], dtype=bool)
    chosen = choose_check_pairs(given, allowed, np.array([5, 0, 0]), rng.random((4, 3)), 3, np.inf)
    assert sorted(pair.doc for pair in chosen) == [1, 1, 2]
    assert all(allowed[pair.annotator, pair.doc] for pair in chosen)
    assert len(choose_check_pairs(given, allowed, np.zeros(3, dtype=np.int64), rng.random((4, 3)), 99, np.inf)) == 6
    assert len(choose_check_pairs(given, allowed, np.zeros(3, dtype=np.int64), rng.random((4, 3)), 99, 2.5)) == 2


def test_known_labels_go_to_whom_the_model_trusts_least() -> None:
    given = candidates(3, 4)
    is_gold, present = np.array([True, True, True, False]), np.array([0, 1, 2, 3])
    width = np.array([0.1, 0.4, np.inf])
    chosen = choose_gold_pairs(given, is_gold, present, np.array([0, 3, 1, 0]), width, 5, np.inf)
    assert chosen[0].annotator == 2
    assert [pair.doc for pair in chosen if pair.annotator == 2][:2] == [2, 1]
    assert sum(pair.annotator == 0 for pair in chosen) == 0
    assert {pair.doc for pair in chosen} <= {0, 1, 2}


def test_due_pairs_bring_the_share_up_to_its_target() -> None:
    assert n_due(0.05, 1000, 30, 100) == 20
    assert n_due(0.05, 1000, 60, 100) == 0
    assert n_due(0.5, 1000, 0, 7) == 7


def test_fixed_overlap_needs_about_the_votes_that_were_drawn() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random((800, 4)) < 0.3
    rates = Rates(np.full((6, 4), 0.85), np.full((6, 4), 0.85))
    log_odds = np.zeros(truth.shape)
    for _ in range(3):
        yes = np.where(truth, rng.random(truth.shape) < 0.85, rng.random(truth.shape) > 0.85)
        log_odds += np.where(yes, 1, -1) * np.log(0.85 / 0.15)
    prior = Profiles(np.ones(1), np.full((1, 4), 0.3))
    probs = expit(log_odds + logit(0.3))
    enough = float(np.minimum(probs, 1 - probs).sum() / 800)
    known = unknown(truth.shape)
    errors = fixed_overlap_errors(probs, np.zeros(truth.shape), known, prior, rates, np.ones(6), enough)
    assert (np.diff(errors) < 0.02).all()
    assert votes_needed(errors, enough) == pytest.approx(3.0, abs=0.6)
    assert votes_needed(np.array([0.5]), 0.9) == 0.0
    assert votes_needed(np.array([0.5, 0.4]), 0.1) == float("inf")
