"""Labels and votes as estimators accept them: arrays, data frames and ``Votes`` become tables of one form."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import Votes, names_array, validation
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Strings, VoteRows

    Indices = NDArray[np.int64]


def label_table(Y: Any) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """Labels (documents, classes) as 1, 0 and -1 for unknown, and the names of the columns.

    A single column may hold any two numbers, as binary targets of scikit-learn do; the larger one means present.
    """
    if Y is None:
        raise ValueError("labels are missing: this estimator requires y to be passed, but the target y is None")
    table = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    known = _known_labels(table)
    if table.ndim == 1:
        raise ValueError(
            f"labels must be a table (documents, classes), not a 1-D array of length {len(table)}: "
            "y should be a 2d array with one column per class; reshape a single class with Y.reshape(-1, 1)"
        )
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"labels have shape {table.shape}, not (documents, classes)")
    columns = getattr(Y, "columns", None)
    return known, np.arange(table.shape[1]) if columns is None else class_names(columns)


def _known_labels(table: NDArray[Any]) -> NDArray[np.int8]:
    numbers = _numbers(table)
    unknown = (numbers == -1) | (np.isnan(numbers) if numbers.dtype.kind == "f" else False)
    values = np.unique(numbers[~unknown])
    if table.ndim == 2 and table.shape[1] == 1 and len(values) == 2:
        return np.where(unknown, -1, numbers == values[1]).astype(np.int8)
    wrong = values[~np.isin(values, (0, 1))]
    if len(wrong):
        raise ValueError(
            "Only binary classification is supported. Unknown label type: "
            f"{wrong[0].item()!r} is not 0, 1, or -1/NaN for unknown"
        )
    return np.where(unknown, -1, numbers == 1).astype(np.int8)


def _numbers(table: NDArray[Any]) -> NDArray[Any]:
    if table.dtype.kind == "c":
        raise ValueError("Complex data not supported: labels must be 0, 1, or -1/NaN for unknown")
    if table.dtype.kind not in "biuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "Only binary classification is supported. Unknown label type: "
                "labels must be 0, 1, or -1/NaN for unknown"
            ) from None
    if table.dtype.kind == "f" and np.isinf(table).any():
        raise ValueError("labels contain infinity; use -1 or NaN for an unknown label")
    return table


def class_names(names: Iterable[object]) -> NDArray[Any]:
    """Integers as they are, anything else as strings."""
    listed = list(names)
    if all(isinstance(name, (int, np.integer)) for name in listed):
        return np.array(listed)
    return names_array(listed)


def given_classes(classes: Any, names: NDArray[Any]) -> NDArray[Any]:
    """Class names from ``partial_fit(classes=...)``, else those of y.

    scikit-learn passes the two values of a single column; they name no class.
    """
    if classes is None:
        return names
    given = class_names(np.asarray(classes).tolist())
    if len(names) == 1 and len(given) == 2:
        return names
    if len(given) != len(names):
        raise ValueError(f"classes names {len(given)} classes, but y has {len(names)} columns")
    return given


def labels_of_classes(Y: Any, classes: NDArray[Any]) -> NDArray[np.int8]:
    """Labels in the order of a fitted model's classes; columns of a data frame are matched by name."""
    known, names = label_table(Y)
    if known.shape[1] != len(classes):
        raise ValueError(f"y has {known.shape[1]} classes, but the model has {len(classes)}; pass the same classes")
    if not hasattr(Y, "columns"):
        return known
    column = {name: position for position, name in enumerate(names)}
    unknown = [name for name in names if name not in set(classes.tolist())]
    if unknown:
        raise DataError(validation.unknown_name(str(unknown[0]), [str(name) for name in classes], "class"))
    return np.ascontiguousarray(known[:, [column[name] for name in classes.tolist()]])


def gold_table(gold: Any, votes: VoteRows) -> NDArray[np.int8]:
    """Known labels (documents, classes) in the order of the votes, -1 where unknown.

    Rows and columns of a data frame are matched by name, and it may leave out documents and classes. An axis with
    pandas' default numbering that is as long as that of the votes is matched by position.
    """
    shape = (votes.n_docs, votes.n_classes)
    if gold is None:
        return np.full(shape, -1, dtype=np.int8)
    if hasattr(gold, "columns"):
        rows = _matched_names(gold.index, votes.doc_ids, "document")
        columns = _matched_names(gold.columns, votes.classes, "class")
        gold = gold.set_axis(rows, axis=0).set_axis(columns, axis=1)
        gold = gold.reindex(index=votes.doc_ids, columns=votes.classes)
    known, _ = label_table(gold)
    if known.shape != shape:
        raise DataError(
            f"gold has shape {known.shape}, not (documents, classes) = {shape}; a data frame indexed by document id "
            "may leave documents out"
        )
    return known


