"""Annotator models: what votes say about labels, and what labels say about annotators.

All models are pure functions of votes, label probabilities and beliefs about annotators. ``OneCoinModel``,
``TwoCoinModel`` and ``PerClassModel`` hold Beta beliefs about each annotator's rates and differ only in which votes
share a rate; the default, ``SupportModel`` in support.py, has traits instead of rates. ``PublishedCoin`` is the model
of the paper, with a point estimate in place of a belief.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from palda.models.crowd.confidence import LevelBelief, level_evidence, shared_level_evidence, soft_votes
from palda.models.crowd.held_out import HeldOutVotes
from palda.models.crowd.pool import PSEUDO_ANNOTATOR, beta_divergence, expected_logs, fit_pool, pool_divergence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.crowd.annotator_history import AnnotatorHistory

_POOL_STEPS = 3  # Newton steps for the pool per EM iteration; the next iteration continues from the result
_MIN_POOL_GAIN = 1e-3  # nats that such a step must promise
_MIN_RATE = 1e-6  # ρ of the published model is maximised within [_MIN_RATE, 1 - _MIN_RATE]
_START_RATES = (0.7, 0.3)  # rates of correct and wrong votes before the first vote: a little better than chance


class VoteEvidence(NamedTuple):
    """Log-likelihood (documents, classes) of the votes if the class is present, and if it is absent.

    For models that hold beliefs about rates, this is the expected log-likelihood.
    """

    present: Array
    absent: Array

    @property
    def log_odds(self) -> Array:
        """Evidence (documents, classes) for "present" in nats; 0 where nobody voted."""
        return self.present - self.absent

    def joined(self, other: Array | None) -> VoteEvidence:
        """With other evidence for "present" in nats."""
        return self if other is None else self._replace(present=self.present + other)


@dataclass(frozen=True)
class AnnotatorBelief:
    """Beta beliefs about rates; the last axis holds pseudo-counts of (correct, wrong) votes.

    The axes between the first and the last say which votes share a rate: none for one rate per annotator, the state of
    the class (absent, present) for two coins, class and state for rates per class.
    """

    posterior: Array  # (annotators, ..., 2): q(rate)
    pool: Array  # (..., 2): the prior that annotators without a history share
    own: Array  # (annotators, ..., 2): the prior of annotators with a history, NaN for the others
    levels: LevelBelief | None = None  # what stated probabilities are worth; None if all votes are hard

    @property
    def has_history(self) -> NDArray[np.bool_]:
        """(annotators,): whether an annotator has a prior of their own and does not inform the pool."""
        return ~np.isnan(self.own.reshape(len(self.own), -1)[:, 0])

    @property
    def prior(self) -> Array:
        """(annotators, ..., 2): each annotator's prior."""
        return np.where(np.isnan(self.own), self.pool, self.own)

    def rates_of_classes(self) -> Array:
        """(annotators, classes or 1, states or 1, 2): beliefs about the rates in each class, for reports."""
        return by_class_and_state(self.posterior)

    def rates_over_classes(self) -> Array:
        """(annotators, states or 1, 2): beliefs about each annotator's mean rates over all votes.

        The votes of all classes, and the pool's prior once instead of once per class. An annotator who is good at one
        class is mostly good at the others, and one prior per class would outweigh few votes on many classes.
        """
        posterior = by_class_and_state(self.posterior)
        pool = by_class_and_state(self.pool[None])
        surplus = pool.sum(axis=1) - pool.mean(axis=1)
        rates: Array = posterior.sum(axis=1) - np.where(self.has_history[:, None, None], 0.0, surplus)
        return rates

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Beliefs about other annotators, or in another order; each has that of the annotator at a position."""
        levels = None if self.levels is None else self.levels.take(rows)
        return replace(self, posterior=self.posterior[rows], own=self.own[rows], levels=levels)

    def with_new_annotators(self, families: NDArray[np.int64]) -> AnnotatorBelief:
        """The same beliefs plus annotators who start with the pool's prior.

        ``families`` (new annotators,) are those of models, -1 for people; most annotator models take all as people.
        """
        n_new = len(families)
        pool = np.broadcast_to(self.pool, (n_new, *self.pool.shape))
        return AnnotatorBelief(
            np.concatenate((self.posterior, pool)),
            self.pool,
            np.concatenate((self.own, np.full(pool.shape, np.nan))),
            None if self.levels is None else self.levels.with_new_sources(n_new),
        )


class AnnotatorModel(Protocol):
    """What EM needs of an annotator model.

    The bound of the labels under ``evidence``, minus ``divergence``, never decreases when label updates and ``update``
    alternate.
    """

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:
        """Beliefs before the first vote: a little better than chance, or the annotators' history."""

    def log_rates(self, belief: AnnotatorBelief) -> Array:
        """(annotators, classes or 1, states or 1, 2): logarithms of the rates of correct and wrong votes."""

    def evidence(self, votes: Votes, belief: AnnotatorBelief, other: Array | None = None) -> VoteEvidence:
        """Log-likelihoods of the votes and of other evidence for each label.

        ``other`` (documents, classes) is what a classifier adds: nats for "present", or an answer about the support.
        """

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """Expected (correct, wrong) votes behind each rate; counts of two shards add up."""

    def counts(self, n_votes: Array, present_votes: Array) -> Array:
        """The same, from the votes per annotator, class and value: their number, and how many are on present classes.

        Both tables are (annotators, classes or 1, 2).
        """

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """Beliefs that maximise the bound, given the counts."""

    def divergence(self, belief: AnnotatorBelief) -> float:
        """Cost of the beliefs in the bound, in nats."""

    def held_out(self, hidden: Votes, visible: Votes, belief: AnnotatorBelief) -> HeldOutVotes:
        """Probabilities of hidden votes in each state of their labels, given the visible votes on them."""


