"""Test quality of the topic model with base rates as label prior, without a word-level classifier.

Reuters, gold labels, five seeds: targets micro-F1 of at least .86 and class log-likelihood of at least -.12. Then
every public data set, where it must have a better micro-F1 than the published model on the same counts and with as
many topics (one seed; on data sets with many classes the published model runs fewer iterations). Needs the public data
sets in $PALDA_DATA, and almost an hour: ``python -m benchmarks quality``.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import PALDA, ValueWords, metrics
from palda.data import Values
from palda.errors import PaldaError
from palda.io import catalog

if TYPE_CHECKING:
    from palda.data import Dataset

SEEDS = range(5)
F1_TARGET, LOG_LIKELIHOOD_TARGET = 0.86, -0.12
MANY_CLASSES, FEW_ITER = 100, 20


def words_of(train: Dataset, test: Dataset) -> tuple[Any, Any]:
    """Word counts of both parts; real values become one word per feature and bin."""
    if isinstance(train.corpus, Values):
        words = ValueWords()
        return words.fit_transform(train.X), words.transform(test.X)
    return train.X, test.X


def fitted(model: PALDA, words: Any, train: Dataset) -> tuple[PALDA, float]:
    start = time.perf_counter()
    model.fit(words, train.Y)
    return model, time.perf_counter() - start


def on_reuters() -> None:
    rows = []
    for seed in SEEDS:
        train, test = catalog.load("reuters", seed=seed)
        model, taken = fitted(PALDA(label_prior="base_rate", random_state=seed), train.X, train)
        likelihood = metrics.class_log_likelihood(test.Y, model.predict_proba(test.X))
        rows.append((model.score(test.X, test.Y), likelihood))
        print(
            f"reuters, seed {seed}: micro-F1 {rows[-1][0]:.4f}, log-likelihood {rows[-1][1]:.4f} "
            f"({len(model.topic_words_)} topics, {model.n_iter_} iterations, {taken:.0f} s)",
            flush=True,
        )
    f1, likelihood = np.mean(rows, axis=0)
    worst_f1, worst_likelihood = np.min(rows, axis=0)
    print(
        f"mean micro-F1 {f1:.4f}, lowest {worst_f1:.4f} (target {F1_TARGET}); "
        f"mean log-likelihood {likelihood:.4f}, lowest {worst_likelihood:.4f} (target {LOG_LIKELIHOOD_TARGET})"
    )


def compare_with_published(name: str) -> None:
    train, test = catalog.load(name)
    train_words, test_words = words_of(train, test)
    ours, taken = fitted(PALDA(label_prior="base_rate", random_state=0), train_words, train)
    many = train.Y.shape[1] >= MANY_CLASSES
    published = PALDA.as_published(len(ours.topic_words_), random_state=0)
    if many:
        published.set_params(max_iter=FEW_ITER)
    theirs, their_time = fitted(published, train_words, train)
    f1, their_f1 = ours.score(test_words, test.Y), theirs.score(test_words, test.Y)
    print(
        f"{name}, {len(ours.topic_words_)} topics: micro-F1 {f1:.4f} against {their_f1:.4f} as published"
        f"{f' (stopped after {FEW_ITER} iterations)' if many else ''}, {'better' if f1 > their_f1 else 'NOT BETTER'} "
        f"({taken:.0f} s against {their_time:.0f} s)",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        on_reuters()
    except PaldaError as missing:
        print(f"skipped: {missing}")
    for name in catalog.names():
        try:
            compare_with_published(name)
        except PaldaError as missing:
            print(f"skipped: {missing}")


if __name__ == "__main__":
    main()
