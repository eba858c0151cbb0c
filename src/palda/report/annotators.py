"""Annotators: quality, verdicts, and agreement between pairs of annotators."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.data import names_array
from palda.models.crowd import VERDICTS
from palda.report.values import MAX_HEATMAP_NAMES, heatmap, shortened

if TYPE_CHECKING:
    import pandas as pd

    from palda.data import Strings
    from palda.report.inputs import ReportInputs

MAX_ANNOTATORS = 500
"""Rows of the annotator table: suspicious annotators first, then those with the most votes."""

_MIN_SHARED_LABELS = 20
"""Pairs of annotators with fewer labels in common are not listed by name."""

_N_PAIRS = 5  # listed with the highest and with the lowest kappa


_SUSPICIOUS = ("adversarial", "spammer")
_COLUMNS = ["quality", "low", "high", "sensitivity", "specificity", "n_votes", "verdict"]


def annotator_rows(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Annotators in descending order of quality; if they are too many, the suspicious and the most active ones."""
    table = inputs.model.annotator_quality_
    order = np.lexsort((-table["n_votes"].to_numpy(), ~table["verdict"].isin(_SUSPICIOUS).to_numpy()))
    table = table.iloc[np.sort(order[:MAX_ANNOTATORS])].sort_values("quality", ascending=False, kind="stable")
    rows: list[Any] = table[_COLUMNS].round(4).to_dict("records")
    kinds, families = (_traits(inputs, name) for name in ("annotator_kinds", "annotator_families"))
    return [
        {"name": shortened(name), **row, "kind": kinds[place], "family": shortened(families[place])}
        for name, place, row in zip(table["annotator"], table.index, rows, strict=True)
    ]


def _traits(inputs: ReportInputs, name: str) -> Strings:
    """Kind or family of each annotator of the model; "" if unknown."""
    given: Strings = names_array(()) if inputs.votes is None else getattr(inputs.votes, name)
    return given if len(given) else names_array([""] * len(inputs.model.annotators_))


def verdict_rows(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Numbers of annotators and votes per verdict."""
    table = inputs.model.annotator_quality_
    n_annotators = Counter(table["verdict"])
    n_votes = {verdict: int(table["n_votes"][table["verdict"] == verdict].sum()) for verdict in VERDICTS}
    total = max(sum(n_votes.values()), 1)
    return [
        {
            "verdict": verdict,
            "n_annotators": n_annotators[verdict],
            "n_votes": n_votes[verdict],
            "vote_share": round(n_votes[verdict] / total, 4),
        }
        for verdict in VERDICTS
        if n_annotators[verdict]
    ]


def agreement_heatmap(inputs: ReportInputs) -> dict[str, Any] | None:
    """Cohen's kappa of each pair of annotators, in descending order of quality."""
    if inputs.votes is None or not inputs.has_crowd or len(inputs.model.annotators_) < 2:
        return None
    table = _most_active(inputs, MAX_HEATMAP_NAMES)
    order = np.argsort(np.argsort(table.index.to_numpy()))  # row of each annotator among the compared ones
    pairs = metrics.annotator_pairs(inputs.votes.of_annotators(np.sort(table.index.to_numpy())))
    kappa, agreement, shared = (
        pairs.matrix(values)[np.ix_(order, order)] for values in (pairs.kappa, pairs.agreement, pairs.n_shared)
    )
    details = [
        [
            "no label in common" if np.isnan(shared[i, j]) else _equal_votes(agreement[i, j], shared[i, j])
            for j in range(len(table))
        ]
        for i in range(len(table))
    ]
    names = [shortened(name) for name in table["annotator"]]
    return heatmap(names, kappa, len(inputs.model.annotators_), details)


def _most_active(inputs: ReportInputs, n: int) -> pd.DataFrame:
    """The annotators with the most votes, in descending order of quality."""
    table = inputs.model.annotator_quality_.nlargest(n, "n_votes", keep="first")
    return table.sort_values("quality", ascending=False, kind="stable")


def _equal_votes(agreement: float, shared: float) -> str:
    return f"{agreement:.0%} of {shared:.0f} votes equal"


def extreme_pairs(inputs: ReportInputs) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pairs of annotators with the highest and the lowest kappa, among those with enough labels in common."""
    if inputs.votes is None or not inputs.has_crowd:
        return [], []
    votes = inputs.votes.of_annotators(np.sort(_most_active(inputs, MAX_ANNOTATORS).index.to_numpy()))
    pairs = metrics.annotator_pairs(votes)
    usable = np.flatnonzero((pairs.n_shared >= _MIN_SHARED_LABELS) & np.isfinite(pairs.kappa))
    order = usable[np.argsort(-pairs.kappa[usable], kind="stable")]
    names = votes.annotators

    def record(pair: int) -> dict[str, Any]:
        return {
            "first": shortened(names[pairs.first[pair]]),
            "second": shortened(names[pairs.second[pair]]),
            "kappa": round(float(pairs.kappa[pair]), 3),
            "equal": _equal_votes(float(pairs.agreement[pair]), float(pairs.n_shared[pair])),
        }

    n_shown = min(_N_PAIRS, len(order) // 2)
    return [record(pair) for pair in order[:n_shown]], [record(pair) for pair in order[::-1][:n_shown]]
