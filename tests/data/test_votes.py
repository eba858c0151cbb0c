from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from palda.data import Corpus, Dataset, Documents, Values, Votes, names_array
from palda.errors import DataError

RECORDS = [
    ("d1", "ann", "crime", 1),
    ("d1", "ann", "arts", 0),
    ("d2", "bob", "crime", 0),
    ("d3", "cid", None, None),
    ("d2", "ann", "arts", None),
    ("d2", "ann", "crime", 1),
]

vote_arrays = hnp.arrays(
    np.int8,
    st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4)),
    elements=st.integers(-1, 1),
)


@pytest.fixture
def votes() -> Votes:
    return Votes.from_records(RECORDS)


def test_records_become_sorted_votes_on_named_axes(votes: Votes) -> None:
    assert votes.doc_ids.tolist() == ["d1", "d2", "d3"]
    assert votes.annotators.tolist() == ["ann", "bob", "cid"]
    assert votes.classes.tolist() == ["arts", "crime"]
    rows = np.column_stack((votes.doc, votes.annotator, votes.label, votes.value)).tolist()
    assert rows == [[0, 0, 0, 0], [0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 0]]


def test_a_look_without_any_judgement_is_an_abstention_and_a_partial_one_is_not(votes: Votes) -> None:
    assert votes.abstained.tolist() == [[2, 2]]


def test_counts_per_pair_and_annotator(votes: Votes) -> None:
    assert votes.per_pair().tolist() == [[1, 1], [0, 2], [0, 0]]
    assert votes.yes_per_pair().tolist() == [[0, 1], [0, 1], [0, 0]]
    assert votes.per_annotator().tolist() == [3, 1, 0]


def test_the_frame_gives_the_same_votes_back(votes: Votes) -> None:
    assert Votes.from_frame(votes.to_frame()) == votes


@given(vote_arrays)
@settings(deadline=None)
def test_array_to_votes_to_frame_to_votes_is_the_identity(array: np.ndarray) -> None:
    votes = Votes.from_array(array)
    assert Votes.from_frame(votes.to_frame(), classes=votes.classes) == votes
    rebuilt = np.full(array.shape, -1)
    rebuilt[votes.doc, votes.annotator, votes.label] = votes.value
    assert np.array_equal(rebuilt, array)


def test_nan_and_minus_one_both_mean_no_judgement() -> None:
    array = np.array([[[1.0, np.nan]], [[-1.0, 0.0]]])
    votes = Votes.from_array(array, classes=["a", "b"])
    assert votes.to_frame()[["doc", "label", "value"]].astype(str).values.tolist() == [
        ["0", "a", "1"],
        ["1", "b", "0"],
    ]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 2)), "shape (documents, annotators, classes)"),
        (np.array([[[2]]]), "vote 2 at [document, annotator, class] [0, 0, 0]"),
        (np.array([[["yes"]]]), "numeric"),
    ],
)
def test_a_wrong_array_is_refused(array: np.ndarray, says: str) -> None:
    with pytest.raises(DataError) as caught:
        Votes.from_array(array)
    assert says in str(caught.value)


@given(vote_arrays, st.data())
@settings(deadline=None)
def test_taking_documents_takes_their_votes_along(array: np.ndarray, data: st.DataObject) -> None:
    votes = Votes.from_array(array)
    rows = data.draw(st.permutations(range(len(array)))).copy()[: data.draw(st.integers(0, len(array)))]
    taken = votes.take(rows)
    direct = Votes.from_array(array[rows], doc_ids=rows)
    assert taken == direct


@given(vote_arrays, st.integers(0, 6), st.integers(0, 6))
@settings(deadline=None)
def test_a_slice_of_documents_equals_taking_them_one_by_one(array: np.ndarray, start: int, stop: int) -> None:
    votes = Votes.from_array(array)
    assert votes.take(slice(start, stop)) == votes.take(np.arange(len(array))[start:stop])


def test_slices_and_selections_keep_abstentions_with_their_documents(votes: Votes) -> None:
    assert votes.take(slice(1, 3)).abstained.tolist() == [[1, 2]]
    assert votes.take([2, 0]).abstained.tolist() == [[0, 2]]
    assert votes.take([0]).abstained.tolist() == []


def test_a_slice_shares_memory_with_the_whole(votes: Votes) -> None:
    assert np.shares_memory(votes.take(slice(0, 2)).value, votes.value)


@pytest.mark.parametrize("rows", [(0, 2), [0, 2], np.array([True, False, True]), [-3, -1]])
def test_rows_may_be_any_sequence_or_mask(votes: Votes, rows: object) -> None:
    assert votes.take(rows) == votes.take(np.array([0, 2]))  # type: ignore[arg-type]


def test_equal_duplicates_count_once() -> None:
    votes = Votes.from_records([("d", "a", "x", 1), ("d", "a", "x", 1)])
    assert len(votes) == 1


