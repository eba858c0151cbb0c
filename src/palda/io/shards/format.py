"""Files of a shard folder: their names, their content, and its validation.

A folder holds ``manifest.json`` (sizes, and the SHA-256 of every other file), ``names.json`` (vocabulary, classes,
annotators, and their kinds and families if known, features and their categories), ``words.json`` (the fitted
transformer that turns new documents into counts, if it is known) and one Arrow IPC file per shard,
``shard-00000.arrow``. Equal data give equal bytes: no file holds a date.

A shard file is uncompressed, so that it can be memory-mapped, and has one row per document. Its columns are:

========================  ===========================  ==============================================================
``id``                    large_string                 id of the document
``text``                  large_string                 text of the document; only if the folder keeps texts
``words``                 large_list of integers       words of the document, as ascending positions in the vocabulary
``counts``                large_list of numbers        count of each of these words
``vote_annotators``       large_list of integers       annotator of each vote, as positions in the annotators
``vote_classes``          large_list of integers       class of each vote, as positions in the classes
``vote_values``           large_list of int8           1 for present, 0 for absent
``vote_probabilities``    large_list of float          probability of "present" that was stated, NaN for a hard vote;
                                                       only if the shard has soft votes
``vote_times``            large_list of double         seconds since 1970, NaN if unknown; only if any is known
``abstained``             large_list of integers       annotators who looked at the document and judged nothing
``gold``                  fixed_size_list of int8      known label per class, -1 if unknown; only if any is known
``features``              fixed_size_list of float or  features of the document, NaN if missing; categories are
                          double                       positions; only if the folder has features
========================  ===========================  ==============================================================

Integers and counts have the smallest type that holds them exactly. A column of strings that are not valid Unicode (lone
surrogates) has the type large_binary.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.errors import DataError, reason_of
from palda.io import json_rules
from palda.io.atomic import replacing
from palda.io.limits import MAX_FIELDS
from palda.io.regular_files import open_regular
from palda.io.versions import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from palda.data import Counts, Strings, Votes

FORMAT_VERSION = 2
MANIFEST, NAMES, WORDS = "manifest.json", "names.json", "words.json"
FORMAT = "palda-shards"
_FILE_NAME = re.compile(r"shard-\d{5,}\.arrow|names\.json|words\.json")
_EXACT_INTEGERS = {np.uint8: 1 << 8, np.uint16: 1 << 16}


@dataclass(frozen=True)
class ShardEntry:
    """Sizes and digest of one shard, as the manifest lists them."""

    file: str
    documents: int
    entries: int
    votes: int
    known: int
    """Number of gold labels."""
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Sizes of a shard folder, and the digests of its files."""

    documents: int
    words: int
    classes: int
    annotators: int
    texts: bool
    """Whether the shards hold the texts of the documents."""
    shards: tuple[ShardEntry, ...]
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files beside the shards."""
    features: int = 0
    """Number of features of a document."""
    feature_type: str = ""
    """``"float32"`` or ``"float64"`` if there are features."""

    def write(self, folder: Path) -> None:
        """Write the manifest, which comes last: a folder without it cannot be opened."""
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "palda": package_version("palda")}
        own = asdict(self)
        if not self.features:  # as older versions read it
            own = {name: value for name, value in own.items() if name not in _FEATURE_RULES}
        write_json(folder / MANIFEST, head | own, indent=1)


def shard_name(number: int) -> str:
    """File name of a shard, counted from 0."""
    return f"shard-{number:05d}.arrow"


def read_manifest(folder: Path) -> Manifest:
    """Manifest of a folder, with every number in it checked."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not a shard folder" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{what}; palda shard DOCS VOTES -o FOLDER makes one", file=str(folder))
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError("is not the manifest of a shard folder", file=str(path))
    written = content.get("format_version")
    if isinstance(written, int) and written > FORMAT_VERSION:
        raise DataError(
            f"has format version {written}, and this palda reads version {FORMAT_VERSION}; "
            "upgrade with: pip install --upgrade palda",
            file=str(path),
        )
    if written == 1:
        raise DataError("was written by palda 0.1 in an older format; run palda shard again", file=str(folder))
    try:
        return _manifest(content)
    except json_rules.ValueRuleError as broken:
        raise DataError(f"is damaged ({reason_of(broken)}); write the folder again", file=str(path)) from None


