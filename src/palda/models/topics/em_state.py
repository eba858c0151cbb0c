"""Where a run of EM stands: the best parameters so far, and what the next round needs to know of those before it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from palda.engine import StageRecord, add_prefix, strip_prefix
from palda.models.topics.parameter_arrays import params_from_arrays, params_to_arrays

if TYPE_CHECKING:
    from palda.models.topics.parameters import Params, StepInfo

__all__ = ["EMResult", "Position", "Run", "finished_record", "restored", "running_record"]


@dataclass(frozen=True)
class Position:
    """What a round of EM needs to know besides parameters."""

    iteration: int = 1
    before: float = -np.inf  # bound of the round before
    worst_fall: float = 0.0
    newton_converged: bool = True

    @classmethod
    def after(cls, info: StepInfo) -> Self:
        """Position of the round that follows."""
        return cls(info.iteration + 1, info.bound, info.worst_fall)


class EMResult:
    """The best parameters seen in the rounds of one fit, and its history."""

    def __init__(self) -> None:
        self.params: Params | None = None
        self.bound = -np.inf
        self.bounds: list[float] = []
        self.converged = False
        self.interrupted = False
        self.worst_fall = 0.0
        self.newton_converged = True

    def see(self, params: Params, info: StepInfo) -> None:
        """Take note of a round."""
        self.bounds.append(info.bound)
        self.converged = info.converged
        self.worst_fall = info.worst_fall
        self.newton_converged = info.newton_converged
        if self.params is None or info.bound > self.bound:
            self.params, self.bound = params, info.bound

    def become(self, other: EMResult) -> None:
        """Take over everything that the other has seen."""
        vars(self).update(vars(other), bounds=list(other.bounds))

    def copy(self) -> EMResult:
        """The same; it stays as it is when more rounds are seen."""
        twin = EMResult()
        twin.become(self)
        return twin


class Run(NamedTuple):
    """A run of EM as a journal knows it; one that is over has no parameters for another round."""

    best: EMResult
    params: Params | None
    position: Position


def running_record(params: Params, position: Position, best: EMResult) -> StageRecord:
    """Before a round counts: its parameters, its position, and the best of the rounds before."""
    record = finished_record(best)
    arrays = {**record.arrays, **add_prefix("now", params_to_arrays(params))}
    return StageRecord(arrays, {**record.state, "position": asdict(position)})


def finished_record(best: EMResult) -> StageRecord:
    """A run that is over."""
    arrays = {} if best.params is None else add_prefix("best", params_to_arrays(best.params))
    state = {
        "bounds": list(best.bounds),
        "bound": best.bound,
        "converged": best.converged,
        "worst_fall": best.worst_fall,
        "newton_converged": best.newton_converged,
    }
    return StageRecord(arrays, state)


def restored(record: StageRecord) -> Run:
    """What one of the records was made of."""
    best, state = EMResult(), record.state
    own = strip_prefix("best", record.arrays)
    best.params = params_from_arrays(own) if own else None
    best.bounds = [float(bound) for bound in state["bounds"]]
    best.bound, best.worst_fall = float(state["bound"]), float(state["worst_fall"])
    best.converged, best.newton_converged = bool(state["converged"]), bool(state["newton_converged"])
    if "position" not in state:
        return Run(best, None, Position())
    return Run(best, params_from_arrays(strip_prefix("now", record.arrays)), Position(**state["position"]))
