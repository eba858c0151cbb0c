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

SEARCH_ARRAYS = {
    "coef": ArraySpec(("coefficients", "folds", "classes")),
    "penalties": ArraySpec((3, "classes"), low=0.0),
    "best": ArraySpec(("classes",), infinite=True),
}
"""Schema of a ``PenaltySearch`` in a checkpoint."""


@dataclass(eq=False)
class PenaltySearch:
    """State of the choice of penalties, for one kind of feature after the other."""

    coef: Array  # (features + 1, folds, classes): the best models so far
    penalties: Array  # (3, classes): of words, dense columns and Fourier features
    best: Array  # (classes,): out-of-fold log-likelihoods of the best models
    row: int = -1  # kind of feature whose penalties were chosen last

    @classmethod
    def start(cls, data: TrainingSet) -> Self:
        """Base rates only: all penalties are infinite."""
        n_classes = data.targets.shape[1]
        penalties = np.full((len(data.sizes), n_classes), _INFINITE_PENALTY)
        return cls(data.base_rate_models(), penalties, np.full(n_classes, -np.inf))

    def record(self) -> StageRecord:
        """The state as a record of a checkpoint."""
        arrays = {"coef": self.coef, "penalties": self.penalties, "best": self.best}
        return StageRecord(arrays, {"path": {"row": self.row}})

    @classmethod
    def from_record(cls, record: StageRecord) -> Self:
        """The state that ``record`` was made from."""
        return cls(**record.arrays, row=record.part("path").integer("row", 0, 2))

    def run(self, data: TrainingSet, stage: Stage) -> None:
        """Choose the penalties that are left."""
        settings = data.settings
        grids = (settings.word_penalties, settings.dense_penalties, settings.fourier_penalties)
        for row, (n_features, grid) in enumerate(zip(data.sizes, grids, strict=True)):
            if n_features and row > self.row:
                self._choose(data, row, grid)
                self.row = row
                stage.keep_now(self.record)

    def _choose(self, data: TrainingSet, row: int, grid: Sequence[float]) -> None:
        """Choose the penalties of one kind of feature: per class, from strong to weak until one is worse."""
        self.penalties[row] = np.median(grid)  # for classes that only a later fit may learn
        self.penalties[row, data.learned] = _INFINITE_PENALTY
        classes, history, limits = data.learned, data.new_history(), data.settings.search_limits
        coef, platt = self.coef[:, :, classes], None
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
            self.coef[:, :, classes] = coef
