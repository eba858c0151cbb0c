from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from palda.data import Values, ValueWords, names_array
from palda.errors import DataError

SCOPES = [{"scope": "feature"}, {"scope": "feature", "strategy": "kmeans"}, {"scope": "pooled", "n_words": 4}]


@parametrize_with_checks([ValueWords(**options) for options in SCOPES])
def test_scikit_learn_accepts_the_contract(estimator: ValueWords, check: object) -> None:
    check(estimator)


# Words of one feature


def test_quantile_bins_are_equally_filled() -> None:
    values = np.random.default_rng(0).normal(size=(1000, 3))
    counts = ValueWords(n_bins=5).fit_transform(values)
    assert counts.dtype == np.int32
    assert counts.shape == (1000, 15)
    assert counts.sum(axis=0).tolist() == [200] * 15
    assert counts.sum(axis=1).tolist() == [3] * 1000


def test_kmeans_bins_follow_the_clusters() -> None:
    column = np.array([0.0, 0.1, 0.2, 0.1, 0.0, 5.0, 9.0, 9.1])[:, None]
    counts = ValueWords(n_bins=3, strategy="kmeans").fit_transform(column)
    assert counts.sum(axis=0).tolist() == [5, 1, 2]


def test_words_of_different_features_differ() -> None:
    counts = ValueWords(n_bins=2).fit_transform([[0.0, 1.0], [1.0, 0.0]])
    assert counts.toarray().tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]


def test_names_are_readable_and_respect_the_feature_names() -> None:
    frame = pd.DataFrame({"width": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "always": [7.0] * 6})
    words = ValueWords(n_bins=3).fit(frame)
    assert words.get_feature_names_out().tolist() == ["width<1.5", "width[1.5,3.5)", "width≥3.5", "always"]
    assert ValueWords(n_bins=2).fit(frame.to_numpy()).get_feature_names_out(["a", "b"]).tolist() == [
        "a<2.5",
        "a≥2.5",
        "b",
    ]


def test_names_have_as_many_digits_as_tell_bins_apart() -> None:
    column = 1 + np.arange(100.0)[:, None] * 1e-9
    names = ValueWords(n_bins=4).fit(column).get_feature_names_out()
    assert len(set(names)) == 4


def test_repeated_values_make_fewer_bins_and_no_empty_ones() -> None:
    mostly_zero = np.array([0.0] * 18 + [3.0, 4.0])
    yes_no = np.array([0.0, 1.0] * 10)
    constant = np.full(20, 2.0)
    words = ValueWords(n_bins=5)
    counts = words.fit_transform(np.column_stack((mostly_zero, yes_no, constant)))
    assert [len(edges) + 1 for edges in words.edges_] == [2, 2, 1]
    assert counts.sum(axis=0).tolist() == [18, 2, 10, 10, 20]


def test_unseen_values_fall_into_the_outer_bins() -> None:
    words = ValueWords(n_bins=3).fit(np.arange(9.0)[:, None])
    assert words.transform([[-1e9], [1e9]]).toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("options", SCOPES)
def test_a_missing_value_gives_no_word(options: dict[str, object]) -> None:
    values = np.random.default_rng(0).normal(size=(30, 3))
    values[0, 1] = values[7] = np.nan
    counts = ValueWords(**options).fit_transform(values)
    assert counts.sum(axis=1).tolist() == [2] + [3] * 6 + [0] + [3] * 22


def test_a_feature_without_training_values_has_no_words() -> None:
    words = ValueWords(n_bins=2).fit([[np.nan, 0.0], [np.nan, 1.0]])
    assert words.get_feature_names_out().tolist() == ["x1<0.5", "x1≥0.5"]
    assert words.transform([[5.0, 0.0]]).toarray().tolist() == [[1, 0]]


# Pooled words


def test_pooled_words_forget_the_feature() -> None:
    counts = ValueWords(scope="pooled", n_words=2).fit_transform([[0.0, 10.0], [10.1, 0.1], [0.0, 0.1]])
    assert counts.toarray().tolist() == [[1, 1], [1, 1], [2, 0]]


def test_pooled_words_are_the_nearest_cluster_centres() -> None:
    values = np.random.default_rng(0).normal(size=(40, 5))
    words = ValueWords(scope="pooled", n_words=7).fit(values)
    nearest = np.abs(values[:, :, None] - words.centers_).argmin(axis=2)
    expected = np.array([np.bincount(row, minlength=7) for row in nearest])
    assert words.transform(values).toarray().tolist() == expected.tolist()
    assert words.get_feature_names_out()[0] == f"value≈{words.centers_[0]:.3g}"


