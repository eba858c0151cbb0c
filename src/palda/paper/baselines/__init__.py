"""Rivals: what people would use instead, by name. Importing this loads none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["BASELINES", "CROWD_BASELINES", "Baseline"]


@dataclass(frozen=True)
class Baseline:
    """A rival by name.

    ``make(seed, n_jobs, quick)`` gives an estimator that is not fitted; a quick one has fewer members or sweeps.
    ``kind`` is ``"values"`` for rivals that read real values where a data set has them, ``"text"`` for those that need
    counts of words. ``extra`` is the package that must be installed beside palda, if any.
    """

    name: str
    title: str
    make: Callable[[int, int, bool], Any]
    kind: Literal["text", "values"] = "values"
    extra: str | None = None


def _rakel(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.rakel import Rakel

    del quick  # trees are quick enough
    return Rakel(n_jobs=n_jobs, random_state=seed)


def _mcc(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.monte_carlo_chains import MonteCarloChains

    return MonteCarloChains(n_orders=3 if quick else 10, n_jobs=n_jobs, random_state=seed)


def _brq(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.brq import BRq

    return BRq(n_members=5 if quick else 10, n_jobs=n_jobs, random_state=seed)


def _bcc(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.bayesian_chains import BayesianChains

    del quick  # one model a class is as quick as it gets
    return BayesianChains(n_jobs=n_jobs, random_state=seed)


def _slda(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.slda import SupervisedLDA

    del n_jobs  # with one worker the result is repeatable
    return SupervisedLDA(responses="together", n_sweeps=50 if quick else 200, random_state=seed)


def _slda_one_vs_all(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.slda import SupervisedLDA

    del n_jobs  # with one worker the result is repeatable
    return SupervisedLDA(responses="one_vs_all", n_sweeps=50 if quick else 200, random_state=seed)


def _llda(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.llda import LabelledLDA

    del n_jobs  # with one worker the result is repeatable
    return LabelledLDA(n_sweeps=50 if quick else 200, random_state=seed)


def _logistic(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.one_vs_rest import OneVsRest

    del quick  # one model a class is as quick as it gets
    return OneVsRest(n_jobs=n_jobs, random_state=seed)


def _forest(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.forest import Forest

    return Forest(n_trees=100 if quick else 200, n_jobs=n_jobs, random_state=seed)


def _nothing(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.nothing import Nothing

    del seed, n_jobs, quick
    return Nothing()


def _majority(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.majority import Majority

    del seed, n_jobs, quick
    return Majority()


def _majority_votes(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.on_labels import OnLabels

    return OnLabels(_logistic(seed, n_jobs, quick), "majority")


def _dawid_skene(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.on_labels import OnLabels

    return OnLabels(_logistic(seed, n_jobs, quick), "dawid_skene", max_iter=20 if quick else 100)


def _raykar(seed: int, n_jobs: int, quick: bool) -> Any:
    from palda.paper.baselines.raykar import Raykar

    return Raykar(max_iter=10 if quick else 30, n_jobs=n_jobs, random_state=seed)


def _by_name(baselines: Iterable[Baseline]) -> dict[str, Baseline]:
    return {baseline.name: baseline for baseline in baselines}


BASELINES = _by_name(
    (
        Baseline("rakel", "RAkEL (decision trees)", _rakel),
        Baseline("mcc", "Monte Carlo classifier chains", _mcc),
        Baseline("brq", "BRq (ensemble of binary relevance)", _brq),
        Baseline("bcc", "Bayesian classifier chains", _bcc),
        Baseline("slda", "SLDA (one model, a response a class)", _slda, "text", "tomotopy"),
        Baseline("slda_one_vs_all", "SLDA (one model a class)", _slda_one_vs_all, "text", "tomotopy"),
        Baseline("llda", "Labelled LDA", _llda, "text", "tomotopy"),
        Baseline("logistic", "Logistic regression, one a class", _logistic),
        Baseline("forest", "Random forest", _forest),
        Baseline("nothing", "Predicts nothing", _nothing),
        Baseline("majority", "Each class's majority value", _majority),
    )
)
"""Rivals that learn from labels: ``fit(X, Y)``."""

CROWD_BASELINES = _by_name(
    (
        Baseline("majority_logistic", "Majority vote + logistic regression", _majority_votes),
        Baseline("dawid_skene_logistic", "Dawid-Skene + logistic regression", _dawid_skene, extra="crowd-kit"),
        Baseline("raykar", "Raykar (logistic regression and two-coin annotators)", _raykar),
    )
)
"""Rivals that learn from a crowd: ``fit(X, votes)``."""
