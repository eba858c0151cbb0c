"""Quality of fits to simulated votes against fits to the true labels.

``python -m benchmarks gold`` prints every table; arguments select parts and data sets:
``python -m benchmarks gold table reuters scene``. Parts: ``table`` (test micro-F1 from votes and from gold labels),
``adversaries``, ``tenth`` (10% of Reuters), ``parts`` (contribution of each part of the model), ``votes`` (fewer votes
per document), ``sets`` (with and without label-set profiles), ``priors`` (label priors on gold labels), ``cost``
(against one logistic regression per class). Means over seeds of the simulated annotators; nothing is chosen on test
documents. Needs the public data sets in $PALDA_DATA, palda[baselines], and two or three hours for everything.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from palda import PALDA, CrowdPALDA, ValueWords, metrics, simulate
from palda.data import Values
from palda.errors import PaldaError
from palda.io import catalog
from palda.metrics import choose_thresholds
from palda.models.classifier import ClassifierSettings, assign_folds, inverse_document_frequencies, tf_idf
from palda.paper.baselines import OneVsRest, Raykar, aggregate_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = range(5)
VOTES_PER_DOC = 5
SETS = ("reuters", "scene", "yeast", "enron", "bibtex")
TARGETS = {  # micro-F1 at ½, with chosen thresholds, and allowed gap to gold labels
    "reuters": (0.935, 0.935, 0.005),
    "scene": (0.745, 0.75, 0.01),
    "yeast": (0.625, 0.655, 0.01),
    "enron": (0.55, 0.59, 0.01),
    "bibtex": (0.46, 0.485, 0.01),
}
HEADING = """\
| data | from votes, at ½ / chosen | from gold labels | Jaccard | ECE | log-likelihood / base rates | consensus | RMSE |
|---|---|---|---|---|---|---|---|"""
JACCARD_TARGETS = {"reuters": 0.881, "bibtex": 0.309, "enron": 0.430, "scene": 0.594, "yeast": 0.462}


class Case(NamedTuple):
    """A data set as counts: training documents, test documents and their true labels."""

    name: str
    words: Any
    labels: NDArray[np.int8]
    test_words: Any
    test_labels: NDArray[np.int8]


class Scores(NamedTuple):
    """Measures on the test documents, and of the consensus on the training documents."""

    at_half: float
    chosen: float
    jaccard: float
    calibration_error: float
    log_likelihood: float  # per label
    base_log_likelihood: float  # the same for base rates
    consensus: float
    seconds: float


def case_of(name: str, seed: int = 0) -> Case:
    train, test = catalog.load(name, seed=seed)
    words, test_words = train.X, test.X
    if isinstance(train.corpus, Values):
        made = ValueWords()
        words, test_words = made.fit_transform(train.X), made.transform(test.X)
    return Case(name, sparse.csr_array(words), train.Y, sparse.csr_array(test_words), test.Y)


def from_votes(
    case: Case, seed: int, votes_per_doc: int = VOTES_PER_DOC, profile: str = "paper", **settings: Any
) -> tuple[Scores, float]:
    """Scores of a fit to simulated votes, and the annotator RMSE divided by that of the oracle."""
    votes, annotators = simulate.crowd(case.labels, profile, votes_per_doc=votes_per_doc, seed=seed)
    start = time.perf_counter()
    model = CrowdPALDA(random_state=seed, **settings).fit(case.words, votes)
    taken = time.perf_counter() - start
    found = metrics.annotator_rmse(model.annotator_quality_["quality"], annotators.quality)
    oracle = metrics.oracle_rmse(votes, case.labels, annotators.quality)
    return scores_of(case, model, model.consensus_, taken), found / oracle


def from_gold(case: Case, seed: int, **settings: Any) -> Scores:
    start = time.perf_counter()
    model = PALDA(random_state=seed, **settings).fit(case.words, case.labels)
    return scores_of(case, model, case.labels, time.perf_counter() - start)


def scores_of(case: Case, model: Any, targets: Any, seconds: float) -> Scores:
    probs, truth = model.predict_proba(case.test_words), case.test_labels
    for_jaccard = choose_thresholds(targets, model.out_of_fold_probs_, "jaccard")
    return Scores(
        metrics.micro_f1(truth, probs >= 0.5),
        metrics.micro_f1(truth, model.predict(case.test_words)),
        metrics.jaccard_accuracy(truth, probs >= for_jaccard),
        metrics.expected_calibration_error(truth, probs),
        log_likelihood(truth, probs),
        log_likelihood(truth, np.tile(case.labels.mean(axis=0), (len(truth), 1))),
        metrics.micro_f1(case.labels, np.asarray(targets) >= 0.5),
        seconds,
    )


def log_likelihood(truth: Any, probs: Any) -> float:
    probs = np.clip(probs, 1e-9, 1.0 - 1e-9)
    return float(np.mean(np.where(truth == 1, np.log(probs), np.log1p(-probs))))


def mean(rows: Any) -> Scores:
    return Scores(*np.mean(list(rows), axis=0))


def shown(scores: Scores) -> str:
    return (
        f"micro-F1 {scores.at_half:.4f} at 1/2, {scores.chosen:.4f} chosen; Jaccard {scores.jaccard:.4f}; "
        f"ECE {scores.calibration_error:.4f}; consensus {scores.consensus:.4f}; {scores.seconds:.0f} s"
    )


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


def table(names: list[str]) -> None:
    """Test micro-F1 from votes, and from gold labels with the same settings."""
    rows = []
    for name in names or SETS:
        case = case_of(name)
        runs = [from_votes(case, seed) for seed in SEEDS]
        votes, ratio = mean(run[0] for run in runs), float(np.mean([run[1] for run in runs]))
        truth = mean(from_gold(case, seed) for seed in SEEDS[:2])
        half, chosen, gap = TARGETS[name]
        print(f"{name}, from votes: {shown(votes)}; annotator RMSE {ratio:.2f} times the oracle's")
        print(f"{name}, from gold labels: {shown(truth)}")
        print(
            f"  at 1/2 {verdict(votes.at_half >= half)} ({half}), chosen {verdict(votes.chosen >= chosen)} ({chosen}); "
            f"gold labels are better by {truth.at_half - votes.at_half:.4f} and {truth.chosen - votes.chosen:.4f}: "
            f"{verdict(max(truth.at_half - votes.at_half, truth.chosen - votes.chosen) <= gap)} ({gap}); Jaccard "
            f"{verdict(votes.jaccard > JACCARD_TARGETS[name])} ({JACCARD_TARGETS[name]})",
            flush=True,
        )
        rows.append(
            f"| {name} | {votes.at_half:.3f} / {votes.chosen:.3f} | {truth.at_half:.3f} / {truth.chosen:.3f} | "
            f"{votes.jaccard:.3f} | {votes.calibration_error:.3f} | {votes.log_likelihood:.3f} / "
            f"{votes.base_log_likelihood:.3f} | {votes.consensus:.3f} | {ratio:.2f} |"
        )
    print("\n".join([HEADING, *rows]), flush=True)


def adversaries(names: list[str]) -> None:
    """Ten of fifty annotators are malicious."""
    del names
    case = case_of("reuters")
    runs = [from_votes(case, seed, profile="adversarial") for seed in SEEDS]
    scores, ratio = mean(run[0] for run in runs), float(np.mean([run[1] for run in runs]))
    print(f"reuters, adversaries: {shown(scores)}; annotator RMSE {ratio:.2f} times the oracle's")
    print(f"  {verdict(scores.at_half >= 0.93)} (.93), {verdict(ratio <= 1.1)} (1.1)", flush=True)


def tenth(names: list[str]) -> None:
    """A tenth of the training documents."""
    del names
    case = case_of("reuters")
    rows = []
    for seed in SEEDS:
        few = np.sort(np.random.default_rng(seed).choice(len(case.labels), len(case.labels) // 10, replace=False))
        rows.append(from_votes(case._replace(words=case.words[few], labels=case.labels[few]), seed)[0])
    scores = mean(rows)
    print(f"10% of reuters: {shown(scores)}\n  {verdict(scores.at_half >= 0.905)} (.905)", flush=True)


def parts(names: list[str]) -> None:
    """Contribution of each part: label priors with and without profiles, and annotator models, one seed."""
    for name in names or SETS:
        case = case_of(name)
        for settings in (
            *({"label_prior": prior, "n_profiles": n} for prior in ("topics", "words", "stacked") for n in (1, "auto")),
            {"annotators": "one_coin"},
            {"annotators": "per_class"},
        ):
            print(f"{name}, {settings}: {shown(from_votes(case, 0, **settings)[0])}", flush=True)
        given, _ = simulate.crowd(case.labels, "paper", votes_per_doc=VOTES_PER_DOC, seed=0)
        model = Raykar(random_state=0).fit(case.words, given)
        probs = model.predict_proba(case.test_words)
        consensus = metrics.micro_f1(case.labels, model.consensus_ >= 0.5)
        at_half = metrics.micro_f1(case.test_labels, probs >= 0.5)
        print(f"{name}, plain Raykar: micro-F1 {at_half:.4f} at 1/2; consensus {consensus:.4f}", flush=True)


def votes(names: list[str]) -> None:
    """Fewer votes per document, against logistic regression on labels of majority vote and of Dawid and Skene."""
    for name in names or ("reuters", "enron"):
        case = case_of(name)
        for votes_per_doc in (1, 2, 3, 5, 10):
            ours = from_votes(case, 0, votes_per_doc)[0]
            given, _ = simulate.crowd(case.labels, "paper", votes_per_doc=votes_per_doc, seed=0)
            baselines = []
            for rule in ("majority", "dawid_skene"):
                model = OneVsRest(random_state=0).fit(case.words, aggregate_labels(given, rule).labels)
                baselines.append(metrics.micro_f1(case.test_labels, model.predict_proba(case.test_words) >= 0.5))
            print(
                f"{name}, {votes_per_doc} votes: palda {shown(ours)}; majority {baselines[0]:.4f}, Dawid-Skene "
                f"{baselines[1]:.4f}",
                flush=True,
            )


def sets(names: list[str]) -> None:
    """Label-set profiles against none, with words, for several numbers of votes."""
    for name in names or SETS:
        case = case_of(name)
        for votes_per_doc in (1, 2, 5):
            multiple, single = (
                mean(
                    from_votes(case, seed, votes_per_doc, n_profiles=n)[0]
                    for seed in SEEDS[: 1 if is_slow(case) else 3]
                )
                for n in ("auto", 1)
            )
            print(
                f"{name}, {votes_per_doc} votes: consensus {single.consensus:.4f} -> {multiple.consensus:.4f}; test at "
                f"1/2 {single.at_half:.4f} -> {multiple.at_half:.4f}, chosen {single.chosen:.4f} -> "
                f"{multiple.chosen:.4f}",
                flush=True,
            )


def is_slow(case: Case) -> bool:
    return case.labels.shape[1] > 100


def priors(names: list[str]) -> None:
    """Label priors on gold labels."""
    for name in names or SETS[:4]:
        case = case_of(name)
        for kind in ("topics", "words", "stacked"):
            print(f"{name}, gold labels, {kind}: {shown(from_gold(case, 0, label_prior=kind))}", flush=True)


def cost(names: list[str]) -> None:
    """A crowd fit against scikit-learn's logistic regression, one per class, penalty and fold, one thread each.

    With the same folds and penalties, once: the cost of choosing a penalty. And nested: the cost of out-of-fold scores
    with a chosen penalty, which a crowd fit computes several times.
    """
    for name in names or ("bibtex",):
        case = case_of(name)
        ours = from_votes(case, 0, n_jobs=1)[0].seconds
        words = sparse.csr_matrix(tf_idf(case.words, inverse_document_frequencies(case.words)))
        folds = assign_folds(case.labels.astype(np.float64), 3, seed=0)
        once = sum(regressions(words[folds != fold], case.labels[folds != fold]) for fold in range(3))
        nested = once  # then three folds inside each fold, two thirds of its documents each
        for fold in range(3):
            inside = np.flatnonzero(folds != fold)
            inner = assign_folds(case.labels[inside].astype(np.float64), 3, seed=0)
            nested += sum(regressions(words[inside[inner != k]], case.labels[inside[inner != k]]) for k in range(3))
        print(
            f"{name}: palda {ours:.0f} s; scikit-learn {once:.0f} s: {verdict(ours < once)}; nested {nested:.0f} s: "
            f"{verdict(ours < nested)}",
            flush=True,
        )


def regressions(words: Any, labels: Any) -> float:
    """Seconds for a logistic regression of every class with every penalty."""
    start = time.perf_counter()
    for penalty in ClassifierSettings().word_penalties:
        for column in labels.T:
            if 0 < column.sum() < len(column):
                LogisticRegression(C=1.0 / penalty, max_iter=500).fit(words, column)
    return time.perf_counter() - start


PARTS = (table, adversaries, tenth, parts, votes, sets, priors, cost)


def main(arguments: list[str] | None = None) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = sys.argv[2:] if arguments is None else arguments
    named = [part for part in PARTS if part.__name__ in chosen]
    for part in named or PARTS:
        print(f"-- {part.__doc__}", flush=True)
        try:
            part([name for name in chosen if name in SETS])
        except PaldaError as missing:
            print(f"skipped: {missing}")


if __name__ == "__main__":
    main(sys.argv[1:])
