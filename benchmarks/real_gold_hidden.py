"""Prediction of hidden votes of real crowds by the methods of ``real_gold``: no reference is needed.

All votes of an annotator on a document are hidden for a fifth of these pairs, as in ``real_crowds``. A method learns
from the others. palda and Raykar's model predict a vote from their consensus and their own rates; the other methods
from their consensus and ``pooled_rates``. "Smoothed majority" predicts a vote from its label alone, whoever gives it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.real_crowds import log_likelihoods, majority, prob_yes, split_votes
from benchmarks.real_gold_data import load_hidden
from benchmarks.real_gold_measures import bootstrap_weights
from benchmarks.real_gold_rivals import METHODS, Task
from benchmarks.real_gold_store import outcome_of

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

MAX_DRAWS = 3
POOL_VOTES = 4.0  # weight of the mean rates above a rate, in votes
BY_LABEL = "majority"  # the method that predicts without rates


def pooled_rates(votes: Votes, consensus: Array) -> Array:
    """(annotators, classes, 2): specificity and sensitivity that a consensus implies.

    Those of an annotator and a class are drawn towards the annotator's over all classes, which are drawn towards the
    mean rates of the crowd in that class.
    """
    shape = (votes.n_annotators, votes.n_classes)
    cell = votes.annotator.astype(np.int64) * votes.n_classes + votes.label
    present = consensus[votes.doc, votes.label]
    rates = []
    for weight, right in ((1.0 - present, votes.value == 0), (present, votes.value == 1)):
        n_right, n_all = (
            np.bincount(cell, counted, minlength=shape[0] * shape[1]).reshape(shape)
            for counted in (weight * right, weight)
        )
        crowd = (n_right.sum(axis=0) + 1.0) / (n_all.sum(axis=0) + 2.0)
        # an annotator's surplus over the crowd, over all classes, moves the mean of the annotator in each class
        expected = (n_all * crowd).sum(axis=1)
        own = n_all.sum(axis=1)
        surplus = (n_right.sum(axis=1) - expected) / (own + POOL_VOTES)
        mean = np.clip(crowd + surplus[:, None], 0.01, 0.99)
        rates.append((n_right + POOL_VOTES * mean) / (n_all + POOL_VOTES))
    return np.stack(rates, axis=-1)


def predictions(method: str, task: Task, case: str, options: argparse.Namespace, seed: int) -> Array:
    """(hidden votes,): probability that each is 1."""
    assert task.hidden is not None
    if method == BY_LABEL:
        draw: Any = SimpleNamespace(training=task.votes, held_out=task.hidden, seed=seed)
        return majority(draw)
    found = outcome_of(options.folder, case, method, task)
    if len(found.predicted):
        return found.predicted
    return prob_yes(task.hidden, found.probs, pooled_rates(task.votes, found.probs))


def measure_hidden(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Print a table of mean log-likelihoods per hidden vote; returns them per method and draw."""
    votes, texts = load_hidden(name)
    draws = [split_votes(votes, seed) for seed in range(min(options.draws, MAX_DRAWS))]
    tasks = [Task(training, texts, hidden=hidden) for training, hidden in draws]
    sums: dict[str, list[Array]] = {}  # per draw (documents,): sums over hidden votes
    for method in options.methods:
        if METHODS[method].needs != "votes":
            continue
        n_draws = options.slow_draws if METHODS[method].is_slow else None
        try:
            sums[method] = [
                by_document(task, predictions(method, task, f"{name}-hidden-{seed}", options, seed))
                for seed, task in enumerate(tasks[:n_draws])
            ]
        except (ValueError, TypeError, LookupError, ArithmeticError) as failed:
            print(f"{name}: {method} failed: {failed}")
    counts = [np.bincount(hidden.doc, minlength=votes.n_docs).astype(np.float64) for _, hidden in draws]
    print(f"\n### {name}: log-likelihood per hidden vote, {len(draws)} draws, {counts[0].sum():.0f} votes each")
    print("\n| method | log-likelihood | palda.aggregate minus this |\n|---|---|---|")
    for method, found in sums.items():
        title = "smoothed majority" if method == BY_LABEL else METHODS[method].title
        each = [values.sum() / n.sum() for values, n in zip(found, counts, strict=False)]
        against = "" if "palda" not in sums or method == "palda" else compared(sums["palda"], found, counts)
        print(f"| {title} | {np.mean(each):.4f} | {against} |", flush=True)
    return {
        method: [float(values.sum() / n.sum()) for values, n in zip(found, counts, strict=False)]
        for method, found in sums.items()
    }


def by_document(task: Task, predicted: Array) -> Array:
    """(documents,): log-likelihood of the hidden votes on each document."""
    assert task.hidden is not None
    logs = log_likelihoods(task.hidden, predicted)
    return np.bincount(task.hidden.doc, logs, minlength=task.hidden.n_docs)


def compared(own: list[Array], other: list[Array], counts: list[Array]) -> str:
    """Mean gain per hidden vote, with its bootstrap standard error over documents."""
    gains, resampled = [], []
    for mine, its, n in zip(own, other, counts, strict=False):
        weights = bootstrap_weights(len(n))
        gains.append((mine - its).sum() / n.sum())
        resampled.append(weights @ (mine - its) / (weights @ n))
    return f"{np.mean(gains):+.4f} ± {np.mean(resampled, axis=0).std(ddof=1):.4f}"
