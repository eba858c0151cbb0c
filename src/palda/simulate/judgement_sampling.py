"""Answers of simulated annotators on demand: the same annotator gives the same answer on the same document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.data import validation
from palda.errors import DataError
from palda.simulate.vote_sampling import true_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from palda.data import Dataset
    from palda.simulate.annotator_sampling import SimulatedAnnotators
    from palda.simulate.document_sampling import SimulatedDocuments

_PURPOSE = b"judgements"


def judgements(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    annotators: SimulatedAnnotators,
    doc: ArrayLike,
    annotator: ArrayLike,
    *,
    seed: int = 0,
) -> NDArray[np.int8]:
    """Answers of given annotators on given documents, all classes.

    Each pair has random numbers of its own, so an answer depends neither on the other pairs nor on their order. Two
    simulations that ask in different ways can be compared on equal answers (common random numbers).

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, 0 or 1.
    annotators : SimulatedAnnotators
        The annotators.
    doc, annotator : array of shape (pairs,)
        Positions of the documents and annotators.
    seed : int, default 0
        Random seed.

    Returns
    -------
    ndarray of shape (pairs, classes)
        1 for "present" and 0 for "absent".

    Examples
    --------
    >>> from palda import simulate
    >>> annotators = simulate.annotators([0.9, 0.6], n_classes=3, seed=0)
    >>> labels = [[1, 0, 0], [0, 1, 1]]
    >>> together = simulate.judgements(labels, annotators, [0, 1, 1], [1, 0, 1], seed=0)
    >>> alone = simulate.judgements(labels, annotators, [1], [1], seed=0)
    >>> together.shape, bool((together[2] == alone[0]).all())
    ((3, 3), True)
    """
    truth = true_labels(labels)
    if truth.shape[1] != annotators.n_classes:
        raise DataError(f"the annotators judge {annotators.n_classes} classes, but the labels have {truth.shape[1]}")
    validation.require_count(seed, "seed", minimum=0)
    docs, who = (np.asarray(column, dtype=np.int64) for column in (doc, annotator))
    uniform = np.empty((len(docs), truth.shape[1]))
    for row, (d, j) in enumerate(zip(docs.tolist(), who.tolist(), strict=True)):
        uniform[row] = np.random.default_rng([seed, *_PURPOSE, d, j]).random(truth.shape[1])
    present = truth[docs]
    answers = np.where(present, uniform < annotators.sensitivity[who], uniform >= annotators.specificity[who])
    return answers.astype(np.int8)
