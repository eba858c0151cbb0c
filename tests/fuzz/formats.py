"""Structures of files: how the files of a case are changed so that the change gets past headers and checksums."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from tests.fuzz import mutations as mutate

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Files = dict[str, bytes]
    Change = Callable[[random.Random, bytes, bytes], bytes]

_DATE = (2000, 1, 1, 0, 0, 0)


def raw(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of bytes."""
    return mutate.change_bytes(random, content, other)


def columns(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of a Parquet or Arrow file: most leave its offsets as they are, half are in the first half."""
    if random.random() < 0.2:
        return raw(random, content, other)
    middle = len(content) // 2 if random.random() < 0.5 else len(content)
    return mutate.change_in_place(random, content[:middle]) + content[middle:]


def lines(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of a file of lines or of markup."""
    return raw(random, content, other) if random.random() < 0.4 else mutate.change_lines(random, content)


def json_file(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of a JSON document."""
    if random.random() < 0.3:
        return raw(random, content, other)
    return mutate.json_bytes(random, mutate.change_json(random, json.loads(content)))


def json_lines(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of JSON lines."""
    if random.random() < 0.3:
        return raw(random, content, other)
    records = [json.loads(line) for line in content.splitlines() if line.strip()]
    return mutate.json_bytes(random, mutate.change_json(random, records), lines=True)


def table(delimiter: str) -> Change:
    """Changes of the cells of a CSV file."""

    def change(random: random.Random, content: bytes, other: bytes) -> bytes:
        if random.random() < 0.5:
            return raw(random, content, other)
        rows = mutate.change_cells(random, list(csv.reader(io.StringIO(content.decode()), delimiter=delimiter)))
        stream = io.StringIO()
        end = random.choice(("\n", "\r\n", "\r"))
        quoting = random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
        return stream.getvalue().encode(random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16")), "surrogatepass")

    return change


def gzipped(change: Change) -> Change:
    """Changes of the packed or of the unpacked bytes."""

    def change_packed(random: random.Random, content: bytes, other: bytes) -> bytes:
        if random.random() < 0.3:
            return raw(random, content, other)
        return gzip.compress(change(random, gzip.decompress(content), gzip.decompress(other)), 1, mtime=0)

    return change_packed


def unzip(content: bytes) -> Files:
    """Members of a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezip(members: Files, *, compressed: bool = True) -> bytes:
    """A zip file of the members, without dates."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    return stream.getvalue()


def change_member(random: random.Random, name: str, content: bytes) -> bytes:
    """A change that suits the kind of file."""
    if random.random() < 0.1:
        return raw(random, content, content)
    if name.endswith(".npy"):
        return mutate.change_array(random, content)
    change = {"json": json_file, "jsonl": json_lines, "csv": table(",")}.get(name.rpartition(".")[2], raw)
    return change(random, content, content)


def change_members(random: random.Random, members: Files, likely: str | None = None) -> Files:
    """Members changed, removed, renamed or added; ``likely`` is changed in a third of the cases."""
    sound, members = members, dict(members)
    for _ in range(random.choice((1, 1, 2))):
        name = likely if likely in members and random.random() < 0.35 else random.choice(list(members))
        kind = random.randrange(20)
        if kind == 0:
            del members[name]
        elif kind == 1:
            members[random.choice(("x", "../x.jsonl", "/x.csv", "a/b.json", "x.npy", name + "x"))] = members[name]
        elif kind == 2:
            members[name] = members[random.choice(list(members))]
        elif members[name] is sound.get(name):
            members[name] = change_member(random, name, members[name])
        else:  # it was changed before, and may have no structure any more
            members[name] = raw(random, members[name], members[name])
        if not members:
            break
    return members


def archive(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of the bytes of a zip file, or of its members."""
    if random.random() < 0.3:
        return raw(random, content, other)
    return rezip(change_members(random, unzip(content)), compressed=random.random() < 0.8)


def model(random: random.Random, content: bytes, other: bytes) -> bytes:
    """Changes of a model file; checksums are computed again in nine of ten cases."""
    if random.random() < 0.1:
        return raw(random, content, other)
    members = change_members(random, unzip(content), "manifest.json")
    if random.random() < 0.9:
        members = _with_digests(members, _model_digests)
    return rezip(members)


def _with_digests(files: Files, update: Callable[[dict[str, Any], Files], None]) -> Files:
    try:
        manifest = json.loads(files["manifest.json"])
        update(manifest, files)
        return files | {"manifest.json": json.dumps(manifest, ensure_ascii=False).encode("utf-8", "surrogatepass")}
    except (KeyError, ValueError, TypeError, AttributeError):
        return files


def _digest(files: Files, name: str) -> str:
    return hashlib.sha256(files[name]).hexdigest() if name in files else ""


def _model_digests(manifest: dict[str, Any], files: Files) -> None:
    for name in manifest["arrays"]:
        if f"{name}.npy" in files:
            manifest["arrays"][name] = _digest(files, f"{name}.npy")


def _shard_digests(manifest: dict[str, Any], files: Files) -> None:
    for entry in manifest["shards"]:
        entry["sha256"] = _digest(files, entry["file"]) or entry["sha256"]
    for name in manifest["files"]:
        manifest["files"][name] = _digest(files, name) or manifest["files"][name]


# Folders


def single(change: Change) -> Callable[[random.Random, Files, Files], Files]:
    """Changes of one of the files of a case, usually the only one."""

    def change_files(random: random.Random, files: Files, other: Files) -> Files:
        name = random.choice(list(files))
        return files | {name: change(random, files[name], other.get(name) or next(iter(other.values())))}

    return change_files


def by_suffix(random: random.Random, files: Files, other: Files) -> Files:
    """Changes of any file by its kind."""
    del other
    name = random.choice(list(files))
    return files | {name: change_member(random, name, files[name])}


def shards(random: random.Random, files: Files, other: Files) -> Files:
    """Changes of the files of a shard folder, with their checksums."""
    del other
    changed = change_members(random, files, "manifest.json")
    return _with_digests(changed, _shard_digests) if random.random() < 0.9 else changed


def checkpoint(random: random.Random, files: Files, other: Files) -> Files:
    """Changes of the stages of a checkpoint, most of them inside of the archives."""
    del other
    name = random.choice(list(files))
    if not name.endswith(".npz"):
        return files | {name: change_member(random, name, files[name])}
    if random.random() < 0.2:
        return files | {name: raw(random, files[name], files[name])}
    return files | {name: rezip(change_members(random, unzip(files[name]), "state.npy"), compressed=False)}
