"""A panel of models: its support equals enumeration, and its relation to people is found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from palda.data import Votes
from palda.models.crowd.panel import (
    PanelBelief,
    PanelSupport,
    PeopleMoments,
    effective_votes,
    evidence_of_panel,
    fit_panel,
    learned_relation,
    panel_support,
    predicted_votes,
    start_panel,
)
from palda.models.crowd.traits import POINTS, Traits

Array = NDArray[np.float64]

FAMILIES = ["", "a", "a", "b", "b", ""]  # of one person and five models


def crowd(table: NDArray[Any], families: list[str], n_people: int) -> Votes:
    kinds = ["person"] * n_people + ["model"] * (len(families) - n_people)
    names = {"annotator_kinds": np.array(kinds, dtype=object), "annotator_families": np.array(families, dtype=object)}
    return replace(Votes.from_array(table), **names)


def panel_of(votes: Votes) -> PanelBelief:
    panel = start_panel(votes)
    assert panel is not None
    return panel


def small_case(seed: int = 0) -> tuple[Votes, PanelBelief, Traits]:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (5, 6, 2))
    table[rng.random(table.shape) < 0.3] = -1
    table[4, 1:] = -1  # no model has judged the last document
    votes = crowd(table, FAMILIES, 1)
    weights = rng.dirichlet(np.ones(len(POINTS)), 2)
    panel = replace(panel_of(votes), weights=weights, family_spreads=np.array([0.4, 0.8, 1.2]))
    return votes, panel, Traits(rng.normal(1.0, 0.5, 6), rng.normal(0.0, 0.5, 6), rng.normal(0.0, 0.3, (6, 2)))


def enumerated_joint(votes: Votes, panel: PanelBelief, traits: Traits, doc: int, label: int) -> Array:
    """(points,): probability of the panel's support and the votes, from all supports of families."""
    posterior: Array = panel.weights[label].copy()
    for family, spread in enumerate(panel.family_spreads):
        total = np.zeros(len(POINTS))
        for j, centre in enumerate(POINTS):
            around = np.exp(-0.5 * ((POINTS - centre) / spread) ** 2)
            for point, prior in zip(POINTS, around / around.sum(), strict=True):
                likelihood = prior
                for vote in np.flatnonzero((votes.doc == doc) & (votes.label == label)):
                    who = votes.annotator[vote]
                    if panel.family_of[who] == family:
                        yes = expit(traits.slopes[who] * point + traits.offsets[who] + traits.by_class[who, label])
                        likelihood *= yes if votes.value[vote] else 1.0 - yes
                total[j] += likelihood
        posterior *= total
    return posterior


def test_support_of_the_panel_equals_enumeration() -> None:
    votes, panel, traits = small_case()
    found = panel_support(votes, panel, traits)
    for doc, label in product(range(4), range(2)):
        posterior = enumerated_joint(votes, panel, traits, doc, label)
        posterior /= posterior.sum()
        mean = posterior @ POINTS
        assert found.mean[doc, label] == pytest.approx(mean, abs=1e-9)
        assert found.variance[doc, label] == pytest.approx(posterior @ POINTS**2 - mean**2, abs=1e-9)
    assert found.asked.tolist() == [[True, True]] * 4 + [[False, False]]


def test_hidden_votes_of_models_equal_enumeration() -> None:
    votes, panel, traits = small_case()
    panel = replace(panel, intercepts=np.array([0.3, -0.2]), slopes=np.array([0.7, 1.2]), spreads=np.array([0.6, 1.1]))
    link = np.array([[2.0, 0.2], [1.5, -0.3]])
    is_model = panel.is_model[votes.annotator]
    hidden, visible = is_model & (np.arange(len(votes)) % 3 == 0), np.arange(len(votes)) % 3 > 0
    found = predicted_votes(votes.select(hidden), votes.select(visible), panel, traits, link)
    doubt = float(panel.doubt)
    for place, vote in enumerate(np.flatnonzero(hidden)):
        doc, label = int(votes.doc[vote]), int(votes.label[vote])
        both = visible.copy()
        both[vote] = True
        with_vote, without = (
            [weighted(votes.select(rows), panel, traits, doc, label, point) for point in range(len(POINTS))]
            for rows in (both, visible)
        )
        expected = panel.intercepts[label] + panel.slopes[label] * POINTS
        people = np.exp(-0.5 * ((POINTS - expected[:, None]) / panel.spreads[label]) ** 2)
        people = (1.0 - doubt) * people / people.sum(axis=1, keepdims=True) + doubt / len(POINTS)
        present = people @ expit(link[label, 0] * POINTS + link[label, 1])
        for state, share in enumerate((1.0 - present, present)):
            assert found[state, place] == pytest.approx(share @ with_vote / (share @ without), rel=1e-9)


