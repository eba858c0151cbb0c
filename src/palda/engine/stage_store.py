"""Store of finished stages of a long fit, on disk, so that a killed fit can be resumed.

A fit is determined by its data, settings and seed. A resumed fit therefore simply runs again: it reaches the same
stages in the same order, and a stored stage returns at once. A stage in progress may store what it needs to continue.
Files hold arrays and JSON; nothing in them is executed.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from palda.engine.stage_records import MAX_JSON_BYTES, STATE, RecordSchema, StageRecord, read_record
from palda.errors import PaldaError, PaldaWarning, reason_of
from palda.io import READ_ERRORS, TEMPORARY_FILE, FolderLock, open_regular, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Fingerprint = Mapping[str, Any]

T = TypeVar("T")

FORMAT_VERSION = 2
_FORMAT = "palda-journal"
_MANIFEST = "journal.json"
_STAGE_FILE = re.compile(r"(\d{4,})-\w+\.npz")
_MAX_SHOWN = 60  # characters of a value in a message
_MAX_WRITING_SHARE = 1 / 50  # of the time of a fit
_INPUT_TOLERANCE = 1e-6  # smaller differences of inputs are rounding errors


class CheckpointError(PaldaError, ValueError):
    """A folder that is not a checkpoint, or is the checkpoint of another fit."""


class Stage:
    """A stage of a fit. This base class stores nothing."""

    def recall(self, restore: Callable[[StageRecord], T], expected: RecordSchema) -> T | None:
        """The stored record of this stage, if it is as expected, converted by ``restore``; None if there is none."""
        del restore, expected
        return None

    def keep(self, make: Callable[[], StageRecord | None], *, finished: bool = True) -> None:
        """Store the stage. ``make`` is called when it is time to write, so it must hold nothing that will change.

        It returns None for a result that could only be stored in a form that executes code when it is read.
        """

    def keep_now(self, make: Callable[[], StageRecord]) -> None:
        """Store the intermediate state of the stage if it is time to write; for state that changes in place."""

    def remember(
        self,
        compute: Callable[[], T],
        pack: Callable[[T], StageRecord | None],
        unpack: Callable[[StageRecord], T],
        expected: RecordSchema,
    ) -> T:
        """The stored result of the stage, or else its computed result, which is then stored."""
        result = self.recall(unpack, expected)
        if result is None:
            result = compute()
            self.keep(partial(pack, result))
        return result


class StageStore:
    """Stages in the order in which a fit reaches them. This base class stores nothing."""

    def stage(self, kind: str, *inputs: NDArray[Any] | None) -> Stage:
        """The next stage; ``inputs`` are what its result depends on besides the data and settings of the fit."""
        del kind, inputs
        return Stage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End of the fit, or its interruption."""


NO_CHECKPOINT = StageStore()
"""Stores nothing."""


