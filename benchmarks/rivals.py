"""Rivals side by side: ways from simulated votes to labels and to a classifier, all on the same crowds.

``python -m benchmarks rivals [--seeds N] [--folder FOLDER] [case ...]`` prints two tables per case. Results are stored
in FOLDER (``rivals-cells``) as they are computed, one JSON object per line, and are not computed again.

Majority vote, crowd-kit's one-coin model and Dawid-Skene (both one problem per class), cleanlab's CROWDLAB (one problem
per class; it gets out-of-fold probabilities of a classifier trained on vote shares) and ``palda.aggregate`` make
labels. On these the same classifier is trained that Raykar's model and palda use, once on the soft labels and once on
the hard ones. Raykar's model, with rates that all classes share or with rates per class, and CrowdPALDA learn both
together. All get the same features.

Columns: micro-F1 of the labels on the training documents; micro-F1 on test documents at ½, and with one threshold per
class chosen on out-of-fold probabilities of the training documents against the method's own labels; expected
calibration error and log-likelihood per label of the test probabilities. Nothing is chosen on test documents, with one
exception in favour of the rivals: the second table shows the better figure of soft and hard labels.

Needs the public data sets in $PALDA_DATA and palda[baselines].
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from benchmarks.gold import Case, case_of, log_likelihood
from palda import CrowdPALDA, __version__, metrics, simulate
from palda.engine import Threads
from palda.errors import PaldaError
from palda.estimators import aggregate
from palda.models.classifier import ClassifierSettings, fit_classifier
from palda.paper.baselines import Raykar, dawid_skene, vote_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

HALF = 0.5
N_FOLDS = 3
MEASURES = ("consensus", "at_half", "chosen", "calibration_error", "log_likelihood")
LOWER_IS_BETTER = [measure == "calibration_error" for measure in MEASURES]
HEADING = """\
| method | labels | consensus | test at ½ / chosen | ECE | log-likelihood |
|---|---|---|---|---|---|"""


class CrowdCase(NamedTuple):
    """A data set and how votes on it are simulated: 50 annotators of a quality profile."""

    data: str
    votes_per_doc: int
    profile: str = "paper"


CASES = {
    "reuters-5": CrowdCase("reuters", 5),
    "reuters-2": CrowdCase("reuters", 2),
    "reuters-5-adversarial": CrowdCase("reuters", 5, "adversarial"),
    "yeast-3": CrowdCase("yeast", 3),
    "scene-3": CrowdCase("scene", 3),
    "enron-5": CrowdCase("enron", 5),
}


class Fit(NamedTuple):
    """Labels of the training documents, and probabilities of the classes: out of fold, and of test documents."""

    labels: Array  # (documents, classes): probability of presence, or 0 and 1
    out_of_fold: Array
    test: Array


def fit_to_labels(case: Case, labels: Array, seed: int) -> Fit:
    """The classifier of Raykar's model and of palda, trained on labels that do not change."""
    settings = ClassifierSettings(n_folds=N_FOLDS, seed=seed, engine=Threads(1))
    fit = fit_classifier(labels, counts=case.words, settings=settings)
    return Fit(labels, expit(fit.log_odds), expit(fit.classifier.log_odds(counts=case.test_words)))


def majority(_: Case, votes: Votes, __: int) -> Array:
    return vote_shares(votes)


def crowd_kit_one_coin(_: Case, votes: Votes, __: int) -> Array:
    return dawid_skene(votes, one_coin=True)


def crowd_kit_dawid_skene(_: Case, votes: Votes, __: int) -> Array:
    return dawid_skene(votes)


def crowdlab(case: Case, votes: Votes, seed: int) -> Array:
    """Probability of presence by CROWDLAB; above ½ where its ``consensus_label`` is 1.

    The quality of a consensus label is sometimes below ½, although there are only two labels; it counts as ½ then. A
    label nobody voted on, which cleanlab refuses, gets the probability of the classifier.
    """
    from cleanlab.multiannotator import get_label_quality_multiannotator

    predicted = fit_to_labels(case, vote_shares(votes), seed).out_of_fold
    table = np.full((votes.n_classes, votes.n_docs, votes.n_annotators), np.nan)
    table[votes.label, votes.doc, votes.annotator] = votes.value
    probs = np.zeros((votes.n_docs, votes.n_classes))
    for i, given in enumerate(table):
        values = np.unique(given[~np.isnan(given)])
        if len(values) < 2:
            probs[:, i] = values
            continue
        used, judged = ~np.isnan(given).all(axis=0), ~np.isnan(given).all(axis=1)
        probs[:, i] = predicted[:, i]
        found = get_label_quality_multiannotator(
            given[np.ix_(judged, used)],
            np.column_stack((1.0 - predicted[judged, i], predicted[judged, i])),
            return_detailed_quality=False,
            return_annotator_stats=False,
            verbose=False,
        )["label_quality"]
        is_present = found["consensus_label"].to_numpy() == 1
        quality = np.clip(found["consensus_quality_score"].to_numpy(), np.nextafter(HALF, 1.0), 1.0)
        probs[judged, i] = np.where(is_present, quality, 1.0 - quality)
    return probs


