"""Soft votes: exact on small cases, the objective never decreases, and useless confidences change nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import digamma, expit, gammaln

from palda import Votes, aggregate, simulate
from palda.data import vote_blocks
from palda.engine import Threads
from palda.models.crowd import (
    N_LEVELS,
    CrowdSettings,
    CrowdState,
    OneCoinModel,
    PerClassModel,
    ProfilePrior,
    Profiles,
    SupportModel,
    TwoCoinModel,
    calibration_curves,
    count_votes,
    cut_votes,
    em,
    first_state,
    fit_crowd,
    initial_label_probs,
    label_posterior,
    profile_log_prior,
    start_belief,
    start_levels,
    start_state,
    with_useful_levels,
)
from palda.models.crowd.confidence import level_divergence, soft_votes, update_levels, votes_per_level

MODELS = [OneCoinModel(), TwoCoinModel(), PerClassModel()]
KINDS = ["calibrated", "overconfident", "underconfident", "useless", "none"]


def _crowd(
    n_docs: int = 60, seed: int = 0, kinds: list[str] | None = None, **options: object
) -> tuple[Votes, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, 3)) < [0.5, 0.3, 0.2]).astype(np.int8)
    kinds = KINDS if kinds is None else kinds
    qualities = np.linspace(0.65, 0.9, len(kinds))
    votes, _ = simulate.crowd(labels, qualities, seed=seed, **({"votes_per_doc": 3} | options))
    return simulate.confidences(votes, labels, kinds, seed=seed), labels


def _start(votes: Votes, model: TwoCoinModel) -> CrowdState:
    known = np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    probs = initial_label_probs(votes, known)
    belief = model.update(count_votes(model, votes, probs), model.start(votes.n_annotators, votes.n_classes))
    return start_state(replace(belief, levels=start_levels(votes)), probs)


def _fitted(votes: Votes, model: TwoCoinModel, **options: object) -> CrowdState:
    shards = cut_votes(votes, np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8))
    return fit_crowd(shards, _start(votes, model), CrowdSettings(model, **options)).state


@pytest.mark.parametrize("model", MODELS)
def test_the_posterior_is_that_of_all_label_sets_enumerated(model: TwoCoinModel) -> None:
    votes, _ = _crowd(8)
    state = _fitted(votes, model, max_iter=4)
    profiles = Profiles(np.array([0.3, 0.7]), np.array([[0.2, 0.5, 0.9], [0.6, 0.3, 0.1]]))
    state = CrowdState(state.belief, profiles, ProfilePrior.vague(3))
    levels = state.belief.levels
    assert levels is not None
    log_rates = np.broadcast_to(model.log_rates(state.belief), (5, 3, 2, 2))
    soft = soft_votes(votes, levels)
    level_of = dict(zip(np.flatnonzero(levels.row[votes.annotator] >= 0).tolist(), soft.cell.tolist(), strict=True))
    expected = np.zeros((8, 3))
    total = 0.0
    for doc in range(8):
        weights = {}
        for labels in product((0, 1), repeat=3):
            rates = np.where(labels, profiles.rates, 1.0 - profiles.rates).prod(axis=1)
            log_weight = np.log(profiles.weights @ rates)
            for vote in np.flatnonzero(votes.doc == doc):
                label, value, who = votes.label[vote], votes.value[vote], votes.annotator[vote]
                present = labels[label]
                log_weight += log_rates[who, label, present, int(value != present)]
                if vote in level_of:
                    row, rest = divmod(level_of[int(vote)], 2 * levels.shape[-1])
                    log_weight += levels.log_probs[row, rest // levels.shape[-1], present, rest % levels.shape[-1]]
            weights[labels] = log_weight
        log_total = np.logaddexp.reduce(list(weights.values()))
        expected[doc] = sum(np.exp(weight - log_total) * np.array(labels) for labels, weight in weights.items())
        total += log_total
    known = np.full((8, 3), -1, dtype=np.int8)
    found = label_posterior(votes, known, state, CrowdSettings(model))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    fit = fit_crowd(cut_votes(votes, known), state, CrowdSettings(model, max_iter=1))
    cost = model.divergence(state.belief) + level_divergence(levels) - profile_log_prior(profiles, state.prior)
    assert fit.log_likelihoods[0] == pytest.approx(total - cost, rel=1e-10)


def test_the_divergence_is_that_of_dirichlet_distributions() -> None:
    votes, _ = _crowd(40)
    levels = _fitted(votes, TwoCoinModel(), max_iter=5).belief.levels
    assert levels is not None
    total = 0.0
    from palda.models.crowd import confidence

    prior = confidence._prior(levels.shares, levels.tilt, levels.strength)
    for q, p in zip(levels.posterior.reshape(-1, levels.shape[-1]), prior.reshape(-1, levels.shape[-1]), strict=True):
        q, p = q[p > 0], p[p > 0]  # noqa: PLW2901
        if len(p):
            total += gammaln(q.sum()) - gammaln(q).sum() - gammaln(p.sum()) + gammaln(p).sum()
            total += ((q - p) * (digamma(q) - digamma(q.sum()))).sum()
    assert level_divergence(levels) == pytest.approx(total + confidence._tilt_cost(levels.tilt), rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_never_decreases(model: TwoCoinModel, seed: int) -> None:
    votes, _ = _crowd(80, seed, votes_per_doc=2)
    shards = cut_votes(votes, np.full((80, 3), -1, dtype=np.int8), n_shards=3)
    fit = fit_crowd(shards, _start(votes, model), CrowdSettings(model, max_iter=60, tol=-np.inf))
    growth = np.diff(fit.log_likelihoods)
    assert (growth > -1e-9 * abs(fit.log_likelihoods[-1])).all()


def test_an_update_of_the_levels_never_lowers_the_bound() -> None:
    votes, _ = _crowd(100)
    levels = start_levels(votes)
    assert levels is not None
    soft = soft_votes(votes, levels)
    n_votes = votes_per_level(soft, levels)
    rng = np.random.default_rng(0)
    present = n_votes * rng.random(n_votes.shape)
    counts = np.stack((n_votes - present, present), axis=2)

    def bound() -> float:
        return float((counts * levels.log_probs).sum()) - level_divergence(levels)

    before = bound()
    for _ in range(20):
        levels = update_levels(n_votes, present, levels)
        after = bound()
        assert after >= before - 1e-9 * abs(before)
        before = after


def test_threads_and_the_number_of_shards_change_no_bit() -> None:
    votes, _ = _crowd(200)
    known = np.full((200, 3), -1, dtype=np.int8)
    start, shards = _start(votes, TwoCoinModel()), cut_votes(votes, known, n_shards=4)
    one, two = (fit_crowd(shards, start, CrowdSettings(TwoCoinModel(), 20, engine=Threads(n))) for n in (1, 2))
    np.testing.assert_array_equal(one.label_probs, two.label_probs)
    np.testing.assert_array_equal(one.log_likelihoods, two.log_likelihoods)


def test_levels_are_about_equally_frequent_whatever_the_scale_of_the_confidences() -> None:
    votes, labels = _crowd(2000, kinds=["calibrated"] * 4)
    narrow = replace(votes, probability=expit(0.2 * np.log(votes.probability / (1 - votes.probability))))
    for some in (votes, narrow):
        levels = start_levels(some)
        assert levels is not None
        assert (np.abs(levels.shares[:3, :, :-1] - 1 / N_LEVELS) < 0.05).all()  # the fourth is mostly certain
        assert (levels.shares[..., -1] == 0).all()
    crowds = Votes(*_hard(votes)), votes, narrow
    hard, soft, scaled = (aggregate(some, "two_coin", n_profiles=1).consensus for some in crowds)
    errors = [float(np.mean((consensus >= 0.5) != labels)) for consensus in (hard, soft, scaled)]
    assert errors[1] < 0.8 * errors[0]
    assert errors[2] < 0.8 * errors[0]


def test_strengths_on_a_label_count_once_where_annotators_share_mistakes() -> None:
    """Four annotators state the strength of one opinion, which is wrong on a fifth of the labels."""
    rng = np.random.default_rng(0)
    labels = rng.random((400, 2)) < 0.4
    opinion = np.where(labels ^ (rng.random(labels.shape) < 0.2), 1.0, -1.0) * (0.3 + 2.0 * rng.random(labels.shape))
    stated = expit(2.0 * (opinion[:, None] + rng.normal(0.0, 1.0, (400, 4, 2))))
    hard, soft = (Votes.from_array(values) for values in ((stated > 0.5).astype(np.int8), stated))
    found = [aggregate(votes, n_profiles=1).consensus for votes in (hard, soft)]
    wrong = [np.mean((probs >= 0.5) != labels) for probs in found]
    doubt = [np.minimum(probs, 1.0 - probs).mean() for probs in found]
    assert wrong[1] < wrong[0]
    assert 0.7 * doubt[0] < doubt[1] < doubt[0]


def _hard(votes: Votes) -> tuple[object, ...]:
    return votes.doc, votes.annotator, votes.label, votes.value, votes.doc_ids, votes.annotators, votes.classes


def test_hard_votes_have_no_levels_and_give_the_same_bits_as_without_the_field() -> None:
    votes, _ = _crowd(50, kinds=["none"] * 4)
    assert start_levels(votes) is None
    assert len(votes.probability) == 0
    np.testing.assert_array_equal(aggregate(votes).consensus, aggregate(Votes(*_hard(votes))).consensus)


def test_a_useless_confidence_of_a_single_annotator_does_not_confirm_itself() -> None:
    """Nobody else says anything: what the annotator states cannot be tested, and so it must count for nothing."""
    rng = np.random.default_rng(0)
    for trial in range(5):
        votes = Votes.from_array((rng.random((2000, 1, 1)) < 0.4).astype(np.int8))
        votes = replace(votes, probability=rng.random(len(votes)).astype(np.float32))
        levels = _fitted(votes, TwoCoinModel(), max_iter=200).belief.levels
        assert levels is not None
        assert np.abs(levels.log_ratios[0]).max() < 0.02, trial


def test_a_useless_confidence_of_a_dominating_annotator_stays_useless() -> None:
    """One annotator votes on everything, others on a tenth: most labels rest on the votes whose worth is learned."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = (rng.random((3000, 1)) < 0.4).astype(np.int8)
        table = np.full((3000, 4, 1), -1.0)
        for who, (rate, share) in enumerate([(0.8, 1.0), (0.85, 0.1), (0.75, 0.1), (0.8, 0.1)]):
            judged = rng.random(3000) < share
            table[judged, who] = np.where(rng.random((3000, 1)) < rate, labels, 1 - labels)[judged]
        votes = Votes.from_array(table)
        stated = np.where(votes.annotator == 0, rng.random(len(votes)), np.nan)
        levels = _fitted(replace(votes, probability=stated), TwoCoinModel(), max_iter=300).belief.levels
        assert levels is not None
        assert np.abs(levels.log_ratios[0]).max() < 0.5, seed
        calibrated = simulate.confidences(votes, labels, ["calibrated", "none", "none", "none"], seed=seed)
        learned = _fitted(calibrated, TwoCoinModel(), max_iter=300).belief.levels
        assert learned is not None
        assert np.ptp(learned.log_ratios[0][:, :N_LEVELS]) > 2.0, seed


