"""The classifier of soft labels against scikit-learn's logistic regression on bibtex: 159 classes in five folds.

Same tf-idf, folds and penalty, labels 1 and 0, one thread each, CPU seconds. scikit-learn stops at its default
tolerance; the losses show which is closer to the minimum. Needs the public data sets in $PALDA_DATA. Target: faster
than scikit-learn's faster solver.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from palda.engine import Threads
from palda.errors import PaldaError
from palda.io import catalog
from palda.models.classifier import (
    Features,
    LbfgsLimits,
    Problems,
    assign_folds,
    base_log_odds,
    cut_blocks,
    fit_classifier,
    fit_columns,
    inverse_document_frequencies,
    tf_idf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_FOLDS = 5
PENALTY = 1.0


def main() -> None:
    try:
        train = catalog.load("bibtex").train
    except PaldaError as missing:
        print(f"skipped: {missing}")
        return
    words = tf_idf(train.X, inverse_document_frequencies(train.X))
    labels = train.Y.astype(np.float64)
    folds = assign_folds(labels, N_FOLDS, seed=0)
    ours, our_coef = fit_together(words, labels, folds)
    our_loss = mean_loss(words, labels, folds, our_coef)
    print(f"palda: {ours:.2f} s, loss {our_loss:.3f} per problem")
    for solver in ("lbfgs", "liblinear"):
        theirs, coef = fit_separately(words, labels, folds, solver)
        loss = mean_loss(words, labels, folds, coef)
        print(f"scikit-learn, {solver}: {theirs:.2f} s, loss {loss:.3f}; palda is {theirs / ours:.1f} times faster")
    start = time.process_time()
    first = fit_classifier(labels, counts=train.X)
    middle = time.process_time()
    fit_classifier(labels, counts=train.X, start=first)
    print(f"whole classifier, penalties chosen: {middle - start:.1f} s; next fit: {time.process_time() - middle:.1f} s")


def fit_together(words: Any, labels: NDArray[np.float64], folds: NDArray[np.int64]) -> tuple[float, Any]:
    """Seconds, and coefficients (words + 1, folds, classes)."""
    n_classes = labels.shape[1]
    start = time.process_time()
    limits = LbfgsLimits()
    features = Features(words.astype(limits.dtype), None, None, None, dtype=limits.dtype)
    blocks, _ = cut_blocks(features, labels, None, folds)
    problems = Problems(np.tile(np.arange(n_classes), N_FOLDS), np.repeat(np.arange(N_FOLDS), n_classes))
    penalties = np.full((words.shape[1] + 1, N_FOLDS * n_classes), PENALTY)
    penalties[-1] = 0.0
    first = np.zeros_like(penalties)
    first[-1] = np.tile(base_log_odds(labels, np.ones_like(labels)), N_FOLDS)
    coef = fit_columns(blocks, problems, penalties, first, Threads(1), limits)
    return time.process_time() - start, coef.reshape(-1, N_FOLDS, n_classes)


def fit_separately(words: Any, labels: NDArray[np.float64], folds: NDArray[np.int64], solver: str) -> tuple[float, Any]:
    coef = np.zeros((words.shape[1] + 1, N_FOLDS, labels.shape[1]))
    model = LogisticRegression(C=1.0 / PENALTY, solver=solver, max_iter=1000)
    start = time.process_time()
    for fold in range(N_FOLDS):
        seen = sparse.csr_matrix(words[folds != fold])
        for i, column in enumerate(labels[folds != fold].T):
            model.fit(seen, column)
            coef[:-1, fold, i], coef[-1, fold, i] = model.coef_[0], model.intercept_[0]
    return time.process_time() - start, coef


def mean_loss(words: Any, labels: NDArray[np.float64], folds: NDArray[np.int64], coef: NDArray[np.float64]) -> float:
    """Mean over problems of the loss that both minimise."""
    total = 0.0
    for fold in range(N_FOLDS):
        scores = words[folds != fold] @ coef[:-1, fold] + coef[-1, fold]
        total += float((np.logaddexp(0.0, scores) - labels[folds != fold] * scores).sum())
        total += 0.5 * PENALTY * float(np.square(coef[:-1, fold]).sum())
    return total / (N_FOLDS * labels.shape[1])


if __name__ == "__main__":
    main()