def weighted(votes: Votes, panel: PanelBelief, traits: Traits, doc: int, label: int, point: int) -> float:
    """P(the panel's support is at a point, votes), all supports of families summed out."""
    only = replace(panel, weights=panel.weights * (np.arange(len(POINTS)) == point))
    return float(enumerated_joint(votes, only, traits, doc, label).sum())


def test_people_are_in_no_family_and_a_model_without_a_family_is_one() -> None:
    votes, panel, _ = small_case()
    assert panel.is_model.tolist() == [False] + [True] * 5
    assert panel.family_of[0] == -1
    assert panel.family_of[1] == panel.family_of[2] != panel.family_of[3] == panel.family_of[4]
    assert len(panel.family_spreads) == 3
    assert start_panel(replace(votes, annotator_kinds=np.empty(0, dtype=object))) is None


def test_votes_of_one_family_say_less_than_those_of_several() -> None:
    means = []
    for families in (["a"] * 6, list("abcdef")):
        votes = crowd(np.ones((1, 6, 1), dtype=int), families, 0)
        panel = panel_of(votes)
        wide = replace(panel, family_spreads=np.full(len(panel.family_spreads), 2.0))
        means.append(panel_support(votes, wide, Traits.typical(6, 1)).mean[0, 0])
    assert means[1] > means[0] + 0.3


def test_what_a_family_adds_is_its_surplus_over_what_the_panel_expects() -> None:
    votes, panel, traits = small_case()
    found = panel_support(votes, panel, traits)
    doc, label, family = 0, 1, int(panel.family_of[3])
    mine = (votes.doc == doc) & (votes.label == label) & (panel.family_of[votes.annotator] == family)
    if not mine.any():
        assert found.residuals[doc, label, family] == 0.0
        return
    who = votes.annotator[mine]
    expected = expit(traits.slopes[who] * found.mean[doc, label] + traits.offsets[who] + traits.by_class[who, label])
    share, n_votes = np.clip(expected.mean(), 0.02, 0.98), mine.sum()
    surplus = logit((votes.value[mine].sum() + share) / (n_votes + 1.0)) - logit(share)
    assert found.residuals[doc, label, family] == pytest.approx(surplus, abs=1e-9)


def test_beside_votes_of_people_the_panel_says_no_more_than_one_of_them() -> None:
    _, panel, _ = small_case()
    panel = replace(panel, spreads=np.array([0.5, 3.0]))
    found = PanelSupport(
        np.ones((3, 2)), np.zeros((3, 2)), np.zeros((3, 2, 3)), np.array([[True] * 2] * 2 + [[False] * 2])
    )
    alone, beside = (evidence_of_panel(found, panel, judged) for judged in (None, np.ones((3, 2), dtype=bool)))
    np.testing.assert_allclose(alone.precision, [[4.0, 1 / 9]] * 2 + [[0.0, 0.0]])
    np.testing.assert_allclose(beside.precision, [[0.25, 1 / 9]] * 2 + [[0.0, 0.0]])


def related(n_docs: int, *, share: float = 1.0) -> tuple[PanelSupport, PeopleMoments]:
    """People's support is .5 + .7 m + .2 r of the first family in class 0, and -1 + 1.3 m in class 1; spread .6."""
    rng = np.random.default_rng(1)
    mean, residuals = rng.normal(0.0, 1.5, (n_docs, 2)), rng.normal(0.0, 1.0, (n_docs, 2, 3))
    support = np.array([0.5, -1.0]) + np.array([0.7, 1.3]) * mean + 0.2 * residuals[:, :, 0]
    support += rng.normal(0.0, 0.6, support.shape)
    asked = np.ones(mean.shape, dtype=bool)
    people = PeopleMoments(support, support**2, np.full(mean.shape, share), asked)
    return PanelSupport(mean, np.zeros(mean.shape), residuals, asked), people


def test_the_relation_of_people_and_panel_is_recovered() -> None:
    _, panel, _ = small_case()
    found, people = related(5000)
    for _ in range(5):
        panel = learned_relation(found, people, panel, families=True)
    np.testing.assert_allclose(panel.intercepts, [0.5, -1.0], atol=0.05)
    np.testing.assert_allclose(panel.slopes, [0.7, 1.3], atol=0.05)
    np.testing.assert_allclose(panel.family_weights, [0.2, 0.0, 0.0], atol=0.05)
    np.testing.assert_allclose(panel.spreads, 0.6, atol=0.05)
    assert panel.doubt < 0.001


