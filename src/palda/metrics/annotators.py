"""Measures of annotators: how well their quality was estimated, and who agrees with whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.errors import DataError
from palda.metrics.tables import number_list, ratio, truth_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.metrics.tables import Floats

__all__ = ["AnnotatorPairs", "annotator_pairs", "annotator_rmse", "oracle_quality", "oracle_rmse"]


def annotator_rmse(estimated: Any, true: Any, votes: Votes | None = None) -> float:
    """Root mean squared error of the annotators' qualities: the paper's Ann RMSE.

    Annotators whose estimate or true quality is NaN are left out, and with ``votes`` also those who gave none: nothing
    can be learnt about them. Compare with ``oracle_rmse``, the floor of this measure. NaN when nobody is left.
    """
    guess, fact = (_qualities(values, name) for values, name in ((estimated, "estimated"), (true, "true")))
    if len(guess) != len(fact):
        raise DataError(f"{len(guess)} estimated qualities were given for {len(fact)} true ones")
    errors = guess - fact
    if votes is not None:
        if votes.n_annotators != len(fact):
            raise DataError(f"{len(fact)} qualities were given for votes of {votes.n_annotators} annotators")
        errors = errors[votes.per_annotator() > 0]
    errors = errors[~np.isnan(errors)]
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else float("nan")


def oracle_quality(votes: Votes, truth: Any, given: int | None = None) -> Floats:
    """Share of each annotator's votes that equal the truth, where the truth is known.

    With ``given=1`` only votes on present classes count, which is the empirical sensitivity; with ``given=0`` it is
    the specificity. NaN for an annotator with no such vote.
    """
    if given not in (None, 0, 1):
        raise DataError(f"given is {given!r}; choose 1 (sensitivity), 0 (specificity) or None (all votes)")
    table = truth_table(truth, "truth", (votes.n_docs, votes.n_classes))
    facts = table[votes.doc, votes.label]
    counted = facts >= 0 if given is None else facts == given
    right = counted & (facts == votes.value)
    n_counted, n_right = (
        np.bincount(votes.annotator[which], minlength=votes.n_annotators) for which in (counted, right)
    )
    return ratio(n_right, n_counted)


def oracle_rmse(votes: Votes, truth: Any, true_quality: Any) -> float:
    """Annotator RMSE of somebody who knows the true labels and counts: the floor of ``annotator_rmse``.

    Votes are a sample, so even the share of right votes misses the quality that drew them. The floor is not a strict
    bound: where annotators have few votes, an estimate that leans on a good prior can score somewhat lower.
    """
    return annotator_rmse(oracle_quality(votes, truth), true_quality)


@dataclass(frozen=True, eq=False)
class AnnotatorPairs:
    """Pairs of annotators who judged the same (document, class) cells, with ``first < second``.

    ``agreement`` is the share of the ``n_shared`` cells where both gave the same vote; ``kappa`` is Cohen's, which
    takes off what their rates of "present" make them agree on by chance (NaN when both always gave the same one vote).
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
        """Values of the pairs as a symmetric matrix; NaN on the diagonal and for those who shared no cell."""
        table = np.full((self.n_annotators, self.n_annotators), np.nan)
        table[self.first, self.second] = table[self.second, self.first] = values
        return table


def annotator_pairs(votes: Votes) -> AnnotatorPairs:
    """Who agrees with whom: one record for every two annotators who both judged at least one cell.

    The work grows with the pairs of votes on the same cell, the memory with the pairs of annotators that are found.
    """
    columns = zip(*_pair_blocks(votes), strict=True)
    first, second, n_shared, agreement, kappa = (np.concatenate(blocks) for blocks in columns)
    return AnnotatorPairs(first, second, n_shared, agreement, kappa, votes.n_annotators)


_BLOCK_PAIRS = 1 << 21
"""Size of the dense piece of the annotator-by-annotator matrix that is held at a time."""

_FULL = 0.2
"""Share of filled cells from which a dense matrix product beats a sparse one."""


def _pair_blocks(votes: Votes) -> Iterator[tuple[NDArray[Any], ...]]:
    """First five fields of ``AnnotatorPairs``, for some first annotators at a time."""
    judged, yes = _cells_by_annotator(votes)
    height = max(1, _BLOCK_PAIRS // max(votes.n_annotators, 1))
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
    """Return left @ right.T as a dense array of whole numbers."""
    product = left @ right.T
    return np.asarray(product.toarray() if hasattr(product, "toarray") else product)


def _cells_by_annotator(votes: Votes) -> tuple[Any, Any]:
    """(annotators, cells) matrices with a 1 for each vote, and for each "present", on the cells with several votes."""
    cell = votes.doc.astype(np.int64) * votes.n_classes + votes.label
    _, cell, n_votes = np.unique(cell, return_inverse=True, return_counts=True)
    several = n_votes[cell] > 1
    shape = (votes.n_annotators, len(n_votes))
    is_full = np.count_nonzero(several) > _FULL * shape[0] * shape[1]

    def marks(which: NDArray[np.bool_]) -> Any:
        ones = np.ones(np.count_nonzero(which))
        matrix = sparse.csr_array((ones, (votes.annotator[which], cell[which])), shape=shape)
        return matrix.toarray() if is_full else matrix

    return marks(several), marks(several & (votes.value == 1))


def _qualities(values: Any, name: str) -> Floats:
    array = number_list(values, f"{name} qualities")
    if array.ndim != 1:
        raise DataError(f"{name} qualities need one number an annotator, not an array of shape {array.shape}")
    outside = (array < 0) | (array > 1)
    if outside.any():
        who = int(np.argmax(outside))
        raise DataError(f"{name} quality of annotator {who} is {array[who]:g}; a quality lies between 0 and 1")
    return array
