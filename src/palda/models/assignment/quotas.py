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
    free = allowed & candidates.may_judge & (candidates.annotator_room > 0)[:, None] & (candidates.doc_room > 0)
    room, looks = candidates.annotator_room.copy(), n_looks.copy()
    chosen: list[Assignment] = []
    while len(chosen) < n_pairs and free.any():
        docs = np.flatnonzero(free.any(axis=0))
        doc = int(docs[np.lexsort((order[:, docs].min(axis=0), looks[docs]))[0]])
        annotator = int(np.argmin(np.where(free[:, doc], order[:, doc], np.inf)))
        pair = _pair(candidates, annotator, doc)
        if pair.price > budget:
            free[annotator, doc] = False
            continue
        budget -= pair.price
        chosen.append(pair)
        looks[doc] += 1
        free[candidates.group == candidates.group[annotator], doc] = False
        room[annotator] -= 1
        free[annotator] &= room[annotator] > 0
    return chosen


def choose_gold_pairs(
    candidates: Candidates, is_gold: Mask, n_present: Ints, n_looks: Ints, width: Array, n_pairs: int, budget: float
) -> list[Assignment]:
    """Pairs of documents with known labels and the annotators who are trusted least.

    ``width`` (annotators,) is the width of the interval of an annotator's informedness, infinite for newcomers. Each
    look is taken to narrow it by the square root of the number of looks. Documents with labels that are present come
    first, because they test sensitivity; among them, those with the fewest looks.
    """
    free = is_gold & candidates.may_judge & (candidates.annotator_room > 0)[:, None]
    room, width = candidates.annotator_room.copy(), width.copy()
    docs = np.flatnonzero(is_gold)
    docs = docs[np.lexsort((n_looks[docs], n_present[docs] == 0))]
    given = np.zeros(len(width))
    chosen: list[Assignment] = []
    while len(chosen) < n_pairs and free.any():
        waiting = np.where(free.any(axis=1), np.where(np.isinf(width), 1e9, width) / np.sqrt(1.0 + given), -1.0)
        annotator = int(waiting.argmax())
        doc = int(docs[free[annotator, docs].argmax()])
        free[annotator, doc] = False
        pair = _pair(candidates, annotator, doc)
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