def test_who_votes_on_rare_classes_gives_useless_confidences_no_worth() -> None:
    """Yes votes on rare classes come mostly from annotators who err, and who state less: the class is not to blame."""
    rng = np.random.default_rng(0)
    labels = (rng.random((1500, 6)) < [0.75, 0.6, 0.4, 0.1, 0.05, 0.03]).astype(np.int8)
    votes, _ = simulate.crowd(labels, np.linspace(0.55, 0.97, 20), votes_per_doc=2, seed=0)
    votes = simulate.confidences(votes, labels, "useless", seed=0)
    levels = _fitted(votes, TwoCoinModel(), max_iter=200).belief.levels
    assert levels is not None
    assert np.abs(levels.log_ratios[-1]).max() < 0.25


def test_levels_are_used_where_they_predict_hidden_votes_better() -> None:
    for kind, is_used in (("calibrated", True), ("none", False)):
        votes, _ = _crowd(300, kinds=[kind] * 5)
        assert (_useful(votes) is not None) == is_used
    votes, labels = _crowd(300, kinds=["useless"] * 5)
    misleading = np.where(labels[votes.doc, votes.label] == votes.value, 0.5, 0.99)  # certain where wrong, and
    moved = np.where(votes.label == 0, misleading, 1 - misleading)  # in one class only
    stated = np.where(votes.value == 1, moved, 1 - moved)
    found = aggregate(replace(votes, probability=stated), n_profiles=1, copies=False).consensus
    hard = aggregate(Votes(*_hard(votes)), n_profiles=1, copies=False).consensus
    assert np.mean((found >= 0.5) == labels) > np.mean((hard >= 0.5) == labels) - 0.01


