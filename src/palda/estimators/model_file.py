"""Models on disk: arrays and a JSON manifest in one zip file. Loading reads numbers and text, and executes nothing."""

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

from palda.engine import add_prefix, strip_prefix
from palda.errors import PaldaError
from palda.io import package_version, replacing
from palda.kernels import ClassWordProbs
from palda.models.classifier import (
    ExternalClassifier,
    LabelPrior,
    LogisticClassifier,
    combination_arrays,
    combination_from_arrays,
)
from palda.models.topics import Temperature, WordEvidenceModel

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from palda.models.topics import Params

__all__ = [
    "FORMAT_VERSION",
    "ModelFileError",
    "SavedModel",
    "load_state",
    "save_state",
    "state_of_prior",
    "stored_prior",
]

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
    """Write the file whole or not at all."""
    blobs = {name: _array_bytes(array) for name, array in arrays.items()}
    manifest = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"palda": package_version("palda"), "numpy": np.__version__, "python": platform.python_version()},
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


def state_of_prior(prior: LabelPrior | None, label_prior: Any) -> dict[str, np.ndarray[Any, Any]]:
    """A label prior as arrays of a model file; a plugged-in classifier as the bytes that skops makes of it."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    if not isinstance(label_prior, str):
        from skops import io as skops_io

        models = () if prior is None or isinstance(prior.classifier, LogisticClassifier) else prior.classifier.models
        arrays["plugged_in"] = np.frombuffer(skops_io.dumps([label_prior, list(models)]), dtype=np.uint8)
    if prior is None:
        return arrays
    head = prior.classifier.arrays()
    for prefix, part in (
        ("head", head),
        ("for_votes", combination_arrays(prior.for_votes)),
        ("for_words", combination_arrays(prior.for_words)),
    ):
        arrays |= add_prefix(prefix, part)
    if prior.evidence_model is not None:
        said, temper, log_odds = prior.evidence_model
        arrays |= {"reader.present": said.present, "reader.absent": said.absent}
        arrays |= {"reader.temper": np.array(temper), "reader.log_odds": log_odds}
    return arrays


def stored_prior(
    arrays: Mapping[str, np.ndarray[Any, Any]], params: Params, trusted: Sequence[str]
) -> tuple[LabelPrior | None, Any]:
    """The label prior among the arrays of a model file, and the classifier that was plugged in, if one was."""
    plugged_in: Any = None
    models: list[Any] = []
    if "plugged_in" in arrays:
        plugged_in, models = _from_skops(arrays["plugged_in"].tobytes(), trusted)
    own = strip_prefix("head", arrays)
    if not own:
        return None, plugged_in
    n_classes, n_words = len(params.class_prior), params.topic_words.shape[1]
    head = LogisticClassifier.from_arrays(own) if plugged_in is None else ExternalClassifier.from_arrays(own, models)
    if isinstance(head, LogisticClassifier):
        fourier = head.fourier
        n_features = (0 if head.idf is None else n_words) + (0 if head.dense_mean is None else n_classes)
        n_features += 0 if fourier is None else len(fourier.offset)
        fits = head.coef.shape == (n_features, n_classes) and (head.idf is None or head.idf.shape == (n_words,))
        if not fits or (fourier is not None and fourier.basis.shape[0] != n_words):
            raise ValueError("the arrays of the label prior do not fit the others")
    for_votes, for_words = (combination_from_arrays(strip_prefix(name, arrays)) for name in ("for_votes", "for_words"))
    if any(part.profiles.rates.shape[1:] != (n_classes,) for part in (for_votes, for_words)):
        raise ValueError("the arrays of the profiles do not fit the others")
    return LabelPrior(head, for_votes, for_words, _stored_reader(arrays, (n_words, n_classes))), plugged_in


def _stored_reader(arrays: Mapping[str, np.ndarray[Any, Any]], shape: tuple[int, int]) -> WordEvidenceModel | None:
    own = strip_prefix("reader", arrays)
    if not own:
        return None
    said = ClassWordProbs(own["present"], own["absent"])
    if said.present.shape != shape or said.absent.shape != shape or own["log_odds"].shape != shape[1:]:
        raise ValueError("the arrays of the topics' reader do not fit the others")
    return WordEvidenceModel(said, Temperature(*(float(number) for number in own["temper"])), own["log_odds"])


def _from_skops(blob: bytes, trusted: Sequence[str]) -> tuple[Any, list[Any]]:
    from skops import io as skops_io

    strange = sorted(set(skops_io.get_untrusted_types(data=blob)) - set(trusted))
    if strange:
        raise ModelFileError(
            f"the model's classifier holds types that are not trusted: {', '.join(strange)}; "
            "if you know where the file comes from, name them in load(path, trusted=[...])"
        )
    label_prior, models = skops_io.loads(blob, trusted=list(trusted))
    return label_prior, models


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
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
