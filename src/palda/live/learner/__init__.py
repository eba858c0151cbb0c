"""The learner: keeps consensus, annotators and assignments of projects up to date, in a process of its own."""

from __future__ import annotations

from palda.live.learner.options import FitOptions
from palda.live.learner.supervisor import LearnerSupervisor

__all__ = ["FitOptions", "LearnerSupervisor"]
