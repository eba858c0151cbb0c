"""Sources of votes: what the model holds rates for, which is not always one annotator.

A group of copies is one source, so that k copies count little more than one. A period of an annotator whose rates
changed is a source of its own, where that predicts hidden votes better. Everybody else is one source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import ArraySpec, ConvertedVotes, Votes
from palda.models.crowd.annotator_model import mean_rates
from palda.models.crowd.confidence import start_levels
from palda.models.crowd.copies import find_copies
from palda.models.crowd.drift import Changes
from palda.models.crowd.em import count_votes, cut_votes, first_state, fit_crowd
from palda.models.crowd.merged_votes import merge_copies
from palda.models.crowd.panel import start_panel, votes_of_people
from palda.models.crowd.periods import confirmed_changes, periods_predict_better, split_periods
from palda.models.crowd.support import SupportBelief, SupportModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows
    from palda.models.crowd.annotator_history import AnnotatorHistory
    from palda.models.crowd.annotator_model import AnnotatorBelief, AnnotatorModel
    from palda.models.crowd.em import CrowdSettings

    Ints = NDArray[np.int64]

_MAX_VOTES = 5_000_000  # votes that changes are searched among; documents are drawn if there are more
_TRIAL_TOL = 1e-5  # of fits of the support model under which changes are searched
_MAX_UPDATES, _MAX_RATE_CHANGE = 50, 1e-4  # of beliefs about annotators whose labels are given

_GROUP_COLUMNS = ("copy_share", "agreement", "expected_agreement", "n_common")
_CHANGE_COLUMNS = (
    "time", "p_value", "n_before", "n_after", "quality_before", "quality_before_low", "quality_before_high",
    "quality_after", "quality_after_low", "quality_after_high", "informedness_before", "informedness_after",
)  # fmt: skip

SOURCE_ARRAYS = {
    "group_of": ArraySpec(("annotators",), "integer", low=0, below="annotators", group="sources"),
    "groups": ArraySpec(("groups of copies", len(_GROUP_COLUMNS)), group="sources"),
    "change_annotator": ArraySpec(("changes",), "integer", low=0, below="annotators", ascending=True, group="sources"),
    "changes": ArraySpec(("changes", len(_CHANGE_COLUMNS)), group="sources"),
    "uses_changes": ArraySpec((), "integer", low=0, high=1, group="sources"),
}
"""Schema of ``VoteSources`` in a file; files of crowds without copies and changes have none."""


@dataclass(frozen=True)
class VoteSources:
    """Groups of copies and changes of annotators' rates, and how they turn votes of annotators into those of sources.

    The first sources are the annotators, in their order; the periods after a change follow. Members of a group of
    copies vote through the first of them.
    """

    group_of: Ints
    """(annotators,): the lowest position in the group of each annotator; its own if it is in none."""
    groups: Array
    """(groups, 4): share of repeated votes, agreement, expected agreement and common judgements of each group."""
    changes: Changes
    uses_changes: bool
    """Whether periods are sources; if not, changes are only reported."""

    def __bool__(self) -> bool:
        """Whether sources differ from annotators."""
        return bool(len(self.groups)) or (self.uses_changes and len(self.changes) > 0)

    @property
    def n_periods(self) -> int:
        """Number of sources that are later periods of an annotator."""
        return len(self.changes) if self.uses_changes else 0

    def votes(self, votes: VoteRows) -> VoteRows:
        """Votes of the sources; those of stored votes are made when they are read."""
        if not self:
            return votes
        if isinstance(votes, Votes):
            return self.convert(votes)
        return ConvertedVotes(votes, np.arange(votes.n_docs), self.convert)

    def convert(self, votes: Votes) -> Votes:
        """Votes of the sources, in memory."""
        merged = merge_copies(votes, self._extended(votes.n_annotators))
        return split_periods(merged, self.changes).votes if self.uses_changes else merged

    def _extended(self, n_annotators: int) -> Ints:
        """``group_of`` with annotators who came later; they are in no group."""
        return np.append(self.group_of, np.arange(len(self.group_of), n_annotators))

    def with_new_annotators(self, n_new: int) -> tuple[VoteSources, Ints]:
        """Sources with ``n_new`` more annotators, and where they find the old ones, of which the new ones come last."""
        n_old = len(self.group_of)
        order = np.concatenate(
            (np.arange(n_old), n_old + self.n_periods + np.arange(n_new), n_old + np.arange(self.n_periods))
        )
        return replace(self, group_of=self._extended(n_old + n_new)), order

    def copies_table(self, annotators: Strings) -> pd.DataFrame:
        """One row per annotator who is in a group of copies."""
        import pandas as pd

        first, size = np.unique(self.group_of, return_counts=True)
        first = first[size > 1]
        members = np.flatnonzero(np.isin(self.group_of, first))
        group = np.searchsorted(first, self.group_of[members])
        table = {"group": group + 1, "annotator": annotators[members]}
        table |= {name: self.groups[group, column] for column, name in enumerate(_GROUP_COLUMNS)}
        return pd.DataFrame(table).astype({"n_common": np.int64}).sort_values("group", kind="stable", ignore_index=True)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The sources as arrays of a file; none without copies and changes."""
        if not len(self.groups) and not len(self.changes):
            return {}
        return {
            "group_of": self.group_of,
            "groups": self.groups,
            "change_annotator": self.changes.annotator,
            "changes": np.column_stack([getattr(self.changes, name).astype(np.float64) for name in _CHANGE_COLUMNS]),
            "uses_changes": np.asarray(int(self.uses_changes)),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_annotators: int) -> VoteSources:
        """The sources whose ``arrays`` these are."""
        if not arrays:
            return no_sources(n_annotators)
        columns = dict(zip(_CHANGE_COLUMNS, arrays["changes"].T, strict=True))
        columns |= {name: columns[name].astype(np.int64) for name in ("n_before", "n_after")}
        worse = columns["informedness_after"] < columns["informedness_before"]
        kind = np.where(worse, "worse", "better").astype(object)
        changes = Changes(annotator=arrays["change_annotator"].astype(np.int64), kind=kind, **columns)
        return cls(arrays["group_of"].astype(np.int64), arrays["groups"], changes, bool(arrays["uses_changes"]))


