"""Prediction of held-out votes of real crowds: CrowdPALDA against majority vote and aggregation without texts.

A random fifth of the (document, annotator) rows is held out. Each method learns from the other rows and predicts the
probability of every held-out vote. Target: CrowdPALDA has a better mean log-likelihood than majority vote and than
one-coin and two-coin aggregation, on every crowd. Documents whose votes are all held out are used with their text
alone; annotators whose votes are all held out get the mean rates of the crowd.

Majority vote is smoothed towards the rate of the class; the strength is chosen by leave-one-out on the training votes.
All other methods predict a vote from their consensus and the annotator's rates. The methods of the target use the rates
in their names. CrowdPALDA has a two-coin consensus and predicts votes by the per-class rates which that consensus
implies. The other rows use such rates without texts, to separate the effect of texts from that of per-class rates.

The row "vote share" predicts a vote from its label alone, whoever gives it, by ``vote_share_``; majority vote does the
same, and must be worse. The last row is about documents that are held out altogether, of which only words are known:
``predict_vote_share`` against the rates of the classes.

Needs ``crowd_so_emotions``, ``crowd_odre`` and ``crowd_appropriateness`` in $PALDA_DATA, each with ``docs.csv.gz`` (a
column ``text``) and ``annotations.csv.gz`` (one column per class): ``python -m benchmarks real_crowds``.
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
HELD_OUT = 0.2
MIN_DOCS = 3  # minimum number of documents per word
N_TOPICS = 40
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # weight of the class rate, in votes


def read_crowd(name: str) -> tuple[Counts, Votes]:
    folder = Path(os.environ.get("PALDA_DATA", "")) / name
    if "PALDA_DATA" not in os.environ or not folder.is_dir():
        raise PaldaError(f"{name} was not found; set PALDA_DATA to the folder that contains {name}/")
    documents = cast("Documents", read_documents(folder / "docs.csv.gz", text="text"))
    votes = read_votes(folder / "annotations.csv.gz", documents)
    return TextWords(min_docs=MIN_DOCS).fit_transform(documents), votes


def split_votes(votes: Votes, seed: int) -> tuple[Votes, Votes]:
    """Training votes and held-out votes; all votes of an annotator on a document are on the same side."""
    row_of_vote = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    rows, place = np.unique(row_of_vote, return_inverse=True)
    chosen = np.random.default_rng(seed).permutation(len(rows)) < round(HELD_OUT * len(rows))
    return select_votes(votes, ~chosen[place]), select_votes(votes, chosen[place])


def log_likelihoods(votes: Votes, prob_yes: Array) -> Array:
    """(votes,): log-probability of each vote, given the probability that it is 1."""
    probability = np.where(votes.value == 1, prob_yes, 1.0 - prob_yes)
    logs: Array = np.log(np.clip(probability, 1e-9, 1.0))
    return logs


def majority(_: Counts, training: Votes, held_out: Votes, __: int) -> Array:
    """Share of yes among the training votes on a label, smoothed towards the rate of its class."""
    yes, n_votes = np.zeros((2, training.n_docs, training.n_classes))
    np.add.at(n_votes, (training.doc, training.label), 1.0)
    np.add.at(yes, (training.doc, training.label), training.value.astype(np.float64))
    rates = yes.sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1.0)

    def leave_one_out(strength: float) -> float:
        others = n_votes[training.doc, training.label] - 1.0
        agreeing = yes[training.doc, training.label] - training.value
        return float(
            log_likelihoods(training, (agreeing + strength * rates[training.label]) / (others + strength)).sum()
        )

    strength = max(STRENGTHS, key=leave_one_out)
    share = (yes + strength * rates) / (n_votes + strength)
    predicted = log_likelihoods(held_out, share[held_out.doc, held_out.label])
    return by_document(held_out, predicted)


def from_consensus(consensus: Array, training: Votes, held_out: Votes, annotators: str) -> Array:
    """Held-out votes predicted from a consensus and from the annotator rates that it and the training votes imply."""
    model = ANNOTATOR_MODELS[annotators]()
    belief = model.update(model.count(training, consensus), model.start(training.n_annotators, training.n_classes))
    return votes_log_likelihood(held_out, consensus, belief)


def without_texts(annotators: str, n_profiles: int | str, rates: str | None = None) -> Method:
    def predict(_: Counts, training: Votes, held_out: Votes, seed: int) -> Array:
        found = aggregate(training, annotators, n_profiles, random_state=seed)
        return from_consensus(found.consensus, training, held_out, rates or annotators)

    return predict


def with_texts(annotators: str) -> Method:
    def predict(counts: Counts, training: Votes, held_out: Votes, seed: int) -> Array:
        model = CrowdPALDA(N_TOPICS, annotators=annotators, random_state=seed).fit(counts, training)
        return from_consensus(model.consensus_, training, held_out, "per_class")

    return predict


def vote_share(counts: Counts, training: Votes, held_out: Votes, seed: int) -> Array:
    """Share of yes among people, from words and votes."""
    share = CrowdPALDA(N_TOPICS, random_state=seed).fit(counts, training).vote_share_
    return by_document(held_out, log_likelihoods(held_out, share[held_out.doc, held_out.label]))


def by_document(votes: Votes, values: Array) -> Array:
    """(documents,): sums over the votes on each document."""
    return np.bincount(votes.doc, values, minlength=votes.n_docs).astype(np.float64, copy=False)


def measure_new_documents(counts: Counts, votes: Votes) -> None:
    """Votes on documents that were not trained on: ``predict_vote_share`` against the rates of the classes."""
    rows = []
    for seed in SEEDS:
        is_new = np.random.default_rng(seed).random(votes.n_docs) < HELD_OUT
        old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        training, held_out = votes.take(old), votes.take(new)
        model = CrowdPALDA(N_TOPICS, random_state=seed).fit(counts[old], training)
        rates = training.yes_per_pair().sum(axis=0) / training.per_pair().sum(axis=0)
        shares = {
            "class rates": np.broadcast_to(rates, (len(new), len(rates))),
            "predict_proba": model.predict_proba(counts[new]),
            "predict_vote_share": model.predict_vote_share(counts[new]),
        }
        rows.append(
            [log_likelihoods(held_out, share[held_out.doc, held_out.label]).mean() for share in shares.values()]
        )
    means = ", ".join(f"{name} {mean:.4f}" for name, mean in zip(shares, np.mean(rows, axis=0), strict=True))
    print(f"  votes on new documents: {means}", flush=True)


BASELINES: Mapping[str, Method] = {
    "smoothed majority": majority,
    "one coin": without_texts("one_coin", 1),
    "two coins": without_texts("two_coin", 1),
}
FURTHER: Mapping[str, Method] = {
    "two coins, rates by class": without_texts("two_coin", 1, "per_class"),
    "two coins, profiles": without_texts("two_coin", "auto"),
    "per class": without_texts("per_class", 1),
    "per class, profiles": without_texts("per_class", "auto"),
}
SHARES: Mapping[str, Method] = {"vote share": vote_share}
OURS: Mapping[str, Method] = {
    "CrowdPALDA": with_texts("two_coin"),
    "CrowdPALDA, per class": with_texts("per_class"),
}


def measure(name: str) -> None:
    counts, votes = read_crowd(name)
    splits = [split_votes(votes, seed) for seed in SEEDS]
    print(
        f"{name}: {votes.n_docs:,} documents, {votes.n_annotators} annotators, {votes.n_classes} classes, "
        f"{counts.shape[1]:,} words, {len(splits[0][1]):,} of {len(votes):,} votes held out",
        flush=True,
    )
    scores = {}  # method -> (seeds, documents): sums over held-out votes
    for method, predict in {**BASELINES, **FURTHER, **SHARES, **OURS}.items():
        start = time.perf_counter()
        scores[method] = np.array(
            [
                predict(counts, training, held_out, seed)
                for seed, (training, held_out) in zip(SEEDS, splits, strict=True)
            ]
        )
        taken = (time.perf_counter() - start) / len(SEEDS)
        n_held_out = [len(held_out) for _, held_out in splits]
        means = scores[method].sum(axis=1) / n_held_out
        each = ", ".join(f"{mean:.4f}" for mean in means)
        print(f"  {method:26} {means.mean():.4f} ({each}; {taken:.0f} s per fit)", flush=True)
    for ours in OURS:
        for baseline in BASELINES:
            print(f"  {ours} against {baseline}: {compared(scores[ours] - scores[baseline], n_held_out)}", flush=True)
    gains = scores["vote share"] - scores["smoothed majority"]
    print(f"  vote share against smoothed majority: {compared(gains, n_held_out)}", flush=True)
    measure_new_documents(counts, votes)


def compared(gains: Array, n_held_out: list[int]) -> str:
    """Mean gain per held-out vote over the seeds, and the standard error over documents within a seed."""
    by_seed = gains.sum(axis=1) / n_held_out
    errors = gains.std(axis=1) * np.sqrt(gains.shape[1]) / n_held_out
    verdict = "better" if by_seed.mean() > 0 else "NOT BETTER"
    return f"{by_seed.mean():+.4f}, standard error {errors.mean():.4f}: {verdict}"


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in CROWDS:
        try:
            measure(name)
        except PaldaError as missing:
            print(f"skipped: {missing}")


if __name__ == "__main__":
    main()
