"""Options of fits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitOptions:
    """Where and with how many threads fits run, as in ``CrowdPALDA``."""

    engine: str | None = None
    jobs: int | None = None
