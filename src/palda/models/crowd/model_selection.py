"""The number of label-set profiles, chosen by how well hidden votes are predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palda.models.crowd.annotator_model import mean_rates
from palda.models.crowd.em import (
    count_votes,
    cut_votes,
    fit_crowd,
    start_label_probs,
    start_state,
    votes_as_evidence,
    with_profiles,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief
    from palda.models.crowd.em import CrowdFit, CrowdSettings, CrowdState, VoteShard

MIN_STANDARD_ERRORS = 2.0
"""Standard errors by which a more complex candidate must predict better, by default."""

N_VOTE_FOLDS = 5
"""Folds of the (document, annotator) pairs; each in turn is hidden while the others are learned from."""

_NUMBERS_OF_PROFILES = (1, 2, 4, 8, 15, 25)  # tried in this order
_PATIENCE = 2  # candidates in a row that may fail before the search stops
_MIN_GAIN = 1.0  # nats, so that rounding never decides
_MAX_LEVEL_FOLDS, _LEVEL_STANDARD_ERRORS = 2, 1.0  # for the choice between soft and hard votes
_MAX_PAIRS = 500_000  # (document, class) pairs that the choice is made on


def choose_n_profiles(
    votes: Votes, known: NDArray[np.int8], start: CrowdState, settings: CrowdSettings, *, seed: int = 0
) -> int:
    """Number of profiles that predicts hidden votes best; fewer unless more are clearly better.

    All votes of an annotator on a document are hidden together, for one fifth of these pairs. Everything is learned
    from the other votes, and each candidate predicts the hidden ones. (With single votes hidden, profiles would gain by
    learning how an annotator's votes on one document go together, which is not a property of the document.) If there
    are few documents, each fifth is hidden in turn. The annotators are those of the fit with one profile, so that the
    choice cannot trade annotator behaviour for label sets. All candidates start from the same ``start``.
    """
    if votes.n_classes < 2 or not len(votes):
        return 1
    rng = np.random.default_rng(seed)
    rows = sample_documents(votes, rng)
    votes, known = votes.take(rows), known[rows]
    folds = vote_folds(votes, rng)
    trials: list[tuple[Votes, CrowdFit, list[VoteShard]]] = []
    for fold in range(n_vote_folds(known.size)):
        hidden = folds == fold
        shards = cut_votes(select_votes(votes, ~hidden), known)
        single = fit_crowd(shards, start, settings)
        trials.append((select_votes(votes, hidden), single, votes_as_evidence(shards, single.state.belief, settings)))

    def scores() -> Iterator[Array]:
        """Log-likelihood of the hidden votes per document, for each number of profiles."""
        for n_profiles in _NUMBERS_OF_PROFILES:
            parts = []
            for hidden_votes, single, evidence in trials:
                fit = single if n_profiles == 1 else with_profiles(evidence, single, n_profiles, settings, seed)
                parts.append(votes_log_likelihood(hidden_votes, fit.label_probs, single.state.belief))
            total: Array = np.sum(parts, axis=0)
            yield total

    return _NUMBERS_OF_PROFILES[choose_candidate(scores(), patience=_PATIENCE)]


def choose_candidate(
    scores: Iterable[Array], *, min_standard_errors: float = MIN_STANDARD_ERRORS, patience: int | None = None
) -> int:
    """Index of the best of several candidates; an earlier one unless a later one is clearly better.

    ``scores`` yields the log-likelihood per document of each candidate, simplest first. A candidate replaces the best
    so far if it is better by a nat and by ``min_standard_errors`` standard errors of the difference. After ``patience``
    failures in a row no further score is computed.
    """
    best, failures = 0, 0
    best_scores: Array | None = None
    for index, candidate_scores in enumerate(scores):
        if best_scores is None or _clearly_better(candidate_scores - best_scores, min_standard_errors):
            best, best_scores, failures = index, candidate_scores, 0
            continue
        failures += 1
        if failures == patience:
            break
    return best


def _clearly_better(gains: Array, min_standard_errors: float) -> bool:
    standard_error = float(np.std(gains) * np.sqrt(len(gains)))
    return float(gains.sum()) > max(min_standard_errors * standard_error, _MIN_GAIN)


def votes_log_likelihood(hidden: Votes, label_probs: Array, belief: AnnotatorBelief) -> Array:
    """(documents,): Σ log p(vote) over votes that ``label_probs`` does not depend on (maths, eq. 46)."""
    return HeldOutVotes(hidden, belief).log_likelihoods(label_probs)


class HeldOutVotes:
    """Votes that were hidden, to be predicted under several label probabilities.

    A vote is predicted from the probability of its label and the posterior mean rates of its annotator (maths, eq. 46).
    """

    def __init__(self, votes: Votes, belief: AnnotatorBelief) -> None:
        rates = mean_rates(belief)
        column = votes.label if rates.shape[1] > 1 else np.zeros_like(votes.label)
        specificity, sensitivity = (rates[votes.annotator, column, state] for state in (0, -1))
        is_yes = votes.value == 1
        self._votes = votes
        self._if_absent = np.where(is_yes, 1.0 - specificity, specificity)  # P(vote | absent)
        self._if_present = np.where(is_yes, sensitivity, 1.0 - sensitivity)

    def log_likelihoods(self, label_probs: Array) -> Array:
        """(documents,): log-likelihood of the votes under label probabilities (documents, classes)."""
        votes, present = self._votes, label_probs.ravel()[self._votes.pair]
        log_probs = np.log(self._if_absent + present * (self._if_present - self._if_absent))
        return np.bincount(votes.doc, log_probs, minlength=votes.n_docs).astype(np.float64, copy=False)


def vote_folds(votes: Votes, rng: np.random.Generator) -> NDArray[np.int64]:
    """(votes,): random fold of each vote; all votes of an annotator on a document are in the same fold."""
    pair = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    pairs, position = np.unique(pair, return_inverse=True)
    folds: NDArray[np.int64] = rng.integers(N_VOTE_FOLDS, size=len(pairs))[position]
    return folds


def with_useful_levels(
    votes: VoteRows,
    known: NDArray[np.int8],
    guess: Array,
    belief: AnnotatorBelief,
    settings: CrowdSettings,
    seed: int = 0,
) -> AnnotatorBelief:
    """The beliefs before the first vote, without the levels of soft votes unless these predict hidden votes better.

    The hard values of hidden votes are predicted from the other votes, once with their stated probabilities and once
    without; ``guess`` are initial labels. Where strengths depend on more than the label, such as the class, levels can
    do harm, above all on rare classes; then votes count as hard votes.
    """
    if belief.levels is None:
        return belief
    rng = np.random.default_rng(seed)
    rows = sample_documents(votes, rng)
    some, known, guess = votes.take(rows), known[rows], guess[rows]
    folds = vote_folds(some, rng)
    scores = np.zeros((2, some.n_docs))  # without levels, and with them
    model = settings.annotators
    for fold in range(min(_MAX_LEVEL_FOLDS, n_vote_folds(known.size))):
        hidden, shown = select_votes(some, folds == fold), select_votes(some, folds != fold)
        probs = start_label_probs(shown, known, guess, settings)
        first = belief if belief.has_history.any() else model.update(count_votes(model, shown, probs), belief)
        for candidate, levels in enumerate((None, belief.levels)):
            fit = fit_crowd(cut_votes(shown, known), start_state(replace(first, levels=levels), probs), settings)
            scores[candidate] += votes_log_likelihood(hidden, fit.label_probs, fit.state.belief)
    is_better = choose_candidate(scores, min_standard_errors=_LEVEL_STANDARD_ERRORS) == 1
    return belief if is_better else replace(belief, levels=None)


def select_votes(votes: Votes, chosen: NDArray[np.bool_]) -> Votes:
    """Some of the votes; documents, annotators and classes stay."""
    return votes.select(chosen)


def n_vote_folds(n_pairs: int) -> int:
    """Number of folds that are hidden in turn: fewer if there are many (document, class) pairs."""
    return max(1, min(N_VOTE_FOLDS, _MAX_PAIRS // n_pairs))


def sample_documents(votes: VoteRows, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sorted rows of the documents that the choice is made on: all of them unless they are too many."""
    max_docs = max(1, _MAX_PAIRS // votes.n_classes)
    if votes.n_docs <= max_docs:
        return np.arange(votes.n_docs)
    return np.sort(rng.choice(votes.n_docs, max_docs, replace=False))
