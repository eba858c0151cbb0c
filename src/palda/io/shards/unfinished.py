"""A shard folder that is being written: its files, intermediate files, and a journal with the checksums of all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palda.errors import DataError
from palda.io.atomic import FolderLock, replacing, sibling, sync
from palda.io.shards.format import MANIFEST, ShardEntry, file_sha256, read_json, shard_name, write_json
from palda.io.shards.replacement import (
    check_target,
    foreign_entry,
    is_own_file,
    move_into_place,
    remove_files,
    write_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from palda.io.shards.format import Manifest

IN_MEMORY = {"source": "memory"}
"""Request of a run that cannot be resumed, because its data is not in files."""

_JOURNAL, _SHARDS = "journal.json", "shards.jsonl"
_FORMAT = "palda-shard-journal"
_FOLDER_FILE = re.compile(r"shard-\d{5,}\.(arrow|npz)|manifest\.json|names\.json|words\.json")
_KNOWN_FILES = {
    "folder": _FOLDER_FILE,
    "old": _FOLDER_FILE,
    "temporary": re.compile(r"ids\.npy|first_ids\.json|features\.bin|votes-\d{5,}"),
}
_KEPT = "; what is done is kept, and resume=True continues"


class RecordCounts(NamedTuple):
    """Number of votes and of abstentions that were read, before duplicates are resolved."""

    votes: int
    abstentions: int


class FinishedShard(NamedTuple):
    """Entry of a shard in the manifest, and how many records of the input are in it."""

    entry: ShardEntry
    records: RecordCounts


class UnfinishedFolder:
    """A folder ``NAME.part`` beside the target: the files so far, a journal of them, and temporary files.

    ``request`` describes what is made of which files; a run resumes only if it is unchanged. Nothing appears under the
    target's name before it is complete. The folder is locked until the context ends, and nothing but files of a run is
    ever removed from it.
    """

    def __init__(self, target: Path, request: dict[str, Any], *, resume: bool, force: bool) -> None:
        self.target = target
        self.path = sibling(target, ".part")
        self.output, self._old, self.temporary = (self.path / name for name in _KNOWN_FILES)
        self._force = force
        self._journal: dict[str, Any] = {"request": request, "steps": {}, "finished": None}
        self._shards: dict[str, FinishedShard] = {}
        with write_errors(self.path):
            if self.path.is_symlink():
                raise DataError("is a symbolic link; remove it, or choose another name", file=str(self.path))
            if not self.path.exists():
                check_target(target, force=force)
            self.path.mkdir(parents=True, exist_ok=True)
        with write_errors(target):
            self._lock = FolderLock(self.path)
        try:
            with write_errors(self.path):
                self._prepare(request, resume=resume)
        except BaseException:
            self._unlock()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        nothing_to_resume = isinstance(error, DataError) and not self._journal["steps"] and not self._shards
        if error is not None and (nothing_to_resume or self._journal["request"] == IN_MEMORY):
            with suppress(OSError):
                self._remove_files()
        self._unlock()

    def _unlock(self) -> None:
        with suppress(OSError):
            self.path.rmdir()  # if it is empty
        self._lock.release()

    def _prepare(self, request: dict[str, Any], *, resume: bool) -> None:
        journal = self._read_journal()
        foreign = self._foreign_entry(has_journal=journal is not None)
        if foreign is not None:
            raise DataError(
                f"contains {foreign!r}, which is not part of an interrupted run; move it away, or choose another name",
                file=str(self.path),
            )
        if self._old.is_dir() and not os.path.lexists(self.target):
            self._old.rename(self.target)  # a run was killed while it replaced this folder
        if journal and journal["finished"] and journal["finished"] == _file_facts(self.target / MANIFEST):
            self._remove_files()  # a run was killed after it had finished
            journal = None
        check_target(self.target, force=self._force)
        is_left = journal is not None and journal.get("request") != IN_MEMORY
        if is_left and not resume and not self._force:
            raise DataError(
                f"{self.path.name} is left from an interrupted run; pass resume=True to resume it, or force=True to "
                "start again",
                file=str(self.target),
            )
        if resume and journal is not None:
            self._resume(journal, request)
            return
        self._remove_files()
        self.output.mkdir()
        self.temporary.mkdir()
        self._write_journal()

    def _read_journal(self) -> dict[str, Any] | None:
        """The journal; None if there is none, empty if it is damaged."""
        path = self.path / _JOURNAL
        if not os.path.lexists(path):
            return None
        try:
            stored = None if path.is_symlink() else read_json(path)
        except DataError:
            stored = None
        if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
            raise DataError(
                f"{_JOURNAL} is damaged or was not written by palda shard; delete the folder, or choose another name",
                file=str(self.path),
            )
        content = _checked(stored)
        return content if isinstance(content, dict) and {"request", "steps", "finished"} <= content.keys() else {}

    def _write_journal(self) -> None:
        write_json(self.path / _JOURNAL, {"format": _FORMAT} | _with_checksum(self._journal))

    def _foreign_entry(self, *, has_journal: bool) -> str | None:
        """First entry that is not part of a run. Before a run has a journal, it has written no other file."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                known = _KNOWN_FILES.get(entry.name)
                if known is not None and entry.is_dir(follow_symlinks=False):
                    inside = foreign_entry(Path(entry.path), known.fullmatch if has_journal else lambda _: False)
                    if inside is not None:
                        return f"{entry.name}/{inside}"
                elif not is_own_file(entry, lambda name: has_journal and name in (_JOURNAL, _SHARDS)):
                    return entry.name
        return None

    def _remove_files(self) -> None:
        """Remove the files of a run, its journal last."""
        for path in sorted(self.path.iterdir(), key=lambda path: path.name == _JOURNAL):
            if path.name in _KNOWN_FILES:
                remove_files(path)
            else:
                path.unlink()

    def _resume(self, journal: dict[str, Any], request: dict[str, Any]) -> None:
        if not journal:
            raise DataError(f"cannot resume: {_JOURNAL} is damaged; start again with force=True", file=str(self.path))
        before = journal["request"]
        changed = sorted(name for name in {*request, *before} if request.get(name) != before.get(name))
        if changed:
            raise DataError(
                f"cannot resume: {', '.join(changed)} changed since {self.path.name} was started; "
                "use the same files and options, or start again with force=True",
                file=str(self.target),
            )
        self._journal = journal
        self.output.mkdir(exist_ok=True)
        self.temporary.mkdir(exist_ok=True)
        path = self.path / _SHARDS
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        self._shards = {shard.entry.file: shard for shard in map(_finished_shard, lines) if shard is not None}
        with replacing(path) as unfinished:  # without lines that are damaged or incomplete
            unfinished.write_bytes(b"".join(map(_shard_line, self._shards.values())))

    def step_result(self, step: str) -> dict[str, Any] | None:
        """Result of a step, if it is complete and all its files are as they were written."""
        stored = self._journal["steps"].get(step)
        if stored is None:
            return None
        if all(_file_facts(self.path / name) == facts for name, facts in stored["files"].items()):
            result: dict[str, Any] = stored["result"]
            return result
        steps = list(self._journal["steps"])
        for later in steps[steps.index(step) :]:
            del self._journal["steps"][later]
        return None

    def complete_step(self, step: str, result: dict[str, Any], files: Iterable[Path]) -> dict[str, Any]:
        """Record that a step is complete, with the sizes and checksums of its files; returns the result."""
        with write_errors(self.path, _KEPT):
            facts = {}
            for path in files:
                sync(path)
                facts[path.relative_to(self.path).as_posix()] = _file_facts(path)
            for folder in (self.output, self.temporary):
                sync(folder)
        self._journal["steps"][step] = {"result": result, "files": facts}
        self._write_journal()
        return result

    def shard(self, number: int) -> FinishedShard | None:
        """A shard that is complete and unchanged since it was written."""
        shard = self._shards.get(shard_name(number))
        if shard is None:
            return None
        path = self.output / shard.entry.file
        return shard if path.is_file() and file_sha256(path) == shard.entry.sha256 else None

    def add(self, shard: FinishedShard) -> None:
        """Record that a shard is complete."""
        self._shards[shard.entry.file] = shard
        with write_errors(self.path, _KEPT), (self.path / _SHARDS).open("ab") as lines:
            lines.write(_shard_line(shard))

    def complete(self, manifest: Manifest) -> None:
        """Write the manifest and move the folder to its final name."""
        manifest.write(self.output)
        wanted = {MANIFEST, *manifest.files, *(shard.file for shard in manifest.shards)}
        with write_errors(self.path, _KEPT):
            for file in self.output.iterdir():
                if file.name not in wanted:  # left by a run that was killed while it wrote
                    file.unlink()
            self._journal["finished"] = _file_facts(self.output / MANIFEST)
        self._write_journal()
        check_target(self.target, force=self._force)
        with write_errors(self.target, _KEPT):
            move_into_place(self.output, self.target, self._old)
        with write_errors(self.path):
            self._remove_files()


def _file_facts(path: Path) -> list[Any] | None:
    """Size and SHA-256 of a file, as the journal lists them; None if there is no such file."""
    try:
        return [path.stat().st_size, file_sha256(path)]
    except FileNotFoundError:
        return None


def _with_checksum(content: Any) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(), "content": content}


def _checked(stored: Any) -> Any:
    """Content of what ``_with_checksum`` returned; None if it was changed."""
    content = stored.get("content") if isinstance(stored, dict) else None
    is_same = content is not None and stored.get("sha256") == _with_checksum(content)["sha256"]
    return content if is_same else None


def _shard_line(shard: FinishedShard) -> bytes:
    content = {"entry": asdict(shard.entry), "records": list(shard.records)}
    return json.dumps(_with_checksum(content)).encode() + b"\n"


def _finished_shard(line: bytes) -> FinishedShard | None:
    """Shard of a line in the list of finished shards; None if the line is damaged."""
    try:
        content = _checked(json.loads(line))
        return (
            None
            if content is None
            else FinishedShard(ShardEntry(**content["entry"]), RecordCounts(*content["records"]))
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
