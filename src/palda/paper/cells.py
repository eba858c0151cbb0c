"""Cells: the smallest pieces of an experiment, each stored in its own file as soon as it is finished.

This module imports no numerical package, because the command line plans and reads cells without one.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from palda.errors import PaldaError
from palda.io import json_rules, open_regular, package_version, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterable, Mapping

    K = TypeVar("K", bound=Hashable)

Setting: TypeAlias = str | int | float | bool | None
Source: TypeAlias = Literal["gold", "votes", "majority", "dawid_skene"]

SOURCES: dict[str, str] = {
    "gold": "gold labels",
    "votes": "votes",
    "majority": "majority vote",
    "dawid_skene": "Dawid-Skene",
}
"""Training labels of a method, and their names in tables."""

_MAX_FILE_BYTES = 16 << 20
_FORMAT = 1  # format version of the files; part of every key
_PACKAGES = ("palda", "numpy", "scipy", "scikit-learn", "numba", "tomotopy", "crowd-kit")


@dataclass(frozen=True)
class Cell:
    """One method on one data set with one seed: everything that affects the result, and nothing else.

    ``seed`` determines the random split (where a data set has one), the subset of the training documents, the crowd and
    the method's random numbers. ``options`` are set by the experiment; ``settings`` are all parameters of the resulting
    estimator. ``quick`` only selects how the method is built: a quick cell with the same settings as a full one is the
    same cell.
    """

    data: str
    method: str
    source: Source
    seed: int
    fraction: float = 1.0
    crowd: str = ""
    votes_per_doc: int = 0
    options: tuple[tuple[str, Setting], ...] = ()
    settings: tuple[tuple[str, Setting], ...] = ()
    quick: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """Digest of everything that affects the result, including the version of palda."""
        content = asdict(self) | {"format": _FORMAT, "palda": package_version("palda")}
        del content["quick"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def file_name(self) -> str:
        """Readable file name, unique by the key."""
        return f"{self.data}_{self.method}_{self.source}_seed{self.seed}_{self.key}.json"

    def option(self, name: str) -> Setting:
        """Value of an option, None if the experiment does not set it."""
        return dict(self.options).get(name)

    def __str__(self) -> str:
        options = "".join(f", {name} {value}" for name, value in self.options)
        part = "" if self.fraction == 1 else f", {self.fraction:.0%} of the documents"
        return f"{self.data}: {self.method} from {SOURCES[self.source]}{options}{part}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class CellRecord:
    """Result of a finished cell: measures (NaN if not available), and how they were obtained."""

    cell: Cell
    measures: Mapping[str, float]
    details: Mapping[str, list[float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    n_threads: int = 1
    finished: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Text of the cell's file; NaN is stored as null."""
        content = asdict(self)
        content["measures"] = {name: _none_if_nan(value) for name, value in self.measures.items()}
        content["details"] = {name: [_none_if_nan(value) for value in values] for name, values in self.details.items()}
        return json.dumps({"key": self.cell.key, **content}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CellRecord:
        """Inverse of ``to_json``; ``ValueError`` if a value is not one that a record may have."""
        content = json_rules.check_object(json.loads(text), _RECORD_RULES, name="the record")
        cell = json_rules.check_object(content["cell"], _CELL_RULES, name="the cell")
        del content["key"]
        for name in ("options", "settings"):
            cell[name] = tuple((key, value) for key, value in cell[name])
        content["cell"] = Cell(**cell)
        content["measures"] = {name: _nan_if_none(value) for name, value in content["measures"].items()}
        content["details"] = {name: [_nan_if_none(v) for v in values] for name, values in content["details"].items()}
        content["warnings"] = tuple(content["warnings"])
        return cls(**content)


_NUMBER_OR_NULL = json_rules.either(json_rules.number(), json_rules.NULL)
_IDENTIFIER = json_rules.Rule(
    "a short name", lambda value: type(value) is str and bool(re.fullmatch(r"[\w+. -]{0,100}", value))
)
_SETTINGS = json_rules.list_of(
    json_rules.Rule(
        "a pair of a name and a plain value",
        lambda value: (
            type(value) is list and len(value) == 2 and _IDENTIFIER.accepts(value[0]) and json_rules.is_plain(value[1])
        ),
    )
)
_CELL_RULES = {
    "data": _IDENTIFIER,
    "method": _IDENTIFIER,
    "source": json_rules.one_of(*SOURCES),
    "seed": json_rules.integer(0, 10_000),  # plans are made up to the largest seed
    "fraction": json_rules.number(0.0, 1.0),
    "crowd": _IDENTIFIER,
    "votes_per_doc": json_rules.integer(0, 1_000_000),
    "options": _SETTINGS,
    "settings": _SETTINGS,
    "quick": json_rules.FLAG,
}
_RECORD_RULES = {
    "key": json_rules.Rule("a key", lambda value: type(value) is str and bool(re.fullmatch("[0-9a-f]{16}", value))),
    "cell": json_rules.mapping_of(json_rules.ANY),
    "measures": json_rules.mapping_of(_NUMBER_OR_NULL),
    "details": json_rules.mapping_of(json_rules.list_of(_NUMBER_OR_NULL)),
    "warnings": json_rules.list_of(json_rules.TEXT),
    "seconds": json_rules.number(0.0, 1e9),
    "n_threads": json_rules.integer(1, 1_000_000),
    "finished": json_rules.TEXT,
    "versions": json_rules.mapping_of(json_rules.TEXT),
}


def group_by(records: Iterable[CellRecord], key: Callable[[Cell], K]) -> dict[K, list[CellRecord]]:
    """Records by a key of their cell, in order of first appearance."""
    groups: defaultdict[K, list[CellRecord]] = defaultdict(list)
    for record in records:
        groups[key(record.cell)].append(record)
    return dict(groups)


class Store:
    """A folder with one file per finished cell."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._cells = self.folder / "cells"

    def load(self, cell: Cell) -> CellRecord | None:
        """Record of a finished cell; None if it has not been run or its file cannot be read."""
        record = _read(self._cells / cell.file_name)
        if record is None or record.cell != cell:
            return None
        return replace(record, cell=cell)  # keep the caller's ``quick``

    def load_all(self, cells: Iterable[Cell]) -> list[CellRecord]:
        """Records of the cells that are finished, in the given order."""
        return [record for record in map(self.load, cells) if record is not None]

    def load_everything(self) -> list[CellRecord]:
        """Every record in the folder, including those of other versions of palda."""
        return [record for path in sorted(self._cells.glob("*.json")) if (record := _read(path)) is not None]

    def save(self, record: CellRecord) -> Path:
        """Write a record atomically and return its path."""
        path = self._cells / record.cell.file_name
        write_atomically(path, record.to_json())
        return path


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's text; a concurrent reader sees the old text or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PaldaError(f"cannot write to {path.parent} ({error.strerror or error}); choose another folder") from None


def versions() -> dict[str, str]:
    """Versions of Python, palda and the installed packages that affect results."""
    installed = {package: version for package in _PACKAGES if (version := package_version(package))}
    return {"python": platform.python_version()} | installed


def _read(path: Path) -> CellRecord | None:
    try:
        with open_regular(path) as file:
            return CellRecord.from_json(file.read(_MAX_FILE_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value
