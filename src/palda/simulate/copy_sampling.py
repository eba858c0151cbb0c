"""Simulated annotators who are not independent: clones of an annotator, and siblings that share their errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Dataset, Votes, names_array, validation
from palda.errors import DataError
from palda.simulate.document_sampling import SimulatedDocuments, random_stream
from palda.simulate.vote_sampling import true_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from palda.simulate.annotator_sampling import SimulatedAnnotators


def clones(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    votes: Votes,
    annotators: SimulatedAnnotators,
    original: int,
    n_clones: int = 1,
    *,
    copy_share: float = 1.0,
    seed: int = 0,
) -> tuple[Votes, SimulatedAnnotators]:
    """Add clones of an annotator, who vote wherever the original voted.

    A clone repeats each vote of the original with probability ``copy_share``, and else votes on its own with the same
    rates.

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, as in :func:`votes`.
    votes : Votes
        Votes of the crowd, as returned by :func:`crowd`.
    annotators : SimulatedAnnotators
        The annotators of the crowd.
    original : int
        Position of the annotator who is copied.
    n_clones : int, default 1
        Number of clones.
    copy_share : float, default 1
        Probability that a clone repeats a vote.
    seed : int, default 0
        Random seed.

    Returns
    -------
    votes : Votes
        The votes of the crowd and of the clones, who come last.
    annotators : SimulatedAnnotators
        All annotators with their true rates.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(100, seed=0)
    >>> votes, annotators = simulate.crowd(news, "paper", votes_per_doc=5, seed=0)
    >>> votes, annotators = simulate.clones(news, votes, annotators, original=0, n_clones=2)
    >>> annotators.names[-2:].tolist()
    ['annotator-01 clone 1', 'annotator-01 clone 2']
    """
    validation.require_count(n_clones, "n_clones")
    validation.require_number(copy_share, 0, 1, "copy_share")
    if not 0 <= original < len(annotators):
        raise DataError(f"there is no annotator {original}; there are {len(annotators)}")
    truth = true_labels(labels)
    rng = random_stream(seed, "clones")
    rows = np.flatnonzero(votes.annotator == original)
    doc, label = votes.doc[rows], votes.label[rows]
    values = []
    for _ in range(n_clones):
        own = _own_votes(truth[doc, label], annotators, original, label, rng)
        values.append(np.where(rng.random(len(rows)) < copy_share, votes.value[rows], own).astype(np.int8))
    names = [f"{annotators.names[original]} clone {number}" for number in range(1, n_clones + 1)]
    added = _repeated(annotators, np.full(n_clones, original), names)
    return _with_annotators(votes, (doc, label), values, names), _joined(annotators, added)


def siblings(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    votes: Votes,
    annotators: SimulatedAnnotators,
    n_siblings: int = 5,
    *,
    quality: float = 0.75,
    correlation: float = 0.5,
    seed: int = 0,
) -> tuple[Votes, SimulatedAnnotators]:
    """Add siblings of one model, who judge every class of every document and share part of their errors.

    Each vote of a sibling is correct with probability ``quality``. Whether it is correct is, with probability
    √``correlation``, decided by the model that all siblings share, and else by the sibling alone; so the errors of any
    two siblings have the given correlation.

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, as in :func:`votes`.
    votes : Votes
        Votes of the crowd, as returned by :func:`crowd`.
    annotators : SimulatedAnnotators
        The annotators of the crowd.
    n_siblings : int, default 5
        Number of siblings.
    quality : float, default 0.75
        Probability that a vote of a sibling is correct.
    correlation : float, default 0.5
        Correlation of the errors of two siblings.
    seed : int, default 0
        Random seed.

    Returns
    -------
    votes : Votes
        The votes of the crowd and of the siblings, who come last.
    annotators : SimulatedAnnotators
        All annotators with their true rates.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(100, seed=0)
    >>> votes, annotators = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=3, seed=0)
    >>> votes, annotators = simulate.siblings(news, votes, annotators, 5, quality=0.75, correlation=0.6)
    >>> len(annotators), len(votes)
    (8, 8000)
    """
    validation.require_count(n_siblings, "n_siblings")
    validation.require_number(quality, 0, 1, "quality")
    validation.require_number(correlation, 0, 1, "correlation")
    truth = true_labels(labels)
    rng = random_stream(seed, "siblings")
    shared = rng.random(truth.shape) < quality
    values = []
    for _ in range(n_siblings):
        correct = np.where(rng.random(truth.shape) < np.sqrt(correlation), shared, rng.random(truth.shape) < quality)
        values.append((truth == correct).astype(np.int8).ravel())
    doc, label = (axis.ravel().astype(np.int32) for axis in np.indices(truth.shape))
    names = [f"sibling {number}" for number in range(1, n_siblings + 1)]
    rates = np.full((n_siblings, truth.shape[1]), quality)
    kinds = names_array(["honest" if quality >= 0.5 else "adversary"] * n_siblings)
    added = replace(
        annotators,
        sensitivity=rates,
        specificity=rates,
        quality=np.full(n_siblings, quality),
        kinds=kinds,
        names=names_array(names),
    )
    return _with_annotators(votes, (doc, label), values, names), _joined(annotators, added)


def _own_votes(
    truth: NDArray[np.bool_],
    annotators: SimulatedAnnotators,
    annotator: int,
    label: NDArray[np.int32],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    uniform = rng.random(len(truth))
    is_yes: NDArray[np.bool_] = np.where(
        truth,
        uniform < annotators.sensitivity[annotator, label],
        uniform >= annotators.specificity[annotator, label],
    )
    return is_yes


def _with_annotators(
    votes: Votes,
    judged: tuple[NDArray[np.int32], NDArray[np.int32]],
    values: list[NDArray[np.int8]],
    names: list[str],
) -> Votes:
    """The votes of the crowd and those of new annotators, all of whom judge the same pairs of document and class."""
    n_new, n_votes = len(values), len(values) * len(judged[0])
    new = np.repeat(np.arange(votes.n_annotators, votes.n_annotators + n_new, dtype=np.int32), len(judged[0]))
    added: dict[str, Any] = {
        name: np.append(getattr(votes, name), np.full(n_votes, np.nan))
        for name in ("probability", "time")
        if len(getattr(votes, name))
    }
    added |= {
        name: names_array([*getattr(votes, name), *[""] * n_new])
        for name in ("annotator_kinds", "annotator_families")
        if len(getattr(votes, name))
    }
    return Votes.from_codes(
        np.concatenate((votes.doc, np.tile(judged[0], n_new))),
        np.concatenate((votes.annotator, new)),
        np.concatenate((votes.label, np.tile(judged[1], n_new))),
        np.concatenate((votes.value, *values)),
        doc_ids=votes.doc_ids,
        annotators=names_array([*votes.annotators, *names]),
        classes=votes.classes,
        **added,
    )


def _repeated(annotators: SimulatedAnnotators, rows: NDArray[np.int64], names: list[str]) -> SimulatedAnnotators:
    columns = {name: getattr(annotators, name)[rows] for name in ("sensitivity", "specificity", "quality", "kinds")}
    return replace(annotators, **columns, names=names_array(names))


def _joined(annotators: SimulatedAnnotators, added: SimulatedAnnotators) -> SimulatedAnnotators:
    fields = ("sensitivity", "specificity", "quality", "kinds")
    columns = {name: np.concatenate((getattr(annotators, name), getattr(added, name))) for name in fields}
    return replace(annotators, **columns, names=names_array([*annotators.names, *added.names]))
