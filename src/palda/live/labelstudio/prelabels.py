"""How much pre-labels influence annotators: annotations that began from one against tasks where they are withheld."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from palda.live.labelstudio.answers import PRELABEL, WITHHELD
from palda.live.schema import labelstudio_annotation, submission, vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

COLUMNS = ("measure", "pre-label shown", "withheld")
"""Headings of the table of ``PrelabelInfluence.rows``."""

NOTE = (
    "Compared are the latest annotations that were made in the editor on tasks with a prediction. Tasks whose "
    "pre-label is withheld are drawn at random: if people there agree with the prediction less often, they follow it "
    "where they see it."
)
"""How to read that table."""

_MAX_ANNOTATIONS = 1000  # latest ones that are compared
_MIN_COMPARED = 10  # of each kind, for a difference


@dataclass(frozen=True)
class AnnotationGroup:
    """Annotations on tasks for which there was a prediction; shares are means over annotations, None without any."""

    n_annotations: int
    like_prediction: float | None  # share of labels equal to those of the prediction, whether it was shown or not
    like_prediction_error: float  # standard error
    like_others: float | None  # share of labels equal to those of another annotator of the task
    seconds: float | None  # median


@dataclass(frozen=True)
class PrelabelInfluence:
    """Annotations that began from a pre-label, beside those on tasks that showed none."""

    n_annotations: int
    n_prelabelled: int
    shown: AnnotationGroup
    withheld: AnnotationGroup

    def rows(self) -> list[tuple[str, str, str]]:
        """A table for people: what, where annotations began from a pre-label, where it was withheld."""
        both = self.shown, self.withheld
        texts = {
            "annotations compared": [f"{one.n_annotations:,}" for one in both],
            "labels equal to the prediction": [_text(one.like_prediction, ".1%") for one in both],
            "labels equal to those of others": [_text(one.like_others, ".1%") for one in both],
            "median seconds": [_text(one.seconds, ".1f") for one in both],
        }
        return [(name, shown, withheld) for name, (shown, withheld) in texts.items()]

    def summary(self) -> str:
        """One sentence: how many began from a pre-label, and how much more they agree with it."""
        text = f"{self.n_prelabelled:,} of {self.n_annotations:,} annotations began from a pre-label"
        shown, withheld = self.shown.like_prediction, self.withheld.like_prediction
        n_least = min(self.shown.n_annotations, self.withheld.n_annotations)
        if shown is None or withheld is None or n_least < _MIN_COMPARED:
            return f"{text}. Its influence is stated from {_MIN_COMPARED} annotations with and without one on."
        margin = 196.0 * (self.shown.like_prediction_error**2 + self.withheld.like_prediction_error**2) ** 0.5
        points = 100.0 * (shown - withheld)
        return (
            f"{text}; their labels equal the prediction by {points:+.1f} percentage points more often than where it is "
            f"withheld (95% interval {points - margin:+.1f} to {points + margin:+.1f})."
        )


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def prelabel_influence(connection: Connection, project_id: int) -> PrelabelInfluence | None:
    """Influence of pre-labels in a project; None if nothing began from a pre-label."""
    one = labelstudio_annotation.c
    current = (
        select(one.submission_id, one.document_id, one.person_id, one.predicted, submission.c.purpose)
        .add_columns(submission.c.seconds)
        .join(submission, submission.c.id == one.submission_id)
        .where(one.project_id == project_id, one.kind == "votes")
    )
    inner = current.subquery()
    is_prelabel = inner.c.purpose == PRELABEL
    counts = select(func.count(), func.count().filter(is_prelabel)).select_from(inner)
    n_all, n_prelabelled = connection.execute(counts).one()
    if not n_prelabelled:
        return None
    is_compared = one.predicted.is_not(None), submission.c.purpose.in_((PRELABEL, WITHHELD))
    latest = current.where(*is_compared).order_by(one.submission_id.desc()).limit(_MAX_ANNOTATIONS)
    rows = connection.execute(latest).all()
    documents = {row.document_id for row in rows}
    around = connection.execute(current.where(one.document_id.in_(documents))).all()
    votes = _votes(connection, [row.submission_id for row in around])
    others = defaultdict(list)
    for row in around:
        others[row.document_id].append((row.person_id, votes[row.submission_id]))
    shown, withheld = (
        _group([row for row in rows if row.purpose == purpose], votes, others) for purpose in (PRELABEL, WITHHELD)
    )
    return PrelabelInfluence(n_all, n_prelabelled, shown, withheld)


def _votes(connection: Connection, submissions: Sequence[int]) -> dict[int, dict[int, int]]:
    """Votes by submission and class."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    query = select(vote.c.submission_id, vote.c.label_id, vote.c.value).where(vote.c.value.is_not(None))
    for number, label, value in connection.execute(query.where(vote.c.submission_id.in_(submissions))):
        found[number][label] = value
    return found


def _group(
    rows: Sequence[Any], votes: dict[int, dict[int, int]], others: dict[int, list[tuple[int, dict[int, int]]]]
) -> AnnotationGroup:
    like_prediction, like_others = [], []
    for row in rows:
        mine = votes[row.submission_id]
        like_prediction += _equal_share(mine, {label: int(label in row.predicted) for label in mine})
        for person_id, theirs in others[row.document_id]:
            if person_id != row.person_id:
                like_others += _equal_share(mine, theirs)
    seconds = [row.seconds for row in rows if row.seconds is not None]
    error = statistics.stdev(like_prediction) / len(like_prediction) ** 0.5 if len(like_prediction) > 1 else 1.0
    return AnnotationGroup(
        len(rows),
        statistics.fmean(like_prediction) if like_prediction else None,
        error,
        statistics.fmean(like_others) if like_others else None,
        statistics.median(seconds) if seconds else None,
    )


def _equal_share(mine: dict[int, int], theirs: dict[int, int]) -> list[float]:
    """Share of equal votes on the classes that both have; empty if there are none."""
    common = mine.keys() & theirs.keys()
    return [sum(mine[label] == theirs[label] for label in common) / len(common)] if common else []