def _useful(votes: Votes) -> object:
    model, known = TwoCoinModel(), np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    belief = replace(model.start(votes.n_annotators, votes.n_classes), levels=start_levels(votes))
    return with_useful_levels(votes, known, initial_label_probs(votes, known), belief, CrowdSettings(model)).levels


def test_a_new_source_counts_as_a_typical_one() -> None:
    votes, _ = _crowd(500, kinds=["calibrated"] * 4)
    belief = _fitted(votes, TwoCoinModel(), max_iter=50).belief.with_new_annotators(np.array([-1]))
    levels = belief.levels
    assert levels is not None
    typical = levels.log_ratios[levels.row[4]]
    assert typical[1, 0] < 0 < typical[1, N_LEVELS - 1]
    assert typical[0, N_LEVELS - 1] < 0 < typical[0, 0]


def test_votes_without_a_probability_have_a_level_of_their_own() -> None:
    votes, labels = _crowd(1500, kinds=["calibrated"] * 3)
    right = labels[votes.doc, votes.label] == votes.value
    rng = np.random.default_rng(0)
    silent = rng.random(len(votes)) < np.where(right, 0.6, 0.1)  # a value of 1.0 or 0.0 that is not read as soft
    votes = replace(votes, probability=np.where(silent, np.nan, votes.probability))
    levels = _fitted(votes, TwoCoinModel(), max_iter=100).belief.levels
    assert levels is not None
    assert (levels.log_ratios[:3, 1, N_LEVELS] > 0.5).all()
    assert (levels.log_ratios[:3, 0, N_LEVELS] < -0.5).all()


