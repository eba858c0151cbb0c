"""The newsroom: a simulated data set with readable words, for examples and demonstrations.

Its classes, their themes and the words of each theme are in ``newsroom.toml``. Themes are the topics of the model: a
class that is present uses its own themes, a class that is absent uses general ones. Related classes share themes, and
ambiguous words ("trial", "match", "drug") belong to several themes, so that no single word identifies a class.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palda.data import names_array, validation
from palda.simulate.document_sampling import DocumentModel, numbered_names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from palda.simulate.document_sampling import Floats, Lengths, SimulatedDocuments

_DATA = tomllib.loads(Path(__file__).with_name("newsroom.toml").read_text(encoding="utf-8"))

THEMES: dict[str, list[str]] = {name: words.split() for name, words in _DATA["themes"].items()}
"""Words of each theme, most frequent first."""

GENERAL_THEMES: dict[str, list[str]] = {name: words.split() for name, words in _DATA["general_themes"].items()}
"""Themes that belong to no class; absent classes use them."""

_CLASS_THEMES: dict[str, dict[str, float]] = _DATA["present"]
"""Themes of a class when it is present, with their shares."""

_ABSENT_THEMES: dict[str, dict[str, float]] = _DATA["absent"]
"""Themes of a class when it is absent."""

CLASSES: tuple[str, ...] = tuple(_CLASS_THEMES)
"""Names of the classes, sorted."""

_ALL_THEMES = THEMES | GENERAL_THEMES
"""Words of the topics, in the order of all arrays."""

LABEL_SETS: list[tuple[float, list[str]]] = [(profile["weight"], profile["classes"]) for profile in _DATA["label_sets"]]
"""Label-set profiles: weight and classes of each."""

_PROB_IN_SET, _PROB_OUT_OF_SET = 0.9, 0.03
"""Probability of a class that belongs to the drawn profile, and of one that does not."""

_PRESENT_SHARE, _ABSENT_SHARE = 0.94, 0.98
"""Mean share of a class's tokens from its own themes (present) and from general themes (absent)."""

_CONCENTRATION = 4.0
"""Sum of the Dirichlet parameters, low enough for most documents to use mainly one or two themes per class."""

_BACKGROUND = 0.01
"""Probability that a token of a theme is drawn uniformly from the vocabulary."""

_ZIPF_SHIFT = 4.0
"""Shift in the word weights of a theme, 1 / (rank + shift); it makes the top words more equal."""


def newsroom(
    n_docs: int = 2000, *, seed: int = 0, doc_length: ArrayLike = 80, lengths: Lengths = "poisson"
) -> SimulatedDocuments:
    """News items as keyword texts, with ten overlapping classes that occur in sets (crime and politics, ...).

    The parameters are fixed; ``seed`` selects the documents.

    Parameters
    ----------
    n_docs : int, default 2000
        Number of documents; their ids are ``news-0001`` and so on.
    seed : int, default 0
        Random seed.
    doc_length : int or array of shape (documents,), default 80
        Number of tokens per document; the mean with ``lengths="poisson"``.
    lengths : "fixed" or "poisson", default "poisson"
        Distribution of document lengths.

    Returns
    -------
    SimulatedDocuments
        Texts, word counts, true labels and the parameters.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(3, seed=0)
    >>> news.documents[0][:37]
    'deal announced family couple monument'
    >>> news.classes[news.labels[0] == 1].tolist()
    ['arts', 'education']
    """
    validation.require_count(n_docs, "n_docs")
    doc_ids = numbered_names("news", n_docs, 4)
    return newsroom_model().documents(
        n_docs, seed=seed, doc_length=doc_length, lengths=lengths, texts=True, doc_ids=doc_ids
    )


def newsroom_model() -> DocumentModel:
    """The newsroom as parameters of the generative model."""
    words = sorted({word for theme in _ALL_THEMES.values() for word in theme})
    return DocumentModel(
        np.array([weight for weight, _ in LABEL_SETS]),
        np.array(
            [[_PROB_IN_SET if name in members else _PROB_OUT_OF_SET for name in CLASSES] for _, members in LABEL_SETS]
        ),
        _topic_prior(),
        _topic_words(words),
        names_array(CLASSES),
        names_array(_ALL_THEMES),
        names_array(words),
    )


def _topic_words(words: list[str]) -> Floats:
    """Word distributions of shape (topics, words): Zipf-like over the theme's words, tiny elsewhere."""
    column = {word: i for i, word in enumerate(words)}
    probs = np.full((len(_ALL_THEMES), len(words)), _BACKGROUND / len(words))
    for topic, theme in enumerate(_ALL_THEMES.values()):
        own = [column[word] for word in theme]
        weights = 1.0 / (np.arange(1, len(own) + 1) + _ZIPF_SHIFT)
        probs[topic, own] += (1.0 - _BACKGROUND) * weights / weights.sum()
    return probs


def _topic_prior() -> Floats:
    """Dirichlet parameters of shape (classes, 2, topics): absent first, then present."""
    states = ((_ABSENT_THEMES, _ABSENT_SHARE), (_CLASS_THEMES, _PRESENT_SHARE))
    position = {theme: topic for topic, theme in enumerate(_ALL_THEMES)}
    mean = np.empty((len(CLASSES), len(states), len(position)))
    for state, (themes, share_of_own) in enumerate(states):
        mean[:, state] = (1.0 - share_of_own) / len(position)
        for i, name in enumerate(CLASSES):
            for theme, share in themes[name].items():
                mean[i, state, position[theme]] += share_of_own * share
    return _CONCENTRATION * mean