class CoinModel:
    """A vote is correct with its annotator's rate; subclasses say which votes share a rate (maths, eq. 36).

    q(rate) = Beta(prior + expected correct votes, prior + expected wrong votes). The prior is shared by all annotators
    and learned from them (partial pooling), so three correct votes do not make a rate of 1. Rates below ½ are allowed:
    the votes of an annotator who is mostly wrong count with inverted sign.
    """

    by_class: ClassVar[bool]
    by_state: ClassVar[bool]

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:
        """The pool's initial prior for everybody, except those with a history.

        That prior is better than chance. Votes alone cannot tell a crowd from its mirror image, in which every
        annotator is wrong and every label is inverted.
        """
        shape = (n_classes,) * self.by_class + (2,) * self.by_state
        pool = np.broadcast_to(PSEUDO_ANNOTATOR, (*shape, 2)).copy()
        own = np.full((n_annotators, *shape, 2), np.nan) if prior is None else prior.betas(shape)
        if len(own) != n_annotators:
            raise ValueError(f"the annotator prior has {len(own)} annotators, but the votes have {n_annotators}")
        return AnnotatorBelief(np.where(np.isnan(own), pool, own), pool, own)

    def log_rates(self, belief: AnnotatorBelief) -> Array:
        """E[log rate] of correct and wrong votes."""
        return by_class_and_state(expected_logs(belief.posterior))

    def evidence(self, votes: Votes, belief: AnnotatorBelief, other: Array | None = None) -> VoteEvidence:
        """Σ_k E[log p(vote | λ)] over the votes that exist (maths, eqs. 37 and 73), and other evidence."""
        return with_levels(_vote_evidence(votes, self.log_rates(belief)), votes, belief.levels).joined(other)

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """(annotators, ..., 2): expected correct and wrong votes behind each rate (maths, eq. 38)."""
        return self.counts(*_cell_sums(votes, label_probs, by_class=self.by_class))

    def counts(self, n_votes: Array, present_votes: Array) -> Array:
        """The same, from votes per annotator, class and value."""
        counts = _correct_and_wrong(n_votes, present_votes)
        if not self.by_class:
            counts = counts[:, 0]
        return counts if self.by_state else counts.sum(axis=-2)

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """The pool's prior and all posteriors; annotators with a history keep their prior (maths, eqs. 38 and 39)."""
        pooled = counts[~belief.has_history]
        before = belief.pool.reshape(-1, 2)
        pool = fit_pool(pooled.reshape(len(pooled), *before.shape), before, _POOL_STEPS, _MIN_POOL_GAIN)
        pool = pool.reshape(belief.pool.shape)
        return replace(belief, posterior=np.where(np.isnan(belief.own), pool, belief.own) + counts, pool=pool)

    def divergence(self, belief: AnnotatorBelief) -> float:
        """KL divergence of all rates from their priors, the pool's pseudo-annotator included (maths, eq. 40)."""
        return beta_divergence(belief.posterior, belief.prior) + pool_divergence(belief.pool)

    def held_out(self, hidden: Votes, visible: Votes, belief: AnnotatorBelief) -> HeldOutVotes:  # noqa: ARG002 - the protocol's
        """Votes are independent given the labels, whatever else was voted."""
        return HeldOutVotes.independent(hidden, belief)


