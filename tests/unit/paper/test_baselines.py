"""Properties of every baseline: the estimator interface, the registry, chosen thresholds."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone

from palda import metrics
from palda.engine import Threads
from palda.errors import DataError, MissingDependencyError, PaldaError
from palda.paper.baselines import (
    BASELINES,
    CROWD_BASELINES,
    WORD_STRENGTHS,
    Baseline,
    MajorityLabels,
    NoLabels,
    OneVsRest,
    Rakel,
    SupervisedLDA,
    choose_strengths,
    generator,
    out_of_fold_probs,
)

Array = NDArray[np.float64]
LEARNING = [name for name in BASELINES if name not in {"nothing", "majority"}]
THREADED = [name for name in LEARNING if BASELINES[name].package is None]


def documents(n_docs: int = 100, seed: int = 0) -> tuple[Any, NDArray[np.int8]]:
    """Counts of words; three classes, each with words of its own."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, 3)) < (0.5, 0.4, 0.3)).astype(np.int8)
    counts = rng.poisson(0.3 + 1.5 * np.repeat(labels, 5, axis=1))
    return sparse.csr_array(counts), labels


def with_constants(labels: NDArray[np.int8]) -> NDArray[np.int8]:
    """The labels with two inserted classes: one that never occurs and one that always does."""
    return np.insert(labels, [1, 3], [0, 1], axis=1)


def make(baseline: Baseline, seed: int = 0) -> Any:
    if baseline.package is not None:
        pytest.importorskip(baseline.package, reason=f"{baseline.title} needs {baseline.package}")
    return baseline.make(seed, 1, True)


@pytest.fixture(scope="module", params=BASELINES)
def fitted(request: pytest.FixtureRequest) -> Any:
    counts, labels = documents()
    return make(BASELINES[request.param]).fit(counts, with_constants(labels))


def test_baselines_are_registered_by_name_with_distinct_titles() -> None:
    everything = [*BASELINES.items(), *CROWD_BASELINES.items()]
    assert all(name == baseline.name for name, baseline in everything)
    assert len({baseline.title for _, baseline in everything}) == len(everything)
    assert {baseline.features for _, baseline in everything} == {"words", "values"}


