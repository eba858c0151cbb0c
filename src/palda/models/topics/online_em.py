"""Online EM: natural-gradient steps over minibatches, beside the batch rounds of ``fit.em``.

A minibatch's statistics, scaled to all documents, are what a step moves towards; parameters are those of the M-step
under the moving average (maths, eqs. 56 and 57). A pass reads every document once, as a round of batch EM does, but
takes many steps: a few passes lead where batch EM needs dozens of rounds. Steps are long and therefore noisy; what a
pass ends with is the M-step under all that it has read, which is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from palda.engine import tree_sum
from palda.kernels import Bags
from palda.models.topics.em import DocumentShard, e_step_statistics, lower_bound, place_shards, update_params
from palda.models.topics.implied_statistics import implied_stats
from palda.models.topics.parameters import ShardStats, StepInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from palda.models.topics.em import EMSettings
    from palda.models.topics.parameters import Params

    Array = NDArray[np.float64]

__all__ = ["FIRST_STEP", "FORGETTING", "LONG_PASSES", "STEPS_A_PASS", "OnlineRounds"]

FIRST_STEP, FORGETTING, STEPS_A_PASS, LONG_PASSES = 0.5, 0.51, 48, 5
"""ρ of the first step, κ, the steps of a pass, and the passes after which steps have shrunk by 2^-κ.

