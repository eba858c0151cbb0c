"""Rules for the values of JSON files: plain values out of declared sets and ranges, and nothing else.

A value from a file never becomes an address, a path, a class or a call. A rule says what a key may hold; a key without
a rule is refused. This module imports no numerical package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_INTEGER = 2**53
"""Largest absolute value of an integer in a file: larger ones are not exact as floating-point numbers."""

Plain: TypeAlias = str | int | float | bool | None
_MAX_SHOWN = 60
_PLAIN_TYPES = (str, int, float, bool, type(None))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Rule(NamedTuple):
    """What a value may be, in words for a message, and the test for it."""

    what: str
    accepts: Callable[[Any], bool]


class ValueRuleError(ValueError):
    """A value that its rule refuses, or a key that is missing or unknown; one line, without the name of the file."""


def is_plain(value: Any) -> bool:
    """Whether a value is a string, a boolean, None, or a number that is finite and of ordinary size."""
    if type(value) is int:
        return abs(value) <= MAX_INTEGER
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in _PLAIN_TYPES


def one_of(*choices: Plain) -> Rule:
    """One of a few values, with their types."""
    accepted = [(type(choice), choice) for choice in choices]
    return Rule(f"one of {', '.join(map(repr, choices))}", lambda value: (type(value), value) in accepted)


def integer(low: int = 0, high: int = MAX_INTEGER) -> Rule:
    """An integer within bounds; a boolean is none."""
    return Rule(f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low: float = -1e50, high: float = 1e50) -> Rule:
    """A finite number within bounds."""
    return Rule(
        f"a number from {low:g} to {high:g}", lambda value: type(value) in (int, float) and low <= value <= high
    )


def either(*rules: Rule) -> Rule:
    """What one of several rules accepts."""
    return Rule(" or ".join(rule.what for rule in rules), lambda value: any(rule.accepts(value) for rule in rules))


def list_of(rule: Rule, length: int | None = None) -> Rule:
    """A list of such values, of a length if one is given."""
    what = f"a list of {'' if length is None else f'{length} times '}{rule.what}"
    return Rule(
        what,
        lambda value: (
            type(value) is list and (length is None or len(value) == length) and all(map(rule.accepts, value))
        ),
    )


def mapping_of(rule: Rule) -> Rule:
    """An object with any keys and such values."""
    return Rule(
        f"an object with {rule.what} for each key",
        lambda value: type(value) is dict and all(map(rule.accepts, value.values())),
    )


ANY = Rule("anything", lambda _: True)
FLAG = Rule("true or false", lambda value: type(value) is bool)
TEXT = Rule("a string", lambda value: type(value) is str)
NULL = Rule("null", lambda value: value is None)
NON_FINITE = Rule("an infinite number", lambda value: type(value) is float and math.isinf(value))
DIGEST = Rule(
    "a SHA-256 digest",
    lambda value: type(value) is str and len(value) == 64 and set(value) <= set("0123456789abcdef"),
)
UNICODE = Rule("a string without half of a surrogate pair", lambda value: type(value) is str and _is_encodable(value))
NAME = either(UNICODE, integer(-MAX_INTEGER))
NUMBER_OR_INFINITE = either(number(), NON_FINITE)


def check_value(value: Any, rule: Rule, name: str) -> Any:
    """The value, if the rule accepts it."""
    if not rule.accepts(value):
        raise ValueRuleError(f"{name} must be {rule.what}, not {_shown(value)}")
    return value


def check_object(
    value: Any, required: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None, name: str = "the file"
) -> dict[str, Any]:
    """The object, if it has all required keys, no unknown ones, and each value is accepted by the rule of its key."""
    if type(value) is not dict:
        raise ValueRuleError(f"{name} must be a JSON object, not {_shown(value)}")
    rules = {**required, **(optional or {})}
    for key in required:
        if key not in value:
            raise ValueRuleError(f"{key!r} of {name} is missing")
    for key, part in value.items():
        if key not in rules:
            raise ValueRuleError(f"{_shown(key)} of {name} is unknown")
        check_value(part, rules[key], f"{key!r} of {name}")
    return value
