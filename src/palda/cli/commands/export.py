"""``palda export``: labels for a labelling platform, or as a table with the numbers of votes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from palda.cli import options as opt
from palda.cli.console import Messages
from palda.cli.features import NewFeatures, new_features
from palda.cli.inputs import regular_file, word_counts
from palda.cli.output import Target, write_records
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palda.data import Array, Strings, Votes
    from palda.estimators import PALDA, CrowdPALDA
    from palda.io import Control

    Record = dict[str, Any]

_CHUNK = 1000  # documents in memory at a time
_LABEL_STUDIO = "Label Studio"
_FORMATS = {"labelstudio": "json", "csv": "csv", "jsonl": "jsonl"}


@dataclass(frozen=True)
class _LabelStudioOptions:
    """What results for Label Studio look like."""

    form: Any
    existing: bool
    label_config: Path | None
    question: str | None
    to_name: str | None
    field: str | None
    model_version: str | None
    min_score: float


def _label_studio_options(
    form: Annotated[
        Literal["predictions", "annotations"],
        opt.option("Predictions with scores, or ground truth annotations.", "--as", panel=_LABEL_STUDIO),
    ] = "predictions",
    existing: Annotated[
        bool, opt.flag("Refer to existing tasks by number instead of writing new ones.", "--existing",
                       panel=_LABEL_STUDIO)
    ] = False,
    label_config: Annotated[
        Path | None,
        opt.option("Label config of the project: XML, or the JSON of the project.", "--label-config",
                   show_default="none", panel=_LABEL_STUDIO),
    ] = None,
    question: Annotated[
        str | None,
        opt.option("Name of the Choices or Taxonomy tag.", show_default="the only one of the label config",
                   panel=_LABEL_STUDIO),
    ] = None,
    to_name: Annotated[
        str | None,
        opt.option("Name of the tag of the text.", show_default="from the label config, else text",
                   panel=_LABEL_STUDIO),
    ] = None,
    field: Annotated[
        str | None,
        opt.option("Data field of the text.", show_default="from the label config, else text", panel=_LABEL_STUDIO),
    ] = None,
    model_version: Annotated[
        str | None,
        opt.option("Model version of predictions.", show_default="name of the model file", panel=_LABEL_STUDIO),
    ] = None,
    min_score: Annotated[
        float,
        opt.option("Leave out documents with a label less certain than this.", min=0, max=1, panel=_LABEL_STUDIO),
    ] = 0.0,
) -> _LabelStudioOptions:  # fmt: skip
    return _LabelStudioOptions(form, existing, label_config, question, to_name, field, model_version, min_score)


@opt.writes_files("output")
@opt.option_groups(studio=_label_studio_options, features=opt.feature_options)
def export(
    model: opt.Model,
    documents: Annotated[
        Path | None,
        typer.Argument(help="New documents; - for standard input.", show_default="the training documents"),
    ] = None,
    to: Annotated[
        Literal["labelstudio", "csv", "jsonl"], opt.option("Format to write.", "--to", show_default=False)
    ] = ...,  # type: ignore[assignment]
    output: Annotated[
        Path | None, opt.option("File to write.", "--output", "-o", show_default="standard output")
    ] = None,
    force: opt.Force = False,
    spreadsheet_safe: opt.SpreadsheetSafe = False,
    *,
    studio: _LabelStudioOptions,
    features: opt.FeatureFiles,
    id_: opt.Id = None,
    text: opt.Text = None,
    encoding: opt.Encoding = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Write labels for import into Label Studio, or as a table with probabilities and numbers of votes.

    The labels are the consensus of the training documents, or predictions of new documents.
    """
    from palda.estimators import load

    if spreadsheet_safe and to != "csv":
        raise typer.BadParameter("--spreadsheet-safe is for CSV; use --to csv")
    if to != "labelstudio" and studio != _label_studio_options():
        raise typer.BadParameter("options of Label Studio need --to labelstudio")
    control = _control(studio) if to == "labelstudio" else None
    target = Target(output, _FORMATS[to], force, spreadsheet_safe)
    features.require_documents(documents)
    fitted = load(model)
    fitted.set_params(n_jobs=jobs)
    reading = {"id": id_, "text": text, "encoding": encoding}
    with (
        Messages(quiet=quiet).show_warnings(),
        regular_file(documents) as file,
        new_features(features, fitted, reading) as given,
    ):
        chunks = _training_labels(fitted, model) if file is None else _new_labels(fitted, file, reading, given)
        if control is None:
            write_records(_records(fitted, chunks), target)
        else:
            version = studio.model_version or model.name.removesuffix(".palda")
            write_records(_tasks(fitted, chunks, control, studio, version), target)


