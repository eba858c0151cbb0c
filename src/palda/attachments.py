"""What a model file holds beside the model: how texts become counts, and the texts and votes it learned from.

Everything is arrays and JSON; reading it back executes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data.types import Votes, names_array
from palda.data.words import TextWords, ValueWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from palda.data.frozen import Strings

    Arrays = Mapping[str, NDArray[Any]]

__all__ = ["Attachments", "packed", "texts_array", "unpacked"]

_VOTE_COLUMNS = {"doc": np.int32, "annotator": np.int32, "label": np.int32, "value": np.int8}
_NO_BINS = -1  # stands for the number of edges of a feature that was missing throughout


class Attachments(NamedTuple):
    """Each is None when the file was written without it."""

    words: TextWords | ValueWords | None = None
    texts: Strings | None = None
    votes: Votes | None = None


def texts_array(texts: Iterable[object]) -> Strings:
    """Texts as an array of strings."""
    listed = list(texts)
    wrong = next((text for text in listed if not isinstance(text, str)), None)
    if wrong is not None:
        raise ValueError(f"texts must be strings, and {wrong!r:.60} is none")
    return names_array(listed)


def packed(given: Attachments) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and JSON of a model file."""
    arrays: dict[str, NDArray[Any]] = {}
    state: dict[str, Any] = {}
    if given.words is not None:
        state["words"] = {"kind": type(given.words).__name__, "settings": _plain_settings(given.words)}
        if isinstance(given.words, TextWords):
            state["words"] |= {
                "vocabulary": list(given.words.vocabulary_),
                "spellings": given.words.spellings_.tolist(),
            }
        else:
            arrays |= _bins(given.words)
            state["words"]["features"] = getattr(given.words, "feature_names_in_", np.empty(0)).tolist()
    if given.texts is not None:
        arrays["texts"] = np.frombuffer(json.dumps(given.texts.tolist()).encode("ascii"), dtype=np.uint8)
    if given.votes is not None:
        arrays |= {f"votes.{name}": getattr(given.votes, name) for name in (*_VOTE_COLUMNS, "abstained")}
    return arrays, state


def unpacked(arrays: Arrays, state: Mapping[str, Any], axes: tuple[Strings, Strings, Strings] | None) -> Attachments:
    """What ``packed`` wrote; ``axes`` are the documents, annotators and classes of a model that knows votes."""
    words = _words(state["words"], arrays) if "words" in state else None
    texts = None
    if "texts" in arrays:
        listed = json.loads(arrays["texts"].tobytes())
        texts = texts_array(listed if isinstance(listed, list) else [None])
        if axes is not None and len(texts) != len(axes[0]):
            raise ValueError(f"there are {len(texts)} texts for {len(axes[0])} documents")
    return Attachments(words, texts, None if axes is None else _votes(arrays, axes))


def _plain_settings(words: TextWords | ValueWords) -> dict[str, Any]:
    return {name: _plain(value) for name, value in words.get_params(deep=False).items()}


def _plain(setting: Any) -> Any:
    """A setting as JSON knows it; a random generator in mid-stream is of no use any more."""
    if isinstance(setting, np.generic):
        return setting.item()
    if isinstance(setting, (str, int, float, bool, type(None))):
        return setting
    return list(setting) if isinstance(setting, Collection) else None


def _words(state: Mapping[str, Any], arrays: Arrays) -> TextWords | ValueWords:
    settings = dict(state["settings"])
    if state["kind"] == "TextWords":
        settings["ngrams"] = tuple(settings["ngrams"])
        words = TextWords(**settings)
        names = state["vocabulary"]
        words.vocabulary_ = {str(name): column for column, name in enumerate(names)}
        if len(words.vocabulary_) != len(names):
            raise ValueError("a word stands twice in the vocabulary")
        words.spellings_ = names_array(state.get("spellings", names))  # the first files had none
        if len(words.spellings_) != len(names):
            raise ValueError(f"there are {len(words.spellings_)} spellings for {len(names)} words")
        return words
    if state["kind"] != "ValueWords":
        raise ValueError(f"{state['kind']!r} is not known to make words")
    return _value_words(ValueWords(**settings), state["features"], arrays)


def _bins(words: ValueWords) -> dict[str, NDArray[Any]]:
    if words.scope == "pooled":
        return {"words.centers": words.centers_, "words.n_features": np.array(words.n_features_in_)}
    lengths = [_NO_BINS if edges is None else len(edges) for edges in words.edges_]
    edges = [edges for edges in words.edges_ if edges is not None]
    return {"words.n_edges": np.array(lengths), "words.edges": np.concatenate([np.empty(0), *edges])}


def _value_words(words: ValueWords, features: list[str], arrays: Arrays) -> ValueWords:
    if words.scope == "pooled":
        words.centers_ = arrays["words.centers"]
        words.n_features_in_ = int(arrays["words.n_features"])
    else:
        lengths = arrays["words.n_edges"]
        stops = np.cumsum(np.maximum(lengths, 0))
        parts = np.split(arrays["words.edges"], stops[:-1])
        words.edges_ = [None if length == _NO_BINS else part for length, part in zip(lengths, parts, strict=True)]
        words.n_features_in_ = len(lengths)
    if features:
        words.feature_names_in_ = names_array(features)
        if len(features) != words.n_features_in_:
            raise ValueError(f"there are {len(features)} names for {words.n_features_in_} features")
    return words


def _votes(arrays: Arrays, axes: tuple[Strings, Strings, Strings]) -> Votes | None:
    if "votes.doc" not in arrays:
        return None
    columns = {name: arrays[f"votes.{name}"].astype(kind, copy=False) for name, kind in _VOTE_COLUMNS.items()}
    abstained = arrays["votes.abstained"].astype(np.int32, copy=False)
    sizes = dict(zip(_VOTE_COLUMNS, (*map(len, axes), 2), strict=True))
    looks = {"doc": abstained[:, 0], "annotator": abstained[:, 1]}
    for name, codes in (*columns.items(), *looks.items()):
        if len(codes) and not (codes.min() >= 0 and codes.max() < sizes[name]):
            raise ValueError(f"the votes name a {name} that is not there")
    if len({len(codes) for codes in columns.values()}) != 1 or (np.diff(columns["doc"]) < 0).any():
        raise ValueError("the columns of the votes do not fit each other")
    doc_ids, annotators, classes = axes
    return Votes(**columns, doc_ids=doc_ids, annotators=annotators, classes=classes, abstained=abstained)
