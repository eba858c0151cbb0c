"""The journal of a long fit: results of its expensive stages, on disk, so that a fit that was killed can go on.

A fit is determined by its data, settings and seed. A fit that goes on therefore simply runs again: it reaches the same
stages in the same order, and a stage that the journal holds returns at once. Stages that are under way may keep
what they need to go on from the middle. Files hold arrays and JSON; nothing in them is executed.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import time
import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from palda.errors import PaldaError, PaldaWarning
from palda.io import replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Fingerprint = Mapping[str, Any]

__all__ = [
    "NO_CHECKPOINT",
    "CheckpointError",
    "FolderStageStore",
    "Stage",
    "StageRecord",
    "StageStore",
    "add_prefix",
    "is_checkpoint",
    "remove_checkpoint",
    "strip_prefix",
]

T = TypeVar("T")

FORMAT_VERSION = 2
_FORMAT = "palda-journal"
_MANIFEST = "journal.json"
_STAGE = re.compile(r"(\d{4,})-\w+\.npz")
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_STATE = "state"  # the array that holds the JSON of a stage
_MOST_OF_THE_TIME = 1 / 50  # that may go into writing
_SAME = 1e-6  # inputs that differ by less are the same but for rounding
_DAMAGE = (
    OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    LookupError, TypeError, OverflowError, MemoryError,
)  # fmt: skip
"""What reading raises when bytes are not what they were."""


class CheckpointError(PaldaError, ValueError):
    """A folder that holds no journal, or the journal of another fit."""


class StageRecord(NamedTuple):
    """What a stage leaves behind."""

    arrays: Arrays
    state: Mapping[str, Any]  # as JSON knows it


class Stage:
    """A stage of a fit; this one is not remembered."""

    def recall(self, restore: Callable[[StageRecord], T]) -> T | None:
        """What the stage left when the fit came by before, if it did."""
        del restore
        return None

    def keep(self, make: Callable[[], StageRecord | None], *, finished: bool = True) -> None:
        """Remember the stage. ``make`` is called when it is time to write, and holds nothing that will change.

        What cannot be written without executing something when it is read makes no record.
        """

    def keep_now(self, make: Callable[[], StageRecord]) -> None:
        """Remember where the stage stands, if it is time to write: what stands there changes in place soon after."""

    def remember(
        self, compute: Callable[[], T], pack: Callable[[T], StageRecord | None], unpack: Callable[[StageRecord], T]
    ) -> T:
        """Result of the stage, computed only if it is not known."""
        known = self.recall(unpack)
        if known is not None:
            return known
        found = compute()
        self.keep(lambda: pack(found))
        return found


class StageStore:
    """Stages in the order in which a fit reaches them; this journal remembers none."""

    def stage(self, kind: str, *inputs: NDArray[Any] | None) -> Stage:
        """The next stage, and what its result depends on besides the data and settings of the fit."""
        del kind, inputs
        return Stage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The fit is over, or was interrupted."""


NO_CHECKPOINT = StageStore()
"""Stores nothing."""