@pytest.mark.parametrize("n_words", [3, 10, 40])
def test_clusters_are_as_tight_as_those_of_scikit_learn(n_words: int) -> None:
    values = np.random.default_rng(1).lognormal(size=(400, 2))
    centres = ValueWords(scope="pooled", n_words=n_words).fit(values).centers_
    loss = (np.abs(values.reshape(-1, 1) - centres).min(axis=1) ** 2).sum()
    peer = KMeans(n_words, n_init=3, random_state=0).fit(values.reshape(-1, 1))
    assert loss <= 1.1 * peer.inertia_


def test_each_centre_is_the_mean_of_its_cluster() -> None:
    values = np.random.default_rng(2).normal(size=(300, 1))
    centres = ValueWords(scope="pooled", n_words=6).fit(values).centers_
    nearest = np.abs(values - centres).argmin(axis=1)
    means = [values[nearest == cluster].mean() for cluster in range(6)]
    np.testing.assert_allclose(centres, means, rtol=1e-12)


def test_fewer_distinct_values_than_clusters_are_their_own_clusters() -> None:
    words = ValueWords(scope="pooled", n_words=100).fit([[1.0, 2.0], [2.0, 3.0]])
    assert words.centers_.tolist() == [1.0, 2.0, 3.0]


# Both


@example(np.array([[-np.finfo(float).max, -np.nextafter(np.finfo(float).max, 0.0)]]), {"scope": "pooled", "n_words": 4})
@given(
    arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
        elements=st.one_of(st.floats(allow_infinity=False), st.sampled_from([0.0, 1.0, -1.0])),
    ),
    st.sampled_from(SCOPES),
)
@settings(deadline=None, max_examples=100)
def test_any_finite_values_give_one_word_each_and_no_empty_word(values: np.ndarray, options: dict[str, object]) -> None:
    if np.isnan(values).all():
        with pytest.raises(DataError, match="every value is missing"):
            ValueWords(**options).fit(values)
        return
    words = ValueWords(**options)
    counts = words.fit_transform(values)
    assert counts.sum(axis=1).tolist() == (~np.isnan(values)).sum(axis=1).tolist()
    assert counts.shape[1] == len(words.get_feature_names_out()) == len(set(words.get_feature_names_out()))
    assert (counts.sum(axis=0) > 0).all()


@pytest.mark.parametrize("options", SCOPES)
def test_the_same_seed_gives_the_same_words_whatever_the_order_of_rows(options: dict[str, object]) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 4))
    first = ValueWords(**options).fit(values).get_feature_names_out()
    again = ValueWords(**options).fit(rng.permutation(values)).get_feature_names_out()
    assert first.tolist() == again.tolist()


@pytest.mark.parametrize("options", SCOPES)
def test_arrays_frames_and_values_give_the_same_counts(options: dict[str, object]) -> None:
    values = np.random.default_rng(4).normal(size=(20, 2))
    items = Values(values, names_array(["Att1", "Att2"]), names_array(range(20)))
    expected = ValueWords(**options).fit_transform(values)
    words = ValueWords(**options)
    assert (words.fit_transform(items) != expected).nnz == 0
    assert words.feature_names_in_.tolist() == ["Att1", "Att2"]
    assert (words.transform(pd.DataFrame(values, columns=["Att1", "Att2"])) != expected).nnz == 0


def test_infinity_is_named_by_row_and_column() -> None:
    with pytest.raises(DataError, match=r"inf in row 1 \(counted from 0\), column 'x0'"):
        ValueWords().fit([[0.0], [np.inf]])
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    words = ValueWords().fit(frame)
    with pytest.raises(DataError, match=r"-inf in row 0 .* column 'b'"):
        words.transform(frame.assign(b=-np.inf))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([["a"]], "could not convert"),
        ([0.0, 1.0], "2D array"),
        (sparse.csr_array(np.eye(2)), "sparse"),
        ([[np.nan]], "every value is missing"),
        (np.empty((0, 2)), "0 sample"),
    ],
)
def test_what_is_not_a_table_of_numbers_is_refused_in_one_line(values: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        ValueWords().fit(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scope": "row"}, "scope must be one of 'feature', 'pooled', not 'row'"),
        ({"strategy": "uniform"}, "strategy must be"),
        ({"n_bins": 1}, "n_bins must be an integer of at least 2, not 1"),
        ({"n_words": 2.5}, "n_words must be"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        ValueWords(**options).fit([[0.0], [1.0]])


def test_clones_pickles_and_works_in_a_pipeline() -> None:
    values = np.random.default_rng(5).normal(size=(60, 2))
    labels = (np.abs(values[:, 0]) > 0.7).astype(int)  # no linear function of the values tells these
    pipeline = make_pipeline(ValueWords(n_bins=8), LogisticRegression()).fit(values, labels)
    assert pipeline.score(values, labels) > 0.85
    words = pickle.loads(pickle.dumps(pipeline[0]))  # noqa: S301 - our own bytes
    assert (words.transform(values) != pipeline[0].transform(values)).nnz == 0
    assert not hasattr(clone(words), "edges_")
    with pytest.raises(NotFittedError):
        clone(words).transform(values)
