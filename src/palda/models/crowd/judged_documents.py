"""How correct the votes of an annotator on each judged document are, compared with constant rates.

A judged document is one document with all votes of one annotator on it. Votes on classes of one document may go
together, so they are summed and never treated as independent. A vote is compared with the consensus without that vote
(maths, eq. 75). Its scores are the derivatives of its log-likelihood in the log-odds of the annotator's rates: 1 - rate
for a correct vote and -rate for a wrong one on a label that is certain, about 0 on a label that is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit

from palda.data import even_ranges
from palda.models.crowd.annotator_model import by_class_and_state, mean_rates
from palda.models.crowd.confidence import soft_votes
from palda.models.crowd.pool import expected_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief

_VOTES_PER_BLOCK = 100_000
_MIN_PROB = 1e-9  # of either value of a vote
_CLASS_PRIOR_VOTES = 10.0  # votes that pull an annotator's rates in a class towards the rates of the belief
_MAX_CLASS_CELLS = 10_000_000  # of the table (annotators, classes); larger ones are not made
_PRIOR_VOTES = 4.0  # votes per state that pull the rates in a period towards the mean rates
_MIN_RATE = 1e-3


@dataclass(frozen=True)
class JudgedDocuments:
    """Judged documents with a time, sorted by annotator and time; states are (absent, present).

    The judged documents of annotator k are rows ``starts[k]:starts[k + 1]``.
    """

    time: Array  # (judged documents,): of the first vote
    scores: Array  # (judged documents, states): correct minus expected, summed over votes (maths, eq. 76)
    slopes: Array  # (judged documents, states, states): -∂ scores / ∂ rates
    starts: NDArray[np.int64]  # (annotators + 1,)
    rates: Array  # (annotators, states): mean rates, specificity and sensitivity
    present_share: Array  # (annotators,): expected share of votes on labels that are present

    def of(self, annotator: int) -> Series:
        """Judged documents of one annotator, in the order of time."""
        rows = slice(int(self.starts[annotator]), int(self.starts[annotator + 1]))
        return Series(self.time[rows], self.scores[rows], self.slopes[rows])

    @property
    def n_docs(self) -> NDArray[np.int64]:
        """(annotators,): number of judged documents."""
        return np.diff(self.starts)


class Series(NamedTuple):
    """Judged documents of one annotator, or blocks of consecutive ones, in the order of time."""

    time: Array
    scores: Array
    slopes: Array

    def rows(self, first: int, stop: int) -> Series:
        """Some consecutive judged documents."""
        return Series(self.time[first:stop], self.scores[first:stop], self.slopes[first:stop])

    def blocks(self, max_blocks: int) -> tuple[Series, NDArray[np.int64]]:
        """Sums over at most ``max_blocks`` blocks of consecutive documents, and the first document of each block."""
        n_docs = len(self.time)
        n_blocks = min(n_docs, max_blocks)
        first = np.arange(n_blocks) * n_docs // max(n_blocks, 1)
        if n_blocks == n_docs:
            return self, first
        return Series(self.time[first], np.add.reduceat(self.scores, first), np.add.reduceat(self.slopes, first)), first


class LocalRates(NamedTuple):
    """Rates in some periods, (periods, states), and their covariance (periods, states, states)."""

    rates: Array
    covariance: Array


def local_rates(series: Series, weights: Array, mean: Array) -> LocalRates:
    """Rates of one annotator under weights (periods, judged documents) (maths, eq. 78).

    One Newton step from the mean rates (states,), which is exact where the labels are certain. The covariance uses the
    scatter of judged documents, so that it also holds if the votes on a document are alike.
    """
    prior = _PRIOR_VOTES * np.eye(2)
    shift = np.linalg.solve(
        np.einsum("pn,nij->pij", weights, series.slopes) + prior, (weights @ series.scores)[..., None]
    )[..., 0]
    rates = np.clip(mean + shift, _MIN_RATE, 1.0 - _MIN_RATE)
    residuals = series.scores - np.einsum("nij,pj->pni", series.slopes, rates - mean)
    scatter = np.einsum("pn,pni,pnj->pij", weights**2, residuals, residuals)
    scatter += prior * (rates * (1.0 - rates))[:, None, :]
    inverse = np.linalg.inv(np.einsum("pn,nij->pij", weights, series.slopes) + prior)
    return LocalRates(rates, inverse @ scatter @ np.swapaxes(inverse, 1, 2))


def own_evidence(votes: Votes, belief: AnnotatorBelief) -> Array:
    """(votes,): what each vote adds to the log-odds of its label, in nats, under beliefs about rates and levels."""
    log_rates = by_class_and_state(expected_logs(belief.posterior))
    log_ratios = log_rates[:, :, -1, ::-1] - log_rates[:, :, 0]  # (annotators, classes or 1, vote value)
    column = votes.label if log_ratios.shape[1] > 1 else np.zeros_like(votes.label)
    evidence: Array = log_ratios[votes.annotator, column, votes.value]
    if belief.levels is not None:
        is_soft = belief.levels.row[votes.annotator] >= 0
        evidence[is_soft] += belief.levels.log_ratios.ravel()[soft_votes(votes, belief.levels).cell]
    return evidence


def judged_documents(
    votes: Votes, label_probs: Array, belief: AnnotatorBelief, own: Array | None = None
) -> JudgedDocuments:
    """Scores of all judged documents whose time is known, given the consensus and the annotators' rates.

    ``own`` (votes,) is what each vote added to the log-odds in the consensus, by default that under ``belief``. Votes
    are compared with the rates of their annotator and class, estimated here if the annotator model has none by class:
    an annotator who judges one class first and another one later is not mistaken for one who changes.
    """
    if not len(votes.time):
        votes = votes.take(slice(0, 0))
    scored = _ScoredVotes(votes, label_probs, belief, own)
    n_annotators = votes.n_annotators
    shift, rates, present_share = _class_shifts(scored, n_annotators, votes.n_classes)
    parts = [_document_sums(block, shift) for block in scored.blocks()]
    annotator, first_time, scores, slopes = (np.concatenate(column) for column in zip(*parts, strict=True))
    known = ~np.isnan(first_time)
    order = np.flatnonzero(known)[np.lexsort((first_time[known], annotator[known]))]
    return JudgedDocuments(
        first_time[order],
        scores[order],
        slopes[order],
        np.searchsorted(annotator[order], np.arange(n_annotators + 1)).astype(np.int64),
        rates,
        present_share,
    )


class _Block(NamedTuple):
    """Votes on some documents; tables are (votes, states)."""

    votes: Votes
    present: Array  # (votes,): probability that the label is present, without this vote
    rates: Array  # of the belief
    weights: Array  # of the residual in each score
    residual: Array  # (votes,): vote minus its expectation


class _ScoredVotes:
    """Votes with their scores, one block of documents at a time."""

    def __init__(self, votes: Votes, label_probs: Array, belief: AnnotatorBelief, own: Array | None = None) -> None:
        self._votes, self._label_probs, self._belief, self._own = votes, label_probs, belief, own
        rates = mean_rates(belief)
        self._rates = np.stack((rates[..., 0], rates[..., -1]), axis=-1)  # (annotators, classes or 1, states)

    def blocks(self) -> Iterator[_Block]:
        votes = self._votes
        for first, stop in even_ranges(votes.doc_starts, 1 + len(votes) // _VOTES_PER_BLOCK):
            some = votes.take(slice(first, stop))
            rows = slice(int(votes.doc_starts[first]), int(votes.doc_starts[stop]))
            own = own_evidence(some, self._belief) if self._own is None else self._own[rows]
            yield self._scored(some, self._label_probs[first:stop], own)

    def _scored(self, votes: Votes, label_probs: Array, own: Array) -> _Block:
        column = votes.label if self._rates.shape[1] > 1 else np.zeros_like(votes.label)
        present = expit(logit(label_probs.ravel()[votes.pair]) - own)
        rates = self._rates[votes.annotator, column]
        by_rate = np.stack((present - 1.0, present), axis=-1)  # ∂ P(yes) / ∂ (specificity, sensitivity)
        prob_yes = np.clip(present * rates[:, 1] + (1.0 - present) * (1.0 - rates[:, 0]), _MIN_PROB, 1.0 - _MIN_PROB)
        weights = by_rate * rates * (1.0 - rates) / (prob_yes * (1.0 - prob_yes))[:, None]
        return _Block(votes, present, rates, weights, votes.value - prob_yes)


def _slopes(block: _Block) -> Array:
    """(votes, states, states): weights times the derivatives of P(yes)."""
    by_rate = np.stack((block.present - 1.0, block.present), axis=-1)
    slopes: Array = block.weights[:, :, None] * by_rate[:, None, :]
    return slopes


def _class_shifts(scored: _ScoredVotes, n_annotators: int, n_classes: int) -> tuple[Array, Array, Array]:
    """Difference (annotators, classes or 1, states) of an annotator's rates in a class from those of the belief.

    Also each annotator's mean rates (annotators, states) and share of votes on labels that are present.
    """
    n_columns = n_classes if n_annotators * n_classes <= _MAX_CLASS_CELLS else 1
    shape = (n_annotators * n_columns, 2)
    scores, slopes, n_votes, rate_sums = (np.zeros(shape) for _ in range(4))
    for block in scored.blocks():
        cell = _cells(block.votes, n_columns)
        in_state = np.stack((1.0 - block.present, block.present), axis=-1)
        own_slopes = _slopes(block)
        for state in range(2):
            for table, values in (
                (scores, block.weights[:, state] * block.residual),
                (slopes, own_slopes[:, state, state]),
                (n_votes, in_state[:, state]),
                (rate_sums, in_state[:, state] * block.rates[:, state]),
            ):
                table[:, state] += np.bincount(cell, values, minlength=shape[0])
    shift = scores / (slopes + _CLASS_PRIOR_VOTES)
    totals = ((rate_sums + n_votes * shift), n_votes)
    of_annotator, state_votes = (table.reshape(n_annotators, n_columns, 2).sum(axis=1) for table in totals)
    rates = np.where(state_votes > 0, of_annotator / np.where(state_votes > 0, state_votes, 1.0), 0.5)
    n_all = state_votes.sum(axis=1)
    present_share = np.where(n_all > 0, state_votes[:, 1] / np.where(n_all > 0, n_all, 1.0), 0.5)
    return shift.reshape(n_annotators, n_columns, 2), np.clip(rates, _MIN_RATE, 1.0 - _MIN_RATE), present_share


def _cells(votes: Votes, n_columns: int) -> NDArray[np.int64]:
    cell = votes.annotator.astype(np.int64) * n_columns
    return cell + votes.label if n_columns > 1 else cell


def _document_sums(block: _Block, shift: Array) -> tuple[NDArray[np.int32], Array, Array, Array]:
    """Annotator, time, scores and slopes of each judged document; votes are sorted by document and annotator."""
    votes = block.votes
    if not len(votes):
        return votes.annotator, np.empty(0), np.empty((0, 2)), np.empty((0, 2, 2))
    is_first = np.ones(len(votes), dtype=bool)
    is_first[1:] = (votes.doc[1:] != votes.doc[:-1]) | (votes.annotator[1:] != votes.annotator[:-1])
    first = np.flatnonzero(is_first)
    slopes = _slopes(block)
    column = votes.label if shift.shape[1] > 1 else np.zeros_like(votes.label)
    scores = block.weights * block.residual[:, None]
    scores -= np.einsum("nij,nj->ni", slopes, shift[votes.annotator, column])
    return (
        votes.annotator[first],
        np.fmin.reduceat(votes.time, first),
        np.add.reduceat(scores, first),
        np.add.reduceat(slopes, first),
    )
