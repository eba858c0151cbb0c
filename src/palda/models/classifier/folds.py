"""Folds of the documents, and validation of targets and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]

NO_FOLD = -1
"""The left-out fold of a problem on all documents."""


class Problems(NamedTuple):
    """Class and left-out fold of each column of coefficients."""

    classes: Indices
    left_out: Indices

    def take(self, columns: Indices | slice) -> Problems:
        """The problems of some columns."""
        return Problems(self.classes[columns], self.left_out[columns])


def assign_folds(targets: Array, n_folds: int, seed: int) -> Indices:
    """Fold of each document; each class is spread evenly over the folds.

    Documents are assigned to the folds in turn, those with the rarest class first, so that its few documents are in
    different folds. Documents with the same rarest class are in random order.
    """
    n_docs = len(targets)
    if not 2 <= n_folds <= n_docs:
        raise DataError(f"cannot split {n_docs} documents into {n_folds} folds; at least 2 of each are needed")
    labels = targets >= 0.5
    rarest_first = np.argsort(labels.sum(axis=0), kind="stable")
    has_any = labels.any(axis=1)
    rank = np.where(has_any, np.argmax(labels[:, rarest_first], axis=1), labels.shape[1])
    shuffled = np.random.default_rng(seed).permutation(n_docs)
    order = shuffled[np.argsort(rank[shuffled], kind="stable")]
    folds = np.empty(n_docs, dtype=np.int64)
    folds[order] = np.arange(n_docs) % n_folds
    return folds


def checked_targets(targets: Any, weights: Any) -> tuple[Array, Array | None]:
    """Soft targets (documents, classes) and their weights as float64; targets of weight 0 are set to 0."""
    table = np.asarray(targets, dtype=np.float64)
    if table.ndim != 2:
        raise DataError(f"targets must have shape (documents, classes), not {table.shape}")
    if weights is None:
        invalid = ~((table >= 0.0) & (table <= 1.0))
        known = None
    else:
        known = np.asarray(weights, dtype=np.float64)
        if known.shape != table.shape:
            raise DataError(f"weights have shape {known.shape}, targets have shape {table.shape}; they must be equal")
        if not (np.isfinite(known) & (known >= 0.0)).all():
            raise DataError("weights must be finite and not negative; use 0 for unknown labels")
        invalid = ~((table >= 0.0) & (table <= 1.0)) & (known > 0.0)
        table = np.where(known > 0.0, table, 0.0)
    if invalid.any():
        row, column = (int(index) for index in np.argwhere(invalid)[0])
        raise DataError(
            f"target {targets[row][column]} of document {row}, class {column} is not between 0 and 1; "
            "use weight 0 for unknown labels"
        )
    return table, known
