"""Objects of Label Studio as records: tasks and annotations, whatever their form in pages and webhooks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palda.errors import DataError
from palda.io import parse_label_config
from palda.io.exports.labelstudio.results import answers_of, chosen_classes, inner_objects, time_of
from palda.io.exports.rows import Row
from palda.live.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palda.io import Control
    from palda.live.labelstudio.connections import ConnectionSettings

STATE_FIELDS = ("id", "updated_at", "total_annotations", "cancelled_annotations", "overlap", "is_labeled")
"""Fields of a task that tell whether something about it has changed."""

ANNOTATION_FIELDS = (
    "id", "result", "completed_by", "was_cancelled", "ground_truth", "created_at", "updated_at", "lead_time",
    "parent_prediction",
)  # fmt: skip
"""Fields of an annotation that matter."""

TASK_FIELDS = tuple(dict.fromkeys((*STATE_FIELDS, "data", "annotations", *ANNOTATION_FIELDS)))
"""Fields of a task and of its annotations, which Label Studio selects by the same list."""

_MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True)
class Question:
    """The control of a label config whose choices are the classes, and the data field of the text."""

    control: Control
    field: str | None

    @classmethod
    def of_project(cls, project: Mapping[str, Any], name: str | None) -> Question:
        """The question of a project; raises with a list of names if there are several and none is chosen."""
        text = str(project.get("label_config") or "")
        config = parse_label_config(text or "<View/>", f"label config of project {project.get('id')}")
        try:
            control = config.control(name)
        except DataError as error:
            raise DataError(
                error.problem.replace("from_name=", "--question").replace("from_name", "--question")
            ) from None
        return cls(control, config.fields.get(control.to_name))

    def text_of(self, data: object) -> str:
        """Text of a task's data: the field that the question is about, else its only text, else all of it."""
        if not isinstance(data, dict):
            return str(data or "")
        found = data.get(self.field or "")
        if not isinstance(found, str):
            texts = [value for value in data.values() if isinstance(value, str)]
            found = texts[0] if len(texts) == 1 else json.dumps(data, ensure_ascii=False)
        return found.replace("\0", "").encode("utf-8", "replace").decode()  # what every database can store


@dataclass(frozen=True)
class RemoteAnnotation:
    """An annotation as far as one question goes."""

    id: int
    user_id: int
    classes: tuple[str, ...]
    is_skipped: bool
    is_gold: bool
    updated_at: str
    time: float | None
    seconds: float | None
    from_prediction: bool


@dataclass(frozen=True)
class RemoteState:
    """What tells whether a task has changed."""

    id: int
    updated_at: str
    n_annotations: int
    n_cancelled: int
    overlap: int
    is_labeled: bool


@dataclass(frozen=True)
class RemoteTask:
    """A task; its annotations are all that it has."""

    state: RemoteState
    text: str
    annotations: tuple[RemoteAnnotation, ...]
    n_ignored: int = 0  # annotations without a user, or of an unknown form


def task_state(task: Mapping[str, Any]) -> RemoteState:
    """State of a task."""
    return RemoteState(
        number(task, "id"),
        str(task.get("updated_at") or "")[:40],
        number(task, "total_annotations", 0),
        number(task, "cancelled_annotations", 0),
        number(task, "overlap", 1),
        task.get("is_labeled") is True,
    )


def remote_task(task: Mapping[str, Any], question: Question, settings: ConnectionSettings) -> RemoteTask:
    """A task of a page; annotations that cannot be read are counted."""
    annotations, n_ignored, state = [], 0, task_state(task)
    for one in task.get("annotations") or ():
        try:
            annotations.append(settings.annotator_of(remote_annotation(one, question), state.id))
        except InvalidRequestError:
            n_ignored += 1
    return RemoteTask(state, question.text_of(task.get("data")), tuple(annotations), n_ignored)


def remote_annotation(annotation: Any, question: Question) -> RemoteAnnotation:
    """An annotation of a page or of a webhook."""
    if not isinstance(annotation, dict):
        raise InvalidRequestError("an annotation is not an object")
    who = annotation.get("completed_by")
    row = Row("annotation", 1, annotation)
    try:
        answers = answers_of(inner_objects(row, "result"), question.control.name)
        chosen = [name for answer in answers for name in chosen_classes(answer, "value")]
        time = time_of(annotation)
    except DataError as error:
        raise InvalidRequestError(f"an annotation has an unknown form: {error.problem}") from None
    lead = annotation.get("lead_time")
    return RemoteAnnotation(
        number(annotation, "id"),
        number(who if isinstance(who, dict) else {"id": who}, "id"),
        tuple(dict.fromkeys(" ".join(name.split()) for name in chosen if name.strip())),
        annotation.get("was_cancelled") is True,
        annotation.get("ground_truth") is True,
        str(annotation.get("updated_at") or "")[:40],
        time,
        float(lead) if isinstance(lead, (int, float)) and 0 < lead < 86400 else None,
        annotation.get("parent_prediction") is not None,
    )


def number(found: Any, name: str, default: int | None = None) -> int:
    """A whole number of an object, which is an id or a count."""
    value = found.get(name) if isinstance(found, dict) else None
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_NUMBER:
        raise InvalidRequestError(f"{name} is not a number")
    return value