def _matched_names(axis: pd.Index[Any], expected: Strings, kind: str) -> Strings:
    """Names of the rows or columns of ``gold``, all of them expected."""
    names, known = names_array(axis), set(expected)
    unknown = [name for name in names if name not in known]
    if unknown and np.array_equal(axis, np.arange(len(expected))):
        return expected
    if axis.has_duplicates:
        raise DataError(f"gold names {kind} {validation.shown(axis[axis.duplicated()][0])} twice; keep one")
    if unknown:
        raise DataError("gold: " + validation.unknown_name(unknown[0], expected.tolist(), kind))
    return names


def as_votes(votes: Any, doc_ids: Iterable[object] | None = None, n_docs: int | None = None) -> Votes:
    """Votes from any accepted form; with ``n_docs``, on the documents that are the rows of X."""
    ids = None if doc_ids is None else names_array(doc_ids)
    if ids is not None and len(ids) != n_docs:
        raise DataError(f"X has {n_docs} documents, but there are {len(ids)} doc_ids")
    if votes is None:
        raise DataError(
            "votes are missing (None); pass Votes, a long data frame or an array (documents, annotators, classes)"
        )
    if isinstance(votes, Votes):
        given = votes if ids is None or np.array_equal(votes.doc_ids, ids) else votes.on_documents(ids)
    elif hasattr(votes, "columns"):
        if ids is None and n_docs is not None:
            raise DataError("votes in a data frame are matched by document id: pass doc_ids=, or a Corpus as X")
        given = Votes.from_frame(votes, documents=ids)
    else:
        given = Votes.from_array(votes, doc_ids=ids)
    if n_docs is not None and given.n_docs != n_docs:
        raise DataError(f"X has {n_docs} documents, but the votes have {given.n_docs}; match them by id with doc_ids=")
    return given


def known_votes(
    votes: Any, doc_ids: Iterable[object] | None, n_docs: int, classes: Strings, annotators: Strings
) -> Votes:
    """Votes on new documents with the classes and annotators of a fitted model; new annotators follow the known."""
    if not isinstance(votes, Votes) and not hasattr(votes, "columns") and votes is not None:
        ids = None if doc_ids is None else names_array(doc_ids)
        votes = Votes.from_array(votes, doc_ids=ids, annotators=annotators, classes=classes)
    given = as_votes(votes, doc_ids, n_docs)
    column = {name: position for position, name in enumerate(classes)}
    unknown = [name for name in given.classes if name not in column]
    if unknown:
        raise DataError(validation.unknown_name(unknown[0], list(classes), "class"))
    row = {name: position for position, name in enumerate(dict.fromkeys((*annotators, *given.annotators)))}
    place = np.array([row[name] for name in given.annotators], dtype=np.int32)
    return Votes.from_codes(
        given.doc,
        place[given.annotator],
        np.array([column[name] for name in given.classes], dtype=np.int32)[given.label],
        given.value,
        doc_ids=given.doc_ids,
        annotators=names_array(row),
        classes=classes,
        time=given.time if len(given.time) else None,
        probability=given.probability if len(given.probability) else None,
        annotator_kinds=_moved(given.annotator_kinds, place, len(row)),
        annotator_families=_moved(given.annotator_families, place, len(row)),
    )


def _moved(traits: Strings, place: NDArray[np.int32], size: int) -> Strings | None:
    """Kinds or families of annotators at other positions, "" for everybody else."""
    if not len(traits):
        return None
    moved = np.full(size, "", dtype=object)
    moved[place] = traits
    return moved


class NewVotes(NamedTuple):
    """Votes for ``partial_fit``, with the classes and annotators of the model first."""

    votes: Votes
    new: Indices  # rows of documents that the model does not have
    seen: Indices  # rows of documents that it has,
    positions: Indices  # and their positions in the model


def new_votes(
    votes: Any, doc_ids: Iterable[object] | None, n_docs: int, axes: tuple[Strings, Strings, Strings]
) -> NewVotes:
    """Votes for a model with these documents, annotators and classes.

    Rows of an array without ids are new documents, numbered after those of the model.
    """
    documents, annotators, classes = axes
    if doc_ids is None and not isinstance(votes, Votes) and not hasattr(votes, "columns"):
        taken = set(documents)
        free = (str(number) for number in itertools.count(len(documents)) if str(number) not in taken)
        doc_ids = list(itertools.islice(free, n_docs))
    given = known_votes(votes, doc_ids, n_docs, classes, annotators)
    position_of = {name: position for position, name in enumerate(documents)}
    positions = np.array([position_of.get(name, -1) for name in given.doc_ids], dtype=np.int64)
    seen = np.flatnonzero(positions >= 0)
    return NewVotes(given, np.flatnonzero(positions < 0), seen, positions[seen])
