"""Predictions in Label Studio exports: models as annotators, and annotations that started from a prediction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from palda.data import validation
from palda.io.exports.labelstudio.results import answers_of, chosen_classes, inner_object, inner_objects
from palda.io.exports.rows import ABSTAINED, Answer, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNNAMED_MODEL = "unnamed model"
_VERSION_NUMBER = re.compile(r"[\s_.:@-]*[vV]?[0-9][0-9._-]*$")


def model_family(version: str) -> str:
    """Name of a model without the version number at its end: "news-bert-v1.2" and "news-bert-v2" are "news-bert".

    The number may have a "v" before it, and separators (blank, ``_ . : @ -``) before that and inside. A name that is
    only a number is its own family.
    """
    return _VERSION_NUMBER.sub("", version) or version


class TaskPredictions(NamedTuple):
    """Predictions of a task that the export holds, and the number of those of which it has only the ids."""

    predictions: list[Row]
    n_ids: int


def predictions_of(task: Row, annotations: Sequence[Row]) -> TaskPredictions:
    """Predictions of a task: its own, and those stored in annotations as what the annotator could see.

    The usual JSON export has only the ids of a task's predictions.
    """
    cell = task.cells.get("predictions")
    items = cell if isinstance(cell, list) else []
    found = [Row(task.file, task.number, item) for item in items if isinstance(item, dict)]
    known = {prediction.name("id") for prediction in found}
    for annotation in annotations:
        stored = inner_object(annotation, "prediction")
        if stored.cells.get("result") is not None and stored.name("id") not in known:
            known.add(stored.name("id"))
            found.append(stored)
    ids = {validation.name_text(item) for item in items if isinstance(item, (int, str))}
    return TaskPredictions(found, len(ids - known))


def version_of(prediction: Row) -> str:
    """Model version of a prediction."""
    return prediction.name("model_version") or UNNAMED_MODEL


class StatedAnswer(NamedTuple):
    """Classes that a model chose, the probabilities that it stated, and whether a score was no probability."""

    answer: Answer
    probabilities: dict[str, float]
    is_odd: bool


def stated_answer(prediction: Row, control: str | None) -> StatedAnswer:
    """Answer of a prediction to a question; an abstention if it has none.

    A result with ``scores`` states the probability of each class in it. Otherwise the score of the result, else that of
    the prediction, is the probability of the classes chosen in the result, and other classes are absent.
    """
    items = answers_of(inner_objects(prediction, "result"), control)
    if not items:
        return StatedAnswer(ABSTAINED, {}, False)
    chosen: list[str] = []
    probabilities: dict[str, float] = {}
    is_odd = False
    for item in items:
        names = chosen_classes(item, "value")
        chosen += names
        scores = inner_object(item, "scores").cells
        if not scores:
            score = item.cells.get("score")
            scores = dict.fromkeys(names, prediction.cells.get("score") if score is None else score)
        for name, score in scores.items():
            if isinstance(score, (int, float)) and 0 <= score <= 1:
                probabilities[validation.name_text(name)] = float(score)
            elif score is not None:
                is_odd = True
    return StatedAnswer(Answer(chosen), probabilities, is_odd)


class Prelabel(NamedTuple):
    """Where an annotation comes from: the model version, and whether the annotator started from its prediction."""

    version: str
    is_start: bool


def prelabel_of(annotation: Row, predictions: Mapping[str, Row]) -> Prelabel | None:
    """The prediction that an annotation depends on; None if there was none.

    ``parent_prediction`` is the number of the prediction that the annotator started from. ``prediction`` holds the
    prediction that existed when the annotation was made: the annotator may have seen it.
    """
    parent, stored = annotation.name("parent_prediction"), inner_object(annotation, "prediction")
    if not parent and not stored.cells:
        return None
    source = predictions.get(parent, stored)
    return Prelabel(version_of(source), bool(parent))
