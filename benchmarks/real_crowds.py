"""Votes of real crowds, hidden and predicted: the text model against majority vote and aggregation without texts.

A random fifth of the (document, annotator) rows is hidden. Each method learns from the other rows and gives a
probability to every hidden vote. Target: CrowdPALDA has a better mean log-likelihood than majority vote and than one-
coin and two-coin aggregation, on every crowd. Documents whose votes are all hidden stay, with their text alone, and
annotators whose votes are all hidden are typical members of the pool.

Majority vote is smoothed towards the class's rate, as strongly as predicts the seen votes best, each from the others.
All other methods predict a vote from their consensus and the annotator's rates. Those of the target have the rates of
their names; CrowdPALDA, whose consensus has two coins an annotator, gives votes by the annotator's rates in each class,
which that consensus implies. Rows that are not part of the target have such rates without texts, and show what texts
bring beyond a closer look at annotators.

Needs ``crowd_so_emotions``, ``crowd_odre`` and ``crowd_appropriateness`` in $PALDA_DATA, each with ``docs.csv.gz`` (a
column ``text``) and ``annotations.csv.gz`` (a column a class): ``python -m benchmarks real_crowds``.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import CrowdPALDA, TextWords, read_documents, read_votes
from palda.errors import PaldaError
from palda.estimators import ANNOTATOR_MODELS, aggregate
from palda.models.crowd import select_votes, votes_log_likelihood

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from palda.data import Counts, Documents, Votes

    Array = NDArray[np.float64]
    Method = Callable[[Counts, Votes, Votes, int], Array]

CROWDS = ("crowd_so_emotions", "crowd_odre", "crowd_appropriateness")
SEEDS = range(3)
HIDDEN = 0.2
MIN_DOCS = 3  # texts that a word must be in
N_TOPICS = 40
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # votes that the rate of a class counts for


def read_crowd(name: str) -> tuple[Counts, Votes]:
    folder = Path(os.environ.get("PALDA_DATA", "")) / name
    if "PALDA_DATA" not in os.environ or not folder.is_dir():
        raise PaldaError(f"{name} is not there; set PALDA_DATA to the folder that has {name}/ in it")
    documents = cast("Documents", read_documents(folder / "docs.csv.gz", text="text"))
    votes = read_votes(folder / "annotations.csv.gz", documents)
    return TextWords(min_docs=MIN_DOCS).fit_transform(documents), votes


def hide_rows(votes: Votes, seed: int) -> tuple[Votes, Votes]:
    """Votes seen and votes hidden: all that an annotator said about a document, or nothing."""
    row_of_vote = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    rows, place = np.unique(row_of_vote, return_inverse=True)
    chosen = np.random.default_rng(seed).permutation(len(rows)) < round(HIDDEN * len(rows))
    return select_votes(votes, ~chosen[place]), select_votes(votes, chosen[place])


def log_likelihoods(votes: Votes, says_yes: Array) -> Array:
    """(votes,): log-probability of each vote, given the probability that it is 1."""
    probability = np.where(votes.value == 1, says_yes, 1.0 - says_yes)
    logs: Array = np.log(np.clip(probability, 1e-9, 1.0))
    return logs


def majority(_: Counts, seen: Votes, hidden: Votes, __: int) -> Array:
    """Share of yes among the other votes on a label, smoothed towards the rate of its class."""
    yes, n_votes = np.zeros((2, seen.n_docs, seen.n_classes))
    np.add.at(n_votes, (seen.doc, seen.label), 1.0)
    np.add.at(yes, (seen.doc, seen.label), seen.value.astype(np.float64))
    rates = yes.sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1.0)

    def without_itself(strength: float) -> float:
        others = n_votes[seen.doc, seen.label] - 1.0
        agreeing = yes[seen.doc, seen.label] - seen.value
        return float(log_likelihoods(seen, (agreeing + strength * rates[seen.label]) / (others + strength)).sum())

    strength = max(STRENGTHS, key=without_itself)
    share = (yes + strength * rates) / (n_votes + strength)
    predicted = log_likelihoods(hidden, share[hidden.doc, hidden.label])
    sums = np.bincount(hidden.doc, predicted, minlength=hidden.n_docs)
    return sums.astype(np.float64, copy=False)


def from_consensus(consensus: Array, seen: Votes, hidden: Votes, annotators: str) -> Array:
    """Hidden votes predicted from a consensus, and from the annotators' rates that it and the seen votes imply."""
    model = ANNOTATOR_MODELS[annotators]()
    belief = model.update(model.count(seen, consensus), model.start(seen.n_annotators, seen.n_classes))
    return votes_log_likelihood(hidden, consensus, belief)