def palda_aggregate(_: Case, votes: Votes, seed: int) -> Array:
    return aggregate(votes, random_state=seed).consensus


def raykar(coins: Any) -> Callable[[Case, Votes, int], Fit]:
    def fit(case: Case, votes: Votes, seed: int) -> Fit:
        model = Raykar(coins, n_jobs=1, random_state=seed).fit(case.words, votes)
        return Fit(model.consensus_, model.out_of_fold_probs_, model.predict_proba(case.test_words))

    return fit


def palda_default(case: Case, votes: Votes, seed: int) -> Fit:
    model = CrowdPALDA(n_jobs=1, random_state=seed).fit(case.words, votes)
    return Fit(model.consensus_, model.out_of_fold_probs_, model.predict_proba(case.test_words))


AGGREGATORS: dict[str, Callable[[Case, Votes, int], Array]] = {
    "majority vote": majority,
    "crowd-kit, one coin": crowd_kit_one_coin,
    "crowd-kit, Dawid-Skene": crowd_kit_dawid_skene,
    "cleanlab, CROWDLAB": crowdlab,
    "palda.aggregate": palda_aggregate,
}
JOINT: dict[str, Callable[[Case, Votes, int], Fit]] = {
    "Raykar, shared rates": raykar("shared"),
    "Raykar, rates per class": raykar("per_class"),
    "palda, default": palda_default,
}


def scores_of(case: Case, fit: Fit) -> dict[str, float]:
    thresholds = metrics.choose_thresholds(fit.labels, fit.out_of_fold)
    truth = case.test_labels
    values = (
        metrics.micro_f1(case.labels, fit.labels > HALF),
        metrics.micro_f1(truth, fit.test >= HALF),
        metrics.micro_f1(truth, fit.test >= thresholds),
        metrics.expected_calibration_error(truth, fit.test),
        log_likelihood(truth, fit.test),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def fits_of(method: str, case: Case, votes: Votes, seed: int) -> Iterator[tuple[str, Fit]]:
    """Fits of a method by the kind of labels that its classifier is trained on."""
    if method in JOINT:
        yield "own", JOINT[method](case, votes, seed)
        return
    soft = AGGREGATORS[method](case, votes, seed)
    yield "soft", fit_to_labels(case, soft, seed)
    yield "hard", fit_to_labels(case, (soft > HALF).astype(np.float64), seed)


def stored_cells(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compute(name: str, seeds: range, path: Path) -> None:
    """Computes and stores the cells of a case that are missing."""
    finished = {(cell["method"], cell["seed"]) for cell in stored_cells(path) if cell["case"] == name}
    missing = [(seed, method) for seed in seeds for method in (*AGGREGATORS, *JOINT) if (method, seed) not in finished]
    if not missing:
        return
    crowd = CASES[name]
    case = case_of(crowd.data)
    for seed, method in missing:
        votes, _ = simulate.crowd(case.labels, crowd.profile, votes_per_doc=crowd.votes_per_doc, seed=seed)
        lines = [
            json.dumps(
                {"case": name, "seed": seed, "method": method, "labels": kind, **scores_of(case, fit)}
                | {"palda": __version__}
            )
            for kind, fit in fits_of(method, case, votes, seed)
        ]
        with path.open("a") as file:
            file.write("".join(line + "\n" for line in lines))


def show(name: str, seeds: range, path: Path) -> None:
    """Prints the means over the seeds for both kinds of labels, and the better of both for each measure."""
    cells = [cell for cell in stored_cells(path) if cell["case"] == name and cell["seed"] in seeds]
    print(f"{name}: mean of {len(seeds)} crowds\n{HEADING}")
    better = {}
    for method in (*AGGREGATORS, *JOINT):
        means = {}
        for kind in ("soft", "hard") if method in AGGREGATORS else ("own",):
            rows = [[cell[m] for m in MEASURES] for cell in cells if (cell["method"], cell["labels"]) == (method, kind)]
            means[kind] = np.mean(rows, axis=0)
            print(table_row(method, kind, means[kind]))
        table = np.array(list(means.values()))
        better[method] = np.where(LOWER_IS_BETTER, table.min(axis=0), table.max(axis=0))
    print(f"\n{name}: the better of soft and hard labels\n{HEADING}")
    for method, values in better.items():
        print(table_row(method, "", values))
    print(flush=True)


def table_row(method: str, kind: str, values: Array) -> str:
    consensus, half, chosen, error, likelihood = values
    return f"| {method} | {kind} | {consensus:.3f} | {half:.3f} / {chosen:.3f} | {error:.3f} | {likelihood:.3f} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rivals")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=1, help="number of simulated crowds")
    parser.add_argument("--folder", type=Path, default=Path("rivals-cells"))
    options = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"there is no case {', '.join(sorted(unknown))}; choose from {', '.join(CASES)}")
    warnings.simplefilter("ignore", ConvergenceWarning)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.cases or CASES:
        path = options.folder / "cells.jsonl"
        try:
            compute(name, range(options.seeds), path)
        except PaldaError as missing:
            print(f"{name}: skipped: {missing}")
            continue
        show(name, range(options.seeds), path)


if __name__ == "__main__":
    main(sys.argv[1:])