class FolderStageStore(StageStore):
    """A journal in a folder, which is written to every few minutes, and not at all in the first few.

    Until then finished stages are held by reference. A stage file that cannot be read is as good as none; a folder that
    cannot be written to costs a warning.

    Parameters
    ----------
    folder
        A folder that does not exist, is empty, or holds the journal of the same fit.
    fingerprint
        What the result of the fit depends on, as JSON knows it; keys name things in messages.
    minutes
        Between two times of writing; longer if writing took so long that it would slow the fit. 0: at every occasion.
    say
        Is told once where checkpoints go.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        fingerprint: Fingerprint,
        minutes: float,
        *,
        say: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = Path(folder)
        self._fingerprint = dict(fingerprint)
        self._minutes = minutes
        self._say = say
        self._clock = clock
        self._files = _stage_files(self.folder, self._fingerprint)
        self._exists = is_checkpoint(self.folder)
        self._n_stages = 0
        self._waiting: dict[int, _FolderStage] = {}
        self._under_way = False
        self._complained = False
        self._cost = 0.0
        self._last = clock()

    @property
    def n_stored(self) -> int:
        """Stages that were there at the beginning."""
        return len(self._files)

    def stage(self, kind: str, *inputs: NDArray[Any] | None) -> Stage:
        """The next stage, and what its result depends on besides the data and settings of the fit."""
        self._n_stages += 1
        self._under_way = True
        return _FolderStage(self, self._n_stages, kind, [number for array in inputs for number in _sketch(array)])

    def __reduce__(self) -> tuple[object, ...]:
        return StageStore, ()  # workers elsewhere have nothing to write

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whoever stops a long fit finds everything up to now in the journal; a short one leaves nothing behind."""
        if (self._under_way or error is not None) and self._exists:
            self._write()

    def _recalled(self, stage: _FolderStage, restore: Callable[[StageRecord], T]) -> T | None:
        path = self._files.get(stage.number)
        if path is None:
            return None
        try:
            record = _read(path)
            kind, sketch = str(record.state["kind"]), np.array(record.state["inputs"], dtype=np.float64)
            if kind == stage.kind and _same(sketch, stage.sketch):
                found = restore(record)
                self._under_way = False
                return found
        except _DAMAGE as broken:
            reason = " ".join(str(broken).split()) or type(broken).__name__
            self._warn(f"{path}: is damaged ({reason}); this part of the fit is computed again")
            del self._files[stage.number]
            return None
        self._warn(f"{path}: belongs to another course of the fit; from here on it is computed again")
        for number in [number for number in self._files if number >= stage.number]:
            with contextlib.suppress(OSError):
                self._files.pop(number).unlink(missing_ok=True)
        return None

    def _keep(self, stage: _FolderStage, *, finished: bool) -> None:
        self._under_way = not finished
        self._waiting[stage.number] = stage
        if self._is_due():
            self._write()

    def _keep_now(self, stage: _FolderStage) -> None:
        if self._is_due():
            self._waiting[stage.number] = stage
            self._write()
            self._waiting.pop(stage.number, None)  # even if it could not be written

    def _is_due(self) -> bool:
        least = self._minutes * 60.0
        return self._clock() - self._last >= (max(least, self._cost / _MOST_OF_THE_TIME) if least > 0 else 0.0)

    def _write(self) -> None:
        """Everything that waits, in order. What cannot be written now goes on waiting."""
        begun = self._clock()
        try:
            if not self._exists:
                self.folder.mkdir(parents=True, exist_ok=True)
                manifest = {"format": _FORMAT, "format_version": FORMAT_VERSION, "fit": self._fingerprint}
                text = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
                _write_whole(self.folder / _MANIFEST, lambda stream: stream.write(text))
                self._exists = True
                self._say(f"this takes longer; checkpoints go to {self.folder}")
            for number, stage in sorted(self._waiting.items()):
                record = stage.record()
                if record is not None:
                    _write_whole(self.folder / f"{number:04d}-{stage.kind}.npz", partial(_write_record, record))
                del self._waiting[number]
        except OSError as refused:
            if not self._complained:
                self._warn(f"{self.folder}: no checkpoint can be written: {refused.strerror or refused}")
            self._complained = True
        self._last = self._clock()
        self._cost = self._last - begun

    def _warn(self, message: str) -> None:
        warnings.warn(message, PaldaWarning, stacklevel=2)


class _FolderStage(Stage):
    def __init__(self, journal: FolderStageStore, number: int, kind: str, sketch: list[float]) -> None:
        self.journal, self.number, self.kind, self.sketch = journal, number, kind, sketch
        self._make: Callable[[], StageRecord | None] = lambda: None

    def recall(self, restore: Callable[[StageRecord], T]) -> T | None:
        return self.journal._recalled(self, restore)  # noqa: SLF001 - the journal's own half

    def keep(self, make: Callable[[], StageRecord | None], *, finished: bool = True) -> None:
        self._make = make
        self.journal._keep(self, finished=finished)  # noqa: SLF001

    def keep_now(self, make: Callable[[], StageRecord]) -> None:
        self._make = make
        self.journal._keep_now(self)  # noqa: SLF001

    def record(self) -> StageRecord | None:
        """What is to be written, if anything can."""
        made = self._make()
        if made is None:
            return None
        return StageRecord(made.arrays, {**made.state, "kind": self.kind, "inputs": self.sketch})


