"""Progress of a long fit, on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from palda.io import duration, note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palda.models.topics import StepInfo

_TYPICAL_STAGES = {
    "votes and topics": (
        *("votes", "penalties", "labels", "classifier", "labels", "classifier", "labels", "classifier", "labels"),
        *("topics", "penalties", "labels", "classifier", "labels", "final classifier"),
    ),
    "votes": (
        *("votes", "penalties", "labels", "classifier", "labels", "classifier", "labels", "classifier", "labels"),
        *("penalties", "labels", "classifier", "labels", "final classifier", "topics"),
    ),
    "labels and topics": ("topics", "penalties", "labels", "final classifier"),
    "labels": ("penalties", "labels", "final classifier", "topics"),
}
"""Stages of typical fits, by what they are fitted to and whether topics take part in predictions."""
_RELATIVE_COSTS = {
    "votes": 0.3,
    "penalties": 1.0,
    "classifier": 0.12,
    "labels": 0.1,
    "topics": 1.1,
    "final classifier": 0.3,
}
"""Seconds of each stage per second of the choice of penalties, as measured on Reuters and bibtex."""


class Progress:
    """One line per stage of a fit and per iteration of EM, with the estimated time until the end of the whole fit.

    The stages that are still to come are those of a typical fit. A stage is assumed to take as long as the last one of
    its kind; if there was none yet, as long as it usually takes compared with the stages that were measured.
    """

    def __init__(self, *, verbose: int, max_iter: int, tol: float, stages: str | None = None) -> None:
        self._verbose = verbose
        self._max_iter = max_iter
        self._tol = tol
        self._to_come: list[str] = list(_TYPICAL_STAGES[stages]) if stages else []
        self._measured: dict[str, float] = {}
        self._current: str | None = None
        self._start = self._stage_start = time.monotonic()
        self._iterations = _Iterations(self._start)

    def stage(self, kind: str, turn: int | None = None) -> None:
        """Write the line of a stage that begins, if ``verbose`` is set."""
        now = time.monotonic()
        if self._current is not None:
            self._measured[self._current] = now - self._stage_start
        self._current, self._stage_start = kind, now
        self._advance(kind)
        if self._verbose:
            title = "classifier and its penalties" if kind == "penalties" else kind
            note(f"{'' if turn is None else f'turn {turn}: '}{title}{self._left(now)}")

    def done(self) -> None:
        """Write the last line, if ``verbose`` is set."""
        if self._verbose:
            note(f"done in {duration(time.monotonic() - self._start)}")

    def watch_run(self) -> Callable[[StepInfo], object]:
        """The function to call after every iteration of a run of EM that begins."""
        self._iterations = _Iterations(time.monotonic())
        return self.step

    def step(self, info: StepInfo) -> None:
        """Write the line of an iteration of EM, if ``verbose`` is set."""
        if not self._verbose:
            return
        now = time.monotonic()
        alone = self._iterations.seconds_left(info, now, self._max_iter, self._tol)
        if self._current is None:  # EM is the whole fit
            left = "  done" if info.converged else f"  about {duration(max(alone, 1.0))} left"
        else:
            left = self._left(now)
        change = "" if np.isinf(info.change) else f"  change {info.change:+.1e}"
        note(f"iteration {info.iteration:3d}  bound {info.bound:.6g}{change}{left}")

    def _advance(self, kind: str) -> None:
        """Remove the stages before this one from those to come; an additional turn leaves them as they are."""
        if kind in ("topics", "penalties", "final classifier") and kind in self._to_come:
            del self._to_come[: self._to_come.index(kind) + 1]
        elif self._to_come and self._to_come[0] == kind:
            del self._to_come[0]

    def _left(self, now: float) -> str:
        """The estimated time left as text; empty before any stage was measured."""
        if not self._measured or self._current is None:
            return ""
        known = {
            kind: seconds for kind, seconds in self._measured.items() if kind != "votes" or len(self._measured) == 1
        }
        unit = sum(known.values()) / sum(_RELATIVE_COSTS[kind] for kind in known)
        costs = {kind: self._measured.get(kind, unit * share) for kind, share in _RELATIVE_COSTS.items()}
        current = max(costs[self._current] - (now - self._stage_start), 0.0)
        return f"  about {duration(max(current + sum(costs[kind] for kind in self._to_come), 1.0))} left"


class _Iterations:
    """Iterations of one run of EM."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.changes: list[float] = []

    def seconds_left(self, info: StepInfo, now: float, max_iter: int, tol: float) -> float:
        """Assume that changes keep shrinking geometrically, down to the tolerance or until ``max_iter``."""
        self.changes.append(info.change)
        per_iteration = (now - self.start) / len(self.changes)  # a resumed fit has fewer changes
        n_left = max_iter - info.iteration
        recent: Sequence[float] = [change for change in self.changes[-5:] if 0 < change < np.inf]
        if len(recent) >= 2 and recent[-1] < recent[0] and tol > 0:
            rate = (recent[-1] / recent[0]) ** (1 / (len(recent) - 1))
            n_left = min(n_left, int(np.ceil(max(np.log(tol / recent[-1]) / np.log(rate), 1))))
        return per_iteration * n_left
