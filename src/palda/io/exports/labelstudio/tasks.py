"""JSON exports of Label Studio: one object per task, which holds its annotations."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from palda.data import validation
from palda.errors import DataError, PaldaWarning
from palda.io.exports.labelstudio.predictions import (
    model_family,
    predictions_of,
    prelabel_of,
    stated_answer,
    version_of,
)
from palda.io.exports.labelstudio.results import (
    answers_of,
    chosen_classes,
    inner_object,
    inner_objects,
    is_choice,
    time_of,
)
from palda.io.exports.rows import ABSTAINED, Answer, Export, Row, field_names, is_true, text_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palda.io.exports.labelstudio.label_config import LabelConfig
    from palda.io.exports.labelstudio.predictions import Prelabel, TaskPredictions

    GroundTruthRule = Literal["auto", "gold", "votes"]
    PredictionRule = Literal["ignore", "votes"]
    PrelabelRule = Literal["keep", "drop", "separate"]


@dataclass(frozen=True)
class TaskOptions:
    """Options of ``read_labelstudio``, which documents them."""

    from_name: str | None = None
    id: str | None = None
    text: str | None = None
    config: LabelConfig | None = None
    ground_truth: GroundTruthRule = "auto"
    predictions: PredictionRule = "ignore"
    prelabelled: PrelabelRule | None = None

    def __post_init__(self) -> None:
        validation.require_choice(self.ground_truth, ("auto", "gold", "votes"), "ground_truth")
        validation.require_choice(self.predictions, ("ignore", "votes"), "predictions")
        validation.require_choice(self.prelabelled, (None, "keep", "drop", "separate"), "prelabelled")

    @property
    def control_name(self) -> str | None:
        """Control to read: the given one, which the label config must have, else the only one of the label config."""
        return self.from_name if self.config is None else self.config.control(self.from_name).name

    def of_tasks_only(self) -> dict[str, str]:
        """Options that differ from their default and that only the JSON format supports."""
        given = {
            "ground_truth": None if self.ground_truth == "auto" else self.ground_truth,
            "predictions": None if self.predictions == "ignore" else self.predictions,
            "prelabelled": self.prelabelled,
        }
        return {name: value for name, value in given.items() if value is not None}


def read_tasks(rows: Sequence[Row], options: TaskOptions, export: Export) -> None:
    """Add the documents and annotations of tasks to an export."""
    file = rows[0].file
    data = [inner_object(row, "data") for row in rows]
    if options.id is not None:
        validation.find_column(field_names(data, file), "document", options.id, validation.SourceLocation(file))
    text_name = _text_name(data, options, file)
    annotations = [inner_objects(row, "annotations") or inner_objects(row, "completions") for row in rows]
    predictions = [predictions_of(row, of_task) for row, of_task in zip(rows, annotations, strict=True)]
    answers = [annotation for of_task in annotations for annotation in of_task]
    if options.predictions == "votes":
        answers += [prediction for of_task in predictions for prediction in of_task.predictions]
    reading = _Reading(export, _control(answers, options), options)
    as_votes = _ground_truth_as_votes(annotations, options.ground_truth, file)
    docs = [
        row.name("id") if options.id is None else fields.name(options.id)
        for row, fields in zip(rows, data, strict=True)
    ]
    for row, doc, fields in zip(rows, docs, data, strict=True):
        others = {name: value for name, value in fields.cells.items() if name not in {text_name, options.id}}
        export.add_document(row, doc, fields.text(text_name), others)
    for doc, of_task, models, is_vote in zip(docs, annotations, predictions, as_votes, strict=True):
        known = {prediction.name("id"): prediction for prediction in models.predictions}
        n_annotations = Counter(map(_annotator, of_task))
        for annotation in of_task:
            is_only = n_annotations[_annotator(annotation)] == 1
            reading.add_annotation(annotation, doc, known, ground_truth_is_vote=is_vote, is_only=is_only)
    if options.predictions == "votes":
        reading.add_predictions(docs, predictions, file)
    reading.finish(file)


def _text_name(data: Sequence[Row], options: TaskOptions, file: str) -> str | None:
    names = [name for name in field_names(data, file) if name != options.id]
    given = options.text
    if given is None and options.config is not None:
        shown = options.config.fields.get(options.config.control(options.from_name).to_name)
        given = shown if shown in names else None
    found = validation.find_column(names, "text", given, validation.SourceLocation(file))
    if found is not None:
        return found
    words = [name for name in names if all(isinstance(row.cells.get(name), str | None) for row in data)]
    if names and not words:
        raise DataError(f"no data field is text; choose one of {validation.listed(names)} with text='...'", file=file)
    return text_field(words, None, file)


def _control(annotations: Sequence[Row], options: TaskOptions) -> str | None:
    """Tag whose choices are the classes; None if nothing was chosen anywhere."""
    results = [result for annotation in annotations for result in inner_objects(annotation, "result")]
    found = sorted({result.name("from_name") for result in results if is_choice(result)})
    given = options.control_name
    if given is not None and (given in found or not found):
        return given
    if results and not found:
        types = validation.listed(sorted({result.name("type") for result in results}))
        results[0].fail(f"no result has choices, only {types}; classes come from a Choices or Taxonomy tag")
    if given is not None:
        results[0].fail(f"no choices come from {given!r}; from_name can be {validation.listed(found)}", "from_name")
    if len(found) > 1:
        results[0].fail(f"there are several questions; choose from_name= among {validation.listed(found)}", "from_name")
    return found[0] if found else None


# Ground truth


def _ground_truth_as_votes(annotations: Sequence[Sequence[Row]], rule: GroundTruthRule, file: str) -> list[bool]:
    """For each task, whether its ground truth annotations are votes.

    Ground truth of several annotators of one task is not gold: import through the API marks every annotation, while
    Label Studio allows one per task if it is set by hand. If more tasks are like that than have one annotation, which
    is ground truth, the file was imported, and those tasks have votes too.
    """
    if rule != "auto":
        return [rule == "votes"] * len(annotations)
    marked = [_ground_truth(of_task) for of_task in annotations]
    several = [len({_annotator(mark) for mark in marks}) > 1 for marks in marked]
    alone = [len(of_task) == len(marks) == 1 for of_task, marks in zip(annotations, marked, strict=True)]
    is_import = sum(several) > sum(alone)
    as_votes = [many or (one and is_import) for many, one in zip(several, alone, strict=True)]
    if any(several):
        n_votes = sum(len(marks) for marks, is_vote in zip(marked, as_votes, strict=True) if is_vote)
        n_gold = sum(bool(marks) and not is_vote for marks, is_vote in zip(marked, as_votes, strict=True))
        rest = f"; those of {n_gold:,} other tasks are gold labels" if n_gold else ""
        _warn(
            f"{file}: {n_votes:,} annotations marked as ground truth were read as votes, because {sum(several):,} "
            f"tasks have ground truth of several annotators (import through the API marks every annotation){rest}; "
            "pass ground_truth='votes' or ground_truth='gold' to choose"
        )
    return as_votes


def _ground_truth(annotations: Sequence[Row]) -> list[Row]:
    return [
        annotation
        for annotation in annotations
        if is_true(annotation.cells.get("ground_truth")) and not is_true(annotation.cells.get("was_cancelled"))
    ]


# Annotations and predictions


class _Reading:
    """Adds annotations and predictions to an export, and counts those that started from a prediction."""

    def __init__(self, export: Export, control: str | None, options: TaskOptions) -> None:
        self._export, self._control, self._rule = export, control, options.prelabelled
        self._people: set[str] = set()
        self._n_started = self._n_shown = self._n_odd = 0
        self._sources: dict[str, Counter[str]] = {}

    def add_annotation(
        self, annotation: Row, doc: str, predictions: Mapping[str, Row], *, ground_truth_is_vote: bool, is_only: bool
    ) -> None:
        export, control = self._export, self._control
        is_gold = is_true(annotation.cells.get("ground_truth")) and not ground_truth_is_vote
        is_skipped = is_true(annotation.cells.get("was_cancelled"))
        if is_gold:
            export.add_unused("skipped" if is_skipped else "ground truth")
        if is_gold and is_skipped:
            return
        prelabel = None if is_gold or is_skipped else prelabel_of(annotation, predictions)
        if prelabel is not None:
            self._n_started += prelabel.is_start
            self._n_shown += not prelabel.is_start
            if self._rule == "drop":
                export.add_unused("pre-labelled")
                return
        results = inner_objects(annotation, "result")
        answers = answers_of(results, control)
        if results and not answers and not is_skipped and not is_gold:
            export.add_doubt(f"have results of other controls only, which were read as no class of {control!r}")
        chosen = [name for result in answers for name in chosen_classes(result, "value")]
        annotator = "" if is_gold else self._person(annotation, prelabel)
        answer = ABSTAINED if is_skipped else Answer(chosen)
        is_imported = is_true(annotation.cells.get("ground_truth")) and not is_gold
        # imported ones have the time of the import, which only tells which of several is the latest
        time = None if is_imported and is_only else time_of(annotation.cells)
        export.add_annotation(annotation, doc, annotator, answer, time=time, gold=is_gold)

    def _person(self, annotation: Row, prelabel: Prelabel | None) -> str:
        name = _named_annotator(annotation)
        if prelabel is not None and self._rule == "separate":
            name = f"{name} (pre-labelled)"
            self._sources.setdefault(name, Counter())[model_family(prelabel.version)] += 1
        self._people.add(name)
        return name

    def add_predictions(self, docs: Sequence[str], predictions: Sequence[TaskPredictions], file: str) -> None:
        """Add the answers of models; a model with the name of a person gets another name."""
        n_read, n_ids = sum(len(found.predictions) for found in predictions), sum(found.n_ids for found in predictions)
        if n_ids and not n_read:
            raise DataError(f"has only the ids of {n_ids:,} predictions; {_FULL_PREDICTIONS}", file=file)
        if n_ids:
            _warn(f"{file}: of {n_ids:,} predictions there are only the ids, so they are no votes; {_FULL_PREDICTIONS}")
        for doc, found in zip(docs, predictions, strict=True):
            for prediction in found.predictions:
                version = version_of(prediction)
                name = f"{version} (model)" if version in self._people else version
                answer, probabilities, is_odd = stated_answer(prediction, self._control)
                self._n_odd += is_odd
                time = time_of(prediction.cells)
                self._export.add_annotation(prediction, doc, name, answer, time=time, probabilities=probabilities)
                self._export.kinds[name] = "model"
                self._export.families[name] = model_family(version)

    def finish(self, file: str) -> None:
        """Set kinds and families, and warn about annotations that are not independent of predictions."""
        if self._sources or self._export.kinds:
            self._export.kinds.update(dict.fromkeys(self._people, "person"))
        for name, families in self._sources.items():
            self._export.families[name] = families.most_common(1)[0][0]
        if self._n_odd:
            _warn(f"{file}: scores of {self._n_odd:,} predictions are not between 0 and 1 and were not used")
        if (self._n_started or self._n_shown) and self._rule is None:
            _warn(
                f"{file}: {self._n_started:,} annotations started from a prediction and {self._n_shown:,} more were "
                "made while Label Studio held a prediction for the task, which the annotator may have seen; they are "
                "not independent of the model; pass prelabelled='drop' to leave them out, prelabelled='separate' to "
                "treat them as other annotators, or prelabelled='keep'"
            )


_FULL_PREDICTIONS = (
    "export a snapshot with full predictions: POST /api/projects/ID/exports/ with "
    '{"serialization_options": {"predictions": {"only_id": false}}}'
)


def _warn(message: str) -> None:
    warnings.warn(message, PaldaWarning, stacklevel=5)


def _annotator(annotation: Row) -> str:
    """Name of the annotator: the email, else the user name, else the number; "" without any."""
    who = annotation.cells.get("completed_by")
    if isinstance(who, dict):
        user = Row(annotation.file, annotation.number, who)
        return user.name("email") or user.name("username") or user.name("id")
    return annotation.name("completed_by")


def _named_annotator(annotation: Row) -> str:
    name = _annotator(annotation)
    if not name:
        which = annotation.name("id")
        annotation.fail(
            f"annotation {which} has no annotator (the account may be deleted); write a name there or remove the "
            "annotation",
            "completed_by",
        )
    return name
