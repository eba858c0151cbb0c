"""Soft votes, times, kinds and families of annotators: from arrays, frames and files, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import palda
from palda import CrowdPALDA, Votes, read_votes, simulate
from palda.data import names_array
from palda.errors import DataError
from palda.io import read_gold

NAN = float("nan")

soft_arrays = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4)),
    elements=st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(0, 1, width=32)),
)


def _file(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "v.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _soft(votes: Votes) -> list[tuple[int, float | None]]:
    stated = votes.probability if len(votes.probability) else np.full(len(votes), NAN)
    rounded = [None if np.isnan(p) else round(float(p), 4) for p in stated]
    return list(zip(votes.value.tolist(), rounded, strict=True))


@given(soft_arrays, st.data())
@settings(deadline=None)
def test_array_to_votes_to_frame_to_votes_is_the_identity(array: np.ndarray, data: st.DataObject) -> None:
    votes = Votes.from_array(array)
    moments = data.draw(hnp.arrays(np.float64, len(votes), elements=st.floats(0, 1e10) | st.just(NAN)))
    cast = np.unique(votes.annotator)  # a frame knows the kind of those who voted
    kinds = names_array(
        data.draw(st.sampled_from(["person", "model", ""])) * (a in cast) for a in range(array.shape[1])
    )
    votes = replace(votes, time=moments, annotator_kinds=kinds, annotator_families=kinds)
    assert Votes.from_frame(votes.to_frame(), classes=votes.classes) == votes
    rebuilt = np.full(array.shape, -1, dtype=np.float32)
    stated = votes.probability if len(votes.probability) else np.full(len(votes), NAN)
    rebuilt[votes.doc, votes.annotator, votes.label] = np.where(np.isnan(stated), votes.value, stated)
    assert np.array_equal(rebuilt, np.where(array == 0.5, -1, array))  # 1/2 is no judgement


@given(soft_arrays, st.data())
@settings(deadline=None)
def test_taking_documents_takes_their_probabilities_and_times_along(array: np.ndarray, data: st.DataObject) -> None:
    votes = Votes.from_array(array)
    votes = replace(votes, time=np.where(votes.doc % 2, votes.pair.astype(float), NAN))
    rows = data.draw(st.permutations(range(len(array)))).copy()[: data.draw(st.integers(0, len(array)))]
    taken = votes.take(rows)
    direct = Votes.from_array(array[rows], doc_ids=rows)
    old = np.array(rows, dtype=int)[direct.doc]
    assert taken == replace(direct, time=np.where(old % 2, (old * votes.n_classes + direct.label).astype(float), NAN))
    start, stop = sorted((data.draw(st.integers(0, len(array))), data.draw(st.integers(0, len(array)))))
    assert votes.take(slice(start, stop)) == votes.take(np.arange(start, stop))


def test_hard_votes_have_no_optional_column() -> None:
    votes = Votes.from_array(np.array([[[1.0, 0.0, NAN]]]))
    for name in ("probability", "time", "annotator_kinds", "annotator_families"):
        assert len(getattr(votes, name)) == 0
    assert votes == Votes.from_array(np.array([[[1, 0, -1]]]))


@pytest.mark.parametrize("field", [{"probability": np.array([0.5, 2.0])}, {"probability": np.array([0.5])},
                                   {"time": np.array([0.5])}, {"annotator_kinds": names_array(["model"])}])  # fmt: skip
def test_fields_of_the_wrong_length_or_range_are_refused(field: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        replace(Votes.from_array([[[1], [0]]]), **field)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "csv.gz"])
def test_every_kind_of_table_holds_soft_votes(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "doc": ["d1", "d2", "d1", "d2"],
            "annotator": ["ann", "ann", "gpt", "gpt"],
            "label": "x",
            "value": [1.0, 0.25, 0.7, 0.0],
            "created_at": ["2024-01-01T00:00:00Z", None, "2024-01-01T00:00:01.5Z", None],
            "annotator_kind": ["person", None, "model", "model"],
            "model_family": [None, None, "gpt", "gpt"],
        }
    )
    path = tmp_path / f"votes.{suffix}"
    if suffix == "parquet":
        table.to_parquet(path)
    elif suffix == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False)
    votes = read_votes(path)
    assert _soft(votes) == [(1, None), (1, 0.7), (0, 0.25), (0, None)]
    assert votes.time[:2].tolist() == [1704067200.0, 1704067201.5]
    assert np.isnan(votes.time[2:]).all()
    assert votes.annotator_kinds.tolist() == ["person", "model"]
    assert votes.annotator_families.tolist() == ["", "gpt"]


def test_a_confidence_is_that_of_the_value_beside_it(tmp_path: Path) -> None:
    path = _file(tmp_path, "doc,annotator,label,value,confidence", "d,a,x,1,.9", "d,b,x,0,.9", "d,c,x,1,", "d,e,x,,.7")
    assert _soft(read_votes(path)) == [(1, 0.9), (0, 0.1), (1, None)]


def test_a_probability_is_that_of_present_and_needs_no_value(tmp_path: Path) -> None:
    beside = _file(tmp_path, "doc,annotator,label,value,probability", "d,a,x,1,.4", "d,b,x,0,.1")
    assert _soft(read_votes(beside)) == [(1, 0.4), (0, 0.1)]
    alone = _file(tmp_path, "doc,annotator,label,probability", "d,a,x,.4", "d,b,x,1.00")
    assert _soft(read_votes(alone)) == [(0, 0.4), (1, None)]


def test_cells_of_wide_tables_and_lists_may_be_soft(tmp_path: Path) -> None:
    wide = read_votes(_file(tmp_path, "doc,annotator,family,x", "d,a,.9,0", "d,b,,.2"))
    assert wide.classes.tolist() == ["family", "x"], "a column with votes is a class"
    assert _soft(wide) == [(1, 0.9), (0, None), (0, 0.2)]
    lists = read_votes(_file(tmp_path, "doc,annotator,labels,confidence", "d,a,x;y,.8", "d,b,y,"))
    assert _soft(lists) == [(1, 0.8), (1, 0.8), (0, None), (1, None)]


def test_present_at_makes_hard_votes(tmp_path: Path) -> None:
    path = _file(tmp_path, "doc,annotator,label,value,confidence", "d,a,x,0.3,.9", "d,b,x,0.7,.9")
    votes = read_votes(path, present_at=0.25)
    assert votes.value.tolist() == [1, 1]
    assert len(votes.probability) == 0


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["doc,annotator,label,value", "d,a,x,80"], "row 2, column 'value': '80' is not 0, 1 or blank; leave the cell"),
        (["doc,annotator,label,value", "d,a,x,-0.1"], "or pass present_at= to turn scores into votes"),
        (["doc,annotator,label,value", "d,a,x,0_1"], "'0_1' is not 0, 1 or blank"),
        (["doc,annotator,label,value,confidence", "d,a,x,1,87"], "row 2, column 'confidence': '87' is not a number"),
        (["doc,annotator,label,value,confidence", "d,a,x,.5,.7"], "the vote beside it is a probability already"),
        (["doc,annotator,label,value,confidence,probability", "d,a,x,1,.7,.7"], "there is a column 'probability' too"),
        (["doc,annotator,label,value,kind", "d,a,x,1,model", "e,a,x,1,person"],
         "row 3, column 'kind': annotator 'a' is 'person' here and 'model' in another row"),
        (["doc,annotator,label,value,kind", "d,a,x,1,model", "e,b,x,1,robot"], "row 3, column 'kind': 'robot' is not"),
        (["doc,annotator,label,value,family", "d,a,x,1,f", "e,a,x,1,g"], "row 3, column 'family': annotator 'a'"),
        (["doc,annotator,label,value,timestamp", "d,a,x,1,inf"], "'inf' is not a time"),
    ],
)  # fmt: skip
def test_what_is_no_soft_vote_is_named_with_its_row(rows: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_votes(_file(tmp_path, *rows))
    assert says in str(caught.value)


def test_a_column_kind_that_says_something_else_is_left_alone(tmp_path: Path) -> None:
    votes = read_votes(_file(tmp_path, "doc,annotator,label,value,kind", "d,a,x,1,news", "e,a,x,1,sports"))
    assert len(votes.annotator_kinds) == 0


def test_gold_labels_are_never_soft(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 2, column 'value': '0.7' is not 0, 1 or blank"):
        read_gold(_file(tmp_path, "doc,label,value", "d,x,0.7"), ["d"], ["x"])


@pytest.mark.parametrize(("rule", "kept"), [("last", 0.9), ("first", 0.6), ("error", 0.9)])
def test_equal_votes_with_other_probabilities_are_no_contradiction(rule: str, kept: float) -> None:
    votes = Votes.from_records([("d", "a", "x", 0.6), ("d", "a", "x", 0.9)], duplicates=rule)
    assert _soft(votes) == [(1, kept)]


def test_the_vote_that_is_kept_keeps_its_probability_and_time(tmp_path: Path) -> None:
    rows = ["d,a,x,.9,2024-01-02", "d,a,x,.2,2024-01-01", "d,b,x,.1,2024-01-01"]
    votes = read_votes(_file(tmp_path, "doc,annotator,label,value,timestamp", *rows))
    assert _soft(votes) == [(1, 0.9), (0, 0.1)]
    assert votes.time.tolist() == [1704153600.0, 1704067200.0]


def test_times_in_milliseconds_become_seconds(tmp_path: Path) -> None:
    path = _file(tmp_path, "doc,annotator,label,value,timestamp", "d,a,x,1,1704067200000", "e,a,x,1,1704067201")
    assert read_votes(path).time.tolist() == [1704067200.0, 1704067201.0]


def test_votes_on_other_documents_keep_what_is_known_about_annotators() -> None:
    votes = Votes.from_array([[[0.3], [-1]], [[0.8], [-1]]], doc_ids=["d", "e"])
    votes = replace(votes, annotator_kinds=names_array(["model", "person"]))
    moved = votes.on_documents(["e", "f", "d"])
    assert moved.annotator_kinds.tolist() == ["model", "person"]
    assert _soft(moved) == [(1, 0.8), (0, 0.3)]


def test_a_json_file_of_records_holds_soft_votes(tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(json.dumps([{"doc": 1, "annotator": "a", "label": "x", "value": 0.75}]))
    assert _soft(read_votes(path)) == [(1, 0.75)]


def _soft_crowd(n_docs: int, n_kept: int = 3) -> tuple[Any, Votes]:
    news = simulate.newsroom(n_docs, seed=0)
    votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7][:n_kept], votes_per_doc=2, seed=0)
    votes = simulate.confidences(votes, news, ["calibrated", "none", "useless"][:n_kept], seed=0)
    kinds, families = names_array(["model", "", "person"][:n_kept]), names_array(["f", "", ""][:n_kept])
    return news, replace(votes, time=votes.pair.astype(float), annotator_kinds=kinds, annotator_families=families)


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_a_model_file_keeps_soft_votes_and_what_they_are_worth(label_prior: str, tmp_path: Path) -> None:
    news, votes = _soft_crowd(150)
    votes = simulate.confidences(votes, news, "calibrated", seed=0)
    model = CrowdPALDA(3, label_prior=label_prior, n_profiles=1, max_iter=3, tol=0.1, random_state=0, n_jobs=1)
    model.fit(news.corpus, votes).save(tmp_path / "model.palda", votes=votes)
    loaded = palda.load(tmp_path / "model.palda")
    assert loaded.votes_ == votes
    found = loaded.consensus(news.corpus, votes)
    np.testing.assert_array_equal(found, model.consensus(news.corpus, votes))
    hard = replace(votes, probability=np.empty(0, dtype=np.float32))
    assert np.abs(found - loaded.consensus(news.corpus, hard)).max() > 0.01


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_soft_votes_arrive_in_batches_and_from_new_annotators(label_prior: str) -> None:
    news, votes = _soft_crowd(90)
    model = CrowdPALDA(3, label_prior=label_prior, n_profiles=1, max_iter=3, tol=0.1, random_state=0, n_jobs=1)
    model.fit(news.corpus.take(slice(60)), votes.take(slice(60)))
    rest = votes.take(slice(60, 90))
    model.partial_fit(news.corpus.take(slice(60, 90)), replace(rest, annotators=names_array(["a", "b", "c"])))
    assert model.consensus_.shape == (90, 10)
    assert len(model.annotators_) == 6


@pytest.mark.parametrize("kind", ["calibrated", "overconfident", "underconfident", "useless"])
def test_simulated_confidences_are_what_they_are_called(kind: str) -> None:
    labels = (np.random.default_rng(0).random((4000, 2)) < 0.5).astype(np.int8)
    votes, _ = simulate.crowd(labels, [0.7, 0.8, 0.9], votes_per_doc=3, seed=0)
    soft = simulate.confidences(votes, labels, kind, seed=1)
    np.testing.assert_array_equal(soft.value, votes.value)
    stated = soft.probability.astype(float)
    present = labels[votes.doc, votes.label]
    certain = np.where(votes.value == 1, stated, 1 - stated)
    right = present == votes.value
    gaps = []
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.99)):
        inside = (certain > low) & (certain < high)
        gaps.append(certain[inside].mean() - right[inside].mean())
    if kind == "calibrated":
        assert np.abs(gaps).max() < 0.03
    elif kind == "overconfident":
        assert max(gaps) > 0.05
    elif kind == "underconfident":
        assert min(gaps) < -0.05
    for who in range(3):
        mine = votes.annotator == who
        difference = certain[mine & right].mean() - certain[mine & ~right].mean()
        assert difference < 0.03 if kind == "useless" else difference > 0.05
    with pytest.raises(DataError, match="2 kinds"):
        simulate.confidences(votes, labels, ["none", "none"])
