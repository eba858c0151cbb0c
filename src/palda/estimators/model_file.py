"""Model files: arrays and a JSON manifest in one zip file. Loading reads numbers and text and executes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda import __version__
from palda.data import SchemaError, shown
from palda.errors import PaldaError, reason_of
from palda.estimators.model_schema import model_schema
from palda.io import READ_ERRORS, ArrayArchive, json_rules, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from palda.data import Schema

    SchemaOfState = Callable[[dict[str, Any]], tuple[Schema, Mapping[str, int]]]

FORMAT_VERSION = 1
_FORMAT = "palda-model"
_MANIFEST = "manifest.json"
_RULES = {
    "format": json_rules.one_of(_FORMAT),
    "format_version": json_rules.integer(1, FORMAT_VERSION),
    "arrays": json_rules.mapping_of(json_rules.DIGEST),
    "state": json_rules.Rule("a JSON object", lambda value: type(value) is dict),
    "versions": json_rules.mapping_of(json_rules.TEXT),
}


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
    members = {_MANIFEST: text.encode("utf-8", "surrogatepass")} | {f"{name}.npy": blob for name, blob in blobs.items()}
    try:
        with replacing(target) as unfinished:
            _write_members(unfinished, members, zipfile.ZIP_DEFLATED)
            if not _can_be_read(unfinished):
                _write_members(unfinished, members, zipfile.ZIP_STORED)
    except OSError as refused:
        raise ModelFileError(f"{target}: cannot be written: {refused.strerror or refused}") from refused


def load_state(path: str | os.PathLike[str], schema_of: SchemaOfState = model_schema) -> SavedModel:
    """Read a model file; a ``ModelFileError`` says in one line what is wrong with it.

    ``schema_of`` returns the schema of the arrays, and the sizes that are known, for the JSON state of the file; it
    raises ``ValueError`` for a state that no model has. No array is read before its type and shape are checked.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as stream:
            archive = ArrayArchive(stream)
            manifest = _manifest(archive, name)
            digests, state = manifest["arrays"], manifest["state"]
            _check_members(archive, digests)
            arrays = archive.read_all(*schema_of(state), digests)
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise ModelFileError(f"{name}: there is no such file") from None
    except (SchemaError, json_rules.ValueRuleError) as wrong:
        raise ModelFileError(f"{name}: not a complete model ({reason_of(wrong)})") from None
    except OSError as refused:
        raise ModelFileError(f"{name}: cannot be read: {refused.strerror or refused}") from refused
    except READ_ERRORS as broken:
        raise ModelFileError(
            f"{name}: is not a palda model, or is damaged or truncated ({reason_of(broken)})"
        ) from None
    return SavedModel(arrays, state, manifest["versions"])


def _check_members(archive: ArrayArchive, digests: Mapping[str, Any]) -> None:
    """Raise unless the members are the manifest and the arrays that it lists."""
    extra = set(archive.members) - {_MANIFEST, *(f"{name}.npy" for name in digests)}
    missing = set(digests) - set(archive.array_names)
    if extra:
        raise SchemaError(f"the manifest does not list {shown(min(extra))}")
    if missing:
        raise SchemaError(f"the array {shown(min(missing))} is missing")


def _write_members(path: Path, members: Mapping[str, bytes], method: int) -> None:
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _can_be_read(path: Path) -> bool:
    """Whether the file is within the limits of expansion; arrays of equal numbers compress to almost nothing."""
    with path.open("rb") as stream:
        try:
            ArrayArchive(stream).json_text(_MANIFEST)
        except SchemaError:
            return False
    return True


def _array_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _manifest(archive: ArrayArchive, name: str) -> dict[str, Any]:
    try:
        manifest = json.loads(archive.json_text(_MANIFEST))
    except KeyError:
        raise ModelFileError(f"{name}: is a zip file, but not a palda model (it has no {_MANIFEST})") from None
    except SchemaError:
        raise
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
    try:
        return json_rules.check_object(manifest, _RULES, name="the manifest")
    except json_rules.ValueRuleError as wrong:
        raise ModelFileError(f"{name}: the manifest is damaged ({reason_of(wrong)})") from None