def no_sources(n_annotators: int) -> VoteSources:
    """Every annotator is one source."""
    no_change = Changes.from_rows([])
    return VoteSources(np.arange(n_annotators), np.empty((0, len(_GROUP_COLUMNS))), no_change, uses_changes=False)


def find_vote_sources(
    votes: VoteRows,
    known: NDArray[np.int8],
    guess: Array,
    settings: CrowdSettings,
    *,
    copies: bool = True,
    drift: bool = True,
    seed: int = 0,
) -> VoteSources:
    """Groups of copies and, if votes have times, changes of annotators' rates.

    ``guess`` (documents, classes) are initial labels. Changes are judged by a fit to the votes alone.
    """
    sources = no_sources(votes.n_annotators)
    if copies and len(votes):
        found = find_copies(people_only(votes, settings), known, seed=seed)
        groups = [[float(getattr(group, name)) for name in _GROUP_COLUMNS] for group in found.groups]
        sources = replace(sources, group_of=found.group_of, groups=np.array(groups).reshape(-1, len(_GROUP_COLUMNS)))
    sample = _with_times(votes, seed) if drift else None
    if sample is None:
        return sources
    rows, timed = sample
    timed, known, guess = merge_copies(timed, sources.group_of), known[rows], guess[rows]
    model = settings.annotators
    if isinstance(model, SupportModel):
        settings = replace(settings, tol=max(settings.tol, _TRIAL_TOL))
    start = first_state(timed, known, guess, start_belief(model, timed), settings)
    fit = fit_crowd(cut_votes(timed, known), start, settings)
    changes = confirmed_changes(timed, known, fit, settings, seed=seed)
    uses_changes = len(changes) > 0 and periods_predict_better(timed, known, fit.state, settings, seed=seed)
    return replace(sources, changes=changes, uses_changes=uses_changes)


def people_only(votes: VoteRows, settings: CrowdSettings) -> VoteRows:
    """The votes without those of models, if these form a panel: what they repeat is what the panel shares."""
    panel = start_panel(votes) if isinstance(settings.annotators, SupportModel) else None
    if panel is None:
        return votes
    if isinstance(votes, Votes):
        return votes_of_people(votes, panel)
    return ConvertedVotes(votes, np.arange(votes.n_docs), partial(votes_of_people, panel=panel))


def _with_times(votes: VoteRows, seed: int) -> tuple[Ints, Votes] | None:
    """Documents on which changes are searched, and their votes; None if votes have no times."""
    if isinstance(votes, Votes) and not len(votes.time):
        return None
    rows = np.arange(votes.n_docs)
    share = _MAX_VOTES / max(len(votes), 1)
    if share < 1.0:
        rows = np.flatnonzero(np.random.default_rng(seed).random(votes.n_docs) < share)
    some = votes if isinstance(votes, Votes) and len(rows) == votes.n_docs else votes.take(rows)
    return (rows, some) if len(some.time) and not np.isnan(some.time).all() else None


def start_belief(model: AnnotatorModel, votes: VoteRows, history: AnnotatorHistory | None = None) -> AnnotatorBelief:
    """Beliefs before the first vote, with the levels of soft votes."""
    belief = model.start(votes.n_annotators, votes.n_classes, history)
    if isinstance(belief, SupportBelief):
        belief = replace(belief, panel=start_panel(votes))
    return replace(belief, levels=start_levels(votes))


def individual_start(
    votes: VoteRows, fitted: AnnotatorBelief, model: AnnotatorModel, history: AnnotatorHistory | None = None
) -> AnnotatorBelief:
    """Beliefs about the annotators one by one before their votes, beside a fit to groups and periods.

    What is not about annotators, the distribution of supports and the link, is that of the fit: on a grid that has
    seen no vote, the rates of annotators with few votes would be those of no crowd.
    """
    start = start_belief(model, votes, history)
    if isinstance(start, SupportBelief) and isinstance(fitted, SupportBelief):
        start = replace(start, weights=fitted.weights, link=fitted.link)
    return start


def belief_from_labels(
    model: AnnotatorModel, votes: VoteRows, label_probs: Array, belief: AnnotatorBelief
) -> tuple[AnnotatorBelief, Array]:
    """Beliefs about annotators whose labels are given, and the vote counts behind them."""
    counts = count_votes(model, votes, label_probs)
    for _ in range(_MAX_UPDATES):
        before = mean_rates(belief)
        belief = model.update(counts, belief)
        if np.abs(mean_rates(belief) - before).max(initial=0.0) < _MAX_RATE_CHANGE:
            break
    return belief, counts