class _Labels(NamedTuple):
    """Probabilities of some documents, thresholds, and texts and votes if they are known."""

    doc_ids: Strings
    probs: Array
    thresholds: Array | float
    texts: Strings | None
    votes: Votes | None


def _training_labels(model: PALDA | CrowdPALDA, path: Path) -> Iterator[_Labels]:
    from palda.estimators import CrowdPALDA

    if not isinstance(model, CrowdPALDA):
        raise PaldaError(f"{path}: the model was fitted to known labels and has no consensus; give new documents")
    for start in range(0, len(model.doc_ids_), _CHUNK):
        rows = slice(start, start + _CHUNK)
        texts = None if model.texts_ is None else model.texts_[rows]
        votes = None if model.votes_ is None else model.votes_.take(rows)
        yield _Labels(model.doc_ids_[rows], model.consensus_[rows], 0.5, texts, votes)


def _new_labels(
    model: PALDA | CrowdPALDA, file: Path, reading: dict[str, str | None], features: NewFeatures
) -> Iterator[_Labels]:
    from palda.io import stream_documents

    n_done = 0
    for documents, _ in stream_documents(file, **reading, size=_CHUNK):
        probs = model.predict_proba(word_counts(model, documents), features=features.of(documents, n_done))
        n_done += len(documents)
        texts = getattr(documents, "texts", None)
        yield _Labels(documents.doc_ids, probs, model.thresholds_, texts, None)
    features.check_end(n_done)


def _records(model: PALDA | CrowdPALDA, chunks: Iterator[_Labels]) -> Iterator[list[Record]]:
    """One record per document: its labels, the probability of each class, and the numbers of votes."""
    from palda.report import label_records

    names = model.classes_.tolist()
    for chunk in chunks:
        for block in label_records(chunk.doc_ids, chunk.probs, names, chunk.thresholds, block=_CHUNK):
            if chunk.votes is not None:
                counts = zip(chunk.votes.per_pair().tolist(), chunk.votes.yes_per_pair().tolist(), strict=True)
                for record, (n_votes, n_present) in zip(block, counts, strict=True):
                    record["n_votes"] = dict(zip(names, n_votes, strict=True))
                    record["n_present"] = dict(zip(names, n_present, strict=True))
            yield block


def _control(studio: _LabelStudioOptions) -> Control:
    from dataclasses import replace

    from palda.io import Control, read_label_config

    if studio.label_config is not None:
        control = read_label_config(studio.label_config).control(studio.question)
        return control if studio.to_name is None else replace(control, to_name=studio.to_name)
    if studio.question is None:
        raise PaldaError("which control of the project holds the labels? pass --label-config FILE, or --question NAME")
    return Control(studio.question, studio.to_name or "text")


def _tasks(
    model: PALDA | CrowdPALDA, chunks: Iterator[_Labels], control: Control, studio: _LabelStudioOptions, version: str
) -> Iterator[list[Record]]:
    from palda.io import labelstudio_tasks, read_label_config

    field = studio.field
    if field is None and studio.label_config is not None:
        field = read_label_config(studio.label_config).fields.get(control.to_name)
    for chunk in chunks:
        if chunk.texts is None and not studio.existing:
            raise PaldaError("the model file has no texts for new tasks; pass --existing for tasks that exist already")
        yield list(
            labelstudio_tasks(
                chunk.doc_ids.tolist(), chunk.probs, model.classes_.tolist(), control,
                texts=None if studio.existing or chunk.texts is None else chunk.texts.tolist(), field=field or "text",
                form=studio.form, thresholds=chunk.thresholds, model_version=version, min_score=studio.min_score,
            )
        )  # fmt: skip
