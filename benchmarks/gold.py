"""As good as gold: from the votes of simulated annotators to within a hair of what the true labels give.

``python -m benchmarks gold`` prints every table; names of parts print those alone, names of data sets narrow them:
``python -m benchmarks gold table reuters scene``. Parts: ``table`` (test micro-F1 from votes and from the truth),
``adversaries``, ``tenth`` (10% of Reuters), ``parts`` (which part earns what), ``votes`` (fewer votes a document),
``priors`` (label priors on clean labels), ``cost`` (against one logistic regression a class). Means over seeds of the
simulated annotators; nothing is chosen on test documents. Needs the public data sets in $PALDA_DATA, and an hour or two
for everything.
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

from palda import PALDA, CrowdPALDA, ValueWords, metrics
from palda.data import catalog, simulate
from palda.data.types import Values
from palda.errors import PaldaError
from palda.metrics.thresholds import choose_thresholds
from palda.priors.features import inverse_document_frequencies, tf_idf
from palda.priors.folds import assign_folds
from palda.priors.logistic import HeadSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = range(5)
VOTES_PER_DOC = 5
SETS = ("reuters", "scene", "yeast", "enron", "bibtex")
TARGETS = {  # micro-F1 at ½, with chosen thresholds, and how much better the truth may be
    "reuters": (0.935, 0.935, 0.005),
    "scene": (0.745, 0.75, 0.01),
    "yeast": (0.625, 0.655, 0.01),
    "enron": (0.55, 0.59, 0.01),
    "bibtex": (0.46, 0.485, 0.01),
}
JACCARD_TARGETS = {"reuters": 0.881, "bibtex": 0.309, "enron": 0.430, "scene": 0.594, "yeast": 0.462}


class Case(NamedTuple):
    """A data set as counts: training documents, test documents and their true labels."""

    name: str
    words: Any
    labels: NDArray[np.int8]
    test_words: Any
    test_labels: NDArray[np.int8]


class Scores(NamedTuple):
    """What a model reaches on test documents, and its consensus on the training documents."""

    at_half: float
    chosen: float
    jaccard: float
    calibration_error: float
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
    """Scores of a fit to simulated votes, and the annotators' RMSE in multiples of the oracle's."""
    votes, annotators = simulate.crowd(case.labels, profile, votes_per_doc=votes_per_doc, seed=seed)
    start = time.perf_counter()
    model = CrowdPALDA(random_state=seed, **settings).fit(case.words, votes)
    taken = time.perf_counter() - start
    found = metrics.annotator_rmse(model.annotator_quality_["quality"], annotators.quality)
    oracle = metrics.oracle_rmse(votes, case.labels, annotators.quality)
    return scores_of(case, model, model.consensus_, taken), found / oracle


def from_truth(case: Case, seed: int, **settings: Any) -> Scores:
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
        metrics.micro_f1(case.labels, np.asarray(targets) >= 0.5),
        seconds,
    )


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
    """Test micro-F1 from votes, and from the truth with the same settings."""
    for name in names or SETS:
        case = case_of(name)
        votes = mean(from_votes(case, seed)[0] for seed in SEEDS)
        truth = mean(from_truth(case, seed) for seed in SEEDS[:2])
        half, chosen, gap = TARGETS[name]
        print(f"{name}, from votes: {shown(votes)}")
        print(f"{name}, from the truth: {shown(truth)}")
        print(
            f"  at 1/2 {verdict(votes.at_half >= half)} ({half}), chosen {verdict(votes.chosen >= chosen)} ({chosen}); "
            f"the truth is better by {truth.at_half - votes.at_half:.4f} and {truth.chosen - votes.chosen:.4f}: "
            f"{verdict(max(truth.at_half - votes.at_half, truth.chosen - votes.chosen) <= gap)} ({gap}); Jaccard "
            f"{verdict(votes.jaccard > JACCARD_TARGETS[name])} ({JACCARD_TARGETS[name]})",
            flush=True,
        )


def adversaries(names: list[str]) -> None:
    """Ten of fifty annotators lie."""
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
    """Which part earns what: label priors, profiles and annotator models, one seed."""
    for name in names or SETS[:4]:
        case = case_of(name)
        for settings in (
            {"label_prior": "words", "n_profiles": 1},
            {"label_prior": "words"},
            {"label_prior": "topics"},
            {"n_profiles": 1},
            {"annotators": "one_coin"},
            {"annotators": "per_class"},
            {},
        ):
            print(f"{name}, {settings or 'default'}: {shown(from_votes(case, 0, **settings)[0])}", flush=True)


def votes(names: list[str]) -> None:
    """Fewer votes a document, against a logistic regression on the majority's labels."""
    for name in names or ("reuters",):
        case = case_of(name)
        for votes_per_doc in (1, 2, 3, 5):
            print(f"{name}, {votes_per_doc} votes: {shown(from_votes(case, 0, votes_per_doc)[0])}", flush=True)
        for votes_per_doc in (3, 10):
            print(f"{name}, majority of {votes_per_doc}: micro-F1 {majority(case, votes_per_doc):.4f}", flush=True)


def majority(case: Case, votes_per_doc: int) -> float:
    given, _ = simulate.crowd(case.labels, "paper", votes_per_doc=votes_per_doc, seed=0)
    labels = 2 * given.yes_per_pair() > given.per_pair()
    idf = inverse_document_frequencies(case.words)
    words, test_words = (sparse.csr_matrix(tf_idf(counts, idf)) for counts in (case.words, case.test_words))
    columns = [LogisticRegression(C=10.0, max_iter=500).fit(words, column).predict(test_words) for column in labels.T]
    return metrics.micro_f1(case.test_labels, np.column_stack(columns))


def priors(names: list[str]) -> None:
    """Label priors on clean labels."""
    for name in names or SETS[:4]:
        case = case_of(name)
        for kind in ("topics", "words", "stacked"):
            print(f"{name}, true labels, {kind}: {shown(from_truth(case, 0, label_prior=kind))}", flush=True)


def cost(names: list[str]) -> None:
    """A whole crowd fit against one logistic regression a class, fold and penalty, one thread each."""
    for name in names or ("bibtex",):
        case = case_of(name)
        ours = from_votes(case, 0, n_jobs=1)[0].seconds
        words = sparse.csr_matrix(tf_idf(case.words, inverse_document_frequencies(case.words)))
        settings = HeadSettings()
        folds = assign_folds(case.labels.astype(np.float64), 3, seed=0)
        start = time.perf_counter()
        for penalty in settings.word_penalties:
            for fold in range(3):
                for column in case.labels[folds != fold].T:
                    if 0 < column.sum() < len(column):
                        LogisticRegression(C=1.0 / penalty, max_iter=500).fit(words[folds != fold], column)
        theirs = time.perf_counter() - start
        print(f"{name}: palda {ours:.0f} s, scikit-learn {theirs:.0f} s: {verdict(ours < theirs)}", flush=True)


PARTS = (table, adversaries, tenth, parts, votes, priors, cost)


def main(arguments: list[str] | None = None) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = sys.argv[2:] if arguments is None else arguments
    named = [part for part in PARTS if part.__name__ in chosen]
    for part in named or PARTS:
        print(f"-- {part.__doc__}", flush=True)
        try:
            part([name for name in chosen if name in SETS])
        except PaldaError as missing:
            print(f"left out: {missing}")


if __name__ == "__main__":
    main(sys.argv[1:])
