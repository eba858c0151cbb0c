from __future__ import annotations

import pickle
import time
import unicodedata

import numpy as np
import pandas as pd
import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from palda.data import LISTED_LANGUAGES, Documents, TextWords, names_array, stop_words
from palda.errors import DataError

NEWS = [
    "Ships carry wheat; the ship is full of wheat.",
    "Wheat shipping rates rose in March",
    "Interest rates and the rate of interest",
    "",
]


def terms(text: str, **options: object) -> list[str]:
    return list(TextWords(**options).fit([text]).get_feature_names_out())


# scikit-learn's own suite passes estimators of text over; these are its checks that need no matrix.
@pytest.mark.parametrize(
    "check",
    [
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
    ],
)
def test_scikit_learn_accepts_the_contract(check: str) -> None:
    getattr(estimator_checks, check)("TextWords", TextWords())


# Counting


def test_counts_stems_without_stop_words() -> None:
    words = TextWords()
    counts = words.fit_transform(NEWS)
    assert words.get_feature_names_out().tolist() == [
        "carri", "full", "interest", "march", "rate", "rose", "ship", "wheat",
    ]  # fmt: skip
    assert counts.toarray().tolist() == [
        [1, 1, 0, 0, 0, 0, 2, 2],
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 0, 2, 0, 2, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert counts.dtype == counts.indices.dtype == np.int32


def test_transform_of_the_training_texts_equals_fit_transform() -> None:
    words = TextWords(min_count=2, max_words=4, ngrams=(1, 2))
    assert (words.fit_transform(NEWS) != words.transform(NEWS)).nnz == 0


@given(st.lists(st.text(alphabet="abc AB_é", max_size=20), min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_without_options_it_counts_as_scikit_learn_does(texts: list[str]) -> None:
    plain = CountVectorizer(token_pattern=r"(?u)[^\W_]+")  # noqa: S106 - no password
    try:
        expected = plain.fit_transform(texts)
    except ValueError:
        with pytest.raises(DataError):
            TextWords(None, min_length=1).fit(texts)
        return
    words = TextWords(None, min_length=1)
    assert (words.fit_transform(texts) != expected).nnz == 0
    assert words.get_feature_names_out().tolist() == plain.get_feature_names_out().tolist()


def test_new_words_are_left_out_and_counted_without_touching_the_transformer() -> None:
    words = TextWords().fit(NEWS)
    before = pickle.dumps(words)
    counts, unseen = words.transform_with_unseen(["wheat and barley, barley", "", "the gold"])
    assert counts.sum() == 1
    assert unseen.tolist() == [2, 0, 1]
    assert pickle.dumps(words) == before


def test_no_texts_have_no_counts() -> None:
    assert TextWords().fit(NEWS).transform([]).shape == (0, 8)


def test_words_too_rare_in_training_count_as_unseen() -> None:
    words = TextWords(min_docs=2).fit(NEWS)
    assert words.transform_with_unseen(["wheat ships in March"])[1].tolist() == [1]


# Options


def test_porter_is_the_original_stemmer() -> None:
    assert terms("generically", language="porter") == [snowballstemmer.stemmer("porter").stemWord("generically")]
    assert terms("skies", language="porter") == ["ski"]
    assert terms("skies", language="english") == ["sky"]


def test_stop_words_go_before_stemming() -> None:
    # "being" is a stop word, its stem "be" is one too; "beings" is not, though Porter stems it to "be".
    assert terms("being beings", language="porter") == ["be"]
    assert terms("the ships", stem=False) == ["ships"]


def test_language_none_takes_words_as_they_are() -> None:
    assert terms("The ships", language=None) == ["ships", "the"]


def test_own_stop_words_are_spelled_as_the_tokeniser_spells_words() -> None:
    assert terms("Don't PANIC towel", stop_words=["don't", "Panic"]) == ["towel"]
    assert terms("Don't PANIC towel", stop_words=["panic"], lowercase=False, stem=False) == ["Don", "towel"]
    assert "the" in terms("the towel", stop_words=None)
    assert terms("der the", language=None, stop_words="german") == ["the"]


def test_min_count_is_over_the_corpus_and_min_docs_over_texts() -> None:
    assert TextWords(min_count=3).fit(NEWS).get_feature_names_out().tolist() == ["rate", "ship", "wheat"]
    assert TextWords(min_docs=2).fit(NEWS).get_feature_names_out().tolist() == ["rate", "ship", "wheat"]
    assert TextWords(min_count=2).fit(NEWS).get_feature_names_out().tolist() == ["interest", "rate", "ship", "wheat"]


def test_max_words_keeps_the_most_frequent_and_breaks_ties_by_the_alphabet() -> None:
    words = TextWords(None, max_words=2).fit(["dd cc bb aa", "dd"])
    assert words.get_feature_names_out().tolist() == ["aa", "dd"]


def test_ngrams_are_made_of_the_words_that_remain() -> None:
    assert terms("rates of interest", ngrams=(1, 2)) == ["interest", "rate", "rate interest"]
    assert terms("rates of interest", ngrams=(2, 2)) == ["rate interest"]


def test_numbers_and_short_words_can_be_left_out() -> None:
    assert terms("3rd 1987 x ab", language=None) == ["1987", "3rd", "ab"]
    assert terms("3rd 1987 x ab", language=None, numbers=False) == ["3rd", "ab"]
    assert terms("3rd 1987 x ab", language=None, min_length=1) == ["1987", "3rd", "ab", "x"]


# Languages


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("english", "naïve cafés, rock_n_roll and the U.S.", ["café", "naïv", "rock", "roll"]),
        ("german", "Die Straßen und größere Häuser", ["gross", "haus", "strass"]),
        ("french", "L'homme qu'il voit n'est pas l’élève", ["homm", "voit", "élev"]),
        ("spanish", "Los niños están en las canciones", ["cancion", "niñ"]),
        ("italian", "Dell'arte degli uomini", ["arte", "uomin"]),
        ("portuguese", "As nações não são meninas", ["menin", "naçõ"]),
        ("dutch", "De kaarten van het land", ["kaart", "land"]),
        ("swedish", "Båtarna och husen är på ön", ["båt", "hus", "ön"]),
        ("russian", "Книги и книга были на столе", ["книг", "стол"]),
        ("turkish", "IŞIK ışık", ["ışık"]),
    ],
)
def test_each_language_has_its_stems_and_stop_words(language: str, text: str, expected: list[str]) -> None:
    assert terms(text, language=language) == expected


def test_languages_without_a_list_keep_every_word() -> None:
    assert stop_words("finnish") == frozenset()
    assert len(terms("ja talot", language="finnish")) == 2


@pytest.mark.parametrize("language", LISTED_LANGUAGES)
def test_stop_words_are_single_lower_case_words_the_tokeniser_can_meet(language: str) -> None:
    listed = stop_words(language)
    assert 60 <= len(listed) <= 400
    for word in listed:
        assert word == unicodedata.normalize("NFKC", word).lower()
        assert terms(word, language=None, min_length=1) == [word]


@pytest.mark.parametrize("algorithm", snowballstemmer.algorithms())
def test_every_snowball_algorithm_works(algorithm: str) -> None:
    assert TextWords(algorithm.upper(), stop_words=None).fit(["alpha бета γάμμα हिन्दी"]).vocabulary_


def test_combining_marks_do_not_split_words() -> None:
    assert terms("हिन्दी किताबें", language=None) == ["किताबें", "हिन्दी"]
    assert terms("தமிழ்", language=None) == ["தமிழ்"]


def test_spellings_that_look_the_same_are_one_word() -> None:
    assert terms("cafe\u0301 café ｃａｆé", language=None) == ["café"]
    assert terms("co\u00adop coop", language=None) == ["coop"]  # a soft hyphen
    assert terms("می\u200cخواهم", language=None) == ["میخواهم"]  # a zero-width non-joiner
    assert terms("ﬁne", language=None) == ["fine"]


def test_scripts_without_spaces_give_pairs_of_characters() -> None:
    assert terms("東京都", language=None) == ["京都", "東京"]
    assert terms("日本Python語", language=None) == ["python", "日本", "語"]
    assert terms("カメラ", language=None) == ["カメ", "メラ"]
    assert terms("ไทย", language=None) == ["ทย", "ไท"]


def test_korean_words_are_kept_whole_even_if_short() -> None:
    assert terms("한국어 책", language=None) == ["책", "한국어"]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.sampled_from(["english", "turkish", "arabic", None]))
