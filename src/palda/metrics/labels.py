"""Measures of predicted labels against the truth.

All measures follow from a few counts. Computing them from counts is several times faster than scikit-learn's functions,
which also cannot leave out single cells; tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.metrics.inputs import mean_of_known, prediction_table, ratio, truth_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.inputs import Floats, Labels


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Number of documents per class that are known, present, predicted, and both present and predicted."""

    known: NDArray[np.int64]
    present: NDArray[np.int64]
    predicted: NDArray[np.int64]
    hits: NDArray[np.int64]

    @classmethod
    def of(cls, truth: Labels, predicted: Labels) -> LabelCounts:
        """Counts over the cells with known truth, for checked tables."""
        known, present, flagged = _masks(truth, predicted)
        return cls(*(np.count_nonzero(cells, axis=0) for cells in (known, present, flagged, present & flagged)))

    @property
    def right(self) -> NDArray[np.int64]:
        """Number of cells per class where the prediction equals the truth."""
        return self.known - self.present - self.predicted + 2 * self.hits

    def f1(self, zero_division: float = 0.0) -> Floats:
        """F1 of each class; NaN for a class whose truth is never known."""
        values = ratio(2 * self.hits, self.present + self.predicted, zero_division)
        return np.where(self.known > 0, values, np.nan)

    def pooled(self) -> LabelCounts:
        """Counts of all classes together, as one class."""
        return LabelCounts(*(np.array([counts.sum()]) for counts in vars(self).values()))

    def hamming_accuracy(self) -> float:
        """Share of known cells that are predicted correctly."""
        pooled = self.pooled()
        return float(ratio(pooled.right, pooled.known)[0])

    def micro_f1(self, zero_division: float = 0.0) -> float:
        """F1 of all classes pooled."""
        return float(self.pooled().f1(zero_division)[0])

    def macro_f1(self, zero_division: float = 0.0) -> float:
        """Mean F1 of the classes."""
        return mean_of_known(self.f1(zero_division))


def hamming_accuracy(Y_true: Any, predictions: Any) -> float:
    """Share of known cells (document, class) that are predicted correctly: 1 - Hamming loss.

    Where labels are rare, predicting none at all scores high; compare with :func:`baseline_scores`.

    Parameters
    ----------
    Y_true : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.
    predictions : array of shape (documents, classes)
        Predicted labels, 0 or 1.

    Returns
    -------
    float
        Accuracy between 0 and 1; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.hamming_accuracy([[1, 0], [0, -1]], [[1, 1], [0, 1]])
    0.6666666666666666
    """
    return LabelCounts.of(*_tables(Y_true, predictions)).hamming_accuracy()


def micro_f1(Y_true: Any, predictions: Any, zero_division: float = 0.0) -> float:
    """F1 of all known cells pooled.

    Parameters
    ----------
    Y_true, predictions : array of shape (documents, classes)
        As in :func:`hamming_accuracy`.
    zero_division : float, default 0
        Value if no label is present or predicted.

    Returns
    -------
    float
        F1 between 0 and 1; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.micro_f1([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.8
    """
    return LabelCounts.of(*_tables(Y_true, predictions)).micro_f1(zero_division)


def macro_f1(Y_true: Any, predictions: Any, zero_division: float = 0.0) -> float:
    """Mean over classes of the F1 of each class; a class whose truth is never known is left out.

    Parameters
    ----------
    Y_true, predictions : array of shape (documents, classes)
        As in :func:`hamming_accuracy`.
    zero_division : float, default 0
        F1 of a class that is neither present nor predicted. 0, as in scikit-learn, penalises classes that do not occur
        in the test documents; ``np.nan`` leaves them out of the mean.

    Returns
    -------
    float
        F1 between 0 and 1; NaN if no class is left.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.macro_f1([[1, 0], [1, 0]], [[1, 0], [1, 1]])
    0.5
    """
    return LabelCounts.of(*_tables(Y_true, predictions)).macro_f1(zero_division)


def jaccard_accuracy(Y_true: Any, predictions: Any) -> float:
    """Mean over documents of ``|true and predicted| / |true or predicted|``, which MEKA calls accuracy.

    A document where both sets are empty counts as 1, as in MEKA (scikit-learn: ``jaccard_score(average="samples",
    zero_division=1)``). Only known cells are used; a document with no known cell is left out.

    Parameters
    ----------
    Y_true, predictions : array of shape (documents, classes)
        As in :func:`hamming_accuracy`.

    Returns
    -------
    float
        Accuracy between 0 and 1; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.jaccard_accuracy([[1, 1], [0, 0]], [[1, 0], [0, 0]])
    0.75
    """
    return jaccard_of(*_tables(Y_true, predictions))


def subset_accuracy(Y_true: Any, predictions: Any) -> float:
    """Share of documents whose known cells are all predicted correctly; documents without known cells are left out.

    Parameters
    ----------
    Y_true, predictions : array of shape (documents, classes)
        As in :func:`hamming_accuracy`.

    Returns
    -------
    float
        Accuracy between 0 and 1; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.subset_accuracy([[1, 1], [0, 0]], [[1, 0], [0, 0]])
    0.5
    """
    return subset_of(*_tables(Y_true, predictions))


def jaccard_of(truth: Labels, predicted: Labels) -> float:
    """Jaccard accuracy of checked tables."""
    known, present, flagged = _masks(truth, predicted)
    shared = np.count_nonzero(present & flagged, axis=1)
    either = np.count_nonzero(present | flagged, axis=1)
    return mean_of_known(ratio(shared, either, empty=1.0)[known.any(axis=1)])


def subset_of(truth: Labels, predicted: Labels) -> float:
    """Subset accuracy of checked tables."""
    known, present, flagged = _masks(truth, predicted)
    return mean_of_known((present == flagged).all(axis=1)[known.any(axis=1)].astype(np.float64))


def _tables(Y_true: Any, predictions: Any) -> tuple[Labels, Labels]:
    truth = truth_table(Y_true)
    return truth, prediction_table(predictions, truth.shape)


def _masks(truth: Labels, predicted: Labels) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the cells that are known, known and present, and known and predicted."""
    known = truth >= 0
    return known, truth == 1, (predicted == 1) & known
