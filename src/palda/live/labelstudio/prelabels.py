"""How much pre-labels influence annotators: tasks that show them against tasks that withhold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from palda.live.labelstudio import connections
from palda.live.labelstudio.answers import PRELABEL
from palda.live.schema import labelstudio_annotation, labelstudio_task, submission, vote
from palda.live.service.results import consensus_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

_MAX_ANNOTATIONS = 2000  # latest ones that are compared


@dataclass(frozen=True)
class PrelabelInfluence:
    """Annotations that began from a pre-label, and how often annotators agree with the consensus."""

    n_annotations: int
    n_prelabelled: int
    agreement_shown: float | None  # share of labels equal to the consensus, where it began from a pre-label
    agreement_withheld: float | None  # the same on tasks whose pre-label is withheld

    def summary(self) -> str:
        """One line for people."""
        text = f"{self.n_prelabelled:,} of {self.n_annotations:,} annotations began from one"
        for share, where in ((self.agreement_shown, "there"), (self.agreement_withheld, "where it is withheld")):
            if share is not None:
                text += f"; labels equal to the consensus {where}: {share:.1%}"
        return text


def prelabel_influence(connection: Connection, project_id: int) -> PrelabelInfluence | None:
    """Influence of pre-labels in a project; None if it is not connected."""
    found = connections.find(connection, project_id)
    if found is None:
        return None
    one = labelstudio_annotation.c
    of_project = (one.project_id == project_id) & (one.kind == "votes")
    of_submission = submission.c.id == one.submission_id
    n_all = connection.execute(select(func.count()).where(of_project)).scalar_one()
    is_prelabel = submission.c.purpose == PRELABEL
    n_shown = connection.execute(
        select(func.count())
        .select_from(labelstudio_annotation.join(submission, of_submission))
        .where(of_project, is_prelabel)
    ).scalar_one()
    if not n_shown:
        return PrelabelInfluence(n_all, 0, None, None)
    latest = (
        select(one.submission_id, one.document_id, labelstudio_task.c.task_id, submission.c.purpose)
        .join(submission, of_submission)
        .join(labelstudio_task, labelstudio_task.c.document_id == one.document_id)
        .where(of_project)
        .order_by(one.submission_id.desc())
        .limit(_MAX_ANNOTATIONS)
    )
    rows = connection.execute(latest).all()
    shown = [row for row in rows if row.purpose == PRELABEL]
    withheld = [row for row in rows if not found.settings.shows_prelabel(row.task_id)]
    return PrelabelInfluence(
        n_all, n_shown, _agreement(connection, project_id, shown), _agreement(connection, project_id, withheld)
    )


def _agreement(connection: Connection, project_id: int, rows: Iterable[Any]) -> float | None:
    """Share of labels of submissions that equal the consensus of their documents."""
    document_of = {row.submission_id: row.document_id for row in rows}
    if not document_of:
        return None
    agreed = consensus_of(connection, project_id, set(document_of.values()))
    query = select(vote.c.submission_id, vote.c.label_id, vote.c.value).where(vote.c.submission_id.in_(document_of))
    n_equal = n_all = 0
    for submission_id, label_id, value in connection.execute(query):
        probability = agreed.get(document_of[submission_id], {}).get(label_id)
        if value is not None and probability is not None:
            n_all += 1
            n_equal += value == (probability > 0.5)
    return n_equal / n_all if n_all else None