class OneCoinModel(CoinModel):
    """One rate per annotator: P(vote is correct), whatever the class and the truth.

    It does not detect an annotator who always votes "no" where classes are rare: most of those votes are correct.
    """

    by_class = False
    by_state = False


class TwoCoinModel(CoinModel):
    """Sensitivity P(vote 1 | present) and specificity P(vote 0 | absent), the same for all classes.

    People overlook labels far more often than they invent them; a single rate cannot express that.
    """

    by_class = False
    by_state = True


class PerClassModel(CoinModel):
    """Sensitivity and specificity of each annotator for each class, with a pool per class and state."""

    by_class = True
    by_state = True


class PublishedCoin:
    """ρ_k = P(vote of annotator k equals the truth), at its maximum likelihood (maths, eq. 15).

    Its "posterior" holds ρ N and (1 - ρ) N for N votes. Only their ratio is used, and it costs nothing in the bound.
    """

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:  # noqa: ARG002 - the protocol's
        """Every annotator a little better than chance."""
        if prior is not None:
            raise ValueError("the published model takes no annotator prior; choose 'one_coin' or 'two_coin' annotators")
        rates = np.tile(_START_RATES, (n_annotators, 1))
        return AnnotatorBelief(rates, np.array(_START_RATES), np.full_like(rates, np.nan))

    def log_rates(self, belief: AnnotatorBelief) -> Array:
        """log ρ and log(1 - ρ)."""
        rates = belief.posterior / belief.posterior.sum(axis=-1, keepdims=True)
        return by_class_and_state(np.log(rates))

    def evidence(self, votes: Votes, belief: AnnotatorBelief, other: Array | None = None) -> VoteEvidence:
        """Σ_k log p(vote | λ) over the votes that exist (maths, eqs. 6 and 73), and other evidence."""
        return with_levels(_vote_evidence(votes, self.log_rates(belief)), votes, belief.levels).joined(other)

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """(annotators, 2): expected numbers of correct and wrong votes."""
        return self.counts(*_cell_sums(votes, label_probs, by_class=False))

    def counts(self, n_votes: Array, present_votes: Array) -> Array:
        """The same, from votes per annotator and value."""
        counts: Array = _correct_and_wrong(n_votes, present_votes).sum(axis=(1, 2))
        return counts

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """ρ = correct votes / votes; annotators without votes keep their rate."""
        total = counts.sum(axis=-1, keepdims=True)
        rates = np.clip(counts / np.maximum(total, np.finfo(float).tiny), _MIN_RATE, 1.0 - _MIN_RATE)
        return replace(belief, posterior=np.where(total > 0, rates * total, belief.posterior))

    def divergence(self, belief: AnnotatorBelief) -> float:  # noqa: ARG002 - the protocol's
        """0: a point estimate has no divergence."""
        return 0.0

    def held_out(self, hidden: Votes, visible: Votes, belief: AnnotatorBelief) -> HeldOutVotes:  # noqa: ARG002 - the protocol's
        """Votes are independent given the labels, whatever else was voted."""
        return HeldOutVotes.independent(hidden, belief)


