"""Runs a labelling project under a policy, and measures the consensus at given budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.planning.curves import Curve, CurvePoint
from palda.planning.policies import Progress
from palda.planning.projects import Requests, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from palda.data import Votes
    from palda.estimators import CrowdPALDA
    from palda.planning.policies import Policy
    from palda.planning.projects import Ints, LabellingProject

HALF = 0.5


@dataclass(frozen=True)
class Schedule:
    """When models are fitted and updated; numbers are votes per document.

    Parameters
    ----------
    budgets : tuple of float
        Votes per document at which a new model is fitted and measured, ascending. Every document gets the votes of
        the first budget, at least one, in random order; the policy chooses from there on. A vote is one annotator's
        judgement of all classes of a document; if an annotator judges some classes only, it is a part of a vote.
    step : float, default 0.05
        Votes per document that are given before the model is updated.
    """

    budgets: tuple[float, ...]
    step: float = 0.05


def run_project(
    project: LabellingProject,
    policy: Policy,
    schedule: Schedule,
    fit: Callable[[Any, Votes], CrowdPALDA],
    progressed: Callable[[float], None] = lambda _: None,
) -> Curve:
    """Quality of the consensus against votes, under a policy.

    Parameters
    ----------
    project : LabellingProject
        Documents, true labels and annotators.
    policy : Policy
        Chooses the documents.
    schedule : Schedule
        Budgets and steps.
    fit : callable
        ``fit(counts, votes)`` returns a new fitted ``CrowdPALDA``.
    progressed : callable, optional
        Called with the votes per document so far.

    Returns
    -------
    Curve
        One point per budget that was reached.

    Examples
    --------
    >>> from palda.planning import RandomDocuments, Schedule, WordsAggregator, assumed_project, run_project
    >>> project = assumed_project(30, 3, [0.9, 0.8, 0.7], labels_per_doc=1, seed=0)
    >>> curve = run_project(project, RandomDocuments(), Schedule((1.0, 2.0)), WordsAggregator(n_jobs=1))
    >>> curve.policy, curve.column("n_looks").tolist()
    ('random', [30.0, 60.0])
    """
    run = _Run(project, policy, schedule, fit)
    points = [run.start()]
    for budget in schedule.budgets[1:]:
        progressed(run.votes_per_doc)
        before = run.advance(budget)
        if run.votes_per_doc < budget - schedule.step:
            break
        points.append(run.refit(before))
    return Curve(policy.name, tuple(points))


class _Run:
    def __init__(
        self, project: LabellingProject, policy: Policy, schedule: Schedule, fit: Callable[[Any, Votes], CrowdPALDA]
    ) -> None:
        self._project, self._policy, self._schedule, self._fit = project, policy, schedule, fit
        most = int(np.ceil(schedule.budgets[-1] * project.n_docs * project.n_classes)) + project.n_docs
        self._arrivals, self._n_arrived = project.arrivals(most), 0
        self._rng = np.random.default_rng([project.seed, *b"policy"])

    @property
    def votes_per_doc(self) -> float:
        return len(self._votes) / self._project.labels.size

    def start(self) -> CurvePoint:
        """Give every document the votes of the first budget."""
        project = self._project
        judged = np.zeros((project.n_docs, len(project.annotators), project.n_classes), dtype=bool)
        n_first = round(self._schedule.budgets[0] * project.n_docs)
        docs = np.resize(project.first_docs(), n_first)
        first = Requests(self._free_arrivals(docs), docs)
        self._votes = project.answers(first)
        judged[first.doc, first.annotator] = True
        self.progress = Progress(self._fit(project.counts, self._votes), judged, self._rng)
        return self._point(self.progress.model, self.progress.model)

    def _free_arrivals(self, docs: Ints) -> Ints:
        """Annotators for the documents, as they arrive; one who has judged the document leaves the turn to the next."""
        seen: set[tuple[int, int]] = set()
        chosen = []
        for doc in docs.tolist():
            while (doc, int(self._arrivals[self._n_arrived])) in seen:
                self._n_arrived += 1
            annotator = int(self._arrivals[self._n_arrived])
            self._n_arrived += 1
            seen.add((doc, annotator))
            chosen.append(annotator)
        return np.array(chosen, dtype=np.int64)

    def advance(self, budget: float) -> CrowdPALDA:
        """Give votes up to the budget; returns the updated model."""
        project, size = self._project, self._project.labels.size
        step = max(1, round(self._schedule.step * project.n_docs))
        while (missing := budget * size - len(self._votes)) >= 1:
            n_requests = min(step, int(np.ceil(missing / project.n_classes)))
            arrivals = self._arrivals[self._n_arrived : self._n_arrived + n_requests]
            self._n_arrived += len(arrivals)
            chosen = self._policy.choose(self.progress, arrivals)
            if not chosen.size:
                break
            self._add(chosen)
        return self.progress.model

    def _add(self, chosen: Requests) -> None:
        new = self._project.answers(chosen)
        self.progress.judged[new.doc, new.annotator, new.label] = True
        self._votes = joined(self._votes, new)
        self.progress.model.update(new)

    def refit(self, before: CrowdPALDA) -> CurvePoint:
        """Fit a new model to all votes, and measure it."""
        self.progress.model = self._fit(self._project.counts, self._votes)
        return self._point(self.progress.model, before)

    def _point(self, model: CrowdPALDA, before: CrowdPALDA) -> CurvePoint:
        truth, probs = self._project.labels, model.consensus_
        return CurvePoint(
            self.votes_per_doc,
            int(np.count_nonzero(self.progress.seen)),
            len(self._votes),
            metrics.micro_f1(truth, probs >= HALF),
            float(np.mean((probs >= HALF) != truth)),
            float(np.minimum(probs, 1.0 - probs).mean()),
            metrics.micro_f1(truth, before.consensus_ >= HALF),
        )
