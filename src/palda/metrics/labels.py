"""Measures of predicted label sets against the truth.

Everything here follows from a few counts, so it is computed from them: several times faster than scikit-learn's
functions, which also cannot leave out single cells. The tests hold both to the same values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.metrics.tables import mean_of_known, prediction_table, ratio, truth_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.tables import Floats, Labels

__all__ = [
    "ClassCounts",
    "count_classes",
    "hamming_accuracy",
    "hamming_of",
    "jaccard_accuracy",
    "jaccard_of",
    "macro_f1",
    "macro_f1_of",
    "micro_f1",
    "micro_f1_of",
    "subset_accuracy",
    "subset_of",
]


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How often each class is known, present, predicted, and rightly predicted, over the cells with known truth."""

    known: NDArray[np.int64]
    present: NDArray[np.int64]
    predicted: NDArray[np.int64]
    hits: NDArray[np.int64]

    @property
    def right(self) -> NDArray[np.int64]:
        """Cells where the prediction equals the truth, absences included."""
        return self.known - self.present - self.predicted + 2 * self.hits

    def f1(self, zero_division: float = 0.0) -> Floats:
        """F1 of each class; NaN for a class whose truth is known nowhere."""
        values = ratio(2 * self.hits, self.present + self.predicted, zero_division)
        return np.where(self.known > 0, values, np.nan)

    def pooled(self) -> ClassCounts:
        """All classes taken together as one."""
        return ClassCounts(*(np.array([counts.sum()]) for counts in vars(self).values()))


def count_classes(truth: Labels, predicted: Labels) -> ClassCounts:
    """Counts for tables that have been checked."""
    known, present, said = _cells(truth, predicted)
    return ClassCounts(*(np.count_nonzero(cells, axis=0) for cells in (known, present, said, present & said)))


def hamming_accuracy(Y_true: Any, predictions: Any) -> float:
    """Share of known cells (document, class) that are predicted right: 1 - Hamming loss.

    Where labels are rare, predicting none at all scores high: read it next to ``baseline_scores``.
    """
    return hamming_of(_counts(Y_true, predictions))


def micro_f1(Y_true: Any, predictions: Any, zero_division: float = 0.0) -> float:
    """F1 of all known cells pooled; ``zero_division`` when no label is present nor predicted."""
    return micro_f1_of(_counts(Y_true, predictions), zero_division)


def macro_f1(Y_true: Any, predictions: Any, zero_division: float = 0.0) -> float:
    """Mean over classes of each class's F1.

    A class that is neither present nor predicted counts as ``zero_division``: 0 is scikit-learn's default and punishes
    classes that the test documents lack, ``np.nan`` leaves those classes out of the mean. A class whose truth
    is known nowhere is always left out.
    """
    return macro_f1_of(_counts(Y_true, predictions), zero_division)


def jaccard_accuracy(Y_true: Any, predictions: Any) -> float:
    """Mean over documents of ``|true and predicted| / |true or predicted|``: what MEKA calls accuracy.

    A document where both sets are empty counts as 1, as in MEKA (scikit-learn: ``jaccard_score(average="samples",
    zero_division=1)``). Only known cells enter the sets; a document with no known cell is left out.
    """
    return jaccard_of(*_tables(Y_true, predictions))


def subset_accuracy(Y_true: Any, predictions: Any) -> float:
    """Share of documents whose known cells are all predicted right; documents with no known cell are left out."""
    return subset_of(*_tables(Y_true, predictions))


def hamming_of(counts: ClassCounts) -> float:
    """Hamming accuracy from counts."""
    pooled = counts.pooled()
    return float(ratio(pooled.right, pooled.known)[0])


def micro_f1_of(counts: ClassCounts, zero_division: float = 0.0) -> float:
    """Micro-F1 from counts."""
    return float(counts.pooled().f1(zero_division)[0])


def macro_f1_of(counts: ClassCounts, zero_division: float = 0.0) -> float:
    """Macro-F1 from counts."""
    return mean_of_known(counts.f1(zero_division))


def jaccard_of(truth: Labels, predicted: Labels) -> float:
    """Jaccard accuracy of tables that have been checked."""
    known, present, said = _cells(truth, predicted)
    shared = np.count_nonzero(present & said, axis=1)
    either = np.count_nonzero(present | said, axis=1)
    return mean_of_known(ratio(shared, either, empty=1.0)[known.any(axis=1)])


def subset_of(truth: Labels, predicted: Labels) -> float:
    """Subset accuracy of tables that have been checked."""
    known, present, said = _cells(truth, predicted)
    return mean_of_known((present == said).all(axis=1)[known.any(axis=1)].astype(np.float64))


def _tables(Y_true: Any, predictions: Any) -> tuple[Labels, Labels]:
    truth = truth_table(Y_true)
    return truth, prediction_table(predictions, truth.shape)


def _counts(Y_true: Any, predictions: Any) -> ClassCounts:
    return count_classes(*_tables(Y_true, predictions))


def _cells(truth: Labels, predicted: Labels) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the cells that are known, truly present, and predicted; a cell that is not known is neither."""
    known = truth >= 0
    return known, truth == 1, (predicted == 1) & known
