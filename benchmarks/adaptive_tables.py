"""Tables and picture of the benchmark of adaptive assignment."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.planning import line_styles, mean_curve, save_picture, votes_needed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palda.planning import Curve

    Runs = Mapping[Any, Curve]

OVERLAPS = (2, 3, 5, 10)
NAMES = {
    "fixed": "fixed overlap", "random": "random", "activelab": "ActiveLab", "suggest": "`suggest`",
    "uncertainty": "uncertainty", "assign": "`assign`", "labels": '`assign`, `ask="labels"`',
}  # fmt: skip
CROWDS = {"paper": "the paper's crowd", "adversarial": "ten of fifty annotators malicious"}
MAX_SHARE = {"reuters": 0.4, "newsroom": 0.4, "yeast": 0.6, "enron": 0.6}
MAX_LABEL_SHARE, ALLOWED_LOSS, MIN_SAVED = 0.4, 0.002, 0.15


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


def by_policy(runs: Runs) -> dict[tuple[str, str], dict[str, dict[int, Curve]]]:
    """Curves by data set and crowd, by policy in the order of ``NAMES``, and by seed."""
    groups: dict[tuple[str, str], dict[str, dict[int, Curve]]] = defaultdict(lambda: defaultdict(dict))
    for run, curve in runs.items():
        if run.data != "who":
            groups[run.data, run.crowd][run.policy][run.seed] = curve
    return {case: {name: found[name] for name in NAMES if name in found} for case, found in groups.items()}


def same_seeds(curves: dict[str, dict[int, Curve]], *names: str) -> tuple[list[Curve], int]:
    """Mean curves of policies over the seeds that all of them have, and the number of seeds."""
    seeds = sorted(set.intersection(*(set(curves[name]) for name in names)))
    return [mean_curve([curves[name][seed] for seed in seeds]) for name in names] if seeds else [], len(seeds)


def paired(runs: Runs, case: tuple[str, str], policy: str, other: str, budget: float) -> tuple[float, int]:
    """Mean difference of micro-F1 of two policies over the seeds that both have, and the number of seeds."""
    f1 = {
        (run.policy, run.seed): f1_at(curve, budget)
        for run, curve in runs.items()
        if (run.data, run.crowd) == case and run.policy in (policy, other)
    }
    seeds = sorted({seed for name, seed in f1 if (policy, seed) in f1 and (other, seed) in f1 and name == policy})
    differences = [f1[policy, seed] - f1[other, seed] for seed in seeds]
    return (float(np.mean(differences)), len(seeds)) if seeds else (math.nan, 0)


def f1_at(curve: Curve, budget: float) -> float:
    """Micro-F1 at a budget; NaN if it was not measured there."""
    votes = curve.column("votes_per_doc")
    place = int(np.abs(votes - budget).argmin())
    return float(curve.points[place].micro_f1) if abs(votes[place] - budget) < 0.02 else math.nan


def number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.{digits}f}".removeprefix("0") if abs(value) < 1 and digits == 3 else f"{value:.{digits}f}"


def print_tables(runs: Runs) -> None:
    """Votes needed at the F1 of fixed overlaps, F1 at equal budgets, and margins."""
    for case, curves in by_policy(runs).items():
        print(f"\n### {case[0]}, {CROWDS[case[1]]}\n")
        if "fixed" in curves:
            print_needed(case, curves)
        print_budgets(runs, case, curves)


def print_needed(case: tuple[str, str], curves: dict[str, dict[int, Curve]]) -> None:
    print("| votes per document for the micro-F1 of overlap | seeds | " + " | ".join(map(str, OVERLAPS)) + " |")
    print("|---" * (len(OVERLAPS) + 2) + "|")
    fixed = mean_curve(list(curves["fixed"].values()))
    f1 = " | ".join(number(f1_at(fixed, overlap), 3) for overlap in OVERLAPS)
    print(f"| micro-F1 of the overlap | {len(curves['fixed'])} | {f1} |")
    verdicts = []
    for name in list(curves)[1:]:
        found, n_seeds = same_seeds(curves, "fixed", name)
        if not n_seeds:
            continue
        overlap, curve = found
        needed = {k: votes_needed(curve, f1_at(overlap, k)) for k in OVERLAPS}
        print(f"| {NAMES[name]} | {n_seeds} | " + " | ".join(number(votes, 2) for votes in needed.values()) + " |")
        limit = {"assign": MAX_SHARE[case[0]], "labels": MAX_LABEL_SHARE}.get(name)
        if limit is not None:
            share = needed[5] / 5
            verdicts.append(f"{NAMES[name]}: {number(share, 3)} of overlap 5: {verdict(share <= limit)} ({limit})")
        if name == "assign" and case[0] == "reuters":
            ahead, ten = f1_at(curve, 3.0), f1_at(overlap, 10)
            verdicts.append(f"3 votes {ahead:.4f} against overlap 10 {ten:.4f}: {verdict(ahead > ten)}")
    print("".join(f"\n{line}.\n" for line in verdicts), end="")


def print_budgets(runs: Runs, case: tuple[str, str], curves: dict[str, dict[int, Curve]]) -> None:
    means = {name: mean_curve(list(found.values())) for name, found in curves.items()}
    longest = max((curve for name, curve in means.items() if name not in ("fixed", "labels")), key=_length)
    budgets = [round(float(votes), 2) for votes in longest.column("votes_per_doc")][1:]
    print("\n| micro-F1 at votes per document | seeds | " + " | ".join(f"{b:g}" for b in budgets) + " |")
    print("|---" * (len(budgets) + 2) + "|")
    for name, curve in means.items():
        f1 = " | ".join(number(f1_at(curve, budget), 3) for budget in budgets)
        print(f"| {NAMES[name]} | {len(curves[name])} | {f1} |")
    if "assign" in curves:
        print_margins(runs, case, budgets)


def print_margins(runs: Runs, case: tuple[str, str], budgets: list[float]) -> None:
    """Differences of ``assign`` from the other policies, over the seeds that both have."""
    worst = math.inf
    for name in ("fixed", "random", "activelab", "suggest", "uncertainty"):
        found = [paired(runs, case, "assign", name, budget) for budget in budgets]
        known = [margin for margin, _ in found if not math.isnan(margin)]
        if known:
            worst = min(worst, *known)
            shown = " | ".join("-" if math.isnan(m) else f"{m:+.3f}" for m, _ in found)
            print(f"| `assign` minus {NAMES[name]} | {max(n for _, n in found)} | {shown} |")
    print(f"\nlargest loss against any policy: {worst:+.4f}: {verdict(worst >= -ALLOWED_LOSS)} (-{ALLOWED_LOSS}).")


def _length(curve: Curve) -> int:
    return len(curve.points)


def print_who(runs: Runs) -> None:
    """Votes saved at the F1 that choosing documents alone reaches at several budgets."""
    curves: dict[str, list[Curve]] = defaultdict(list)
    for run, curve in runs.items():
        if run.data == "who":
            curves[run.policy].append(curve)
    if not {"documents", "both", "arrivals"} <= set(curves):
        return
    alone, arrivals, both = (mean_curve(curves[name]) for name in ("documents", "arrivals", "both"))
    print(f"\n### Choosing who, {len(curves['both'])} seeds\n")
    print("| votes per document, documents alone | micro-F1 | for who arrives | saved | who as well | saved |")
    print("|---|---|---|---|---|---|")
    saved = math.nan
    for point in alone.points[2:]:
        cells = []
        for curve in (arrivals, both):
            needed = votes_needed(curve, point.micro_f1)
            saved = 1.0 - needed / point.votes_per_doc
            cells += [number(needed, 2), "-" if math.isnan(saved) else f"{saved:.0%}"]
        print(f"| {point.votes_per_doc:.2f} | {number(point.micro_f1, 3)} | " + " | ".join(cells) + " |")
    print(f"\nsaved at the end of the curve: {verdict(saved >= MIN_SAVED)} ({MIN_SAVED:.0%})")


def draw(runs: Runs, path: Path) -> None:
    """Curves of the paper's crowd: one panel per data set, micro-F1 against votes per document."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from palda.planning.pictures import STYLE

    sets = {case[0]: curves for case, curves in by_policy(runs).items() if case[1] == "paper"}
    order = [name for name in NAMES if any(name in curves for curves in sets.values()) and name != "labels"]
    styles = dict(zip(order, line_styles(len(order)), strict=True))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.4), layout="constrained")
        panels = figure.subplots(2, 2).ravel()
        for axes, data in zip(panels, [name for name in MAX_SHARE if name in sets], strict=False):
            curves = sets[data]
            for name in order:
                if name in curves:
                    color, marker, line = styles[name]
                    curve = mean_curve(list(curves[name].values()))
                    votes, f1 = curve.column("votes_per_doc"), curve.column("micro_f1")
                    kept = votes <= 5.01
                    label = NAMES[name].replace("`", "")
                    axes.plot(votes[kept], f1[kept], line, color=color, marker=marker, label=label)
            if "fixed" in curves:
                axes.axhline(f1_at(mean_curve(list(curves["fixed"].values())), 5), color="0.2", linewidth=0.7)
            axes.set_title(data, loc="left")
            axes.set_xlabel("votes per document")
            axes.set_ylabel("consensus micro-F1")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_picture(figure, path, path.suffix[1:])
    print(f"wrote {path}")
