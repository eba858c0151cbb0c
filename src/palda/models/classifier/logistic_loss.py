"""Ridge-penalised logistic loss of many columns of coefficients at once, and its minimum.

A *problem* is one class on all documents, or on all documents but one fold. Each problem is a column of one coefficient
matrix, so that one pass over a block's words serves all classes and folds. Loss and gradient are sums over blocks of
documents, added in the order of the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from palda.engine import Threads
from palda.kernels import SoftLabels, active
from palda.models.classifier.lbfgs import StepHistory, minimise, row_dots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Engine
    from palda.models.classifier.features import Block, StoredBlock
    from palda.models.classifier.folds import Problems
    from palda.models.classifier.lbfgs import LbfgsLimits

    Indices: TypeAlias = NDArray[np.int64]
    Blocks: TypeAlias = Sequence[Block | StoredBlock]

_COEF_PER_GROUP = 1 << 18  # coefficients that are optimised together, each group in a thread of its own
_VECTOR = 8  # single-precision numbers that AVX2 handles at a time
_MAX_SQUARED_COLUMNS, _SQUARED_ROWS = 256, 512  # columns of a wide table, and rows of it that are squared at a time
_MIN_CURVATURE = 1e-6  # intercepts have no penalty, and the loss of a certain class has no curvature


class Coefficients(NamedTuple):
    """Coefficients (features + 1, problems) and their problems."""

    coef: Array
    problems: Problems

    def without(self, fold: int, dtype: Any) -> tuple[slice, NDArray[Any], Indices]:
        """Columns whose problem leaves a fold out, which are neighbours; coefficients and classes of the others.

        Columns of zeros are appended, because compiled loops are fastest over whole vectors.
        """
        left_out = np.flatnonzero(self.problems.left_out == fold)
        gap = slice(left_out[0], left_out[-1] + 1) if len(left_out) else slice(0, 0)
        n_columns = self.coef.shape[1] - len(left_out)
        coef = np.zeros((len(self.coef), -(-n_columns // _VECTOR) * _VECTOR), dtype)
        classes = np.zeros(coef.shape[1], dtype=np.int64)
        for padded, own in ((coef, self.coef), (classes, self.problems.classes)):
            padded[..., : gap.start] = own[..., : gap.start]
            padded[..., gap.start : n_columns] = own[..., gap.stop :]
        return gap, coef, classes


def fit_columns(
    blocks: Blocks,
    problems: Problems,
    penalties: Array,
    start: Array,
    engine: Engine,
    limits: LbfgsLimits,
    centre: Array | None = None,
    history: StepHistory | None = None,
    places: Indices | None = None,
) -> Array:
    """Coefficients (features + 1, problems) that minimise weighted cross-entropy + ½ Σ penalty · coefficient².

    Each coefficient has its own penalty; that of the last row, the intercepts, should be 0 (maths, eq. 48). With a
    ``centre``, the distance from it is penalised. ``history`` are the last steps of earlier fits to the same documents,
    in which these problems are at ``places``; the steps of this fit are added.
    """
    n_coef, n_problems = start.shape
    n_groups = max(1, -(-start.size // _COEF_PER_GROUP))
    cuts = [n_problems * k // n_groups for k in range(n_groups + 1)]

    def fit(columns: slice) -> Array:
        own_start, own_penalties = (np.ascontiguousarray(table[:, columns].T) for table in (start, penalties))
        own_centre = np.zeros_like(own_start) if centre is None else np.ascontiguousarray(centre[:, columns].T)
        group = _Group(blocks, problems.take(columns), own_penalties, own_centre, engine)
        if history is None or places is None:
            return group.fit(
                own_start, limits, StepHistory(len(own_start), n_coef, limits.dtype), np.arange(len(own_start))
            )
        return group.fit(own_start, limits, history, places[columns])

    fitted, groups = start.copy(), [slice(*edges) for edges in pairwise(cuts)]
    rows = engine.map(fit, groups) if isinstance(engine, Threads) else map(fit, groups)
    for columns, coef in zip(groups, rows, strict=True):
        fitted[:, columns] = coef.T
    return fitted


@dataclass(frozen=True, eq=False)
class _Group:
    """Problems that are optimised together; tables have a row per problem."""

    blocks: Blocks
    problems: Problems
    penalties: Array
    centre: Array
    engine: Engine

    def fit(self, start: Array, limits: LbfgsLimits, history: StepHistory, places: Indices) -> Array:
        curvature = self.penalties + self._total(_curvature, start, self.problems)[:, :-1]
        history.set_penalties(places, self.penalties)
        return minimise(self.objective, start, np.maximum(curvature, _MIN_CURVATURE), limits, history, places)

    def objective(self, coef: Array, rows: Indices) -> tuple[Array, Array]:
        """Losses and gradients of some of the problems."""
        distance = coef - self.centre[rows]
        ridge = self.penalties[rows] * distance
        sums = self._total(loss_and_gradient, coef, self.problems.take(rows))
        return 0.5 * row_dots(ridge, distance) + sums[:, -1], ridge + sums[:, :-1]

    def _total(self, function: Callable[[Any, Coefficients], Array], coef: Array, problems: Problems) -> Array:
        """Sum over blocks, with a row per problem."""
        by_column = self.engine.total(function, self.blocks, Coefficients(np.ascontiguousarray(coef.T), problems))
        return np.ascontiguousarray(by_column.T)


def loss_and_gradient(block: Block | StoredBlock, at: Coefficients) -> Array:
    """Gradient of a block's cross-entropy (features + 1, problems), and the cross-entropy itself in the last row."""
    return _pass(block.loaded(), at, curvature=False)


def _curvature(block: Block | StoredBlock, at: Coefficients) -> Array:
    """Diagonal of the Hessian of a block's cross-entropy (features + 1, problems), and a row of zeros."""
    return _pass(block.loaded(), at, curvature=True)


def _pass(block: Block, at: Coefficients, *, curvature: bool) -> Array:
    gap, coef, classes = at.without(block.fold, block.dtype)
    scores = block.dense_scores(coef)
    labels = SoftLabels(block.targets, np.empty((0, 0)) if block.weights is None else block.weights, classes)
    by_word, losses = active().logistic_pass(block.words, labels, coef[: block.n_words], scores, curvature)
    residuals, n_columns = scores, at.coef.shape[1] - (gap.stop - gap.start)
    by_column = (_squares_product(part, residuals) if curvature else part.T @ residuals for part in block.dense)
    sums, first = np.zeros((len(coef) + 1, at.coef.shape[1])), 0
    for table in (by_word, *by_column, residuals.sum(axis=0, keepdims=True), losses[None]):
        rows = sums[first : first + len(table)]
        rows[:, : gap.start], rows[:, gap.stop :] = table[:, : gap.start], table[:, gap.start : n_columns]
        first += len(table)
    return sums


def _squares_product(part: NDArray[Any], residuals: NDArray[Any]) -> NDArray[Any]:
    """Squares of a table, transposed, times residuals; those of a wide table are never in memory as a whole."""
    step = len(part) if part.shape[1] <= _MAX_SQUARED_COLUMNS else _SQUARED_ROWS
    starts = range(0, len(part), max(step, 1))
    total: NDArray[Any] = sum(np.square(part[i : i + step]).T @ residuals[i : i + step] for i in starts)
    return total


def scores_without_fold(block: Block | StoredBlock, coef: Array) -> Array:
    """Scores of a block by the model without its fold; ``coef`` is (features + 1, folds, classes)."""
    return block.loaded().scores(coef[:, block.fold])
