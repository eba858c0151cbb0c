"""Exports of Label Studio: JSON, JSON-MIN, CSV and TSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palda.data import validation
from palda.errors import DataError
from palda.io.exports.labelstudio.label_config import LabelConfig, read_label_config
from palda.io.exports.labelstudio.tables import read_annotation_rows
from palda.io.exports.labelstudio.tasks import TaskOptions, read_tasks
from palda.io.exports.rows import Export, Row, table_rows
from palda.io.files import file_name
from palda.io.json_text import json_document

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from palda.data import Dataset
    from palda.io.exports.labelstudio.tasks import GroundTruthRule, PredictionRule, PrelabelRule

_TABLES = frozenset({".csv", ".tsv", ".tab", ".txt"})


def read_labelstudio(
    path: str | os.PathLike[str],
    *,
    from_name: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that users expect
    text: str | None = None,
    classes: Iterable[str] | None = None,
    label_config: str | os.PathLike[str] | LabelConfig | None = None,
    ground_truth: GroundTruthRule = "auto",
    predictions: PredictionRule = "ignore",
    prelabelled: PrelabelRule | None = None,
    partial: bool = False,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read a Label Studio export in the formats JSON, JSON-MIN, CSV or TSV.

    - An annotation without any choice means that no class applies, even if other controls, such as a text area, are
      filled in. A skipped task (``was_cancelled``) is an abstention.
    - Annotations marked as ground truth are gold labels, not votes, unless several annotators of a task have them; only
      the JSON format has the marks.
    - Tasks without annotations are documents without votes; only the JSON format has them, and predictions.
    - The name of an annotator is the email, else the user name, else the number. Of several annotations of one task
      by one annotator, the one updated last is used.
    - Classes of a taxonomy are paths such as ``Sport/Football``.

    Parameters
    ----------
    path : str or path-like
        The exported file, also gzipped.
    from_name : str, optional
        Name of the ``Choices`` or ``Taxonomy`` tag to read; required if there are several.
    id : str, optional
        Data field with the document ids. By default the id of the task.
    text : str, optional
        Data field that holds the text. By default the one that the label config shows, else ``text``, ``body`` and the
        like, or the only field of strings.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default those of the label config, else those that
        were chosen, sorted.
    label_config : str, path-like or LabelConfig, optional
        File with the label config of the project: its XML, or the JSON of the project (``GET /api/projects/ID``). An
        export does not contain it, and without it classes that nobody chose are unknown. Any other class is an error,
        unless the config takes choices from the tasks.
    ground_truth : {"auto", "gold", "votes"}, default "auto"
        What annotations marked as ground truth are. Import through the API marks every annotation; by hand, one per
        task can be marked. So by default those of a task that has them from several annotators are votes, with a
        warning, and so are those of tasks with a single annotation if there are fewer such tasks. All others are gold.
    predictions : {"ignore", "votes"}, default "ignore"
        Whether the predictions of models are votes. The annotator is the model version, of kind "model"; its family is
        the version without the number at its end ("news-bert-v2" is of "news-bert"), and people are of kind "person".
        A field ``scores`` of a result, as ``labelstudio_prediction`` writes it, states the probability of each class;
        otherwise the score of the result, else that of the prediction, is the probability of the chosen classes, and
        the others are absent. The usual export has only the ids of predictions; a snapshot has them in full.
    prelabelled : {"keep", "drop", "separate"}, optional
        What to do with annotations that are not independent of a model: those that started from a prediction
        (``parent_prediction``), and those made while Label Studio held a prediction for the task (``prediction``),
        which the annotator may have seen. "separate" gives them to an annotator of their own, ``NAME (pre-labelled)``,
        in the family of the model. By default they are kept, with a warning.
    partial : bool, default False
        Treat classes that were not chosen as not judged (default: absent).
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Annotation to keep if an annotator contradicts themselves and not all annotations have times.
    encoding : str, optional
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other data fields, votes, and the ground truth as gold labels.

    Warns
    -----
    PaldaWarning
        If fewer than a tenth of the annotations are votes, with the reasons; none at all, and no gold labels either,
        is an error.
    """
    if label_config is not None and not isinstance(label_config, LabelConfig):
        label_config = read_label_config(label_config)
    suffixes = {suffix.lower() for suffix in Path(path).suffixes}
    rows = table_rows(path, encoding) if suffixes & _TABLES else _json_rows(path, encoding)
    if not rows:
        raise DataError("has no tasks", file=file_name(path))
    options = TaskOptions(from_name, id, text, label_config, ground_truth, predictions, prelabelled)
    export = Export("annotations", "skipped")
    are_tasks = any(isinstance(row.cells.get("data"), dict) for row in rows)
    (read_tasks if are_tasks else read_annotation_rows)(rows, options, export)
    if label_config is not None:
        control = label_config.control(from_name)
        export.add_classes(control.classes)
        if classes is None and control.classes and not control.is_open:
            classes = control.classes
    export.advise("ground truth", "pass ground_truth='votes' if they are votes")
    if label_config is None:
        export.advise("no classes", "or label_config='...'")
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)


def _json_rows(path: str | os.PathLike[str], encoding: str | None) -> list[Row]:
    document = json_document(path, encoding)
    tasks = document if isinstance(document, list) else [document]
    for number, task in enumerate(tasks, start=1):
        if not isinstance(task, dict):
            problem = f"{validation.shown(task)} is not a task; export from Label Studio as JSON, JSON-MIN or CSV"
            raise DataError(problem, file=file_name(path), row=number)
    return [Row(file_name(path), number, task) for number, task in enumerate(tasks, start=1)]