def test_contradicting_duplicates_are_refused_with_both_rows() -> None:
    with pytest.raises(DataError) as caught:
        Votes.from_records([("d", "a", "x", 1), ("d", "b", "x", 1), ("d", "a", "x", 0)])
    assert caught.value.row == 2
    assert "contradicts row 0" in str(caught.value)
    assert "duplicates=" in str(caught.value)


@pytest.mark.parametrize(("rule", "kept"), [("last", [0]), ("first", [1]), ("drop", [])])
def test_a_switch_settles_contradictions(rule: str, kept: list[int]) -> None:
    votes = Votes.from_records([("d", "a", "x", 1), ("d", "a", "x", 1), ("d", "a", "x", 0)], duplicates=rule)
    assert votes.value.tolist() == kept


def test_of_timestamped_votes_the_latest_counts_whatever_the_order() -> None:
    frame = pd.DataFrame(
        {
            "doc": ["d", "d"],
            "annotator": ["a", "a"],
            "label": ["x", "x"],
            "value": [1, 0],
            "timestamp": ["2024-05-02T10:00:00Z", "2024-05-01"],
        }
    )
    assert Votes.from_frame(frame).value.tolist() == [1]


def test_more_votes_than_fit_one_integer_with_their_position_still_sort_stably() -> None:
    from palda.data.validation import _stable_order

    key = np.array([1 << 61, 5, 1 << 61, 5], dtype=np.int64)
    assert _stable_order(key).tolist() == [1, 3, 0, 2]


def test_axes_too_large_to_number_their_pairs_are_refused() -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(DataError, match="too many to be numbered"):
        Votes.from_codes(
            nothing, nothing, nothing, nothing,
            doc_ids=np.empty(1 << 22, dtype=object),
            annotators=np.empty(1 << 21, dtype=object),
            classes=np.empty(1 << 21, dtype=object),
        )  # fmt: skip


def test_a_blank_category_is_no_class() -> None:
    label = pd.Categorical(["x", "", "z"], categories=["", "z", "x"])
    frame = pd.DataFrame({"doc": ["d", "e", "f"], "annotator": "a", "label": label, "value": [1, None, 0]})
    votes = Votes.from_frame(frame)
    assert votes.classes.tolist() == ["z", "x"]
    assert votes.abstained.tolist() == [[1, 0]]


def test_an_unused_category_is_a_class_only_if_it_is_asked_for() -> None:
    label = pd.Categorical(["x", "y"], categories=["z", "y", "x"])
    frame = pd.DataFrame({"doc": ["d", "e"], "annotator": "a", "label": label, "value": [1, 0]})
    assert Votes.from_frame(frame).classes.tolist() == ["y", "x"]  # in the order of the categories
    assert Votes.from_frame(frame[:1]).classes.tolist() == ["x"]
    asked = Votes.from_frame(frame, classes=["z", "y", "x"])
    assert asked.classes.tolist() == ["z", "y", "x"]
    assert asked.yes_per_pair().tolist() == [[0, 0, 1], [0, 0, 0]]


def test_a_column_that_a_frame_has_twice_is_named() -> None:
    frame = pd.DataFrame([["d", "a", "x", 1, 0]], columns=["doc", "annotator", "label", "value", "value"])
    with pytest.raises(DataError, match="column 'value': the column occurs twice"):
        Votes.from_frame(frame)


def test_votes_on_given_documents_keep_those_without_votes() -> None:
    votes = Votes.from_records([("b", "x", "c", 1)], documents=["a", "b", "z"])
    assert votes.doc_ids.tolist() == ["a", "b", "z"]
    assert votes.doc.tolist() == [1]


def test_numbers_and_text_name_the_same_document() -> None:
    frame = pd.DataFrame({"doc": [7.0, 8.0], "annotator": [1, 2], "label": ["x", "x"], "value": [True, False]})
    votes = Votes.from_frame(frame, documents=["7", "8"])
    assert votes.value.tolist() == [1, 0]
    assert votes.annotators.tolist() == ["1", "2"]


def test_an_unknown_document_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(DataError, match="document 'doc-2' is not among the 2 known ones; did you mean 'doc-1'"):
        Votes.from_records([("doc-2", "x", "c", 1)], documents=["doc-1", "other"])


def test_permuting_the_records_changes_nothing(votes: Votes) -> None:
    shuffled = Votes.from_records([RECORDS[i] for i in (3, 0, 5, 1, 4, 2)], documents=votes.doc_ids)
    assert shuffled == votes