_SIZE = json_rules.integer(0, 2**48)
_FILE = json_rules.Rule(
    "the name of a file of the folder", lambda value: type(value) is str and bool(_FILE_NAME.fullmatch(value))
)
_MANIFEST_RULES = {
    "format": json_rules.one_of(FORMAT),
    "format_version": json_rules.one_of(FORMAT_VERSION),
    "palda": json_rules.TEXT,
    "documents": _SIZE,
    "words": _SIZE,
    "classes": _SIZE,
    "annotators": _SIZE,
    "texts": json_rules.FLAG,
    "shards": json_rules.list_of(json_rules.ANY),
    "files": json_rules.mapping_of(json_rules.DIGEST),
}
_FEATURE_RULES = {
    "features": json_rules.integer(1, MAX_FIELDS),
    "feature_type": json_rules.one_of("float32", "float64"),
}
_ENTRY_RULES = {
    "file": _FILE,
    "documents": _SIZE,
    "entries": _SIZE,
    "votes": _SIZE,
    "known": _SIZE,
    "sha256": json_rules.DIGEST,
}


def _manifest(content: Any) -> Manifest:
    json_rules.check_object(content, _MANIFEST_RULES, _FEATURE_RULES, name="the manifest")
    if ("features" in content) != ("feature_type" in content):
        raise json_rules.ValueRuleError("'features' and 'feature_type' belong together")
    entries = [json_rules.check_object(entry, _ENTRY_RULES, name="a shard") for entry in content["shards"]]
    shards = tuple(ShardEntry(**entry) for entry in entries)
    files = content["files"]
    for name in files:
        json_rules.check_value(name, _FILE, "a file")
    if sum(shard.documents for shard in shards) != content["documents"]:
        raise json_rules.ValueRuleError("the numbers of documents do not add up")
    if NAMES not in files or len({shard.file for shard in shards} | set(files)) != len(shards) + len(files):
        raise json_rules.ValueRuleError("a file is missing or listed twice")
    sizes = {name: content[name] for name in ("documents", "words", "classes", "annotators", "texts")}
    features = {name: content[name] for name in _FEATURE_RULES if name in content}
    return Manifest(**sizes, shards=shards, files=files, **features)


