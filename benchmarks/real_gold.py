"""Consensus labels of real crowds against a reference that was not made of the same votes.

``python -m benchmarks real_gold [--crowds arq3 ...] [--methods palda ...] [--draws N] [--slow-draws N]
[--people first] [--folder FOLDER] [--json FILE]`` prints a table per crowd, one per crowd with the reference of 30
random documents given (50 of ``babe``), one per crowd of which votes are hidden, and a summary. Crowds and references:
``real_gold_data``; methods: ``real_gold_rivals``; figures: ``real_gold_measures``; hidden votes: ``real_gold_hidden``.

Figures are means over the draws of people or documents, with their standard error; of a crowd with a single draw that
of a bootstrap over documents. Differences are those of ``palda.aggregate`` and the rival that is best in this figure
(which flatters the rival), on the draws that both have, with bootstrap standard errors over documents. "Expected / true
wrong": the number of labels at 1/2 that the probabilities expect to be wrong, over the true number. "Rates covered":
see ``rate_coverage``. "Bound held": samples of documents, 100 over all draws, in which no more labels were wrong than
the method's 90% bound says; see ``bounds_held``.

Results are stored as probabilities in FOLDER (``build/real_gold``); a second run computes palda again if its source has
changed, and nothing else. Two checkouts may share a folder. The mean of three keeps the two coins of the palda that
computed it first.

Needs the crowds in $PALDA_DATA (or in ``../shared/data``) and palda[baselines].
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.real_gold_data import CROWDS, HIDDEN_CROWDS, PEOPLE, load
from benchmarks.real_gold_measures import (
    BOOTSTRAPPED,
    bounds_held,
    evaluate,
    rate_coverage,
    resampled_figures,
    standard_errors,
)
from benchmarks.real_gold_rivals import METHODS, Task
from benchmarks.real_gold_store import outcome_of
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from benchmarks.real_gold_data import Case

    Array = NDArray[np.float64]

FIGURES = {"auprc": 3, "f1": 3, "best_f1": 3, "log_likelihood": 3, "ece": 3, "wrong_ratio": 2}  # and their decimals
GOLD_METHODS = ("palda_gold", "palda", "share", "ds", "mean", "stacked")  # with the reference of some documents
N_BOUNDS = 100  # resamples in which a bound of wrong labels is checked, over all draws
HEADING = """\
| method | AUPRC | F1 at ½ | best F1 | log-likelihood | ECE | expected / true wrong | rates covered | bound held | s |
|---|---|---|---|---|---|---|---|---|---|"""
SUMMARY_HEADING = """\
| crowd | best rival in log-likelihood | its figures | palda's figures | log-likelihood | AUPRC | F1 at ½ |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Unit:
    """One draw: where results are stored, what methods get, and the labels they are compared with."""

    case: str
    task: Task
    gold: Array


