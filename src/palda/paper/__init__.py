"""Experiments and baselines of the paper: the same data and measures for every method.

Importing this package loads no numerical package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palda.paper import published_values
from palda.paper.cells import Cell, CellRecord, Store, group_by, versions, write_atomically
from palda.paper.experiments import ALL_SETS, EXPERIMENTS, Experiment, RunOptions
from palda.paper.methods import METHODS, REFERENCES, Method, MethodFit, new_cell
from palda.paper.results import reproduce_command, stored_records, update_page, write_results
from palda.paper.runner import RUN_CELL, CellTimes, Outcome, run
from palda.paper.tables import Column, Stat, Table, format_value, summarise, to_csv, to_markdown, to_records

if TYPE_CHECKING:
    from palda.paper.execution import run_cell
    from palda.paper.plots import save_figure
    from palda.paper.tasks import Task, load_task, sample_rows, task_labels

__all__ = [
    "ALL_SETS",
    "EXPERIMENTS",
    "METHODS",
    "REFERENCES",
    "RUN_CELL",
    "Cell",
    "CellRecord",
    "CellTimes",
    "Column",
    "Experiment",
    "Method",
    "MethodFit",
    "Outcome",
    "RunOptions",
    "Stat",
    "Store",
    "Table",
    "Task",
    "format_value",
    "group_by",
    "load_task",
    "new_cell",
    "published_values",
    "reproduce_command",
    "run",
    "run_cell",
    "sample_rows",
    "save_figure",
    "stored_records",
    "summarise",
    "task_labels",
    "to_csv",
    "to_markdown",
    "to_records",
    "update_page",
    "versions",
    "write_atomically",
    "write_results",
]

_LAZY = {
    "execution": ("run_cell",),
    "plots": ("save_figure",),
    "tasks": ("Task", "load_task", "sample_rows", "task_labels"),
}
"""Names imported on first use: their modules import large packages."""


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _LAZY.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