def without_texts(annotators: str, n_profiles: int | str, rates: str | None = None) -> Method:
    def predict(_: Counts, seen: Votes, hidden: Votes, seed: int) -> Array:
        found = aggregate(seen, annotators, n_profiles, random_state=seed)
        return from_consensus(found.consensus, seen, hidden, rates or annotators)

    return predict


def with_texts(annotators: str) -> Method:
    def predict(counts: Counts, seen: Votes, hidden: Votes, seed: int) -> Array:
        model = CrowdPALDA(N_TOPICS, annotators=annotators, random_state=seed).fit(counts, seen)
        return from_consensus(model.consensus_, seen, hidden, "per_class")

    return predict


RIVALS: Mapping[str, Method] = {
    "smoothed majority": majority,
    "one coin": without_texts("one_coin", 1),
    "two coins": without_texts("two_coin", 1),
}
ALSO: Mapping[str, Method] = {
    "two coins, rates by class": without_texts("two_coin", 1, "per_class"),
    "two coins, profiles": without_texts("two_coin", "auto"),
    "per class": without_texts("per_class", 1),
    "per class, profiles": without_texts("per_class", "auto"),
}
OURS: Mapping[str, Method] = {
    "CrowdPALDA": with_texts("two_coin"),
    "CrowdPALDA, per class": with_texts("per_class"),
}


def measure(name: str) -> None:
    counts, votes = read_crowd(name)
    splits = [hide_rows(votes, seed) for seed in SEEDS]
    print(
        f"{name}: {votes.n_docs:,} documents, {votes.n_annotators} annotators, {votes.n_classes} classes, "
        f"{counts.shape[1]:,} words, {len(splits[0][1]):,} of {len(votes):,} votes hidden",
        flush=True,
    )
    scores = {}  # method -> (seeds, documents): sums over hidden votes
    for method, predict in {**RIVALS, **ALSO, **OURS}.items():
        start = time.perf_counter()
        scores[method] = np.array(
            [predict(counts, seen, hidden, seed) for seed, (seen, hidden) in zip(SEEDS, splits, strict=True)]
        )
        taken = (time.perf_counter() - start) / len(SEEDS)
        n_hidden = [len(hidden) for _, hidden in splits]
        means = scores[method].sum(axis=1) / n_hidden
        each = ", ".join(f"{mean:.4f}" for mean in means)
        print(f"  {method:26} {means.mean():.4f} ({each}; {taken:.0f} s a fit)", flush=True)
    for ours in OURS:
        for rival in RIVALS:
            print(f"  {ours} against {rival}: {compared(scores[ours] - scores[rival], n_hidden)}", flush=True)


def compared(gains: Array, n_hidden: list[int]) -> str:
    """Mean gain a hidden vote over the seeds, with the standard error that documents give it within a seed."""
    by_seed = gains.sum(axis=1) / n_hidden
    errors = gains.std(axis=1) * np.sqrt(gains.shape[1]) / n_hidden
    verdict = "better" if by_seed.mean() > 0 else "NOT BETTER"
    return f"{by_seed.mean():+.4f}, standard error {errors.mean():.4f}: {verdict}"


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in CROWDS:
        try:
            measure(name)
        except PaldaError as missing:
            print(f"left out: {missing}")


if __name__ == "__main__":
    main()
