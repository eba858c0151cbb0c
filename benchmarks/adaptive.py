"""Votes that adaptive assignment saves: policies side by side on simulated crowds.

``python -m benchmarks adaptive run`` computes cells, ``table`` prints the tables and ``plot FILE`` draws the curves.
``run [--sets ...] [--crowds ...] [--policies ...] [--seeds N ...]`` selects cells; each is stored in ``--folder``
(``adaptive-cells``) as one JSON file when it is finished, and is not computed again. ``who`` is the experiment in which
annotators are chosen as well. Times of ``assign`` and ``update`` are in ``python -m benchmarks assignment``.

50 annotators arrive at random, and a policy chooses only the document; a vote of an annotator on a document is the same
under every policy. Half of the documents get one vote at first, the policy chooses from there on. The aggregator is the
same for all: ``CrowdPALDA`` with ``label_prior="words"`` (topics do not take part in its consensus, so there are 5),
fitted at the start and at most eight times more, at the budgets of the curve, and updated after every .05 votes per
document. ActiveLab (cleanlab, one problem per class, mean over classes) gets the consensus of the same model as its
probabilities, after every .25 votes per document, because its scores take seconds.

Needs the public data sets in $PALDA_DATA and palda[baselines].
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logit
from sklearn.exceptions import ConvergenceWarning

from benchmarks.adaptive_tables import print_tables, print_who
from benchmarks.gold import case_of
from palda import simulate
from palda.errors import PaldaError
from palda.paper import write_atomically
from palda.planning import (
    Assignment,
    Curve,
    CurvePoint,
    FixedOverlap,
    LabellingProject,
    LabelUncertainty,
    Progress,
    RandomDocuments,
    Requests,
    Schedule,
    SuggestedLabels,
    TypicalAssignment,
    WordsAggregator,
    by_score,
    run_project,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.planning import Policy

N_DOCS = {"reuters": 1500, "newsroom": 1500}
EASY, HARD = (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0), (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
BUDGETS = {"reuters": EASY, "newsroom": EASY, "yeast": HARD, "enron": HARD}
LATE = (6.0,)  # for the F1 of overlap 10
OVERLAPS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
LABEL_BUDGETS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
STEP, ACTIVELAB_STEP = 0.05, 0.25  # scores of ActiveLab take seconds
CROWDS = ("paper", "adversarial")


class ActiveLab:
    """cleanlab's ActiveLab: one problem per class, mean score over classes, lowest first."""

    name = "ActiveLab"

    def choose(self, progress: Progress, arrivals: NDArray[np.int64]) -> Requests:
        """Documents with the lowest scores."""
        model = progress.model
        votes = model._kept_record().votes.all_votes  # noqa: SLF001
        table = np.full((votes.n_classes, votes.n_docs, votes.n_annotators), np.nan)
        table[votes.label, votes.doc, votes.annotator] = votes.value
        with contextlib.redirect_stdout(io.StringIO()):  # remarks on annotators without common documents
            scores = np.mean(
                [active_scores(given, p) for given, p in zip(table, model.consensus_.T, strict=True)], axis=0
            )
        return by_score(-scores, progress.seen, arrivals)


