"""``TextWords``: a transformer from texts to word counts."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import snowballstemmer
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from palda.data import validation
from palda.data.stop_word_lists import LISTED_LANGUAGES, stop_words
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from palda.data.documents import Counts
    from palda.data.frozen_arrays import Strings


class TextWords(TransformerMixin, BaseEstimator):
    """Counts of stemmed words in texts of any language.

    A word is a run of letters, digits and combining marks in any script, after Unicode's compatibility normalisation
    (NFKC). Everything else separates words, including apostrophes, hyphens and underscores; emoji are not words.
    Scripts without spaces between words (Han, Hiragana, Katakana, Thai, Lao, Khmer, Burmese) give overlapping pairs of
    characters: 東京都 counts as 東京 and 京都. Stop words are removed before stemming; n-grams are made of the rest.

    The vocabulary is that of the training texts. Words that are not in it are not counted (``transform_with_unseen``
    returns their number).

    Parameters
    ----------
    language : str or None, default "english"
        A Snowball language (``"english"``, ``"german"``, ``"russian"``, ...) or algorithm (``"porter"`` is Porter's
        original English stemmer). None disables stemming and stop words.
    stem : bool, default True
        Reduce words to their stems.
    stop_words : "auto", a language, collection of str, or None, default "auto"
        Words to drop. "auto" uses the list of ``language``. There are lists for English (scikit-learn's without content
        words such as "interest"), German, French, Spanish, Italian, Portuguese, Dutch, Swedish and Russian; other
        languages keep every word.
    min_count, min_docs : int, default 1
        Minimum number of occurrences of a word in the training texts, and of texts with it.
    max_words : int or None, default None
        Keep only the most frequent words; ties are broken alphabetically.
    ngrams : (int, int), default (1, 1)
        Minimum and maximum number of words in a term.
    lowercase : bool, default True
        Ignore case.
    min_length : int, default 2
        Drop shorter words, except in Korean and in scripts without spaces.
    numbers : bool, default True
        Keep words without a letter.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each word, in alphabetical order.
    spellings_ : array of str
        For each column a whole word for display: the most frequent one with that stem in the training texts.

    Examples
    --------
    >>> words = TextWords().fit(["Ships carry wheat.", "Wheat shipping rates"])
    >>> list(words.get_feature_names_out())
    ['carri', 'rate', 'ship', 'wheat']
    >>> list(words.spellings_)
    ['carry', 'rates', 'ships', 'wheat']
    """

    def __init__(
        self,
        language: str | None = "english",
        *,
        stem: bool = True,
        stop_words: str | Collection[str] | None = "auto",
        min_count: int = 1,
        min_docs: int = 1,
        max_words: int | None = None,
        ngrams: tuple[int, int] = (1, 1),
        lowercase: bool = True,
        min_length: int = 2,
        numbers: bool = True,
    ) -> None:
        self.language = language
        self.stem = stem
        self.stop_words = stop_words
        self.min_count = min_count
        self.min_docs = min_docs
        self.max_words = max_words
        self.ngrams = ngrams
        self.lowercase = lowercase
        self.min_length = min_length
        self.numbers = numbers

    def fit(self, X: Iterable[str], y: object = None) -> TextWords:
        """Learn the vocabulary of texts: a list, an array, a column of a table, or ``Documents``."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Iterable[str], y: object = None) -> Counts:  # noqa: ARG002 - scikit-learn's contract
        """Learn the vocabulary and count its words in the same texts."""
        self._check_options()
        analyse = _Analyser(self, counts_tokens=True)
        vectorizer = CountVectorizer(analyzer=analyse, dtype=np.int32)
        try:
            counts = vectorizer.fit_transform(checked_texts(X))
        except ValueError as error:
            if "empty vocabulary" not in str(error):
                raise
            raise DataError(self._why_empty(analyse)) from None
        names = vectorizer.get_feature_names_out()
        totals = np.bincount(counts.indices, weights=counts.data, minlength=len(names)).astype(np.int64)
        kept = self._frequent_columns(totals, np.bincount(counts.indices, minlength=len(names)), names)
        self.vocabulary_ = {str(name): column for column, name in enumerate(names[kept])}
        self.spellings_ = analyse.spellings(names[kept])
        return sparse.csr_array(counts[:, kept])

    def fit_chunks(self, chunks: Iterable[Iterable[str]]) -> TextWords:
        """Learn the vocabulary from chunks of texts; the result equals ``fit`` on all texts.

        Only the counts of distinct terms are kept in memory.
        """
        self._check_options()
        analyse = _Analyser(self, counts_tokens=True)
        totals: Counter[str] = Counter()
        in_docs: Counter[str] = Counter()
        for texts in chunks:
            for text in checked_texts(texts):
                terms = analyse(text)
                totals.update(terms)
                in_docs.update(set(terms))
        if not totals:
            raise DataError(self._why_empty(analyse))
        names = np.array(sorted(totals), dtype=object)
        seen, in_texts = (
            np.fromiter(map(numbers.__getitem__, names), np.int64, len(names)) for numbers in (totals, in_docs)
        )
        kept = self._frequent_columns(seen, in_texts, names)
        self.vocabulary_ = {str(name): column for column, name in enumerate(names[kept])}
        self.spellings_ = analyse.spellings(names[kept])
        return self

    def transform(self, X: Iterable[str]) -> Counts:
        """Counts of the words of the vocabulary: (texts, words), sparse 32-bit integers."""
        return self.transform_with_unseen(X)[0]

    def transform_with_unseen(self, X: Iterable[str]) -> tuple[Counts, NDArray[np.int64]]:
        """Counts, and the number of terms per text that are not in the vocabulary.

        Stop words and other words that the options drop are not terms, so an unseen term is one that was absent or too
        rare in the training texts.
        """
        check_is_fitted(self, "vocabulary_")
        return self._counted(X, _Analyser(self))

    def chunk_counter(self) -> Callable[[Iterable[str]], Counts]:
        """Function like ``transform`` for chunks of texts, which caches stems between calls."""
        check_is_fitted(self, "vocabulary_")
        analyse = _Analyser(self)
        return lambda texts: self._counted(texts, analyse)[0]

    def _counted(self, texts: Iterable[str], analyse: _Analyser) -> tuple[Counts, NDArray[np.int64]]:
        lengths: list[int] = []

        def terms(text: str) -> list[str]:
            found = analyse(text)
            lengths.append(len(found))
            return found

        vectorizer = CountVectorizer(analyzer=terms, vocabulary=self.vocabulary_, dtype=np.int32)
        counts: Counts = sparse.csr_array(vectorizer.transform(checked_texts(texts)))
        seen = np.asarray(counts.sum(axis=1), dtype=np.int64)
        return counts, np.array(lengths, dtype=np.int64) - seen

    def get_feature_names_out(self, input_features: object = None) -> Strings:  # noqa: ARG002 - scikit-learn's contract
        """Words, in the order of the columns."""
        check_is_fitted(self, "vocabulary_")
        return np.array(list(self.vocabulary_), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _check_options(self) -> None:
        for name in ("min_count", "min_docs", "min_length"):
            validation.require_count(getattr(self, name), name)
        if self.max_words is not None:
            validation.require_count(self.max_words, "max_words")
        if not isinstance(self.ngrams, (tuple, list)) or len(self.ngrams) != 2:
            raise DataError(
                f"ngrams must be a pair (shortest, longest) such as (1, 2), not {validation.shown(self.ngrams)}"
            )
        shortest, longest = self.ngrams
        validation.require_count(shortest, "the shortest of ngrams")
        validation.require_count(longest, "the longest of ngrams", minimum=shortest)

    def _why_empty(self, analyse: _Analyser) -> str:
        if not analyse.n_texts:
            return "there are no texts to learn words from"
        if not analyse.terms:
            return f"none of the {analyse.n_texts} texts has a word in it"
        if not any(analyse.terms.values()):
            return "every word is dropped by stop_words, min_length or numbers=False"
        return f"no text has the {self.ngrams[0]} words in a row that ngrams={self.ngrams!r} asks for"

    def _frequent_columns(
        self, totals: NDArray[np.int64], in_docs: NDArray[np.int64], names: Strings
    ) -> NDArray[np.int64]:
        """Columns that min_count, min_docs and max_words leave, in alphabetical order."""
        columns = np.arange(len(names))
        for option, minimum, numbers, seen in (
            ("min_count", self.min_count, totals, "seen {} times"),
            ("min_docs", self.min_docs, in_docs, "in {} texts"),
        ):
            if numbers[columns].max() < minimum:
                best = columns[np.argmax(numbers[columns])]
                raise DataError(
                    f"{option}={minimum} leaves no word: the most frequent, {validation.shown(names[best])}, "
                    f"is {seen.format(numbers[best])}"
                )
            columns = columns[numbers[columns] >= minimum]
        if self.max_words is not None:
            by_frequency = np.argsort(-totals[columns], kind="stable")
            columns = np.sort(columns[by_frequency[: self.max_words]])
        return columns


class _Analyser:
    """Splits a text into terms; used for one pass over the texts, with a cache of stems."""

    def __init__(self, options: TextWords, *, counts_tokens: bool = False) -> None:
        self.n_texts = 0
        self.terms = _Terms(options)
        self._token_counts: Counter[str] | None = Counter() if counts_tokens and self.terms.stems else None
        self._clean = _Cleaner(options.lowercase, options.language)
        self._tokens = _token_pattern().findall
        self._shortest, self._longest = options.ngrams

    def __call__(self, text: str) -> list[str]:
        self.n_texts += 1
        term_of = self.terms
        tokens = self._tokens(self._clean(text))
        if self._token_counts is not None:
            self._token_counts.update(tokens)
        terms = [term for token in tokens if (term := term_of[token])]
        if self._longest == 1:
            return terms
        return [
            " ".join(terms[start : start + length])
            for length in range(self._shortest, self._longest + 1)
            for start in range(len(terms) - length + 1)
        ]

    def spellings(self, terms: Iterable[str]) -> Strings:
        """For each term the most frequent token (or tokens) with that stem; the shortest of ties."""
        if self._token_counts is None:
            return np.array(list(terms), dtype=object)
        best: dict[str, tuple[int, int, str]] = {}
        for token, n_seen in self._token_counts.items():
            term, rank = self.terms[token], (-n_seen, len(token), token)
            best[term] = min(best.get(term, rank), rank)
        return np.array([" ".join(best[part][2] for part in term.split(" ")) for term in terms], dtype=object)


class _Terms(dict[str, str]):
    """Cache of the term of each distinct token: its stem, or "" if it is dropped."""

    def __init__(self, options: TextWords) -> None:
        super().__init__()
        self._dropped = _stop_tokens(options)
        self._min_length = options.min_length
        self._numbers = options.numbers
        language = _snowball_name(options.language)
        self._stem = snowballstemmer.stemmer(language).stemWord if options.stem and language else None

    def __missing__(self, token: str) -> str:
        term = self[token] = self._term(token)
        return term

    def _term(self, token: str) -> str:
        too_short = len(token) < self._min_length and not _NO_ALPHABET.match(token)
        if too_short or token.lower() in self._dropped or not (self._numbers or any(map(str.isalpha, token))):
            return ""
        return token if self._stem is None else str(self._stem(token))

    @property
    def stems(self) -> bool:
        """Whether a term may differ from its token."""
        return self._stem is not None


class _Cleaner:
    """Prepares a text for tokenising: normalised, lower case, scripts without spaces as pairs of characters."""

    def __init__(self, lowercase: bool, language: str | None) -> None:
        self._lowercase = lowercase
        self._dotless = _snowball_name(language) == "turkish"

    def __call__(self, text: str) -> str:
        if not text.isascii():
            text = _mark_run().sub(r"\1", text)
            text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
            text = _unspaced_run().sub(_pairs, text)
        if self._lowercase:
            text = (text.translate(_TURKISH_CAPITALS) if self._dotless else text).lower()
        return text.replace("_", " ")


# Joiners and soft hyphens occur inside words; without them a word equals its plain spelling.
_INVISIBLE = dict.fromkeys((0x00AD, 0x200C, 0x200D, 0x2060, 0xFEFF))
_TURKISH_CAPITALS = {ord("I"): "ı", ord("İ"): "i"}
_UNSPACED = (
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Hiragana and Katakana
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai and Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"  # Burmese and Khmer
)
_NO_ALPHABET = re.compile(f"[{_UNSPACED}\uac00-\ud7a3]")
"""Start of a word that may have one character; Korean writes syllables, with spaces."""


@cache
def _marks() -> str:
    """Ranges of all combining marks for a character class, in addition to word characters."""
    # Planes 0 and 1 and the variation selectors of plane 14: there are no marks in between.
    points = itertools.chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = [point for point in points if unicodedata.category(chr(point)).startswith("M")]
    runs = [[mark for _, mark in run] for _, run in itertools.groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


@cache
def _mark_run() -> re.Pattern[str]:
    """Marks in a row that no spelling has; normalising them takes quadratic time."""
    return re.compile(f"([{_marks()}]{{32}})[{_marks()}]+")


@cache
def _token_pattern() -> re.Pattern[str]:
    return re.compile(rf"\w+(?:[{_marks()}]+\w*)*")


@cache
def _unspaced_run() -> re.Pattern[str]:
    return re.compile(f"(?:[{_UNSPACED}][{_marks()}]*)+")


@cache
def _character() -> re.Pattern[str]:
    return re.compile(f".[{_marks()}]*", re.DOTALL)


def _pairs(run: re.Match[str]) -> str:
    """Overlapping pairs of characters; a single character stays as it is."""
    characters = _character().findall(run[0])
    pairs = map("".join, itertools.pairwise(characters)) if len(characters) > 1 else characters
    return f" {' '.join(pairs)} "


def _stop_tokens(options: TextWords) -> frozenset[str]:
    """Tokens to drop, as the tokeniser returns them in lower case."""
    given = options.stop_words
    if given is None:
        return frozenset()
    if isinstance(given, str):
        if given != "auto" and given.lower() not in LISTED_LANGUAGES:
            raise DataError(
                f"stop_words={given!r} is neither 'auto' nor a language with a list ({', '.join(LISTED_LANGUAGES)}); "
                "give the words themselves as a list"
            )
        return stop_words(_snowball_name(options.language) if given == "auto" else given.lower())
    if not isinstance(given, Collection) or not all(isinstance(word, str) for word in given):
        raise DataError(f"stop_words={validation.shown(given)} is not a list of strings")
    clean, pattern = _Cleaner(True, options.language), _token_pattern()
    return frozenset(token for word in given for token in pattern.findall(clean(word)))


def _snowball_name(language: str | None) -> str:
    """Name of the stemming algorithm; "" for none."""
    if language is None:
        return ""
    known: Sequence[str] = snowballstemmer.algorithms()
    if not isinstance(language, str) or language.lower() not in known:
        raise DataError(f"language={language!r} is not one of {', '.join(known)}; language=None disables stemming")
    return language.lower()


def checked_texts(texts: object) -> Iterator[str]:
    """Texts, one by one; anything else raises an error with its position."""
    if isinstance(texts, (str, bytes)):
        raise DataError("texts must be a list, not one string; write [text]")
    n_dimensions = getattr(texts, "ndim", 1)
    if n_dimensions != 1 or isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise DataError(
            f"texts must be a list, an array with one axis or a column of a table, not {type(texts).__name__}"
            + (f" with {n_dimensions} axes; choose the column, as in frame['text']" if n_dimensions != 1 else "")
        )
    return _strings(texts)


def _strings(texts: Iterable[object]) -> Iterator[str]:
    for position, text in enumerate(texts):
        if isinstance(text, str):
            yield text
        else:
            advice = "use '' for an empty document" if validation.is_blank(text) else "texts must be strings"
            raise DataError(f"text {position} (counted from 0) is {validation.shown(text)}, not a string; {advice}")
