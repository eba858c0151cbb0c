"""The support model equals enumeration over the grid and the states of labels; its small maximisations are maxima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from palda.data import Votes
from palda.engine import Threads
from palda.kernels import GridEvidence
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    ProfilePrior,
    Profiles,
    SupportBelief,
    SupportModel,
    cut_votes,
    label_posterior,
    mean_rates,
)
from palda.models.crowd.answers import learned_answers
from palda.models.crowd.link import CLASS_DELTA_SPREAD, DELTA_SPREAD, LOG_KAPPA_SPREAD, learned_link, link_log_prior
from palda.models.crowd.support import KAPPA, NOTHING_GIVEN, described, trait_log_prior, traits_from_counts
from palda.models.crowd.support_em import (
    BASE_DOCUMENTS,
    SupportEM,
    centre_slopes,
    robust_centre,
    single_profile,
    support_posterior,
)
from palda.models.crowd.traits import CLASS_SPREAD, OFFSET_SPREAD, POINTS, SLOPE_SPREAD, Traits

Array = NDArray[np.float64]

N_DOCS, N_ANNOTATORS, N_CLASSES = 6, 4, 3
MODEL = SupportModel()
SETTINGS = CrowdSettings(MODEL, engine=Threads(1))
UNKNOWN = np.full((N_DOCS, N_CLASSES), -1, dtype=np.int8)


def random_votes(seed: int) -> Votes:
    """Votes on most labels; the last document has none."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (N_DOCS, N_ANNOTATORS, N_CLASSES))
    table[rng.random(table.shape) < 0.3] = -1
    table[-1] = -1
    return Votes.from_array(table)


def random_belief(seed: int, *, sharpness: bool = False) -> SupportBelief:
    rng = np.random.default_rng(seed)
    traits = Traits(
        rng.normal(1.0, 0.7, N_ANNOTATORS),
        rng.normal(0.0, 0.7, N_ANNOTATORS),
        rng.normal(0.0, 0.4, (N_ANNOTATORS, N_CLASSES)),
    )
    return replace(
        MODEL.start(N_ANNOTATORS, N_CLASSES),
        traits=traits,
        anchor=traits,
        weights=rng.dirichlet(np.full(len(POINTS), 0.5), N_CLASSES) * 0.99 + 0.01 / len(POINTS),
        link=np.column_stack((rng.uniform(1.0, 4.0, N_CLASSES), rng.normal(0.0, 1.0, N_CLASSES))),
        sharpness=rng.uniform(0.0, 0.4, N_CLASSES) if sharpness else None,
        is_start=False,
    )


def joint(votes: Votes, belief: SupportBelief, doc: int, label: int, answer: float = 0.0) -> Array:
    """(states, points): probability of the state, of each support, and of the votes and the answer on a label."""
    traits, table = belief.traits, np.zeros((2, len(POINTS)))
    for state, (j, point) in product((0, 1), enumerate(POINTS)):
        present = expit(belief.link[label, 0] * point + belief.link[label, 1])
        prob = belief.weights[label, j] * (present if state else 1.0 - present)
        for vote in np.flatnonzero((votes.doc == doc) & (votes.label == label)):
            who = votes.annotator[vote]
            yes = expit(traits.slopes[who] * point + traits.offsets[who] + traits.by_class[who, label])
            prob *= yes if votes.value[vote] else 1.0 - yes
        if belief.sharpness is not None:
            prob *= np.exp(answer * point - 0.5 * belief.sharpness[label] * point**2)
        table[state, j] = prob
    return table


def state_of(belief: SupportBelief, profiles: Profiles | None = None) -> CrowdState:
    prior = ProfilePrior(belief.prevalence)
    return CrowdState(belief, single_profile(belief) if profiles is None else profiles, prior)


