"""Simulated votes: annotators see the true labels and report each class correctly with their own probability.

One ``seed`` may be used for documents, annotators and votes: each uses an independent random stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Dataset, Votes, names_array, validation
from palda.errors import DataError
from palda.simulate.annotator_sampling import Behaviour, SimulatedAnnotators, annotators
from palda.simulate.document_sampling import SimulatedDocuments, doc_blocks, random_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from palda.data import Strings
    from palda.simulate.document_sampling import Ints


def votes(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    annotators: SimulatedAnnotators,
    *,
    seed: int = 0,
    votes_per_doc: int | None = None,
    fraction: float | None = None,
    pair_share: float = 1.0,
    pairs_per_vote: int | None = None,
    doc_ids: Iterable[object] | None = None,
    classes: Iterable[object] | None = None,
) -> Votes:
    """Votes of simulated annotators on documents with known labels.

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, 0 or 1. Simulated documents and data sets also provide the names.
    annotators : SimulatedAnnotators
        The annotators.
    seed : int, default 0
        Random seed.
    votes_per_doc : int, optional
        Number of different annotators per document; 5 if ``fraction`` is not given either.
    fraction : float, optional
        The same as a share of all annotators.
    pair_share : float, default 1
        Partial labelling: probability that an annotator judges a class of a document. Other classes get no vote.
    pairs_per_vote : int, optional
        Partial labelling: exact number of classes that an annotator judges per document.
    doc_ids, classes : iterable, optional
        Names; positions by default.

    Returns
    -------
    Votes
        The votes.

    Examples
    --------
    >>> from palda import simulate
    >>> annotators = simulate.annotators([0.9, 0.8, 0.7], n_classes=2, seed=0)
    >>> votes = simulate.votes([[1, 0], [0, 1]], annotators, votes_per_doc=2, seed=0)
    >>> votes.n_docs, votes.n_annotators, len(votes)
    (2, 3, 8)
    """
    doc_ids = getattr(labels, "doc_ids", None) if doc_ids is None else doc_ids
    classes = getattr(labels, "classes", None) if classes is None else classes
    truth = true_labels(labels)
    n_docs, n_classes = truth.shape
    if n_classes != annotators.n_classes:
        raise DataError(f"the annotators judge {annotators.n_classes} classes, but the labels have {n_classes}")
    n_per_doc = _annotators_per_doc(votes_per_doc, fraction, len(annotators))
    _check_partial(pair_share, pairs_per_vote, n_classes)
    rng = random_stream(seed, "votes")
    columns = []
    for rows in doc_blocks(n_docs, n_per_doc * n_classes):
        annotator_of = _distinct(rows.stop - rows.start, n_per_doc, len(annotators), rng).ravel()
        annotation, label = _judged_pairs(len(annotator_of), n_classes, pair_share, pairs_per_vote, rng)
        doc, annotator = rows.start + annotation // n_per_doc, annotator_of[annotation]
        uniform = rng.random(len(annotation))
        value = np.where(
            truth[doc, label],
            uniform < annotators.sensitivity[annotator, label],
            uniform >= annotators.specificity[annotator, label],
        )
        columns.append((doc.astype(np.int32), annotator, label.astype(np.int32), value.astype(np.int8)))
    all_docs, all_annotators, all_labels, values = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Votes(
        all_docs,
        all_annotators,
        all_labels,
        values,
        _names_for(doc_ids, n_docs, "document ids"),
        annotators.names,
        _names_for(classes, n_classes, "classes"),
    )


def crowd(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    profile: str | ArrayLike = "paper",
    *,
    seed: int = 0,
    behaviour: Behaviour = "one_coin",
    n_spammers: int = 0,
    **options: Any,
) -> tuple[Votes, SimulatedAnnotators]:
    """Simulated annotators and their votes.

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, as in :func:`votes`.
    profile : str or array of shape (annotators,), default "paper"
        Qualities of the annotators, as in :func:`annotators`.
    seed : int, default 0
        Random seed.
    behaviour, n_spammers
        As in :func:`annotators`.
    **options
        Further options of :func:`votes`.

    Returns
    -------
    votes : Votes
        The votes.
    annotators : SimulatedAnnotators
        The annotators with their true rates.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(100, seed=0)
    >>> votes, annotators = simulate.crowd(news, "paper", votes_per_doc=3, seed=0)
    >>> len(annotators), len(votes)
    (50, 3000)
    """
    n_classes = true_labels(labels).shape[1]
    crowd_annotators = annotators(profile, n_classes=n_classes, seed=seed, behaviour=behaviour, n_spammers=n_spammers)
    return votes(labels, crowd_annotators, seed=seed, **options), crowd_annotators


def _distinct(n_rows: int, size: int, population: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Sorted samples without replacement, one per row (Floyd's algorithm on all rows at once)."""
    chosen = np.empty((n_rows, size), dtype=np.int32)
    for step, newest in enumerate(range(population - size, population)):
        pick = rng.integers(newest + 1, size=n_rows, dtype=np.int32)
        taken = (chosen[:, :step] == pick[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, newest, pick)
    chosen.sort(axis=1)
    return chosen


def _judged_pairs(
    n_annotations: int, n_classes: int, share: float, per_annotation: int | None, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Judged classes of each annotation (one annotator, one document): positions of annotation and class, sorted."""
    if per_annotation is not None:
        return np.repeat(np.arange(n_annotations), per_annotation), _distinct(
            n_annotations, per_annotation, n_classes, rng
        ).ravel()
    if share == 1.0:
        return np.repeat(np.arange(n_annotations), n_classes), np.tile(np.arange(n_classes), n_annotations)
    annotation, label = np.nonzero(rng.random((n_annotations, n_classes)) < share)
    return annotation, label


def _annotators_per_doc(votes_per_doc: int | None, fraction: float | None, n_annotators: int) -> int:
    if votes_per_doc is not None and fraction is not None:
        raise DataError("give votes_per_doc or fraction, not both")
    if fraction is not None:
        validation.require_number(fraction, 0, 1, "fraction")
        votes_per_doc = round(fraction * n_annotators)
        if votes_per_doc == 0:
            raise DataError(f"fraction={fraction} of {n_annotators} annotators is less than one annotator; increase it")
    n_per_doc = 5 if votes_per_doc is None else votes_per_doc
    validation.require_count(n_per_doc, "votes_per_doc")
    if n_per_doc > n_annotators:
        raise DataError(f"votes_per_doc={n_per_doc} is more than the {n_annotators} annotators")
    return n_per_doc


def _check_partial(pair_share: float, pairs_per_vote: int | None, n_classes: int) -> None:
    validation.require_number(pair_share, 0, 1, "pair_share")
    if pairs_per_vote is None:
        return
    validation.require_count(pairs_per_vote, "pairs_per_vote")
    if pair_share < 1:
        raise DataError("give pair_share or pairs_per_vote, not both")
    if pairs_per_vote > n_classes:
        raise DataError(f"pairs_per_vote={pairs_per_vote} is more than the {n_classes} classes")


def true_labels(labels: ArrayLike | SimulatedDocuments | Dataset) -> NDArray[np.bool_]:
    """True labels as booleans; every label must be known."""
    if isinstance(labels, SimulatedDocuments):
        labels = labels.labels
    elif isinstance(labels, Dataset):
        labels = labels.gold
    truth = np.asarray(labels)
    if truth.ndim != 2 or not truth.size or truth.dtype.kind not in "biuf":
        raise DataError(
            f"labels must be numbers of shape (documents, classes), not {truth.dtype} of shape {truth.shape}"
        )
    wrong = np.argwhere((truth != 0) & (truth != 1))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
        raise DataError(
            f"label {truth[row, column]:g} of document {row}, class {column} is not 0 or 1; "
            "leave out documents with unknown labels"
        )
    present: NDArray[np.bool_] = truth == 1
    return present


def _names_for(names: Iterable[object] | None, size: int, kind: str) -> Strings:
    named = names_array(range(size) if names is None else names)
    if len(named) != size:
        raise DataError(f"{len(named)} {kind} were given for labels with {size}")
    return named
