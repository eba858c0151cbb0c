"""Models on disk: arrays and a JSON manifest in one zip file. Loading reads numbers and text, and executes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import platform
import secrets
import struct
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.errors import PaldaError
from palda.model.state import Params

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT_VERSION", "ModelFileError", "SavedModel", "load_state", "save_state", "stored_params"]

FORMAT_VERSION = 1
_FORMAT = "palda-model"
_MANIFEST = "manifest.json"
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, RuntimeError,
    ValueError, OverflowError, MemoryError,
)  # fmt: skip
"""What zipfile raises when bytes are not what they were, compression methods that were never used included."""


class ModelFileError(PaldaError, ValueError):
    """A file that is not a palda model, or not any more."""


class SavedModel(NamedTuple):
    """Plain state: arrays by name, and everything else as JSON knows it."""

    arrays: dict[str, np.ndarray[Any, Any]]
    state: dict[str, Any]
    versions: dict[str, str]


def save_state(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray[Any, Any]], state: Mapping[str, Any]
) -> None:
    """Write the file whole or not at all: under another name first, then renamed into place."""
    blobs = {name: _array_bytes(array) for name, array in arrays.items()}
    manifest = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"palda": _version("palda"), "numpy": np.__version__, "python": platform.python_version()},
        "arrays": {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()},
        "state": dict(state),
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(_MANIFEST, text)
            for name, blob in blobs.items():
                archive.writestr(f"{name}.npy", blob)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.replace(target)
    except OSError as refused:
        raise ModelFileError(f"{target}: cannot be written: {refused.strerror or refused}") from refused
    finally:
        unfinished.unlink(missing_ok=True)


def load_state(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file; whatever is wrong with it is said in one line."""
    name = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive, name)
            arrays = {key: _array(archive, key, digest, name) for key, digest in manifest["arrays"].items()}
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise ModelFileError(f"{name}: there is no such file") from None
    except _DAMAGE as broken:
        reason = " ".join(str(broken).split())
        raise ModelFileError(f"{name}: is not a palda model, or is damaged or cut short ({reason})") from None
    except OSError as refused:
        raise ModelFileError(f"{name}: cannot be read: {refused.strerror or refused}") from refused
    return SavedModel(arrays, manifest["state"], manifest["versions"])


def stored_params(arrays: Mapping[str, np.ndarray[Any, Any]]) -> Params:
    """Parameters among the arrays of a model file, which must fit each other."""
    n_classes, _, n_topics = arrays["topic_prior"].shape
    n_words = arrays["topic_words"].shape[-1]
    shapes = {
        "topic_prior": (n_classes, 2, n_topics),
        "topic_words": (n_topics, n_words),
        "class_prior": (n_classes,),
        "word_counts": (n_topics, n_words),
        "word_prior": (),
        "annotator_rates": (arrays["annotator_rates"].size,) if "annotator_rates" in arrays else (),
    }
    stored: dict[str, Any] = {name: arrays[name] for name in shapes if name in arrays}
    for name, array in stored.items():
        if array.shape != shapes[name] or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"the array {name!r} does not fit the others")
    if ("word_counts" in stored) != ("word_prior" in stored):
        raise ValueError("of 'word_counts' and 'word_prior' one is missing")
    if "word_prior" in stored:
        stored["word_prior"] = float(stored["word_prior"])
    return Params(**stored)


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _manifest(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    try:
        manifest = json.loads(archive.read(_MANIFEST))
    except KeyError:
        raise ModelFileError(f"{name}: is a zip file, but not a palda model (it has no {_MANIFEST})") from None
    except (ValueError, RecursionError):
        raise ModelFileError(f"{name}: the manifest is damaged") from None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ModelFileError(f"{name}: is not a palda model")
    written = manifest.get("format_version")
    if type(written) is not int or written < 1:
        raise ModelFileError(f"{name}: the manifest is damaged (its format version is {written!r})")
    if written > FORMAT_VERSION:
        raise ModelFileError(
            f"{name}: has format version {written}, and this palda reads up to {FORMAT_VERSION}; "
            "upgrade with: pip install --upgrade palda"
        )
    parts = [manifest.get(part) for part in ("arrays", "state", "versions")]
    if not all(isinstance(part, dict) for part in parts):
        raise ModelFileError(f"{name}: the manifest is damaged")
    return manifest


def _array(archive: zipfile.ZipFile, key: str, digest: object, name: str) -> np.ndarray[Any, Any]:
    try:
        blob = archive.read(f"{key}.npy")
    except KeyError:
        raise ModelFileError(f"{name}: the array {key!r} is missing") from None
    if hashlib.sha256(blob).hexdigest() != digest:
        raise ModelFileError(f"{name}: the array {key!r} was altered after it was saved")
    try:
        loaded: np.ndarray[Any, Any] = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    except _DAMAGE as broken:
        reason = " ".join(str(broken).split())
        raise ModelFileError(f"{name}: the array {key!r} cannot be read ({reason})") from None
    return loaded
