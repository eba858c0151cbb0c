"""Progress of a long fit, on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from palda.models.topics import StepInfo


def note(text: str) -> None:
    """Write one line."""
    sys.stderr.write(f"palda: {text}\n")


class Progress:
    """One line per iteration of EM: its number, the bound, its relative growth, and the estimated time left."""

    def __init__(self, *, verbose: int, max_iter: int, tol: float) -> None:
        self._verbose = verbose
        self._max_iter = max_iter
        self._tol = tol
        self._started = time.monotonic()
        self._changes: list[float] = []

    def step(self, info: StepInfo) -> None:
        """Write the line of an iteration if ``verbose`` is set."""
        if not self._verbose:
            return
        self._changes.append(info.change)
        change = "" if np.isinf(info.change) else f"  change {info.change:+.1e}"
        left = "done" if info.converged else f"about {duration(self._seconds_left(info))} left"
        sys.stderr.write(f"palda: iteration {info.iteration:3d}  bound {info.bound:.6g}{change}  {left}\n")

    def _seconds_left(self, info: StepInfo) -> float:
        """Assume that changes keep shrinking geometrically, down to the tolerance or until ``max_iter``."""
        per_iteration = (time.monotonic() - self._started) / len(self._changes)  # a resumed fit has fewer changes
        n_left = self._max_iter - info.iteration
        recent = [change for change in self._changes[-5:] if 0 < change < np.inf]
        if len(recent) >= 2 and recent[-1] < recent[0] and self._tol > 0:
            rate = (recent[-1] / recent[0]) ** (1 / (len(recent) - 1))
            n_left = min(n_left, int(np.ceil(max(np.log(self._tol / recent[-1]) / np.log(rate), 1))))
        return per_iteration * n_left


def duration(seconds: float) -> str:
    """Seconds as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