def by_class_and_state(table: Array) -> Array:
    """The table as (annotators, classes or 1, states or 1, 2); an axis that votes share has length 1."""
    n_annotators, *between, last = table.shape
    return table.reshape(n_annotators, *(1,) * (2 - len(between)), *between, last)


def mean_rates(belief: AnnotatorBelief) -> Array:
    """Posterior means of the rates, (annotators, classes or 1, states or 1)."""
    rates = by_class_and_state(belief.posterior)
    means: Array = rates[..., 0] / rates.sum(axis=-1)
    return means


def _vote_evidence(votes: Votes, log_rates: Array) -> VoteEvidence:
    """Sums of log-rates over the votes that exist, per (document, class).

    ``log_rates`` is (annotators, classes or 1, states or 1, 2): logarithms of the rates of correct and wrong votes.
    """
    cell = _vote_cells(votes, log_rates.shape[1])
    if_absent = log_rates[:, :, 0, :]  # "no" (0) is correct, "yes" (1) is wrong
    if_present = log_rates[:, :, -1, ::-1]
    n_pairs = votes.n_docs * votes.n_classes
    present, absent = (
        np.bincount(votes.pair, table.ravel()[cell], minlength=n_pairs).astype(np.float64, copy=False)
        for table in (if_present, if_absent)
    )
    shape = votes.n_docs, votes.n_classes
    return VoteEvidence(present.reshape(shape), absent.reshape(shape))


def with_levels(
    evidence: VoteEvidence, votes: Votes, levels: LevelBelief | None, *, shared: bool = False
) -> VoteEvidence:
    """The evidence of the votes' values plus that of their levels; unchanged without levels.

    With ``shared``, all levels of a label count as little as ``shared_level_evidence`` says.
    """
    if levels is None:
        return evidence
    soft, evidence_of = soft_votes(votes, levels), shared_level_evidence if shared else level_evidence
    present, absent = (
        table + evidence_of(soft, levels.log_probs[:, :, state], table.shape)
        for table, state in ((evidence.present, 1), (evidence.absent, 0))
    )
    return VoteEvidence(present, absent)


def votes_per_cell(votes: Votes, n_columns: int) -> Array:
    """(annotators, classes or 1, 2): number of votes per annotator, class if there is more than a column, and value."""
    shape = (votes.n_annotators, n_columns, 2)
    n_votes = np.bincount(_vote_cells(votes, n_columns), minlength=int(np.prod(shape)))
    return n_votes.reshape(shape).astype(np.float64)


def _cell_sums(votes: Votes, label_probs: Array, *, by_class: bool) -> tuple[Array, Array]:
    """(annotators, classes or 1, 2): number of votes per cell, and the expected number on classes that are present."""
    shape = (votes.n_annotators, votes.n_classes if by_class else 1, 2)
    cell = _vote_cells(votes, shape[1])
    n_votes = np.bincount(cell, minlength=int(np.prod(shape)))
    present = np.bincount(cell, np.ravel(label_probs)[votes.pair], minlength=len(n_votes))
    return n_votes.reshape(shape).astype(np.float64), present.reshape(shape).astype(np.float64, copy=False)


def _correct_and_wrong(n_votes: Array, present_votes: Array) -> Array:
    """Expected numbers of votes, (annotators, classes or 1, states, 2): absent or present, correct or wrong."""
    absent_votes = np.maximum(n_votes - present_votes, 0.0)  # a difference of sums may fall below 0 by rounding
    return np.stack((absent_votes, present_votes[..., ::-1]), axis=2)


def _vote_cells(votes: Votes, n_classes: int) -> NDArray[np.int64]:
    """Flat index of each vote in a table (annotators, classes or 1, vote value)."""
    cell = votes.annotator.astype(np.int64)
    if n_classes > 1:
        cell *= n_classes
        cell += votes.label
    cell *= 2
    cell += votes.value
    return cell