Chosen on training documents of enron (800 to learn from, 300 to judge) and of Reuters (4000 and 1000; 600 and 300).
Held-out bound after five passes, in percent below that of batch EM with a tolerance of 1e-4, which needs 87, 123 and 75
rounds (joint, smoothed, known labels): .5, .9 and 0. With 32 steps a pass .7, 1.2 and -.1, with 64 .5, .7 and 0 for a
quarter more time; steps from .3 on 1.7, 1.0 and -.3, from .6 on .3, .8 and .4. Steps that shrink at once, (k + 1)^-κ,
and parameters that end with the last of them: 3.5, 1.9 and 2.7. κ must lie above ½ for steps to settle.
"""
_PRIOR_UPDATES = 4
"""How often in a pass η follows. At every step it would run ahead of topics that are not sharp yet, and end at the
bounds of its box on enron and Reuters; once a pass it is slow (Reuters: 1.5 instead of 1.1)."""
_PIECES_A_STEP = 2  # at least, so that two cores have something to do
_LEAST_DOCS = 12  # of a piece


@dataclass(frozen=True)
class OnlineRounds:
    """Rounds for ``EMSettings.rounds``: each is a pass over all documents, in an order drawn from the seed."""

    seed: int = 0
    first_step: float = FIRST_STEP  # ρ of step 1
    forgetting: float = FORGETTING  # κ
    steps_a_pass: int = STEPS_A_PASS

    def step_size(self, step: int) -> float:
        """ρ of a step, counted from 1 (maths, eq. 56)."""
        return float(self.first_step * (1.0 + (step - 1) / (LONG_PASSES * self.steps_a_pass)) ** -self.forgetting)

    def __call__(
        self, shards: Sequence[DocumentShard], start: Params, settings: EMSettings
    ) -> Iterator[tuple[Params, StepInfo]]:
        """Passes until their limit, or until the estimated bound of a pass differs little from that of the last.

        Each yields the parameters of all that it has read, and an estimate of the bound: every document's part under
        the parameters of the step that read it, before it was learned from (maths, eq. 58).
        """
        run = _Run(self, _pieces(shards, _PIECES_A_STEP * self.steps_a_pass), start, settings)
        before, worst_fall = -np.inf, 0.0
        for iteration in range(1, settings.max_iter + 1):
            params, bound, stats, newton_converged = run.take_pass()
            change = (bound - before) / abs(bound) if np.isfinite(before) else np.inf
            worst_fall = max(worst_fall, -change)
            converged = abs(change) < settings.tol
            yield (
                params,
                StepInfo(
                    iteration,
                    bound,
                    change,
                    worst_fall,
                    stats.n_passes,
                    stats.n_unsettled,
                    newton_converged,
                    converged,
                    is_estimate=True,
                ),
            )
            if converged:
                return
            before = bound


class _Run:
    """Where a run of online EM stands. Minibatches stay; in what order they are read is drawn in every pass."""

    def __init__(
        self, plan: OnlineRounds, pieces: Sequence[DocumentShard], start: Params, settings: EMSettings
    ) -> None:
        self.plan, self.settings, self.params = plan, settings, start
        self.rng = np.random.default_rng(plan.seed)
        self.n_docs = sum(len(piece.known) for piece in pieces)
        self.mean = implied_stats(start, self.n_docs, sum(float(piece.bags.counts.sum()) for piece in pieces))
        n_minibatches = max(1, min(plan.steps_a_pass, len(pieces) // _PIECES_A_STEP))
        self.minibatches = [
            place_shards([pieces[k] for k in chosen], settings)
            for chosen in np.array_split(self.rng.permutation(len(pieces)), n_minibatches)
        ]
        self.n_steps = 0
        self.votes: dict[int, tuple[int, Array]] = {}  # of every minibatch: its documents, and votes as last counted

    def take_pass(self) -> tuple[Params, float, ShardStats, bool]:
        """The M-step under all that the pass read, its estimated bound, the sums, and whether Newton always rested."""
        absent, rested = [], []

        def steps() -> Iterator[ShardStats]:
            for number in self.rng.permutation(len(self.minibatches)):
                base_rates = self.params.class_prior
                stats, newton_converged = self._step(int(number))
                absent.append(stats.n_docs * float(np.log1p(-base_rates).sum()))
                rested.append(newton_converged)
                yield stats

        read = tree_sum(steps())
        params, newton_converged = update_params(self.params, read, self.settings)
        at_the_end = lower_bound(replace(read, n_docs=0), params, self.settings)
        return params, at_the_end + sum(absent), read, all(rested) and newton_converged

    def _step(self, number: int) -> tuple[ShardStats, bool]:
        self.n_steps += 1
        stats = e_step_statistics(self.minibatches[number], self.params, self.settings)
        rho = self.plan.step_size(self.n_steps)
        mean = _moved(self.mean, stats, rho, rho * self.n_docs / max(stats.n_docs, 1))
        self.votes[number] = stats.n_docs, stats.vote_counts
        self.mean = replace(mean, n_docs=self.n_docs, vote_counts=self._vote_counts())
        moved, rested = update_params(self.params, self.mean, self.settings)
        self.params = moved if self._prior_follows() else replace(moved, word_prior=self.params.word_prior)
        return stats, rested

    def _prior_follows(self) -> bool:
        """Whether η moves in this step: so many times a pass, evenly."""
        done, before = (k * _PRIOR_UPDATES // len(self.minibatches) for k in (self.n_steps, self.n_steps - 1))
        return done > before

    def _vote_counts(self) -> Array:
        """Votes of all minibatches as they were last counted; those not read yet are expected to be alike.

        Counts of annotators are small enough to keep for every minibatch, and need no forgetting: what is believed of
        somebody then rests on as many votes as they gave.
        """
        known = [self.votes[number] for number in sorted(self.votes)]
        counts: Array = np.sum([votes for _, votes in known], axis=0)
        return counts * (self.n_docs / max(sum(n_docs for n_docs, _ in known), 1))


def _moved(mean: ShardStats, stats: ShardStats, step: float, scale: float) -> ShardStats:
    """(1 - step) mean + scale · stats, of the sums that topics and base rates come from (maths, eq. 57)."""
    names = ("word_counts", "log_theta", "n_blocks", "label_sums")
    moved = {name: (1.0 - step) * getattr(mean, name) + scale * getattr(stats, name) for name in names}
    return replace(mean, **moved)


def _pieces(shards: Sequence[DocumentShard], wanted: int) -> list[DocumentShard]:
    """The shards, cut smaller where there are few of them; where depends on the data alone."""
    parts = -(-wanted // max(len(shards), 1))
    return [piece for shard in shards for piece in _cut(shard, min(parts, len(shard.known) // _LEAST_DOCS))]


def _cut(shard: DocumentShard, parts: int) -> list[DocumentShard]:
    if parts <= 1:
        return [shard]
    edges = [round(k * len(shard.known) / parts) for k in range(parts + 1)]
    shard = shard.loaded()
    bags, votes = shard.bags, shard.votes
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
            None if shard.given is None else shard.given[start:stop],
        )
        for start, stop in pairwise(edges)
    ]
