"""Annotations (the answer of one person about one document) and their conversion to a ``Dataset``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Dataset, Documents, VoteRecords, names_array, validation
from palda.io import limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Strings


@dataclass(frozen=True)
class Annotation:
    """Answer of one annotator about one document.

    ``present`` is None for an abstention and empty if no class applies. If ``absent`` is None, every class that is not
    present is absent; otherwise ``absent`` has the classes judged absent, and the rest were not judged.
    ``probabilities`` are those of "present" that the annotator stated for some of the judged classes.
    """

    doc: str
    annotator: str
    present: Collection[str] | None
    row: int
    absent: Collection[str] | None = None
    time: float | None = None
    gold: bool = False
    probabilities: Mapping[str, float] | None = None


def dataset_from_annotations(
    annotations: Sequence[Annotation],
    texts: Mapping[str, str],
    *,
    file: str,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    duplicates: validation.DuplicateRule = "error",
    fields: Mapping[str, NDArray[Any]] | None = None,
    kinds: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
) -> Dataset:
    """Dataset over all documents of ``texts`` from votes and gold annotations.

    The classes are the given ones, else all that occur in an annotation, sorted. With ``partial``, a class that an
    annotation does not name is not judged. ``kinds`` and ``families`` are those of annotators by name.
    """
    where = validation.SourceLocation(file, np.array([annotation.row for annotation in annotations], dtype=np.int64))
    axis = _class_axis(annotations, classes, where)
    limits.check_n_cells(max(len(annotations), len(texts)), len(axis), file)
    matrix = _vote_matrix(annotations, axis, partial=partial)
    doc_ids = names_array(texts)
    place = {doc: position for position, doc in enumerate(doc_ids)}
    doc = np.array([place[annotation.doc] for annotation in annotations], dtype=np.int64)
    is_gold = np.array([annotation.gold for annotation in annotations], dtype=bool)
    for record, annotation in enumerate(annotations):
        if not annotation.gold and not annotation.annotator:
            where.fail("the annotator is blank; every annotation needs one", record)
    voters = [annotation.annotator for annotation in annotations if not annotation.gold]
    annotators = names_array(sorted(set(voters)))
    position = {name: position for position, name in enumerate(annotators)}
    votes = records_from_matrix(
        doc[~is_gold],
        np.array([position[name] for name in voters], dtype=np.int64),
        matrix[~is_gold],
        doc_ids=doc_ids,
        annotators=annotators,
        classes=axis,
        time=_times([annotation for annotation in annotations if not annotation.gold]),
        where=where.subset(np.flatnonzero(~is_gold)),
        probability=_probability_matrix([annotation for annotation in annotations if not annotation.gold], axis),
        annotator_kinds=_traits(kinds, annotators),
        annotator_families=_traits(families, annotators),
    ).votes(duplicates)
    gold = _gold_matrix(doc[is_gold], matrix[is_gold], len(doc_ids), where.subset(np.flatnonzero(is_gold)), axis)
    texts_array = np.empty(len(doc_ids), dtype=object)
    texts_array[:] = list(texts.values())
    return Dataset(Documents(doc_ids, texts_array, fields or {}), votes, gold)


def records_from_matrix(
    doc: NDArray[np.integer[Any]],
    annotator: NDArray[np.integer[Any]],
    matrix: NDArray[np.int8],
    *,
    doc_ids: Strings,
    annotators: Strings,
    classes: Strings,
    where: validation.SourceLocation,
    time: NDArray[np.float64] | None = None,
    unite: bool = False,
    probability: NDArray[np.float32] | None = None,
    annotator_kinds: Strings | None = None,
    annotator_families: Strings | None = None,
) -> VoteRecords:
    """Records of a matrix with one row per annotation: 1, 0, or -1 for no judgement; a row of -1 is an abstention.

    ``probability`` has the same shape: the probability of "present" that was stated, NaN for a hard vote.
    """
    record, label = np.nonzero(matrix != validation.BLANK)
    abstaining = np.flatnonzero((matrix == validation.BLANK).all(axis=1))
    value = np.concatenate((matrix[record, label], np.full(len(abstaining), validation.BLANK, dtype=np.int8)))
    if probability is not None:
        probability = np.append(probability[record, label], np.full(len(abstaining), np.nan, dtype=np.float32))
    record = np.concatenate((record, abstaining))
    label = np.concatenate((label, np.full(len(abstaining), -1)))
    time = None if time is None else time[record]
    return VoteRecords(
        doc[record], annotator[record], label, value, doc_ids, annotators, classes, where.subset(record), time, unite,
        probability, annotator_kinds, annotator_families,
    )  # fmt: skip


def _class_axis(
    annotations: Sequence[Annotation], classes: Iterable[str] | None, where: validation.SourceLocation
) -> Strings:
    named = [
        {*(annotation.present or ()), *(annotation.absent or ()), *(annotation.probabilities or ())}
        for annotation in annotations
    ]
    if classes is None:
        return names_array(sorted(set().union(*named)))
    axis = names_array(classes)
    known = set(axis)
    for record, names in enumerate(named):
        for name in sorted(names - known):
            where.fail(validation.unknown_name(name, axis.tolist(), "class"), record)
    return axis


def _vote_matrix(annotations: Sequence[Annotation], axis: Strings, *, partial: bool) -> NDArray[np.int8]:
    place = {name: position for position, name in enumerate(axis)}
    matrix = np.full((len(annotations), len(axis)), validation.BLANK, dtype=np.int8)
    for row, annotation in zip(matrix, annotations, strict=True):
        if annotation.present is None:
            continue
        if annotation.absent is None and not partial:
            row[:] = 0
        row[[place[name] for name in (*(annotation.absent or ()), *(annotation.probabilities or ()))]] = 0
        row[[place[name] for name in annotation.present]] = 1
    return matrix


def _probability_matrix(annotations: Sequence[Annotation], axis: Strings) -> NDArray[np.float32] | None:
    """Stated probabilities (annotations, classes), NaN where there is none; None if there are none at all."""
    if not any(annotation.probabilities for annotation in annotations):
        return None
    place = {name: position for position, name in enumerate(axis)}
    matrix = np.full((len(annotations), len(axis)), np.nan, dtype=np.float32)
    for row, annotation in zip(matrix, annotations, strict=True):
        stated = annotation.probabilities or {}
        row[[place[name] for name in stated]] = list(stated.values())
    return matrix


def _traits(traits: Mapping[str, str] | None, annotators: Strings) -> Strings | None:
    return names_array(traits.get(name, "") for name in annotators) if traits else None


def _times(annotations: Sequence[Annotation]) -> NDArray[np.float64] | None:
    """Times, NaN where unknown; None if all are."""
    times = [np.nan if annotation.time is None else annotation.time for annotation in annotations]
    return None if np.isnan(times).all() else np.array(times, dtype=np.float64)


def _gold_matrix(
    doc: NDArray[np.int64], matrix: NDArray[np.int8], n_docs: int, where: validation.SourceLocation, classes: Strings
) -> NDArray[np.int8]:
    gold = np.full((n_docs, matrix.shape[1]), validation.BLANK, dtype=np.int8)
    for record, (row, known) in enumerate(zip(doc, matrix, strict=True)):
        clash = np.flatnonzero((known != validation.BLANK) & (gold[row] != validation.BLANK) & (known != gold[row]))
        if len(clash):
            where.fail(
                f"this gold annotation contradicts an earlier one on class {validation.shown(classes[clash[0]])}",
                record,
            )
        gold[row] = np.where(known == validation.BLANK, gold[row], known)
    return gold
