"""Experiments of the paper, one file per table or figure; importing them loads no numerical package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper.experiments.adversarial import ADVERSARIAL
from palda.paper.experiments.base import ALL_SETS, Experiment, RunOptions
from palda.paper.experiments.table1 import TABLE1
from palda.paper.experiments.table2 import TABLE2
from palda.paper.experiments.topics import CROWD_TOPICS, TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALL_SETS", "EXPERIMENTS", "Experiment", "RunOptions"]

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (TABLE1, TABLE2, TOPICS, CROWD_TOPICS, ADVERSARIAL)
}
"""Every experiment by its name on the command line."""