def test_calibration_curves_are_straight_for_calibrated_annotators_alone() -> None:
    kinds = ["calibrated", "overconfident", "none", "calibrated", "calibrated"]
    votes, labels = _crowd(3000, kinds=kinds, votes_per_doc=5)
    curves = calibration_curves(votes, labels.astype(float), start_levels(votes))
    assert set(curves["annotator"]) == set(votes.annotators[[0, 1, 3, 4]])
    assert curves["n_votes"].sum() == (~np.isnan(votes.probability)).sum()
    gaps = (curves["stated"] - curves["consensus"]).abs().groupby(curves["annotator"]).mean()
    assert gaps[votes.annotators[0]] < 0.03
    assert gaps[votes.annotators[1]] > 0.05
    assert calibration_curves(votes, labels.astype(float), None).empty


def test_stored_votes_give_the_same_levels(tmp_path: object) -> None:
    from palda import write_shards
    from palda.data import Corpus, Dataset

    votes, _ = _crowd(50)
    corpus = Corpus.from_counts(np.ones((50, 2)), doc_ids=votes.doc_ids)
    folder = write_shards(f"{tmp_path}/corpus", Dataset.of(corpus, votes), docs_per_shard=7)
    stored, in_memory = start_levels(folder.votes), start_levels(votes)
    assert stored is not None
    assert in_memory is not None
    for name in ("row", "cuts", "shares", "posterior"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(in_memory, name))
    assert len(list(vote_blocks(folder.votes))) == len(list(vote_blocks(votes)))


def test_sources_whose_votes_are_not_in_the_sample_that_em_starts_from_have_levels_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    votes, _ = _crowd(800, kinds=["calibrated"] * 4)
    quarter = votes.doc // 200
    votes = votes.select(np.flatnonzero((votes.annotator != 3) | (quarter % 2 == 1)))
    known = np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    settings = CrowdSettings(SupportModel())
    found = []
    for votes_per_shard in (len(votes) // 4, len(votes)):
        monkeypatch.setattr(em, "_VOTES_PER_SHARD", votes_per_shard)
        start = first_state(
            votes, known, initial_label_probs(votes, known), start_belief(settings.annotators, votes), settings
        )
        levels = fit_crowd(cut_votes(votes, known), start, settings).state.belief.levels
        assert levels is not None
        found.append(levels.log_ratios[levels.row[3]])
    assert np.ptp(found[1]) > 0.5
    np.testing.assert_allclose(found[0], found[1], atol=0.1)
