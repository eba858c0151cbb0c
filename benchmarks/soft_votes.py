"""Consensus from soft votes against that from the same votes without their confidences.

The paper's crowd votes on simulated news, and on the labels of yeast and enron (public data, $PALDA_DATA). Its
confidences are calibrated, overconfident, underconfident or useless. Required: in no case worse than the hard votes by
more than .002 of micro-F1, and better unless useless. ``python -m benchmarks soft_votes [aggregate | crowd] [newsroom |
yeast | enron]``; ``crowd`` fits ``CrowdPALDA`` and takes more than an hour.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import CrowdPALDA, ValueWords, aggregate, metrics, simulate
from palda.data import Values
from palda.errors import PaldaError, PaldaWarning
from palda.io import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palda.data import Array, Votes

SEEDS = range(5)
KINDS = ("none", "calibrated", "overconfident", "underconfident", "useless")
DATA_SETS = ("newsroom", "yeast", "enron")
MAX_LOSS = 0.002


def data_sets(names: list[str]) -> Iterator[tuple[str, object, Array]]:
    """Name, word counts and true labels."""
    if "newsroom" in names:
        news = simulate.newsroom(1500, seed=1)
        yield "newsroom", news.corpus.counts, np.asarray(news.labels, dtype=np.float64)
    for name in names:
        if name == "newsroom":
            continue
        try:
            train, _ = catalog.load(name)
        except PaldaError as missing:
            print(f"skipped: {missing}")
            continue
        words = ValueWords().fit_transform(train.X) if isinstance(train.corpus, Values) else train.X
        yield name, words, np.asarray(train.Y, dtype=np.float64)


def compare(label: str, truth: Array, votes_per_doc: int, consensus: Callable[[Votes, int], Array]) -> None:
    """Print micro-F1 of the consensus at 1/2 for each kind of confidences, and the difference to hard votes."""
    scores: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in SEEDS:
        votes, _ = simulate.crowd(truth, "paper", votes_per_doc=votes_per_doc, behaviour="two_coin", seed=seed)
        for kind in KINDS:
            soft = simulate.confidences(votes, truth, kind, seed=seed)
            scores[kind].append(metrics.micro_f1(truth, consensus(soft, seed) >= 0.5))
    hard = np.mean(scores["none"])
    cells = [f"hard {hard:.4f}"]
    cells += [f"{kind} {np.mean(scores[kind]):.4f} ({np.mean(scores[kind]) - hard:+.4f})" for kind in KINDS[1:]]
    worst = min(float(np.mean(scores[kind])) for kind in KINDS[1:]) - hard
    print(f"{label}, {votes_per_doc} votes per document: {', '.join(cells)}; "
          f"{'as required' if worst >= -MAX_LOSS else 'TOO LOW'}", flush=True)  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", PaldaWarning)
    methods = [name for name in sys.argv[2:] if name in ("aggregate", "crowd")] or ["aggregate"]
    names = [name for name in sys.argv[2:] if name in DATA_SETS] or list(DATA_SETS)
    for name, words, truth in data_sets(names):
        for votes_per_doc in (2, 5):
            if "aggregate" in methods:
                compare(f"aggregate, {name}", truth, votes_per_doc, lambda votes, _: aggregate(votes).consensus)
            if "crowd" in methods:
                compare(
                    f"CrowdPALDA, {name}",
                    truth,
                    votes_per_doc,
                    lambda votes, seed, words=words: CrowdPALDA(random_state=seed).fit(words, votes).consensus_,
                )


if __name__ == "__main__":
    main()
