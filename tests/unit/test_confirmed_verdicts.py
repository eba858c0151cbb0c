"""Negative verdicts that a second fit shares, and intervals of rates under uncertain labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import palda
from palda import CrowdPALDA, Votes, aggregate, simulate
from palda.models.crowd import CrowdSettings, SupportModel, TwoCoinModel, confirmed_verdicts, label_doubt

NEWS = simulate.newsroom(200, seed=3, doc_length=30)
VOTES, _ = simulate.crowd(NEWS, [0.9, 0.85, 0.8, 0.5, 0.15], votes_per_doc=5, seed=3)
UNKNOWN = np.full((200, 10), -1, dtype=np.int8)
VERDICTS = np.array(["reliable", "reliable", "reliable", "spammer", "adversarial"], dtype=object)


@pytest.mark.parametrize("model", [SupportModel(), TwoCoinModel()])
def test_spammers_and_adversaries_are_confirmed_by_the_votes_of_the_others(model: SupportModel) -> None:
    settings = CrowdSettings(model)
    assert confirmed_verdicts(VOTES, UNKNOWN, VERDICTS, settings).tolist() == [False, False, False, True, True]


def test_a_good_annotator_whom_a_bad_fit_accuses_is_not_confirmed() -> None:
    for verdict in ("spammer", "adversarial"):
        wrong = VERDICTS.copy()
        wrong[0] = verdict
        assert not confirmed_verdicts(VOTES, UNKNOWN, wrong, CrowdSettings(SupportModel()))[0]


def test_nobody_is_accused_without_others_to_compare_with() -> None:
    everybody = np.array(["spammer"] * 5, dtype=object)
    assert not confirmed_verdicts(VOTES, UNKNOWN, everybody, CrowdSettings(SupportModel())).any()
    alone = VOTES.select((VOTES.annotator == 4) | (VOTES.doc < 4))
    only = np.array(["reliable"] * 4 + ["adversarial"], dtype=object)
    assert not confirmed_verdicts(alone, UNKNOWN, only, CrowdSettings(SupportModel())).any()
    gold = np.asarray(NEWS.labels, dtype=np.int8)
    assert confirmed_verdicts(alone, gold, only, CrowdSettings(SupportModel()))[4]


def test_aggregate_and_crowd_palda_say_too_few_votes_if_the_second_fit_disagrees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = {"n_topics": 2, "label_prior": "words", "max_iter": 2, "tol": 1.0, "n_profiles": 1}
    model = CrowdPALDA(**settings, random_state=0, n_jobs=1).fit(NEWS.corpus, VOTES)
    verdicts = [aggregate(VOTES, n_profiles=1).annotator_quality["verdict"], model.annotator_quality_["verdict"]]
    for found in verdicts:
        assert found.tolist()[3:] == ["spammer", "adversarial"]
    for place in ("aggregation", "label_updates"):
        nobody = f"palda.estimators.{place}.confirmed_verdicts"
        monkeypatch.setattr(nobody, lambda votes, *_: np.zeros(votes.n_annotators, dtype=bool))
    model.fit(NEWS.corpus, VOTES).save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    for quality in (aggregate(VOTES, n_profiles=1).annotator_quality, loaded.annotator_quality_):
        assert quality["verdict"].tolist()[3:] == ["too few votes"] * 2
        assert quality["verdict"][0] == "reliable"


def test_doubt_is_that_of_the_labels_that_an_annotator_judged() -> None:
    votes = Votes.from_records([("d", "a", "x", 1), ("d", "a", "y", 0), ("e", "b", "x", 1)], classes=["x", "y"])
    doubt = label_doubt(votes, np.array([[0.5, 0.1], [1.0, 0.0]]))
    np.testing.assert_allclose(doubt, [[0.34 / 1.4, 0.34 / 0.6], [0.0, 0.0]])


def test_intervals_are_wider_where_labels_are_uncertain_and_cover_the_rates() -> None:
    """Two votes of mediocre annotators on each label: much of it stays uncertain."""
    news = simulate.newsroom(600, seed=5, doc_length=20)
    votes, people = simulate.crowd(news, np.linspace(0.6, 0.9, 12), votes_per_doc=2, seed=5)
    quality = aggregate(votes, n_profiles=1).annotator_quality
    inside = (quality["specificity_low"] < people.quality) & (people.quality < quality["specificity_high"])
    assert inside.mean() >= 0.75
    width = quality["sensitivity_high"] - quality["sensitivity_low"]
    many = aggregate(simulate.crowd(news, np.linspace(0.6, 0.9, 12), votes_per_doc=12, seed=5)[0], n_profiles=1)
    few_labels = replace(votes).n_docs * 2 / 12 * 10 * news.labels.mean()
    assert width.mean() > 2.5 * 1.96 * np.sqrt(0.75 * 0.25 / few_labels)
    certain = many.annotator_quality["sensitivity_high"] - many.annotator_quality["sensitivity_low"]
    assert certain.mean() < 0.5 * width.mean()
