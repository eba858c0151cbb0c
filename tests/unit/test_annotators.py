"""Summaries, verdicts and histories of annotators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from palda import simulate
from palda.data import Votes, names_array
from palda.errors import DataError, PaldaWarning
from palda.models.crowd import (
    VERDICTS,
    AnnotatorBelief,
    AnnotatorModel,
    AnnotatorSummary,
    OneCoinModel,
    PerClassModel,
    TwoCoinModel,
    annotator_history,
    document_counts,
    parse_annotator_prior,
    quality_table,
    rates_by_class,
    summarize_annotators,
    verdicts,
)
from palda.models.crowd.quality import beta_interval
from palda.simulate import SimulatedAnnotators

MODELS = [OneCoinModel(), TwoCoinModel(), PerClassModel()]
GOOD = [0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.8, 0.7]  # the pool's sensitivities


def crowd(others: list[tuple[float, float]], n_docs: int = 1000, prevalence: float = 0.1) -> tuple[Votes, np.ndarray]:
    """Votes of eight good annotators and some others, each on a random half of the documents; and the truth."""
    truth = (np.random.default_rng(0).random((n_docs, 4)) < prevalence).astype(int)
    sensitivity = [*GOOD, *(rate for rate, _ in others)]
    specificity = [*(0.5 + rate / 2 for rate in GOOD), *(rate for _, rate in others)]
    people = SimulatedAnnotators.from_rates(sensitivity, specificity, n_classes=4)
    return simulate.votes(truth, people, seed=1, fraction=0.5), truth.astype(float)


def summarize(model: AnnotatorModel, votes: Votes, truth: np.ndarray, prior: object = None) -> AnnotatorSummary:
    history = None if prior is None else parse_annotator_prior(prior, votes.annotators)
    counts = model.count(votes, truth)
    return summarize_annotators(model.update(counts, model.start(votes.n_annotators, votes.n_classes, history)), counts)


@pytest.mark.parametrize("model", [TwoCoinModel(), PerClassModel()])
def test_verdicts_separate_constant_random_and_adversarial_votes(model: AnnotatorModel) -> None:
    others = [(0.0, 1.0), (1.0, 0.0), (0.3, 0.7), (0.5, 0.5), (0.1, 0.1), (0.3, 0.9), (0.95, 0.98)]
    votes, truth = crowd(others)
    found = summarize(model, votes, truth)
    assert found.verdict[8:].tolist() == ["spammer"] * 4 + ["adversarial", "noisy", "reliable"]
    assert found.quality[8] > 0.88  # always "no", where one pair in ten is a "yes"
    assert np.abs(found.informedness[8:12]).max() < 0.1


def test_one_coin_has_equal_sensitivity_and_specificity() -> None:
    votes, truth = crowd([(0.1, 0.1), (0.5, 0.5)])
    found = summarize(OneCoinModel(), votes, truth)
    np.testing.assert_allclose(found.sensitivity, found.quality)
    np.testing.assert_allclose(found.specificity, found.quality)
    np.testing.assert_allclose(found.informedness_high, 2 * found.high - 1)
    assert found.verdict[8:].tolist() == ["adversarial", "spammer"]
    assert np.isnan(found.n_present).all()


def test_few_votes_rarely_give_a_negative_verdict() -> None:
    for seed in range(5):
        truth = (np.random.default_rng(seed).random((60, 5)) < 0.25).astype(int)
        votes, _ = simulate.crowd(truth, "paper", seed=seed, behaviour="two_coin")
        found = summarize(TwoCoinModel(), votes, truth.astype(float))
        negative = np.isin(found.verdict, ("spammer", "adversarial"))
        assert negative.sum() <= 1
        assert (found.verdict == "too few votes").any()


@pytest.mark.parametrize("model", MODELS)
def test_three_correct_votes_do_not_make_a_perfect_annotator(model: AnnotatorModel) -> None:
    votes, truth = crowd([])
    newcomer = Votes.from_codes(
        np.append(votes.doc, [0, 0, 0]), np.append(votes.annotator, [8, 8, 8]), np.append(votes.label, [0, 1, 2]),
        np.append(votes.value, truth[0, :3].astype(np.int8)),
        doc_ids=votes.doc_ids, annotators=names_array([*votes.annotators, "newcomer"]), classes=votes.classes,
    )  # fmt: skip
    found = summarize(model, newcomer, truth)
    assert found.n_votes[8] == 3
    assert found.quality[8] < 0.97
    assert found.high[8] - found.low[8] > 2 * (found.high[:8] - found.low[:8]).max()
    assert found.verdict[8] == "too few votes"


@pytest.mark.parametrize("model", MODELS)
def test_annotators_without_votes_have_the_rates_of_the_pool(model: AnnotatorModel) -> None:
    votes, truth = crowd([])
    with_silent = Votes(
        votes.doc, votes.annotator, votes.label, votes.value,
        votes.doc_ids, names_array([*votes.annotators, "with_silent"]), votes.classes,
    )  # fmt: skip
    found = summarize(model, with_silent, truth)
    assert found.quality[8] == pytest.approx(found.quality[:8].mean(), abs=0.03)
    assert found.verdict[8] == "too few votes"
    assert found.n_votes[8] == 0


@pytest.mark.parametrize("model", MODELS)
def test_a_crowd_without_any_vote_has_a_summary(model: AnnotatorModel) -> None:
    found = summarize(model, Votes.empty(["d"], ["a", "b"], ["x"]), np.array([[0.5, 0.5]]))
    assert found.quality[0] == pytest.approx(0.7)
    assert found.verdict[0] == "too few votes"


def test_verdicts_follow_informedness_and_its_interval() -> None:
    ends = np.array([[0.6, 0.8], [0.2, 0.4], [-0.05, 0.1], [-0.9, -0.5], [0.0, 0.6], [0.3, 0.95], [-0.3, 0.02]])
    found = verdicts(ends.mean(axis=1), *ends.T, np.full(7, 100.0))
    assert found.tolist() == [*VERDICTS, "too few votes", "too few votes"]
    assert verdicts(*np.full((3, 1), 0.9), np.array([9.0])).tolist() == ["too few votes"]


def test_an_interval_holds_its_mean_however_skewed() -> None:
    mean = np.array([0.003, 0.4, 0.997])
    found = beta_interval(mean, 0.5 * mean * (1.0 - mean))
    assert (found.low <= mean).all()
    assert (mean <= found.high).all()


@pytest.mark.parametrize(("n_docs", "n_compared"), [(9, 9), (10, 4), (500, 0)])
def test_votes_on_few_documents_or_without_comparison_make_no_verdict(n_docs: int, n_compared: int) -> None:
    certain = AnnotatorBelief(
        np.array([[[300.0, 3.0], [300.0, 3.0]]]), np.full((2, 2), 0.5), np.full((1, 2, 2), np.nan)
    )
    counts = np.full((1, 2, 2), [300.0, 3.0])
    assert summarize_annotators(certain, counts, np.array([[10, 5]])).verdict.tolist() == ["reliable"]
    few = np.array([[n_docs, n_compared]])
    assert summarize_annotators(certain, counts, few).verdict.tolist() == ["too few votes"]
    with_history = replace(certain, own=np.full((1, 2, 2), [20.0, 1.0]))
    assert summarize_annotators(with_history, counts, few).verdict.tolist() == ["reliable"]


def test_documents_of_annotators_are_counted() -> None:
    votes = Votes.from_records(
        [
            *[("d1", name, "x", 1) for name in "ab"],
            *[("d1", "a", "y", 0), ("d1", "c", "z", 0)],  # nobody else judged z
            *[("d2", "a", "x", 1), ("d2", "a", "y", 1)],
            *[("d3", name, "y", 0) for name in "bc"],
        ],
        documents=["d1", "d2", "d3", "d4"],
    )
    known = np.full((4, 3), -1, dtype=np.int8)
    assert document_counts(votes, known).tolist() == [[2, 1], [2, 2], [2, 1]]
    known[1, 1] = 0
    known[3] = 1  # nobody judged it
    assert document_counts(votes, known).tolist() == [[2, 2], [2, 2], [2, 1]]
    halves = [document_counts(votes.take(rows), known[rows]) for rows in (slice(0, 2), slice(2, 4))]
    assert sum(halves).tolist() == [[2, 2], [2, 2], [2, 1]]


def test_quality_table_has_one_row_per_annotator() -> None:
    votes, truth = crowd([])
    table = quality_table(summarize(TwoCoinModel(), votes, truth), votes.annotators)
    assert table.columns[:9].tolist() == [
        "annotator", "quality", "low", "high", "sensitivity", "specificity", "informedness", "n_votes", "verdict",
    ]  # fmt: skip
    assert table["annotator"].tolist() == votes.annotators.tolist()
    assert table["n_votes"].tolist() == votes.per_annotator().tolist()
    np.testing.assert_allclose(table["informedness"], table["sensitivity"] + table["specificity"] - 1)
    mix = table["sensitivity"] * table["n_present"] + table["specificity"] * (table["n_votes"] - table["n_present"])
    np.testing.assert_allclose(table["quality"], mix / table["n_votes"])


def test_rates_by_class_show_the_classes_an_annotator_misses() -> None:
    truth = (np.random.default_rng(1).random((600, 2)) < 0.4).astype(int)
    seen = np.array([[0.9, 0.1], [0.8, 0.8], [0.9, 0.9]])
    people = SimulatedAnnotators.from_rates(seen, np.full((3, 2), 0.9), names=["a", "b", "c"])
    votes = simulate.votes(truth, people, seed=0, votes_per_doc=3, classes=["birds", "bees"])
    model = PerClassModel()
    belief = model.update(model.count(votes, truth.astype(float)), model.start(3, 2))
    table = rates_by_class(belief, votes.annotators, votes.classes).set_index(["annotator", "label"])
    assert table.loc[("a", "birds"), "sensitivity"] > 0.85
    assert table.loc[("a", "bees"), "sensitivity_high"] < 0.2
    betas = belief.posterior[1, 0, 0]
    row = table.loc[("b", "birds")]
    assert [row["specificity_low"], row["specificity_high"]] == pytest.approx(stats.beta(*betas).interval(0.95))
    tied = TwoCoinModel()
    same = rates_by_class(tied.start(3, 2), votes.annotators, votes.classes)
    assert len(same) == 6
    assert same["sensitivity"].tolist() == pytest.approx([0.7] * 6)


@pytest.mark.parametrize("model", MODELS)
def test_an_earlier_quality_table_improves_rates_from_few_votes(model: AnnotatorModel) -> None:
    votes, truth = crowd([(0.1, 0.1)])
    table = quality_table(summarize(model, votes.take(slice(0, 60)), truth[:60]), votes.annotators)
    fresh = votes.take(slice(60, 63))
    with_prior = summarize(model, fresh, truth[60:63], table)
    without_prior = summarize(model, fresh, truth[60:63])
    true = np.array([*GOOD, 0.1]) * 0.1 + np.array([*(0.5 + np.array(GOOD) / 2), 0.1]) * 0.9
    assert np.abs(with_prior.quality - true).mean() < np.abs(without_prior.quality - true).mean()
    assert with_prior.verdict[8] == "adversarial"
    assert without_prior.verdict[8] != "adversarial"


def test_history_counts_as_the_votes_behind_it_up_to_a_cap() -> None:
    table = pd.DataFrame(
        {"annotator": ["a", "b", "c"], "quality": [0.8, 0.8, 0.8], "sensitivity": [0.6, 0.6, 0.6],
         "specificity": [0.9, 0.9, 0.9], "n_votes": [60, 5000, 0], "n_present": [20.0, 1000.0, 0.0]}
    )  # fmt: skip
    history = parse_annotator_prior(table, names_array(["b", "new", "a", "c"]))
    own = TwoCoinModel().start(4, 3, history).own
    np.testing.assert_allclose(own[2], [[36.0, 4.0], [12.0, 8.0]])
    np.testing.assert_allclose(own[0].sum(axis=-1), annotator_history.MAX_HISTORY_VOTES)
    assert np.isnan(own[[1, 3]]).all()
    np.testing.assert_allclose(OneCoinModel().start(4, 3, history).own[2], [48.0, 12.0])
    np.testing.assert_allclose(PerClassModel().start(4, 2, history).own[2], [[[18.0, 2.0], [6.0, 4.0]]] * 2)


def test_many_votes_outweigh_a_history() -> None:
    votes, truth = crowd([(0.95, 0.98)])
    found = summarize(TwoCoinModel(), votes, truth, {votes.annotators[8]: 0.1})
    assert found.informedness[8] > 0.4


def test_those_with_a_history_keep_their_prior_and_leave_the_pool_alone() -> None:
    votes, truth = crowd([(0.1, 0.1)])
    model = TwoCoinModel()
    counts = model.count(votes, truth)
    history = parse_annotator_prior({votes.annotators[8]: 0.9}, votes.annotators)
    belief = model.update(counts, model.start(9, 4, history))
    np.testing.assert_allclose(belief.posterior[8] - counts[8], [[18.0, 2.0]] * 2)
    without = model.update(counts[:8], model.start(8, 4))
    np.testing.assert_allclose(belief.pool, without.pool)


def test_an_annotator_prior_can_be_a_mapping() -> None:
    names = names_array(["1", "b", "c"])
    history = parse_annotator_prior({1: 0.8, "b": (0.5, 0.9)}, names)
    np.testing.assert_allclose(history.sensitivity, [0.8, 0.5, np.nan])
    np.testing.assert_allclose(history.specificity, [0.8, 0.9, np.nan])
    np.testing.assert_allclose(history.n_present, [20, 20, np.nan])
    assert np.isnan(parse_annotator_prior({}, names).quality).all()
    extreme = TwoCoinModel().start(3, 1, parse_annotator_prior({"b": 1 - 1e-9}, names))
    assert extreme.posterior.min() == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.DataFrame({"worker": ["a"], "quality": [0.8]}), "no column 'annotator', only 'worker', 'quality'"),
        (pd.DataFrame({"annotator": ["a"], "sensitivity": [0.8]}), "no column 'specificity'"),
        (pd.DataFrame({"annotator": ["a", "a"], "quality": [0.8, 0.7]}), "annotator 'a' more than once"),
        (pd.DataFrame({"annotator": ["a"], "quality": [0.8], "n_votes": [-1]}), "n_votes of annotator 'a'.*at least 0"),
        (pd.DataFrame({"annotator": ["a"], "quality": [0.8], "n_present": [-1]}), "n_present of annotator 'a'"),
        ({"a": 1.0}, "sensitivity of annotator 'a' in annotator_prior is 1; rates must be above 0 and below 1"),
        ({"a": float("nan")}, "is nan; rates must"),
        ({"a": "good"}, "must contain numbers"),
        ({"a": (0.1, 0.2, 0.3)}, "pass a quality or"),
        ([0.5], "annotator_prior is a list"),
    ],
)
def test_invalid_annotator_priors_are_refused(given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_annotator_prior(given, names_array(["a"]))


def test_a_prior_without_matching_annotators_warns() -> None:
    with pytest.warns(PaldaWarning, match="names none of the annotators"):
        parse_annotator_prior({"A": 0.8}, names_array(["a"]))


def test_a_history_of_other_annotators_is_refused() -> None:
    with pytest.raises(ValueError, match="has 1 annotators, but the votes have 2"):
        TwoCoinModel().start(2, 1, parse_annotator_prior({"a": 0.8}, names_array(["a"])))


def test_doubt_about_labels_widens_intervals_of_the_informed_and_not_of_random_voters() -> None:
    rates = np.array([[[800.0, 200.0], [800.0, 200.0]], [[500.0, 500.0], [500.0, 500.0]]])
    belief = AnnotatorBelief(rates, np.full((2, 2), 0.5), np.full((2, 2, 2), np.nan))
    known, doubtful = (summarize_annotators(belief, rates, doubt=doubt) for doubt in (None, np.full((2, 2), 0.5)))
    widths = [found.informedness_high - found.informedness_low for found in (known, doubtful)]
    assert widths[1][0] > 2 * widths[0][0]
    assert widths[1][1] == pytest.approx(widths[0][1])
    assert doubtful.verdict.tolist() == ["reliable", "spammer"]
