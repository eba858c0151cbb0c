from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import snowballstemmer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from palda import simulate
from palda.data import stop_words
from palda.simulate import newsroom_example

GENERAL_WORDS = {word for theme in newsroom_example.GENERAL_THEMES.values() for word in theme}


def keywords(name: str) -> set[str]:
    """Words of all themes of a class."""
    return {word for theme in newsroom_example._CLASS_THEMES[name] for word in newsroom_example.THEMES[theme]}


@pytest.fixture(scope="module")
def news() -> simulate.SimulatedDocuments:
    return simulate.newsroom(seed=0)


def test_words_are_lower_case_english_looking_words():
    words = newsroom_example.newsroom_model().vocabulary
    assert 400 < len(words) < 700
    assert all(word.isascii() and word.isalpha() and word.islower() and len(word) >= 3 for word in words)
    assert all(set(word) & set("aeiouy") for word in words)


def test_every_class_has_its_keywords_and_related_classes_share_some():
    assert sorted(newsroom_example.CLASSES) == list(newsroom_example.CLASSES)
    assert {"crime", "politics", "arts", "sports"} < set(newsroom_example.CLASSES)
    words = {name: keywords(name) for name in newsroom_example.CLASSES}
    assert all(35 <= len(own) <= 60 for own in words.values())
    uses = Counter(word for own in words.values() for word in own)
    assert sum(count > 1 for count in uses.values()) >= 30
    assert all(any(uses[word] > 1 for word in own) for own in words.values())


def test_general_words_are_no_keywords_even_when_stemmed():
    assert {"officials", "residents", "protest"} < GENERAL_WORDS
    assert len(GENERAL_WORDS) < 100
    stem = snowballstemmer.stemmer("english").stemWord
    stems = {stem(word) for name in newsroom_example.CLASSES for word in keywords(name)}
    assert not stems & {stem(word) for word in GENERAL_WORDS}


def test_no_word_is_a_stop_word():
    assert not set(newsroom_example.newsroom_model().vocabulary) & stop_words("english")


def test_no_theme_repeats_a_word():
    for theme in (*newsroom_example.THEMES.values(), *newsroom_example.GENERAL_THEMES.values()):
        assert len(theme) == len(set(theme))


def test_word_weights_fall_smoothly_within_a_theme():
    model = newsroom_example.newsroom_model()
    position = {word: place for place, word in enumerate(model.vocabulary)}
    for topic, theme in enumerate((*newsroom_example.THEMES.values(), *newsroom_example.GENERAL_THEMES.values())):
        own = model.topic_words[topic, [position[word] for word in theme]]
        assert (np.diff(own) < 0).all()
        assert own[0] < 8 * own[-1]
        assert own.sum() > 0.97
    assert (model.topic_words > 0).all()


def test_present_classes_use_their_themes_and_absent_ones_general_themes():
    mean = newsroom_example.newsroom_model().topic_prior
    mean = mean / mean.sum(axis=2, keepdims=True)
    n_general = len(newsroom_example.GENERAL_THEMES)
    assert (mean[:, 0, -n_general:].sum(axis=1) > 0.9).all()
    assert (mean[:, 1, :-n_general].sum(axis=1) > 0.9).all()


def test_absent_classes_have_different_themes():
    mean = newsroom_example.newsroom_model().topic_prior[:, 0]
    mean = mean / mean.sum(axis=1, keepdims=True)
    apart = np.abs(mean[:, None] - mean).sum(axis=2)[np.triu_indices(len(mean), 1)] / 2
    assert apart.min() > 0.25


def test_theme_shares_of_a_class_sum_to_one():
    for themes in (*newsroom_example._CLASS_THEMES.values(), *newsroom_example._ABSENT_THEMES.values()):
        assert sum(themes.values()) == pytest.approx(1)


def test_few_words_are_keywords_of_absent_classes(news):
    position = {word: place for place, word in enumerate(news.corpus.vocabulary)}
    is_keyword = np.zeros((len(newsroom_example.CLASSES), len(position)), dtype=bool)
    for place, name in enumerate(newsroom_example.CLASSES):
        is_keyword[place, [position[word] for word in keywords(name)]] = True
    counts = news.corpus.counts.toarray()
    on_topic = counts[news.labels @ is_keyword > 0].sum() / counts.sum()
    general = counts[:, [position[word] for word in GENERAL_WORDS]].sum() / counts.sum()
    assert on_topic > 0.2
    assert 1 - on_topic - general < 0.03


def test_documents_are_keyword_texts_with_numbered_ids(news):
    assert len(news) == 2000
    assert news.doc_ids[[0, -1]].tolist() == ["news-0001", "news-2000"]
    lengths = np.array([len(text.split()) for text in news.documents])
    assert abs(lengths.mean() - 80) < 1
    known = set(news.model.vocabulary)
    assert all(set(text.split()) <= known for text in news.documents)


def test_counts_are_those_of_the_texts(news):
    counted = CountVectorizer(vocabulary=news.corpus.vocabulary.tolist()).transform(news.documents)
    assert (counted != news.corpus.counts).nnz == 0


def test_classes_occur_in_sets(news):
    labels = news.labels
    rates = labels.mean(axis=0)
    assert (np.abs(rates - news.class_prior) < 4 * np.sqrt(rates / 2000)).all()
    position = {name: place for place, name in enumerate(news.classes)}
    for one, other in (("crime", "politics"), ("health", "science"), ("arts", "travel")):
        first, second = labels[:, position[one]], labels[:, position[other]]
        assert (first & second).mean() > 1.5 * first.mean() * second.mean()
    assert 1.5 < labels.sum(axis=1).mean() < 2.5
    assert sum(weight for weight, _ in newsroom_example.LABEL_SETS) == pytest.approx(1)


def test_the_parameters_are_fixed_and_the_seed_selects_documents():
    one, again, other = (simulate.newsroom(30, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.documents[0] != other.documents[0]
    assert one.model == other.model


def test_every_class_is_learnable_but_not_trivial(news):
    counts = news.corpus.counts.astype(np.float64)
    rest, held_out = slice(0, 1500), slice(1500, None)
    predicted = np.column_stack(
        [
            LogisticRegression(max_iter=500).fit(counts[rest], labels[rest]).predict(counts[held_out])
            for labels in news.labels.T
        ]
    )
    truth = news.labels[held_out]
    assert 0.85 < f1_score(truth, predicted, average="micro") < 0.97
    assert f1_score(truth, predicted, average=None).min() > 0.75


def test_no_single_keyword_identifies_a_class(news):
    present = news.corpus.counts.toarray() > 0
    for labels in news.labels.T.astype(bool):
        caught = present[labels].mean(axis=0)
        false_alarms = present[~labels].mean(axis=0)
        assert (caught - false_alarms).max() < 0.6
