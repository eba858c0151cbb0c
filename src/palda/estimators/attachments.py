"""What a model file holds beside the model: how texts become counts, and the texts and votes it learned from.

Everything is arrays and JSON; reading it back executes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import Votes, names_array, words_from_arrays, words_to_arrays

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from palda.data import Strings, TextWords, ValueWords

    Arrays = Mapping[str, NDArray[Any]]

__all__ = ["Attachments", "packed", "texts_array", "unpacked"]

_VOTE_COLUMNS = {"doc": np.int32, "annotator": np.int32, "label": np.int32, "value": np.int8}


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
        arrays, state["words"] = words_to_arrays(given.words)
    if given.texts is not None:
        arrays["texts"] = np.frombuffer(json.dumps(given.texts.tolist()).encode("ascii"), dtype=np.uint8)
    if given.votes is not None:
        arrays |= {f"votes.{name}": getattr(given.votes, name) for name in (*_VOTE_COLUMNS, "abstained")}
    return arrays, state


def unpacked(arrays: Arrays, state: Mapping[str, Any], axes: tuple[Strings, Strings, Strings] | None) -> Attachments:
    """What ``packed`` wrote; ``axes`` are the documents, annotators and classes of a model that knows votes."""
    words = words_from_arrays(state["words"], arrays) if "words" in state else None
    texts = None
    if "texts" in arrays:
        listed = json.loads(arrays["texts"].tobytes())
        texts = texts_array(listed if isinstance(listed, list) else [None])
        if axes is not None and len(texts) != len(axes[0]):
            raise ValueError(f"there are {len(texts)} texts for {len(axes[0])} documents")
    return Attachments(words, texts, None if axes is None else _votes(arrays, axes))


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
