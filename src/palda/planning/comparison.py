"""Policies side by side on the same project: curves, votes needed for a target, and their cost."""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from palda.estimators import CrowdPALDA
from palda.planning.curves import mean_curve, votes_needed
from palda.planning.simulation import run_project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palda.data import Votes
    from palda.planning.curves import Curve
    from palda.planning.policies import Policy
    from palda.planning.projects import LabellingProject
    from palda.planning.simulation import Schedule

_N_TOPICS, _MAX_ITER = 5, 20  # topics take no part in the consensus of a words model


class WordsAggregator:
    """Fits ``CrowdPALDA`` with ``label_prior="words"``; policies that start with the same votes share that fit."""

    def __init__(self, *, seed: int = 0, n_jobs: int | None = None) -> None:
        self._settings: dict[str, Any] = {
            "label_prior": "words",
            "max_iter": _MAX_ITER,
            "random_state": seed,
            "n_jobs": n_jobs,
        }
        self._first: tuple[Votes, CrowdPALDA] | None = None

    def __call__(self, counts: Any, votes: Votes) -> CrowdPALDA:
        """A model of its own for each caller, who may update it."""
        if self._first is not None and votes == self._first[0]:
            return copy.deepcopy(self._first[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the topics stop early
            model = CrowdPALDA(_N_TOPICS, **self._settings).fit(counts, votes)
        if self._first is None:
            self._first = votes, copy.deepcopy(model)
        return model


class Need(NamedTuple):
    """What a policy needs to reach a target; NaN if it does not reach it."""

    policy: str
    votes_per_doc: float
    n_votes: float
    cost: float
    saved: float
    """Share of the votes of the first policy that is saved."""


def compare_policies(
    projects: Sequence[LabellingProject],
    policies: Sequence[Policy],
    schedule: Schedule,
    *,
    n_jobs: int | None = None,
    progressed: Callable[[float], None] = lambda _: None,
) -> list[Curve]:
    """Mean curves of the policies over the projects.

    Parameters
    ----------
    projects : sequence of LabellingProject
        Projects of the same kind with different seeds.
    policies : sequence of Policy
        The policies.
    schedule : Schedule
        Budgets and steps.
    n_jobs : int, optional
        Number of threads; all cores by default.
    progressed : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    list of Curve
        One curve per policy.

    Examples
    --------
    >>> from palda.planning import FixedOverlap, Schedule, assumed_project, compare_policies
    >>> project = assumed_project(60, 3, [0.9, 0.8, 0.7], labels_per_doc=1, seed=0)
    >>> (curve,) = compare_policies([project], [FixedOverlap()], Schedule((1.0, 2.0)), n_jobs=1)
    >>> curve.column("votes_per_doc").tolist()
    [1.0, 2.0]
    """
    runs: list[list[Curve]] = [[] for _ in policies]
    n_runs, most = len(projects) * len(policies), schedule.budgets[-1]
    for number, project in enumerate(projects):
        fit = WordsAggregator(seed=project.seed, n_jobs=n_jobs)
        for place, policy in enumerate(policies):
            report = _part_of(progressed, number * len(policies) + place, n_runs, most)
            runs[place].append(run_project(project, policy, schedule, fit, report))
    return [mean_curve(curves) for curves in runs]


def _part_of(progressed: Callable[[float], None], n_done: int, n_runs: int, most: float) -> Callable[[float], None]:
    """Progress of one of several runs, from its votes per document."""
    return lambda votes: progressed((n_done + votes / most) / n_runs)


def needs(curves: Sequence[Curve], target_error: float, n_docs: int, price: float = 1.0) -> list[Need]:
    """Votes and cost with which each policy reaches a share of wrong labels; savings against the first policy.

    Examples
    --------
    >>> from palda.planning import Curve, CurvePoint, needs
    >>> fixed, better = (
    ...     Curve(name, (CurvePoint(1, 0, 0, 0, 0.1, 0, 0), CurvePoint(last, 0, 0, 0, 0.02, 0, 0)))
    ...     for name, last in (("fixed overlap", 5), ("assign", 3))
    ... )
    >>> need = needs([fixed, better], target_error=0.02, n_docs=1000, price=0.1)[1]
    >>> round(need.votes_per_doc, 2), round(need.n_votes), round(need.cost), round(need.saved, 2)
    (3.0, 3000, 300, 0.4)
    """
    votes = [votes_needed(curve, target_error, "error") for curve in curves]
    return [
        Need(
            curve.policy,
            needed,
            math.nan if math.isnan(needed) else math.ceil(needed * n_docs),
            needed * n_docs * price,
            1.0 - needed / votes[0],
        )
        for curve, needed in zip(curves, votes, strict=True)
    ]
