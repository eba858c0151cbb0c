"""The number of label-set profiles, chosen by how well hidden votes are predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from palda.models.crowd.em import (
    cut_votes,
    first_state,
    fit_crowd,
    votes_as_evidence,
    with_profiles,
)
from palda.models.crowd.held_out import HeldOutVotes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief
    from palda.models.crowd.em import CrowdFit, CrowdSettings, VoteShard

MIN_STANDARD_ERRORS = 2.0
"""Standard errors by which a more complex candidate must predict better, by default."""

N_VOTE_FOLDS = 5
"""Folds of the (document, annotator) pairs; each in turn is hidden while the others are learned from."""

_NUMBERS_OF_PROFILES = (1, 2, 4, 8, 15, 25)  # tried in this order
_PATIENCE = 2  # candidates in a row that may fail before the search stops
_MIN_GAIN = 1.0  # nats, so that rounding never decides
_MAX_LEVEL_FOLDS, _LEVEL_STANDARD_ERRORS = 2, 1.0  # for the choice between soft and hard votes
_MAX_PAIRS = 500_000  # (document, class) pairs that the choice is made on
_MIN_PROFILE_FOLDS, _MAX_TRIAL_PAIRS = 2, 100_000
"""Folds of hidden votes on which numbers of profiles are compared: more if their (document, class) pairs are not many.

With two of five folds, five seeds gave csta with three answers, and premo with few people, one profile or two. Each
fold has one start: with the best of four, hin got four profiles instead of two, and -.093 instead of -.090 nats.
"""

_MIN_INFORMED = 0.15  # informedness of annotators in whose votes classes may go together
_RATE_VOTES = 4.0  # pseudo-votes of an annotator at the rate of the class

BETWEEN_ANNOTATORS = (0.7, 1.7)
"""Range of ``between_annotators`` for several profiles.

