"""Votes in which each group of copies is one annotator, so that k copies do not count k times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes

    Ints = NDArray[np.int64]


class _GroupVotes(NamedTuple):
    """Votes of groups, one row per (document, group, class) that a member judged."""

    row: Ints  # position of the vote of the member with the lowest position
    value: NDArray[np.int8]
    probability: NDArray[np.float32]  # NaN where no member stated any


def merge_copies(votes: Votes, group_of: Ints) -> Votes:
    """Votes in which each group of annotators votes as one (maths, eq. 87).

    ``group_of`` (annotators,) has the position of the annotator who stands for the group, and the own position of those
    in no group. The vote of a group on a document and class is the majority of its members; if as many say yes as no,
    that of the member with the lowest position. Where a member stated a probability, the group states (yes + ½) /
    (votes + 1), a stated probability being a part of a yes. Hard votes stay hard: how unanimous copies are says what
    they share, not what is true, and as a soft vote it pulled rare classes to the copies (micro-F1 .30 instead of .94).

    Other members remain as annotators without votes. Who abstained from a document abstains for the group only if no
    member judged it. A merged vote has the time of the first of its votes.
    """
    in_group = np.bincount(group_of, minlength=votes.n_annotators)[group_of] > 1
    if not in_group.any():
        return votes
    merged = _group_votes(votes, group_of, in_group)
    value = votes.value.copy()
    value[merged.row] = merged.value
    probability = votes.probability.copy()
    if len(probability):
        probability[merged.row] = merged.probability
    source = group_of.astype(np.int32)[votes.annotator]
    rows = np.concatenate((np.flatnonzero(~in_group[votes.annotator]), merged.row))
    rows = rows[np.lexsort((votes.label[rows], source[rows], votes.doc[rows]))]
    everything = replace(votes, annotator=source, value=value, probability=probability)
    return replace(everything.select(rows), abstained=_abstained(votes, group_of))


def _group_votes(votes: Votes, group_of: Ints, in_group: NDArray[np.bool_]) -> _GroupVotes:
    rows = np.flatnonzero(in_group[votes.annotator])
    rows = rows[
        np.lexsort((votes.annotator[rows], votes.label[rows], group_of[votes.annotator[rows]], votes.doc[rows]))
    ]
    keys = np.stack((votes.doc[rows], group_of[votes.annotator[rows]], votes.label[rows]))
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    place, first = np.cumsum(is_first) - 1, rows[is_first]
    stated = votes.probability[rows] if len(votes.probability) else np.full(len(rows), np.nan)
    is_hard = np.isnan(stated)
    n_votes, n_yes = np.bincount(place), np.bincount(place, np.where(is_hard, votes.value[rows], stated))
    value = np.where(2.0 * n_yes == n_votes, votes.value[first], 2.0 * n_yes > n_votes)
    probability = np.where(np.bincount(place, is_hard) == n_votes, np.nan, (n_yes + 0.5) / (n_votes + 1.0))
    return _GroupVotes(first, value.astype(np.int8), probability.astype(np.float32))


def _abstained(votes: Votes, group_of: Ints) -> NDArray[np.int32]:
    """Pairs (document, annotator) of those who judged nothing, after merging."""
    if not len(votes.abstained):
        return votes.abstained
    width = votes.n_annotators
    views = np.unique(votes.abstained[:, 0].astype(np.int64) * width + group_of[votes.abstained[:, 1]])
    judged = np.unique(votes.doc.astype(np.int64) * width + group_of[votes.annotator])
    return np.column_stack(np.divmod(np.setdiff1d(views, judged), width)).astype(np.int32)