@dataclass
class Row:
    """Results of a method on the draws of a crowd."""

    figures: list[dict[str, float]] = field(default_factory=list)
    resampled: list[Array] = field(default_factory=list)
    coverage: list[tuple[int, int]] = field(default_factory=list)
    bound_held: list[tuple[int, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, unit: Unit, method: str, folder: Path, n_draws: int) -> None:
        """Result of a method on one more draw, of ``n_draws``."""
        found = outcome_of(folder, unit.case, method, unit.task)
        figures = evaluate(unit.gold, found.probs)
        self.figures.append(figures)
        self.resampled.append(resampled_figures(unit.gold, found.probs))
        if len(found.intervals):
            self.coverage.append(rate_coverage(unit.task.votes, unit.gold, found.intervals))
        if len(found.slope_posterior):
            n_resamples = max(1, N_BOUNDS // n_draws)
            slopes = found.slope_posterior, found.bound_factor
            n_held = bounds_held(unit.gold, found.probs, *slopes, n_resamples, seed=len(self.seconds))
            self.bound_held.append((n_held, n_resamples))
        self.seconds.append(found.seconds)

    def mean(self, figure: str) -> float:
        """Mean over draws."""
        return float(np.mean([figures[figure] for figures in self.figures]))

    def error(self, figure: str) -> float:
        """Standard error over draws; with one draw that of the bootstrap over documents, or NaN."""
        if len(self.figures) > 1:
            return float(np.std([figures[figure] for figures in self.figures], ddof=1) / np.sqrt(len(self.figures)))
        if figure in BOOTSTRAPPED:
            return float(standard_errors(self.resampled)[BOOTSTRAPPED.index(figure)])
        return np.nan

    def cells(self) -> list[str]:
        """Cells of the table."""
        found = [with_error(self.mean(figure), self.error(figure), digits) for figure, digits in FIGURES.items()]
        inside, n_all = np.sum(self.coverage, axis=0) if self.coverage else (0, 0)
        n_held, n_resamples = np.sum(self.bound_held, axis=0) if self.bound_held else (0, 0)
        held = f"{n_held} of {n_resamples}" if n_resamples else ""
        return [*found, f"{inside} of {n_all}" if n_all else "", held, f"{np.mean(self.seconds):.1f}"]

    def brief(self) -> str:
        """Figures in the order of the summary: log-likelihood / ECE / AUPRC / F1 / expected over true wrong."""
        order = ("log_likelihood", "ece", "auprc", "f1", "wrong_ratio")
        return " / ".join(f"{self.mean(figure):.{FIGURES[figure]}f}" for figure in order)


def with_error(value: float, error: float, digits: int, sign: str = "") -> str:
    """A number with its standard error, if there is one."""
    text = f"{value:{sign}.{digits}f}"
    return text if np.isnan(error) else f"{text} ± {error:.{digits}f}"


def units(name: str, options: argparse.Namespace) -> Iterator[Unit]:
    """Draws of a crowd."""
    for draw in range(options.draws if CROWDS[name].is_drawn(options.people) else 1):
        case = load(name, draw, options.people)
        yield Unit(f"{name}-{draw}", task_of(case), case.gold)


def task_of(case: Case) -> Task:
    """What methods may use. People's answers on some documents teach; people who judged all are also shown alone."""
    taught = people = None
    if case.people is not None:
        n_votes = case.people.per_pair()
        if n_votes.all():
            people = case.people
        else:
            taught = np.where(n_votes > 0, case.people.yes_per_pair() / np.maximum(n_votes, 1), np.nan)
    has_models = "model" in case.votes.annotator_kinds
    return Task(case.votes, case.texts, taught, people, case.gold if has_models else None)


def gold_units(name: str, options: argparse.Namespace) -> Iterator[Unit]:
    """Draws of a crowd with the reference of some documents given, which is compared on the others."""
    for seed in range(options.draws):
        case = load(name, seed if CROWDS[name].is_drawn(options.people) else 0, options.people)
        rows = case.gold_documents(seed)
        taught, rest = np.full_like(case.gold, np.nan), case.gold.copy()
        taught[rows], rest[rows] = case.gold[rows], np.nan
        yield Unit(f"{name}-{case.draw}", Task(case.votes, case.texts, taught), rest)


def measure(draws: list[Unit], methods: list[str], options: argparse.Namespace) -> dict[str, Row]:
    """Rows of the methods that can run on the draws."""
    rows = {}
    for name in methods:
        method, row = METHODS[name], Row()
        if not method.can_run(draws[0].task):
            continue
        try:
            used = draws[: options.slow_draws if method.is_slow else None]
            for unit in used:
                row.add(unit, name, options.folder, len(used))
        except (PaldaError, ValueError, TypeError, LookupError, ArithmeticError) as failed:
            print(f"{draws[0].case}: {name} failed: {failed}", flush=True)
            continue
        rows[name] = row
    return rows


def difference(own: Row, other: Row, figure: str) -> tuple[float, float]:
    """Mean difference on the draws that both have, and its bootstrap standard error over documents."""
    n = min(len(own.figures), len(other.figures))
    values = [own.figures[i][figure] - other.figures[i][figure] for i in range(n)]
    errors = standard_errors([own.resampled[i] - other.resampled[i] for i in range(n)])
    return float(np.mean(values)), float(errors[BOOTSTRAPPED.index(figure)])


def comparisons(rows: dict[str, Row], own: str) -> dict[str, tuple[str, float, float]]:
    """Per bootstrapped figure the best rival, the difference to it and its standard error."""
    rivals = [name for name in rows if METHODS[name].is_rival]
    found = {}
    for figure in BOOTSTRAPPED if own in rows and rivals else ():
        # the smallest difference, not the largest mean: slow rivals have fewer draws
        best = min(rivals, key=lambda name: difference(rows[own], rows[name], figure)[0])
        found[figure] = (best, *difference(rows[own], rows[best], figure))
    return found


def show(title: str, rows: dict[str, Row], own: str) -> str:
    """Print the table of a crowd; returns its line of the summary."""
    n_labels = next(iter(rows.values())).figures[0]["n_labels"]
    n_draws = max(len(row.figures) for row in rows.values())
    print(f"\n### {title}: {n_labels:.0f} labels, {n_draws} draw{'s' * (n_draws > 1)}\n\n{HEADING}")
    for name, row in rows.items():
        fewer = f" ({len(row.figures)} of {n_draws} draws)" if len(row.figures) < n_draws else ""
        print(f"| {METHODS[name].title}{fewer} | {' | '.join(row.cells())} |")
    compared = comparisons(rows, own)
    differences = {
        figure: f"{with_error(value, error, 3, '+')} ({METHODS[best].title})"
        for figure, (best, value, error) in compared.items()
    }
    for figure, text in differences.items():
        print(f"\n{METHODS[own].title} minus the best rival, {figure}: {text}")
    sys.stdout.flush()
    if not compared:
        return ""
    best = compared["log_likelihood"][0]
    cells = [title, METHODS[best].title, rows[best].brief(), rows[own].brief()]
    return f"| {' | '.join([*cells, *(differences[f] for f in ('log_likelihood', 'auprc', 'f1'))])} |"


def as_json(rows: dict[str, Row], own: str) -> dict[str, Any]:
    """All figures of all draws."""
    methods = {
        name: {
            "figures": row.figures,
            "bootstrap_errors": dict(zip(BOOTSTRAPPED, standard_errors(row.resampled).tolist(), strict=True)),
            "coverage": row.coverage,
            "bound_held": row.bound_held,
            "seconds": row.seconds,
        }
        for name, row in rows.items()
    }
    return {"methods": methods, "differences": comparisons(rows, own)}


def run_crowd(name: str, options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Title, figures and line of the summary: votes alone, then with the reference of some documents."""
    rows = measure(
        list(units(name, options)), [method for method in options.methods if method != "palda_gold"], options
    )
    if rows:
        yield name, as_json(rows, "palda"), show(name, rows, "palda")
    methods = [method for method in GOLD_METHODS if method in options.methods]
    if CROWDS[name].people_on is None and {"palda_gold", "stacked"} & set(methods):
        title = f"{name}, {CROWDS[name].n_gold} gold"
        rows = measure(list(gold_units(name, options)), methods, options)
        yield title, as_json(rows, "palda_gold"), show(title, rows, "palda_gold")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    every_crowd = [*CROWDS, *HIDDEN_CROWDS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks real_gold")
    parser.add_argument("--crowds", nargs="+", default=every_crowd, choices=every_crowd, metavar="crowd")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="method")
    parser.add_argument("--draws", type=int, default=5, help="draws of people or documents")
    parser.add_argument("--slow-draws", type=int, default=None, help="draws for slow methods; as many by default")
    parser.add_argument("--people", choices=PEOPLE, default="first", help="whose answers join the models of premo")
    parser.add_argument("--folder", type=Path, default=Path("build/real_gold"), help="where results are stored")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(sys.argv[2:] if arguments is None else arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    figures: dict[str, dict[str, Any]] = {}
    lines = []
    for name in options.crowds:
        try:
            if name in HIDDEN_CROWDS:
                from benchmarks.real_gold_hidden import measure_hidden  # it needs more of palda's internals

                figures[name] = measure_hidden(name, options)
                continue
            for title, found, line in run_crowd(name, options):
                figures[title] = found
                lines.append(line)
        except PaldaError as missing:
            print(f"{name}: skipped: {missing}")
    if any(lines):
        print(f"\n### Summary: log-likelihood / ECE / AUPRC / F1 / expected over true wrong\n\n{SUMMARY_HEADING}")
        print("\n".join(filter(None, lines)), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