def active_scores(given: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of all documents for one class; low scores are most worth a vote."""
    from cleanlab.multiannotator import get_active_learning_scores

    has_votes = ~np.isnan(given).all(axis=1)
    used = ~np.isnan(given).all(axis=0)
    probs = np.column_stack((1.0 - predicted, predicted))
    scores = np.ones(len(given))
    if len(np.unique(given[has_votes][~np.isnan(given[has_votes])])) < 2:
        return scores
    labelled, unlabelled = get_active_learning_scores(
        given[has_votes][:, used], probs[has_votes], probs[~has_votes] if not has_votes.all() else None
    )
    scores[has_votes] = labelled
    if not has_votes.all():
        scores[~has_votes] = unlabelled
    return scores


POLICIES: dict[str, Policy] = {
    "fixed": FixedOverlap(),
    "random": RandomDocuments(),
    "uncertainty": LabelUncertainty(),
    "suggest": SuggestedLabels(),
    "activelab": ActiveLab(),
    "assign": Assignment(),
    "labels": Assignment("assign, labels", ask="labels"),
}


class Run(NamedTuple):
    """One policy on one data set with one crowd."""

    data: str
    crowd: str
    policy: str
    seed: int

    @property
    def file_name(self) -> str:
        """Name of the cell."""
        return f"{self.data}_{self.crowd}_{self.policy}_seed{self.seed}.json"

    @property
    def schedule(self) -> Schedule:
        """Budgets and steps of the run."""
        if self.policy == "labels":
            return Schedule(LABEL_BUDGETS, 0.25)  # requests per document; each asks for some classes
        budgets = OVERLAPS if self.policy == "fixed" else BUDGETS[self.data]
        if self.policy == "assign" and budgets == HARD:
            budgets += LATE
        return Schedule(budgets, ACTIVELAB_STEP if self.policy == "activelab" else STEP)


def project_of(data: str, crowd: str, seed: int) -> LabellingProject:
    if data == "newsroom":
        news = simulate.newsroom(N_DOCS[data], seed=seed)
        words, labels = news.corpus.counts, news.labels
    else:
        case = case_of(data)
        words, labels = case.words, case.labels
        if data in N_DOCS:
            rows = np.sort(np.random.default_rng(seed).choice(len(labels), N_DOCS[data], replace=False))
            words, labels = words[rows], labels[rows]
    people = simulate.annotators(crowd, n_classes=labels.shape[1], seed=seed)
    return LabellingProject.numbered(words, labels, people, seed=seed)


def store(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def curves(folder: Path) -> Iterator[tuple[Run, Curve]]:
    """Stored runs."""
    for path in sorted(folder.glob("*_seed*.json")):
        content = json.loads(path.read_text())
        run = Run(*content["run"])
        yield run, Curve(run.policy, tuple(CurvePoint(*point) for point in content["points"]))


def compute(runs: list[Run], folder: Path) -> None:
    """Compute the runs that are not stored; those on the same crowd share the first fit."""
    shared: tuple[Any, LabellingProject, WordsAggregator] | None = None
    for run in runs:
        path = folder / run.file_name
        if path.exists():
            continue
        case = run.data, run.crowd, run.seed
        if shared is None or shared[0] != case:
            shared = case, project_of(*case), WordsAggregator(seed=run.seed, n_jobs=1)
        start = time.process_time()
        curve = run_project(shared[1], POLICIES[run.policy], run.schedule, shared[2])
        seconds = time.process_time() - start
        store(path, {"run": run, "points": curve.points, "seconds": seconds})
        shown = ", ".join(f"{point.votes_per_doc:.2f}: {point.micro_f1:.4f}" for point in curve.points)
        print(f"{run.file_name}: {shown} ({seconds:.0f} s)", flush=True)


def planned(options: argparse.Namespace) -> list[Run]:
    return [
        Run(data, crowd, policy, seed)
        for crowd in options.crowds
        for seed in options.seeds
        for data in options.sets
        for policy in options.policies
        if policy != "labels" or data == "enron"
    ]


WHO_DOCS, WHO_PEOPLE, WHO_BUDGETS = 1000, 30, (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
EXPERT, LAYMAN = 0.95, 0.6


def specialists(n_classes: int, seed: int) -> simulate.SimulatedAnnotators:
    """Annotators who know a third of the classes well and the others hardly."""
    rng = np.random.default_rng([seed, *b"specialists"])
    known = rng.random((WHO_PEOPLE, n_classes)).argsort(axis=1) < max(1, n_classes // 3)
    noise = rng.normal(0.0, 0.3, (2, *known.shape))
    centre = logit(np.where(known, EXPERT, LAYMAN))
    rates = 1.0 / (1.0 + np.exp(-(centre + noise)))
    return simulate.SimulatedAnnotators.from_rates(*rates)


def who(options: argparse.Namespace) -> None:
    """With specialists: choosing the document alone, for a typical annotator; for the one who arrives; and who as well.

    In the first two cases annotators arrive at random; in the third everybody is capped at twice the equal share.
    """
    for seed in options.seeds:
        news = simulate.newsroom(WHO_DOCS, seed=seed)
        people = specialists(news.labels.shape[1], seed)
        project, fit = (
            LabellingProject.numbered(news.corpus.counts, news.labels, people, seed=seed),
            WordsAggregator(seed=seed, n_jobs=1),
        )
        policies: dict[str, Policy] = {
            "documents": TypicalAssignment(),
            "arrivals": Assignment(),
            "both": Assignment(chooses_annotators=True),
        }
        for name, policy in policies.items():
            run = Run("who", "specialists", name, seed)
            path = options.folder / run.file_name
            if not path.exists():
                curve = run_project(project, policy, Schedule(WHO_BUDGETS, STEP), fit)
                store(path, {"run": run, "points": curve.points})
    print_who(dict(curves(options.folder)))


def plot(options: argparse.Namespace) -> None:
    from benchmarks.adaptive_tables import draw

    draw(dict(curves(options.folder)), options.output)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks adaptive")
    parser.add_argument("part", choices=("run", "table", "plot", "who"))
    parser.add_argument("--folder", type=Path, default=Path("adaptive-cells"))
    parser.add_argument("--sets", nargs="+", choices=tuple(BUDGETS), default=list(BUDGETS))
    parser.add_argument("--crowds", nargs="+", choices=CROWDS, default=list(CROWDS))
    parser.add_argument("--policies", nargs="+", choices=tuple(POLICIES), default=list(POLICIES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--output", type=Path, default=Path("docs/pictures/adaptive.png"))
    options = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.part == "run":
            compute(planned(options), options.folder)
        elif options.part == "table":
            stored = dict(curves(options.folder))
            print_tables(stored)
            print_who(stored)
        else:
            {"plot": plot, "who": who}[options.part](options)
    except PaldaError as missing:
        print(f"skipped: {missing}")


if __name__ == "__main__":
    main(sys.argv[1:])
