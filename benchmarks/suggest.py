"""Number of votes that ``suggest`` saves: votes on suggested labels against votes on random labels.

A simulated newsroom starts with one annotator per document. Then votes on single (document, class) pairs are added in
batches, from random simulated annotators, and the model is fitted again after each batch. Prints the micro-F1 of the
consensus against the true labels, and how many suggested votes reach the micro-F1 of all random votes.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import CrowdPALDA, metrics, simulate
from palda.data import Votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_DOCS, BATCH, N_BATCHES = 400, 200, 8
SETTINGS: dict[str, Any] = {"n_topics": 12, "label_prior": "words", "tol": 1e-2, "random_state": 0}


class Crowd:
    """The votes so far, and annotators for further votes."""

    def __init__(self, news: Any, seed: int) -> None:
        self.truth = news.labels
        self.votes, people = simulate.crowd(news, "paper", votes_per_doc=1, seed=seed)
        self.quality = people.quality
        self.rng = np.random.default_rng(seed)

    def ask(self, doc: NDArray[np.int64], label: NDArray[np.int64]) -> None:
        """Add one vote on each pair, by an annotator who has not voted on it."""
        taken = set(zip(self.votes.doc, self.votes.annotator, self.votes.label, strict=True))
        rows = []
        for d, i in zip(doc, label, strict=True):
            free = [who for who in range(len(self.quality)) if (d, who, i) not in taken]
            who = int(self.rng.choice(free))
            is_right = self.rng.random() < self.quality[who]
            taken.add((d, who, i))
            rows.append((d, who, i, self.truth[d, i] if is_right else 1 - self.truth[d, i]))
        added = np.array(rows)
        old = self.votes
        columns = [
            np.concatenate((getattr(old, name), added[:, place]))
            for place, name in enumerate(("doc", "annotator", "label", "value"))
        ]
        self.votes = Votes.from_codes(*columns, doc_ids=old.doc_ids, annotators=old.annotators, classes=old.classes)


def curve(news: Any, seed: int, *, suggested: bool, n_batches: int = N_BATCHES, batch: int = BATCH) -> list[float]:
    """Micro-F1 of the consensus at the start and after each batch."""
    crowd, reached = Crowd(news, seed), []
    rng = np.random.default_rng(seed)
    for step in range(n_batches + 1):
        model = CrowdPALDA(**SETTINGS).fit(news.corpus.counts, crowd.votes)
        reached.append(metrics.micro_f1(news.labels, model.consensus_ >= 0.5))
        if step == n_batches:
            break
        if suggested:
            table = model.suggest(batch)
            place = {name: row for row, name in enumerate(model.doc_ids_)}
            column = {name: i for i, name in enumerate(model.classes_)}
            doc, label = table["doc"].map(place).to_numpy(), table["label"].map(column).to_numpy()
        else:
            doc, label = np.unravel_index(rng.choice(news.labels.size, batch, replace=False), news.labels.shape)  # type: ignore[assignment]
        crowd.ask(doc, label)
    return reached


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    news = simulate.newsroom(N_DOCS, seed=0)
    random, chosen = (curve(news, 0, suggested=suggested) for suggested in (False, True))
    for step, pair in enumerate(zip(random, chosen, strict=True)):
        print(f"{step * BATCH:5d} more votes: random {pair[0]:.4f}, suggested {pair[1]:.4f}", flush=True)
    needed = next((step for step, f1 in enumerate(chosen) if f1 >= random[-1]), None)
    if needed is None:
        print("NOT REACHED: the suggested votes never reach the micro-F1 of all random votes")
        sys.exit(1)
    print(f"{needed * BATCH} suggested votes reach the micro-F1 of {N_BATCHES * BATCH} random ones")


if __name__ == "__main__":
    main()
