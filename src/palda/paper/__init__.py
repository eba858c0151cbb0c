"""Rivals and experiments of the paper: the same data, measures and budgets for every method."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.paper.baselines.bayesian_chains import BayesianChains, dependence_tree, mutual_information
    from palda.paper.baselines.brq import BRq
    from palda.paper.baselines.gibbs import as_words
    from palda.paper.baselines.linear import WORD_STRENGTHS, choose_strengths
    from palda.paper.baselines.llda import LabelledLDA
    from palda.paper.baselines.majority import Majority
    from palda.paper.baselines.monte_carlo_chains import MonteCarloChains
    from palda.paper.baselines.nothing import Nothing
    from palda.paper.baselines.on_labels import OnLabels, dawid_skene
    from palda.paper.baselines.one_vs_rest import OneVsRest
    from palda.paper.baselines.rakel import Rakel
    from palda.paper.baselines.raykar import Raykar
    from palda.paper.baselines.rival import generator
    from palda.paper.baselines.slda import SupervisedLDA
    from palda.paper.baselines.thresholded import Thresholded, out_of_fold_probs
    from palda.paper.cells import Cell, CellRecord, Store, grouped, versions, write_atomically
    from palda.paper.costs import Costs
    from palda.paper.execute import run_cell
    from palda.paper.methods import METHODS, REFERENCES, Fitted, Method, new_cell
    from palda.paper.page import update_page
    from palda.paper.plots import save
    from palda.paper.results import command_of, stored_records, write_results
    from palda.paper.runner import RUN_CELL, Outcome, run, usable_cores
    from palda.paper.tables import Column, Stat, Table, shown, stat, summarise, to_csv, to_markdown, to_records
    from palda.paper.tasks import aggregated, load_task, part_of

__all__ = [
    "METHODS",
    "REFERENCES",
    "RUN_CELL",
    "WORD_STRENGTHS",
    "BRq",
    "BayesianChains",
    "Cell",
    "CellRecord",
    "Column",
    "Costs",
    "Fitted",
    "LabelledLDA",
    "Majority",
    "Method",
    "MonteCarloChains",
    "Nothing",
    "OnLabels",
    "OneVsRest",
    "Outcome",
    "Rakel",
    "Raykar",
    "Stat",
    "Store",
    "SupervisedLDA",
    "Table",
    "Thresholded",
    "aggregated",
    "as_words",
    "choose_strengths",
    "command_of",
    "dawid_skene",
    "dependence_tree",
    "generator",
    "grouped",
    "load_task",
    "mutual_information",
    "new_cell",
    "out_of_fold_probs",
    "part_of",
    "run",
    "run_cell",
    "save",
    "shown",
    "stat",
    "stored_records",
    "summarise",
    "to_csv",
    "to_markdown",
    "to_records",
    "update_page",
    "usable_cores",
    "versions",
    "write_atomically",
    "write_results",
]

# These names are imported when they are first used: their modules import large packages.
_HOMES = {
    "BRq": "palda.paper.baselines.brq",
    "BayesianChains": "palda.paper.baselines.bayesian_chains",
    "Cell": "palda.paper.cells",
    "Column": "palda.paper.tables",
    "Costs": "palda.paper.costs",
    "Fitted": "palda.paper.methods",
    "LabelledLDA": "palda.paper.baselines.llda",
    "METHODS": "palda.paper.methods",
    "Majority": "palda.paper.baselines.majority",
    "Method": "palda.paper.methods",
    "MonteCarloChains": "palda.paper.baselines.monte_carlo_chains",
    "Nothing": "palda.paper.baselines.nothing",
    "OnLabels": "palda.paper.baselines.on_labels",
    "OneVsRest": "palda.paper.baselines.one_vs_rest",
    "Outcome": "palda.paper.runner",
    "REFERENCES": "palda.paper.methods",
    "RUN_CELL": "palda.paper.runner",
    "Rakel": "palda.paper.baselines.rakel",
    "Raykar": "palda.paper.baselines.raykar",
    "CellRecord": "palda.paper.cells",
    "Stat": "palda.paper.tables",
    "Store": "palda.paper.cells",
    "SupervisedLDA": "palda.paper.baselines.slda",
    "Table": "palda.paper.tables",
    "Thresholded": "palda.paper.baselines.thresholded",
    "WORD_STRENGTHS": "palda.paper.baselines.linear",
    "aggregated": "palda.paper.tasks",
    "as_words": "palda.paper.baselines.gibbs",
    "choose_strengths": "palda.paper.baselines.linear",
    "command_of": "palda.paper.results",
    "dawid_skene": "palda.paper.baselines.on_labels",
    "dependence_tree": "palda.paper.baselines.bayesian_chains",
    "generator": "palda.paper.baselines.rival",
    "grouped": "palda.paper.cells",
    "load_task": "palda.paper.tasks",
    "mutual_information": "palda.paper.baselines.bayesian_chains",
    "new_cell": "palda.paper.methods",
    "out_of_fold_probs": "palda.paper.baselines.thresholded",
    "part_of": "palda.paper.tasks",
    "run": "palda.paper.runner",
    "run_cell": "palda.paper.execute",
    "save": "palda.paper.plots",
    "shown": "palda.paper.tables",
    "stat": "palda.paper.tables",
    "stored_records": "palda.paper.results",
    "summarise": "palda.paper.tables",
    "to_csv": "palda.paper.tables",
    "to_markdown": "palda.paper.tables",
    "to_records": "palda.paper.tables",
    "update_page": "palda.paper.page",
    "usable_cores": "palda.paper.runner",
    "versions": "palda.paper.cells",
    "write_atomically": "palda.paper.cells",
    "write_results": "palda.paper.results",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
