"""Records of stages: arrays and JSON values, checked when they are read from a checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from palda.data import ArraySpec, SchemaError, schema_for
from palda.io import ArrayArchive, json_rules, open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from palda.data import Schema

STATE = "state"
"""Name of the array that holds the JSON of a stage."""

MAX_JSON_BYTES = 16 << 20
"""Largest JSON text of a checkpoint."""

_MAX_NUMBER = 1e18
_STATE_ARRAY = {STATE: ArraySpec(("bytes of the state",), "uint8")}


def _number(high: float) -> json_rules.Rule:
    return json_rules.either(json_rules.number(-_MAX_NUMBER, high), json_rules.one_of(-math.inf))


class StageRecord(NamedTuple):
    """The stored result of a stage, or its intermediate state.

    Values of ``state`` are read by the methods, which raise ``ValueError`` for anything but the expected kind of value.
    """

    arrays: Mapping[str, NDArray[Any]]
    state: Mapping[str, Any]  # JSON values

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer within bounds."""
        return int(json_rules.check_value(self.state[name], json_rules.integer(low, high), name))

    def number(self, name: str, high: float = _MAX_NUMBER) -> float:
        """A number of at most ``high``; it may be minus infinity."""
        return float(json_rules.check_value(self.state[name], _number(high), name))

    def numbers(self, name: str) -> list[float]:
        """A list of such numbers."""
        rule = json_rules.list_of(_number(_MAX_NUMBER))
        return [float(number) for number in json_rules.check_value(self.state[name], rule, name)]

    def flag(self, name: str) -> bool:
        """A boolean."""
        return bool(json_rules.check_value(self.state[name], json_rules.FLAG, name))

    def part(self, name: str) -> StageRecord:
        """A JSON object within the state."""
        return StageRecord({}, json_rules.check_value(self.state[name], json_rules.mapping_of(json_rules.ANY), name))


@dataclass(frozen=True)
class RecordSchema:
    """What the record of a stage may hold: the arrays of one of several schemas, with the sizes that are known."""

    sizes: Mapping[str, int]
    alternatives: tuple[Schema, ...]


def read_record(path: Path, expected: RecordSchema) -> StageRecord:
    """A record from a stage file; ``ValueError`` if it is not as expected."""
    with open_regular(path) as stream:
        archive = ArrayArchive(stream)
        names = archive.array_names
        if len(names) != len(archive.members) or STATE not in names:
            raise SchemaError("it does not hold arrays and a state alone")
        if archive.header(STATE).n_bytes > MAX_JSON_BYTES:
            raise SchemaError("its state is too large")
        schema = schema_for([name for name in names if name != STATE], expected.alternatives)
        arrays = archive.read_all({**schema, **_STATE_ARRAY}, expected.sizes)
    state = json.loads(arrays.pop(STATE).tobytes())
    return StageRecord(arrays, json_rules.check_value(state, json_rules.mapping_of(json_rules.ANY), "its state"))
