"""Copies and collusion: consensus and annotator quality of simulated crowds with copies, against those without them.

(a) Clones: the paper's crowd of 50 with 5 votes per document, where the annotator whose quality is nearest to .6 gets
quality .6 and four clones, who vote wherever the original voted and repeat all of its votes, or 70%. Compared with the
crowd without the clones.
(b) Siblings: five people with qualities drawn from the paper's crowd and five siblings of one model, quality .75,
errors correlated at .5; everybody judges every document. Compared with the five people and one sibling. Once as
annotators of unknown kind, once with the siblings declared as models.
(c) Accusations: 20 crowds without copies, each with other labels, annotator behaviour and votes per document; and the
three real crowds, where the groups that are found are listed.

Targets: consensus micro-F1 and RMSE of annotator quality no worse than without copies by more than .003 in (a) and (b);
nobody reported in (c). The RMSE is over the annotators whom both crowds have. Needs yeast, enron, reuters21578 and
the real crowds in $PALDA_DATA: ``python -m benchmarks copies``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.real_crowds import CROWDS, read_crowd
from palda import metrics, simulate
from palda.data import names_array
from palda.errors import PaldaError
from palda.estimators import aggregate
from palda.io import catalog
from palda.models.crowd import TwoCoinModel, find_copies, summarize_annotators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd import CopyGroups
    from palda.simulate import SimulatedAnnotators

    Array = NDArray[np.float64]
    Crowd = tuple[Votes, SimulatedAnnotators]

SEEDS = range(3)
DATA = ("newsroom", "yeast", "enron", "reuters")
TARGET = 0.003
N_NEWS, VOTES_PER_DOC, QUALITY = 2000, 5, 0.6
N_CLONES, N_PEOPLE, N_SIBLINGS = 4, 5, 5
N_HONEST = 20


def labels_of(name: str) -> NDArray[np.int8]:
    """True labels (documents, classes) of the training part."""
    labels = simulate.newsroom(N_NEWS, seed=0).labels if name == "newsroom" else catalog.load(name).train.Y
    return np.asarray(labels, dtype=np.int8)


def clones(labels: NDArray[np.int8], seed: int, copy_share: float = 1.0) -> tuple[Crowd, Crowd]:
    """The crowd without and with clones."""
    quality = simulate.annotators("paper", n_classes=1, seed=seed).quality.copy()
    original = int(np.argmin(np.abs(quality - QUALITY)))
    quality[original] = QUALITY
    crowd = simulate.crowd(labels, quality, votes_per_doc=VOTES_PER_DOC, seed=seed)
    return crowd, simulate.clones(labels, *crowd, original, N_CLONES, copy_share=copy_share, seed=seed)


def siblings(labels: NDArray[np.int8], seed: int, *, declared: bool = False) -> tuple[Crowd, Crowd]:
    """People with one sibling, and with all of them."""
    quality = simulate.annotators("paper", n_classes=1, seed=seed).quality
    people = np.random.default_rng(seed).choice(quality, N_PEOPLE, replace=False)
    crowd = simulate.crowd(labels, people, votes_per_doc=N_PEOPLE, seed=seed)
    votes, annotators = simulate.siblings(labels, *crowd, N_SIBLINGS, seed=seed)
    if declared:
        kinds = names_array(["person"] * N_PEOPLE + ["model"] * N_SIBLINGS)
        votes = replace(votes, annotator_kinds=kinds)
    return simulate.siblings(labels, *crowd, 1, seed=seed), (votes, annotators)


CASES: Mapping[str, Callable[[NDArray[np.int8], int], tuple[Crowd, Crowd]]] = {
    "clones": clones,
    "clones, 70% of votes": partial(clones, copy_share=0.7),
    "siblings": siblings,
    "siblings, declared": partial(siblings, declared=True),
}


def scores(labels: NDArray[np.int8], crowd: Crowd, n_compared: int, *, discounted: bool = False) -> Array:
    """Micro-F1 of the consensus, and RMSE of the first annotators' quality against that consensus."""
    votes, annotators = crowd
    consensus = aggregate(votes, copies=discounted).consensus
    model = TwoCoinModel()
    counts = model.count(votes, consensus)
    belief = model.update(counts, model.start(votes.n_annotators, votes.n_classes))
    quality = summarize_annotators(belief, counts).quality[:n_compared]
    rmse = metrics.annotator_rmse(quality, annotators.quality[:n_compared])
    return np.array([metrics.micro_f1(labels, consensus > 0.5), rmse])


def compare(name: str) -> None:
    labels = labels_of(name)
    for kind, crowds in CASES.items():
        rows, found = [], []
        for seed in SEEDS:
            without, with_copies = crowds(labels, seed)
            groups = find_copies(with_copies[0])
            n_compared = len(without[1])
            rows.append(
                [
                    scores(labels, without, n_compared),
                    scores(labels, with_copies, n_compared),
                    scores(labels, with_copies, n_compared, discounted=True),
                ]
            )
            n_members = "+".join(str(len(group.members)) for group in groups.groups)
            found.append(f"{n_members} (undecided)" if groups.rivals else n_members)
        (f1, rmse), (f1_plain, rmse_plain), (f1_merged, rmse_merged) = np.mean(rows, axis=0)
        kept = f1_merged > f1 - TARGET and rmse_merged < rmse + TARGET
        print(
            f"{name}, {kind}: micro-F1 {f1:.4f} without copies, {f1_plain:.4f} with them, {f1_merged:.4f} discounted; "
            f"RMSE {rmse:.4f}, {rmse_plain:.4f}, {rmse_merged:.4f}: {'reached' if kept else 'MISSED'}; "
            f"members found {', '.join(found)}",
            flush=True,
        )


def described(groups: CopyGroups, votes: Votes) -> str:
    """Names and shares of the groups."""
    named = zip(groups.groups, groups.names(votes.annotators), strict=True)
    return " and ".join(f"{', '.join(names)} (share {group.copy_share:.2f})" for group, names in named) or "nobody"


def accusations() -> None:
    news, reported = simulate.newsroom(N_NEWS, seed=1).labels, 0
    for seed in range(N_HONEST):
        profile = ("paper", "adversarial", [0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.75, 0.75])[seed % 3]
        behaviour = ("one_coin", "two_coin", "per_class")[seed // 3 % 3]
        votes, _ = simulate.crowd(news, profile, seed=seed, behaviour=behaviour, votes_per_doc=(3, 5, 8)[seed // 9 % 3])
        reported += bool(find_copies(votes))
    print(f"{N_HONEST} crowds without copies: {reported} with a group (target 0)", flush=True)


def on_real_crowd(name: str) -> None:
    _, votes = read_crowd(name)
    start = time.process_time()
    groups = find_copies(votes)
    taken = time.process_time() - start
    n_pairs = len(groups.pairs.first)
    print(f"{name}: {described(groups, votes)} ({n_pairs:,} pairs, spread {groups.spread:.3f}, {taken:.1f} s)")
    for group in groups.groups:
        print(f"  agreement {group.agreement:.3f}, {group.expected_agreement:.3f} expected; z at least {group.z:.1f}")


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for measure, names in ((compare, DATA), (on_real_crowd, CROWDS)):
        for name in names:
            try:
                measure(name)
            except PaldaError as missing:
                print(f"skipped: {missing}")
    accusations()


if __name__ == "__main__":
    main()
