"""Copies: annotators who agree beyond what the labels explain are found and count little more than one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import expit, logit

from palda import Votes, aggregate, metrics, simulate
from palda.data import names_array
from palda.models.crowd import find_copies, merge_copies
from palda.models.crowd.vote_pairs import vote_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.simulate import SimulatedAnnotators

LABELS = simulate.newsroom(1000, seed=0).labels
PEOPLE = [0.62, 0.7, 0.78, 0.85, 0.95]
ORIGINAL = 3


def paper_crowd(seed: int = 0) -> tuple[Votes, SimulatedAnnotators]:
    return simulate.crowd(LABELS, "paper", votes_per_doc=5, seed=seed)


def people(qualities: list[float] = PEOPLE) -> tuple[Votes, SimulatedAnnotators]:
    return simulate.crowd(LABELS, qualities, votes_per_doc=len(qualities), seed=0)


def members(votes: Votes, known: NDArray[np.int8] | None = None) -> list[tuple[int, ...]]:
    return [group.members for group in find_copies(votes, known).groups]


@pytest.mark.parametrize("copy_share", [1.0, 0.7])
def test_clones_are_found_with_their_original(copy_share: float) -> None:
    votes, _ = simulate.clones(LABELS, *paper_crowd(), ORIGINAL, 4, copy_share=copy_share)
    found = find_copies(votes)
    assert [group.members for group in found.groups] == [(ORIGINAL, 50, 51, 52, 53)]
    shares = found.pairs.copy_share[(found.pairs.first == ORIGINAL) & (found.pairs.second >= 50)]
    np.testing.assert_allclose(shares, copy_share, atol=0.08)


def test_siblings_with_correlated_errors_are_found_and_their_correlation_is_estimated() -> None:
    votes, _ = simulate.siblings(LABELS, *people(), 5, quality=0.75, correlation=0.5)
    group = find_copies(votes).groups[0]
    assert group.members == (5, 6, 7, 8, 9)
    assert group.copy_share == pytest.approx(0.5, abs=0.05)
    assert group.agreement == pytest.approx(1 - 2 * 0.75 * 0.25 * 0.5, abs=0.01)
    assert group.expected_agreement == pytest.approx(1 - 2 * 0.75 * 0.25, abs=0.02)
    assert group.n_common == 10 * LABELS.size


def test_weakly_correlated_siblings_are_found_if_they_are_declared_as_models() -> None:
    votes, _ = simulate.siblings(LABELS, *people(), 5, correlation=0.3)
    assert members(votes) == []
    kinds = names_array(["person"] * 5 + ["model"] * 5)
    assert members(replace(votes, annotator_kinds=kinds)) == [(5, 6, 7, 8, 9)]


@pytest.mark.parametrize("has_models", [False, True])
def test_copies_of_a_person_are_found_beside_a_panel_of_models(has_models: bool) -> None:
    labels = LABELS[:300]
    votes, crowd = simulate.crowd(labels, [0.72] * 14, votes_per_doc=8, seed=0)
    votes, _ = simulate.clones(labels, votes, crowd, 0, 1, seed=1)
    if has_models:
        votes = replace(votes, annotator_kinds=names_array(["person"] * 10 + ["model"] * 4 + ["person"]))
    assert aggregate(votes, n_profiles=1).copies["annotator"].tolist() == [votes.annotators[0], votes.annotators[14]]


def test_known_labels_tell_which_of_two_camps_are_copies() -> None:
    votes, _ = simulate.siblings(LABELS, *people([0.9] * 4), 4, correlation=0.5)
    undecided = find_copies(votes)
    assert {group.members for group in undecided.groups + undecided.rivals} == {(0, 1, 2, 3), (4, 5, 6, 7)}
    known = np.full(LABELS.shape, -1, dtype=np.int8)
    known[:200] = LABELS[:200]
    decided = find_copies(votes, known)
    assert [group.members for group in decided.groups] == [(4, 5, 6, 7)]
    assert not decided.rivals
    assert decided.pairs.second.max() < votes.n_annotators


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_accused_in_a_crowd_without_copies(seed: int) -> None:
    profile = ("paper", "adversarial", [*PEOPLE, 0.75, 0.75, 0.9])[seed % 3]
    behaviour = ("one_coin", "two_coin", "per_class")[seed // 3 % 3]
    votes, _ = simulate.crowd(LABELS, profile, votes_per_doc=5, seed=seed, behaviour=behaviour, n_spammers=seed % 2)
    found = find_copies(votes)
    assert found.groups == found.rivals == ()
    assert not found


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_accused_because_documents_differ_in_difficulty(seed: int) -> None:
    rng = np.random.default_rng(seed)
    skill = logit(np.array([0.6, 0.7, 0.75, 0.75, 0.75, 0.8, 0.9, 0.95]))
    difficulty = rng.standard_normal(LABELS.shape) + rng.standard_normal((len(LABELS), 1))
    correct = rng.random((len(LABELS), len(skill), LABELS.shape[1])) < expit(skill[:, None] - difficulty[:, None])
    votes = Votes.from_array(np.where(correct, LABELS[:, None], 1 - LABELS[:, None]))
    assert members(votes) == []


def test_adversaries_who_all_lie_are_not_accused_of_copying() -> None:
    votes, annotators = simulate.crowd(LABELS, "adversarial", votes_per_doc=25, seed=0)
    liars = np.flatnonzero(annotators.kinds == "adversary")
    pairs = find_copies(votes).pairs
    both = np.isin(pairs.first, liars) & np.isin(pairs.second, liars)
    assert pairs.agreement[both].mean() > 0.8  # they agree with each other,
    assert pairs.expected_correlation[both].mean() > 0.5  # as two who invert the same labels must
    assert members(votes) == []


def test_annotators_with_the_same_constant_answer_are_not_accused() -> None:
    votes, _ = simulate.crowd(LABELS, PEOPLE, votes_per_doc=8, seed=0, n_spammers=3)
    assert members(votes) == []


def test_annotators_of_different_documents_are_never_compared() -> None:
    votes, _ = people()
    split = votes.annotator + 5 * (votes.doc >= 500)  # everybody has a second account for the second half
    order = np.lexsort((votes.label, split, votes.doc))
    accounts = replace(votes, annotator=split.astype(np.int32), annotators=names_array(range(10))).select(order)
    pairs = find_copies(accounts).pairs
    assert len(pairs.first) == 20
    assert ((pairs.first < 5) == (pairs.second < 5)).all()


def test_a_crowd_of_three_is_never_accused() -> None:
    votes, annotators = people([0.9, 0.6])
    assert members(simulate.clones(LABELS, votes, annotators, 1)[0]) == []


def test_groups_do_not_depend_on_the_order_of_the_annotators() -> None:
    votes, _ = simulate.siblings(LABELS, *people(), 4, correlation=0.6)
    order = np.random.default_rng(0).permutation(votes.n_annotators)
    place = np.argsort(order)
    rows = np.lexsort((votes.label, place[votes.annotator], votes.doc))
    shuffled = replace(
        votes, annotator=place[votes.annotator].astype(np.int32), annotators=votes.annotators[order]
    ).select(rows)
    names = find_copies(votes).names(votes.annotators)
    assert [sorted(group) for group in find_copies(shuffled).names(shuffled.annotators)] == [sorted(names[0])]


def test_no_votes_and_no_common_documents_give_no_groups() -> None:
    assert not find_copies(Votes.empty(["d"], ["c"], ["a", "b"]))
    assert not find_copies(Votes.from_records([("d", "a", "c", 1), ("e", "b", "c", 0)]))


def test_the_correlation_of_a_pair_is_that_of_their_votes_within_classes() -> None:
    votes, _ = people()
    pairs = vote_pairs(votes, 5)
    table = votes.value.reshape(len(LABELS), 5, -1).astype(float)
    centred = table - table.mean(axis=0)
    first, second = centred[:, pairs.first], centred[:, pairs.second]
    scale = np.sqrt((first**2).sum(axis=(0, 2)) * (second**2).sum(axis=(0, 2)))
    np.testing.assert_allclose(pairs.correlation, (first * second).sum(axis=(0, 2)) / scale)
    assert (pairs.n_docs == len(LABELS)).all()


def test_copies_count_little_more_than_one_annotator() -> None:
    crowd, annotators = paper_crowd()
    votes, _ = simulate.clones(LABELS, crowd, annotators, ORIGINAL, 4)
    merged = merge_copies(votes, find_copies(votes).group_of)
    without, with_clones, discounted = (
        metrics.micro_f1(LABELS, aggregate(some, n_profiles=1, copies=False).consensus > 0.5)
        for some in (crowd, votes, merged)
    )
    assert with_clones < without - 0.03
    assert discounted == pytest.approx(without, abs=0.003)


def test_a_group_votes_by_its_majority_and_the_others_are_unchanged() -> None:
    records = [("d", name, "c", value) for name, value in zip("abcde", (1, 0, 0, 1, 1), strict=True)]
    records += [("d", "b", "k", 1), ("e", "b", "c", 1), ("e", "c", "c", 0)]
    merged = merge_copies(Votes.from_records(records), np.array([0, 1, 1, 1, 4]))
    rows = merged.to_frame()[["doc", "annotator", "label", "value"]].astype({"value": int}).to_records(index=False)
    assert sorted(map(tuple, rows.tolist())) == [
        ("d", "a", "c", 1), ("d", "b", "c", 0), ("d", "b", "k", 1), ("d", "e", "c", 1), ("e", "b", "c", 1),
    ]  # fmt: skip
    assert merged.annotators.tolist() == list("abcde")
    assert (np.diff(merged.pair[merged.annotator == 1]) > 0).all()


def test_stated_probabilities_of_a_group_are_averaged_and_hard_votes_stay_hard() -> None:
    records = [("d", "a", "c", 0.8), ("d", "b", "c", 0.9), ("d", "c", "c", 0.1), ("e", "a", "c", 1), ("e", "b", "c", 1)]
    merged = merge_copies(Votes.from_records(records), np.array([0, 0, 2]))
    np.testing.assert_allclose(merged.probability, [(1.7 + 0.5) / 3, 0.1, np.nan], rtol=1e-6)
    assert merged.value.tolist() == [1, 0, 1]


def test_a_group_abstains_where_no_member_judged() -> None:
    records = [("d", "a", "c", 1), ("d", "b", None, None), ("e", "b", None, None), ("e", "c", "c", 1)]
    votes = Votes.from_records(records)
    merged = merge_copies(votes, np.array([0, 0, 2]))
    assert merged.abstained.tolist() == [[1, 0]]
