"""Prediction of held-out votes of real crowds: CrowdPALDA against majority vote, aggregation without texts, and Raykar.

A random fifth of the (document, annotator) rows is held out. Each method learns from the other rows and predicts the
probability of every held-out vote. Target: CrowdPALDA has a better mean log-likelihood than majority vote and than all
models of votes alone, on every crowd. Documents whose votes are all held out are used with their text alone; annotators
whose votes are all held out get the mean rates of the crowd. The area under the ROC curve (AUC) is that of all held-out
votes of a draw.

Majority vote is smoothed towards the rate of the class; the strength is chosen by leave-one-out on the training votes.
All other methods predict a vote from their consensus and the annotator's rates: those of their own annotator model as
the consensus implies them, or "rates by class", the per-class rates which it implies. Raykar's model has its own rates.
"Choice" takes the one of ``one_coin``, ``two_coin`` and ``per_class`` that predicts a hidden fifth of the training
votes best without texts, and is to be compared with ``"auto"``, which learns how much rates differ by class.

The row "vote share" predicts a vote from its label alone, whoever gives it, by ``vote_share_``; majority vote does the
same, and must be worse. The last row is about documents that are held out altogether, of which only words are known:
``predict_vote_share`` against the rates of the classes.

Needs ``crowd_so_emotions``, ``crowd_odre`` and ``crowd_appropriateness`` in $PALDA_DATA, each with ``docs.csv.gz`` (a
column ``text``) and ``annotations.csv.gz`` (one column per class). ``python -m benchmarks real_crowds [crowd ...]
[method ...]`` measures some of them: ``python -m benchmarks real_crowds crowd_odre "CrowdPALDA, auto"``.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

from palda import CrowdPALDA, TextWords, read_documents, read_votes
from palda.errors import PaldaError, PaldaWarning
from palda.estimators import ANNOTATOR_MODELS, aggregate
from palda.models.crowd import belief_from_labels, select_votes, start_belief
from palda.models.crowd.annotator_model import mean_rates
from palda.paper.baselines import Raykar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from palda.data import Counts, Documents, Votes

    Array = NDArray[np.float64]
    Method = Callable[["Draw"], Array]

CROWDS = ("crowd_so_emotions", "crowd_odre", "crowd_appropriateness")
TARGETS = {"crowd_so_emotions": -0.187, "crowd_odre": -0.105, "crowd_appropriateness": -0.227}  # of "auto"
SEEDS = range(3)
HELD_OUT = 0.2
MIN_DOCS = 3  # minimum number of documents per word
N_TOPICS = 40
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # weight of the class rate, in votes
CANDIDATES = ("one_coin", "two_coin", "per_class")


@dataclass(frozen=True)
class Draw:
    """Words, training votes and held-out votes of one draw, with the models that several rows share."""

    counts: Counts
    training: Votes
    held_out: Votes
    seed: int
    models: dict[str, CrowdPALDA] = field(default_factory=dict)

    def model(self, annotators: str) -> CrowdPALDA:
        """CrowdPALDA with an annotator model, fitted to the training votes once."""
        if annotators not in self.models:
            model = CrowdPALDA(N_TOPICS, annotators=annotators, random_state=self.seed)
            self.models[annotators] = model.fit(self.counts, self.training)
        return self.models[annotators]

    @cached_property
    def chosen(self) -> str:
        """Annotator model that predicts hidden training votes best."""
        return choose_annotators(self)


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


def majority(draw: Draw) -> Array:
    """Share of yes among the training votes on a label, smoothed towards the rate of its class."""
    training, held_out = draw.training, draw.held_out
    yes, n_votes = training.yes_per_pair(), training.per_pair()
    rates = yes.sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1.0)

    def leave_one_out(strength: float) -> float:
        others = n_votes[training.doc, training.label] - 1.0
        agreeing = yes[training.doc, training.label] - training.value
        return float(
            log_likelihoods(training, (agreeing + strength * rates[training.label]) / (others + strength)).sum()
        )

    strength = max(STRENGTHS, key=leave_one_out)
    share = (yes + strength * rates) / (n_votes + strength)
    predicted: Array = share[held_out.doc, held_out.label]
    return predicted


def prob_yes(votes: Votes, consensus: Array, rates: Array) -> Array:
    """(votes,): probability that each vote is 1; rates are (annotators, classes or 1, states or 1)."""
    column = votes.label if rates.shape[1] > 1 else 0
    specificity, sensitivity = (rates[votes.annotator, column, state] for state in (0, -1))
    present = consensus[votes.doc, votes.label]
    predicted: Array = present * sensitivity + (1.0 - present) * (1.0 - specificity)
    return predicted


def from_consensus(consensus: Array, training: Votes, held_out: Votes, annotators: str) -> Array:
    """Held-out votes predicted from a consensus and from the annotator rates that it and the training votes imply."""
    model = ANNOTATOR_MODELS[annotators]()
    belief, _ = belief_from_labels(model, training, consensus, start_belief(model, training))
    return prob_yes(held_out, consensus, mean_rates(belief))


def without_texts(annotators: str, n_profiles: int | str, rates: str | None = None) -> Method:
    def predict(draw: Draw) -> Array:
        found = aggregate(draw.training, annotators, n_profiles, random_state=draw.seed)
        return from_consensus(found.consensus, draw.training, draw.held_out, rates or annotators)

    return predict


def with_texts(annotators: str, rates: str) -> Method:
    def predict(draw: Draw) -> Array:
        return from_consensus(draw.model(annotators).consensus_, draw.training, draw.held_out, rates)

    return predict


def choose_annotators(draw: Draw) -> str:
    """The annotator model that predicts a hidden fifth of the training votes best, learned from votes alone."""
    inner = Draw(draw.counts, *split_votes(draw.training, draw.seed), draw.seed)

    def likelihood(annotators: str) -> float:
        return float(log_likelihoods(inner.held_out, without_texts(annotators, "auto")(inner)).mean())

    chosen = max(CANDIDATES, key=likelihood)
    print(f"    draw {draw.seed}: {chosen} chosen", flush=True)
    return chosen


def choice_without_texts(draw: Draw) -> Array:
    return without_texts(draw.chosen, "auto")(draw)


def choice_with_texts(draw: Draw) -> Array:
    return with_texts(draw.chosen, draw.chosen)(draw)


def raykar(coins: Any) -> Method:
    def predict(draw: Draw) -> Array:
        model = Raykar(coins, random_state=draw.seed).fit(draw.counts, draw.training)
        rates = np.stack((model.specificity_, model.sensitivity_), axis=-1)
        return prob_yes(draw.held_out, model.consensus_, rates.reshape(len(rates), -1, 2))

    return predict


def vote_share(draw: Draw) -> Array:
    """Share of yes among people, from words and votes."""
    share: Array = draw.model("auto").vote_share_[draw.held_out.doc, draw.held_out.label]
    return share


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


WITHOUT_TEXTS: Mapping[str, Method] = {
    "smoothed majority": majority,
    "one coin": without_texts("one_coin", 1),
    "two coins": without_texts("two_coin", 1),
    "two coins, rates by class": without_texts("two_coin", 1, "per_class"),
    "two coins, profiles": without_texts("two_coin", "auto"),
    "per class": without_texts("per_class", 1),
    "per class, profiles": without_texts("per_class", "auto"),
    "auto": without_texts("auto", 1),
    "auto, profiles": without_texts("auto", "auto"),
    "choice, profiles": choice_without_texts,
}
WITH_TEXTS: Mapping[str, Method] = {
    "Raykar, shared rates": raykar("shared"),
    "Raykar, rates per class": raykar("per_class"),
    "CrowdPALDA, auto": with_texts("auto", "auto"),
    "CrowdPALDA, auto, rates by class": with_texts("auto", "per_class"),
    "vote share": vote_share,
    "CrowdPALDA, per class": with_texts("per_class", "per_class"),
    "CrowdPALDA, choice": choice_with_texts,
    "CrowdPALDA, two coins, rates by class": with_texts("two_coin", "per_class"),
}
METHODS = {**WITHOUT_TEXTS, **WITH_TEXTS}
NEW_DOCUMENTS = "new documents"


def measure(name: str, methods: list[str]) -> None:
    counts, votes = read_crowd(name)
    draws = [Draw(counts, *split_votes(votes, seed), seed) for seed in SEEDS]
    print(
        f"{name}: {votes.n_docs:,} documents, {votes.n_annotators} annotators, {votes.n_classes} classes, "
        f"{counts.shape[1]:,} words, {len(draws[0].held_out):,} of {len(votes):,} votes held out",
        flush=True,
    )
    n_held_out = [len(draw.held_out) for draw in draws]
    scores = {}  # method -> (seeds, documents): sums over held-out votes
    for method in methods:
        if method == NEW_DOCUMENTS:
            measure_new_documents(counts, votes)
            continue
        predicted = [METHODS[method](draw) for draw in draws]
        pairs = list(zip(draws, predicted, strict=True))
        scores[method] = np.array(
            [by_document(draw.held_out, log_likelihoods(draw.held_out, probs)) for draw, probs in pairs]
        )
        means = scores[method].sum(axis=1) / n_held_out
        auc = np.mean([roc_auc_score(draw.held_out.value, probs) for draw, probs in pairs])
        each = ", ".join(f"{mean:.4f}" for mean in means)
        print(f"  {method:37} {means.mean():.4f} ({each}), AUC {auc:.4f}", flush=True)
    default = "CrowdPALDA, auto"
    if default in scores:
        reached = round(float((scores[default].sum(axis=1) / n_held_out).mean()), 3) >= TARGETS[name]
        print(f"  {default}: {'reached' if reached else 'NOT REACHED'} ({TARGETS[name]})", flush=True)
        for method in (*WITHOUT_TEXTS, "Raykar, shared rates", "Raykar, rates per class", "CrowdPALDA, choice"):
            if method in scores:
                gains = compared(scores[default] - scores[method], n_held_out)
                print(f"  {default} against {method}: {gains}", flush=True)
    if {"vote share", "smoothed majority"} <= scores.keys():
        gains = compared(scores["vote share"] - scores["smoothed majority"], n_held_out)
        print(f"  vote share against smoothed majority: {gains}", flush=True)


def compared(gains: Array, n_held_out: list[int]) -> str:
    """Mean gain per held-out vote over the seeds, and the standard error over documents within a seed."""
    by_seed = gains.sum(axis=1) / n_held_out
    errors = gains.std(axis=1) * np.sqrt(gains.shape[1]) / n_held_out
    verdict = "better" if by_seed.mean() > 0 else "NOT BETTER"
    return f"{by_seed.mean():+.4f}, standard error {errors.mean():.4f}: {verdict}"


def main(arguments: list[str] | None = None) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", PaldaWarning)
    named = sys.argv[2:] if arguments is None else arguments
    everything = [*METHODS, NEW_DOCUMENTS]
    if unknown := set(named) - {*CROWDS, *everything}:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join((*CROWDS, *everything))}")
    for name in [name for name in CROWDS if name in named] or CROWDS:
        try:
            measure(name, [method for method in everything if method in named] or everything)
        except PaldaError as missing:
            print(f"skipped: {missing}")


if __name__ == "__main__":
    main(sys.argv[1:])
