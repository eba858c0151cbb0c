"""EM of the support model never lowers its objective, and finds what simulated crowds were made of."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from palda import aggregate, metrics, simulate
from palda.data import Votes
from palda.engine import Threads
from palda.errors import PaldaWarning
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    SupportBelief,
    SupportModel,
    cut_votes,
    first_state,
    fit_crowd,
    initial_label_probs,
    mean_rates,
    parse_annotator_prior,
    start_belief,
)
from palda.models.crowd.em import CrowdFit, with_profiles
from palda.models.crowd.support import KAPPA, as_support
from palda.models.crowd.support_em import SupportEM, single_profile
from palda.models.crowd.traits import POINTS
from palda.models.crowd.typical import robust_centre
from palda.models.topics import belief_from_arrays, belief_to_arrays
from palda.simulate import SimulatedAnnotators

Array = NDArray[np.float64]
Labels = NDArray[np.int8]

SETTINGS = CrowdSettings(SupportModel(), engine=Threads(1))


def unknown(votes: Votes) -> Labels:
    return np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)


def first(votes: Votes, known: Labels, prior: dict[str, float] | None = None) -> CrowdState:
    history = None if prior is None else parse_annotator_prior(prior, votes.annotators)
    belief = start_belief(SETTINGS.annotators, votes, history)
    return first_state(votes, known, initial_label_probs(votes, known), belief, SETTINGS)


def fit(votes: Votes, known: Labels | None = None) -> CrowdFit:
    """Fit with one profile."""
    known = unknown(votes) if known is None else known
    return fit_crowd(cut_votes(votes, known), first(votes, known), SETTINGS)


def coins(rates: list[float], *, n_docs: int = 200, n_classes: int = 3, votes_per_doc: int = 5) -> tuple[Votes, Labels]:
    """Votes that are independent given labels of which 30% are present."""
    labels = (np.random.default_rng(0).random((n_docs, n_classes)) < 0.3).astype(np.int8)
    crowd = SimulatedAnnotators.from_rates(np.array(rates), np.array(rates), n_classes=n_classes)
    return simulate.votes(labels, crowd, votes_per_doc=votes_per_doc, seed=1), labels


def opinions(
    seed: int = 0, *, n_docs: int = 200, n_classes: int = 3, n_annotators: int = 10, share: float = 0.5
) -> tuple[Votes, Array]:
    """Votes of annotators who follow a normal support, and the support."""
    rng = np.random.default_rng(seed)
    support = rng.normal(-0.5, 1.4, (n_docs, n_classes))
    yes = expit(support[:, None] + rng.normal(0.0, 0.3, (1, n_annotators, 1)))
    table = (rng.random(yes.shape) < yes).astype(int)
    table[rng.random((n_docs, n_annotators)) > share] = -1
    return Votes.from_array(table), support


def soft(votes: Votes) -> Votes:
    """The votes with probabilities of .6 to .95 for what they say."""
    sure = np.random.default_rng(0).uniform(0.6, 0.95, len(votes))
    return replace(votes, probability=np.where(votes.value == 1, sure, 1.0 - sure).astype(np.float32))


def plain_steps(votes: Votes, known: Labels, start: CrowdState, n_steps: int = 15) -> tuple[Array, CrowdState]:
    """Objectives of plain EM, without extrapolation and without the guard against falls; and the last state."""
    shards = cut_votes(votes, known, n_shards=2)
    em = SupportEM(shards, SETTINGS, as_support(start.belief))
    state, objectives = start, []
    if as_support(state.belief).is_start:
        belief = replace(as_support(state.belief), weights=em.base, is_start=False)
        state = replace(state, belief=belief, profiles=single_profile(belief))
    several = len(state.profiles.weights) > 1
    has_gold = bool(((known >= 0) & (votes.per_pair() > 0)).any())
    for number in range(n_steps):
        step = em.e_step(state)
        objectives.append(step.objective)
        state = em.m_step(step, learns_link=has_gold and not several and number < 8)
    return np.array(objectives), state


CROWDS = {
    "good and bad annotators": coins([0.9, 0.8, 0.7, 0.6, 0.5, 0.2])[0],
    "one vote per document": coins([0.8] * 10, votes_per_doc=1)[0],
    "opinions": opinions()[0],
    "three annotators judge everything": opinions(1, n_annotators=3, share=1.0)[0],
}


@pytest.mark.parametrize("has_gold", [False, True], ids=["no gold", "gold"])
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_step_never_lowers_the_objective(crowd: str, has_gold: bool) -> None:
    votes = CROWDS[crowd]
    known = unknown(votes)
    if has_gold:
        known[:40] = np.random.default_rng(2).random((40, votes.n_classes)) < 0.3
    objectives, _ = plain_steps(votes, known, first(votes, known))
    assert np.diff(objectives).min() > 0.0
    assert objectives[-1] > objectives[0] + 5.0


def test_a_step_with_gold_labels_of_unjudged_documents_never_lowers_the_objective() -> None:
    votes = CROWDS["good and bad annotators"]
    votes = votes.select(votes.doc >= 40)
    known = unknown(votes)
    known[:40] = 1
    objectives, state = plain_steps(votes, known, first(votes, known))
    assert np.diff(objectives).min() > 0.0
    without = plain_steps(votes, unknown(votes), first(votes, unknown(votes)))[1]
    assert (state.profiles.rates > without.profiles.rates + 0.05).all()


def test_gold_labels_of_a_class_that_nobody_has_judged_do_not_change_other_classes() -> None:
    votes, _ = coins([0.9, 0.8, 0.7, 0.6, 0.5, 0.2])
    two = votes.select(votes.label < 2)
    known = unknown(two)
    known[:, 2] = 0
    found, alone = fit(two, known), fit(two)
    np.testing.assert_allclose(found.label_probs[:, :2], alone.label_probs[:, :2], atol=0.01)
    np.testing.assert_array_equal(as_support(found.state.belief).link, np.tile((KAPPA, 0.0), (3, 1)))


def test_a_step_with_soft_votes_never_lowers_the_objective() -> None:
    votes = soft(CROWDS["good and bad annotators"])
    start = first(votes, unknown(votes))
    assert start.belief.levels is not None
    assert np.diff(plain_steps(votes, unknown(votes), start)[0]).min() > 0.0


def test_a_step_with_profiles_hardly_lowers_the_objective() -> None:
    """The rates of profiles keep their mean, so that weights and rates are not maximised together."""
    votes = CROWDS["good and bad annotators"]
    start = with_profiles(cut_votes(votes, unknown(votes)), fit(votes), 3, SETTINGS, 0).state
    objectives, _ = plain_steps(votes, unknown(votes), start)
    assert np.diff(objectives).min() > -1e-4 * abs(objectives[-1])


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_fit_ends_higher_than_as_many_plain_steps(crowd: str) -> None:
    votes = CROWDS[crowd]
    found = fit(votes)
    plain, _ = plain_steps(votes, unknown(votes), first(votes, unknown(votes)), n_steps=len(found.log_likelihoods))
    assert found.converged
    assert np.diff(found.log_likelihoods).min() >= 0.0
    assert found.log_likelihoods[-1] > plain[-1] - 1e-3


def test_a_fit_with_gold_history_profiles_or_soft_votes_never_reports_a_fall() -> None:
    votes, labels = coins([0.9, 0.8, 0.7, 0.6, 0.5, 0.2])
    known = unknown(votes)
    known[:30] = labels[:30]
    start = first(soft(votes), known, {str(votes.annotators[0]): 0.9, str(votes.annotators[5]): 0.3})
    shards = cut_votes(soft(votes), known)
    single = fit_crowd(shards, start, SETTINGS)
    several = fit_crowd(shards, with_profiles(shards, single, 3, SETTINGS, 0).state, SETTINGS)
    for found in (single, several):
        assert np.diff(found.log_likelihoods).min() >= 0.0
        np.testing.assert_array_equal(found.label_probs[:30], labels[:30])


def test_the_typical_annotator_stays_the_zero_of_offsets() -> None:
    votes = CROWDS["opinions"]
    belief = as_support(fit(votes).state.belief)
    informed = votes.per_annotator() * np.clip(
        belief.traits.slopes, 0.0, 1.0
    )  # slopes of the last steps, not the first
    assert robust_centre(belief.traits.offsets, informed) == pytest.approx(0.0, abs=0.02)
    for by_class in belief.traits.by_class.T:
        assert robust_centre(by_class, informed) == pytest.approx(0.0, abs=0.02)


def test_votes_that_depend_on_a_label_alone_make_two_spikes() -> None:
    """The spikes are at the log-odds of the annotators' rate, and labels are those of Dawid and Skene's model."""
    votes, _ = coins([0.9] * 10, n_docs=400, n_classes=2, votes_per_doc=6)
    found = fit(votes)
    weights = as_support(found.state.belief).weights
    near = np.abs(np.abs(POINTS) - logit(0.9)) <= 1.0
    assert weights[:, near].sum(axis=1).min() > 0.8
    assert weights[:, np.abs(POINTS) < 0.75].sum(axis=1).max() < 0.05
    coin = aggregate(votes, "one_coin", n_profiles=1, copies=False).consensus
    assert np.mean((found.label_probs > 0.5) != (coin > 0.5)) < 0.02
    unanimous = np.abs(votes.yes_per_pair() - 3) == 3
    assert np.minimum(found.label_probs, 1.0 - found.label_probs)[unanimous].max() < 0.02


def test_votes_that_spread_out_stay_near_their_share() -> None:
    votes, _ = opinions(2, n_docs=400, share=0.7)
    found = fit(votes).label_probs
    share, many = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1), votes.per_pair() >= 5
    coin = aggregate(votes, "one_coin", n_profiles=1, copies=False).consensus
    for low in (0.1, 0.3, 0.5, 0.7):
        mine = many & (share >= low) & (share < low + 0.2)
        assert abs(found[mine].mean() - share[mine].mean()) < 0.15
    error, error_of_coins = (np.abs(table - share)[many].mean() for table in (found, coin))
    assert error < 0.6 * error_of_coins


@pytest.mark.parametrize("constant", [0, 1], ids=["always no", "always yes"])
def test_constant_voters_neither_empty_nor_fill_the_consensus(constant: int) -> None:
    votes, labels = coins([0.7] * 10, n_docs=300, votes_per_doc=6)
    is_constant = votes.annotator < 2
    found = fit(replace(votes, value=np.where(is_constant, constant, votes.value).astype(np.int8)))
    honest = fit(votes.select(~is_constant))
    assert abs(found.label_probs.mean() - honest.label_probs.mean()) < 0.05
    scores = [metrics.micro_f1(labels, each.label_probs > 0.5) for each in (found, honest)]
    assert scores[0] > scores[1] - 0.05
    rates = mean_rates(found.state.belief)
    informedness = rates.sum(axis=2).mean(axis=1) - 1.0
    assert np.abs(informedness[:2]).max() < 0.1
    assert informedness[2:].min() > 0.2


def test_an_adversary_has_a_negative_slope_and_a_random_voter_none() -> None:
    votes, _ = coins([0.9] * 6 + [0.1, 0.5], votes_per_doc=8)
    slopes = as_support(fit(votes).state.belief).traits.slopes
    assert slopes[:6].min() > 0.7
    assert slopes[6] < -0.7
    assert abs(slopes[7]) < 0.2


def test_somebody_who_says_no_more_often_has_a_negative_offset() -> None:
    rng = np.random.default_rng(3)
    support = rng.normal(0.0, 1.5, (300, 3))
    yes = expit(support[:, None] + np.array([-1.5, *np.zeros(7)])[:, None])
    belief = as_support(fit(Votes.from_array((rng.random(yes.shape) < yes).astype(int))).state.belief)
    assert belief.traits.offsets[0] < -1.0  # the prior has a standard deviation of .7
    assert np.abs(belief.traits.offsets[1:]).max() < 0.4


@pytest.mark.parametrize(("kappa", "delta"), [(1.0, 0.0), (8.0, 0.0), (2.5, -2.0)])
def test_the_link_is_learned_from_gold_labels(kappa: float, delta: float) -> None:
    votes, support = opinions(4, n_docs=300, n_classes=2)
    truth = (np.random.default_rng(5).random(support.shape) < expit(kappa * support + delta)).astype(np.int8)
    known = unknown(votes)
    known[:150] = truth[:150]
    with_gold, without = fit(votes, known), fit(votes)
    found = as_support(with_gold.state.belief).link
    if delta:
        assert found[:, 1].max() < -1.0
    elif kappa > KAPPA:
        assert found[:, 0].min() > KAPPA + 0.5
    else:
        assert found[:, 0].max() < KAPPA - 0.5
    scores = [metrics.class_log_likelihood(truth[150:], each.label_probs[150:]) for each in (with_gold, without)]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("n_known", [15, 60])
def test_gold_labels_reveal_that_the_majority_is_wrong(n_known: int) -> None:
    votes, labels = coins([0.2, 0.25, 0.3, 0.1, 0.9])
    known = unknown(votes)
    known[:n_known] = labels[:n_known]
    found = fit(votes, known)
    slopes = as_support(found.state.belief).traits.slopes
    assert slopes[:4].max() < 0.0 < slopes[4]
    assert metrics.micro_f1(labels[n_known:], found.label_probs[n_known:] > 0.5) > 0.85


def test_without_gold_the_link_is_a_constant() -> None:
    link = as_support(fit(CROWDS["opinions"]).state.belief).link
    np.testing.assert_array_equal(link, np.tile((KAPPA, 0.0), (3, 1)))


def panel_crowd(n_people: int = 3, n_models: int = 40) -> tuple[Votes, Array, Array]:
    """People with a common support, and models that share mistakes; shares of yes votes of both."""
    rng = np.random.default_rng(6)
    support = rng.normal(-0.3, 2.0, (200, 2))
    of_models = support + rng.normal(0.0, 1.5, support.shape)
    yes = np.concatenate(
        (np.repeat(expit(support)[:, None], n_people, 1), np.repeat(expit(1.5 * of_models)[:, None], n_models, 1)), 1
    )
    table = (rng.random(yes.shape) < yes).astype(int)
    kinds = np.array(["person"] * n_people + ["model"] * n_models, dtype=object)
    votes = replace(Votes.from_array(table), annotator_kinds=kinds)
    return votes, table[:, :n_people].mean(axis=1), table[:, n_people:].mean(axis=1)


def test_forty_models_do_not_outvote_three_people_who_agree() -> None:
    votes, people, models = panel_crowd()
    found, as_people = fit(votes), fit(replace(votes, annotator_kinds=np.empty(0, dtype=object)))
    assert as_support(found.state.belief).panel is not None
    yes, no = (people == 1) & (models < 0.2), (people == 0) & (models > 0.8)
    assert min(yes.sum(), no.sum()) >= 2
    assert found.label_probs[yes].min() > 0.6
    assert found.label_probs[no].max() < 0.4
    assert as_people.label_probs[yes].max() < 0.4


def test_models_decide_where_nobody_else_has_judged() -> None:
    votes, _, models = panel_crowd()
    votes = votes.select((votes.doc < 100) | (votes.annotator >= 3))
    probs = fit(votes).label_probs[100:]
    assert probs[models[100:] > 0.9].min() > 0.7
    assert probs[models[100:] < 0.1].max() < 0.3


def test_rare_labels_do_not_run_away() -> None:
    """With 1% of labels present and annotators right in 80%, EM from a majority vote can end with far too many."""
    labels = (np.random.default_rng(0).random((300, 30)) < 0.01).astype(np.int8)
    crowd = simulate.annotators(np.full(20, 0.8), n_classes=30, seed=0)
    found = fit(simulate.votes(labels, crowd, votes_per_doc=5, seed=0)).label_probs
    assert found.sum() < 4.0 * labels.sum()
    assert metrics.micro_f1(labels, found > 0.5) > 0.4


def test_the_order_of_documents_and_annotators_does_not_matter() -> None:
    table = np.full((200, 6, 3), -1)
    votes = CROWDS["good and bad annotators"]
    table[votes.doc, votes.annotator, votes.label] = votes.value
    rng = np.random.default_rng(7)
    docs, annotators = rng.permutation(200), rng.permutation(6)
    found, other = fit(votes), fit(Votes.from_array(table[docs][:, annotators]))
    np.testing.assert_allclose(other.label_probs, found.label_probs[docs], atol=1e-6)
    slopes, others = (as_support(each.state.belief).traits.slopes for each in (found, other))
    np.testing.assert_allclose(others, slopes[annotators], atol=1e-5)


def test_consensus_does_not_depend_on_threads_or_seed() -> None:
    votes = CROWDS["good and bad annotators"]
    first, second = (
        aggregate(votes, n_profiles=1, n_jobs=n_jobs, random_state=seed) for n_jobs, seed in ((1, 0), (2, 5))
    )
    np.testing.assert_array_equal(first.consensus, second.consensus)
    np.testing.assert_array_equal(first.log_likelihoods, second.log_likelihoods)


def test_shards_give_the_same_fit() -> None:
    votes = CROWDS["opinions"]
    start = first(votes, unknown(votes))
    one, three = (fit_crowd(cut_votes(votes, unknown(votes), n_shards=n), start, SETTINGS) for n in (1, 3))
    np.testing.assert_allclose(three.label_probs, one.label_probs, atol=1e-6)


BELIEFS = pytest.mark.parametrize("name", ["votes", "a panel", "soft votes", "a classifier"])


@cache
def fitted_belief(name: str) -> SupportBelief:
    votes = CROWDS["three annotators judge everything"]
    if name == "a panel":
        votes = panel_crowd(3, 4)[0]
    belief = as_support(fit(soft(votes) if name == "soft votes" else votes).state.belief)
    return replace(belief, sharpness=np.array([0.1, 0.2, 0.3])) if name == "a classifier" else belief


def assert_equal(found: SupportBelief, expected: SupportBelief) -> None:
    left, right = belief_to_arrays(found), belief_to_arrays(expected)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


@BELIEFS
def test_beliefs_survive_a_file(name: str) -> None:
    belief = fitted_belief(name)
    again = belief_from_arrays(belief_to_arrays(belief))
    assert isinstance(again, SupportBelief)
    assert_equal(again, belief)
    assert (again.panel is None, again.sharpness is None) == (belief.panel is None, belief.sharpness is None)


@BELIEFS
def test_beliefs_about_annotators_can_be_reordered(name: str) -> None:
    belief = fitted_belief(name)
    order = np.random.default_rng(8).permutation(len(belief.posterior))
    taken = belief.take(order)
    np.testing.assert_array_equal(taken.traits.slopes, belief.traits.slopes[order])
    np.testing.assert_array_equal(taken.overall, belief.overall[order])
    assert_equal(taken.take(np.argsort(order)), belief)


@BELIEFS
def test_new_annotators_are_typical_and_the_others_stay(name: str) -> None:
    belief = fitted_belief(name)
    more, n_old = belief.with_new_annotators(np.full(2, -1)), len(belief.posterior)
    assert_equal(more.take(np.arange(n_old)), belief)
    np.testing.assert_array_equal(more.traits.slopes[n_old:], 1.0)
    np.testing.assert_array_equal(more.traits.offsets[n_old:], 0.0)
    np.testing.assert_array_equal(more.posterior[n_old:], np.broadcast_to(belief.pool, more.posterior[n_old:].shape))
    votes = panel_crowd(3, 4)[0] if name == "a panel" else CROWDS["three annotators judge everything"]
    wider = replace(
        votes, annotators=np.append(votes.annotators, ["new", "newer"]), annotator_kinds=np.empty(0, object)
    )
    before, after = (SETTINGS.annotators.evidence(*pair).log_odds for pair in ((votes, belief), (wider, more)))
    np.testing.assert_array_equal(after, before)


def test_the_counts_of_a_fit_do_not_move_its_traits_and_new_votes_do() -> None:
    found, model = fit(CROWDS["good and bad annotators"]), SETTINGS.annotators
    belief = as_support(found.state.belief)
    for before, after in zip(belief.traits, as_support(model.update(found.vote_counts, belief)).traits, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-3)
    counts = found.vote_counts.copy()
    counts[5, :, :, 0] += 100.0  # the adversary has been right ever since
    moved = as_support(model.update(counts, belief)).traits.slopes
    assert moved[5] > belief.traits.slopes[5] + 0.5
    np.testing.assert_allclose(moved[:5], belief.traits.slopes[:5], atol=1e-3)


@BELIEFS
def test_new_models_are_part_of_the_panel(name: str) -> None:
    belief = fitted_belief(name)
    panel = belief.with_new_annotators(np.array([0, -1, 1, 0])).panel
    n_old = len(belief.posterior)
    n_families = 0 if belief.panel is None else len(belief.panel.family_spreads)
    assert panel is not None
    assert panel.is_model[n_old:].tolist() == [True, False, True, True]
    assert panel.family_of[n_old:].tolist() == [n_families, -1, n_families + 1, n_families]
    assert len(panel.family_spreads) == len(panel.family_weights) == n_families + 2


def test_classes_that_nobody_has_judged_do_not_change_what_is_said_about_annotators() -> None:
    votes = CROWDS["three annotators judge everything"]
    classes = np.append(votes.classes, [f"unused {i}" for i in range(9)])
    wider = Votes.from_frame(votes.to_frame(), documents=votes.doc_ids, classes=classes)
    with pytest.warns(PaldaWarning, match="nobody voted on"):
        found = aggregate(wider, n_profiles=1).annotator_quality
    expected = aggregate(votes, n_profiles=1).annotator_quality
    assert found["verdict"].equals(expected["verdict"])
    for name in ("sensitivity", "specificity", "informedness_low"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_liars_do_not_end_em_after_a_step() -> None:
    """Far from the maximum the steps of traits are too long: they are shortened, and EM goes on."""
    news = simulate.newsroom(600, seed=1)
    votes, _ = simulate.crowd(news, "adversarial", votes_per_doc=5, seed=1)
    single = fit(votes)
    start = with_profiles(cut_votes(votes, unknown(votes)), single, 8, SETTINGS, 0).state
    several = fit_crowd(cut_votes(votes, unknown(votes)), start, SETTINGS)
    for found in (single, several):
        assert (np.diff(found.log_likelihoods) >= 0).all()
        again = fit_crowd(cut_votes(votes, unknown(votes)), found.state, SETTINGS)
        assert again.log_likelihoods[-1] - found.log_likelihoods[-1] < 1e-4 * abs(found.log_likelihoods[-1])
    two_coins = aggregate(votes, "two_coin", n_profiles=8).consensus
    scores = [metrics.micro_f1(news.labels, probs >= 0.5) for probs in (several.label_probs, two_coins)]
    assert scores[0] > scores[1] - 0.02


def test_many_votes_start_from_a_fit_to_some_of_them_and_end_at_the_same_labels() -> None:
    votes, _ = coins([0.9, 0.8, 0.8, 0.7, 0.6, 0.3], n_docs=800)
    start = first(votes, unknown(votes))
    tight = replace(SETTINGS, tol=1e-9)
    one, many = (fit_crowd(cut_votes(votes, unknown(votes), n_shards=n), start, tight) for n in (1, 8))
    assert many.log_likelihoods[-1] == pytest.approx(one.log_likelihoods[-1], abs=0.2)
    np.testing.assert_allclose(many.label_probs, one.label_probs, atol=0.02)
