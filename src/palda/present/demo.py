"""``make demo``: a simulated newsroom, a crowd with adversaries in it, and what palda makes of them."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda import metrics
from palda.data import simulate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data.simulate import SimulatedAnnotators, SimulatedDocuments
    from palda.data.types import Votes

__all__ = ["Outcome", "main", "run"]

N_DOCS, VOTES_PER_DOC = 1500, 5


class Outcome(NamedTuple):
    """Hidden truth, what the crowd said, and what was made of it."""

    news: SimulatedDocuments
    votes: Votes
    annotators: SimulatedAnnotators
    majority: NDArray[np.float64]
    consensus: NDArray[np.float64]
    quality: NDArray[np.float64]


def run(n_docs: int = N_DOCS, seed: int = 0) -> Outcome:
    """Simulate documents and a crowd of 50, ten of them adversarial; find consensus and annotator quality."""
    from palda.estimators import CrowdPALDA

    news = simulate.newsroom(n_docs, seed=seed)
    votes, annotators = simulate.crowd(news, "adversarial", votes_per_doc=VOTES_PER_DOC, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a demo may stop early
        model = CrowdPALDA(20, max_iter=30, random_state=seed).fit(news.corpus, votes)
    majority = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    quality = model.annotator_quality_["quality"].to_numpy()
    return Outcome(news, votes, annotators, majority, model.consensus_, quality)


def main() -> None:
    """Print the story from documents to annotators."""
    say = sys.stdout.write
    say("palda demo: a newsroom and its crowd, simulated; nothing is read or downloaded.\n\n")
    outcome = run()
    news, votes, truth = outcome.news, outcome.votes, outcome.news.labels
    example = int(np.argmax(truth.sum(axis=1) == 2))
    words = " ".join(news.documents[example].split()[:9])
    say(f"{len(truth)} documents, such as {news.doc_ids[example]}: {words} ...\n")
    say(f"  really about: {', '.join(news.classes[truth[example] == 1])}\n")
    say(f"{len(votes):,} votes of {votes.n_annotators} annotators, ten of whom lie; ")
    say(f"agreement (Krippendorff's alpha of label sets): {metrics.label_set_alpha(votes).alpha:.2f}\n\n")
    say("labels found, micro-F1 against the hidden truth:\n")
    for name, probs in (("majority vote", outcome.majority), ("palda consensus", outcome.consensus)):
        say(f"  {name:16s} {metrics.micro_f1(truth, probs > 0.5):.3f}\n")
    liars = np.flatnonzero(outcome.annotators.quality < 0.5)
    caught = np.flatnonzero(outcome.quality < 0.5)
    say(f"\nadversaries: {len(liars)} hidden, {len(np.intersect1d(liars, caught))} found, ")
    say(f"{len(np.setdiff1d(caught, liars))} wrongly accused\n")
    say(f"annotator quality off by {metrics.annotator_rmse(outcome.quality, outcome.annotators.quality):.3f} (RMSE); ")
    oracle = metrics.oracle_rmse(votes, truth, outcome.annotators.quality)
    say(f"somebody who knew the truth: {oracle:.3f}\n\n")
    say("still to come: the command line on your own files, and a report.\n")
    say("today, in Python: see README.md, or docs/guide/data.md for reading your own votes.\n")


if __name__ == "__main__":
    main()
