"""Writes shard folders. A folder appears under its name when it is complete, or not at all."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.data import Corpus, Dataset, validation
from palda.errors import DataError
from palda.io.shards.folder import open_shards
from palda.io.shards.format import (
    MANIFEST,
    NAMES,
    WORDS,
    Manifest,
    ShardEntry,
    file_sha256,
    read_json,
    shard_name,
    write_json,
    write_shard,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from palda.data import TextWords, ValueWords
    from palda.io.shards.folder import ShardFolder

    Words = TextWords | ValueWords

DOCS_PER_SHARD = 1 << 14
"""Default number of documents per shard."""

_JOURNAL, _SHARDS = "journal.json", "shards.jsonl"


def write_shards(
    path: str | os.PathLike[str],
    data: Corpus | Dataset,
    *,
    words: Words | None = None,
    docs_per_shard: int = DOCS_PER_SHARD,
    force: bool = False,
) -> ShardFolder:
    """Write counts, votes and gold labels as a shard folder, and open it.

    Parameters
    ----------
    path : str or path-like
        Folder to write. It must not exist yet, unless ``force`` replaces a shard folder.
    data : Corpus or Dataset
        Word counts, or a dataset whose ``corpus`` is a ``Corpus``. Texts are kept if the corpus has them.
    words : TextWords or ValueWords, optional
        The fitted transformer that made the counts. A model fitted from the folder can then read new documents.
    docs_per_shard : int, default 16384
        Documents per file.
    force : bool, default False
        Replace an existing shard folder.

    Returns
    -------
    ShardFolder
        The folder that was written.

    Raises
    ------
    DataError
        If the folder exists, or if ``data`` holds no word counts.

    Examples
    --------
    >>> import tempfile
    >>> from palda import write_shards
    >>> from palda.data import Corpus
    >>> corpus = Corpus.from_counts([[1, 0], [0, 2], [3, 1]], vocabulary=["ship", "wheat"])
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = write_shards(f"{parent}/corpus", corpus, docs_per_shard=2)
    ...     len(folder), len(folder.manifest.shards), folder.counts[2:].toarray().tolist()
    (3, 2, [[3.0, 1.0]])
    """
    validation.require_count(docs_per_shard, "docs_per_shard")
    dataset = data if isinstance(data, Dataset) else Dataset.of(data)
    corpus = dataset.corpus
    if not isinstance(corpus, Corpus):
        raise DataError("shards hold word counts; turn the documents into a Corpus first, with TextWords")
    target = Path(path)
    _check_target(target, force=force)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    unfinished.mkdir(parents=True)
    try:
        axes = {"vocabulary": corpus.vocabulary, "classes": dataset.classes, "annotators": dataset.votes.annotators}
        files = ({} if words is None else write_words(unfinished, words)) | write_names(unfinished, axes)
        entries = [
            write_part(unfinished, number, dataset.take(slice(start, start + docs_per_shard)))
            for number, start in enumerate(range(0, len(dataset), docs_per_shard))
        ]
        sizes = (len(dataset), corpus.n_words, len(dataset.classes), dataset.votes.n_annotators)
        Manifest(*sizes, corpus.texts is not None, tuple(entries), files).write(unfinished)
        _move_into_place(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return open_shards(target)


def _check_target(target: Path, *, force: bool) -> None:
    """Raise before the work, not after it, if the folder cannot be written."""
    if target.exists() or target.is_symlink():
        is_shards = (target / MANIFEST).is_file()
        if not force or not is_shards:
            advice = "pass force=True to replace it, or choose another name" if is_shards else "choose another name"
            raise DataError(f"already exists; {advice}", file=str(target))


def _move_into_place(unfinished: Path, target: Path) -> None:
    """Rename a complete folder to its final name; an older folder of that name is removed."""
    if not target.exists():
        unfinished.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    target.rename(old)
    unfinished.rename(target)
    shutil.rmtree(old)


def write_names(folder: Path, axes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Write the names of all axes but the documents; returns file name and digest."""
    return {NAMES: write_json(folder / NAMES, {axis: list(names) for axis, names in axes.items()})}


