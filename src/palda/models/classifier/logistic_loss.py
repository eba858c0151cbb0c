"""Ridge-penalised logistic loss of many columns of coefficients at once, and its minimum.

A *problem* is one class on all documents, or on all documents but one fold. Each problem is a column of one coefficient
matrix, so that one pass over a block's words serves all classes and folds. Loss and gradient are sums over blocks of
documents, added in the order of the blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from palda.models.classifier.lbfgs import LbfgsLimits, column_dots, minimise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Engine
    from palda.models.classifier.features import Block, StoredBlock
    from palda.models.classifier.folds import Problems

    Indices: TypeAlias = NDArray[np.int64]
    Columns: TypeAlias = slice | NDArray[np.bool_]
    Blocks: TypeAlias = Sequence[Block | StoredBlock]

_COEF_PER_GROUP = 1 << 18  # coefficients that are optimised together: L-BFGS holds fifteen copies, best kept in cache
_MIN_CURVATURE = 1e-6  # intercepts have no penalty, and the loss of a certain class has no curvature


class Coefficients(NamedTuple):
    """Coefficients (features + 1, problems) and their problems."""

    coef: Array
    problems: Problems

    def columns_with(self, block: Block | StoredBlock) -> Columns:
        """Columns whose problem includes the block's documents; a slice, which copies nothing, if all do."""
        included = self.problems.left_out != block.fold
        return slice(None) if included.all() else included


def fit_columns(
    blocks: Blocks,
    problems: Problems,
    penalties: Array,
    start: Array,
    engine: Engine,
    limits: LbfgsLimits,
    centre: Array | None = None,
) -> Array:
    """Coefficients (features + 1, problems) that minimise weighted cross-entropy + ½ Σ penalty · coefficient².

    Each coefficient has its own penalty; that of the last row, the intercepts, should be 0 (maths, eq. 48). With a
    ``centre``, the distance from it is penalised.
    """
    centre = np.zeros_like(start) if centre is None else centre
    width = max(1, _COEF_PER_GROUP // len(start))
    groups = [np.arange(first, min(first + width, start.shape[1])) for first in range(0, start.shape[1], width)]
    fitted = [
        _fit_group(blocks, problems.take(g), penalties[:, g], start[:, g], centre[:, g], engine, limits) for g in groups
    ]
    return np.concatenate(fitted, axis=1) if fitted else start.copy()


def _fit_group(
    blocks: Blocks,
    problems: Problems,
    penalties: Array,
    start: Array,
    centre: Array,
    engine: Engine,
    limits: LbfgsLimits,
) -> Array:
    def objective(coef: Array, columns: Indices) -> tuple[Array, Array]:
        distance = coef - centre[:, columns]
        ridge = penalties[:, columns] * distance
        sums = engine.total(loss_and_gradient, blocks, Coefficients(coef, problems.take(columns)))
        return 0.5 * column_dots(ridge, distance) + sums[-1], ridge + sums[:-1]

    curvature = penalties + engine.total(_curvature, blocks, Coefficients(start, problems))
    return minimise(objective, start, np.maximum(curvature, _MIN_CURVATURE), limits)


def loss_and_gradient(block: Block | StoredBlock, at: Coefficients) -> Array:
    """Gradient of a block's cross-entropy (features + 1, problems), and the cross-entropy itself in the last row."""
    block, columns = block.loaded(), at.columns_with(block)
    coef, classes = at.coef[:, columns], at.problems.classes[columns]
    targets = block.targets[:, classes]
    scores = block.scores(coef)
    larger_prob = 1.0 / (1.0 + np.exp(-np.abs(scores)))  # σ(|s|)
    losses = np.maximum(scores, 0.0) - np.log(larger_prob) - targets * scores
    residuals = np.where(scores >= 0.0, larger_prob, 1.0 - larger_prob) - targets
    if block.weights is not None:
        weights = block.weights[:, classes]
        losses, residuals = weights * losses, weights * residuals
    sums = np.concatenate((block.weighted_features(residuals), losses.sum(axis=0, keepdims=True)))
    return _all_columns(sums, columns, len(at.problems.classes))


def _curvature(block: Block | StoredBlock, at: Coefficients) -> Array:
    """Diagonal of the Hessian of a block's cross-entropy (features + 1, problems)."""
    block, columns = block.loaded(), at.columns_with(block)
    odds = np.exp(-np.abs(block.scores(at.coef[:, columns])))
    variances = odds / np.square(1.0 + odds)  # p (1 - p)
    if block.weights is not None:
        variances *= block.weights[:, at.problems.classes[columns]]
    return _all_columns(block.weighted_features(variances, power=2), columns, len(at.problems.classes))


def _all_columns(table: Array, columns: Columns, n_columns: int) -> Array:
    """The table with zeros in the columns whose problem does not include the block."""
    if isinstance(columns, slice):
        return table
    result = np.zeros((len(table), n_columns))
    result[:, columns] = table
    return result


def scores_without_fold(block: Block | StoredBlock, coef: Array) -> Array:
    """Scores of a block by the model without its fold; ``coef`` is (features + 1, folds, classes)."""
    return block.loaded().scores(coef[:, block.fold])
