"""The data of a cell: training and test documents, and the votes of a simulated crowd."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda import simulate
from palda.data import Dataset, Values, ValueWords
from palda.errors import PaldaError
from palda.io import catalog
from palda.paper.baselines import aggregate_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.paper.baselines.aggregation import AggregatedLabels
    from palda.paper.cells import Cell

FeatureKind: TypeAlias = Literal["words", "pooled", "values"]


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test documents; with a crowd, also its votes and the annotators' true qualities."""

    train: Dataset
    test: Dataset
    seed: int = 0
    votes: Votes | None = None
    true_quality: NDArray[np.float64] | None = None

    def features(self, kind: FeatureKind) -> tuple[Any, Any]:
        """Features of the training and the test documents.

        Word counts are returned as they are. Real values stay as they are for ``"values"``, become one word per feature
        and bin for ``"words"``, and words of the pooled values of all features, as in the paper, for ``"pooled"``. Bins
        are learned from the training documents alone.
        """
        if kind == "values" or not isinstance(self.train.corpus, Values):
            return self.train.X, self.test.X
        scope: Literal["feature", "pooled"] = "pooled" if kind == "pooled" else "feature"
        words = ValueWords(scope=scope, random_state=self.seed).fit(self.train.X)
        return words.transform(self.train.X), words.transform(self.test.X)

    def values(self) -> tuple[Any, Any]:
        """Real values of the training and the test documents, as features beside their words; None for word counts."""
        return (self.train.X, self.test.X) if isinstance(self.train.corpus, Values) else (None, None)


def load_task(cell: Cell) -> Task:
    """Documents and crowd of a cell, drawn by its seed.

    Smaller subsets of the training documents are contained in larger ones, with the same annotators and votes.
    """
    return _task(cell.data, cell.seed, cell.fraction, cell.crowd, cell.votes_per_doc)


@lru_cache(maxsize=2)
def _task(data: str, seed: int, fraction: float, crowd: str, votes_per_doc: int) -> Task:
    """Cached, since consecutive cells use the same documents; ``task_labels`` relies on getting the same object."""
    split = _split(data, seed if data == "reuters" else 0)  # the others have one fixed split
    rows = sample_rows(len(split.train), fraction, seed)
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


@lru_cache(maxsize=4)
def task_labels(task: Task, rule: Literal["majority", "dawid_skene"]) -> tuple[AggregatedLabels, float]:
    """Labels aggregated from a task's votes, and the seconds it took; computed once for all methods."""
    if task.votes is None:
        raise PaldaError("the task has no votes to aggregate")
    start = time.perf_counter()
    labels = aggregate_labels(task.votes, rule)
    return labels, time.perf_counter() - start


def sample_rows(n_docs: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """Sorted positions of a random fraction of the documents, at least one."""
    order = np.random.default_rng([seed, n_docs]).permutation(n_docs)
    return np.sort(order[: max(1, round(fraction * n_docs))])


@lru_cache(maxsize=2)
def _split(name: str, seed: int) -> catalog.Split:
    """Cached, since reading takes longer than fitting some methods."""
    return catalog.load(name, seed=seed)
