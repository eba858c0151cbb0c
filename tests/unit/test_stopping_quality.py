"""Bounds of the number of wrong labels: what check votes, the link and held-back gold labels say about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from palda import CrowdPALDA, Votes, aggregate, simulate
from palda.errors import PaldaWarning
from palda.models.assignment import (
    HeldBackLabels,
    Rates,
    StoppingInputs,
    StoppingQuality,
    link_spread,
    rates_given_others,
    stopping_quality,
)
from palda.models.crowd import SupportBelief, SupportModel, TwoCoinModel, share_judged_by_people
from palda.models.crowd.traits import POINTS

NEWS = simulate.newsroom(200, seed=0)
VOTES, _ = simulate.crowd(NEWS, [0.9, 0.8, 0.7], votes_per_doc=3, seed=0)


def belief_with(weights: np.ndarray, n_annotators: int = 9) -> SupportBelief:
    start = SupportModel().start(n_annotators, 1)
    return replace(start, weights=weights[None] / weights.sum())


SPIKES = belief_with(np.where(np.abs(np.abs(POINTS) - 2.0) < 0.1, 1.0, 1e-9))
SPREAD = belief_with(np.exp(-0.5 * (POINTS / 1.5) ** 2))


def conditional(belief: SupportBelief, given: list[int], checks: list[int]) -> Rates:
    """Rates of check votes on one label that has other votes."""
    records = [("d", f"a{k}", "c", value) for k, value in enumerate([*given, *checks])]
    votes = Votes.from_records(records)
    looks = np.array([(0, len(given) + k) for k in range(len(checks))])
    people = belief.take(np.arange(len(records)))
    plain = Rates(np.full((len(checks), 1), 0.5), np.full((len(checks), 1), 0.5))
    return rates_given_others(plain, looks, votes, lambda one, other: SupportModel().held_out(one, other, people))


def test_a_check_vote_tells_less_where_supports_spread_out() -> None:
    """Visible votes that agree leave no doubt about the support, but about the label."""
    told = []
    for belief in (SPIKES, SPREAD):
        found = conditional(belief, [1, 1, 1, 1, 0, 0, 0, 0], [1])
        told.append(float((found.sensitivity + found.specificity - 1.0).item()))
    assert told[0] > 0.7
    assert told[1] < 0.3


def test_the_product_of_their_rates_is_the_probability_of_all_check_votes() -> None:
    found = conditional(SPREAD, [1, 1], [0, 1])
    yes = expit(POINTS)
    for rates, table in ((found.sensitivity, SPREAD.grid.present[0]), (1.0 - found.specificity, SPREAD.grid.absent[0])):
        support = table * yes**2
        joint = np.sum(support / support.sum() * (1.0 - yes) * yes)
        assert (1.0 - rates[0, 0]) * rates[1, 0] == pytest.approx(joint, rel=1e-6)


def drawn(slope: float, n_docs: int, seed: int = 0) -> tuple[np.ndarray, HeldBackLabels]:
    """Probabilities, and labels of 60 documents, whose log-odds are so many times those of the probabilities."""
    rng = np.random.default_rng(seed)
    probs = rng.beta(0.3, 0.6, (n_docs, 4))
    truth = (rng.random(probs.shape) < expit(slope * logit(np.clip(probs, 1e-6, 1 - 1e-6)))).astype(np.int8)
    doc = np.repeat(np.arange(60), 4)
    return probs, HeldBackLabels(doc, probs[:60].ravel(), probs[:60].ravel(), truth[:60].ravel())


def quality(slope: float, *, random_gold: bool = True, caution: float = 1.0, spread: float = 0.25) -> StoppingQuality:
    probs, gold = drawn(slope, 500)
    known = np.full(probs.shape, -1, dtype=np.int8)
    return stopping_quality(StoppingInputs(probs, known, spread, gold, caution), random_gold=random_gold)


def bound_without_gold() -> float:
    probs, _ = drawn(1.0, 500)
    return stopping_quality(
        StoppingInputs(probs, np.full(probs.shape, -1, dtype=np.int8), 0.25), random_gold=False
    ).upper_wrong


def test_a_bound_is_at_most_the_number_of_unknown_labels() -> None:
    known = np.array([[-1, 1]], dtype=np.int8)
    for caution in (1.0, 3.0):
        inputs = StoppingInputs(np.array([[0.4975, 1.0]]), known, 0.3, drawn(1.0, 60)[1], caution)
        assert stopping_quality(inputs, random_gold=False).upper_wrong <= 1.0


def test_random_gold_labels_narrow_the_bound_and_others_never_do() -> None:
    assert quality(1.5).upper_wrong < 0.9 * bound_without_gold()
    assert quality(1.5, random_gold=False).upper_wrong == pytest.approx(bound_without_gold())
    assert quality(0.4, random_gold=False).upper_wrong > 1.1 * bound_without_gold()


def test_gold_labels_that_made_a_fit_more_certain_do_not_make_the_bound_smaller() -> None:
    assert quality(1.0, random_gold=False, caution=1.5).upper_wrong == pytest.approx(1.5 * bound_without_gold())


def test_lucky_gold_labels_do_not_vouch_for_the_fit_that_they_taught() -> None:
    probs, gold = drawn(1.0, 500)
    lucky = gold._replace(label_probs=np.where(gold.truth == 1, 0.97, 0.03))  # none is wrong
    known, certain = np.full(probs.shape, -1, dtype=np.int8), expit(2.0 * logit(np.clip(probs, 1e-6, 1 - 1e-6)))
    ratio = float(np.minimum(probs, 1 - probs).sum() / np.minimum(certain, 1 - certain).sum())
    bounds = [
        stopping_quality(StoppingInputs(certain, known, 0.25, lucky, caution), random_gold=True).upper_wrong
        for caution in (0.0, ratio)
    ]
    assert bounds[1] > 1.2 * bounds[0]


def test_a_report_that_gold_labels_contradict_meets_no_target() -> None:
    contradicted, fine = quality(0.15, random_gold=False, spread=0.0), quality(1.0, random_gold=False, spread=0.0)
    assert contradicted.is_contradicted
    assert contradicted.meets(0.99, None) is False
    assert not fine.is_contradicted
    assert fine.meets(0.99, None) is True


def test_labels_that_are_wrong_together_count_as_fewer() -> None:
    rng = np.random.default_rng(0)
    together = np.repeat(rng.random(60) < 0.3, 10)  # of ten labels of a document all are wrong, or none
    held_back = HeldBackLabels(
        np.repeat(np.arange(60), 10), np.full(600, 0.25), np.full(600, 0.25), together.astype(np.int8)
    )
    apart = held_back._replace(doc=np.arange(600))
    probs, known = np.full((100, 2), 0.25), np.full((100, 2), -1, dtype=np.int8)
    widths = []
    for gold in (held_back, apart):
        found = stopping_quality(StoppingInputs(probs, known, 0.25, gold), random_gold=True).calibration
        widths.append(np.log(found.high / found.low))
    assert widths[0] > 1.5 * widths[1]


def test_labels_of_models_alone_have_a_wider_link() -> None:
    belief = SupportModel().start(3, 2)
    assert link_spread(belief, 0.0) > link_spread(belief, 0.5) > link_spread(belief, 1.0) > 0.0
    assert link_spread(TwoCoinModel().start(3, 2), 0.0) == 0.0
    kinds = np.array(["person", "model", "model"], dtype=object)
    votes = replace(VOTES, annotator_kinds=kinds)
    assert share_judged_by_people(VOTES) == share_judged_by_people(votes) == 1.0
    assert share_judged_by_people(votes.select((votes.annotator > 0) | (votes.doc < 50))) == pytest.approx(0.25)


def test_aggregate_has_a_report_without_what_it_cannot_know() -> None:
    found = aggregate(VOTES, n_profiles=1)
    report = found.stopping_report(target_error=0.9)
    assert report.met
    assert found.stopping_report(target_error=1e-4).met is False
    assert found.stopping_report().met is None
    assert (report.n_votes, report.n_docs, report.n_labels) == (600, 200, 2000)
    truth = np.asarray(NEWS.labels, dtype=bool)
    assert 0 < ((found.consensus >= 0.5) != truth).sum() < report.upper_wrong < 600
    text = str(report)
    assert "labels expected wrong" in text
    assert "nan" not in text
    assert "check votes" not in text
    with pytest.raises(ValueError, match="target_error=2"):
        found.stopping_report(target_error=2)


def test_a_crowd_that_shares_mistakes_is_contradicted_loudly_by_gold() -> None:
    """All annotators are wrong about the same labels: no vote shows it, and two coins are certain of them."""
    labels = np.asarray(NEWS.labels, dtype=np.int8)
    mistakes = np.random.default_rng(1).random(labels.shape) < 0.2
    shared = np.repeat(np.where(mistakes, 1 - labels, labels)[:, None], 6, axis=1)
    gold = np.where(np.arange(200)[:, None] < 60, labels, -1)
    report = aggregate(shared, "two_coin", n_profiles=1, gold=gold).stopping_report(target_error=0.5)
    assert report.contradicted
    assert report.met is False
    assert str(report).startswith("KNOWN LABELS CONTRADICT THIS REPORT")
    learned = aggregate(shared, n_profiles=1, gold=gold)
    truth = np.asarray(labels[60:], dtype=bool)
    n_wrong = int(((learned.consensus[60:] >= 0.5) != truth).sum())
    report = learned.stopping_report(random_gold=True)
    assert not report.contradicted  # the link has learned it
    assert n_wrong < report.upper_wrong < 1.4 * n_wrong


def test_classes_that_nobody_has_judged_do_not_lower_the_share_of_wrong_labels() -> None:
    classes = [*VOTES.classes, *(f"unused {i}" for i in range(40))]
    with pytest.warns(PaldaWarning, match="nobody voted on"):
        wider = aggregate(Votes.from_frame(VOTES.to_frame(), documents=VOTES.doc_ids, classes=classes), n_profiles=1)
    found, expected = wider.stopping_report(), aggregate(VOTES, n_profiles=1).stopping_report()
    assert found.n_labels == expected.n_labels
    assert found.upper_share == pytest.approx(expected.upper_share, rel=1e-3)


def test_a_crowd_without_votes_meets_no_target() -> None:
    with pytest.warns(PaldaWarning, match="nobody voted on"):
        found = aggregate(np.full((20, 3, 2), -1))
    assert found.stopping_report(target_error=0.1).met is False


def test_unjudged_classes_are_left_out_of_reports_with_texts() -> None:
    classes = [*VOTES.classes, "unused"]
    votes = Votes.from_frame(VOTES.to_frame(), documents=VOTES.doc_ids, classes=classes)
    with pytest.warns(PaldaWarning, match="nobody voted on"):
        model = CrowdPALDA(label_prior="words", n_topics=2, random_state=0, n_jobs=1).fit(NEWS.corpus, votes)
    assert model.stopping_report().n_labels == VOTES.n_docs * VOTES.n_classes
