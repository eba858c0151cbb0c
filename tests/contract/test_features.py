"""Features beside and instead of words, through both estimators: quality, matching, files, updates, explanations."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from palda import PALDA, Checkpoint, CrowdPALDA, DataError, PaldaWarning, load, metrics, simulate
from palda.data import Corpus

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:EM did not converge")]

N_TRAIN = 240
NEWS = simulate.newsroom(360, seed=3)
CORPUS, LABELS = NEWS.corpus, NEWS.labels
RNG = np.random.default_rng(0)
HIDDEN = LABELS[:, :5] @ RNG.normal(size=(5, 12)) + 0.3 * RNG.normal(size=(360, 12))
VALUES = HIDDEN.astype(np.float32)  # tell the first five classes apart
TRAIN, NEW = np.arange(N_TRAIN), np.arange(N_TRAIN, 360)
VOTES = simulate.crowd(LABELS[:N_TRAIN], "paper", votes_per_doc=4, seed=1)[0]
SETTINGS: dict[str, Any] = {"n_topics": 12, "tol": 1e-2, "random_state": 0, "n_jobs": 1}


def frame(rows: Any = TRAIN) -> pd.DataFrame:
    table = pd.DataFrame({"length": HIDDEN[rows, 0], "desk": np.where(LABELS[rows, 1] > 0, "city", "world")})
    table["vector"] = list(VALUES[rows])
    return table.set_axis(list(CORPUS.doc_ids[rows]), axis=0)


@cache
def model(kind: str = "crowd", with_words: bool = True, features: str = "array") -> PALDA | CrowdPALDA:
    given = VALUES[TRAIN] if features == "array" else frame()
    counts = CORPUS.counts[TRAIN] if with_words else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PaldaWarning)
        if kind == "clean":
            return PALDA(**SETTINGS).fit(counts, LABELS[TRAIN], features=given)
        return CrowdPALDA(**SETTINGS).fit(counts, VOTES, features=given if features == "array" else given.to_numpy())


@pytest.mark.parametrize("kind", ["clean", "crowd"])
def test_features_make_predictions_better(kind: str) -> None:
    probs = model(kind).predict_proba(CORPUS.counts[NEW], features=VALUES[NEW])
    alone = CrowdPALDA(**SETTINGS) if kind == "crowd" else PALDA(**SETTINGS)
    words = alone.fit(CORPUS.counts[TRAIN], VOTES if kind == "crowd" else LABELS[TRAIN]).predict_proba(
        CORPUS.counts[NEW]
    )
    ours, theirs = (metrics.class_log_likelihood(LABELS[NEW], table) for table in (probs, words))
    assert ours > theirs


def test_features_alone_are_enough_and_leave_topics_out() -> None:
    with pytest.warns(PaldaWarning, match="X is None: the model has no words and no topics"):
        alone = PALDA(**SETTINGS).fit(None, LABELS[TRAIN, :5], features=VALUES[TRAIN])
    probs = alone.predict_proba(None, features=VALUES[NEW])
    assert metrics.micro_f1(LABELS[NEW, :5], probs >= 0.5) > 0.8
    assert alone.topic_words_.shape == (0, 0)
    with pytest.raises(ValueError, match="no topics"):
        alone.transform(None, features=VALUES[NEW])
    with pytest.raises(ValueError, match="without words; pass X=None"):
        alone.predict_proba(CORPUS.counts[NEW], features=VALUES[NEW])


def test_votes_and_features_without_words_give_a_consensus() -> None:
    alone = model("crowd", with_words=False)
    assert isinstance(alone, CrowdPALDA)
    assert metrics.micro_f1(LABELS[TRAIN, :5], alone.consensus_[:, :5] >= 0.5) > 0.9
    again = alone.consensus(None, VOTES, features=VALUES[TRAIN])
    assert np.mean((again >= 0.5) == (alone.consensus_ >= 0.5)) > 0.97


@pytest.mark.parametrize("kind", ["clean", "crowd"])
def test_prediction_without_learned_features_is_one_clear_error(kind: str) -> None:
    with pytest.raises(DataError, match="fitted with features \\(12 columns: features\\), which are missing") as caught:
        model(kind).predict(CORPUS.counts[NEW])
    assert "\n" not in str(caught.value)


def test_a_model_without_features_refuses_them() -> None:
    words = PALDA(**SETTINGS | {"label_prior": "words"}).fit(CORPUS.counts[TRAIN], LABELS[TRAIN])
    with pytest.raises(DataError, match="fitted without features"):
        words.predict(CORPUS.counts[NEW], features=VALUES[NEW])


def test_rows_of_a_data_frame_are_matched_by_id_and_columns_by_name() -> None:
    corpus = CORPUS.take(TRAIN)
    fitted = PALDA(**SETTINGS | {"label_prior": "words"}).fit(corpus, LABELS[TRAIN], features=frame())
    new, table = CORPUS.take(NEW), frame(NEW)
    expected = fitted.predict_proba(new, features=table)
    shuffled = table.sample(frac=1.0, random_state=0)[["vector", "desk", "length"]].assign(more=0.0)
    np.testing.assert_array_equal(fitted.predict_proba(new, features=shuffled), expected)
    with pytest.raises(DataError, match="no row for document"):
        fitted.predict_proba(new, features=table.iloc[:-1])
    with pytest.raises(DataError, match="no column 'length'"):
        fitted.predict_proba(new, features=table.drop(columns="length"))


def test_rows_of_two_data_frames_are_matched_by_their_indexes() -> None:
    counts = pd.DataFrame(CORPUS.counts[TRAIN].toarray(), index=CORPUS.doc_ids[TRAIN], columns=CORPUS.vocabulary)
    settings = SETTINGS | {"label_prior": "words"}
    fits = [PALDA(**settings).fit(counts, LABELS[TRAIN], features=given) for given in (frame(), frame().iloc[::-1])]
    one, two = (each.predict_proba(counts, features=frame().iloc[::-1]) for each in fits)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, fits[0].predict_proba(counts, features=frame().reset_index(drop=True)))


def test_neither_words_nor_features_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match=r"^X is None; pass word counts, features, or both$"):
        PALDA(**SETTINGS).fit(None, LABELS)


def test_a_refused_fit_leaves_the_features_of_the_model() -> None:
    fitted = PALDA(**SETTINGS | {"label_prior": "words"}).fit(CORPUS.counts[:60], LABELS[:60], features=VALUES[:60])
    before = fitted.predict_proba(CORPUS.counts[NEW], features=VALUES[NEW])
    with pytest.raises(DataError, match="features have 59 rows"):
        fitted.fit(CORPUS.counts[:60], LABELS[:60], features=VALUES[:59])
    np.testing.assert_array_equal(before, fitted.predict_proba(CORPUS.counts[NEW], features=VALUES[NEW]))


def test_a_document_without_words_is_predicted_from_its_features() -> None:
    empty = CORPUS.counts[NEW[:1]] * 0
    fitted = model("clean")
    assert np.abs(fitted.predict_proba(empty, features=VALUES[NEW[:1]]) - fitted.class_prior_).max() > 0.05
    nothing = np.full((1, 12), np.nan, dtype=np.float32)
    np.testing.assert_allclose(fitted.predict_proba(empty, features=nothing)[0], fitted.class_prior_)


@pytest.mark.parametrize("with_words", [True, False])
def test_weights_of_words_and_features_sum_to_the_log_odds(with_words: bool) -> None:
    fitted = model("crowd", with_words)
    counts = CORPUS.counts[NEW[:4]] if with_words else None
    table = fitted.explain(counts, features=VALUES[NEW[:4]])
    sums = table.pivot_table("weight", "doc", "label", aggfunc="sum")[list(fitted.classes_)].to_numpy()
    probs = fitted.predict_proba(counts, features=VALUES[NEW[:4]])
    np.testing.assert_allclose(sums, logit(probs) - logit(fitted.class_prior_), atol=1e-9)
    assert set(table["kind"]) == ({"word", "feature", "rest"} if with_words else {"feature", "rest"})
    assert set(table.loc[table["kind"] == "feature", "word"]) == {"features"}


def test_named_features_are_explained_by_name() -> None:
    corpus = CORPUS.take(TRAIN)
    fitted = PALDA(**SETTINGS | {"label_prior": "words"}).fit(corpus, LABELS[TRAIN], features=frame())
    table = fitted.explain(CORPUS.take(NEW[:2]), features=frame(NEW[:2]))
    assert set(table.loc[table["kind"] == "feature", "word"]) == {"length", "desk", "vector"}


def test_shares_of_evidence_follow_where_classes_can_be_told_from() -> None:
    shares = model("clean").evidence_shares_
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares["features"].iloc[:5].mean() > shares["features"].iloc[5:].mean()


@pytest.mark.parametrize("with_words", [True, False])
def test_a_loaded_model_predicts_the_same_bits_and_learns_on(with_words: bool, tmp_path: Path) -> None:
    fitted = model("crowd", with_words)
    fitted.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    counts = CORPUS.counts[NEW] if with_words else None
    np.testing.assert_array_equal(
        loaded.predict_proba(counts, features=VALUES[NEW]), fitted.predict_proba(counts, features=VALUES[NEW])
    )
    pd.testing.assert_frame_equal(loaded.evidence_shares_, fitted.evidence_shares_)
    assert loaded.feature_names_.tolist() == [f"features[{column}]" for column in range(12)]
    votes = simulate.crowd(LABELS[NEW], "paper", votes_per_doc=4, seed=5)[0]
    assert isinstance(loaded, CrowdPALDA)
    ids = [f"new {row}" for row in NEW]
    loaded.partial_fit(
        counts,
        votes.to_frame().assign(doc=lambda one: one["doc"].map(lambda row: f"new {int(row) + N_TRAIN}")),
        doc_ids=ids,
        features=VALUES[NEW],
    )
    assert loaded.consensus_.shape == (360, 10)
    assert metrics.micro_f1(LABELS[NEW, :5], loaded.consensus_[N_TRAIN:, :5] >= 0.5) > 0.8


def test_any_text_and_any_number_survive_a_file(tmp_path: Path) -> None:
    given = frame().drop(columns="vector")
    odd = given.assign(desk=RNG.choice([" é", "é", "", "a\nb"], N_TRAIN), tiny=1e-200 * given["length"])
    with pytest.warns(PaldaWarning, match="features"):
        fitted = PALDA(**SETTINGS | {"label_prior": "words"}).fit(CORPUS.counts[TRAIN], LABELS[TRAIN], features=odd)
    fitted.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    assert loaded.feature_categories_["desk"].tolist() == ["a\nb", "é"]
    np.testing.assert_array_equal(
        *(each.predict_proba(CORPUS.counts[TRAIN], features=odd) for each in (fitted, loaded))
    )


def test_names_and_categories_survive_a_file(tmp_path: Path) -> None:
    corpus = CORPUS.take(TRAIN)
    fitted = PALDA(**SETTINGS | {"label_prior": "words"}).fit(corpus, LABELS[TRAIN], features=frame())
    fitted.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    new, table = CORPUS.take(NEW), frame(NEW)
    np.testing.assert_array_equal(loaded.predict_proba(new, features=table), fitted.predict_proba(new, features=table))


def test_the_result_does_not_depend_on_threads_precision_of_the_container_or_a_memory_map(tmp_path: Path) -> None:
    np.save(tmp_path / "values.npy", VALUES[TRAIN])
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    settings = SETTINGS | {"n_jobs": 2, "label_prior": "words"}
    one = PALDA(**settings | {"n_jobs": 1}).fit(CORPUS.counts[TRAIN], LABELS[TRAIN], features=VALUES[TRAIN])
    two = PALDA(**settings).fit(CORPUS.counts[TRAIN], LABELS[TRAIN], features=mapped)
    three = PALDA(**settings).fit(CORPUS.counts[TRAIN], LABELS[TRAIN], features=VALUES[TRAIN].astype(np.float64))
    given = CORPUS.counts[NEW]
    probs = [each.predict_proba(given, features=VALUES[NEW]) for each in (one, two, three)]
    np.testing.assert_array_equal(probs[0], probs[1])
    np.testing.assert_array_equal(probs[0], probs[2])


def test_a_checkpoint_of_other_features_is_refused(tmp_path: Path) -> None:
    settings = SETTINGS | {"label_prior": "words"}
    checkpoint = Checkpoint(tmp_path / "checkpoint", minutes=0)
    counts = CORPUS.counts[TRAIN]
    first = PALDA(**settings).fit(counts, LABELS[TRAIN], features=VALUES[TRAIN], checkpoint=checkpoint)
    again = PALDA(**settings).fit(counts, LABELS[TRAIN], features=VALUES[TRAIN], checkpoint=checkpoint)
    np.testing.assert_array_equal(*(each.predict_proba(counts, features=VALUES[TRAIN]) for each in (first, again)))
    with pytest.raises(Exception, match="the features"):
        PALDA(**settings).fit(counts, LABELS[TRAIN], features=-VALUES[TRAIN], checkpoint=checkpoint)
    renamed = pd.DataFrame(VALUES[TRAIN]).add_prefix("x")
    with pytest.raises(Exception, match="the features"):
        PALDA(**settings).fit(counts, LABELS[TRAIN], features=renamed, checkpoint=checkpoint)


def test_an_external_classifier_sees_words_and_features(tmp_path: Path) -> None:
    prior = LogisticRegression(max_iter=500)
    fitted = PALDA(**SETTINGS | {"label_prior": prior}).fit(CORPUS.counts[TRAIN], LABELS[TRAIN], features=VALUES[TRAIN])
    head: Any = fitted.head_
    assert head.models[0].n_features_in_ == CORPUS.n_words + 12
    fitted.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    np.testing.assert_array_equal(
        *(each.predict_proba(CORPUS.counts[NEW], features=VALUES[NEW]) for each in (fitted, loaded))
    )


def test_a_column_transformer_selects_features_by_name(tmp_path: Path) -> None:
    by_name = make_column_transformer(
        (StandardScaler(), ["length"]), (OneHotEncoder(handle_unknown="ignore"), ["desk"]), remainder="passthrough"
    )
    few = Corpus.from_counts(CORPUS.counts[:, :60], CORPUS.vocabulary[:60], CORPUS.doc_ids)
    table, new = frame().drop(columns="vector"), frame(NEW).drop(columns="vector")
    prior = make_pipeline(by_name, LogisticRegression(max_iter=500))
    fitted = PALDA(**SETTINGS | {"label_prior": prior}).fit(few.take(TRAIN), LABELS[TRAIN], features=table)
    probs = fitted.predict_proba(few.take(NEW), features=new)
    assert metrics.micro_f1(LABELS[NEW, 1:2], probs[:, 1:2] >= 0.5) > 0.95  # the desk says it
    fitted.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    np.testing.assert_array_equal(loaded.predict_proba(few.take(NEW), features=new), probs)


def test_features_that_nothing_reads_are_refused_or_named() -> None:
    counts, labels = CORPUS.counts[TRAIN], LABELS[TRAIN]
    with pytest.raises(ValueError, match="reads no features"):
        PALDA(**SETTINGS | {"label_prior": "base_rate"}).fit(counts, labels, features=VALUES[TRAIN])
    with pytest.warns(PaldaWarning, match="features are not used"):
        few = PALDA(2, random_state=0, max_iter=3).fit(counts[:20], labels[:20], features=VALUES[:20])
    assert few.predict_proba(counts[:3], features=VALUES[:3]).shape == (3, 10)
    with pytest.warns(PaldaWarning), pytest.raises(ValueError, match="X is None, and nothing would be learned"):
        PALDA().fit(None, labels[:20], features=VALUES[:20])


def test_estimators_with_features_can_be_cloned_and_transform_in_one_step() -> None:
    fresh = clone(model("clean"))
    shares = fresh.fit_transform(CORPUS.counts[TRAIN], LABELS[TRAIN], features=VALUES[TRAIN])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
