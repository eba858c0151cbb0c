"""Labels for Label Studio: predictions with scores, or ground truth annotations, as its import takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palda.data import validation
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from palda.io.exports.labelstudio.label_config import Control

    Task = dict[str, Any]
    LabelForm = Literal["predictions", "annotations"]

_DIGITS = 6  # of scores in files


def labelstudio_prediction(
    probabilities: Mapping[str, float], control: Control, *, thresholds: float | Mapping[str, float] = 0.5,
    model_version: str = "palda",
) -> Task:  # fmt: skip
    """Prediction of one document, as import into Label Studio and its ML backend protocol take it.

    Parameters
    ----------
    probabilities : mapping of str to float
        Probability of each class.
    control : Control
        Control of the label config whose choices are the classes.
    thresholds : float or mapping of str to float, default 0.5
        A class is chosen from this probability on.
    model_version : str, default "palda"
        Name of the model in Label Studio.

    Returns
    -------
    dict
        ``model_version``, ``score`` and ``result``. The score is the smallest probability of a decision: p of a chosen
        class, 1 - p of any other, so that sorting by score shows the least certain documents first. The one item of
        ``result`` has the chosen classes, the score, and in ``scores`` the probability of each class; Label Studio
        keeps that field, and ``read_labelstudio`` reads it.

    Examples
    --------
    >>> from palda.io import Control, labelstudio_prediction
    >>> prediction = labelstudio_prediction({"crime": 0.9, "sport": 0.2}, Control("topics", "text"))
    >>> prediction["score"], prediction["result"][0]["value"], prediction["result"][0]["scores"]
    (0.8, {'choices': ['crime']}, {'crime': 0.9, 'sport': 0.2})
    """
    chosen = _chosen(probabilities, thresholds)
    score = round(_score(probabilities, chosen), _DIGITS)
    scores = {name: round(float(probability), _DIGITS) for name, probability in probabilities.items()}
    item = _item(chosen, control) | {"score": score, "scores": scores}
    return {"model_version": model_version, "score": score, "result": [item]}


def labelstudio_tasks(
    doc_ids: Sequence[str],
    probabilities: NDArray[np.floating[Any]],
    classes: Sequence[str],
    control: Control,
    *,
    texts: Sequence[str] | None = None,
    field: str = "text",
    form: LabelForm = "predictions",
    thresholds: float | NDArray[np.floating[Any]] = 0.5,
    model_version: str = "palda",
    min_score: float = 0.0,
) -> Iterator[Task]:
    """Tasks with labels, for import into Label Studio, or labels for tasks that it has.

    Parameters
    ----------
    doc_ids : sequence of str
        Ids of the documents.
    probabilities : array of shape (n_docs, n_classes)
        Probability of each class in each document.
    classes : sequence of str
        Names of the classes; each must be a choice of the control if its choices are known.
    control : Control
        Control of the label config whose choices are the classes.
    texts : sequence of str, optional
        Texts of the documents. With texts, each result is a new task, whose data has the text and the id (in ``doc``).
        Without, each result belongs to the task whose number is the document id.
    field : str, default "text"
        Data field of the text.
    form : {"predictions", "annotations"}, default "predictions"
        Predictions with scores, or annotations marked as ground truth.
    thresholds : float or array of shape (n_classes,), default 0.5
        A class is chosen from this probability on.
    model_version : str, default "palda"
        Name of the model of predictions.
    min_score : float, default 0
        Leave out documents whose score (see ``labelstudio_prediction``) is smaller.

    Yields
    ------
    dict
        A task with ``data`` and ``predictions`` or ``annotations``; or a prediction or annotation with its ``task``.

    Examples
    --------
    >>> import numpy as np
    >>> from palda.io import Control, labelstudio_tasks
    >>> tasks = labelstudio_tasks(
    ...     ["d1"], np.array([[0.9, 0.2]]), ["crime", "sport"], Control("topics", "text"), texts=["theft"],
    ...     form="annotations",
    ... )
    >>> task = next(tasks)
    >>> task["data"], task["annotations"][0]["ground_truth"], task["annotations"][0]["result"][0]["value"]
    ({'doc': 'd1', 'text': 'theft'}, True, {'choices': ['crime']})
    """
    validation.require_choice(form, ("predictions", "annotations"), "form")
    names = [str(name) for name in classes]
    _check_classes(names, control)
    limits = dict(zip(names, np.broadcast_to(thresholds, len(names)).tolist(), strict=True))
    for row, doc in enumerate(doc_ids):
        stated = dict(zip(names, probabilities[row].tolist(), strict=True))
        if _score(stated, _chosen(stated, limits)) < min_score:
            continue
        if form == "predictions":
            label = labelstudio_prediction(stated, control, thresholds=limits, model_version=model_version)
        else:
            chosen = _chosen(stated, limits)
            items = [_item(chosen, control)] if chosen else []
            label = {"result": items, "ground_truth": True, "was_cancelled": False}
        if texts is None:
            yield {"task": _task_number(str(doc)), **label}
        else:
            yield {"data": {"doc": str(doc), field: texts[row]}, form: [label]}


def _check_classes(names: Sequence[str], control: Control) -> None:
    """Raise if a class is no choice of the control: Label Studio would import it and never show it."""
    known = control.classes
    for name in names:
        if known and not control.is_open and name not in known:
            problem = validation.unknown_name(name, known, "class")
            raise DataError(f"the control {control.name!r} has no such choice: {problem}")


def _chosen(probabilities: Mapping[str, float], thresholds: float | Mapping[str, float]) -> list[str]:
    limits = dict.fromkeys(probabilities, thresholds) if isinstance(thresholds, (int, float)) else thresholds
    return [name for name, probability in probabilities.items() if probability >= limits[name]]


def _score(probabilities: Mapping[str, float], chosen: Sequence[str]) -> float:
    """Smallest probability of a decision; 1 without classes."""
    decided = set(chosen)
    return min((p if name in decided else 1.0 - p for name, p in probabilities.items()), default=1.0)


def _item(chosen: Sequence[str], control: Control) -> Task:
    paths = [control.path(name) for name in chosen]
    values: list[Any] = [list(path) for path in paths]
    if control.kind == "choices":
        values = [path[0] if len(path) == 1 else list(path) for path in paths]
    return {
        "id": f"palda-{control.name}",
        "from_name": control.name,
        "to_name": control.to_name,
        "type": control.kind,
        "value": {control.kind: values},
    }


def _task_number(doc: str) -> int:
    if not (doc.isascii() and doc.isdigit() and len(doc) < 19):
        raise DataError(
            f"{validation.shown(doc)} is not the number of a task in Label Studio; only a model of an export has these "
            "as document ids; write new tasks with their texts instead"
        )
    return int(doc)
