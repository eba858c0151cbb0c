"""Online EM: natural-gradient steps over minibatches.

A step moves the statistics towards those of a minibatch, scaled to all documents; parameters are those of the M-step
under this moving average (maths, eqs. 56 and 57). A pass reads every document once, like an iteration of batch EM, but
takes many steps: a few passes reach what batch EM needs dozens of iterations for. Steps are long and therefore noisy.
A pass ends with the M-step under the sum of all statistics it has read, which is not.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from palda.engine import tree_sum
from palda.kernels import Bags
from palda.models.topics.e_step import lower_bound, total_statistics
from palda.models.topics.m_step import implied_stats, update_params
from palda.models.topics.shards import DocumentShard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palda.data import Array
    from palda.models.topics.em import EMSettings
    from palda.models.topics.parameters import Params, SufficientStats

_FIRST_STEP, _FORGETTING, _STEPS_PER_PASS, _LONG_PASSES = 0.5, 0.51, 48, 5
"""ρ of the first step, κ, the steps per pass, and the passes after which steps have shrunk by 2^-κ.

Chosen on training documents of enron (800 for training, 300 for evaluation) and of Reuters (4000 and 1000; 600 and
300). Held-out bound after five passes, in percent below that of batch EM with a tolerance of 1e-4, which needs 87, 123
and 75 iterations (joint, smoothed, known labels): .5, .9 and 0. With 32 steps per pass .7, 1.2 and -.1, with 64 .5, .7
and 0 for a quarter more time; with a first step of .3 1.7, 1.0 and -.3, of .6 .3, .8 and .4. Steps that shrink at once,
(k + 1)^-κ, and the parameters of the last step: 3.5, 1.9 and 2.7. κ must be above ½ for steps to converge.
"""
_PRIOR_UPDATES = 4
"""Updates of η per pass. Updated at every step it runs ahead of topics that are not sharp yet and ends at the limits of
its range on enron and Reuters; updated once per pass it is slow (Reuters: 1.5 instead of 1.1)."""
_PIECES_PER_STEP = 2  # at least, so that two cores are busy
_MIN_DOCS = 12  # per piece


def _step_size(step: int) -> float:
    """ρ of a step, counted from 1 (maths, eq. 56)."""
    return float(_FIRST_STEP * (1.0 + (step - 1) / (_LONG_PASSES * _STEPS_PER_PASS)) ** -_FORGETTING)


class OnlinePasses:
    """A run of online EM. Minibatches stay the same; their order is drawn in every pass."""

    def __init__(self, shards: Sequence[DocumentShard], start: Params, settings: EMSettings) -> None:
        self.settings, self.params = settings, start
        pieces = cut_pieces(shards, _PIECES_PER_STEP * _STEPS_PER_PASS)
        self.rng = np.random.default_rng(settings.online_seed)
        self.n_docs = sum(len(piece.known) for piece in pieces)
        self.mean = implied_stats(start, self.n_docs, sum(float(piece.bags.counts.sum()) for piece in pieces))
        n_minibatches = max(1, min(_STEPS_PER_PASS, len(pieces) // _PIECES_PER_STEP))
        self.minibatches = [
            settings.engine.place([pieces[k] for k in chosen])
            for chosen in np.array_split(self.rng.permutation(len(pieces)), n_minibatches)
        ]
        self.n_steps = 0
        self.votes: dict[int, tuple[int, Array]] = {}  # per minibatch: its documents, and its latest vote counts

    def run_pass(self) -> tuple[Params, SufficientStats, float, bool]:
        """Parameters of all that the pass read, its statistics and bound, and whether Newton's method converged.

        The bound is an estimate: each document's part belongs to the parameters of the step that read it, before it
        was learned from (maths, eq. 58).
        """
        absent, converged = [], []

        def steps() -> Iterator[SufficientStats]:
            for number in self.rng.permutation(len(self.minibatches)):
                base_rates = self.params.class_prior
                stats, newton_converged = self._step(int(number))
                absent.append(stats.n_docs * float(np.log1p(-base_rates).sum()))
                converged.append(newton_converged)
                yield stats

        total = tree_sum(steps())
        params, newton_converged = update_params(self.params, total, self.settings)
        bound = lower_bound(replace(total, n_docs=0), params, self.settings.annotators) + sum(absent)
        return params, total, bound, all(converged) and newton_converged

    def _step(self, number: int) -> tuple[SufficientStats, bool]:
        """One step towards a minibatch; returns the minibatch's statistics and whether Newton's method converged."""
        self.n_steps += 1
        stats = total_statistics(self.minibatches[number], self.params, self.settings)
        rho = _step_size(self.n_steps)
        mean = _moving_average(self.mean, stats, rho, rho * self.n_docs / max(stats.n_docs, 1))
        self.votes[number] = stats.n_docs, stats.vote_counts
        self.mean = replace(mean, n_docs=self.n_docs, vote_counts=self._vote_counts())
        updated, converged = update_params(self.params, self.mean, self.settings)
        self.params = updated if self._updates_prior() else replace(updated, word_prior=self.params.word_prior)
        return stats, converged

    def _updates_prior(self) -> bool:
        """Whether η is updated in this step: ``_PRIOR_UPDATES`` times per pass, evenly."""
        now, before = (k * _PRIOR_UPDATES // len(self.minibatches) for k in (self.n_steps, self.n_steps - 1))
        return now > before

    def _vote_counts(self) -> Array:
        """Latest vote counts of all minibatches, scaled up for those not read yet.

        Annotators' counts are small enough to store per minibatch and need no forgetting: an annotator's posterior then
        rests on as many votes as they gave.
        """
        known = [self.votes[number] for number in sorted(self.votes)]
        counts: Array = np.sum([votes for _, votes in known], axis=0)
        return counts * (self.n_docs / max(sum(n_docs for n_docs, _ in known), 1))


def _moving_average(mean: SufficientStats, stats: SufficientStats, step: float, scale: float) -> SufficientStats:
    """(1 - step) mean + scale · stats, of the sums behind topics and base rates (maths, eq. 57)."""
    names = ("word_counts", "log_theta", "n_blocks", "label_sums")
    return replace(mean, **{name: (1.0 - step) * getattr(mean, name) + scale * getattr(stats, name) for name in names})


def cut_pieces(shards: Sequence[DocumentShard], n_pieces: int) -> list[DocumentShard]:
    """At least ``n_pieces`` shards if there are enough documents; the cuts depend on the data alone."""
    parts = -(-n_pieces // max(len(shards), 1))
    return [piece for shard in shards for piece in _cut(shard, min(parts, len(shard.known) // _MIN_DOCS))]


def _cut(shard: DocumentShard, parts: int) -> list[DocumentShard]:
    if parts <= 1:
        return [shard]
    edges = [round(k * len(shard.known) / parts) for k in range(parts + 1)]
    bags, votes, fixed = shard.bags, shard.votes, shard.fixed_log_odds
    starts = bags.starts
    return [
        DocumentShard(
            Bags(
                starts[start : stop + 1] - starts[start],
                bags.words[starts[start] : starts[stop]],
                bags.counts[starts[start] : starts[stop]],
            ),
            shard.known[start:stop],
            None if votes is None else votes.take(slice(start, stop)),
            None if fixed is None else fixed[start:stop],
        )
        for start, stop in pairwise(edges)
    ]
