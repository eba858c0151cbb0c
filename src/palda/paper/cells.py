"""Cells: the smallest pieces of an experiment, each kept in a file of its own as soon as it is done.

Nothing here imports a numerical package: the command line plans and reads cells before it needs one.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from palda.errors import PaldaError
from palda.io import package_version, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterable, Mapping

    K = TypeVar("K", bound=Hashable)

__all__ = [
    "SOURCES",
    "Cell",
    "CellRecord",
    "Setting",
    "Source",
    "Store",
    "grouped",
    "versions",
    "write_atomically",
]

Setting: TypeAlias = str | int | float | bool | None
Source: TypeAlias = Literal["gold", "votes", "majority", "dawid_skene"]

SOURCES: dict[str, str] = {
    "gold": "gold labels",
    "votes": "votes",
    "majority": "majority vote",
    "dawid_skene": "Dawid-Skene",
}
"""What a method learns from, as tables name it."""

_FORMAT = 1  # of the files; part of every key
_PACKAGES = ("palda", "numpy", "scipy", "scikit-learn", "numba", "tomotopy", "crowd-kit")


@dataclass(frozen=True)
class Cell:
    """One method on one data set with one seed: everything that changes what comes out, and nothing else.

    The seed draws the random split (where a data set has one), the part of the training documents, the crowd and
    whatever the method draws. ``options`` are what the experiment asks of a method, ``settings`` all parameters that
    the method then has. ``quick`` only says how to build the method: a quick cell whose settings are those of a full
    one is the same cell.
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
        """Digest of all that changes the result, palda's version included."""
        content = asdict(self) | {"format": _FORMAT, "palda": package_version("palda")}
        del content["quick"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def file_name(self) -> str:
        """Readable for people, unique by the key."""
        return f"{self.data}_{self.method}_{self.source}_seed{self.seed}_{self.key}.json"

    def option(self, name: str) -> Setting:
        """An option's value, None if the experiment does not ask for it."""
        return dict(self.options).get(name)

    def __str__(self) -> str:
        asked = "".join(f", {name} {value}" for name, value in self.options)
        part = "" if self.fraction == 1 else f", {self.fraction:.0%} of the documents"
        return f"{self.data}: {self.method} from {SOURCES[self.source]}{asked}{part}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class CellRecord:
    """A finished cell: measures (NaN where there is none), and under which circumstances they were taken."""

    cell: Cell
    measures: Mapping[str, float]
    details: Mapping[str, list[float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    n_threads: int = 1
    finished: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Text of the cell's file; JSON has no NaN, so what was not measured is null."""
        content = asdict(self)
        content["measures"] = {name: _none_if_nan(value) for name, value in self.measures.items()}
        content["details"] = {name: [_none_if_nan(value) for value in values] for name, values in self.details.items()}
        return json.dumps({"key": self.cell.key, **content}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CellRecord:
        """Inverse of ``to_json``."""
        content: dict[str, Any] = json.loads(text)
        del content["key"]
        cell = content["cell"]
        for name in ("options", "settings"):
            cell[name] = tuple((key, value) for key, value in cell[name])
        content["cell"] = Cell(**cell)
        content["measures"] = {name: _nan_if_none(value) for name, value in content["measures"].items()}
        content["details"] = {name: [_nan_if_none(v) for v in values] for name, values in content["details"].items()}
        content["warnings"] = tuple(content["warnings"])
        return cls(**content)


def grouped(records: Iterable[CellRecord], by: Callable[[Cell], K]) -> dict[K, list[CellRecord]]:
    """Records by what ``by`` says of their cell, in order of first appearance."""
    groups: defaultdict[K, list[CellRecord]] = defaultdict(list)
    for record in records:
        groups[by(record.cell)].append(record)
    return dict(groups)


class Store:
    """A folder with one file for each finished cell."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._cells = self.folder / "cells"

    def load(self, cell: Cell) -> CellRecord | None:
        """The finished cell, None if it is still to be run; a file that cannot be read counts as not there."""
        record = _read(self._cells / cell.file_name)
        return None if record is None else replace(record, cell=cell)  # files do not say who asks: quick or full

    def load_all(self, cells: Iterable[Cell]) -> list[CellRecord]:
        """Those of the cells that are finished, in their order."""
        return [record for record in map(self.load, cells) if record is not None]

    def every(self) -> list[CellRecord]:
        """Every record in the folder, those of other versions included."""
        return [record for path in sorted(self._cells.glob("*.json")) if (record := _read(path)) is not None]

    def save(self, record: CellRecord) -> Path:
        """Write a record whole or not at all: it gets its name only once it is complete on the disk."""
        path = self._cells / record.cell.file_name
        write_atomically(path, record.to_json())
        return path


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's text; whoever reads it meanwhile sees the old text or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    except OSError as failed:
        raise PaldaError(
            f"{path.parent} cannot be written to ({failed.strerror or failed}); choose another folder"
        ) from None


def versions() -> dict[str, str]:
    """Python, palda and the packages that results rest on, as far as they are installed."""
    found = {package: package_version(package) for package in _PACKAGES}
    return {"python": platform.python_version()} | {name: number for name, number in found.items() if number}


def _read(path: Path) -> CellRecord | None:
    try:
        return CellRecord.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value
