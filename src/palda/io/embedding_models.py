"""Embedding models in folders: finding them by path or hub name, recognising their library, loading them.

Only files of a local folder are read, unless the user names a model of the Hugging Face hub, which is then downloaded
by its client into the client's cache. Weights are read from safetensors files and no code of a model is executed.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from palda.data import shown
from palda.errors import DataError, MissingDependencyError, PaldaError, reason_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    Encoder: TypeAlias = Callable[[list[str], int], Any]
    """Function from texts and batch size to vectors (texts, width)."""

Library: TypeAlias = Literal["model2vec", "sentence-transformers"]

_HUB_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?", re.ASCII)
_NEEDED_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNUSED_FOLDERS = ["onnx/*", "openvino/*"]
_MAX_JSON_BYTES = 64 << 20
_TRUSTED_MODULES = "sentence_transformers."
_CHUNK = 1 << 22


def model_folder(model: str | os.PathLike[str], *, verbose: int = 0) -> Path:
    """Folder of a model that is named by a path, or by a hub name (``owner/name`` or ``owner/name@revision``).

    A hub model is downloaded, unless the client's cache has it. A name that looks like a path is never looked up at the
    hub.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise DataError(f"model {shown(str(model))} is a file; name the folder that it is in")
    hub_name = _HUB_NAME.fullmatch(model) if isinstance(model, str) else None
    if hub_name is None:
        bare = isinstance(model, str) and re.fullmatch(r"[\w-][\w.-]*", model)
        advice = f"a model of the Hugging Face hub has an owner, as in 'owner/{model}'" if bare else "check the path"
        raise DataError(f"model: there is no folder {shown(str(model))}; {advice}")
    if Path(path.parts[0]).is_dir():
        raise DataError(
            f"model: there is no folder {shown(str(model))}, but there is {path.parts[0]!r}; check the path"
        )
    return _downloaded(*hub_name.groups(), verbose=verbose)


def _downloaded(name: str, revision: str | None, *, verbose: int) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingDependencyError(f"the hub model {name!r}", "embeddings") from None
    try:
        with _progress_bars(shown=bool(verbose)):
            return Path(
                snapshot_download(
                    name, revision=revision, allow_patterns=_NEEDED_FILES, ignore_patterns=_UNUSED_FOLDERS
                )
            )
    except Exception as refused:
        message = f"model {name!r} cannot be fetched from the Hugging Face hub: {reason_of(refused)}"
        raise PaldaError(message) from refused


@contextmanager
def _progress_bars(*, shown: bool) -> Iterator[None]:
    """The hub client's progress bars, or none; its own setting is restored afterwards."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def library_of(folder: Path) -> Library:
    """The library that a model folder belongs to, from its files.

    A folder of model2vec has the array ``embeddings`` in ``model.safetensors``; one of sentence-transformers has
    ``modules.json``, or is a plain transformer with a ``config.json``.
    """
    if "embeddings" in _array_names(folder / "model.safetensors") and (folder / "tokenizer.json").is_file():
        return "model2vec"
    modules = _json_file(folder / "modules.json")
    if modules is not None:
        _check_modules(folder, modules)
        return "sentence-transformers"
    config = _json_file(folder / "config.json")
    if isinstance(config, dict) and "model_type" in config:
        return "sentence-transformers"
    raise DataError(
        f"{folder}: is not an embedding model; there is neither modules.json (sentence-transformers), nor "
        "model.safetensors and tokenizer.json (model2vec)"
    )


def _array_names(path: Path) -> list[str]:
    """Names of the arrays in a safetensors file: its header is JSON, after the length in eight bytes."""
    if not path.is_file():
        return []
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _MAX_JSON_BYTES:
            return []
        try:
            header = json.loads(stream.read(length))
        except (ValueError, RecursionError):
            return []
    return list(header) if isinstance(header, dict) else []


def _json_file(path: Path) -> Any:
    """Content of a JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise DataError("is too large to be the description of a model", file=str(path))
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as wrong:
        raise DataError(f"is not a JSON file ({reason_of(wrong)})", file=str(path)) from None


def _check_modules(folder: Path, modules: Any) -> None:
    """Refuse modules from outside of sentence-transformers: the file would choose what is imported."""
    listed = modules if isinstance(modules, list) and modules else [None]
    for module in listed:
        kind = module.get("type") if isinstance(module, dict) else None
        if not isinstance(kind, str) or not kind.startswith(_TRUSTED_MODULES):
            raise DataError(
                f"lists the module {shown(kind)}; only those of sentence-transformers are loaded. Load the model "
                "yourself, and pass the object as model",
                file=str(folder / "modules.json"),
            )


Signature: TypeAlias = tuple[tuple[str, int, int], ...]


def folder_signature(folder: Path) -> Signature:
    """Names, sizes and times of the files: if they are equal, the model is taken to be unchanged."""
    found = []
    for path in _model_files(folder):
        status = path.stat()
        found.append((path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns))
    return tuple(found)


def folder_digest(folder: Path) -> str:
    """Hash of names and contents of the files of a model, so that a copy of the folder has the same."""
    digest = blake2b(digest_size=16)
    for path in _model_files(folder):
        digest.update(
            f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode("utf-8", "surrogatepass")
        )
        with path.open("rb") as stream:
            while block := stream.read(_CHUNK):
                digest.update(block)
    return digest.hexdigest()


def _model_files(folder: Path) -> Iterator[Path]:
    """Files of a model in a fixed order, without hidden files and texts for readers."""
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path.suffix != ".md":
            yield path


def load_encoder(folder: Path) -> Encoder:
    """Function that embeds texts with the model in a folder; its library chooses the device."""
    load = _load_static_model if library_of(folder) == "model2vec" else _load_sentence_transformer
    try:
        return load(folder)
    except PaldaError:
        raise
    except Exception as wrong:
        raise DataError(f"{folder}: the model cannot be loaded: {reason_of(wrong)}") from wrong


def _load_static_model(folder: Path) -> Encoder:
    try:
        from model2vec import StaticModel
    except ImportError:
        raise MissingDependencyError(f"{folder}: a model of model2vec", "embeddings") from None
    model = StaticModel.from_pretrained(folder)
    return lambda texts, batch_size: model.encode(texts, batch_size=batch_size)


def _load_sentence_transformer(folder: Path) -> Encoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingDependencyError(f"{folder}: a model of sentence-transformers", "sentence-transformers") from None
    model = SentenceTransformer(
        str(folder), local_files_only=True, trust_remote_code=False, model_kwargs={"use_safetensors": True}
    )
    return lambda texts, batch_size: model.encode(texts, batch_size=batch_size, show_progress_bar=False)


def object_encoder(model: Any) -> Encoder:
    """Function that embeds texts with an object, in calls of ``batch_size`` texts."""
    import numpy as np

    def encode(texts: list[str], batch_size: int) -> Any:
        parts = [model.encode(texts[start : start + batch_size]) for start in range(0, len(texts), batch_size)]
        try:
            return np.concatenate([np.asarray(part) for part in parts])
        except ValueError:
            raise DataError(
                f"the model {type(model).__name__} returned vectors of different lengths, no array (texts, width)"
            ) from None

    return encode
