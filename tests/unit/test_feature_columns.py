"""Feature tables: what they accept, how they are matched with documents, and their standardised columns."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda.data import EncodedFeatures, FeatureColumns, FeatureTable, learn_feature_columns, row_ids, take_features
from palda.errors import DataError

RNG = np.random.default_rng(0)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "length": [1.0, 2.0, np.nan, 4.0],
            "source": ["web", "print", "web", None],
            "constant": [7, 7, 7, 7],
            "vector": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 9.0]],
        },
        index=["a", "b", "c", "d"],
    )


def test_single_precision_is_not_copied() -> None:
    values = RNG.normal(size=(5, 3)).astype(np.float32)
    table = FeatureTable.of(values)
    assert np.shares_memory(table.values, values)
    assert not table.values.flags.writeable
    assert values.flags.writeable


def test_a_memory_map_stays_one(tmp_path: Path) -> None:
    np.save(tmp_path / "values.npy", RNG.normal(size=(5, 3)))
    table = FeatureTable.of(np.load(tmp_path / "values.npy", mmap_mode="r"))
    assert isinstance(table.values, np.memmap)


def test_a_frame_has_numbers_categories_and_lists() -> None:
    table = FeatureTable.of(frame())
    assert table.names.tolist() == ["length", "source", "constant", "vector[0]", "vector[1]"]
    assert [None if names is None else names.tolist() for names in table.categories] == [
        None, ["print", "web"], None, None, None,
    ]  # fmt: skip
    assert table.doc_ids is not None
    assert table.doc_ids.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(table.values[:, 1], [1.0, 0.0, 1.0, np.nan])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(3), "features have shape"),
        (np.array([["a"]]), "must be numbers"),
        (pd.DataFrame({"when": pd.to_datetime(["2024-01-01"])}), "column of times"),
        (pd.DataFrame({"v": [[1.0, 2.0], [1.0]]}), "holds 1 numbers, not 2"),
        (pd.DataFrame({"v": [[1.0], "x"]}), "instead of a list"),
        (pd.DataFrame({"v": [["x"]]}), "not a number"),
        (pd.DataFrame(index=range(3)), "no columns"),
        (np.zeros((3, 0)), "no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns"),
    ],
)
def test_what_is_no_table_of_features_is_named_in_one_line(features: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        FeatureTable.of(features)
    assert "\n" not in str(caught.value)


class Tensor:
    """An array of another library: its types are not those of NumPy."""

    shape, dtype = (3, 1), "float32"

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([[1.0], [np.nan], [3.0]])


@pytest.mark.parametrize(
    "features",
    [
        Tensor(),
        np.matrix([[1.0], [np.nan], [3.0]]),
        np.ma.array([[1.0], [9.0], [3.0]], mask=[[False], [True], [False]]),
        pa.table({"x": [1.0, None, 3.0]}),
        pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")}),
        pd.DataFrame({"x": [1, None, 3]}, dtype=object),
        pd.DataFrame({"x": [Decimal(1), None, Decimal(3)]}),
    ],
)
def test_numbers_of_other_libraries_are_numbers(features: Any) -> None:
    table = FeatureTable.of(features)
    assert table.categories == (None,)
    np.testing.assert_array_equal(table.values[:], [[1.0], [np.nan], [3.0]])


def test_categories_are_known_by_their_text() -> None:
    table = FeatureTable.of(pd.DataFrame({"x": pd.Categorical([1.0, 2.0]), "y": [" web", "web"], "z": ["", "a"]}))
    assert [names.tolist() for names in table.categories if names is not None] == [["1", "2"], ["web"], ["a"]]
    np.testing.assert_array_equal(table.values[:], [[0, 0, np.nan], [1, 0, 0]])


def test_only_default_numbering_is_no_id() -> None:
    numbered = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]})
    assert row_ids(numbered) is None
    for other in (numbered.iloc[::2], numbered.iloc[1:], numbered.iloc[::-1]):
        assert FeatureTable.of(other).doc_ids.tolist() == [str(row) for row in other.index]  # type: ignore[union-attr]


def test_rows_are_matched_by_id_without_a_copy() -> None:
    table = FeatureTable.of(frame()).on_documents(["d", "a"])
    np.testing.assert_array_equal(table.values[:][:, 0], [4.0, 1.0])
    assert len(table) == 2


def test_a_document_without_a_row_is_named() -> None:
    with pytest.raises(DataError, match="no row for document 'x' \\(and 1 more\\)"):
        FeatureTable.of(frame()).on_documents(["a", "x", "y"])


def test_rows_without_ids_must_be_as_many_as_documents() -> None:
    with pytest.raises(DataError, match="there are 3 documents, but features have 2 rows"):
        FeatureTable.of(np.zeros((2, 1))).on_documents(None, 3)


def test_an_infinite_number_is_named_with_its_place() -> None:
    values = np.zeros((4, 2))
    values[2, 1] = np.inf
    with pytest.raises(DataError, match=r"inf in row 2 .* column 'features\[1\]'"):
        FeatureTable.of(values).check_finite()


def test_numbers_are_standardised_and_gaps_are_at_the_mean() -> None:
    columns, notes = learn_feature_columns(FeatureTable.of(frame()))
    encoded = columns.apply(FeatureTable.of(frame()).values[:])
    assert columns.groups.tolist() == ["length", "source", "source", "vector", "vector", "length", "source"]
    np.testing.assert_allclose(encoded[[0, 1, 3], 0].std(), 1.0)
    assert encoded[2, 0] == 0.0
    assert "constant" in notes[0]
    assert "2 values are missing, in 2 columns" in notes[1]


def test_an_unknown_category_counts_as_missing() -> None:
    columns, _ = learn_feature_columns(FeatureTable.of(frame()))
    new = frame().assign(source=["radio", "web", "print", "web"])
    encoded = columns.apply(columns.rows_of(FeatureTable.of(new))[:])
    np.testing.assert_array_equal(encoded[0, 1:3], 0.0)
    assert encoded[0, 6] > 0.0  # the indicator of a missing source


def test_columns_are_matched_by_name_and_categories_by_value() -> None:
    table = FeatureTable.of(frame())
    columns, _ = learn_feature_columns(table)
    other = frame()[["vector", "constant", "source", "length"]].assign(more=1.0, source=["web", "print", "web", "air"])
    expected = frame().assign(source=["web", "print", "web", None])
    given_rows, expected_rows = (columns.rows_of(FeatureTable.of(one))[:] for one in (other, expected))
    np.testing.assert_array_equal(given_rows, expected_rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.drop(columns="length"), "no column 'length'"),
        (lambda one: one.assign(length=["a", "b", "c", "d"]), "learned from numbers, but here are categories"),
        (lambda one: one.assign(vector=[[0.0, 1.0, 2.0]] * 4), "'vector' has 3 numbers, but the model learned from 2"),
        (lambda _: np.zeros((4, 7)), "features have 7 columns, but the model learned from 5"),
    ],
)
def test_other_columns_than_those_learned_are_one_clear_line(change: Any, message: str) -> None:
    columns, _ = learn_feature_columns(FeatureTable.of(frame()))
    with pytest.raises(DataError, match=message) as caught:
        columns.rows_of(FeatureTable.of(change(frame())))
    assert "\n" not in str(caught.value)


def test_columns_without_anything_to_learn_are_refused() -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        learn_feature_columns(FeatureTable.of(np.ones((4, 2))))


def test_a_column_of_ids_is_refused() -> None:
    names = pd.DataFrame({"id": [f"doc {number}" for number in range(1001)]})
    with pytest.raises(DataError, match="1,001 categories"):
        learn_feature_columns(FeatureTable.of(names))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(1, 5), st.sampled_from([np.float32, np.float64]))
def test_columns_have_mean_zero_and_standard_deviation_one(seed: int, n_docs: int, n_columns: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 6, n_columns)
    values = ((rng.normal(size=(n_docs, n_columns)) + rng.normal(size=n_columns)) * scale).astype(dtype)
    columns, _ = learn_feature_columns(FeatureTable.of(values))
    encoded = columns.apply(values)
    assert np.abs(encoded).max() <= 5.0
    unclipped = np.abs(encoded).max(axis=0) < 5.0
    np.testing.assert_allclose(encoded[:, unclipped].mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(encoded[:, unclipped].std(axis=0), 1.0, atol=1e-3)


def test_the_result_does_not_depend_on_blocks_of_rows() -> None:
    values = RNG.normal(size=(50, 4))
    values[3, 2] = np.nan
    features = EncodedFeatures(FeatureTable.of(values).values, learn_feature_columns(FeatureTable.of(values)).columns)
    whole = features.standardised()
    np.testing.assert_array_equal(
        np.concatenate([features.standardised(slice(0, 9)), features.standardised(slice(9, 50))]), whole
    )
    rows = np.array([7, 3, 49])
    np.testing.assert_array_equal(features.take(rows).standardised(), whole[rows])


def test_a_pickled_subset_holds_only_its_rows() -> None:
    values = RNG.normal(size=(100_000, 2))
    subset = take_features(values, np.array([5, 2]))
    data = pickle.dumps(subset)
    assert len(data) < 2000
    np.testing.assert_array_equal(pickle.loads(data)[:], values[[5, 2]])  # noqa: S301 - our own


def test_columns_survive_a_file() -> None:
    table = FeatureTable.of(frame())
    columns, _ = learn_feature_columns(table)
    again = FeatureColumns.from_arrays(columns.names, columns.categories, columns.arrays())
    np.testing.assert_array_equal(again.apply(table.values[:]), columns.apply(table.values[:]))


@pytest.mark.parametrize(("name", "value"), [("source", 9), ("category", 5)])
def test_columns_that_do_not_fit_their_names_are_refused(name: str, value: int) -> None:
    columns, _ = learn_feature_columns(FeatureTable.of(frame()))
    arrays = {key: array.copy() for key, array in columns.arrays().items()}
    arrays[name][1] = value
    with pytest.raises(ValueError, match=r"features differ|out of range"):
        FeatureColumns.from_arrays(columns.names, columns.categories, arrays)


@pytest.mark.parametrize(
    "rows", [slice(None), slice(2, 9), slice(None, None, -2), np.array([7, 0, 7]), np.array([], int)]
)
def test_standardised_columns_do_not_depend_on_blocks(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = FeatureTable.of(RNG.normal(size=(11, 3)).astype(np.float32))
    encoded = EncodedFeatures(table.values, learn_feature_columns(table).columns)
    whole = encoded.standardised(rows, np.float32)
    np.testing.assert_array_equal(whole, encoded.columns.apply(table.values[rows], np.float32))
    monkeypatch.setattr("palda.data.feature_columns._ROWS_PER_BLOCK", 2)
    np.testing.assert_array_equal(encoded.standardised(rows, np.float32), whole)


def test_a_column_without_values_may_be_of_either_kind() -> None:
    columns = learn_feature_columns(FeatureTable.of(frame())).columns
    for blank in (None, np.nan):
        table = FeatureTable.of(frame().assign(length=blank, source=blank))
        np.testing.assert_array_equal(columns.rows_of(table)[:][:, :2], np.full((4, 2), np.nan))
    with pytest.raises(DataError, match="the model learned from categories, but here are numbers"):
        columns.rows_of(FeatureTable.of(frame().assign(source=1.0)))


def test_names_that_are_missing_on_one_side_are_said() -> None:
    values = RNG.normal(size=(5, 2))
    unnamed = learn_feature_columns(FeatureTable.of(values)).columns
    with pytest.raises(DataError, match="2 columns with names, but the model learned from an array"):
        unnamed.rows_of(FeatureTable.of(pd.DataFrame(values, columns=["x", "y"])))
    named = learn_feature_columns(FeatureTable.of(frame()[["length", "source"]])).columns
    with pytest.raises(
        DataError, match="2 columns without names, but some that the model learned from hold categories"
    ):
        named.rows_of(FeatureTable.of(values))


def test_differences_too_small_to_be_squared_count_as_none() -> None:
    values = np.column_stack((RNG.normal(size=20), 1e-200 * RNG.normal(size=20)))
    columns, notes = learn_feature_columns(FeatureTable.of(values))
    assert columns.source.tolist() == [0]
    assert "features[1]" in notes[0]


def test_a_table_without_rows_is_named() -> None:
    with pytest.raises(DataError, match="features have no rows"):
        learn_feature_columns(FeatureTable.of(np.zeros((0, 2))))


def test_another_text_in_every_row_is_no_category() -> None:
    table = pd.DataFrame({"x": np.arange(50.0), "key": [f"k{row}" for row in range(50)]})
    with pytest.raises(DataError, match=r"^column 'key': has another text in every row"):
        learn_feature_columns(FeatureTable.of(table))
    assert len(learn_feature_columns(FeatureTable.of(table.replace("k1", "k2"))).columns) == 50


def test_bits_do_not_depend_on_the_order_in_memory() -> None:
    values = RNG.normal(size=(1000, 3)).astype(np.float32)
    by_row, by_column = (
        EncodedFeatures(table.values, learn_feature_columns(table).columns)
        for table in map(FeatureTable.of, (values, np.asfortranarray(values)))
    )
    np.testing.assert_array_equal(by_row.columns.spread, by_column.columns.spread)
    assert by_column.standardised().flags.c_contiguous
