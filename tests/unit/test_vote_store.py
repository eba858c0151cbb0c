"""Stored votes: new, changed and withdrawn votes in any order and grouping."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda import Votes
from palda.models.assignment import VoteChanges, VoteStore
from palda.models.assignment import vote_store as module

DOCS, PEOPLE, CLASSES = 4, 3, 2
NAMES = [f"d{d}" for d in range(DOCS)], ["a", "b", "c"], ["x", "y"]
KEYS = st.tuples(st.integers(0, DOCS - 1), st.integers(0, PEOPLE - 1), st.integers(0, CLASSES - 1))
EVENTS = st.lists(st.tuples(KEYS, st.integers(-1, 1)), max_size=25)


def votes_of(table: dict[tuple[int, int, int], int]) -> Votes:
    rows = [(*key, value) for key, value in sorted(table.items())]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    doc_ids, annotators, classes = (np.array(names, dtype=object) for names in NAMES)
    return Votes.from_codes(*columns, doc_ids=doc_ids, annotators=annotators, classes=classes)


def changes_of(events: list[tuple[tuple[int, int, int], int]]) -> VoteChanges:
    columns = np.array([(*key, value) for key, value in events], dtype=np.int64).reshape(-1, 4).T
    unknown = np.full(len(events), np.nan)
    return VoteChanges(columns[0], columns[1], columns[2], columns[3].astype(np.int8), unknown, unknown)


@given(start=EVENTS, events=EVENTS, cuts=st.lists(st.integers(0, 25), max_size=3), small=st.booleans())
@settings(deadline=None, max_examples=150)
def test_updates_in_any_grouping_store_the_last_value_of_each_vote(
    start: list[tuple[tuple[int, int, int], int]],
    events: list[tuple[tuple[int, int, int], int]],
    cuts: list[int],
    small: bool,
) -> None:
    table = {key: value for key, value in start if value >= 0}
    store = VoteStore.of(votes_of(table))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MAX_RECENT", 3 if small else 10_000)
        edges = sorted({0, len(events), *(min(cut, len(events)) for cut in cuts)})
        for first, stop in pairwise(edges):
            store, _ = store.changed(changes_of(events[first:stop]))
    for key, value in events:
        table.pop(key, None)
        if value >= 0:
            table[key] = value
    expected = votes_of(table)
    assert store.all_votes == expected
    assert len(store) == len(expected)
    judged = {(d, k) for d, k, _ in table}
    assert {tuple(pair) for pair in store.looks().tolist()} == judged
    some = np.array([1, 3])
    assert store.take(some) == expected.take(some)


@given(start=EVENTS, events=EVENTS)
@settings(deadline=None, max_examples=100)
def test_touched_documents_are_those_whose_votes_differ(
    start: list[tuple[tuple[int, int, int], int]], events: list[tuple[tuple[int, int, int], int]]
) -> None:
    before = VoteStore.of(votes_of({key: value for key, value in start if value >= 0}))
    after, touched = before.changed(changes_of(events))
    differs = [d for d in range(DOCS) if before.all_votes.take([d]) != after.all_votes.take([d])]
    assert touched.tolist() == differs


def test_a_withdrawn_vote_leaves_no_trace() -> None:
    votes = votes_of({(0, 0, 0): 1, (2, 1, 1): 0})
    store, _ = VoteStore.of(votes).changed(changes_of([((1, 2, 0), 1)]))
    store, touched = store.changed(changes_of([((1, 2, 0), -1)]))
    assert touched.tolist() == [1]
    assert store.all_votes == votes
    assert store.merged().all_votes == votes


def test_an_abstention_withdraws_all_votes_on_the_document_and_a_later_vote_ends_it() -> None:
    store = VoteStore.of(votes_of({(0, 0, 0): 1, (0, 0, 1): 0, (0, 1, 0): 1}))
    store, _ = store.changed(changes_of([((0, 0, -1), -1)]))
    assert len(store) == 1
    assert store.all_votes.abstained.tolist() == [[0, 0]]
    assert [0, 0] in store.looks().tolist()
    store, _ = store.changed(changes_of([((0, 0, 1), 1)]))
    assert store.all_votes.abstained.tolist() == []
    assert len(store) == 2


def test_soft_votes_times_and_new_annotators_are_kept() -> None:
    store = VoteStore.of(votes_of({(0, 0, 0): 1})).with_annotators(["new"], ["model"])
    change = changes_of([((3, 3, 1), 1)])._replace(probability=np.array([0.75]), time=np.array([9.0]))
    store, _ = store.changed(change)
    votes = store.all_votes
    assert votes.annotators.tolist() == ["a", "b", "c", "new"]
    assert votes.annotator_kinds.tolist() == ["", "", "", "model"]
    assert votes.probability.tolist()[1] == 0.75
    assert votes.time.tolist()[1] == 9.0
    assert np.isnan(votes.probability[0])