class FolderStageStore(StageStore):
    """Stages in a folder, written every few minutes, and not at all in the first few.

    Until then finished stages are held by reference. A stage file that cannot be read is ignored; if the folder cannot
    be written, there is one warning. The folder is locked until the fit ends, so that no other fit can write to it.

    Parameters
    ----------
    folder
        A folder that does not exist, is empty, or holds a checkpoint of the same fit.
    fingerprint
        Everything that the result of the fit depends on, as JSON values; messages use the keys as names.
    minutes
        Minutes between writes; longer if writing would take more than a fiftieth of the time. 0: at every opportunity.
    say
        Called with a message when the folder is created.
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
        self._lock = _locked(self.folder) if self.folder.is_dir() else None
        try:
            self._files = _stage_files(self.folder, self._fingerprint)
        except CheckpointError:
            self._release()
            raise
        self._exists = is_checkpoint(self.folder)
        self._n_stages = 0
        self._unwritten: dict[int, _FolderStage] = {}
        self._in_progress = False
        self._warned = False
        self._writing_seconds = 0.0
        self._last_write = clock()

    @property
    def n_stored(self) -> int:
        """Number of stages in the folder at the start."""
        return len(self._files)

    def stage(self, kind: str, *inputs: NDArray[Any] | None) -> Stage:
        """The next stage; ``inputs`` are what its result depends on besides the data and settings of the fit."""
        self._n_stages += 1
        self._in_progress = True
        return _FolderStage(self, self._n_stages, kind, [number for array in inputs for number in _sketch(array)])

    def __reduce__(self) -> tuple[object, ...]:
        return StageStore, ()  # workers on other machines write nothing

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write everything if a long fit is interrupted; a short fit leaves no folder behind."""
        try:
            if (self._in_progress or error is not None) and self._exists:
                self._write()
        finally:
            self._release()

    def _release(self) -> None:
        """Let other fits use the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _recall(self, stage: _FolderStage, restore: Callable[[StageRecord], T], expected: RecordSchema) -> T | None:
        path = self._files.get(stage.number)
        if path is None:
            return None
        try:
            record = read_record(path, expected)
            sketch, tolerance = np.array(record.state["inputs"], dtype=np.float64), _INPUT_TOLERANCE
            same_size = record.state["kind"] == stage.kind and len(sketch) == len(stage.sketch)
            if same_size and np.allclose(sketch, stage.sketch, rtol=tolerance, atol=tolerance, equal_nan=True):
                result = restore(record)
                self._in_progress = False
                return result
        except READ_ERRORS as error:
            self._warn(f"{path}: is damaged ({reason_of(error)}); recomputing this part of the fit")
            del self._files[stage.number]
            return None
        self._warn(f"{path}: checkpoint does not match this fit; recomputing from here")
        for number in [number for number in self._files if number >= stage.number]:
            with contextlib.suppress(OSError):
                self._files.pop(number).unlink(missing_ok=True)
        return None

    def _keep(self, stage: _FolderStage, *, finished: bool) -> None:
        self._in_progress = not finished
        self._unwritten[stage.number] = stage
        if self._is_due():
            self._write()

    def _keep_now(self, stage: _FolderStage) -> None:
        if self._is_due():
            self._unwritten[stage.number] = stage
            self._write()
            self._unwritten.pop(stage.number, None)  # even if it could not be written

    def _is_due(self) -> bool:
        if self._minutes <= 0:
            return True
        return self._clock() - self._last_write >= max(self._minutes * 60.0, self._writing_seconds / _MAX_WRITING_SHARE)

    def _write(self) -> None:
        """Write all unwritten stages in order; what cannot be written is tried again later."""
        start = self._clock()
        try:
            if not self._exists:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = self._lock or _locked(self.folder)
                _stage_files(self.folder, self._fingerprint)  # another fit may have ended here since the start
                manifest = {"format": _FORMAT, "format_version": FORMAT_VERSION, "fit": self._fingerprint}
                text = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
                _write_whole(self.folder / _MANIFEST, lambda stream: stream.write(text))
                self._exists = True
                self._say(f"long fit: writing checkpoints to {self.folder}")
            for number, stage in sorted(self._unwritten.items()):
                record = stage.record()
                if record is not None:
                    _write_whole(self.folder / f"{number:04d}-{stage.kind}.npz", partial(_write_record, record))
                del self._unwritten[number]
        except (OSError, CheckpointError) as refused:
            if not self._warned:
                reason = str(refused) if isinstance(refused, CheckpointError) else refused.strerror or refused
                self._warn(f"{self.folder}: cannot write checkpoints: {reason}")
            self._warned = True
        self._last_write = self._clock()
        self._writing_seconds = self._last_write - start

    def _warn(self, message: str) -> None:
        warnings.warn(message, PaldaWarning, stacklevel=2)


class _FolderStage(Stage):
    def __init__(self, store: FolderStageStore, number: int, kind: str, sketch: list[float]) -> None:
        self.store, self.number, self.kind, self.sketch = store, number, kind, sketch
        self._make: Callable[[], StageRecord | None] = lambda: None

    def recall(self, restore: Callable[[StageRecord], T], expected: RecordSchema) -> T | None:
        return self.store._recall(self, restore, expected)  # noqa: SLF001 - a stage is part of its store

    def keep(self, make: Callable[[], StageRecord | None], *, finished: bool = True) -> None:
        self._make = make
        self.store._keep(self, finished=finished)  # noqa: SLF001

    def keep_now(self, make: Callable[[], StageRecord]) -> None:
        self._make = make
        self.store._keep_now(self)  # noqa: SLF001

    def record(self) -> StageRecord | None:
        """The record to be written, if there is one."""
        record = self._make()
        if record is None:
            return None
        return StageRecord(record.arrays, {**record.state, "kind": self.kind, "inputs": self.sketch})


def is_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether the folder holds a checkpoint."""
    return (Path(folder) / _MANIFEST).is_file()


