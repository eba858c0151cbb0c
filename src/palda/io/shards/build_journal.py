"""Work in progress on a folder of shards: what is complete stays, so that a run that was killed can go on."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.errors import DataError
from palda.io.shards.format import MANIFEST, ShardEntry, read_json, shard_name, write_json
from palda.io.shards.npz_maps import file_sha256
from palda.io.shards.writer import check_new_folder, put_in_place

if TYPE_CHECKING:
    import os

    from palda.io.shards.format import Manifest

__all__ = ["Unfinished", "stamp"]

_JOURNAL, _SHARDS = "journal.json", "shards.jsonl"


def stamp(path: str | os.PathLike[str]) -> list[Any]:
    """What tells a file, or the files of a folder, from what they were before: sizes and times of the last change."""
    place = Path(path)
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    try:
        found = [(file.name, file.stat()) for file in files]
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=place.name) from None
    return [[name, status.st_size, status.st_mtime_ns] for name, status in found]


class Unfinished:
    """A folder ``NAME.part`` beside the target: the files so far, a journal of them, and room for what is passing.

    ``asked`` says what is being made of which files; a run goes on only where everything is as it was. Nothing appears
    under the target's own name before it is complete.
    """

    def __init__(self, target: Path, asked: dict[str, Any], *, resume: bool, force: bool) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self.output = self.path / "folder"
        self.room = self.path / "room"
        check_new_folder(target, force=force)
        if self.path.exists() and not resume and not force:
            raise DataError(
                f"{self.path.name} is left of an interrupted run: go on with resume=True, or start new with force=True",
                file=str(target),
            )
        self._journal: dict[str, Any] = {"asked": asked, "steps": {}}
        self._shards: list[ShardEntry] = []
        if resume and (self.path / _JOURNAL).is_file():
            self._go_on(asked)
        else:
            self._start()

    def _start(self) -> None:
        try:
            if self.path.exists():
                shutil.rmtree(self.path)
            self.output.mkdir(parents=True)
            self.room.mkdir()
        except OSError as refused:
            raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(self.path)) from refused
        self._save()

    def _go_on(self, asked: dict[str, Any]) -> None:
        found = read_json(self.path / _JOURNAL)
        before = found.get("asked", {}) if isinstance(found, dict) else {}
        changed = sorted(name for name in {*asked, *before} if asked.get(name) != before.get(name))
        if changed:
            raise DataError(
                f"cannot go on: {', '.join(changed)} differ from when {self.path.name} was started; "
                "give what was given then, or start afresh with force=True",
                file=str(self.target),
            )
        self._journal = found
        self._shards = self._listed()

    def _listed(self) -> list[ShardEntry]:
        """Shards that are complete; the last line may be half of one."""
        path = self.path / _SHARDS
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
        entries = [ShardEntry(**json.loads(line)) for line in lines]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return entries

    def _save(self) -> None:
        write_json(self.path / _JOURNAL, self._journal)

    def done(self, step: str) -> dict[str, Any] | None:
        """What a step found out, if it is complete."""
        facts: dict[str, Any] | None = self._journal["steps"].get(step)
        return facts

    def finish(self, step: str, **facts: Any) -> dict[str, Any]:
        """A step is complete, with everything that it leaves behind."""
        self._journal["steps"][step] = facts
        self._save()
        return facts

    def shard(self, number: int) -> ShardEntry | None:
        """A shard that is there already, just as it was written."""
        entry = next((entry for entry in self._shards if entry.file == shard_name(number)), None)
        if entry is None:
            return None
        path = self.output / entry.file
        return entry if path.is_file() and file_sha256(path) == entry.sha256 else None

    def add(self, entry: ShardEntry) -> None:
        """A shard is complete."""
        with (self.path / _SHARDS).open("ab") as lines:
            lines.write(json.dumps(asdict(entry)).encode() + b"\n")

    def complete(self, manifest: Manifest) -> None:
        """Everything is there: the folder gets its name."""
        manifest.write(self.output)
        wanted = {MANIFEST, *manifest.files, *(shard.file for shard in manifest.shards)}
        for file in self.output.iterdir():
            if file.name not in wanted:  # of a run that was killed while it wrote
                file.unlink()
        put_in_place(self.output, self.target)
        shutil.rmtree(self.path)