def test_the_registry_loads_no_heavy_package() -> None:
    code = (
        "import sys; import palda.paper.baselines; "
        "sys.exit(any(name in sys.modules for name in ('sklearn', 'scipy', 'pandas', 'tomotopy', 'crowdkit')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)  # noqa: S603 - our own script
    assert done.returncode == 0


def test_a_baseline_can_be_cloned_and_does_not_change_its_input(fitted: Any) -> None:
    counts, labels = documents()
    labels = with_constants(labels)
    before, labels_before = counts.copy(), labels.copy()
    for array in (counts.data, counts.indices, counts.indptr, labels):
        array.flags.writeable = False
    np.random.seed(3)  # noqa: NPY002 - the global state is what must not change
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    copy = clone(fitted).set_params(**fitted.get_params())
    probs = copy.fit(counts, labels).predict_proba(counts)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert (counts != before).nnz == 0
    np.testing.assert_array_equal(labels, labels_before)
    assert probs.shape == labels.shape
    assert ((probs >= 0) & (probs <= 1)).all()
    np.testing.assert_array_equal(fitted.predict_proba(counts), probs)
    np.testing.assert_array_equal(copy.predict_proba(counts), probs)


def test_a_class_that_is_constant_in_training_is_predicted_constant(fitted: Any) -> None:
    counts, labels = documents()
    probs, predicted = fitted.predict_proba(counts), fitted.predict(counts)
    assert not predicted[:, 1].any()
    if not isinstance(fitted, NoLabels):
        assert predicted[:, 4].all()
        np.testing.assert_array_equal(predicted, probs >= 0.5)
        only = with_constants(labels)[:, [1, 4]]
        np.testing.assert_array_equal(clone(fitted).fit(counts, only).predict(counts), only)


@pytest.mark.parametrize("name", LEARNING)
def test_baselines_that_read_documents_beat_base_rates(name: str) -> None:
    counts, labels = documents()
    new_counts, new_labels = documents(seed=1)
    base_rates = MajorityLabels().fit(counts, labels).predict_proba(new_counts)
    probs = make(BASELINES[name]).fit(counts, labels).predict_proba(new_counts)
    assert metrics.micro_f1(new_labels, probs >= 0.5) > metrics.micro_f1(new_labels, base_rates >= 0.5) + 0.3
    hedged = 0.01 + 0.98 * probs  # single trees give probabilities of 0 and 1
    assert metrics.class_log_likelihood(new_labels, hedged) > metrics.class_log_likelihood(new_labels, base_rates)


@pytest.mark.parametrize("name", THREADED)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    counts, labels = documents(60)
    one, two = (BASELINES[name].make(5, n_jobs, True).fit(counts, labels).predict_proba(counts) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", THREADED)
def test_a_single_class_is_learned_from_real_values(name: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.0, 3.0, (120, 3)) + 7.0
    labels = (values[:, [1]] > 7.0).astype(np.int8)
    baseline = BASELINES[name].make(0, 1, True).fit(values[:80], labels[:80])
    assert metrics.micro_f1(labels[80:], baseline.predict(values[80:])) > 0.9


def test_constant_baselines_predict_nothing_and_the_majority() -> None:
    counts, labels = documents()
    labels = np.where(np.arange(len(labels))[:, None] % 2, labels, 1 - labels).astype(np.int8)
    tied = np.hstack([labels, (np.arange(len(labels)) % 2)[:, None]]).astype(np.int8)
    nothing, majority = (make(BASELINES[name]).fit(counts, tied) for name in ("nothing", "majority"))
    assert not nothing.predict(counts).any()
    np.testing.assert_array_equal(majority.predict(counts), metrics.majority_baseline(tied, len(tied)))
    np.testing.assert_allclose(majority.predict_proba(counts)[0], tied.mean(axis=0))


def test_invalid_input_is_refused_in_one_line() -> None:
    counts, labels = documents(30)
    values = counts.toarray().astype(float)
    unknown, endless = labels.astype(float), values.copy()
    unknown[3, 1], endless[0, 0] = np.nan, np.inf
    wrong: list[tuple[Any, Any, str]] = [
        (counts * -1, labels, "not negative"),
        (endless, labels, "NaN or infinity"),
        ([["a", "b"]] * 30, labels, "must be numbers"),
        (values[0], labels, "shape"),
        (counts, labels[:-1], "30 documents"),
        (counts, unknown, "unknown labels"),
        (counts, 2 * labels, "0, 1"),
    ]
    for X, Y, message in wrong:
        with pytest.raises(ValueError, match=message) as raised:
            OneVsRest().fit(X, Y)
        assert "\n" not in str(raised.value)
    with pytest.raises(DataError, match="3 features, but training had 15"):
        OneVsRest(n_jobs=1).fit(counts, labels).predict_proba(counts[:, :3])
    with pytest.raises(PaldaError, match="labelset_size"):
        Rakel(0).fit(counts, labels)


def test_a_missing_package_raises_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomotopy", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'palda\[baselines\]'"):
        SupervisedLDA().fit(*documents(10))


def test_generators_accept_seeds_of_any_form() -> None:
    assert generator(4).random() == generator(4).random()
    assert generator(np.random.RandomState(1)).random() == generator(np.random.RandomState(1)).random()
    assert generator(None).random() != generator(None).random()


def test_penalties_are_weak_for_predictive_words_and_strong_for_noise() -> None:
    rng = np.random.default_rng(0)
    features = sparse.csr_array(rng.random((300, 20)) * (rng.random((300, 20)) < 0.5))
    dense = features.toarray()
    labels = np.column_stack([dense[:, 0] > 0.2, rng.random(300) < 0.3]).astype(np.int8)
    predictive, noise = choose_strengths(features, labels, 0, Threads(1))
    assert predictive == WORD_STRENGTHS[-1]
    assert noise == WORD_STRENGTHS[0]


class _Remembers(OneVsRest):
    """Returns the labels of the documents it has seen, and ½ for others."""

    def fit(self, X: Any, Y: Any) -> _Remembers:
        self.seen_ = {tuple(row): labels for row, labels in zip(X, np.asarray(Y, dtype=float), strict=True)}
        self.classes_ = np.arange(Y.shape[1])
        return self

    def predict_proba(self, X: Any) -> Array:
        unknown = np.full(len(self.classes_), 0.5)
        return np.array([self.seen_.get(tuple(row), unknown) for row in X])


def test_out_of_fold_probabilities_come_from_models_that_have_not_seen_the_document() -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    labels = (values > 0.3).astype(np.int8)
    np.testing.assert_array_equal(out_of_fold_probs(_Remembers(), values, labels), np.full((30, 2), 0.5))


@pytest.mark.parametrize("measure", ["micro_f1", "jaccard"])
def test_thresholds_help_where_classes_are_rare(measure: Any) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 2))
    labels = (rng.random((1000, 2)) < expit(1.3 * values - 2.0)).astype(np.int8)
    measured = metrics.micro_f1 if measure == "micro_f1" else metrics.jaccard_accuracy
    base = OneVsRest(n_jobs=1, random_state=0)
    probs = out_of_fold_probs(base, values[:500], labels[:500], random_state=0)
    thresholds = metrics.choose_thresholds(labels[:500], probs, measure)
    new_probs = base.fit(values[:500], labels[:500]).predict_proba(values[500:])
    gain = measured(labels[500:], new_probs >= thresholds) - measured(labels[500:], new_probs >= 0.5)
    assert gain > (0.1 if measure == "micro_f1" else -0.01)


def test_out_of_fold_probabilities_need_one_label_row_per_document() -> None:
    counts, labels = documents(20)
    with pytest.raises(DataError, match="20 documents"):
        out_of_fold_probs(OneVsRest(), counts, labels[:-1])
