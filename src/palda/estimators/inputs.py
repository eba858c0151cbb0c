"""What estimators accept as labels and votes, and what they start from."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from palda.data import Votes, names_array, validation, vote_blocks
from palda.errors import DataError
from palda.models.crowd import AnnotatorBelief, PublishedCoin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Strings, VoteRows

    Array = NDArray[np.float64]

    Rows = NDArray[np.int64]

__all__ = [
    "Arriving",
    "arriving_labels",
    "arriving_votes",
    "as_votes",
    "class_names",
    "initial_label_probs",
    "known_votes",
    "label_table",
    "mean_where_unknown",
    "named_classes",
]


def label_table(Y: Any) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """Labels as 1, 0 and -1, and the names of the columns.

    A table of a single column may hold any two numbers, as scikit-learn's binary targets do: the larger is "present".
    """
    if Y is None:
        raise ValueError("labels are needed: this estimator requires y to be passed, but the target y is None")
    columns = getattr(Y, "columns", None)
    table = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    known = _known(table)
    if table.ndim == 1:
        raise ValueError(
            f"a table of labels (documents, classes) is needed, not a 1-D array of {len(table)}: "
            "y should be a 2d array with a column for each class; reshape one class with Y.reshape(-1, 1)"
        )
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"labels have shape {table.shape}, not (documents, classes)")
    names = np.arange(table.shape[1]) if columns is None else class_names(columns)
    return known, names


def _known(table: NDArray[Any]) -> NDArray[np.int8]:
    numbers = _numbers(table)
    unknown = (numbers == -1) | (np.isnan(numbers) if numbers.dtype.kind == "f" else False)
    values = np.unique(numbers[~unknown])
    if table.ndim == 2 and table.shape[1] == 1 and len(values) == 2:
        return np.where(unknown, -1, numbers == values[1]).astype(np.int8)
    odd = values[~np.isin(values, (0, 1))]
    if len(odd):
        raise ValueError(
            "Only binary classification is supported. Unknown label type: "
            f"{odd[0].item()!r} is not 0, 1, or -1/NaN for unknown"
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
    """Whole numbers as they are, anything else as text."""
    listed = list(names)
    if all(isinstance(name, (int, np.integer)) for name in listed):
        return np.array(listed)
    return names_array(listed)


def mean_where_unknown(known: NDArray[np.int8]) -> Array:
    """Labels, with each class's share of the known ones standing in for unknown ones; ½ where nothing is known."""
    is_known = known >= 0
    n_known = is_known.sum(axis=0)
    shares = np.where(n_known > 0, (known == 1).sum(axis=0) / np.maximum(n_known, 1), 0.5)
    return np.where(is_known, known, shares)


def initial_label_probs(votes: VoteRows, known: NDArray[np.int8]) -> Array:
    """Labels before the first round of EM: what is known, else what the votes say.

    Without any known label a vote counts as it was cast: the majority decides. With some, annotators are weighed by
    how they did there, and those who were never tested by how the crowd did: so a crowd that lies is found out.
    """
    seen = reduce(np.add, (_tally(some, known[rows]) for rows, some in vote_blocks(votes)))
    n_yes, n_votes = seen[: 2 * votes.n_classes].reshape(2, -1)
    n_right, n_tests = seen[2 * votes.n_classes :].reshape(2, -1)
    overall = (n_yes + 1.0) / (n_votes + 2.0)
    crowd = (n_right.sum() + _TRUST * _TRUSTED_VOTES) / (n_tests.sum() + _TRUSTED_VOTES)
    rates = (n_right + crowd * _TRUSTED_VOTES) / (n_tests + _TRUSTED_VOTES) if n_tests.any() else None
    guess = np.empty(known.shape)
    for rows, some in vote_blocks(votes):
        guess[rows] = np.where(known[rows] >= 0, known[rows], _shares(some, overall, rates))
    return guess


def _tally(votes: Votes, known: NDArray[np.int8]) -> Array:
    """Votes for "present" and all votes, by class; then right votes and votes on known labels, by annotator."""
    truth = known[votes.doc, votes.label]
    tested = truth >= 0
    of_tested = votes.annotator[tested]
    right = (votes.value[tested] == truth[tested]).astype(np.float64)
    return np.concatenate(
        (
            np.bincount(votes.label, votes.value == 1, minlength=votes.n_classes),
            np.bincount(votes.label, minlength=votes.n_classes),
            np.bincount(of_tested, right, minlength=votes.n_annotators),
            np.bincount(of_tested, minlength=votes.n_annotators),
        )
    )


def _shares(votes: Votes, overall: Array, rates: Array | None) -> Array:
    """(documents, classes): probability of "present" by the shares of votes, or by the annotators' rates."""
    if rates is not None:
        shares: Array = expit(_log_odds_of_votes(votes, rates))
        return shares
    return (votes.yes_per_pair() + overall) / (votes.per_pair() + 1.0)


def _log_odds_of_votes(votes: Votes, rates: Array) -> Array:
    coins = PublishedCoin()
    certain = AnnotatorBelief(np.column_stack((rates, 1.0 - rates)), *_no_priors(len(rates)))
    return coins.evidence(votes, certain).log_odds


