"""Online EM: natural-gradient steps over minibatches, beside the batch rounds of ``fit.em``.

A minibatch's statistics, scaled to all documents, are what a step moves towards; parameters are those of the M-step
under the moving average (maths, eqs. 55 and 56). A pass reads every document once, as a round of batch EM does, but takes
many steps: a few passes lead where batch EM needs dozens of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from palda.fit import Shard, e_steps, maximisation, total_bound
from palda.kernels import Bags
from palda.model.implied import implied_stats
from palda.model.state import ShardStats, StepInfo, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from palda.fit import Settings
    from palda.model.state import Params

    Array = NDArray[np.float64]

__all__ = ["DELAY", "FORGETTING", "STEPS_A_PASS", "OnlineRounds"]

DELAY, FORGETTING, STEPS_A_PASS = 1.0, 0.51, 32
_PIECES_A_STEP = 2  # at least, so that two cores have something to do
_LEAST_DOCS = 12  # of a piece


@dataclass(frozen=True)
class OnlineRounds:
    """Rounds for ``Settings.rounds``: each is a pass over all documents, in an order drawn from the seed."""

    seed: int = 0
    delay: float = DELAY  # τ
    forgetting: float = FORGETTING  # κ
    steps_a_pass: int = STEPS_A_PASS

    def step_size(self, step: int) -> float:
        """ρ of a step, counted from 1 (maths, eq. 55)."""
        return float((step + self.delay) ** -self.forgetting)

    def __call__(self, shards: Sequence[Shard], start: Params, settings: Settings) -> Iterator[tuple[Params, StepInfo]]:
        """Passes until their limit, or until the estimated bound of a pass differs little from that of the last.

        Each yields the parameters that it ended with, and an estimate of the bound: every document's part under the
        parameters of the step that read it, before it was learned from (maths, eq. 57).
        """
        run = _Run(self, _pieces(shards, _PIECES_A_STEP * self.steps_a_pass), start, settings)
        before, worst_fall = -np.inf, 0.0
        for iteration in range(1, settings.max_iter + 1):
            bound, stats, newton_converged = run.take_pass()
            change = (bound - before) / abs(bound) if np.isfinite(before) else np.inf
            worst_fall = max(worst_fall, -change)
            converged = abs(change) < settings.tol
            yield (
                run.params,
                StepInfo(
                    iteration, bound, change, worst_fall, stats.n_passes, stats.n_unsettled, newton_converged, converged,
                    is_estimate=True,
                ),
            )  # fmt: skip
            if converged:
                return
            before = bound


class _Run:
    """Where a run of online EM stands."""

    def __init__(self, plan: OnlineRounds, pieces: Sequence[Shard], start: Params, settings: Settings) -> None:
        self.plan, self.pieces, self.settings, self.params = plan, pieces, settings, start
        self.rng = np.random.default_rng(plan.seed)
        self.n_docs = sum(len(piece.known) for piece in pieces)
        n_tokens = sum(float(piece.bags.counts.sum()) for piece in pieces)
        self.mean = implied_stats(start, self.n_docs, n_tokens)
        self.n_steps = 0
        self.votes: dict[int, ShardStats] = {}  # of every piece, when it was last read

    def take_pass(self) -> tuple[float, ShardStats, bool]:
        """Estimated bound, what the pass read, and whether Newton's method always came to rest."""
        n_pieces = len(self.pieces)
        n_steps = max(1, min(self.plan.steps_a_pass, n_pieces // _PIECES_A_STEP))
        labels, read, rested = 0.0, [], True
        for chosen in np.array_split(self.rng.permutation(n_pieces), n_steps):
            xi = self.params.class_prior
            stats, newton_converged = self._step([int(k) for k in chosen])
            labels += stats.n_docs * float(np.log1p(-xi).sum())
            read.append(replace(stats, word_counts=np.zeros(0)))
            rested &= newton_converged
        total = merge(read)
        at_the_end = total_bound(replace(total, n_docs=0), self.params, self.settings)
        return at_the_end + labels, total, rested

    def _step(self, chosen: list[int]) -> tuple[ShardStats, bool]:
        self.n_steps += 1
        parts = [part for part, _ in e_steps([self.pieces[k] for k in chosen], self.params, self.settings)]
        stats = merge(parts)
        rho = self.plan.step_size(self.n_steps)
        mean = _moved(self.mean, stats, rho, rho * self.n_docs / max(stats.n_docs, 1))
        self.mean = replace(mean, n_docs=self.n_docs, vote_counts=self._vote_counts(chosen, parts))
        self.params, rested = maximisation(self.params, self.mean, self.settings)
        return stats, rested

    def _vote_counts(self, chosen: list[int], parts: list[ShardStats]) -> Array:
        """Votes of all pieces as they were last counted; those of pieces not read yet are expected to be alike.

        Counts of annotators are small enough to keep for every piece, and need no forgetting: what is believed of
        somebody then rests on as many votes as they gave.
        """
        for k, part in zip(chosen, parts, strict=True):
            self.votes[k] = replace(part, word_counts=np.zeros(0), log_theta=np.zeros(0))
        total = merge(self.votes[k] for k in sorted(self.votes))
        return total.vote_counts * (self.n_docs / max(total.n_docs, 1))


def _moved(mean: ShardStats, stats: ShardStats, step: float, scale: float) -> ShardStats:
    """(1 - step) mean + scale · stats, of the sums that topics and base rates come from (maths, eq. 56)."""
    names = ("word_counts", "log_theta", "n_blocks", "label_sums")
    moved = {name: (1.0 - step) * getattr(mean, name) + scale * getattr(stats, name) for name in names}
    return replace(mean, **moved)


def _pieces(shards: Sequence[Shard], wanted: int) -> list[Shard]:
    """The shards, cut smaller where there are few of them; where depends on the data alone."""
    parts = -(-wanted // max(len(shards), 1))
    return [piece for shard in shards for piece in _cut(shard, min(parts, len(shard.known) // _LEAST_DOCS))]


def _cut(shard: Shard, parts: int) -> list[Shard]:
    if parts <= 1:
        return [shard]
    edges = [round(k * len(shard.known) / parts) for k in range(parts + 1)]
    starts = shard.bags.starts
    return [
        Shard(
            Bags(
                starts[start : stop + 1] - starts[start],
                shard.bags.words[starts[start] : starts[stop]],
                shard.bags.counts[starts[start] : starts[stop]],
            ),
            shard.known[start:stop],
            None if shard.votes is None else shard.votes.take(slice(start, stop)),
            None if shard.given is None else shard.given[start:stop],
        )
        for start, stop in pairwise(edges)
    ]
