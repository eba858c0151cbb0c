"""Baselines: other methods on the same data, by name. Importing this package loads none of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palda.paper.baselines.aggregation import aggregate_labels, dawid_skene, vote_shares
    from palda.paper.baselines.base import MajorityLabels, NoLabels, generator, out_of_fold_probs
    from palda.paper.baselines.binary_relevance import BRq, OneVsRest
    from palda.paper.baselines.chains import BayesianChains, MonteCarloChains, dependence_tree, mutual_information
    from palda.paper.baselines.linear import WORD_STRENGTHS, choose_strengths
    from palda.paper.baselines.raykar import Raykar
    from palda.paper.baselines.topic_models import LabelledLDA, SupervisedLDA, as_words
    from palda.paper.baselines.trees import Forest, Rakel, draw_labelsets

__all__ = [
    "BASELINES",
    "CROWD_BASELINES",
    "WORD_STRENGTHS",
    "BRq",
    "Baseline",
    "BayesianChains",
    "Forest",
    "LabelledLDA",
    "MajorityLabels",
    "MonteCarloChains",
    "NoLabels",
    "OneVsRest",
    "Rakel",
    "Raykar",
    "SupervisedLDA",
    "aggregate_labels",
    "as_words",
    "choose_strengths",
    "dawid_skene",
    "dependence_tree",
    "draw_labelsets",
    "generator",
    "mutual_information",
    "out_of_fold_probs",
    "vote_shares",
]

_MODULES = {
    "aggregation": ("aggregate_labels", "dawid_skene", "vote_shares"),
    "base": ("MajorityLabels", "NoLabels", "generator", "out_of_fold_probs"),
    "binary_relevance": ("BRq", "OneVsRest"),
    "chains": ("BayesianChains", "MonteCarloChains", "dependence_tree", "mutual_information"),
    "linear": ("WORD_STRENGTHS", "choose_strengths"),
    "raykar": ("Raykar",),
    "topic_models": ("LabelledLDA", "SupervisedLDA", "as_words"),
    "trees": ("Forest", "Rakel", "draw_labelsets"),
}
"""Names imported on first use: their modules import large packages."""


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


@dataclass(frozen=True)
class Baseline:
    """A baseline by name.

    ``features`` is ``"values"`` for baselines that read real values where a data set has them, ``"words"`` for those
    that need word counts. ``quick_settings`` make a fit faster. ``package`` must be installed besides palda, if given;
    such baselines run in one thread, which keeps their results reproducible.
    """

    name: str
    title: str
    class_name: str
    features: Literal["words", "values"] = "values"
    package: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick_settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self, seed: int, n_jobs: int, quick: bool) -> Any:
        """An unfitted estimator."""
        kind = __getattr__(self.class_name)
        given = {**self.settings, **(self.quick_settings if quick else {})}
        known = kind().get_params()
        given |= {name: value for name, value in (("random_state", seed), ("n_jobs", n_jobs)) if name in known}
        return kind(**given)


_SWEEPS = {"n_sweeps": 50}
_ONE_VS_ALL = {"responses": "one_vs_all"}

BASELINES = {
    baseline.name: baseline
    for baseline in (
        Baseline("rakel", "RAkEL (decision trees)", "Rakel"),
        Baseline("mcc", "Monte Carlo classifier chains", "MonteCarloChains", quick_settings={"n_orders": 3}),
        Baseline("brq", "BRq (ensemble of binary relevance)", "BRq", quick_settings={"n_members": 5}),
        Baseline("bcc", "Bayesian classifier chains", "BayesianChains"),
        Baseline("slda", "SLDA (one model, one response per class)", "SupervisedLDA", "words", "tomotopy", {}, _SWEEPS),
        Baseline(
            "slda_one_vs_all", "SLDA (one model per class)", "SupervisedLDA", "words", "tomotopy", _ONE_VS_ALL, _SWEEPS
        ),
        Baseline("llda", "Labelled LDA", "LabelledLDA", "words", "tomotopy", {}, _SWEEPS),
        Baseline("logistic", "Logistic regression, one per class", "OneVsRest"),
        Baseline("forest", "Random forest", "Forest", quick_settings={"n_trees": 100}),
        Baseline("nothing", "Predicts nothing", "NoLabels"),
        Baseline("majority", "Each class's majority value", "MajorityLabels"),
    )
}
"""Baselines that learn from labels: ``fit(X, Y)``."""

CROWD_BASELINES = {
    "raykar": Baseline(
        "raykar",
        "Raykar (logistic regression and two-coin annotators)",
        "Raykar",
        quick_settings={"max_iter": 10},
    )
}
"""Baselines that learn from votes: ``fit(X, votes)``."""
