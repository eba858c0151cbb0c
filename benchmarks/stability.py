"""Labels, bounds and verdicts of one small crowd under ten seeds: nothing may depend on the seed.

``python -m benchmarks stability [--seeds N] [--sets full3 full3r v2 v3]`` fits ``CrowdPALDA`` with its defaults to the
votes of a trial of the server. The reference is the majority of the three honest annotators on each post. It is made of
the same votes, so that it says little about truth, but it shows whatever a fit makes of unanimous votes.

- ``full3``: three honest annotators, 500 posts; ``full3r``: the same and one who answers at random
- ``v2``: the votes of the trial, with Rudi, who answers at random, and a rare class that was added late; ``v3``:
  without Rudi

Columns: labels that differ from the reference; labels that the consensus and the 90% bound of the report state to be
wrong; posts with the rare class; verdicts. Below each set the largest share of labels in which two seeds differ.

Needs ``trial_emotions`` and ``crowd_so_emotions`` in $PALDA_DATA (or in ``../shared/data``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.real_gold_data import data_folder
from palda import CrowdPALDA, TextWords, read_votes
from palda.errors import PaldaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes

SETS = ("full3", "full3r", "v2", "v3")
RARE, HALF = "fear", 0.5
GOLD_CLASSES = ("love", "joy", "surprise", "anger", "sadness", "fear")  # columns of gold.json


class Trial(NamedTuple):
    """Votes of one set on the posts that have any, texts, and the majority of the honest annotators (-1 unknown)."""

    votes: Votes
    texts: list[str]
    majority: NDArray[np.int8]


def load_trial(name: str) -> Trial:
    """A set of ``SETS``."""
    folder = data_folder() / "trial_emotions"
    if not folder.is_dir():
        raise PaldaError(f"{folder} was not found; set PALDA_DATA to the folder that contains trial_emotions/")
    table = pd.read_csv(folder / f"{name}.csv.gz").rename(columns={"doc": "doc_id", "label": "class"})
    # posts.csv lacks some posts of the trial, which came from this crowd
    posts = pd.read_csv(data_folder() / "crowd_so_emotions" / "docs.csv.gz", keep_default_na=False)
    posts = posts[posts["doc_id"].isin(table["doc_id"])]
    votes = read_votes(table, posts["doc_id"].tolist())
    gold = json.loads((folder / "gold.json").read_text(encoding="utf-8"))
    majority = np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    for row, post in enumerate(posts["doc_id"]):
        for label, name_of_class in enumerate(votes.classes):
            majority[row, label] = gold[post][GOLD_CLASSES.index(name_of_class)]
    return Trial(votes, posts["text"].tolist(), majority)


class Result(NamedTuple):
    """What one seed gives."""

    labels: NDArray[np.bool_]
    stated_wrong: float
    upper_wrong: float
    verdicts: dict[Any, str]
    seconds: float


def fit(trial: Trial, seed: int) -> Result:
    """Labels, bounds and verdicts of a default fit with texts."""
    began = time.perf_counter()
    words = TextWords(min_count=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CrowdPALDA(random_state=seed).fit(words.fit_transform(trial.texts), trial.votes)
        report = model.stopping_report()
    quality = model.annotator_quality_
    verdicts = dict(zip(quality["annotator"], quality["verdict"], strict=True))
    return Result(
        np.asarray(model.consensus_) > 0.5,
        report.expected_wrong,
        report.upper_wrong,
        verdicts,
        time.perf_counter() - began,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks stability")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    options = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    for name in options.sets:
        trial = load_trial(name)
        known = trial.majority >= 0
        rare = list(trial.votes.classes).index(RARE) if RARE in trial.votes.classes else None
        n_rare = "" if rare is None else f", {int((trial.majority[:, rare] == 1).sum())} with {RARE}"
        print(f"\n### {name}: {trial.votes.n_docs} posts, {int(known.sum())} labels{n_rare}\n")
        print(f"| seed | wrong | stated | 90% bound | {RARE} | s | verdicts |\n|---|---|---|---|---|---|---|")
        results = []
        for seed in range(options.seeds):
            found = fit(trial, seed)
            results.append(found.labels)
            n_wrong = int((found.labels != (trial.majority == 1))[known].sum())
            with_rare = "" if rare is None else int(found.labels[:, rare].sum())
            wrong, verdicts = f"{n_wrong} ({n_wrong / known.sum():.2%})", map(" ".join, found.verdicts.items())
            numbers = (f"{number:.0f}" for number in (found.stated_wrong, found.upper_wrong))
            cells = [seed, wrong, *numbers, with_rare, f"{found.seconds:.1f}", ", ".join(verdicts)]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
        worst = max((float((one != two).mean()) for one, two in combinations(results, 2)), default=0.0)
        print(f"\nTwo seeds differ in at most {worst:.2%} of the labels")


if __name__ == "__main__":
    main(sys.argv[1:])