def test_the_relation_is_the_maximum_of_its_posterior() -> None:
    """Coefficients are those of ridge regression around their prior."""
    _, panel, _ = small_case()
    found, people = related(40)
    after = learned_relation(found, people, panel, families=True)
    variance = panel.spreads[0] ** 2

    def loss(coefficients: Array) -> float:
        intercepts, slopes, weights = np.split(coefficients, [2, 4])
        errors = people.mean - intercepts - slopes * found.mean - found.residuals @ weights
        prior = np.sum(intercepts**2) / 0.5**2 + np.sum((slopes - 1.0) ** 2) / 0.5**2 + np.sum(weights**2) / 0.15**2
        return float(np.sum(errors**2) / variance + prior)

    best = np.concatenate((after.intercepts, after.slopes, after.family_weights))
    for direction in np.eye(len(best)):
        assert loss(best + 1e-3 * direction) > loss(best) < loss(best - 1e-3 * direction)


def test_doubt_is_the_share_of_labels_that_do_not_follow_the_panel() -> None:
    _, panel, _ = small_case()
    assert learned_relation(*related(2000, share=0.7), panel, families=True).doubt == pytest.approx(0.3, abs=0.01)


def test_without_labels_that_both_judged_the_relation_keeps_its_prior() -> None:
    _, panel, _ = small_case()
    found, people = related(5)
    nobody = people._replace(judged=np.zeros(people.judged.shape, dtype=bool))
    assert learned_relation(found, nobody, panel, families=True) is panel


def models_of(support: Array, slopes: list[float]) -> Votes:
    rng = np.random.default_rng(2)
    yes = expit(np.array(slopes)[:, None] * support[:, None])
    return crowd((rng.random(yes.shape) < yes).astype(int), [""] * len(slopes), 0)


def test_traits_and_weights_of_models_are_found_from_their_votes_alone() -> None:
    support = np.random.default_rng(3).choice([-2.0, 2.0], (300, 2), p=[0.7, 0.3])
    votes = models_of(support, [1.5, 1.5, 1.0, 1.0, 1.0, 0.0, -1.0])
    panel, traits = fit_panel(
        [votes.take(slice(0, 150)), votes.take(slice(150, 300))], panel_of(votes), Traits.typical(7, 2)
    )
    assert traits.slopes[:5].min() > 0.6
    assert abs(traits.slopes[5]) < 0.25
    assert traits.slopes[6] < -0.6
    mean = panel_support(votes, panel, traits).mean
    assert np.mean((mean > 0) == (support > 0)) > 0.97


def test_a_class_that_no_model_has_judged_does_not_change_the_weights_of_others() -> None:
    votes = models_of(np.random.default_rng(3).choice([-2.0, 2.0], (300, 1), p=[0.7, 0.3]), [1.5, 1.5, 1.0, 1.0])
    table = np.full((300, 4, 2), -1)
    table[votes.doc, votes.annotator, 1] = votes.value
    wider = crowd(table, [""] * 4, 0)
    panel, _ = fit_panel([votes], panel_of(votes), Traits.typical(4, 1))
    with_unjudged, _ = fit_panel([wider], panel_of(wider), Traits.typical(4, 2))
    np.testing.assert_allclose(with_unjudged.weights[1], panel.weights[0], rtol=1e-6)


def test_traits_of_people_stay_in_the_fit_of_a_panel() -> None:
    votes, panel, traits = small_case()
    _, after = fit_panel([votes], panel, traits)
    assert after.slopes[0] == traits.slopes[0]
    assert after.offsets[0] == traits.offsets[0]
    assert (after.slopes[1:] != traits.slopes[1:]).all()


def test_independent_models_are_worth_their_number_and_copies_are_worth_one() -> None:
    rng = np.random.default_rng(4)
    truth = (rng.random((4000, 1)) < 0.4).astype(int)
    wrong = rng.random((4000, 5, 1)) < 0.2
    independent = crowd(truth[:, None] ^ wrong, [""] * 5, 0)
    copies = crowd(truth[:, None] ^ np.repeat(wrong[:, :1], 5, axis=1), [""] * 5, 0)
    probs = truth.astype(float)
    assert effective_votes(independent, panel_of(independent), probs) == pytest.approx(5.0, abs=0.5)
    assert effective_votes(copies, panel_of(copies), probs) == pytest.approx(1.0, abs=0.05)
