"""Measures of annotators: error of estimated qualities, and pairwise agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.data import validation
from palda.errors import DataError
from palda.metrics.inputs import ratio, truth_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.metrics.inputs import Floats


def annotator_rmse(estimated: Any, true: Any, votes: Votes | None = None) -> float:
    """Root mean squared error of estimated annotator qualities, the paper's Ann RMSE.

    Compare with :func:`oracle_rmse`, about the lowest value that an estimate can reach.

    Parameters
    ----------
    estimated, true : array of shape (annotators,)
        Qualities between 0 and 1; annotators with NaN in either are left out.
    votes : Votes, optional
        Leaves out annotators without votes.

    Returns
    -------
    float
        The error; NaN if no annotator is left.

    Examples
    --------
    >>> from palda import metrics
    >>> round(metrics.annotator_rmse([0.8, 0.6], [0.9, 0.6]), 4)
    0.0707
    """
    estimates, truths = (_qualities(values, name) for values, name in ((estimated, "estimated"), (true, "true")))
    if len(estimates) != len(truths):
        raise DataError(f"{len(estimates)} estimated qualities were given for {len(truths)} true ones")
    errors = estimates - truths
    if votes is not None:
        if votes.n_annotators != len(truths):
            raise DataError(f"{len(truths)} qualities were given for votes of {votes.n_annotators} annotators")
        errors = errors[votes.per_annotator() > 0]
    errors = errors[~np.isnan(errors)]
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else float("nan")


def oracle_quality(votes: Votes, truth: Any, given: int | None = None) -> Floats:
    """Share of each annotator's votes that equal the truth, where the truth is known.

    Parameters
    ----------
    votes : Votes
        The votes.
    truth : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.
    given : 0, 1 or None, default None
        1: votes on present classes only, the empirical sensitivity; 0: on absent classes, the specificity; None: all.

    Returns
    -------
    array of shape (annotators,)
        The shares; NaN for an annotator with no such vote.

    Examples
    --------
    >>> from palda import Votes, metrics
    >>> votes = Votes.from_array([[[1, 0], [1, 1]]])  # 1 document, 2 annotators, 2 classes
    >>> metrics.oracle_quality(votes, [[1, 0]])
    array([1. , 0.5])
    """
    if given not in (None, 0, 1):
        raise DataError(f"given is {given!r}; choose 1 (sensitivity), 0 (specificity) or None (all votes)")
    table = truth_table(truth, "truth", (votes.n_docs, votes.n_classes))
    true_values = table[votes.doc, votes.label]
    counted = true_values >= 0 if given is None else true_values == given
    right = counted & (true_values == votes.value)
    n_counted, n_right = (
        np.bincount(votes.annotator[which], minlength=votes.n_annotators) for which in (counted, right)
    )
    return ratio(n_right, n_counted)


def oracle_rmse(votes: Votes, truth: Any, true_quality: Any) -> float:
    """Annotator RMSE of :func:`oracle_quality`, the estimate that knows the true labels.

    It is above 0 because votes are a finite sample. It is not a strict lower bound: for annotators with few votes, an
    estimate with a good prior can have a slightly lower error.

    Parameters
    ----------
    votes : Votes
        The votes.
    truth : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.
    true_quality : array of shape (annotators,)
        True qualities.

    Returns
    -------
    float
        The error; NaN without votes.

    Examples
    --------
    >>> from palda import Votes, metrics
    >>> votes = Votes.from_array([[[1, 0], [1, 1]]])
    >>> round(metrics.oracle_rmse(votes, [[1, 0]], [0.9, 0.6]), 3)
    0.1
    """
    return annotator_rmse(oracle_quality(votes, truth), true_quality)


@dataclass(frozen=True, eq=False)
class AnnotatorPairs:
    """Pairs of annotators who judged the same (document, class) cells, with ``first < second``.

    Attributes
    ----------
    first, second : array of shape (pairs,)
        Positions of the annotators.
    n_shared : array of shape (pairs,)
        Number of cells that both judged.
    agreement : array of shape (pairs,)
        Share of these cells where both gave the same vote.
    kappa : array of shape (pairs,)
        Cohen's kappa, the agreement corrected for chance; NaN if all votes are equal.
    n_annotators : int
        Number of annotators.
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    n_shared: NDArray[np.int64]
    agreement: Floats
    kappa: Floats
    n_annotators: int

    def __len__(self) -> int:
        return len(self.first)

    def matrix(self, values: NDArray[Any]) -> Floats:
        """Values of the pairs as a symmetric matrix; NaN on the diagonal and for pairs without shared cells."""
        table = np.full((self.n_annotators, self.n_annotators), np.nan)
        table[self.first, self.second] = table[self.second, self.first] = values
        return table


