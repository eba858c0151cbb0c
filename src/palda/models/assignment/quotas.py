"""Pairs that are not chosen for their gain: check votes on random documents, and known labels that test annotators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palda.models.assignment.batch import Assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.assignment.batch import Candidates

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def n_due(share: float, n_after: int, n_existing: int, n_new: int) -> int:
    """How many of ``n_new`` pairs bring the share among all ``n_after`` up to its target."""
    return int(np.clip(np.floor(share * n_after) - n_existing, 0, n_new))


def choose_check_pairs(
    candidates: Candidates, allowed: Mask, n_looks: Ints, order: Array, n_pairs: int, budget: float
) -> list[Assignment]:
    """Pairs for check votes: the check documents with the fewest, each by an annotator who is drawn by a hash.

    ``allowed`` (annotators, documents) are the pairs whose votes are check votes, ``n_looks`` (documents,) the check
    votes so far, ``order`` (annotators, documents) random numbers.
    """
    docs = np.flatnonzero(allowed.any(axis=0) & (candidates.doc_room > 0))
    free = allowed[:, docs] & candidates.may_judge[:, docs] & (candidates.annotator_room > 0)[:, None]
    order = order[:, docs]
    first, n_free = order.min(axis=0), free.sum(axis=0)
    room, looks = candidates.annotator_room.copy(), n_looks[docs]
    chosen: list[Assignment] = []
    while len(chosen) < n_pairs and n_free.any():
        fewest = looks[n_free > 0].min()
        place = int(np.argmin(np.where((n_free > 0) & (looks == fewest), first, np.inf)))
        annotator = int(np.argmin(np.where(free[:, place], order[:, place], np.inf)))
        pair = _pair(candidates, annotator, int(docs[place]))
        taken = np.array([annotator])
        if pair.price <= budget:
            budget -= pair.price
            chosen.append(pair)
            looks[place] += 1
            room[annotator] -= 1
            taken = np.flatnonzero(candidates.group == candidates.group[annotator])
        free[taken, place] = False
        n_free[place] = free[:, place].sum()
        if room[annotator] <= 0:
            n_free -= free[annotator]
            free[annotator] = False
    return chosen


def choose_gold_pairs(
    candidates: Candidates, is_gold: Mask, n_present: Ints, n_looks: Ints, width: Array, n_pairs: int, budget: float
) -> list[Assignment]:
    """Pairs of documents with known labels and the annotators who are trusted least.

    ``width`` (annotators,) is the width of the interval of an annotator's informedness, infinite for newcomers. Each
    look is taken to narrow it by the square root of the number of looks. Documents with labels that are present come
    first, because they test sensitivity; among them, those with the fewest looks.
    """
    room, width = candidates.annotator_room.copy(), width.copy()
    docs = np.flatnonzero(is_gold)
    docs = docs[np.lexsort((n_looks[docs], n_present[docs] == 0))]
    free = candidates.may_judge[:, docs] & (candidates.annotator_room > 0)[:, None]
    given = np.zeros(len(width))
    chosen: list[Assignment] = []
    while len(chosen) < n_pairs and free.any():
        waiting = np.where(free.any(axis=1), np.where(np.isinf(width), 1e9, width) / np.sqrt(1.0 + given), -1.0)
        annotator = int(waiting.argmax())
        place = int(free[annotator].argmax())
        free[annotator, place] = False
        pair = _pair(candidates, annotator, int(docs[place]))
        if pair.price > budget:
            continue
        budget -= pair.price
        chosen.append(pair)
        given[annotator] += 1
        width[annotator] = min(width[annotator], 2.0)  # informedness lies between -1 and 1
        room[annotator] -= 1
        free[annotator] &= room[annotator] > 0
    return chosen


def _pair(candidates: Candidates, annotator: int, doc: int) -> Assignment:
    return Assignment(annotator, doc, 0.0, float(candidates.price[annotator, doc]))


def without_pairs(candidates: Candidates, pairs: list[Assignment]) -> Candidates:
    """The candidates after some pairs are taken, which count as under way."""
    may_judge, room = candidates.may_judge.copy(), candidates.annotator_room.copy()
    pending, doc_room = candidates.pending.copy(), candidates.doc_room.copy()
    for pair in pairs:
        may_judge[candidates.group == candidates.group[pair.annotator], pair.doc] = False
        room[pair.annotator] -= 1
        pending[pair.doc] += 1
        doc_room[pair.doc] -= 1
    return replace(candidates, may_judge=may_judge, annotator_room=room, pending=pending, doc_room=doc_room)