@settings(deadline=None, max_examples=60)
def test_any_unicode_text_gives_counts_or_one_clear_line(texts: list[str], language: str | None) -> None:
    words = TextWords(language)
    try:
        counts = words.fit_transform(texts)
    except DataError as error:
        assert "\n" not in str(error)
        return
    assert counts.shape == (len(texts), len(words.vocabulary_))
    assert (counts.sum(axis=0) > 0).all()
    assert words.transform_with_unseen(texts)[1].tolist() == [0] * len(texts)


# Inputs


def test_lists_arrays_series_documents_and_iterators_give_the_same() -> None:
    documents = Documents(names_array("abcd"), np.array(NEWS, dtype=object))
    words = TextWords().fit(NEWS)
    expected = words.transform(NEWS)
    for texts in (np.array(NEWS), pd.Series(NEWS, index=[7, 7, 8, 9]), documents, documents.X, tuple(NEWS), iter(NEWS)):
        assert (words.transform(texts) != expected).nnz == 0
    assert TextWords().fit(iter(NEWS)).vocabulary_ == words.vocabulary_


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ("one text", r"write \[text\]"),
        (b"bytes", r"write \[text\]"),
        (7, "not int"),
        ({"a": "text"}, "not dict"),
        (pd.DataFrame({"text": NEWS}), r"frame\['text'\]"),
        (np.array([NEWS]), "2 axes"),
        (["good", None], "text 1 .* is None, not a string; use '' for an empty document"),
        (["good", np.nan], "text 1 .* is nan, not a string; use ''"),
        (pd.Series(["good", None]), "text 1 .* not a string; use ''"),
        ([["tokens"]], "text 0 .* not a string; texts must be strings"),
    ],
)
def test_what_is_not_a_list_of_texts_is_named(texts: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        TextWords().fit(texts)
    with pytest.raises(DataError, match=problem):
        TextWords().fit(NEWS).transform(texts)


@pytest.mark.parametrize(
    ("texts", "options", "problem"),
    [
        ([], {}, "no texts"),
        (["", " ..."], {}, "none of the 2 texts has a word"),
        (["the and of"], {}, "stop_words"),
        (["a b"], {"language": None}, "min_length"),
        (["12"], {"language": None, "numbers": False}, "numbers=False"),
        (["one two"], {"language": None, "ngrams": (3, 3)}, r"3 words in a row that ngrams=\(3, 3\)"),
        (NEWS, {"min_count": 4}, "min_count=4 leaves no word: the most frequent, 'rate', is seen 3 times"),
        (NEWS, {"min_docs": 3}, "min_docs=3 leaves no word: the most frequent, 'rate', is in 2 texts"),
    ],
)
def test_an_empty_vocabulary_names_the_option_that_made_it(
    texts: list[str], options: dict[str, object], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        TextWords(**options).fit(texts)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"language": "klingon"}, "language='klingon' is not one of arabic"),
        ({"language": 3}, "language=3"),
        ({"stop_words": "klingon"}, "stop_words='klingon'"),
        ({"stop_words": [1]}, "not a list of strings"),
        ({"min_count": 0}, "min_count must be an integer of at least 1, not 0"),
        ({"min_docs": 0.5}, "min_docs must be .* not 0.5"),
        ({"max_words": True}, "max_words must be .* not True"),
        ({"ngrams": (2, 1)}, "longest of ngrams must be an integer of at least 2, not 1"),
        ({"ngrams": 2}, "ngrams must be a pair .* not 2"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        TextWords(**options).fit(NEWS)


def test_transform_before_fit_is_refused() -> None:
    with pytest.raises(NotFittedError):
        TextWords().transform(NEWS)


# scikit-learn


def test_clones_pickles_and_works_in_a_pipeline() -> None:
    words = TextWords("german", min_length=3)
    assert clone(words).get_params() == words.get_params()
    fitted = TextWords().fit(NEWS)
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - our own bytes
    assert (copy.transform(NEWS) != fitted.transform(NEWS)).nnz == 0
    pipeline = make_pipeline(TextWords(), LogisticRegression()).fit(NEWS, [1, 1, 0, 0])
    assert pipeline.predict(["wheat ships"]).tolist() == [1]
    assert "wheat" in pipeline[:-1].get_feature_names_out()


def test_accents_in_a_row_without_end_take_no_time() -> None:
    start = time.monotonic()
    (term,) = terms("a" + "\u0300" * 20_000 + "\u0316" * 20_000, stem=False)  # seconds to normalise
    assert time.monotonic() - start < 2.0
    assert len(term) == 32  # the first of them is in the letter


# whole words for stems


def test_a_stem_is_spelled_as_it_is_written_most_often() -> None:
    words = TextWords().fit(["Elections elections election", "theatre, theatres", "Theatrical theatrical"])
    shown = dict(zip(words.get_feature_names_out(), words.spellings_, strict=True))
    assert shown == {"elect": "elections", "theatr": "theatre"} | {
        name: shown[name] for name in shown if name not in {"elect", "theatr"}
    }
    assert len(set(words.spellings_)) == len(words.vocabulary_)


def test_spellings_follow_the_columns_through_every_option() -> None:
    texts = ["ministers vote ministers vote", "minister votes, the ministers voted"]
    pairs = TextWords(ngrams=(1, 2), min_count=2).fit(texts)
    assert dict(zip(pairs.get_feature_names_out(), pairs.spellings_, strict=True))["minist vote"] == "ministers vote"
    assert len(pairs.spellings_) == len(pairs.vocabulary_)
    for plain in (TextWords(stem=False).fit(texts), TextWords(None).fit(texts)):
        assert plain.spellings_.tolist() == plain.get_feature_names_out().tolist()
