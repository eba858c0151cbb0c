"""Simulated labelling projects: policies that choose the next vote, the quality they reach, and what they cost."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palda.planning.assumptions import assumed_project, pilot_project
from palda.planning.comparison import Need, WordsAggregator, compare_policies, needs
from palda.planning.curves import Curve, CurvePoint, mean_curve, votes_needed
from palda.planning.policies import (
    Assignment,
    FixedOverlap,
    LabelUncertainty,
    Policy,
    Progress,
    RandomDocuments,
    SuggestedLabels,
    TypicalAssignment,
    by_score,
)
from palda.planning.projects import LabellingProject, Requests
from palda.planning.simulation import Schedule, run_project

if TYPE_CHECKING:
    from palda.planning.pictures import draw_plan, line_styles, save_picture

__all__ = [
    "Assignment",
    "Curve",
    "CurvePoint",
    "FixedOverlap",
    "LabelUncertainty",
    "LabellingProject",
    "Need",
    "Policy",
    "Progress",
    "RandomDocuments",
    "Requests",
    "Schedule",
    "SuggestedLabels",
    "TypicalAssignment",
    "WordsAggregator",
    "assumed_project",
    "by_score",
    "compare_policies",
    "draw_plan",
    "line_styles",
    "mean_curve",
    "needs",
    "pilot_project",
    "run_project",
    "save_picture",
    "votes_needed",
]

_PICTURES = ("draw_plan", "line_styles", "save_picture")
"""Names imported on first use: their module imports matplotlib."""


def __getattr__(name: str) -> Any:
    if name not in _PICTURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.pictures"), name)