def is_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a journal was begun there."""
    return (Path(folder) / _MANIFEST).is_file()


def remove_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Remove a journal; whatever else is in the folder stays, and so then does the folder."""
    place = Path(folder)
    if not is_checkpoint(place):
        return
    with contextlib.suppress(OSError):
        for path in place.iterdir():
            if _STAGE.fullmatch(path.name) or _UNFINISHED.fullmatch(path.name):
                path.unlink()
        (place / _MANIFEST).unlink()
        place.rmdir()


def strip_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays whose names start with the prefix and a dot, without them."""
    return {name[len(prefix) + 1 :]: array for name, array in arrays.items() if name.startswith(f"{prefix}.")}


def add_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The same arrays under names that start with the prefix and a dot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _stage_files(folder: Path, fingerprint: Fingerprint) -> dict[int, Path]:
    """Stage files of a journal of the same fit, by number."""
    if not folder.exists():
        return {}
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; checkpoints need a folder")
    try:
        paths = sorted(folder.iterdir())
    except OSError as refused:
        raise CheckpointError(f"{folder}: cannot be read: {refused.strerror or refused}") from refused
    if not is_checkpoint(folder):
        if any(not _UNFINISHED.fullmatch(path.name) for path in paths):
            raise CheckpointError(f"{folder}: holds other things than checkpoints; name a new folder")
        return {}
    _check_same_fit(folder, fingerprint)
    for path in paths:
        if _UNFINISHED.fullmatch(path.name):  # a write that was killed
            with contextlib.suppress(OSError):
                path.unlink()
    found = ((_STAGE.fullmatch(path.name), path) for path in paths)
    return {int(name[1]): path for name, path in found if name is not None}


def _check_same_fit(folder: Path, fingerprint: Fingerprint) -> None:
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        theirs = dict(manifest["fit"])
        known = (manifest["format"], manifest["format_version"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise CheckpointError(f"{folder}: {_MANIFEST} is damaged, so this checkpoint is of no use") from None
    if known != (_FORMAT, FORMAT_VERSION):
        raise CheckpointError(f"{folder}: is a checkpoint of another version of palda")
    ours = json.loads(json.dumps(fingerprint))
    differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if differing:
        told = ", ".join(_difference(name, ours.get(name), theirs.get(name)) for name in differing[:3])
        raise CheckpointError(f"{folder}: is a checkpoint of another fit ({told})")


def _difference(name: str, ours: Any, theirs: Any) -> str:
    if name.startswith("the "):  # a digest tells nobody anything
        return f"{name} differ"
    return f"{name} was {theirs}, not {ours}"


def _sketch(array: NDArray[Any] | None) -> list[float]:
    """Size, norm, and cosine to the array of ones: enough to tell other inputs from the same ones but for rounding."""
    if array is None or not array.size:
        return [0.0, 0.0, 0.0]
    norm = float(np.sqrt(np.vdot(array, array)))
    return [float(array.size), norm, float(array.sum()) / (norm * float(np.sqrt(array.size))) if norm else 0.0]


def _same(one: Iterable[float], other: Iterable[float]) -> bool:
    ours, theirs = np.asarray(one), np.asarray(other)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=_SAME, atol=_SAME, equal_nan=True)


def _write_whole(target: Path, write: Callable[[BinaryIO], object]) -> None:
    with replacing(target) as unfinished, unfinished.open("wb") as stream:
        write(stream)


def _write_record(record: StageRecord, stream: BinaryIO) -> None:
    """Arrays go to the file piece by piece, without a copy in memory; the zip format adds their checksums."""
    state = np.frombuffer(json.dumps(dict(record.state)).encode(), dtype=np.uint8)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {**record.arrays, _STATE: state}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _read(path: Path) -> StageRecord:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    state = json.loads(arrays.pop(_STATE).tobytes())
    if not isinstance(state, dict):
        raise ValueError("its state is not one")  # noqa: TRY004 - damage, not a mistake of the caller
    return StageRecord(arrays, state)
