"""What the report says about annotators, as plain records: quality, verdicts, and who agrees with whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.models.crowd import VERDICTS
from palda.report.records import LARGEST_HEAT, Heat, rounded, shortened

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.report.records import Material

__all__ = ["AnnotatorRow", "VerdictRow", "annotator_heat", "annotator_rows", "opposite_pairs", "verdict_rows"]

MOST_ANNOTATORS = 500
"""Rows of the table of annotators; those with the most votes are shown."""

_LEAST_SHARED = 20
"""Two annotators with fewer labels in common are not compared by name."""


@dataclass(frozen=True)
class AnnotatorRow:
    """An annotator, as the table shows it."""

    name: str
    quality: float
    low: float
    high: float
    sensitivity: float
    specificity: float
    n_votes: int
    verdict: str


@dataclass(frozen=True)
class VerdictRow:
    """How many annotators have a verdict, and how many votes are theirs."""

    verdict: str
    n_annotators: int
    n_votes: int
    vote_share: float


def annotator_rows(material: Material) -> list[AnnotatorRow]:
    """Annotators from best to worst; of very many, those with the most votes."""
    return [
        AnnotatorRow(
            name=shortened(row["annotator"]),
            quality=row["quality"],
            low=row["low"],
            high=row["high"],
            sensitivity=row["sensitivity"],
            specificity=row["specificity"],
            n_votes=row["n_votes"],
            verdict=row["verdict"],
        )
        for row in _busiest(material, MOST_ANNOTATORS).round(4).to_dict("records")
    ]


def verdict_rows(material: Material) -> list[VerdictRow]:
    """Votes over verdicts: who has the say."""
    table = material.model.annotator_quality_
    people = Counter(table["verdict"])
    votes = {verdict: int(table["n_votes"][table["verdict"] == verdict].sum()) for verdict in VERDICTS}
    total = max(sum(votes.values()), 1)
    return [
        VerdictRow(name, people[name], votes[name], round(votes[name] / total, 4)) for name in VERDICTS if people[name]
    ]


def annotator_heat(material: Material) -> Heat | None:
    """Who agrees with whom, beyond chance (Cohen's kappa), from the best annotator to the worst."""
    if material.votes is None or not material.has_crowd or len(material.model.annotators_) < 2:
        return None
    table = _busiest(material, LARGEST_HEAT)
    place = np.argsort(np.argsort(table.index.to_numpy()))  # of each shown annotator among those compared
    pairs = metrics.annotator_pairs(_votes_of(material.votes, table.index.to_numpy()))
    kappa, agreement, shared = (
        pairs.matrix(values)[np.ix_(place, place)] for values in (pairs.kappa, pairs.agreement, pairs.n_shared)
    )
    details = [
        [
            "no label in common" if np.isnan(shared[i, j]) else _equal_votes(agreement[i, j], shared[i, j])
            for j in range(len(table))
        ]
        for i in range(len(table))
    ]
    names = [shortened(name) for name in table["annotator"]]
    return Heat(names, rounded(kappa), details, len(material.model.annotators_))


def _busiest(material: Material, n: int) -> pd.DataFrame:
    """The annotators with the most votes, from best to worst."""
    table = material.model.annotator_quality_.nlargest(n, "n_votes", keep="first")
    return table.sort_values("quality", ascending=False, kind="stable")


def _votes_of(votes: Votes, people: NDArray[np.int64]) -> Votes:
    """The votes of some annotators, who are renumbered in their old order: all pairs of a large crowd are too many."""
    people = np.sort(people)
    number_of = np.full(votes.n_annotators, -1, dtype=np.int32)
    number_of[people] = np.arange(len(people), dtype=np.int32)
    kept = number_of[votes.annotator] >= 0
    return replace(
        votes,
        doc=votes.doc[kept],
        annotator=number_of[votes.annotator[kept]],
        label=votes.label[kept],
        value=votes.value[kept],
        annotators=votes.annotators[people],
        abstained=votes.abstained[:0],
    )


def _equal_votes(agreement: float, shared: float) -> str:
    return f"{agreement:.0%} of {shared:.0f} votes equal"


def opposite_pairs(material: Material, n_pairs: int = 5) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pairs of annotators that agree most and least, among those with enough labels in common."""
    if material.votes is None or not material.has_crowd:
        return [], []
    votes = _votes_of(material.votes, _busiest(material, MOST_ANNOTATORS).index.to_numpy())
    pairs = metrics.annotator_pairs(votes)
    usable = np.flatnonzero((pairs.n_shared >= _LEAST_SHARED) & np.isfinite(pairs.kappa))
    order = usable[np.argsort(-pairs.kappa[usable], kind="stable")]
    names = votes.annotators

    def record(pair: int) -> dict[str, Any]:
        return {
            "first": shortened(names[pairs.first[pair]]),
            "second": shortened(names[pairs.second[pair]]),
            "kappa": round(float(pairs.kappa[pair]), 3),
            "equal": _equal_votes(float(pairs.agreement[pair]), float(pairs.n_shared[pair])),
        }

    n_shown = min(n_pairs, len(order) // 2)
    return [record(pair) for pair in order[:n_shown]], [record(pair) for pair in order[::-1][:n_shown]]
