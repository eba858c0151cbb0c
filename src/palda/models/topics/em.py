"""The EM algorithm of the topic model: batch or online, resumable from a checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import prefixed
from palda.engine import NO_CHECKPOINT, RecordSchema, StageRecord, StageStore, add_prefix, strip_prefix
from palda.kernels import PassLimits
from palda.models.topics.e_step import lower_bound, total_statistics
from palda.models.topics.m_step import update_params
from palda.models.topics.online_em import OnlinePasses
from palda.models.topics.parameters import Params, StepInfo, params_from_arrays, params_to_arrays, schema_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palda.engine import Engine
    from palda.models.crowd import AnnotatorModel
    from palda.models.topics.shards import DocumentShard

_PASS_LIMITS = PassLimits(max_passes=30, tolerance=1e-3, extrapolate=True)


@dataclass(frozen=True, kw_only=True)
class EMSettings:
    """How EM runs and when it stops."""

    engine: Engine
    annotators: AnnotatorModel | None = None
    inference: str = "joint"
    shared_absence: bool = False  # whether all classes have one absence prior α_0
    max_iter: int = 100
    tol: float = 1e-4
    pass_limits: PassLimits = _PASS_LIMITS
    online_seed: int | None = None  # of the order of minibatches in online EM; None: batch EM
    stages: StageStore = NO_CHECKPOINT


@dataclass(eq=False)
class EMResult:
    """The parameters with the highest bound in one run of EM, and the history of the run."""

    params: Params | None = None
    bound: float = -np.inf
    bounds: list[float] = field(default_factory=list)
    converged: bool = False
    interrupted: bool = False
    worst_fall: float = 0.0
    newton_converged: bool = True

    def add(self, step: StepInfo) -> None:
        """Append an iteration; its parameters are kept if their bound is the highest so far."""
        self.bounds.append(step.bound)
        self.converged = step.converged
        self.worst_fall = step.worst_fall
        self.newton_converged = step.newton_converged
        if self.params is None or step.bound > self.bound:
            self.params, self.bound = step.params, step.bound


class _Position(NamedTuple):
    """What an iteration needs besides its parameters."""

    iteration: int = 1
    previous_bound: float = -np.inf
    worst_fall: float = 0.0
    newton_converged: bool = True


def run_em(
    shards: Sequence[DocumentShard],
    start: Params,
    settings: EMSettings,
    watch: Callable[[StepInfo], object] | None = None,
    result: EMResult | None = None,
) -> EMResult:
    """Alternate E-step and M-step until the bound changes by less than ``tol``, relative to its size.

    ``watch`` is called after every iteration that is not restored from a checkpoint. ``result``, if given, is filled in
    place: if the run is interrupted, the caller has the best parameters so far. Online EM is restored only when it was
    finished, because it depends on more than its parameters.
    """
    result = EMResult() if result is None else result
    stage = settings.stages.stage("em", start.topic_prior, start.topic_words, start.class_prior)
    stored = stage.recall(partial(_restore, result, settings.max_iter), _record_schema(start))
    params, position, finished = stored or (start, _Position(), False)
    if finished:
        return result
    first_iteration, previous_bound, worst_fall, newton_converged = position
    online = None if settings.online_seed is None else OnlinePasses(shards, start, settings)
    placed = settings.engine.place(shards) if online is None else shards

    for iteration in range(first_iteration, settings.max_iter + 1):
        if online is None:
            stats = total_statistics(placed, params, settings)  # E-step
            bound = lower_bound(stats, params, settings.annotators)
            position = _Position(iteration, previous_bound, worst_fall, newton_converged)
            before = replace(result, bounds=list(result.bounds))
            stage.keep(partial(_record, before, params, position), finished=False)
        else:
            params, stats, bound, newton_converged = online.run_pass()  # E-steps and M-steps over minibatches
        change = (bound - previous_bound) / abs(bound) if np.isfinite(previous_bound) else np.inf
        worst_fall = max(worst_fall, -change)
        converged = abs(change) < settings.tol
        step = StepInfo(
            iteration=iteration,
            bound=bound,
            change=change,
            worst_fall=worst_fall,
            n_passes=stats.n_passes,
            n_unconverged=stats.n_unconverged,
            newton_converged=newton_converged,
            converged=converged,
            is_estimate=online is not None,
            params=params,
        )
        result.add(step)
        if watch is not None:
            watch(step)
        if converged or iteration == settings.max_iter:
            break
        previous_bound = bound
        if online is None:
            params, newton_converged = update_params(params, stats, settings)  # M-step

    stage.keep(partial(_record, result))
    return result


# Checkpoints. A record of a run in progress holds the parameters of an iteration before it is added to the result.


def _record(result: EMResult, params: Params | None = None, position: _Position | None = None) -> StageRecord:
    arrays = {} if result.params is None else add_prefix("best", params_to_arrays(result.params))
    state = asdict(replace(result, params=None))
    del state["params"], state["interrupted"]
    if params is not None and position is not None:
        arrays |= add_prefix("now", params_to_arrays(params))
        state["position"] = position._asdict()
    return StageRecord(arrays, state)


def _record_schema(start: Params) -> RecordSchema:
    """The best parameters, those of the current iteration, or both."""
    schema, sizes = schema_like(start)
    return RecordSchema(sizes, (prefixed("best", schema, "best") | prefixed("now", schema, "now"),))


def _restore(result: EMResult, max_iter: int, record: StageRecord) -> tuple[Params, _Position, bool]:
    """Fill the result from a record; returns where the run continues, and whether it was finished."""
    state, best = record.state, strip_prefix("best", record.arrays)
    restored = EMResult(
        params=params_from_arrays(best) if best else None,
        bound=record.number("bound"),
        bounds=record.numbers("bounds"),
        converged=record.flag("converged"),
        worst_fall=record.number("worst_fall"),
        newton_converged=record.flag("newton_converged"),
    )
    finished, position = "position" not in state, _Position()
    if not finished:
        part = record.part("position")
        position = _Position(
            part.integer("iteration", 1, max_iter),
            part.number("previous_bound"),
            part.number("worst_fall"),
            part.flag("newton_converged"),
        )
    params = restored.params if finished else params_from_arrays(strip_prefix("now", record.arrays))
    if params is None:
        raise ValueError("it holds no parameters")
    vars(result).update(vars(restored))
    return params, position, finished