def probs_by_enumeration(
    votes: Votes, belief: SupportBelief, profiles: Profiles, known: NDArray[np.int8], answers: Array
) -> Array:
    """Label probabilities from all profiles, label sets and supports."""
    found = np.zeros(known.shape)
    for doc in range(len(known)):
        given_state = np.array([joint(votes, belief, doc, i, answers[doc, i]).sum(axis=1) for i in range(N_CLASSES)])
        given_state /= np.column_stack((1.0 - belief.prevalence, belief.prevalence))
        total, sums = 0.0, np.zeros(N_CLASSES)
        for m, labels in product(range(len(profiles.weights)), product((0, 1), repeat=N_CLASSES)):
            if any(known[doc, i] not in (-1, state) for i, state in enumerate(labels)):
                continue
            prob = profiles.weights[m]
            for i, state in enumerate(labels):
                prob *= (profiles.rates[m, i] if state else 1.0 - profiles.rates[m, i]) * given_state[i, state]
            total += prob
            sums += prob * np.array(labels)
        found[doc] = sums / total
    return found


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
@pytest.mark.parametrize("known_labels", [False, True], ids=["unknown labels", "known labels"])
@pytest.mark.parametrize("n_profiles", [1, 2])
@pytest.mark.parametrize("has_answers", [False, True], ids=["votes", "votes and a classifier"])
def test_label_probabilities_equal_enumeration(
    monkeypatch: pytest.MonkeyPatch, kernel: str, known_labels: bool, n_profiles: int, has_answers: bool
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", kernel)
    rng = np.random.default_rng(n_profiles)
    votes, belief = random_votes(1), random_belief(2, sharpness=has_answers)
    answers = rng.normal(size=UNKNOWN.shape) if has_answers else np.zeros(UNKNOWN.shape)
    profiles = single_profile(belief)
    if n_profiles == 2:
        profiles = Profiles(np.array([0.3, 0.7]), rng.uniform(0.05, 0.95, (2, N_CLASSES)))
    known = UNKNOWN.copy()
    if known_labels:
        known[rng.random(known.shape) < 0.4] = 1
        known[rng.random(known.shape) < 0.2] = 0
    found = label_posterior(votes, known, state_of(belief, profiles), SETTINGS, answers if has_answers else None)
    np.testing.assert_allclose(found, probs_by_enumeration(votes, belief, profiles, known, answers), rtol=1e-9)


def test_evidence_is_the_likelihood_of_votes_in_each_state() -> None:
    votes, belief = random_votes(3), random_belief(4)
    said = MODEL.evidence(votes, belief)
    for doc, label in product(range(N_DOCS - 1), range(N_CLASSES)):
        sums = joint(votes, belief, doc, label).sum(axis=1) / (1.0 - belief.prevalence[label], belief.prevalence[label])
        expected = np.log(sums) if votes.per_pair()[doc, label] else (0.0, 0.0)
        np.testing.assert_allclose((said.absent[doc, label], said.present[doc, label]), expected, atol=1e-10)


def test_other_evidence_in_nats_is_added_to_that_of_votes() -> None:
    votes, belief, other = random_votes(3), random_belief(4), np.full(UNKNOWN.shape, 0.7)
    plain, more = (MODEL.evidence(votes, belief, extra).log_odds for extra in (None, other))
    np.testing.assert_allclose(more, plain + 0.7, rtol=1e-12)


def test_the_objective_is_the_log_probability_of_votes_known_labels_and_parameters() -> None:
    votes, belief = random_votes(5), random_belief(6)
    known = UNKNOWN.copy()
    known[:3, 0], known[2, 1] = (1, 0, 1), 0
    em = SupportEM(cut_votes(votes, known, n_shards=2), SETTINGS, belief)
    expected = trait_log_prior(belief.traits) + link_log_prior(belief.link)
    expected += BASE_DOCUMENTS * np.sum(em.base * np.log(belief.weights))
    for doc, label in product(range(N_DOCS), range(N_CLASSES)):
        table = joint(votes, belief, doc, label)
        expected += np.log(table.sum() if known[doc, label] < 0 else table[known[doc, label]].sum())
    assert em.e_step(state_of(belief)).objective == pytest.approx(expected, rel=1e-12)


def test_expected_counts_equal_enumeration() -> None:
    votes, belief = random_votes(7), random_belief(8)
    known = UNKNOWN.copy()
    known[0] = (1, 0, -1)
    em = SupportEM(cut_votes(votes, known), SETTINGS, belief)
    found = em.e_step(state_of(belief)).statistics
    labels, counts = np.zeros((N_CLASSES, len(POINTS))), np.zeros((N_ANNOTATORS, N_CLASSES, 2, len(POINTS)))
    for doc, label in zip(*np.nonzero(votes.per_pair()), strict=True):
        table = joint(votes, belief, doc, label)
        if known[doc, label] >= 0:
            table[1 - known[doc, label]] = 0.0
        table /= table.sum()
        labels[label] += table.sum(axis=0)
        for vote in np.flatnonzero((votes.doc == doc) & (votes.label == label)):
            counts[votes.annotator[vote], label, votes.value[vote]] += table.sum(axis=0)
    np.testing.assert_allclose(found.labels, labels, atol=1e-12)
    np.testing.assert_allclose(found.votes, counts[em.annotator, em.label], atol=1e-12)


@pytest.mark.parametrize("has_panel", [False, True], ids=["votes", "votes and a panel"])
def test_posterior_of_the_support_equals_enumeration(has_panel: bool) -> None:
    votes, belief = random_votes(9), random_belief(10)
    given, rng = NOTHING_GIVEN, np.random.default_rng(11)
    if has_panel:
        precision = rng.uniform(0.2, 2.0, UNKNOWN.shape) * (rng.random(UNKNOWN.shape) < 0.7)
        given = GridEvidence(rng.normal(size=UNKNOWN.shape), precision, np.empty((0, 0)), np.empty(0), 0.1)
    found = support_posterior(votes, belief, given)
    for doc, label in product(range(N_DOCS), range(N_CLASSES)):
        expected = joint(votes, belief, doc, label).sum(axis=0)
        if has_panel and given.precision[doc, label] > 0.0:
            normal = np.exp(-0.5 * given.precision[doc, label] * (POINTS - given.mean[doc, label]) ** 2)
            mixture = 0.9 * normal / normal.sum() + 0.1 * belief.weights[label]
            expected *= mixture / belief.weights[label]
        np.testing.assert_allclose(found[doc, label], expected / expected.sum(), rtol=1e-9)


def test_posterior_of_the_support_given_labels_is_a_mixture_over_states() -> None:
    votes, belief = random_votes(9), random_belief(10)
    probs = np.random.default_rng(0).random(UNKNOWN.shape)
    found = support_posterior(votes, belief, NOTHING_GIVEN, probs)
    for doc, label in product(range(N_DOCS), range(N_CLASSES)):
        table = joint(votes, belief, doc, label)
        absent, present = table / table.sum(axis=1, keepdims=True)
        expected = probs[doc, label] * present + (1.0 - probs[doc, label]) * absent
        np.testing.assert_allclose(found[doc, label], expected, rtol=1e-9)


def held_out_yes(votes: Votes, hidden: NDArray[np.bool_], belief: SupportBelief, vote: int) -> Array:
    """(states,): P(the hidden vote is 1 | state, visible votes), by enumeration."""
    who, label = votes.annotator[vote], votes.label[vote]
    table = joint(votes.select(~hidden), belief, votes.doc[vote], label)
    table /= table.sum(axis=1, keepdims=True)
    traits = belief.traits
    probs: Array = table @ expit(traits.slopes[who] * POINTS + traits.offsets[who] + traits.by_class[who, label])
    return probs


def test_hidden_votes_go_with_the_visible_ones_on_the_same_label() -> None:
    votes, belief = random_votes(12), random_belief(13)
    hidden = np.random.default_rng(14).random(len(votes)) < 0.4
    held_out = MODEL.held_out(votes.select(hidden), votes.select(~hidden), belief)
    for position, vote in enumerate(np.flatnonzero(hidden)):
        yes = held_out_yes(votes, hidden, belief, int(vote))
        expected = yes if votes.value[vote] else 1.0 - yes
        found = held_out.if_absent[position], held_out.if_present[position]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_probabilities_of_both_values_of_a_hidden_vote_sum_to_one() -> None:
    votes, belief = random_votes(12), random_belief(13)
    hidden = np.random.default_rng(14).random(len(votes)) < 0.4
    visible, one = votes.select(~hidden), votes.select(hidden)
    other = replace(one, value=1 - one.value)
    found, opposite = (MODEL.held_out(part, visible, belief) for part in (one, other))
    np.testing.assert_allclose(found.if_absent + opposite.if_absent, 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.if_present + opposite.if_present, 1.0, rtol=1e-12)


def maximum(function: Callable[[Array], float], start: Array) -> tuple[Array, float]:
    """Where a function is largest near a point, and its value there."""

    def loss(point: Array) -> float:
        return -function(point)

    found = minimize(loss, start, tol=1e-10)
    return found.x, -float(found.fun)


def log_posterior_of_link(parameters: Array, supports: Array, known: NDArray[np.int8]) -> float:
    """Log-density of log κ, the mean offset and those of classes, given labels and supports, up to a constant."""
    kappa, delta, own = np.exp(parameters[0]), parameters[1], parameters[2:]
    total = -0.5 * ((parameters[0] - np.log(KAPPA)) / LOG_KAPPA_SPREAD) ** 2 - 0.5 * (delta / DELTA_SPREAD) ** 2
    total -= 0.5 * np.sum((own / CLASS_DELTA_SPREAD) ** 2)
    for doc, label in zip(*np.nonzero(known >= 0), strict=True):
        present = supports[doc, label] @ expit(kappa * POINTS + delta + own[label])
        total += np.log(present if known[doc, label] else 1.0 - present)
    return float(total)


def test_the_link_is_the_most_probable_one_given_labels_and_supports() -> None:
    rng = np.random.default_rng(15)
    supports = rng.dirichlet(np.full(len(POINTS), 0.2), (40, N_CLASSES))
    known = rng.integers(-1, 2, (40, N_CLASSES)).astype(np.int8)
    start = np.tile((KAPPA, 0.0), (N_CLASSES, 1))
    found = learned_link(supports, known, start)
    origin = np.concatenate(([np.log(KAPPA)], np.zeros(1 + N_CLASSES)))
    best = maximum(partial(log_posterior_of_link, supports=supports, known=known), origin)[0]
    np.testing.assert_allclose(found[:, 0], np.exp(best[0]), rtol=1e-3)
    np.testing.assert_allclose(found[:, 1], best[1] + best[2:], atol=1e-3)


def test_the_link_stays_without_known_labels() -> None:
    link = np.tile((3.0, 0.2), (N_CLASSES, 1))
    supports = np.full((5, N_CLASSES, len(POINTS)), 1.0 / len(POINTS))
    np.testing.assert_array_equal(learned_link(supports, UNKNOWN[:5], link), link)


def log_posterior_of_answers(parameters: Array, votes: Votes, belief: SupportBelief, scores: Array) -> float:
    """Log-likelihood of the votes given log-odds relative to the base rates, under gains, shifts and sharpness."""
    gain, shift, sharpness = np.exp(parameters[:N_CLASSES]), parameters[N_CLASSES : 2 * N_CLASSES], parameters[-3:]
    total = 0.0
    for doc, label in zip(*np.nonzero(votes.per_pair()), strict=True):
        answer = gain[label] * scores[doc, label] - shift[label]
        before = belief.weights[label] * np.exp(answer * POINTS - 0.5 * np.exp(sharpness[label]) * POINTS**2)
        likelihood = joint(votes, belief, doc, label).sum(axis=0) / belief.weights[label]
        total += np.log(before @ likelihood / before.sum())
    return float(total)


def test_answers_of_a_classifier_predict_the_votes_better_than_any_change_of_them() -> None:
    rng = np.random.default_rng(16)
    votes, belief = random_votes(17), random_belief(18)
    base = rng.normal(size=N_CLASSES)
    log_odds = base + 2.0 * rng.normal(size=UNKNOWN.shape)
    found = learned_answers(votes, belief, log_odds, base)
    own_shift = found.shift - found.gain * base
    point = np.concatenate((np.log(found.gain), own_shift, np.log(found.sharpness)))

    def objective(parameters: Array) -> float:
        """With the prior: logarithms around a common value, which is free but for its own prior."""
        total = log_posterior_of_answers(parameters, votes, belief, log_odds - base)
        for logs, centre in ((parameters[:N_CLASSES], np.log(0.5)), (parameters[-N_CLASSES:], np.log(0.1))):
            common = (np.sum(logs - centre) / 0.3**2) / (1.0 + N_CLASSES / 0.3**2)
            total -= 0.5 * common**2 + 0.5 * np.sum((logs - centre - common) ** 2) / 0.3**2
        return total - 0.5 * float(np.sum(parameters[N_CLASSES : 2 * N_CLASSES] ** 2)) / 0.5**2

    assert objective(point) > maximum(objective, point)[1] - 1e-4


def test_traits_from_counts_are_the_most_probable_ones() -> None:
    belief = described(random_belief(19), np.zeros((N_ANNOTATORS, N_CLASSES, 2, 2)))
    counts = np.random.default_rng(20).gamma(1.0, 8.0, (N_ANNOTATORS, N_CLASSES, 2, 2))
    found = traits_from_counts(counts, belief)

    def log_posterior(parameters: Array) -> float:
        slopes, offsets, rest = np.split(parameters, [N_ANNOTATORS, 2 * N_ANNOTATORS])
        by_class = rest.reshape(N_ANNOTATORS, N_CLASSES)
        total = -0.5 * np.sum(((slopes - 1.0) / SLOPE_SPREAD) ** 2) - 0.5 * np.sum((offsets / OFFSET_SPREAD) ** 2)
        total -= 0.5 * np.sum((by_class / CLASS_SPREAD) ** 2)
        probs = expit(slopes[:, None, None] * POINTS + (offsets[:, None] + by_class)[:, :, None])
        for state, table in enumerate((belief.grid.absent, belief.grid.present)):
            yes = np.einsum("kij,ij->ki", probs, table)
            correct, wrong = counts[:, :, state, 0], counts[:, :, state, 1]
            total += np.sum((correct if state else wrong) * np.log(yes))
            total += np.sum((wrong if state else correct) * np.log1p(-yes))
        return float(total)

    point = np.concatenate([part.ravel() for part in found])
    assert log_posterior(point) > maximum(log_posterior, point)[1] - 1e-4
    start = np.concatenate([part.ravel() for part in Traits.typical(N_ANNOTATORS, N_CLASSES)])
    assert log_posterior(point) > log_posterior(start) + 10.0


def test_reported_rates_are_those_of_the_traits() -> None:
    belief = described(random_belief(21), np.ones((N_ANNOTATORS, N_CLASSES, 2, 2)))
    yes = expit(
        belief.traits.slopes[:, None, None] * POINTS
        + (belief.traits.offsets[:, None] + belief.traits.by_class)[:, :, None]
    )
    specificity = 1.0 - np.einsum("kij,ij->ki", yes, belief.grid.absent)
    sensitivity = np.einsum("kij,ij->ki", yes, belief.grid.present)
    np.testing.assert_allclose(mean_rates(belief), np.stack((specificity, sensitivity), axis=2), atol=1e-6)
    overall = belief.rates_over_classes()
    means = overall[..., 0] / overall.sum(axis=-1)
    np.testing.assert_allclose(means, np.stack((specificity, sensitivity), axis=2).mean(axis=1), atol=1e-6)


def test_more_votes_make_reported_rates_more_certain() -> None:
    belief = random_belief(22)
    few, many = (described(belief, np.full((N_ANNOTATORS, N_CLASSES, 2, 2), n)) for n in (1.0, 100.0))
    assert (many.posterior.sum(axis=-1) > 2.0 * few.posterior.sum(axis=-1)).all()
    assert (many.overall.sum(axis=-1) > 2.0 * few.overall.sum(axis=-1)).all()


def test_the_reference_moves_with_everybody_and_not_with_a_few() -> None:
    rng = np.random.default_rng(23)
    values, weights = rng.normal(0.0, 0.4, 10), rng.uniform(1.0, 5.0, 10)
    centre = robust_centre(values, weights)
    assert robust_centre(values + 3.0, weights) == pytest.approx(centre + 3.0, abs=1e-9)
    far = values.copy()
    far[:2] = -6.0
    assert robust_centre(far, weights) == pytest.approx(robust_centre(far[2:], weights[2:]), abs=1e-9)
    assert abs(robust_centre(far, weights) - centre) < 0.3
    assert abs(np.average(far, weights=weights) - np.average(values, weights=weights)) > 0.8


def test_slopes_of_the_reference_are_its_derivatives() -> None:
    rng = np.random.default_rng(24)
    values, weights = rng.normal(0.0, 0.8, 12), rng.uniform(1.0, 5.0, 12)
    found = centre_slopes(values, weights)
    numeric = [
        (robust_centre(values + 1e-5 * e, weights) - robust_centre(values - 1e-5 * e, weights)) / 2e-5
        for e in np.eye(12)
    ]
    np.testing.assert_allclose(found / found.sum(), numeric, atol=1e-4)


def test_prevalence_is_the_expected_share_of_present_labels() -> None:
    belief = random_belief(25)
    shares = [joint(random_votes(0), belief, N_DOCS - 1, i).sum(axis=1)[1] for i in range(N_CLASSES)]
    np.testing.assert_allclose(belief.prevalence, shares, rtol=1e-12)
