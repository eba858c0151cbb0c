"""The consensus against held-back gold labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.mixed_crowd import mixed_crowd

import palda
from palda import CrowdPALDA, aggregate, metrics, simulate
from palda.estimators import ModelFileError, load_state, save_state
from palda.models.crowd import (
    CrowdSettings,
    GoldCheck,
    Profiles,
    SupportModel,
    check_gold,
    cut_votes,
    first_state,
    fit_crowd,
    initial_label_probs,
    start_belief,
)

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
NEWS = simulate.newsroom(200, seed=0)
VOTES, _ = simulate.crowd(NEWS, np.linspace(0.65, 0.95, 12), votes_per_doc=4, seed=0)


def gold_of(n_docs: int, labels: np.ndarray = NEWS.labels) -> np.ndarray:
    return np.where(np.arange(len(labels))[:, None] < n_docs, labels, -1)


def checked(gold: np.ndarray, annotators: str = "auto") -> GoldCheck:
    check = aggregate(VOTES, annotators, n_profiles=1, gold=gold).gold_check
    assert check is not None
    return check


def test_gold_labels_are_held_back() -> None:
    """A consensus that had seen them would have a micro-F1 of 1 and no calibration error."""
    gold = gold_of(20, np.random.default_rng(0).integers(0, 2, NEWS.labels.shape))
    assert checked(gold).micro_f1 < 0.75  # the others teach the default model that probabilities are near 1/2
    certain = checked(gold, "two_coin")
    assert certain.micro_f1 < 0.75
    assert certain.calibration_error > 0.2


def test_its_numbers_are_those_of_a_consensus_without_gold() -> None:
    gold = gold_of(100)
    check, consensus = checked(gold), aggregate(VOTES, n_profiles=1).consensus
    assert (check.n_labels, check.n_docs) == (100 * 10, 100)
    tested = consensus[:100]
    assert check.micro_f1 == pytest.approx(metrics.micro_f1(gold[:100], tested >= 0.5), abs=0.02)
    without_link = metrics.expected_calibration_error(gold[:100], tested)  # gold labels teach the link from support
    assert check.calibration_error < without_link


def test_only_gold_labels_with_votes_are_compared() -> None:
    keep = VOTES.label < 5
    without = VOTES.select(keep)
    check = aggregate(without, n_profiles=1, gold=gold_of(20)).gold_check
    assert check is not None
    assert check.n_labels == 20 * 5


def test_probabilities_do_not_know_the_link_that_hidden_labels_taught() -> None:
    """EM with several profiles keeps its link: one that is learned from all gold labels knows each of them."""
    settings = CrowdSettings(SupportModel())
    gold = np.asarray(gold_of(20, 1 - NEWS.labels), dtype=np.int8)
    start = first_state(
        VOTES, gold, initial_label_probs(VOTES, gold), start_belief(settings.annotators, VOTES), settings
    )
    state = fit_crowd(cut_votes(VOTES, gold), start, settings).state
    link = np.tile((9.0, 0.0), (10, 1))
    several = replace(state, profiles=Profiles(np.full(2, 0.5), np.repeat(state.profiles.rates, 2, axis=0)))
    results = []
    for one in (several, replace(several, belief=replace(several.belief, link=link))):
        check = check_gold(VOTES, gold, one, replace(settings, learn_profiles=False))
        assert check is not None
        results.append(check.label_probs)
    np.testing.assert_allclose(*results)


@pytest.mark.parametrize("n_docs", [0, 2])
def test_there_is_none_with_few_gold_labels(n_docs: int) -> None:
    assert aggregate(VOTES, n_profiles=1, gold=gold_of(n_docs)).gold_check is None


def test_base_rates_have_none() -> None:
    model = CrowdPALDA(2, label_prior="base_rate", max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    assert model.fit(NEWS.corpus, VOTES, gold=gold_of(50)).gold_check_ is None


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    model = mixed_crowd().model
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    before, after = model.gold_check_, loaded.gold_check_
    assert before is not None
    assert after is not None
    assert (before.n_docs, before.micro_f1) == (after.n_docs, after.micro_f1)
    assert before.wrong_without_gold == after.wrong_without_gold
    for name in ("mean_prob", "share_present", "count", "doc", "label_probs", "truth"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_a_file_with_damaged_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.palda"
    mixed_crowd().model.save(path)
    saved = load_state(path)
    saved.arrays["gold_check.count"][:] = 0
    save_state(path, saved.arrays, saved.state)
    with pytest.raises(ModelFileError, match="gold labels"):
        palda.load(path)


def test_files_of_earlier_versions_have_none() -> None:
    model = palda.load(FIXTURES / "model-0.1.palda")
    assert getattr(model, "gold_check_", None) is None
