"""Choice of the penalties of each class by the likelihood of out-of-fold predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from palda.data import ArraySpec
from palda.engine import StageRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Stage
    from palda.models.classifier.training_set import TrainingSet

    Indices: TypeAlias = NDArray[np.int64]

_INFINITE_PENALTY = 1e9  # leaves nothing of a coefficient
_SEARCH_ORDER = {3: (0, 1, 2), 5: (4, 3, 0, 1, 2)}
"""Order in which kinds of features get their penalties, by the number of kinds. With a feature table, its kernel
features come first, then its columns: out-of-fold log-likelihoods of the true training labels with words (bins of the
values) first, columns first and kernel first were yeast -.4323 -.4303 -.4286 and scene -.1715 -.1692 -.1679."""

SEARCH_ARRAYS = {
    "coef": ArraySpec(("coefficients", "folds", "classes")),
    "penalties": ArraySpec(("kinds of features", "classes"), low=0.0),
    "best": ArraySpec(("classes",), infinite=True),
}
"""Schema of a ``PenaltySearch`` in a checkpoint."""


_COLUMNS, _KERNEL = 3, 4  # positions of columns of a feature table and of their kernel features


def _step(sizes: tuple[int, ...], row: int) -> int:
    """Step through the penalties of a kind: 2 for columns without kernel features, of which there are many rows.

    There products with the columns are most of the work. On yeast and scene, out of fold, the log-likelihood was the
    same with half of the penalties (-.4289 and -.4288, -.1700 both times).
    """
    return 2 if row == _COLUMNS and not sizes[_KERNEL] else 1


@dataclass(eq=False)
class PenaltySearch:
    """State of the choice of penalties, for one kind of feature after the other."""

    coef: Array  # (features + 1, folds, classes): the best models so far
    penalties: Array  # (kinds of features, classes): in the order of ``Features.sizes``
    best: Array  # (classes,): out-of-fold log-likelihoods of the best models
    last: int = -1  # position in the order of the search of the kind whose penalties were chosen last

    @classmethod
    def start(cls, data: TrainingSet, sizes: tuple[int, ...]) -> Self:
        """Base rates only: all penalties are infinite. ``sizes`` are those of all features; ``data`` may have fewer."""
        n_classes = data.targets.shape[1]
        models = data.base_rate_models()
        coef = np.concatenate((np.zeros((sum(sizes) + 1 - len(models), *models.shape[1:])), models))
        return cls(coef, np.full((len(sizes), n_classes), _INFINITE_PENALTY), np.full(n_classes, -np.inf))

    @property
    def needs_columns(self) -> bool:
        """Whether penalties of kernel features or columns of a feature table are to be chosen."""
        order = _SEARCH_ORDER[len(self.penalties)]
        return any(row in (_COLUMNS, _KERNEL) for row in order[self.last + 1 :])

    def record(self) -> StageRecord:
        """The state as a record of a checkpoint."""
        arrays = {"coef": self.coef, "penalties": self.penalties, "best": self.best}
        return StageRecord(arrays, {"path": {"row": self.last}})

    @classmethod
    def from_record(cls, record: StageRecord) -> Self:
        """The state that ``record`` was made from."""
        return cls(**record.arrays, last=record.part("path").integer("row", 0, len(record.arrays["penalties"]) - 1))

    def run(self, data: TrainingSet, stage: Stage) -> None:
        """Choose the penalties that are left, of the kinds of features that ``data`` has.

        Columns of a feature table come first and are the last features, so that data of them alone are enough.
        """
        grids = data.settings.penalty_grids
        for position, row in enumerate(_SEARCH_ORDER[len(data.sizes)]):
            if data.sizes[row] and position > self.last:
                self._choose(data, row, grids[row][:: _step(data.sizes, row)])
                self.last = position
                stage.keep_now(self.record)

    def _choose(self, data: TrainingSet, row: int, grid: Sequence[float]) -> None:
        """Choose the penalties of one kind of feature: per class, from strong to weak until one is worse."""
        self.penalties[row] = np.median(grid)  # for classes that only a later fit may learn
        self.penalties[row, data.learned] = _INFINITE_PENALTY
        classes, history, limits = data.learned, data.new_history(), data.settings.search_limits
        own = self.coef[len(self.coef) - sum(data.sizes) - 1 :]  # of the features that data has
        coef, platt = own[:, :, classes], None
        for value in grid:
            penalties = self.penalties[:, classes]
            penalties[row] = value
            coef = data.fit_folds(coef, penalties, classes, limits, history)
            likelihoods, platt = data.out_of_fold_likelihoods(coef, classes, platt)
            better = likelihoods > self.best[classes]
            if not better.any():
                return
            classes, coef, platt = classes[better], coef[:, :, better], platt.take(better)
            self.best[classes], self.penalties[row, classes] = likelihoods[better], value
            own[:, :, classes] = coef
