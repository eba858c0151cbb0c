"""What a cell works on: training and test documents, and the votes of a simulated crowd."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from palda import simulate
from palda.data import Dataset, Values, ValueWords
from palda.errors import PaldaError
from palda.io import catalog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.paper.cells import Cell

__all__ = ["Aggregated", "Features", "Task", "aggregated", "load_task", "part_of"]

Features: TypeAlias = Literal["words", "pooled", "values"]

_HALF = 0.5


@dataclass(frozen=True, eq=False)
class Task:
    """Documents to learn from and to be judged on; with a crowd, its votes and the qualities that drew them."""

    train: Dataset
    test: Dataset
    seed: int = 0
    votes: Votes | None = None
    true_quality: NDArray[np.float64] | None = None

    def features(self, kind: Features) -> tuple[Any, Any]:
        """Training and test documents as a method wants them.

        Counts are what they are. Real values stay as they are for ``"values"``, become words of feature and bin for
        ``"words"``, and words of all features' values together, as in the paper, for ``"pooled"``; words are learned
        from the training documents alone.
        """
        if kind == "values" or not isinstance(self.train.corpus, Values):
            return self.train.X, self.test.X
        scope: Literal["feature", "pooled"] = "pooled" if kind == "pooled" else "feature"
        words = ValueWords(scope=scope, random_state=self.seed).fit(self.train.X)
        return words.transform(self.train.X), words.transform(self.test.X)


def load_task(cell: Cell) -> Task:
    """Documents and crowd of a cell, drawn by its seed.

    Smaller parts of the training documents are parts of the larger ones, with the same annotators and votes.
    """
    return _task(cell.data, cell.seed, cell.fraction, cell.crowd, cell.votes_per_doc)


@lru_cache(maxsize=2)
def _task(data: str, seed: int, fraction: float, crowd: str, votes_per_doc: int) -> Task:
    """Kept while cells on the same documents follow each other, and what is made of its votes with it."""
    split = _split(data, seed if data == "reuters" else 0)  # the others have one fixed split
    rows = part_of(len(split.train), fraction, seed)
    train = split.train.take(rows)
    if not crowd:
        return Task(train, split.test, seed)
    votes, annotators = simulate.crowd(
        split.train.Y,
        crowd,
        votes_per_doc=votes_per_doc,
        seed=seed,
        doc_ids=split.train.doc_ids,
        classes=split.train.classes,
    )
    return Task(train, split.test, seed, votes.take(rows), annotators.quality)


class Aggregated(NamedTuple):
    """Labels that votes were made into, a best guess at the truth behind them, and the seconds it took."""

    labels: NDArray[np.int8]
    targets: NDArray[np.float64]
    seconds: float


@lru_cache(maxsize=4)
def aggregated(task: Task, rule: Literal["majority", "dawid_skene"]) -> Aggregated:
    """Votes of a task as labels, as ``OnLabels`` makes them; once for all methods that learn from them."""
    from palda.paper.baselines.on_labels import dawid_skene, vote_shares

    if task.votes is None:
        raise PaldaError("there are no votes to aggregate")
    start = time.perf_counter()
    shares = vote_shares(task.votes) if rule == "majority" else dawid_skene(task.votes)
    labels = (shares > _HALF).astype(np.int8)  # a tie is an absence
    targets = labels.astype(np.float64) if rule == "majority" else shares
    return Aggregated(labels, targets, time.perf_counter() - start)


def part_of(n_docs: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """Positions of a random part of the documents, in their order."""
    order = np.random.default_rng([seed, n_docs]).permutation(n_docs)
    return np.sort(order[: max(1, round(fraction * n_docs))])


@lru_cache(maxsize=2)
def _split(name: str, seed: int) -> catalog.Split:
    """Reading takes longer than some methods; cells come in an order in which the last splits are asked for again."""
    return catalog.load(name, seed=seed)
