"""What several commands read: files, standard input, and fitted models."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palda.data import Counts, Dataset
    from palda.estimators import PALDA, CrowdPALDA

_OptionalPath = TypeVar("_OptionalPath", Path, "Path | None")
_HEAD = 4096  # bytes by which the format of standard input is recognised


@contextmanager
def regular_file(path: _OptionalPath) -> Iterator[_OptionalPath]:
    """The path itself; for ``-``, a temporary file with the content of standard input, which can be read twice."""
    if path is None or str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="palda-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy.rename(copy.with_suffix(_suffix(copy)))


def _suffix(path: Path) -> str:
    """The suffix of the format that the first bytes show."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(b"PK\x03\x04"):
        return ".zip"
    if head.startswith(b"\x1f\x8b"):
        head = _decompressed_head(path)
    start = head.decode("utf-8-sig", errors="replace").lstrip()[:1]
    return {"[": ".json", "{": ".jsonl"}.get(start, ".csv")


def _decompressed_head(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # the reader will report the error
        return b""


def read_files(
    documents: Path,
    votes: Path | None,
    reading: dict[str, Any],
    gold: Path | None = None,
    *,
    ignore_gold_columns: bool = False,
) -> Dataset:
    """Documents, votes and known labels; the labels of the ``gold`` file replace those that come with the documents."""
    from dataclasses import replace

    import numpy as np

    from palda.data import BLANK
    from palda.io import read, read_gold

    if str(documents) == "-" and str(votes) == "-":
        raise PaldaError("only one of the files can be standard input")
    with regular_file(documents) as documents_file, regular_file(votes) as votes_file:
        dataset = read(documents_file, votes_file, **reading)
    if not len(dataset.votes):
        only = " but only gold labels" if (dataset.gold != BLANK).any() else ""
        raise PaldaError(f"{documents} contains no votes{only}; give the file with the votes as well")
    if ignore_gold_columns:
        dataset = replace(dataset, gold=np.full_like(dataset.gold, BLANK))
    if gold is None:
        return dataset
    known = read_gold(gold, dataset.doc_ids, dataset.classes, reading["encoding"])
    return replace(dataset, gold=np.where(known >= 0, known, dataset.gold))


def load_crowd(path: Path) -> CrowdPALDA:
    """The model in a file, which must have been fitted to votes."""
    from palda.estimators import CrowdPALDA, load

    model = load(path)
    if not isinstance(model, CrowdPALDA):
        raise PaldaError(f"{path}: the model was fitted to known labels, not to votes; it has no annotators")
    return model


def word_counts(model: PALDA | CrowdPALDA, documents: Any) -> Counts | None:
    """Counts (documents, words) of new ``Documents`` or ``Values``, by the transformer of the model.

    None for a model that was fitted to features alone.
    """
    from palda.data import Documents

    if not model.n_features_in_:
        return None
    words = model.words_
    if words is None:
        raise PaldaError("the model has no transformer from texts to words; save it with save(path, words=...)")
    reads_texts = hasattr(words, "vocabulary_")
    if reads_texts != isinstance(documents, Documents):
        needed, given = ("texts", "numbers") if reads_texts else ("numbers", "texts")
        raise PaldaError(f"the model needs {needed}, but the documents hold {given}; choose the column with --text")
    counts: Counts = words.transform(documents)
    return counts