def remove_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Remove a checkpoint. The folder stays if it has other files.

    Raises ``CheckpointError`` if the folder is not a checkpoint of any version, or if a fit is writing to it.
    """
    place = Path(folder)
    if not is_checkpoint(place):
        return
    with _locked(place), contextlib.suppress(OSError):
        _read_manifest(place)
        for path in place.iterdir():
            if _STAGE_FILE.fullmatch(path.name) or TEMPORARY_FILE.fullmatch(path.name):
                path.unlink()
        (place / _MANIFEST).unlink()
        place.rmdir()


def _locked(folder: Path) -> FolderLock:
    try:
        return FolderLock(folder)
    except BlockingIOError:
        raise CheckpointError(f"{folder}: another fit is writing its checkpoints there; use another folder") from None
    except OSError as refused:
        raise CheckpointError(f"{folder}: cannot be read: {refused.strerror or refused}") from refused


def strip_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with the prefix and a dot, under the rest of their names."""
    return {name[len(prefix) + 1 :]: array for name, array in arrays.items() if name.startswith(f"{prefix}.")}


def add_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The same arrays with the prefix and a dot before their names."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _stage_files(folder: Path, fingerprint: Fingerprint) -> dict[int, Path]:
    """Stage files of a checkpoint of the same fit, by number."""
    if not folder.exists():
        return {}
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; checkpoints need a folder")
    try:
        paths = sorted(folder.iterdir())
    except OSError as refused:
        raise CheckpointError(f"{folder}: cannot be read: {refused.strerror or refused}") from refused
    if not is_checkpoint(folder):
        if any(not TEMPORARY_FILE.fullmatch(path.name) for path in paths):
            raise CheckpointError(f"{folder}: contains other files than checkpoints; use a new folder")
        return {}
    _check_same_fit(folder, fingerprint)
    for path in paths:
        if TEMPORARY_FILE.fullmatch(path.name):  # of a killed process
            with contextlib.suppress(OSError):
                path.unlink()
    matches = ((_STAGE_FILE.fullmatch(path.name), path) for path in paths)
    return {int(match[1]): path for match, path in matches if match is not None}


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Manifest of a checkpoint of any version."""
    try:
        with open_regular(folder / _MANIFEST) as stream:
            manifest: dict[str, Any] = json.loads(stream.read(MAX_JSON_BYTES))
        fit, _ = dict(manifest["fit"]), (manifest["format"], manifest["format_version"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise CheckpointError(f"{folder}: {_MANIFEST} is damaged; delete the checkpoint or use a new folder") from None
    if manifest["format"] != _FORMAT:
        raise CheckpointError(f"{folder}: {_MANIFEST} is not that of a checkpoint; use a new folder")
    return manifest | {"fit": fit}


def _check_same_fit(folder: Path, fingerprint: Fingerprint) -> None:
    manifest = _read_manifest(folder)
    if manifest["format_version"] != FORMAT_VERSION:
        raise CheckpointError(f"{folder}: is a checkpoint of another version of palda; delete it or use a new folder")
    theirs = manifest["fit"]
    ours = json.loads(json.dumps(fingerprint))
    differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if differing:
        differences = ", ".join(_difference(name, ours.get(name), theirs.get(name)) for name in differing[:3])
        raise CheckpointError(f"{folder}: is a checkpoint of another fit ({differences})")


def _difference(name: str, ours: Any, theirs: Any) -> str:
    if name.startswith("the "):  # the value is a checksum
        return f"{name} differ"
    return f"{_brief(name)} was {_brief(theirs)}, not {_brief(ours)}"


def _brief(value: Any) -> str:
    return " ".join(str(value).split())[:_MAX_SHOWN]


def _sketch(array: NDArray[Any] | None) -> list[float]:
    """Size, norm, and cosine to the array of ones: tells different inputs from equal ones with rounding errors."""
    if array is None or not array.size:
        return [0.0, 0.0, 0.0]
    norm = float(np.sqrt(np.vdot(array, array)))
    return [float(array.size), norm, float(array.sum()) / (norm * float(np.sqrt(array.size))) if norm else 0.0]


def _write_whole(target: Path, write: Callable[[BinaryIO], object]) -> None:
    with replacing(target) as unfinished, unfinished.open("wb") as stream:
        write(stream)


def _write_record(record: StageRecord, stream: BinaryIO) -> None:
    """Write arrays one by one, without a copy in memory; the zip format adds checksums."""
    state = np.frombuffer(json.dumps(dict(record.state)).encode(), dtype=np.uint8)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {**record.arrays, STATE: state}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
