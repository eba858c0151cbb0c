"""Annotators with one set of rates per period, where that predicts hidden votes better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from palda.data import names_array
from palda.models.crowd.drift import find_changes
from palda.models.crowd.em import count_votes, cut_votes, fit_crowd
from palda.models.crowd.judged_documents import own_evidence
from palda.models.crowd.model_selection import (
    choose_candidate,
    n_vote_folds,
    sample_documents,
    select_votes,
    vote_folds,
    votes_log_likelihood,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Strings, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief
    from palda.models.crowd.drift import Changes
    from palda.models.crowd.em import CrowdFit, CrowdSettings, CrowdState


_TRIAL_ORDERS = 399  # random orders behind a p-value that only decides on a trial
_FIRST_FOLDS = 2  # of hidden votes; the others are not tried if periods have not been better in these


@dataclass(frozen=True)
class Periods:
    """Votes in which each period of an annotator is an annotator of its own."""

    votes: Votes
    annotator_of: NDArray[np.int64]
    """(periods,): the annotator of each period; the first n_annotators are the first periods, in their order."""
    order: NDArray[np.int64]
    """(votes,): position of each vote among the votes that were split."""
    start: Array
    """(periods,): time at which the period starts; -inf for first periods."""

    def belief(self, belief: AnnotatorBelief) -> AnnotatorBelief:
        """Beliefs about periods from beliefs about annotators, to start EM from."""
        return belief.take(self.annotator_of)


def split_periods(votes: Votes, changes: Changes) -> Periods:
    """Votes with one annotator per period between changes.

    Annotators keep their position for the first period; further periods follow after the last annotator, sorted by
    annotator and time. All votes of an annotator on a document are in the period of the first of them. Votes without a
    time are in the first period.
    """
    n_annotators = votes.n_annotators
    annotator_of = np.append(np.arange(n_annotators), changes.annotator)
    starts = np.append(np.full(n_annotators, -np.inf), changes.time)
    if not len(changes):
        return Periods(votes, annotator_of, np.arange(len(votes)), starts)
    period = votes.annotator.copy()
    if len(votes.time):
        rows = np.flatnonzero(np.isin(votes.annotator, changes.annotator))
        seen = _first_times(votes, rows)
        for number, (annotator, since) in enumerate(zip(changes.annotator, changes.time, strict=True)):
            later = (votes.annotator[rows] == annotator) & (seen >= since)  # False for NaN
            period[rows[later]] = n_annotators + number
    order = np.lexsort((votes.label, period, votes.doc))
    by_annotator = {
        name: getattr(votes, name)[annotator_of]
        for name in ("annotator_kinds", "annotator_families")
        if len(getattr(votes, name))
    }
    names = _period_names(votes.annotators, changes)
    split = replace(votes.select(order), annotator=period[order], annotators=names, **by_annotator)
    return Periods(split, annotator_of, order, starts)


def _first_times(votes: Votes, rows: NDArray[np.int64]) -> Array:
    """(rows,): time of the first vote of the same annotator on the same document; NaN if none is known."""
    doc, annotator = votes.doc[rows], votes.annotator[rows]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (doc[1:] != doc[:-1]) | (annotator[1:] != annotator[:-1])
    first = np.flatnonzero(is_first)
    times: Array = np.fmin.reduceat(votes.time[rows], first)[np.cumsum(is_first) - 1]
    return times


def _period_names(annotators: Strings, changes: Changes) -> Strings:
    """Names of all periods: "ann" for the first, "ann (period 2)" for the next; a name that exists gets a star."""
    taken, names = set(annotators.tolist()), annotators.tolist()
    number: dict[int, int] = {}
    for k in changes.annotator.tolist():
        number[k] = number.get(k, 1) + 1
        name = f"{annotators[k]} (period {number[k]})"
        while name in taken:
            name += "*"
        taken.add(name)
        names.append(name)
    return names_array(names)


def confirmed_changes(
    votes: Votes,
    known: NDArray[np.int8],
    fit: CrowdFit,
    settings: CrowdSettings,
    *,
    extra: Array | None = None,
    seed: int = 0,
) -> Changes:
    """Changes of annotators' rates given a fit with constant rates, searched twice.

    Annotators who change make the consensus too certain in one period and too uncertain in the other, so that others
    seem to change at the same time. The second search is under a fit with the periods that the first one found.
    """
    changes = find_changes(votes, fit.label_probs, fit.state.belief, seed=seed)
    if not len(changes):
        return changes
    periods = split_periods(votes, changes)
    start = replace(fit.state, belief=periods.belief(fit.state.belief))
    split = fit_crowd(cut_votes(periods.votes, known, extra), start, settings)
    own = np.empty(len(votes))
    own[periods.order] = own_evidence(periods.votes, split.state.belief)
    model = settings.annotators
    belief = model.update(count_votes(model, votes, split.label_probs), fit.state.belief)
    return find_changes(votes, split.label_probs, belief, own=own, seed=seed)


def periods_predict_better(
    votes: Votes,
    known: NDArray[np.int8],
    start: CrowdState,
    settings: CrowdSettings,
    *,
    extra: Array | None = None,
    seed: int = 0,
) -> bool:
    """Whether rates per period predict hidden votes better than one set of rates per annotator.

    As in the choice of the number of profiles, all votes of an annotator on a document are hidden together. Changes are
    searched among the other votes, and both fits are made without the hidden ones. ``start`` is a state of EM for
    ``votes``, ``extra`` other evidence in nats, (documents, classes).
    """
    rng = np.random.default_rng(seed)
    docs = sample_documents(votes, rng)
    if len(docs) < votes.n_docs:
        votes, known, extra = votes.take(docs), known[docs], None if extra is None else extra[docs]
    folds = vote_folds(votes, rng)
    constant, by_period = np.zeros((2, votes.n_docs))
    for fold in range(n_vote_folds(known.size)):
        if fold == _FIRST_FOLDS and by_period.sum() <= constant.sum():
            return False
        hidden = folds == fold
        training = select_votes(votes, ~hidden)
        fit = fit_crowd(cut_votes(training, known, extra), start, settings)
        predicted = votes_log_likelihood(select_votes(votes, hidden), fit.label_probs, fit.state.belief)
        constant += predicted
        changes = find_changes(training, fit.label_probs, fit.state.belief, max_orders=_TRIAL_ORDERS, seed=seed)
        if not len(changes):
            by_period += predicted
            continue
        periods = split_periods(training, changes)
        split_start = replace(fit.state, belief=periods.belief(fit.state.belief))
        split_fit = fit_crowd(cut_votes(periods.votes, known, extra), split_start, settings)
        hidden_periods = split_periods(select_votes(votes, hidden), changes)
        by_period += votes_log_likelihood(hidden_periods.votes, split_fit.label_probs, split_fit.state.belief)
    return choose_candidate([constant, by_period]) == 1
