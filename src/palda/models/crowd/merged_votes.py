"""Votes in which each group of copies is one annotator, so that k copies do not count k times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes

    Ints = NDArray[np.int64]


class _Majorities(NamedTuple):
    """One row per (document, group, class) that members of a group judged."""

    row: Ints  # the first of the votes, that of the member with the lowest position
    value: NDArray[np.int8]
    probability: NDArray[np.float32]  # (yes + ½) / (votes + 1)


def merge_copies(votes: Votes, group_of: Ints) -> Votes:
    """Votes in which each group of annotators votes as one (maths, eq. 84).

    ``group_of`` (annotators,) has the position of the annotator who stands for the group, and the own position of those
    in no group. The vote of a group on a document and class is the majority of its members; if as many say yes as no,
    that of the member with the lowest position. The other members remain as annotators without votes. Who abstained
    from a document abstains for the group only if no member judged it.
    """
    in_group = np.bincount(group_of, minlength=votes.n_annotators)[group_of] > 1
    if not in_group.any():
        return votes
    merged = _majorities(votes, group_of, in_group)
    rows = np.concatenate((np.flatnonzero(~in_group[votes.annotator]), merged.row))
    value = votes.value.copy()
    value[merged.row] = merged.value
    annotator = group_of.astype(np.int32)[votes.annotator[rows]]
    rows = rows[np.lexsort((votes.label[rows], annotator, votes.doc[rows]))]
    return replace(
        votes,
        doc=votes.doc[rows],
        annotator=group_of.astype(np.int32)[votes.annotator[rows]],
        label=votes.label[rows],
        value=value[rows],
        abstained=_abstained(votes, group_of),
    )


def _majorities(votes: Votes, group_of: Ints, in_group: NDArray[np.bool_]) -> _Majorities:
    rows = np.flatnonzero(in_group[votes.annotator])
    group = group_of[votes.annotator[rows]]
    rows = rows[np.lexsort((votes.annotator[rows], votes.label[rows], group, votes.doc[rows]))]
    keys = np.stack((votes.doc[rows], group_of[votes.annotator[rows]], votes.label[rows]))
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    place = np.cumsum(is_first) - 1
    first = rows[is_first]
    n_votes, n_yes = np.bincount(place), np.bincount(place, votes.value[rows])
    value = np.where(2 * n_yes == n_votes, votes.value[first], 2 * n_yes > n_votes)
    probability = (n_yes + 0.5) / (n_votes + 1.0)
    return _Majorities(first, value.astype(np.int8), probability.astype(np.float32))


def _abstained(votes: Votes, group_of: Ints) -> NDArray[np.int32]:
    """Pairs (document, annotator) of those who judged nothing, after merging."""
    if not len(votes.abstained):
        return votes.abstained
    width = votes.n_annotators
    views = np.unique(votes.abstained[:, 0].astype(np.int64) * width + group_of[votes.abstained[:, 1]])
    judged = np.unique(votes.doc.astype(np.int64) * width + group_of[votes.annotator])
    return np.column_stack(np.divmod(np.setdiff1d(views, judged), width)).astype(np.int32)
