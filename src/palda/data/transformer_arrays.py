"""Fitted ``TextWords`` and ``ValueWords`` as arrays and JSON for model files and shard folders."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data.frozen_arrays import names_array
from palda.data.text_words import TextWords
from palda.data.value_words import ValueWords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

_NO_BINS = -1  # number of edges of a feature without any value


def words_to_arrays(words: TextWords | ValueWords) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and JSON state of a fitted transformer."""
    settings = {name: _json_setting(value) for name, value in words.get_params(deep=False).items()}
    state: dict[str, Any] = {"kind": type(words).__name__, "settings": settings}
    if isinstance(words, TextWords):
        return {}, state | {"vocabulary": list(words.vocabulary_), "spellings": words.spellings_.tolist()}
    return _bins(words), state | {"features": getattr(words, "feature_names_in_", np.empty(0)).tolist()}


def _json_setting(setting: Any) -> Any:
    """A parameter as JSON; a random generator becomes None."""
    if isinstance(setting, np.generic):
        return setting.item()
    if isinstance(setting, (str, int, float, bool, type(None))):
        return setting
    return list(setting) if isinstance(setting, Collection) else None


def words_from_arrays(state: Mapping[str, Any], arrays: Arrays) -> TextWords | ValueWords:
    """The transformer that ``words_to_arrays`` wrote; nothing is executed."""
    settings = dict(state["settings"])
    if state["kind"] == "TextWords":
        settings["ngrams"] = tuple(settings["ngrams"])
        words = TextWords(**settings)
        names = state["vocabulary"]
        words.vocabulary_ = {str(name): column for column, name in enumerate(names)}
        if len(words.vocabulary_) != len(names):
            raise ValueError("the vocabulary has a duplicate word")
        words.spellings_ = names_array(state.get("spellings", names))  # files of the first versions have none
        if len(words.spellings_) != len(names):
            raise ValueError(f"there are {len(words.spellings_)} spellings for {len(names)} words")
        return words
    if state["kind"] != "ValueWords":
        raise ValueError(f"{state['kind']!r} is not a known transformer")
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
        if np.maximum(lengths, 0).sum() != len(arrays["words.edges"]):
            raise ValueError("the numbers of bins do not add up")
        stops = np.cumsum(np.maximum(lengths, 0))
        parts = np.split(arrays["words.edges"], stops[:-1])
        words.edges_ = [None if length == _NO_BINS else part for length, part in zip(lengths, parts, strict=True)]
        if any(part is not None and (np.diff(part) < 0).any() for part in words.edges_):
            raise ValueError("the edges of a feature are not in ascending order")
        words.n_features_in_ = len(lengths)
    if features:
        words.feature_names_in_ = names_array(features)
        if len(features) != words.n_features_in_:
            raise ValueError(f"there are {len(features)} names for {words.n_features_in_} features")
    return words
