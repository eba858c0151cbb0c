"""Consensus from soft votes against that from the same votes without their confidences.

The paper's crowd votes on simulated news, and on the labels of yeast and enron (public data, $PALDA_DATA). Its
confidences are calibrated, overconfident, underconfident or useless. Required: in no case worse than the hard votes by
more than .002 of micro-F1, and better unless useless. ``python -m benchmarks soft_votes [aggregate | crowd] [newsroom |
yeast | enron]``; ``crowd`` fits ``CrowdPALDA`` and takes more than an hour.

``python -m benchmarks soft_votes real`` needs no simulation: six people gave headlines scores for six emotions. Those
of two or three random people are the votes, present from a score of 25 or 50; the majority of three others is the
reference. Strengths should not make the consensus less honest than hard votes do.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from benchmarks.real_gold_data import data_folder
from benchmarks.real_gold_measures import evaluate
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


def real_crowd() -> None:
    """Print the consensus from scores of people, against that from the same votes without their strengths."""
    table = pd.read_csv(data_folder() / "crowd_affective_text" / "annotations_scores.csv.gz")
    classes = [name for name in table.columns if name not in {"doc_id", "annotator", "valence"}]
    people = sorted(table["annotator"].unique())
    by_person = [table[table["annotator"] == name].sort_values("doc_id")[classes].to_numpy(float) for name in people]
    scores = np.stack(by_person, axis=1) / 100.0  # (documents, people, classes)
    print("| present from, people | votes | log-likelihood | ECE | expected / true wrong |\n|---|---|---|---|---|")
    for from_score in (0.25, 0.5):
        stretched = np.where(
            scores < from_score, scores / (2 * from_score), 0.501 + 0.499 * (scores - from_score) / (1 - from_score)
        )
        for n_people in (2, 3):
            found: dict[str, list[dict[str, float]]] = {"hard": [], "soft": []}
            for seed in SEEDS:
                order = np.argsort(np.random.default_rng(seed).random(scores.shape[:2]), axis=1)
                chosen = np.take_along_axis(stretched, order[:, :n_people, None], axis=1)
                votes = np.full(scores.shape, -1.0)
                np.put_along_axis(votes, order[:, :n_people, None], chosen, axis=1)
                others = np.take_along_axis(scores, order[:, 3:, None], axis=1) >= from_score
                reference = (others.mean(axis=1) > 0.5).astype(np.float64)
                hard = np.where(votes < 0, -1, votes > 0.5).astype(np.int8)
                for name, given in (("hard", hard), ("soft", votes)):
                    found[name].append(evaluate(reference, aggregate(given).consensus))
            for name, each in found.items():
                cells = [np.mean([one[key] for one in each]) for key in ("log_likelihood", "ece", "wrong_ratio")]
                print(f"| {from_score:.2f}, {n_people} | {name} | {cells[0]:.3f} | {cells[1]:.3f} | {cells[2]:.2f} |")


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
    if "real" in sys.argv[2:]:
        real_crowd()
        return
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