It is .84 to 1.02 on simulated crowds, .91 on hin, .79 on premo, and 1.26 and 1.45 on csta with three answers, where
profiles help against a reference (csta: .03 and .04 nats per label). Where they do harm, it is .22 to .29 (arq), .46
(ambient, whose linguists tick one label), .68 (three raters of so_emotions, against their own majority), and 1.97 and
2.09 (csta with 12 to 24 answers: .02 and .05 nats).
"""


def choose_n_profiles(
    votes: VoteRows, known: NDArray[np.int8], fit: CrowdFit, settings: CrowdSettings, *, seed: int = 0
) -> int:
    """Number of profiles that predicts hidden votes best; fewer unless more are clearly better.

    All votes of an annotator on a document are hidden together, for one fifth of these pairs, and predicted from the
    others. (With single votes hidden, profiles would gain by learning how an annotator's votes on one document go
    together, which is not a property of the document.) The annotators are those of ``fit``, which has one profile, so
    that the choice cannot trade annotator behaviour for label sets. Without ``has_shared_sets`` there is one profile.
    Callers leave ``seed`` as it is: where numbers predict about equally well, labels should not depend on their seed.
    """
    if votes.n_classes < 2 or not len(votes):
        return 1
    rng = np.random.default_rng(seed)
    rows = sample_documents(votes, rng)
    votes, known = votes.take(rows), known[rows]
    if not has_shared_sets(votes, fit.state.belief):
        return 1
    folds = vote_folds(votes, rng)
    trials: list[tuple[HeldOutVotes, list[VoteShard]]] = []
    belief = fit.state.belief
    n_folds = max(min(n_vote_folds(known.size), _MIN_PROFILE_FOLDS), min(N_VOTE_FOLDS, _MAX_TRIAL_PAIRS // known.size))
    for fold in range(n_folds):
        visible, hidden = select_votes(votes, folds != fold), select_votes(votes, folds == fold)
        shards = votes_as_evidence(cut_votes(visible, known), belief, settings)
        trials.append((settings.annotators.held_out(hidden, visible, belief), shards))

    def scores() -> Iterator[Array]:
        """Log-likelihood of the hidden votes per document, for each number of profiles."""
        for n_profiles in _NUMBERS_OF_PROFILES:
            parts = []
            for hidden_votes, evidence in trials:
                if n_profiles == 1:
                    probs = fit_crowd(evidence, fit.state, replace(settings, learn_profiles=False)).label_probs
                else:
                    probs = with_profiles(evidence, fit, n_profiles, settings, seed).label_probs
                parts.append(hidden_votes.log_likelihoods(probs))
            total: Array = np.sum(parts, axis=0)
            yield total

    return _NUMBERS_OF_PROFILES[choose_candidate(scores(), patience=_PATIENCE)]


def has_shared_sets(votes: Votes, belief: AnnotatorBelief) -> bool:
    """Whether classes go together between annotators about as much as within their answers.

    If not, several profiles would learn a habit of answering, such as to tick one label only.
    """
    low, high = BETWEEN_ANNOTATORS
    return low <= between_annotators(votes, belief) <= high


def between_annotators(votes: Votes, belief: AnnotatorBelief) -> float:
    """How far classes that go together within answers do so between annotators; 1 if votes are independent.

    The product of residuals of two classes is averaged over the answers of one annotator to one document (within), and
    over pairs of annotators of one document (between), each relative to how informed the annotators are. Given the
    labels, votes of one annotator on two classes should be as independent as those of two annotators. The result is the
    slope of "between" on "within" over all pairs of classes; it is estimated on halves of the documents, so that noise
    in "within" does not lower it.
    """
    rates = belief.rates_over_classes()
    informed = (rates[..., 0] / rates.sum(axis=-1)).sum(axis=1) - 1.0 if rates.shape[1] == 2 else None
    if informed is not None and (informed > _MIN_INFORMED).any():  # liars and random voters only add noise
        votes = votes.select((informed > _MIN_INFORMED)[votes.annotator])
    cell = votes.annotator.astype(np.int64) * votes.n_classes + votes.label
    shape = votes.n_annotators, votes.n_classes
    n_votes, n_yes = (np.bincount(cell, weights, shape[0] * shape[1]).reshape(shape) for weights in (None, votes.value))
    share_yes = n_yes.sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1)
    expected = (n_yes + _RATE_VOTES * share_yes) / (n_votes + _RATE_VOTES)
    residual = votes.value - expected[votes.annotator, votes.label]
    loading = np.ones(len(residual)) if informed is None else informed[votes.annotator]
    answer, place = np.unique(votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator, return_inverse=True)
    doc = answer // votes.n_annotators
    pairs = np.triu_indices(votes.n_classes, 1)

    def products(values: Array, rows: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Sums over answers, and over pairs of answers to one document, of products of two classes."""
        table = sparse.csr_matrix((values * rows[place], (place, votes.label)), shape=(len(answer), votes.n_classes))
        by_doc = sparse.csr_matrix((np.ones(len(doc)), (doc, np.arange(len(doc)))), shape=(votes.n_docs, len(doc)))
        within, both = ((part.T @ part).toarray()[pairs] for part in (table, by_doc @ table))
        return within, both - within

    halves = []
    for half in (0, 1):
        rows = doc % 2 == half
        found, norms = products(residual, rows), products(loading, rows)
        halves.append([sums / np.maximum(norm, 1e-9) for sums, norm in zip(found, norms, strict=True)])
    (within_one, between_one), (within_two, between_two) = halves
    scale = float(np.sum(within_one * within_two))
    if scale <= 0.0:
        return 1.0
    return float(np.sum(within_one * between_two) + np.sum(within_two * between_one)) / (2.0 * scale)


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
    return HeldOutVotes.independent(hidden, belief).log_likelihoods(label_probs)


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
    for fold in range(min(_MAX_LEVEL_FOLDS, n_vote_folds(known.size))):
        hidden, shown = select_votes(some, folds == fold), select_votes(some, folds != fold)
        first = first_state(shown, known, guess, replace(belief, levels=None), settings)
        for candidate, levels in enumerate((None, belief.levels)):
            start = replace(first, belief=replace(first.belief, levels=levels))
            fit = fit_crowd(cut_votes(shown, known), start, settings)
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