def test_votes_are_frozen(votes: Votes) -> None:
    with pytest.raises(ValueError, match="read-only"):
        votes.value[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        votes.value = votes.value  # type: ignore[misc]


def test_counts_and_columns_are_frozen_and_their_sources_are_not() -> None:
    from scipy import sparse

    matrix = sparse.csr_array(np.eye(2))
    corpus = Corpus.from_counts(matrix)
    with pytest.raises(ValueError, match="read-only"):
        corpus.counts.data[0] = 5
    column = np.array(["x"], dtype=object)
    documents = Documents(names_array("a"), names_array("b"), {"source": column})
    with pytest.raises(ValueError, match="read-only"):
        documents.fields["source"][0] = "y"
    matrix.data[0] = 5
    column[0] = "y"
    assert np.shares_memory(corpus.counts.data, matrix.data)
    assert pickle.loads(pickle.dumps(corpus)) == corpus  # noqa: S301 - our own bytes


def test_votes_pickle(votes: Votes) -> None:
    assert pickle.loads(pickle.dumps(votes)) == votes  # noqa: S301 - our own bytes


def test_an_array_that_became_votes_stays_writable() -> None:
    array = np.zeros((1, 1, 1), dtype=np.int8)
    Votes.from_array(array)
    array[0, 0, 0] = 1


def test_a_fold_takes_its_votes_along() -> None:
    corpus = Corpus.from_counts(np.eye(7))
    votes = Votes.from_array(np.random.default_rng(0).integers(-1, 2, (7, 3, 2)))
    gold = np.arange(14).reshape(7, 2) % 2
    dataset = Dataset.of(corpus, votes, gold)
    folds = list(dataset.folds(3, random_state=1))
    assert sorted(name for _, fold in folds for name in fold.doc_ids) == sorted(dataset.doc_ids)
    for rest, fold in folds:
        assert not set(rest.doc_ids) & set(fold.doc_ids)
        assert len(rest.votes) + len(fold.votes) == len(votes)
        positions = [int(name) for name in fold.doc_ids]
        assert np.array_equal(fold.Y, gold[positions])
        assert np.array_equal(fold.votes.per_pair(), votes.per_pair()[positions])


@pytest.mark.parametrize("n_folds", [0, 1, 4])
def test_folds_that_cannot_be_made_are_refused(n_folds: int) -> None:
    dataset = Dataset.of(Corpus.from_counts(np.eye(3)))
    with pytest.raises(DataError, match="n_folds"):
        next(dataset.folds(n_folds))


def test_unknown_truth_may_be_written_nan_and_stays_unknown() -> None:
    corpus = Corpus.from_counts(np.eye(2))
    dataset = Dataset.of(corpus, gold=np.array([[1, np.nan], [-1, 0]]), classes=["x", "y"])
    assert dataset.Y.tolist() == [[1, -1], [-1, 0]]
    with pytest.raises(DataError, match="gold label 2 is not 1, 0"):
        Dataset.of(corpus, gold=np.array([[2], [0]]), classes=["x"])


def test_a_dataset_refuses_votes_on_other_documents() -> None:
    with pytest.raises(DataError, match="about other documents"):
        Dataset.of(Corpus.from_counts(np.eye(2)), Votes.from_array(np.zeros((3, 1, 1))))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Corpus.from_counts(np.eye(2), doc_ids=["a", "a"]),
        lambda: Documents(names_array(["a", "a"]), names_array(["x", "y"])),
        lambda: Values(np.zeros((2, 1)), names_array(["f"]), names_array(["a", "a"])),
    ],
)
def test_document_ids_are_unique(build: object) -> None:
    with pytest.raises(DataError, match="document id 'a' occurs twice"):
        build()  # type: ignore[operator]


def test_documents_need_a_text_and_a_field_each() -> None:
    ids = names_array("ab")
    with pytest.raises(DataError, match="2 documents need as many entries in 'texts', not 3"):
        Documents(ids, names_array("xyz"))
    with pytest.raises(DataError, match="2 documents need as many entries in 'source', not 1"):
        Documents(ids, names_array("xy"), {"source": names_array("p")})


def test_a_corpus_does_not_change_the_matrix_it_came_from() -> None:
    from scipy import sparse

    matrix = sparse.csr_array((np.array([1, 2, 3]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    corpus = Corpus.from_counts(matrix)
    assert corpus.counts.toarray().tolist() == [[2, 4]]
    assert matrix.data.tolist() == [1, 2, 3]


def test_gold_columns_of_documents_become_truth() -> None:
    fields = {"gold_a": np.array(["1", "", "0"], dtype=object)}
    documents = Documents(names_array("xyz"), names_array("abc"), fields)
    assert documents.gold(["a", "b"]).tolist() == [[1, -1], [-1, -1], [0, -1]]


def test_a_data_error_keeps_its_place_through_pickle() -> None:
    error = DataError("odd", file="f.csv", row=3, column="value")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert str(again) == str(error) == "f.csv, row 3, column 'value': odd"
    assert (again.file, again.row, again.column) == ("f.csv", 3, "value")