def annotator_pairs(votes: Votes) -> AnnotatorPairs:
    """Agreement of every two annotators who both judged at least one cell.

    Time grows with the number of pairs of votes on the same cell, memory with the number of pairs of annotators.

    Parameters
    ----------
    votes : Votes
        The votes.

    Returns
    -------
    AnnotatorPairs
        The pairs, sorted.

    Examples
    --------
    >>> from palda import Votes, metrics
    >>> pairs = metrics.annotator_pairs(Votes.from_array([[[1, 0], [1, 1]]]))
    >>> pairs.n_shared, pairs.agreement
    (array([2]), array([0.5]))
    """
    columns = zip(*_pair_blocks(votes), strict=True)
    first, second, n_shared, agreement, kappa = (np.concatenate(blocks) for blocks in columns)
    return AnnotatorPairs(first, second, n_shared, agreement, kappa, votes.n_annotators)


_MAX_MATRIX_CELLS = 1 << 21
"""Number of cells of the (annotators, annotators) matrix that are held in memory at a time."""

_DENSE_SHARE = 0.2
"""Share of nonzero cells above which a dense matrix product is faster than a sparse one."""


def _pair_blocks(votes: Votes) -> Iterator[tuple[NDArray[Any], ...]]:
    """First five fields of ``AnnotatorPairs``, for a block of first annotators at a time."""
    judged, yes = _cells_by_annotator(votes)
    height = max(1, _MAX_MATRIX_CELLS // max(votes.n_annotators, 1))
    for start in range(0, max(votes.n_annotators, 1), height):
        rows = slice(start, start + height)
        n_shared = _product(judged[rows], judged)
        first, second = np.nonzero(np.triu(n_shared, k=start + 1))
        shared = n_shared[first, second]
        yes_first, yes_second, both_yes = (
            _product(left[rows], right)[first, second] for left, right in ((yes, judged), (judged, yes), (yes, yes))
        )
        agreement = (shared - yes_first - yes_second + 2 * both_yes) / shared
        chance = (yes_first * yes_second + (shared - yes_first) * (shared - yes_second)) / shared**2
        kappa = ratio(agreement - chance, 1 - chance)
        yield (first + start).astype(np.int32), second.astype(np.int32), shared.astype(np.int64), agreement, kappa


def _product(left: Any, right: Any) -> Floats:
    """``left @ right.T`` as a dense array."""
    product = left @ right.T
    return np.asarray(product.toarray() if hasattr(product, "toarray") else product)


def _cells_by_annotator(votes: Votes) -> tuple[Any, Any]:
    """Matrices (annotators, cells) with a 1 for each vote, and for each "present", on cells with several votes."""
    cell = votes.doc.astype(np.int64) * votes.n_classes + votes.label
    _, cell, n_votes = np.unique(cell, return_inverse=True, return_counts=True)
    repeated = n_votes[cell] > 1
    shape = (votes.n_annotators, len(n_votes))
    is_dense = np.count_nonzero(repeated) > _DENSE_SHARE * shape[0] * shape[1]

    def marks(which: NDArray[np.bool_]) -> Any:
        ones = np.ones(np.count_nonzero(which))
        matrix = sparse.csr_array((ones, (votes.annotator[which], cell[which])), shape=shape)
        return matrix.toarray() if is_dense else matrix

    return marks(repeated), marks(repeated & (votes.value == 1))


def _qualities(values: Any, name: str) -> Floats:
    array = validation.as_floats(values, f"{name} qualities")
    if array.ndim != 1:
        raise DataError(f"{name} qualities must have one number per annotator, not shape {array.shape}")
    outside = (array < 0) | (array > 1)
    if outside.any():
        position = int(np.argmax(outside))
        raise DataError(
            f"{name} quality of annotator {position} is {array[position]:g}; a quality lies between 0 and 1"
        )
    return array
