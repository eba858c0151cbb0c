"""Annotators who change over time are found, others are not, and rates per period are used where they help."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from palda import aggregate, metrics, simulate
from palda.data import Votes
from palda.errors import DataError
from palda.models.crowd import (
    Changes,
    CrowdSettings,
    TwoCoinModel,
    confirmed_changes,
    count_votes,
    cut_votes,
    find_changes,
    fit_crowd,
    initial_label_probs,
    label_posterior,
    periods_predict_better,
    quality_over_time,
    split_periods,
    start_levels,
    start_state,
)
from palda.models.crowd.em import with_profiles
from palda.models.crowd.judged_documents import _ScoredVotes, judged_documents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.models.crowd.em import CrowdFit, CrowdState

N_CLASSES, N_CHANGED = 10, 5
SETTINGS = CrowdSettings(TwoCoinModel())


def truth_of(n_docs: int, seed: int = 0) -> NDArray[np.int8]:
    return simulate.newsroom(n_docs, seed=seed).labels


def unknown(votes: Votes) -> NDArray[np.int8]:
    return np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)


def start_of(votes: Votes) -> CrowdState:
    probs = initial_label_probs(votes, unknown(votes))
    belief = SETTINGS.annotators.start(votes.n_annotators, votes.n_classes)
    return start_state(SETTINGS.annotators.update(count_votes(SETTINGS.annotators, votes, probs), belief), probs)


def fitted(votes: Votes) -> CrowdFit:
    return fit_crowd(cut_votes(votes, unknown(votes)), start_of(votes), SETTINGS)


def changes_in(votes: Votes) -> Changes:
    fit = fitted(votes)
    return find_changes(votes, fit.label_probs, fit.state.belief)


def crowd_with_changes(
    n_docs: int = 1500, *, first: float = 0.85, last: float = 0.55, votes_per_doc: int = 4, **options: object
) -> tuple[Votes, NDArray[np.int8]]:
    """20 annotators, the first ``N_CHANGED`` of whom change from quality ``first`` to ``last`` half-way."""
    truth = truth_of(n_docs)
    steady = np.linspace(0.65, 0.95, 15)
    before, after = (
        simulate.annotators(np.append(np.full(N_CHANGED, rate), steady), n_classes=N_CLASSES) for rate in (first, last)
    )
    return simulate.drifting_votes(truth, before, after, votes_per_doc=votes_per_doc, **options), truth


@pytest.fixture(scope="module")
def changed() -> tuple[Votes, NDArray[np.int8]]:
    return crowd_with_changes()


def half_way(votes: Votes, annotator: int) -> float:
    times = np.unique(votes.time[votes.annotator == annotator])
    return float(times[len(times) // 2])


def test_sudden_changes_are_found_at_their_time_with_both_qualities(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    changes = changes_in(votes)
    assert changes.annotator.tolist() == list(range(N_CHANGED))
    assert set(changes.kind) == {"worse"}
    for row in range(N_CHANGED):
        n_docs = len(np.unique(votes.doc[votes.annotator == row]))
        assert changes.n_before[row] + changes.n_after[row] == n_docs
        assert abs(changes.n_before[row] - n_docs / 2) <= 10
        assert changes.quality_before_low[row] < 0.85 < changes.quality_before_high[row] < 0.95
        assert 0.45 < changes.quality_after_low[row] < 0.55 < changes.quality_after_high[row]
        assert abs(changes.time[row] - half_way(votes, row)) < 0.1 * np.ptp(votes.time)


def test_annotators_who_learn_or_get_tired_are_found() -> None:
    learning, _ = crowd_with_changes(first=0.55, last=0.9, shape="gradual", at=0.2)
    assert set(range(N_CHANGED)) <= set(changes_in(learning).annotator.tolist())
    assert set(changes_in(learning).kind) == {"better"}
    tired, _ = crowd_with_changes(first=0.9, last=0.6, shape="gradual", at=0.0)
    assert set(range(N_CHANGED)) <= set(changes_in(tired).annotator.tolist())


def test_of_honest_annotators_at_most_one_in_fifty_is_flagged() -> None:
    flagged = 0
    for seed in range(6):
        annotators = simulate.annotators("paper", n_classes=N_CLASSES, seed=seed, behaviour="per_class")
        votes = simulate.drifting_votes(truth_of(1000, seed), annotators, annotators, votes_per_doc=5, seed=seed)
        flagged += len(set(changes_in(votes).annotator.tolist()))
    assert flagged <= 6


def test_votes_on_one_document_that_are_correct_or_wrong_together_are_no_change() -> None:
    """Each annotator misreads a fifth of the documents in all classes."""
    rng = np.random.default_rng(0)
    annotators = simulate.annotators(np.full(30, 0.97), n_classes=N_CLASSES)
    votes = simulate.drifting_votes(truth_of(1000), annotators, annotators, votes_per_doc=5)
    misread = rng.random((votes.n_docs, votes.n_annotators)) < 0.2
    value = np.where(misread[votes.doc, votes.annotator], 1 - votes.value, votes.value)
    assert len(changes_in(replace(votes, value=value.astype(np.int8)))) <= 1


def test_a_difficult_class_that_is_judged_later_is_no_change() -> None:
    truth = truth_of(1200)[:, :2]
    sensitivity = np.tile([0.95, 0.6], (12, 1))
    specificity = np.tile([0.95, 0.75], (12, 1))
    annotators = simulate.SimulatedAnnotators.from_rates(sensitivity, specificity)
    votes = simulate.drifting_votes(truth, annotators, annotators, votes_per_doc=6)
    by_class = votes.select(votes.label == (votes.doc >= 600))
    assert len(changes_in(by_class)) == 0


def test_an_annotator_who_turns_to_answering_no_gets_worse_although_more_votes_are_correct() -> None:
    truth = (np.random.default_rng(0).random((1000, N_CLASSES)) < 0.1).astype(np.int8)
    sensitivity, specificity = np.full(12, 0.8), np.full(12, 0.85)
    before = simulate.SimulatedAnnotators.from_rates(sensitivity, specificity, n_classes=N_CLASSES)
    sensitivity[0], specificity[0] = 0.02, 0.99
    after = simulate.SimulatedAnnotators.from_rates(sensitivity, specificity, n_classes=N_CLASSES)
    votes = simulate.drifting_votes(truth, before, after, votes_per_doc=4)
    changes = changes_in(votes)
    assert changes.annotator.tolist() == [0]
    assert changes.kind.tolist() == ["worse"]
    assert changes.quality_after[0] > changes.quality_before[0]
    assert changes.informedness_after[0] < 0.1 < 0.5 < changes.informedness_before[0]


def test_annotators_who_change_together_do_not_make_others_seem_to_change() -> None:
    """The consensus of constant rates is too certain after the change, which the second search corrects."""
    n_flagged = np.zeros(2, dtype=int)
    for seed in range(3):
        votes, _ = crowd_with_changes(votes_per_doc=3, seed=seed)
        fit = fitted(votes)
        confirmed = confirmed_changes(votes, unknown(votes), fit, SETTINGS)
        assert set(range(N_CHANGED)) <= set(confirmed.annotator.tolist())
        searches = find_changes(votes, fit.label_probs, fit.state.belief), confirmed
        n_flagged += [len({k for k in found.annotator.tolist() if k >= N_CHANGED}) for found in searches]
    assert n_flagged[1] <= min(n_flagged[0], 1)


def test_votes_without_times_have_no_changes_and_no_curves(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes = replace(changed[0], time=np.empty(0))
    fit = fitted(votes)
    assert len(find_changes(votes, fit.label_probs, fit.state.belief)) == 0
    assert len(quality_over_time(votes, fit.label_probs, fit.state.belief).time) == 0


def test_documents_with_equal_times_stay_in_one_period(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    day = votes.time - (votes.time - votes.time.min()) % (200 * 60.0)
    by_day = replace(votes, time=day)
    changes = changes_in(by_day)
    assert set(changes.annotator.tolist()) >= set(range(N_CHANGED))
    assert set(changes.time) <= set(day)
    periods = split_periods(by_day, changes)
    days = [set(periods.votes.time[periods.votes.annotator == period]) for period in range(len(periods.start))]
    for period in range(20, len(days)):
        others = np.flatnonzero(periods.annotator_of == periods.annotator_of[period])
        assert days[period]
        assert not any(days[period] & days[other] for other in others if other != period)


def test_a_document_judged_with_gold_labels_counts_as_certain(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, truth = changed
    belief = SETTINGS.annotators.update(
        SETTINGS.annotators.count(votes, truth.astype(float)), SETTINGS.annotators.start(20, N_CLASSES)
    )
    documents = judged_documents(votes, truth.astype(float), belief)
    own = votes.annotator == 7
    n_present = truth[votes.doc, votes.label][own].sum()
    slopes = documents.of(7).slopes.sum(axis=0)
    np.testing.assert_allclose(slopes, [[own.sum() - n_present, 0.0], [0.0, n_present]])
    correct = votes.value == truth[votes.doc, votes.label]
    present = truth[votes.doc, votes.label] == 1
    assert documents.rates[7, 1] == pytest.approx(correct[own & present].mean(), abs=0.01)
    assert documents.rates[7, 0] == pytest.approx(correct[own & ~present].mean(), abs=0.01)


@pytest.mark.parametrize("soft", [False, True], ids=["hard votes", "soft votes"])
def test_a_vote_is_compared_with_the_consensus_without_it(soft: bool) -> None:
    """Exactly, with several label-set profiles and stated probabilities."""
    annotators = simulate.annotators([0.9, 0.8, 0.7, 0.6], n_classes=N_CLASSES)
    votes = simulate.drifting_votes(truth_of(200), annotators, annotators, votes_per_doc=3)
    if soft:
        strength = np.random.default_rng(0).uniform(0.5, 1.0, len(votes))
        votes = replace(votes, probability=np.where(votes.value == 1, strength, 1 - strength).astype(np.float32))
    single = fit_crowd(
        cut_votes(votes, unknown(votes)),
        replace(start_of(votes), belief=replace(start_of(votes).belief, levels=start_levels(votes))),
        SETTINGS,
    )
    state = with_profiles(cut_votes(votes, unknown(votes)), single, 3, SETTINGS, 0).state
    probs = label_posterior(votes, unknown(votes), state, SETTINGS)
    (block,) = _ScoredVotes(votes, probs, state.belief).blocks()
    for row in (0, 7, 1000, len(votes) - 1):
        others = votes.select(np.arange(len(votes)) != row)
        without = label_posterior(others, unknown(votes), state, SETTINGS)[votes.doc[row], votes.label[row]]
        assert block.present[row] == pytest.approx(without, abs=1e-7)
        assert abs(without - probs[votes.doc[row], votes.label[row]]) > 1e-9


def test_changes_are_found_and_used_by_default() -> None:
    votes, truth = crowd_with_changes(votes_per_doc=3)
    found, constant = (aggregate(votes, n_profiles=1, drift=drift) for drift in (True, False))
    assert found.changes["annotator"].tolist() == votes.annotators[:N_CHANGED].tolist()
    assert not len(constant.changes)
    scores = [metrics.micro_f1(truth, result.consensus > 0.5) for result in (found, constant)]
    assert scores[0] > scores[1] + 0.005
    assert len(found.annotator_quality) == votes.n_annotators


def test_curves_show_the_share_of_correct_votes_within_their_band(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    fit = fitted(votes)
    curves = quality_over_time(votes, fit.label_probs, fit.state.belief)
    assert np.bincount(curves.annotator).tolist() == [50] * 20
    assert ((curves.low < curves.quality) & (curves.quality < curves.high)).all()
    for annotator in range(N_CHANGED):
        own = curves.annotator == annotator
        assert (np.diff(curves.time[own]) > 0).all()
        assert curves.quality[own][:15] == pytest.approx(0.85, abs=0.06)
        assert curves.quality[own][-15:] == pytest.approx(0.55, abs=0.08)
    steady = curves.annotator >= N_CHANGED
    true = np.linspace(0.65, 0.95, 15)[curves.annotator[steady] - N_CHANGED]
    covered = (curves.low[steady] <= true) & (true <= curves.high[steady])
    assert covered.mean() > 0.85
    assert np.mean(curves.high[steady] - curves.low[steady]) < 0.12


def test_periods_are_annotators_and_the_votes_stay_the_same(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    votes = replace(votes, annotators=np.array([*votes.annotators[:-1], "annotator-01 (period 2)"]))
    changes = changes_in(votes)
    periods = split_periods(votes, changes)
    assert periods.annotator_of.tolist() == [*range(20), *range(N_CHANGED)]
    assert periods.votes.annotators[20] == "annotator-01 (period 2)*"
    assert periods.votes.annotators[21] == "annotator-02 (period 2)"
    back = Votes.from_codes(
        periods.votes.doc, periods.annotator_of[periods.votes.annotator], periods.votes.label, periods.votes.value,
        doc_ids=votes.doc_ids, annotators=votes.annotators, classes=votes.classes,
    )  # fmt: skip
    for name in ("doc", "annotator", "label", "value"):
        assert np.array_equal(getattr(back, name), getattr(votes, name))
    key = np.column_stack((periods.votes.doc, periods.votes.annotator, periods.votes.label))
    assert np.array_equal(key, key[np.lexsort(key.T[::-1])])
    later = periods.votes.annotator >= 20
    assert (periods.votes.time[later] >= periods.start[periods.votes.annotator[later]]).all()
    nothing = split_periods(votes, changes_in(replace(votes, time=np.empty(0))))
    assert nothing.votes is votes


def test_votes_without_a_time_are_in_the_first_period(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    changes = changes_in(votes)
    time = votes.time.copy()
    time[votes.doc % 2 == 0] = np.nan
    periods = split_periods(replace(votes, time=time), changes).votes
    assert (periods.annotator[np.isnan(periods.time)] < 20).all()
    assert (periods.annotator[~np.isnan(periods.time)] >= 20).any()


def test_rates_per_period_are_chosen_where_they_help_and_improve_the_consensus() -> None:
    votes, truth = crowd_with_changes(votes_per_doc=3)
    fit = fitted(votes)
    assert periods_predict_better(votes, unknown(votes), start_of(votes), SETTINGS)
    periods = split_periods(votes, find_changes(votes, fit.label_probs, fit.state.belief))
    start = replace(fit.state, belief=periods.belief(fit.state.belief))
    split = fit_crowd(cut_votes(periods.votes, unknown(votes)), start, SETTINGS)
    constant, by_period = (metrics.micro_f1(truth, probs > 0.5) for probs in (fit.label_probs, split.label_probs))
    assert by_period > constant + 0.005


def test_rates_per_period_are_not_chosen_for_a_steady_crowd() -> None:
    annotators = simulate.annotators("paper", n_classes=N_CLASSES)
    votes = simulate.drifting_votes(truth_of(600), annotators, annotators, votes_per_doc=4)
    assert not periods_predict_better(votes, unknown(votes), start_of(votes), SETTINGS)


def test_the_same_seed_finds_the_same_changes(changed: tuple[Votes, NDArray[np.int8]]) -> None:
    votes, _ = changed
    first, second = changes_in(votes).to_frame(votes.annotators), changes_in(votes).to_frame(votes.annotators)
    assert first.equals(second)
    assert first["annotator"].tolist() == [f"annotator-0{number}" for number in range(1, 6)]


def test_drifting_votes_have_the_rates_of_their_time() -> None:
    truth = truth_of(2000)
    before, after = (simulate.annotators([rate, 0.8], n_classes=N_CLASSES) for rate in (0.9, 0.5))
    for shape, middle in (("sudden", 0.5), ("gradual", 0.7)):
        votes = simulate.drifting_votes(truth, before, after, shape=shape, at=0.0 if shape == "gradual" else 0.4,
                                        votes_per_doc=2)  # fmt: skip
        correct = (votes.value == truth[votes.doc, votes.label])[votes.annotator == 0]
        thirds = [part.mean() for part in np.array_split(correct, [int(0.1 * len(correct)), int(0.9 * len(correct))])]
        assert thirds[0] == pytest.approx(0.9 if shape == "sudden" else 0.88, abs=0.03)
        assert thirds[2] == pytest.approx(0.5 if shape == "sudden" else 0.52, abs=0.04)
        around = correct[int(0.45 * len(correct)) : int(0.55 * len(correct))].mean()
        assert around == pytest.approx(middle, abs=0.04)
    with pytest.raises(DataError, match="shape"):
        simulate.drifting_votes(truth, before, simulate.annotators([0.5], n_classes=N_CLASSES))
    with pytest.raises(DataError, match="at"):
        simulate.drifting_votes(truth, before, after, at=2.0, votes_per_doc=2)
