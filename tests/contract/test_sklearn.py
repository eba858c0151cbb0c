"""Conventions of scikit-learn estimators."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from palda import PALDA, CrowdPALDA, TextWords, simulate

ONE_COLUMN = "expects one predicted column; PALDA predicts one column per class"
ONE_DIMENSION = "passes 1-D labels; PALDA needs a table"
EXPECTED_TO_FAIL = {
    "check_classifiers_train": ONE_COLUMN,
    "check_classifiers_classes": ONE_COLUMN,
    "check_estimator_sparse_array": ONE_COLUMN,
    "check_estimator_sparse_matrix": ONE_COLUMN,
    "check_transformer_data_not_an_array": ONE_DIMENSION,
    "check_transformer_general": ONE_DIMENSION,
    "check_transformer_n_iter": ONE_DIMENSION,
}
SETTINGS: dict[str, Any] = {"n_topics": 3, "tol": 1e-3, "random_state": 0, "n_jobs": 1}
WORLD = simulate.documents(40, 3, 3, 20, seed=1, doc_length=20)
COUNTS = WORLD.corpus.counts
DENSE = COUNTS.toarray().astype(np.float64)
VOTES = simulate.crowd(WORLD, [0.9, 0.8, 0.7], seed=1, votes_per_doc=2)[0]


@pytest.mark.slow
@parametrize_with_checks(
    [PALDA(2, tol=1e-2, max_iter=60, n_jobs=1, random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_TO_FAIL,
    xfail_strict=True,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the first batch has fewer than 50")
def test_palda_passes_the_checks_of_scikit_learn(estimator: PALDA, check: Callable[[PALDA], None]) -> None:
    check(estimator)


def fit_both(X: Any, **settings: Any) -> list[PALDA | CrowdPALDA]:
    chosen = SETTINGS | settings
    return [PALDA(**chosen).fit(X, WORLD.labels), CrowdPALDA(**chosen).fit(X, VOTES)]


def fit_one(kind: type, X: Any, **settings: Any) -> Any:
    return kind(**(SETTINGS | settings)).fit(X, WORLD.labels if kind is PALDA else VOTES)


both = pytest.mark.parametrize("kind", [PALDA, CrowdPALDA])


@both
def test_init_only_stores_parameters(kind: type) -> None:
    given = {"n_topics": 7, "smoothing": False, "tol": 0.5, "random_state": 3, "verbose": 2}
    model = kind(**given)
    assert set(vars(model)) == set(model.get_params())
    assert {name: model.get_params()[name] for name in given} == given
    assert repr(given["n_topics"]) in repr(model)


@both
def test_clone_copies_parameters_and_no_fitted_state(kind: type) -> None:
    model = fit_one(kind, COUNTS).set_params(n_topics=5, verbose=0)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "lower_bounds_")
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(nonsense=1)


@both
def test_unfitted_model_raises_not_fitted_error(kind: type) -> None:
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(kind(), method)(DENSE)
    with pytest.raises(NotFittedError):
        _ = kind().topic_words_


@both
def test_fit_returns_self_and_keeps_parameters(kind: type) -> None:
    model = kind(**SETTINGS)
    before = model.get_params()
    assert model.fit(COUNTS, WORLD.labels if kind is PALDA else VOTES) is model
    assert model.get_params() == before


@both
def test_pickled_models_predict_the_same(kind: type) -> None:
    model = fit_one(kind, COUNTS)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    np.testing.assert_array_equal(again.predict_proba(COUNTS), model.predict_proba(COUNTS))


@both
def test_another_number_of_words_is_refused(kind: type) -> None:
    model = fit_one(kind, COUNTS)
    assert model.n_features_in_ == 20
    with pytest.raises(ValueError, match=r"19 features, but .* is expecting 20"):
        model.predict(DENSE[:, :19])


@both
def test_feature_names_are_kept_and_checked(kind: type) -> None:
    frame = pd.DataFrame(DENSE, columns=[f"w{k}" for k in range(20)])
    model = fit_one(kind, frame)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


@both
def test_same_seed_gives_equal_models(kind: type) -> None:
    first, second = fit_one(kind, COUNTS), fit_one(kind, COUNTS)
    np.testing.assert_array_equal(first.lower_bounds_, second.lower_bounds_)
    np.testing.assert_array_equal(first.predict_proba(COUNTS), second.predict_proba(COUNTS))
    other = fit_one(kind, COUNTS, random_state=1)
    assert not np.array_equal(first.topic_words_, other.topic_words_)
    generator = fit_one(kind, COUNTS, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(generator.topic_words_, first.topic_words_)


@both
def test_global_random_state_is_not_changed(kind: type) -> None:
    np.random.seed(4)  # noqa: NPY002 - this is the state in question
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit_one(kind, COUNTS)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


SPARSE_FORMATS = ["csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix"]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("container", SPARSE_FORMATS)
def test_sparse_formats_give_the_results_of_dense_arrays(container: str, dtype: type) -> None:
    X = getattr(sparse, container)(DENSE.astype(dtype))
    for given, dense in zip(fit_both(X), fit_both(DENSE), strict=True):
        np.testing.assert_array_equal(given.topic_words_, dense.topic_words_)
        np.testing.assert_array_equal(given.predict_proba(X), dense.predict_proba(DENSE))


def test_duplicate_sparse_entries_are_summed_and_input_is_not_changed() -> None:
    rows, columns = COUNTS.nonzero()
    halves = sparse.coo_array(
        (np.tile(COUNTS.data / 2.0, 2), (np.tile(rows, 2), np.tile(columns, 2))), shape=COUNTS.shape
    )
    doubled = _with_duplicates(halves)
    before = doubled.nnz
    for given, dense in zip(fit_both(doubled), fit_both(DENSE), strict=True):
        np.testing.assert_allclose(given.topic_words_, dense.topic_words_, rtol=1e-9, atol=1e-12)
    assert doubled.nnz == before == 2 * COUNTS.nnz


def _with_duplicates(given: sparse.coo_array) -> sparse.csr_array:
    order = np.argsort(given.coords[0], kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(given.coords[0], minlength=given.shape[0]))))
    return sparse.csr_array((given.data[order], given.coords[1][order], starts), shape=given.shape)


def frozen(array: np.ndarray) -> np.ndarray:
    view = array.copy()
    view.flags.writeable = False
    return view


def test_read_only_and_memory_mapped_counts_are_accepted(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", DENSE)
    read_only = sparse.csr_array((frozen(COUNTS.data), frozen(COUNTS.indices), frozen(COUNTS.indptr)), COUNTS.shape)
    expected = [model.predict_proba(DENSE) for model in fit_both(DENSE)]
    for X in (frozen(DENSE), np.load(tmp_path / "counts.npy", mmap_mode="r"), read_only):
        for model, probs in zip(fit_both(X), expected, strict=True):
            np.testing.assert_array_equal(model.predict_proba(X), probs)
    np.testing.assert_array_equal(np.load(tmp_path / "counts.npy"), DENSE)


def test_counts_labels_votes_and_gold_are_not_changed() -> None:
    X, Y = COUNTS.copy().astype(np.float64), WORLD.labels.astype(float)
    votes = np.random.default_rng(0).integers(-1, 2, (40, 3, 3)).astype(float)
    gold = np.where(np.random.default_rng(1).random(Y.shape) < 0.8, np.nan, Y)
    given = [array.copy() for array in (X.data, X.indices, X.indptr, Y, votes, gold)]
    PALDA(**SETTINGS).fit(X, Y).predict(X)
    CrowdPALDA(**SETTINGS).fit(X, votes, gold=gold).predict(X)
    for before, after in zip(given, (X.data, X.indices, X.indptr, Y, votes, gold), strict=True):
        np.testing.assert_array_equal(after, before)


def test_estimators_work_in_a_pipeline_after_text_words() -> None:
    texts = ["ships carry wheat", "wheat rates rise", "banks lend money", "money rates fall"] * 5
    labels = np.array([[1, 0], [1, 0], [0, 1], [0, 1]] * 5)
    clean = make_pipeline(TextWords(), PALDA(2, tol=1e-3, random_state=0, n_jobs=1)).fit(texts, labels)
    assert clean.predict(["wheat ships"]).shape == (1, 2)
    assert clean.score(texts, labels) > 0.5
    votes = np.repeat(labels[:, None, :], 2, axis=1)
    crowd = make_pipeline(TextWords(), CrowdPALDA(2, tol=1e-3, random_state=0, n_jobs=1)).fit(texts, votes)
    assert crowd.predict_proba(["wheat ships", "no known one"]).shape == (2, 2)
    clone(crowd)


@both
def test_fit_without_convergence_warns_at_the_callers_line(kind: type) -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations; raise max_iter or tol") as caught:
        model = fit_one(kind, COUNTS, max_iter=2, tol=0.0)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert Path(caught[0].filename) == Path(__file__), "the warning points at the caller's line"


@both
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"n_topics": 0}, "'n_topics' .* Got 0"),
        ({"n_topics": 2.5}, "'n_topics' .* Got 2.5"),
        ({"n_init": 0}, "'n_init' .* Got 0"),
        ({"max_iter": -1}, "'max_iter' .* Got -1"),
        ({"inference": "exact"}, "'inference' .* Got 'exact'"),
        ({"label_prior": "none"}, "'label_prior' .* Got 'none'"),
        ({"smoothing": "yes"}, "'smoothing' .* Got 'yes'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"n_jobs": "all"}, "'n_jobs' .* Got 'all'"),
        ({"tol": -1.0}, "'tol' .* Got -1.0"),
        ({"tol": "small"}, "'tol' .* Got 'small'"),
        ({"random_state": "x"}, "'random_state' .* Got 'x'"),
    ],
)
def test_invalid_parameters_are_refused(kind: type, setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit_one(kind, COUNTS, **setting)


def test_best_of_several_starts_is_kept() -> None:
    alone = PALDA(**SETTINGS).fit(COUNTS, WORLD.labels)
    several = PALDA(**SETTINGS, n_init=3).fit(COUNTS, WORLD.labels)
    assert several.lower_bound_ >= alone.lower_bound_
    assert several.lower_bound_ == several.lower_bounds_.max()
