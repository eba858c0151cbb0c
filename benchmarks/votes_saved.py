"""Votes that assignment saves over HTTP: a newsroom labelled through the API, against a fixed number of votes.

``python -m benchmarks server saved [SEED ...]``. 400 simulated news, 20 annotators with the qualities of the paper's
crowd, who ask for documents and answer after five seconds on average, until the server says that the project is
complete (2% of the labels wrong). Then votes of the same annotators on the same documents, in equal numbers per
document, are aggregated by the same estimator: how many per document would have been needed for as few wrong labels?
The same is done with the library alone, as in ``python -m benchmarks stopping``: one vote per document, then ``assign``
for 20 annotators at a time with the same target, ``update`` after each, and a fit after every quarter of a vote per
document. Fits that take long against the speed of the crowd cost votes: let nothing else run meanwhile.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from palda import CrowdPALDA, Votes, simulate
from palda.live.demo import ApiClient, SimulatedAnnotator, SimulatedCrowd

N_DOCS, N_ANNOTATORS, TARGET = 400, 20, 0.02
OVERLAPS = (1, 2, 3, 4, 5, 7, 10)
SECONDS_PER_DOCUMENT = 5.0
MAX_SECONDS, MAX_VOTES = 900.0, 10.0


def people_of(seed: int) -> list[SimulatedAnnotator]:
    quality = simulate.annotators("paper", n_classes=1, seed=seed).quality
    chosen = np.random.default_rng(seed).permutation(len(quality))[:N_ANNOTATORS]
    return [
        SimulatedAnnotator(f"annotator-{number:02d}", float(quality[one]), SECONDS_PER_DOCUMENT)
        for number, one in enumerate(chosen)
    ]


def label(url: str, token: str, news: Any, people: list[SimulatedAnnotator], seed: int) -> tuple[int, np.ndarray]:
    """Votes that were given, and the consensus, when the server says that the project is complete."""
    crowd = SimulatedCrowd(url, token, news, people, seed)
    project_id = crowd.create_project(f"newsroom {seed}", {"target_error": TARGET, "min_seconds": 0.0})
    crowd.start()
    end = time.monotonic() + MAX_SECONDS
    while not (status := crowd.status())["project"]["is_complete"] and time.monotonic() < end:
        time.sleep(0.2)
    crowd.stop()
    owner = ApiClient(url, token)
    time.sleep(3.0)  # the last votes
    rows = owner.send("GET", f"/projects/{project_id}/consensus?limit=1000")
    status = owner.send("GET", f"/projects/{project_id}/status")
    owner.close()
    labels = [label["id"] for label in status["project"]["labels"]]
    place = {name: number for number, name in enumerate(news.doc_ids.tolist())}
    consensus = np.zeros(news.labels.shape)
    for row in rows:
        consensus[place[row["document"]]] = [row["probabilities"].get(str(one), 0.0) for one in labels]
    return int(status["n_votes"]), consensus


def label_in_library(news: Any, people: list[SimulatedAnnotator], seed: int) -> tuple[int, np.ndarray]:
    """The same without a server."""
    rng, by_name = np.random.default_rng(seed), {one.name: one for one in people}
    number_of = {doc: number for number, doc in enumerate(news.doc_ids.tolist())}

    def rows(pairs: list[tuple[str, str]]) -> pd.DataFrame:
        found = [
            (doc, who, name, value)
            for who, doc in pairs
            for name, value in zip(
                news.classes, by_name[who].votes(doc, news.labels[number_of[doc]], seed), strict=True
            )
        ]
        return pd.DataFrame(found, columns=["doc", "annotator", "label", "value"])

    names = list(by_name)
    first = [(names[rng.integers(len(names))], doc) for doc in news.doc_ids.tolist()]
    votes = Votes.from_frame(rows(first), documents=news.doc_ids, classes=news.classes)
    n_votes = fitted_at = N_DOCS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CrowdPALDA(random_state=0, n_jobs=1).fit(news.corpus, votes)
        while n_votes < MAX_VOTES * N_DOCS:
            arrived = [names[one] for one in rng.integers(len(names), size=len(names))]
            table = model.assign(arrived, target_error=TARGET, max_votes_per_doc=10)
            if not len(table):
                break
            model.update(rows(list(zip(table["annotator"], table["doc"], strict=True))))
            n_votes += len(table)
            if n_votes - fitted_at >= 0.25 * N_DOCS:
                model = CrowdPALDA(random_state=0, n_jobs=1).fit(news.corpus, model.current_votes())
                fitted_at = n_votes
    return n_votes, model.consensus_


def fixed_errors(news: Any, people: list[SimulatedAnnotator], seed: int) -> dict[int, int]:
    """Wrong labels with a fixed number of votes per document, by the same estimator."""
    rng = np.random.default_rng(seed)
    order = np.array([rng.permutation(len(people)) for _ in news.doc_ids])
    found = {}
    for overlap in OVERLAPS:
        rows = [
            (doc, people[who].name, name, value)
            for number, doc in enumerate(news.doc_ids.tolist())
            for who in order[number, :overlap]
            for name, value in zip(news.classes, people[who].votes(doc, news.labels[number], seed), strict=True)
        ]
        votes = Votes.from_records(rows, documents=news.doc_ids, classes=news.classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CrowdPALDA(random_state=0, n_jobs=1).fit(news.corpus, votes)
        found[overlap] = int(((model.consensus_ >= 0.5) != news.labels).sum())
    return found


def needed(errors: dict[int, int], n_wrong: int) -> float:
    """Votes per document at which a fixed number has as few wrong labels, by interpolation."""
    overlaps, wrong = list(errors), list(errors.values())
    for first, second in zip(range(len(wrong)), range(1, len(wrong)), strict=False):
        if wrong[second] <= n_wrong < wrong[first]:
            share = (wrong[first] - n_wrong) / (wrong[first] - wrong[second])
            return overlaps[first] + share * (overlaps[second] - overlaps[first])
    return float(overlaps[0]) if n_wrong >= wrong[0] else float("inf")


def print_result(name: str, news: Any, n_votes: int, consensus: np.ndarray, fixed: dict[int, int]) -> None:
    n_wrong = int(((consensus >= 0.5) != news.labels).sum())
    overlap = needed(fixed, n_wrong)
    print(
        f"  {name}: {n_votes / N_DOCS:.2f} votes per document, {n_wrong} of {news.labels.size} labels wrong "
        f"({n_wrong / news.labels.size:.2%}, target {TARGET:.0%}); as few with {overlap:.2f} votes on every document: "
        f"share {n_votes / N_DOCS / overlap:.2f}",
        flush=True,
    )


def main() -> None:
    from benchmarks.server import Server

    seeds = [int(one) for one in sys.argv if one.isdigit()] or [0]
    with tempfile.TemporaryDirectory(prefix="palda-benchmark-") as folder:
        server = Server(str(Path(folder) / "saved.db"))
        try:
            for seed in seeds:
                news, people = simulate.newsroom(N_DOCS, seed=seed), people_of(seed)
                fixed = fixed_errors(news, people, seed)
                print(f"seed {seed}, labels wrong with fixed numbers of votes: {fixed}", flush=True)
                links, start = server.links, time.monotonic()
                found = label(links["url"], links["admin_token"], news, people, seed)
                print_result(f"server ({time.monotonic() - start:.0f} s)", news, *found, fixed)
                print_result("library", news, *label_in_library(news, people, seed), fixed)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
