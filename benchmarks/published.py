"""The published model on Reuters against the values in the paper: T=20, five seeds, gold labels and a crowd.

Needs the public data sets in $PALDA_DATA, and about half an hour on 2 cores: ``python -m benchmarks published``.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import PALDA, CrowdPALDA, metrics, simulate
from palda.errors import PaldaError
from palda.io import catalog

if TYPE_CHECKING:
    from palda.data import Dataset

N_TOPICS, SEEDS = 20, range(5)
PAPER = {
    "gold": {"hamming_accuracy": 0.969, "micro_f1": 0.829},
    "crowd": {"hamming_accuracy": 0.942, "micro_f1": 0.669, "annotator_rmse": 0.009},
}
COLUMNS = ("hamming_accuracy", "micro_f1", "log_likelihood", "annotator_rmse", "oracle_rmse", "consensus_f1")


def gold(train: Dataset, test: Dataset, seed: int) -> dict[str, float]:
    model = PALDA.as_published(N_TOPICS, random_state=seed).fit(train.X, train.Y)
    return _test_scores(model, test) | {"train_f1": model.score(train.X, train.Y)}


def crowd(train: Dataset, test: Dataset, seed: int) -> dict[str, float]:
    votes, annotators = simulate.crowd(train.Y, "paper", votes_per_doc=5, seed=seed, doc_ids=train.doc_ids)
    model = CrowdPALDA.as_published(N_TOPICS, random_state=seed).fit(train.corpus, votes)
    return _test_scores(model, test) | {
        "annotator_rmse": metrics.annotator_rmse(model.annotator_quality_["quality"], annotators.quality),
        "oracle_rmse": metrics.oracle_rmse(votes, train.Y, annotators.quality),
        "consensus_f1": metrics.micro_f1(train.Y, model.consensus_ > 0.5),
    }


def _test_scores(model: Any, test: Dataset) -> dict[str, float]:
    scores = metrics.scores(test.Y, model.predict_proba(test.X))
    return {
        "hamming_accuracy": scores.hamming_accuracy,
        "micro_f1": scores.micro_f1,
        "log_likelihood": scores.log_likelihood,
    }


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'':24s}" + "".join(f"{name:>18s}" for name in COLUMNS))
    for name, job in (("gold", gold), ("crowd", crowd)):
        rows = []
        for seed in SEEDS:
            try:
                train, test = catalog.load("reuters", seed=seed)
            except PaldaError as missing:
                print(f"skipped: {missing}")
                return
            rows.append(job(train, test, seed))
        print_row(f"{name}, the paper", {key: (value, None) for key, value in PAPER[name].items()})
        spread = {
            key: (float(np.mean([row[key] for row in rows])), float(np.std([row[key] for row in rows])))
            for key in rows[0]
        }
        print_row(f"{name}, here", spread)
    baselines = metrics.baseline_scores(train.Y, test.Y)
    for title, scores in baselines.items():
        values = {"hamming_accuracy": scores.hamming_accuracy, "micro_f1": scores.micro_f1}
        values["log_likelihood"] = scores.log_likelihood
        print_row(f"predict {title}", {key: (value, None) for key, value in values.items()})


def print_row(title: str, values: dict[str, tuple[float, float | None]]) -> None:
    cells = ""
    for column in COLUMNS:
        mean, spread = values.get(column, (None, None))
        text = "" if mean is None else f"{mean:.4f}" if spread is None else f"{mean:.4f} ±{spread:.4f}"
        cells += f"{text:>18s}"
    print(f"{title:24s}{cells}", flush=True)


if __name__ == "__main__":
    main()
