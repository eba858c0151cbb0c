"""A crowd with everything that crowds may have: copies, a change, soft votes, a model, families, gold labels."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palda import CrowdPALDA, Votes, simulate

N_DOCS, N_GOLD_DOCS = 120, 20
PEOPLE = 8
MODEL = "annotator-08"
COPIES = ["sibling 1", "sibling 2", "sibling 3"]
CHANGED = "annotator-01"


class MixedCrowd(NamedTuple):
    """Documents, votes and gold labels, and a model fitted to them."""

    news: simulate.SimulatedDocuments
    votes: Votes
    gold: NDArray[np.int8]
    model: CrowdPALDA


@cache
def mixed_crowd() -> MixedCrowd:
    """Seven people, of whom one gets worse half-way, a model, and three who copy each other and state probabilities."""
    news = simulate.newsroom(N_DOCS, seed=1, doc_length=40)
    others = [0.9, 0.85, 0.85, 0.8, 0.8, 0.8, 0.75]
    before, after = (simulate.annotators([first, *others], n_classes=10) for first in (0.95, 0.55))
    people = simulate.drifting_votes(news, before, after, votes_per_doc=5, seed=1)
    untimed = replace(people, time=people.time[:0])
    hard, _ = simulate.siblings(news, untimed, before, len(COPIES), quality=0.8, correlation=0.9, seed=1)
    soft = simulate.confidences(hard, news, ["none"] * PEOPLE + ["overconfident"] * len(COPIES), seed=1)
    votes = replace(
        soft,
        time=1.7e9 + 86400.0 * soft.doc,
        annotator_kinds=np.where(soft.annotators == MODEL, "model", "person").astype(object),
        annotator_families=np.array([""] * (PEOPLE - 1) + ["small model"] + ["one desk"] * len(COPIES), dtype=object),
    )
    gold = np.where(np.arange(N_DOCS)[:, None] < N_GOLD_DOCS, news.labels, -1).astype(np.int8)
    model = CrowdPALDA(3, label_prior="words", max_iter=2, tol=1.0, random_state=0, n_jobs=1)
    return MixedCrowd(news, votes, gold, model.fit(news.corpus, votes, gold=gold))