def write_words(folder: Path, words: Words) -> dict[str, str]:
    """Write the fitted transformer; returns file name and digest."""
    from palda.data import words_to_arrays

    arrays, state = words_to_arrays(words)
    content = state | {"arrays": {name: array.tolist() for name, array in arrays.items()}}
    return {WORDS: write_json(folder / WORDS, content)}


def write_part(folder: Path, number: int, part: Dataset) -> ShardEntry:
    """Write one shard; returns its entry in the manifest."""
    corpus: Any = part.corpus
    counts = corpus.counts
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    name = shard_name(number)
    digest, n_known = write_shard(folder / name, counts, part.votes, part.gold, corpus.texts)
    return ShardEntry(name, len(part), int(counts.nnz), len(part.votes), n_known, digest)


class UnfinishedFolder:
    """A folder ``NAME.part`` beside the target: the files so far, a journal of them, and temporary files.

    ``request`` describes what is made of which files; a run resumes only if it is unchanged. Nothing appears under the
    target's name before it is complete.
    """

    def __init__(self, target: Path, request: dict[str, Any], *, resume: bool, force: bool) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self.output = self.path / "folder"
        self.temporary = self.path / "temporary"
        _check_target(target, force=force)
        if self.path.exists() and not resume and not force:
            raise DataError(
                f"{self.path.name} is left from an interrupted run; pass resume=True to resume it, or force=True to "
                "start again",
                file=str(target),
            )
        self._journal: dict[str, Any] = {"request": request, "steps": {}}
        self._shards: dict[str, ShardEntry] = {}
        if resume and (self.path / _JOURNAL).is_file():
            self._resume(request)
        else:
            self._start()

    def _start(self) -> None:
        try:
            if self.path.exists():
                shutil.rmtree(self.path)
            self.output.mkdir(parents=True)
            self.temporary.mkdir()
        except OSError as refused:
            raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(self.path)) from refused
        write_json(self.path / _JOURNAL, self._journal)

    def _resume(self, request: dict[str, Any]) -> None:
        journal = read_json(self.path / _JOURNAL)
        before = journal.get("request", {}) if isinstance(journal, dict) else {}
        changed = sorted(name for name in {*request, *before} if request.get(name) != before.get(name))
        if changed:
            raise DataError(
                f"cannot resume: {', '.join(changed)} changed since {self.path.name} was started; "
                "use the same files and options, or start again with force=True",
                file=str(self.target),
            )
        self._journal = journal
        path = self.path / _SHARDS
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []  # the last line may be incomplete
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        self._shards = {entry.file: entry for entry in (ShardEntry(**json.loads(line)) for line in lines)}

    def step_result(self, step: str) -> dict[str, Any] | None:
        """Result of a step, if it is complete."""
        result: dict[str, Any] | None = self._journal["steps"].get(step)
        return result

    def complete_step(self, step: str, **result: Any) -> dict[str, Any]:
        """Record that a step and all its files are complete; returns the result."""
        self._journal["steps"][step] = result
        write_json(self.path / _JOURNAL, self._journal)
        return result

    def shard(self, number: int) -> ShardEntry | None:
        """Entry of a shard that is complete and unchanged since it was written."""
        entry = self._shards.get(shard_name(number))
        if entry is None:
            return None
        path = self.output / entry.file
        return entry if path.is_file() and file_sha256(path) == entry.sha256 else None

    def add(self, entry: ShardEntry) -> None:
        """Record that a shard is complete."""
        with (self.path / _SHARDS).open("ab") as lines:
            lines.write(json.dumps(asdict(entry)).encode() + b"\n")

    def complete(self, manifest: Manifest) -> None:
        """Write the manifest and move the folder to its final name."""
        manifest.write(self.output)
        wanted = {MANIFEST, *manifest.files, *(shard.file for shard in manifest.shards)}
        for file in self.output.iterdir():
            if file.name not in wanted:  # left by a run that was killed while it wrote
                file.unlink()
        _move_into_place(self.output, self.target)
        shutil.rmtree(self.path)