def _no_priors(n_annotators: int) -> tuple[Array, Array]:
    return np.full(2, 0.5), np.full((n_annotators, 2), np.nan)


_TRUST, _TRUSTED_VOTES = 0.7, 10.0  # an annotator is taken for this good until this many known labels say otherwise


def as_votes(votes: Any, doc_ids: Iterable[object] | None, n_docs: int) -> Votes:
    """Votes whose documents are the rows of X."""
    ids = None if doc_ids is None else names_array(doc_ids)
    if ids is not None and len(ids) != n_docs:
        raise DataError(f"X has {n_docs} documents, but there are {len(ids)} doc_ids")
    if isinstance(votes, Votes):
        given = votes if ids is None or np.array_equal(votes.doc_ids, ids) else _joined(votes, ids)
    elif hasattr(votes, "columns"):
        if ids is None:
            raise DataError("votes in a data frame are joined by document id: pass doc_ids=, or a Corpus as X")
        given = Votes.from_frame(votes, documents=ids)
    elif votes is None:
        raise ValueError("votes are needed: this estimator requires y to be passed, but the target y is None")
    else:
        given = Votes.from_array(votes, doc_ids=ids)
    if given.n_docs != n_docs:
        raise DataError(
            f"X has {n_docs} documents, but the votes speak of {given.n_docs}; join them by id with doc_ids="
        )
    return given


def known_votes(
    votes: Any, doc_ids: Iterable[object] | None, n_docs: int, classes: Strings, annotators: Strings
) -> Votes:
    """Votes on new documents, with the classes and annotators of a fitted model first; strangers follow."""
    if not isinstance(votes, Votes) and not hasattr(votes, "columns") and votes is not None:
        ids = None if doc_ids is None else names_array(doc_ids)
        votes = Votes.from_array(votes, doc_ids=ids, annotators=annotators, classes=classes)
    given = as_votes(votes, doc_ids, n_docs)
    column = {name: position for position, name in enumerate(classes)}
    strange = [name for name in given.classes if name not in column]
    if strange:
        raise DataError(validation.unknown_name(strange[0], list(classes), "class"))
    row = {name: position for position, name in enumerate(annotators)}
    everybody = [*annotators, *(name for name in given.annotators if name not in row)]
    row = {name: position for position, name in enumerate(everybody)}
    return Votes.from_codes(
        given.doc,
        np.array([row[name] for name in given.annotators], dtype=np.int32)[given.annotator],
        np.array([column[name] for name in given.classes], dtype=np.int32)[given.label],
        given.value,
        doc_ids=given.doc_ids,
        annotators=names_array(everybody),
        classes=classes,
    )


class Arriving(NamedTuple):
    """Votes that arrive later, with a model's classes and annotators first, and which of their documents it knows."""

    votes: Votes
    new: Rows  # rows of documents that the model has not seen
    seen: Rows  # rows of those that it has,
    places: Rows  # and their places in the model


def arriving_votes(
    votes: Any, doc_ids: Iterable[object] | None, n_docs: int, axes: tuple[Strings, Strings, Strings]
) -> Arriving:
    """Votes for a model with these documents, annotators and classes.

    Rows without any id are new documents: they are numbered on from those that the model has.
    """
    documents, annotators, classes = axes
    if doc_ids is None and not isinstance(votes, Votes) and not hasattr(votes, "columns"):
        taken = set(documents)
        free = (str(number) for number in itertools.count(len(documents)) if str(number) not in taken)
        doc_ids = list(itertools.islice(free, n_docs))
    given = known_votes(votes, doc_ids, n_docs, classes, annotators)
    place_of = {name: place for place, name in enumerate(documents)}
    places = np.array([place_of.get(name, -1) for name in given.doc_ids], dtype=np.int64)
    seen = np.flatnonzero(places >= 0)
    return Arriving(given, np.flatnonzero(places < 0), seen, places[seen])


def named_classes(classes: Any, names: NDArray[Any]) -> NDArray[Any]:
    """Names of the columns of labels; a single column may be given its two values, as scikit-learn does."""
    if classes is None:
        return names
    given = class_names(np.asarray(classes).tolist())
    if len(names) == 1 and len(given) == 2:
        return names
    if len(given) != len(names):
        raise ValueError(f"classes names {len(given)} classes, but y has {len(names)} columns")
    return given


def arriving_labels(Y: Any, classes: NDArray[Any]) -> NDArray[np.int8]:
    """Labels that arrive later, in the order of a model's classes; named columns are matched by name."""
    known, names = label_table(Y)
    if known.shape[1] != len(classes):
        raise ValueError(f"y has {known.shape[1]} classes, but the model has {len(classes)}; they must stay the same")
    if not hasattr(Y, "columns"):
        return known
    column = {name: position for position, name in enumerate(names)}
    strange = [name for name in names if name not in set(classes.tolist())]
    if strange:
        raise DataError(validation.unknown_name(str(strange[0]), [str(name) for name in classes], "class"))
    return np.ascontiguousarray(known[:, [column[name] for name in classes.tolist()]])


def _joined(votes: Votes, ids: Strings) -> Votes:
    """The same votes with the documents of ``ids`` as rows."""
    return Votes.from_frame(votes.to_frame().astype({"doc": object}), documents=ids, classes=votes.classes)
