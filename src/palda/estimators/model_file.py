"""Model files: arrays and a JSON manifest in one zip file. Loading reads numbers and text and executes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import platform
import struct
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda import __version__
from palda.errors import PaldaError
from palda.io import replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

FORMAT_VERSION = 1
_FORMAT = "palda-model"
_MANIFEST = "manifest.json"
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, RuntimeError,
    ValueError, OverflowError, MemoryError,
)  # fmt: skip
"""What zipfile raises on damaged bytes, which may name any compression method."""


class ModelFileError(PaldaError, ValueError):
    """A file that is not a palda model, or a damaged one."""


class SavedModel(NamedTuple):
    """Content of a model file: arrays by name, JSON state, and the versions it was written with."""

    arrays: dict[str, NDArray[Any]]
    state: dict[str, Any]
    versions: dict[str, str]


def save_state(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
    """Write a model file, completely or not at all."""
    blobs = {name: _array_bytes(array) for name, array in arrays.items()}
    manifest = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"palda": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "arrays": {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()},
        "state": dict(state),
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    target = Path(path)
    try:
        with (
            replacing(target) as unfinished,
            zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            archive.writestr(_MANIFEST, text)
            for name, blob in blobs.items():
                archive.writestr(f"{name}.npy", blob)
    except OSError as refused:
        raise ModelFileError(f"{target}: cannot be written: {refused.strerror or refused}") from refused


def load_state(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file; a ``ModelFileError`` says in one line what is wrong with it."""
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
        raise ModelFileError(f"{name}: is not a palda model, or is damaged or truncated ({reason})") from None
    except OSError as refused:
        raise ModelFileError(f"{name}: cannot be read: {refused.strerror or refused}") from refused
    return SavedModel(arrays, manifest["state"], manifest["versions"])


def _array_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


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
            f"{name}: format version {written} is newer than this palda reads ({FORMAT_VERSION}); "
            "upgrade with: pip install --upgrade palda"
        )
    parts = [manifest.get(part) for part in ("arrays", "state", "versions")]
    if not all(isinstance(part, dict) for part in parts):
        raise ModelFileError(f"{name}: the manifest is damaged")
    return manifest


def _array(archive: zipfile.ZipFile, key: str, digest: object, name: str) -> NDArray[Any]:
    try:
        blob = archive.read(f"{key}.npy")
    except KeyError:
        raise ModelFileError(f"{name}: the array {key!r} is missing") from None
    if hashlib.sha256(blob).hexdigest() != digest:
        raise ModelFileError(f"{name}: the array {key!r} was altered after it was saved")
    try:
        loaded: NDArray[Any] = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    except _DAMAGE as broken:
        reason = " ".join(str(broken).split())
        raise ModelFileError(f"{name}: the array {key!r} cannot be read ({reason})") from None
    return loaded