def read_json(path: Path) -> Any:
    """Content of one of the JSON files."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except FileNotFoundError:
        raise DataError("is missing; the folder is not complete", file=str(path)) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=str(path)) from refused
    except (ValueError, RecursionError):
        raise DataError("is damaged or cut short: it is not JSON; write the folder again", file=str(path)) from None


def write_json(path: Path, content: Any, indent: int | None = None) -> str:
    """Write a JSON file atomically; returns its SHA-256."""
    text = json.dumps(content, indent=indent)
    return _write_atomically(path, lambda unfinished: unfinished.write_text(text, encoding="ascii"))


def _write_atomically(target: Path, write: Callable[[Path], object]) -> str:
    try:
        with replacing(target) as unfinished:
            write(unfinished)
            return file_sha256(unfinished)
    except OSError as refused:
        raise DataError(f"cannot be written: {refused.strerror or refused}", file=str(target)) from refused


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def names_of(content: Any, name: str, size: int, path: Path) -> Strings:
    """Names of one axis from the content of ``names.json``."""
    names = content.get(name) if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) != size or not all(isinstance(one, str) for one in names):
        raise DataError(f"is damaged ({name}: wrong number or type of names); write the folder again", file=str(path))
    return string_array(names)


def traits_of(content: Any, name: str, n_annotators: int, path: Path) -> Strings:
    """Kinds or families of the annotators from the content of ``names.json``; of length 0 if it has none."""
    if isinstance(content, dict) and name not in content:
        return string_array([])
    return names_of(content, name, n_annotators, path)


def feature_axes_of(content: Any, n_features: int, path: Path) -> tuple[Strings, tuple[Strings | None, ...]]:
    """Names of the features and their categories, None for numbers, from the content of ``names.json``."""
    names = names_of(content, "features", n_features, path)
    listed = content.get("feature_categories", [None] * n_features)
    is_sound = isinstance(listed, list) and len(listed) == n_features
    if not is_sound or not all(one is None or _are_names(one) for one in listed) or not _are_names(names.tolist()):
        raise DataError("is damaged (features: wrong names or categories); write the folder again", file=str(path))
    return names, tuple(None if one is None else string_array(one) for one in listed)


def _are_names(value: Any) -> bool:
    """Whether a value is a list of different strings that are valid Unicode."""
    rule = json_rules.list_of(json_rules.UNICODE)
    return rule.accepts(value) and len(set(value)) == len(value)


def string_array(strings: list[str]) -> Strings:
    """Strings in a read-only array, unchanged."""
    array = np.fromiter(strings, dtype=object, count=len(strings))
    array.flags.writeable = False
    return array


# Shard files; ``shard_file`` reads them


def write_shard(
    path: Path,
    counts: Counts,
    votes: Votes,
    gold: NDArray[np.int8],
    texts: Strings | None,
    features: NDArray[Any] | None = None,
) -> tuple[str, int]:
    """Write a shard file atomically; returns its SHA-256 and the number of gold labels."""
    import pyarrow as pa

    abstained = np.searchsorted(votes.abstained[:, 0], np.arange(votes.n_docs + 1))
    vote_columns: dict[str, NDArray[Any]] = {
        "vote_annotators": votes.annotator.astype(_code_type(votes.n_annotators)),
        "vote_classes": votes.label.astype(_code_type(votes.n_classes)),
        "vote_values": votes.value,
    }
    optional: dict[str, NDArray[Any]] = {"vote_probabilities": votes.probability, "vote_times": votes.time}
    vote_columns |= {name: values for name, values in optional.items() if len(values)}
    columns = {"id": _string_column(votes.doc_ids)}
    if texts is not None:
        columns["text"] = _string_column(texts)
    columns["words"] = _list_column(counts.indptr, counts.indices.astype(_code_type(counts.shape[1])))
    columns["counts"] = _list_column(counts.indptr, _compact(counts.data))
    columns |= {name: _list_column(votes.doc_starts, values) for name, values in vote_columns.items()}
    columns["abstained"] = _list_column(abstained, votes.abstained[:, 1].astype(_code_type(votes.n_annotators)))
    n_known = int(np.count_nonzero(gold >= 0))
    fixed = {"gold": gold if n_known else None, "features": features}
    columns |= {
        name: pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).ravel()), rows.shape[1])
        for name, rows in fixed.items()
        if rows is not None
    }
    batch = pa.RecordBatch.from_pydict(columns)

    def write(unfinished: Path) -> None:
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
            file.write_batch(batch)

    return _write_atomically(path, write), n_known


def _string_column(strings: Iterable[str]) -> pa.Array:
    import pyarrow as pa

    texts = list(strings)
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.large_binary())


def _list_column(starts: NDArray[Any], values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array(starts.astype(np.int64)), pa.array(np.ascontiguousarray(values)))


def _code_type(size: int) -> np.dtype[Any]:
    """Smallest type that holds positions on an axis of that length."""
    return np.min_scalar_type(max(size - 1, 0))


def _compact(data: NDArray[Any]) -> NDArray[Any]:
    """Counts in the smallest type that holds them exactly."""
    if not np.isfinite(data).all() or (len(data) and data.min() < 0):
        raise DataError("counts must be finite and not negative")
    for kind, limit in _EXACT_INTEGERS.items():
        if not len(data) or (data.max() < limit and (data == np.floor(data)).all()):
            return data.astype(kind)
    floats = data.astype(np.float64)
    with np.errstate(over="ignore"):
        single = floats.astype(np.float32)
    return single if (single == floats).all() else floats
