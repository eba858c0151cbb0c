"""Checkpoints of fits: the folder, and what identifies a fit that may resume from it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import __version__
from palda.data import ArraySpec, count_blocks, feature_blocks, vote_blocks
from palda.engine import FolderStageStore, RecordSchema, StageRecord, StageStore, is_checkpoint, remove_checkpoint
from palda.errors import PaldaError
from palda.io import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from palda.data import EncodedFeatures, Votes
    from palda.models.topics import TrainingData

_WITHOUT_EFFECT = {"n_jobs", "engine", "verbose"}  # parameters that do not change the result
_VOTE_COLUMNS = ("doc", "annotator", "label", "value")


@dataclass(frozen=True)
class Checkpoint:
    """Folder in which a long fit stores its finished stages, so that it can resume after an interruption.

    Pass it to ``fit``. The same call after an interruption resumes from the folder and gives the same bits as a fit
    without interruption. The folder stays when the fit is over; ``remove`` it when the model is saved.

    Parameters
    ----------
    folder : str or path-like
        New folder, empty folder, or folder with the checkpoint of the same fit.
    minutes : float, default=10.0
        Minimum time between two writes. Shorter fits write nothing. 0 writes after every stage.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from palda import PALDA, Checkpoint
    >>> X, y = np.eye(4, dtype=int).repeat(5, axis=0), np.eye(4, dtype=int)[:, :2].repeat(5, axis=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder, minutes=0)
    ...     model = PALDA(2, random_state=0).fit(X, y, checkpoint=checkpoint)
    ...     print(checkpoint.exists)
    ...     checkpoint.remove()
    True
    """

    folder: str | os.PathLike[str]
    minutes: float = 10.0

    @property
    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return is_checkpoint(self.folder)

    def remove(self) -> None:
        """Delete the checkpoint; other files in the folder stay."""
        remove_checkpoint(self.folder)


def open_stage_store(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    settings: Mapping[str, Any],
    data: TrainingData,
) -> StageStore:
    """Stage store of a fit with these parameters; it stores nothing if ``checkpoint`` is None."""
    if checkpoint is None:
        return StageStore()
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if not isinstance(checkpoint.folder, (str, os.PathLike)):
        raise PaldaError(f"checkpoint={checkpoint.folder!r} is not the name of a folder")
    if not isinstance(checkpoint.minutes, (int, float)) or not 0 <= checkpoint.minutes < math.inf:
        raise PaldaError(f"minutes={checkpoint.minutes!r} of the checkpoint must be a finite number of at least 0")
    report: Callable[[str], object] = note if settings["verbose"] else lambda _: None
    stages = FolderStageStore(checkpoint.folder, _fingerprint(settings, data), checkpoint.minutes, say=report)
    if stages.n_stored:
        report(f"resuming from {stages.folder}")
    return stages


def draw_seeds(random_state: Any, n_seeds: int, stages: StageStore) -> list[int]:
    """Seeds from a random state; a resumed fit takes them from its checkpoint."""
    from sklearn.utils import check_random_state

    drawn = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_seeds)
    seeds = stages.stage("seeds").remember(
        lambda: drawn,
        lambda seeds: StageRecord({"seeds": seeds}, {}),
        lambda record: record.arrays["seeds"],
        RecordSchema({"seeds": n_seeds}, ({"seeds": ArraySpec(("seeds",), "integer", low=0, high=2**31)},)),
    )
    return [int(seed) for seed in seeds]


def _fingerprint(settings: Mapping[str, Any], data: TrainingData) -> dict[str, Any]:
    """Everything the result of a fit depends on; counts, votes and labels as digests. Keys appear in messages."""
    counts, votes, belief = data.counts, data.votes, data.belief
    entries = (array for _, some in count_blocks(counts) for array in (some.indptr, some.indices, some.data))
    blocks = [] if votes is None else vote_blocks(votes)
    columns = (column for _, some in blocks for column in _vote_columns(some))
    beliefs = [] if belief is None else [belief.posterior, belief.pool, belief.own]
    return {
        "palda": __version__,
        **{name: _described(value) for name, value in settings.items() if name not in _WITHOUT_EFFECT},
        "the counts of words": _digest(chain([np.array(counts.shape)], entries)),
        "the votes": _digest(columns),
        "the known labels": _digest([data.known]),
        "the features": _feature_digest(data.features),
        "the prior beliefs about annotators": _digest(beliefs),
    }


def _feature_digest(features: EncodedFeatures | None) -> str:
    if features is None:
        return ""
    columns, blocks = features.columns, (some for _, some in feature_blocks(features.values))
    names = [columns.names.tolist(), [None if own is None else own.tolist() for own in columns.categories]]
    named = np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)  # an external classifier may select by name
    return _digest(chain([named], columns.arrays().values(), blocks))


def _vote_columns(votes: Votes) -> list[NDArray[Any]]:
    """What a fit depends on; hard votes have no probabilities."""
    columns = [getattr(votes, name) for name in _VOTE_COLUMNS]
    return [*columns, votes.probability] if len(votes.probability) else columns


def _described(value: Any) -> Any:
    """A parameter as JSON. A random state is None: the seeds that were drawn from it are in the checkpoint."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    if hasattr(value, "get_params"):
        own = {name: _described(part) for name, part in sorted(value.get_params(deep=False).items())}
        return [_full_name(type(value)), own]
    if isinstance(value, (list, tuple)):
        return [_described(part) for part in value]
    return _full_name(value) if callable(value) else repr(value)


def _full_name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _digest(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        contiguous = np.ascontiguousarray(array)
        digest.update(f"{contiguous.dtype.str}{contiguous.shape}".encode())
        digest.update(contiguous.data.cast("B") if contiguous.size else b"")
    return digest.hexdigest()
