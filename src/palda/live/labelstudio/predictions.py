"""What is known about tasks, as predictions of Label Studio: classes with scores, and what another vote is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import and_, select

from palda.io import labelstudio_prediction
from palda.live import schema
from palda.live.records import AnnotatorEstimate
from palda.live.schema import document, labelstudio_task, posterior
from palda.live.service import projects
from palda.live.service.results import fitted_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from palda.io import Control
    from palda.live.labelstudio.connections import ConnectionSettings

_N_AHEAD = 3  # votes among which a vote is valued: one alone often cannot change a decision
_TYPICAL = (0.75, 0.9)  # sensitivity and specificity before there are estimates
_MIN_RATE = 0.02


@dataclass(frozen=True)
class KnownTasks:
    """Tasks with their state and what the last fit and later votes say about them."""

    version: str
    labels: list[int]
    classes: list[str]  # their names
    rows: list[Any]  # task_id, document_id, n_annotations, overlap, is_labeled, first_overlap, version, is_gold
    probabilities: NDArray[np.float64]  # (tasks, classes); NaN for a task that no fit has seen
    expected_wrong: NDArray[np.float64]
    gain: NDArray[np.float64]  # expected fall of the number of wrong labels by another vote


class TaskPrediction(NamedTuple):
    """A prediction as Label Studio takes it, without classes where annotators must not see them; and its classes."""

    body: dict[str, Any]
    labels: list[int] | None


def version_name(generation: int) -> str:
    """Model version of predictions; 0 before the first fit."""
    return f"palda-{generation}"


def known_tasks(connection: Connection, project_id: int, ids: Sequence[int] | None = None) -> KnownTasks:
    """Tasks of a project, or some of them, with what is known about them."""
    generation, labels = fitted_labels(connection, project_id)
    names = {label.id: label.name for label in projects.read_labels(connection, project_id)}
    task = labelstudio_task.c
    current = and_(posterior.c.document_id == task.document_id, posterior.c.generation == generation)
    columns = task.task_id, task.document_id, task.n_annotations, task.overlap, task.is_labeled, task.first_overlap
    query = (
        select(*columns, task.version, document.c.is_gold, posterior.c.probabilities, posterior.c.expected_wrong)
        .select_from(
            labelstudio_task.join(document, document.c.id == task.document_id).outerjoin(
                posterior, and_(current, posterior.c.project_id == task.project_id)
            )
        )
        .where(task.project_id == project_id)
        .order_by(task.task_id)
    )
    rows = list(connection.execute(query if ids is None else query.where(task.task_id.in_(list(ids)))))
    table = np.full((len(rows), len(labels)), np.nan)
    for place, row in enumerate(rows):
        if row.probabilities is not None:
            table[place] = np.frombuffer(row.probabilities, dtype="<f4")
    wrong = np.array([np.nan if row.expected_wrong is None else row.expected_wrong for row in rows], dtype=float)
    gain = expected_gain(table, *typical_rates(connection, project_id))
    classes = [names.get(label, "") for label in labels]
    return KnownTasks(version_name(generation), labels, classes, rows, table, wrong, gain)


def typical_rates(connection: Connection, project_id: int) -> tuple[float, float]:
    """Mean sensitivity and specificity of the annotators, weighted by their votes."""
    table = schema.annotator_estimate
    found = connection.execute(select(table.c.estimate).where(table.c.project_id == project_id)).scalars()
    estimates = [AnnotatorEstimate.from_json(one) for one in found]
    if not sum(one.n_votes for one in estimates):
        return _TYPICAL
    pairs = [(one.sensitivity, one.specificity) for one in estimates]
    mean = np.average(pairs, axis=0, weights=[one.n_votes for one in estimates])
    return float(mean[0]), float(mean[1])


def expected_gain(probabilities: NDArray[np.float64], sensitivity: float, specificity: float) -> NDArray[np.float64]:
    """Expected fall of the number of wrong labels per vote, by three votes of a typical annotator.

    Examples
    --------
    >>> import numpy as np
    >>> from palda.live.labelstudio.predictions import expected_gain
    >>> expected_gain(np.array([[0.5, 0.01], [0.9, 0.01], [0.01, 0.01]]), 0.8, 0.9).round(3)
    array([0.146, 0.023, 0.003])
    """
    rates = np.clip((sensitivity, 1.0 - specificity), _MIN_RATE, 1.0 - _MIN_RATE)
    n_yes = np.arange(_N_AHEAD + 1)[:, None]
    ways = np.array([[math.comb(_N_AHEAD, n)] for n in range(_N_AHEAD + 1)])
    yes = ways * rates**n_yes * (1.0 - rates) ** (_N_AHEAD - n_yes)  # (number of yes, state)
    present = probabilities[..., None] * yes[:, 0]
    absent = (1.0 - probabilities[..., None]) * yes[:, 1]
    after = np.minimum(present, absent).sum(axis=-1)
    fall = np.minimum(probabilities, 1.0 - probabilities) - after
    gain: NDArray[np.float64] = np.maximum(fall, 0.0).sum(axis=-1) / _N_AHEAD
    return gain


def predictions_for(
    known: KnownTasks, ids: Sequence[int], control: Control, settings: ConnectionSettings
) -> list[TaskPrediction]:
    """One prediction per task in the given order; tasks that no fit has seen get one without classes.

    Its score falls with what another vote is worth: Label Studio serves the lowest score first.
    """
    place_of = {row.task_id: place for place, row in enumerate(known.rows)}
    offered = [column for column, name in enumerate(known.classes) if control.is_open or name in control.classes]
    found = []
    for task_id in ids:
        place = place_of.get(task_id)
        gain = np.nan if place is None else known.gain[place]
        score = 0.0 if np.isnan(gain) else round(float(1.0 / (1.0 + gain)), 6)
        empty = {"model_version": known.version, "score": score, "result": []}
        if np.isnan(gain) or not offered:
            found.append(TaskPrediction(empty, None))
            continue
        stated = {known.classes[column]: round(float(known.probabilities[place, column]), 4) for column in offered}
        limits = dict.fromkeys(stated, 0.5)
        if control.is_single:
            best = max(stated, key=stated.__getitem__)
            limits = {name: 0.0 if name == best else 2.0 for name in stated}
        labels = [
            known.labels[column] for column in offered if stated[known.classes[column]] >= limits[known.classes[column]]
        ]
        full = labelstudio_prediction(stated, control, thresholds=limits, model_version=known.version)
        found.append(TaskPrediction({**full, "score": score} if settings.shows_prelabel(task_id) else empty, labels))
    return found
