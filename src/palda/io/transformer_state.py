"""What the JSON state and the arrays of a stored ``TextWords`` or ``ValueWords`` may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import LISTED_LANGUAGES, ArraySpec, check_arrays, words_from_arrays
from palda.io.json_rules import (
    ANY,
    FLAG,
    NULL,
    TEXT,
    Rule,
    check_object,
    check_value,
    either,
    integer,
    list_of,
    mapping_of,
    number,
    one_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import TextWords, ValueWords

_MAX_NGRAM = 100
_SWITCH = either(FLAG, one_of(0, 1))


def _languages() -> list[str]:
    import snowballstemmer

    return list(snowballstemmer.algorithms())


def _text_settings() -> dict[str, Rule]:
    languages = _languages()
    language = Rule("the name of a language", lambda value: type(value) is str and value.lower() in languages)
    lists = Rule(
        "the name of a list", lambda value: type(value) is str and value.lower() in {"auto", *LISTED_LANGUAGES}
    )
    return {
        "language": either(language, NULL),
        "stem": _SWITCH,
        "stop_words": either(lists, NULL, list_of(TEXT)),
        "min_count": integer(1),
        "min_docs": integer(1),
        "max_words": either(integer(1), NULL),
        "ngrams": list_of(integer(1, _MAX_NGRAM), 2),
        "lowercase": _SWITCH,
        "min_length": integer(1),
        "numbers": _SWITCH,
    }


def _value_settings() -> dict[str, Rule]:
    return {
        "n_bins": integer(1),
        "scope": one_of("feature", "pooled"),
        "strategy": one_of("quantile", "kmeans"),
        "n_words": integer(1),
        "random_state": either(integer(), NULL),
    }


WORDS_ARRAYS = {
    "words.centers": ArraySpec(("bins",), ascending=True, group="pooled values"),
    "words.n_features": ArraySpec((), "integer", low=1, high=2**31, group="pooled values"),
    "words.n_edges": ArraySpec(("features",), "integer", low=-1, high=2**31, group="values"),
    "words.edges": ArraySpec(("edges",), group="values"),
}
"""Arrays of a ``ValueWords``; a ``TextWords`` has none."""


def restore_words(content: Any, n_words: int | None = None) -> TextWords | ValueWords:
    """The transformer in the JSON content of a shard folder; ``ValueError`` if it is not one."""
    numbers = either(number(), list_of(number()))
    check_words_state(content, {"arrays": mapping_of(numbers)})
    schema = {name: replace(spec, group="") for name, spec in WORDS_ARRAYS.items() if has_array(content, spec)}
    arrays: dict[str, NDArray[Any]] = {
        name: np.asarray(values, dtype=_type_of(name)) for name, values in content["arrays"].items()
    }
    check_arrays(arrays, schema, {})
    words = words_from_arrays(content, arrays)
    if n_words is not None and len(words.get_feature_names_out()) != n_words:
        raise ValueError("its number of words differs from the manifest")
    return words


def _type_of(name: str) -> type:
    return np.int64 if name in WORDS_ARRAYS and WORDS_ARRAYS[name].dtype == "integer" else np.float64


def has_array(words: dict[str, Any], spec: ArraySpec) -> bool:
    """Whether a transformer with this state has the array."""
    if words["kind"] != "ValueWords":
        return False
    return (spec.group == "pooled values") is (words["settings"]["scope"] == "pooled")


def check_words_state(state: Any, extra: dict[str, Rule] | None = None) -> dict[str, Any]:
    """The JSON state of a transformer, if every value in it is one that a transformer may have."""
    kind = state.get("kind") if isinstance(state, dict) else None
    check_value(kind, one_of("TextWords", "ValueWords"), "the kind of words")
    head = {"kind": TEXT, "settings": ANY, **(extra or {})}
    if kind == "TextWords":
        check_object(state, head | {"vocabulary": list_of(TEXT)}, {"spellings": list_of(TEXT)}, "the words")
        check_object(state["settings"], _text_settings(), name="the settings of the words")
    else:
        check_object(state, head | {"features": list_of(TEXT)}, name="the words")
        check_object(state["settings"], _value_settings(), name="the settings of the words")
    return dict(state)
