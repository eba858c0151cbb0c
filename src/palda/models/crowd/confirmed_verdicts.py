"""Verdicts of spammer and adversary need a second fit that agrees: one to votes alone, without those of the suspects.

A fit in which the classifier, a start or a suspect's own votes have gone astray calls good annotators spammers. Labels
that the others' votes give do not depend on any of these.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from palda.data import Votes, vote_blocks
from palda.models.crowd.em import cut_votes, first_state, fit_crowd, initial_label_probs
from palda.models.crowd.quality import MARGIN, MIN_COMPARED, NEGATIVE_VERDICTS, SPAM_INTERVAL, document_counts
from palda.models.crowd.vote_sources import start_belief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import VoteRows
    from palda.models.crowd.em import CrowdSettings

_MAX_VOTES = 500_000  # of the second fit
_ENOUGH_VOTES, _ENOUGH_DOCS = 50_000, 1000  # of the second fit, if there are that many
_ENOUGH_OWN_VOTES = 1000  # of each suspect: the standard error of informedness is .05 if a tenth are on present labels
_MAX_ROUNDS, _TOL = 100, 1e-4
_PRIOR_VOTES = 1.0  # correct and wrong ones each, of a rate


def confirmed_verdicts(
    votes: VoteRows, known: NDArray[np.int8], verdict: NDArray[np.object_], settings: CrowdSettings
) -> NDArray[np.bool_]:
    """(annotators,): whether a verdict of spammer or adversary is that of the second fit, too.

    A spammer's informedness against the labels of the others is within ±.2, that of an adversary below -.05, on at
    least five documents that others judged or whose labels are known. Other verdicts are false.
    """
    suspect = np.isin(verdict, NEGATIVE_VERDICTS)
    if not suspect.any():
        return suspect
    rows = np.arange(votes.n_docs)
    share = _share_compared(votes, suspect)
    if share < 1.0:
        rows = rows[np.random.default_rng(0).random(votes.n_docs) < share]
    some = votes if isinstance(votes, Votes) and len(rows) == votes.n_docs else votes.take(rows)
    known = known[rows]
    others = some.select(~suspect[some.annotator])
    is_known = known >= 0
    if not len(others) and not is_known.any():
        return np.zeros_like(suspect)
    settings = replace(settings, max_iter=_MAX_ROUNDS, tol=max(settings.tol, _TOL), learn_profiles=True)
    guess = initial_label_probs(others, known)
    start = first_state(others, known, guess, start_belief(settings.annotators, others), settings)
    probs = fit_crowd(cut_votes(others, known), start, settings).label_probs
    compared = (others.per_pair() > 0) | is_known
    own = some.select(suspect[some.annotator] & compared[some.doc, some.label])
    n_documents = document_counts(own, np.where(compared, 1, -1).astype(np.int8))[:, 1]
    present, is_yes = probs[own.doc, own.label], own.value == 1
    rates = []
    for weight, is_right in ((present, is_yes), (1.0 - present, ~is_yes)):
        right, total = (
            np.bincount(own.annotator, values, minlength=votes.n_annotators) for values in (weight * is_right, weight)
        )
        rates.append((right + _PRIOR_VOTES) / (total + 2.0 * _PRIOR_VOTES))
    informedness = rates[0] + rates[1] - 1.0
    agrees = np.where(verdict == "spammer", np.abs(informedness) <= SPAM_INTERVAL, informedness < -MARGIN)
    return np.asarray(suspect & agrees & (n_documents >= MIN_COMPARED))


def _share_compared(votes: VoteRows, suspect: NDArray[np.bool_]) -> float:
    """Share of the documents for the second fit."""
    most = _MAX_VOTES / max(len(votes), 1)
    n_own = reduce(np.add, (some.per_annotator() for _, some in vote_blocks(votes)))[suspect]
    enough = max(
        _ENOUGH_VOTES / max(len(votes), 1), _ENOUGH_DOCS / votes.n_docs, _ENOUGH_OWN_VOTES / max(int(n_own.min()), 1)
    )
    return min(enough, most)
