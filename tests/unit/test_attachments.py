"""Model files with words, texts and votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import palda
from palda import PALDA, CrowdPALDA, TextWords, ValueWords, simulate
from palda.data import Corpus, Values, names_array
from palda.estimators import ModelFileError, load_state, save_state

NEWS = simulate.newsroom(30, seed=2)
VOTES, _ = simulate.crowd(NEWS, [0.9, 0.8, 0.7], seed=2, votes_per_doc=2)
WORDS = TextWords(min_count=2, ngrams=(1, 2), max_words=80, stop_words=["the", "of"])
COUNTS = WORDS.fit_transform(NEWS.documents)
QUICK: dict[str, Any] = {"n_topics": 3, "tol": 1e-2, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def model() -> CrowdPALDA:
    return CrowdPALDA(**QUICK).fit(COUNTS, VOTES)


@pytest.fixture(scope="module")
def file(model: CrowdPALDA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "news.palda"
    model.save(path, words=WORDS, texts=NEWS.documents.texts, votes=VOTES)
    return path


def test_loaded_model_reads_new_texts_like_the_saved_one(model: CrowdPALDA, file: Path) -> None:
    loaded = palda.load(file)
    new = ["The court of the ships", "wheat, wheat and markets"]
    assert isinstance(loaded.words_, TextWords)
    assert loaded.words_.get_params() == WORDS.get_params()
    np.testing.assert_array_equal(
        loaded.predict_proba(loaded.words_.transform(new)), model.predict_proba(WORDS.transform(new))
    )


def test_spellings_survive_save_and_load_and_default_to_stems(file: Path, tmp_path: Path) -> None:
    loaded = palda.load(file)
    assert isinstance(loaded.words_, TextWords)
    assert loaded.words_.spellings_.tolist() == WORDS.spellings_.tolist()
    arrays, state, _ = load_state(file)
    del state["words"]["spellings"]
    save_state(tmp_path / "older", arrays, state)
    older = palda.load(tmp_path / "older")
    assert isinstance(older.words_, TextWords)
    assert older.words_.spellings_.tolist() == list(WORDS.vocabulary_)
    state["words"]["spellings"] = ["one"]
    save_state(tmp_path / "wrong", arrays, state)
    with pytest.raises(ModelFileError, match="1 spellings for"):
        palda.load(tmp_path / "wrong")


def test_texts_and_votes_survive_save_and_load(file: Path) -> None:
    loaded = palda.load(file)
    assert loaded.texts_ is not None
    assert loaded.texts_.tolist() == NEWS.documents.texts.tolist()
    assert loaded.votes_ == VOTES


def test_explanations_of_a_loaded_model_name_its_words(file: Path) -> None:
    loaded = palda.load(file)
    assert set(loaded.explain(COUNTS[:2])["word"]) <= {*WORDS.get_feature_names_out(), "(rest)"}


def test_loaded_model_saved_again_keeps_words_texts_and_votes(file: Path, tmp_path: Path) -> None:
    palda.load(file).save(tmp_path / "again.palda")
    again = palda.load(tmp_path / "again.palda")
    assert again.votes_ == VOTES
    assert again.texts_ is not None
    assert again.words_ is not None


def test_words_texts_and_votes_are_none_if_not_saved_and_after_a_new_fit(
    model: CrowdPALDA, file: Path, tmp_path: Path
) -> None:
    model.save(tmp_path / "bare.palda")
    bare = palda.load(tmp_path / "bare.palda")
    assert (bare.words_, bare.texts_, bare.votes_) == (None, None, None)
    full = palda.load(file)
    assert isinstance(full, CrowdPALDA)
    full.fit(COUNTS, VOTES)
    assert (full.words_, full.texts_, full.votes_) == (None, None, None)


def test_abstentions_and_unusual_texts_survive_save_and_load(tmp_path: Path) -> None:
    votes = palda.Votes.from_array(np.array([[[1, 0], [-1, -1]], [[0, 1], [1, 1]]]))
    frame = votes.to_frame().astype(object)
    frame.loc[len(frame)] = ["0", "1", None, None]
    votes = palda.Votes.from_frame(frame)
    assert len(votes.abstained) == 1
    texts = ["", 'quote " \ud800 \x00 東京']
    small = CrowdPALDA(**(QUICK | {"n_topics": 1})).fit(np.array([[1, 2], [2, 0]]), votes)
    small.save(tmp_path / "m", texts=texts, votes=votes)
    loaded = palda.load(tmp_path / "m")
    assert loaded.votes_ == votes
    assert loaded.texts_ is not None
    assert loaded.texts_.tolist() == texts


@pytest.mark.parametrize("scope", ["feature", "pooled"])
@pytest.mark.parametrize("named", [True, False])
def test_value_words_survive_save_and_load(tmp_path: Path, scope: Any, named: bool) -> None:
    numbers = np.random.default_rng(0).normal(size=(30, 4))
    numbers[:, 2] = np.nan
    given: Any = Values(numbers, names_array("abcd"), NEWS.doc_ids) if named else numbers
    words = ValueWords(n_bins=3, n_words=4, scope=scope).fit(given)
    counts = words.transform(given)
    fitted = PALDA(**QUICK).fit(counts, NEWS.labels)
    fitted.save(tmp_path / "m", words=words, texts=["text"] * 30)
    loaded = palda.load(tmp_path / "m")
    assert isinstance(loaded.words_, ValueWords)
    assert (loaded.words_.transform(given) != counts).nnz == 0
    assert loaded.words_.get_feature_names_out().tolist() == words.get_feature_names_out().tolist()


def test_vocabulary_of_a_corpus_survives_save_and_load(tmp_path: Path) -> None:
    corpus = Corpus.from_counts(COUNTS, WORDS.get_feature_names_out(), NEWS.doc_ids)
    fitted = PALDA(**QUICK).fit(corpus, pd.DataFrame(NEWS.labels, columns=NEWS.classes))
    assert fitted.vocabulary_.tolist() == corpus.vocabulary.tolist()
    fitted.save(tmp_path / "m")
    assert palda.load(tmp_path / "m").vocabulary_.tolist() == corpus.vocabulary.tolist()


@pytest.mark.parametrize(
    ("attached", "message"),
    [
        ({"texts": ["one"]}, "1 texts for 30 documents"),
        ({"texts": [1] * 30}, "texts must be strings"),
        ({"texts": NEWS.documents.take(slice(None, None, -1))}, "in another order"),
        ({"words": TextWords().fit(["a few other words"])}, "pass the transformer that made X"),
        ({"votes": simulate.crowd(NEWS, [0.9] * 5, votes_per_doc=5)[0]}, "fitted to other votes"),
    ],
)
def test_words_texts_and_votes_of_other_documents_are_refused(
    model: CrowdPALDA, tmp_path: Path, attached: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path / "m", **attached)
    assert not list(tmp_path.iterdir())


def test_palda_refuses_to_save_votes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no votes"):
        PALDA(**QUICK).fit(COUNTS, NEWS.labels).save(tmp_path / "m", votes=VOTES)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved.arrays.update({"votes.doc": saved.arrays["votes.doc"] + 30}),
        lambda saved: saved.arrays.update({"votes.value": saved.arrays["votes.value"][1:]}),
        lambda saved: saved.arrays.update({"votes.doc": saved.arrays["votes.doc"][::-1]}),
        lambda saved: saved.arrays.pop("votes.label"),
        lambda saved: saved.arrays.update({"votes.abstained": np.array([[0, 7]])}),
        lambda saved: saved.arrays.update({"texts": np.frombuffer(b'["one"]', dtype=np.uint8)}),
        lambda saved: saved.arrays.update({"texts": np.frombuffer(b"7", dtype=np.uint8)}),
        lambda saved: saved.arrays.update({"texts": np.frombuffer(b"[", dtype=np.uint8)}),
        lambda saved: saved.state["words"].update(kind="Pickle"),
        lambda saved: saved.state["words"]["vocabulary"].pop(),
        lambda saved: saved.state["words"]["vocabulary"].append(saved.state["words"]["vocabulary"][0]),
        lambda saved: saved.state["words"]["settings"].update(hook="os.system"),
        lambda saved: saved.state["words"].pop("settings"),
        lambda saved: saved.state.update(words=None),
    ],
)
def test_altered_words_texts_and_votes_are_refused(file: Path, tmp_path: Path, spoil: Any) -> None:
    saved = load_state(file)
    spoil(saved)
    save_state(tmp_path / "m", saved.arrays, saved.state)
    with pytest.raises(ModelFileError, match="not a complete model"):
        palda.load(tmp_path / "m")
