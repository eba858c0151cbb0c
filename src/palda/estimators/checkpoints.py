"""Checkpoints of fits: where they go, and what a fit must have in common with one to go on from it."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import count_blocks, vote_blocks
from palda.engine import FolderStageStore, StageRecord, StageStore, is_checkpoint, remove_checkpoint
from palda.errors import PaldaError
from palda.estimators.progress import note
from palda.io import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from palda.models.topics import TrainingData

__all__ = ["Checkpoint", "draw_seeds", "open_stage_store"]

_OF_NO_CONSEQUENCE = {"n_jobs", "engine", "verbose"}  # for what is learned
_VOTE_COLUMNS = ("doc", "annotator", "label", "value")


@dataclass(frozen=True)
class Checkpoint:
    """A folder for what a long fit has finished, so that it can go on if it is stopped.

    It is written to when ``minutes`` have passed, so a short fit never writes anything; 0 is at every occasion. The
    folder is new, or empty, or holds the checkpoint of the same fit. It stays when the fit is over: ``remove`` it when
    the model is safe.
    """

    folder: str | os.PathLike[str]
    minutes: float = 10.0

    @property
    def exists(self) -> bool:
        """Whether anything was written."""
        return is_checkpoint(self.folder)

    def remove(self) -> None:
        """Remove it; other files in the folder stay."""
        remove_checkpoint(self.folder)


def open_stage_store(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    settings: Mapping[str, Any],
    data: TrainingData,
) -> StageStore:
    """The journal of a fit with these settings of an estimator; one that remembers nothing without a checkpoint."""
    if checkpoint is None:
        return StageStore()
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if not isinstance(checkpoint.folder, (str, os.PathLike)):
        raise PaldaError(f"checkpoint={checkpoint.folder!r} is not a folder's name")
    if not isinstance(checkpoint.minutes, (int, float)) or not 0 <= checkpoint.minutes < math.inf:
        raise PaldaError(f"a checkpoint every {checkpoint.minutes!r} minutes: the number must be at least 0")
    say: Callable[[str], object] = note if settings["verbose"] else lambda _: None
    stages = FolderStageStore(checkpoint.folder, _fingerprint(settings, data), checkpoint.minutes, say=say)
    if stages.n_stored:
        say(f"going on from {stages.folder}")
    return stages


def draw_seeds(random_state: Any, n_seeds: int, stages: StageStore) -> list[int]:
    """Seeds from a random state. A fit that goes on has those that it had: an open state would give others."""
    from sklearn.utils import check_random_state

    drawn = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_seeds)
    drawn = stages.stage("seeds").remember(
        lambda: drawn, lambda seeds: StageRecord({"seeds": seeds}, {}), lambda record: record.arrays["seeds"]
    )
    return [int(seed) for seed in drawn]


def _fingerprint(settings: Mapping[str, Any], data: TrainingData) -> dict[str, Any]:
    """What the result of a fit depends on. Counts, votes and labels as digests, under names for messages."""
    counts, votes, belief = data.counts, data.votes, data.belief
    entries = (array for _, some in count_blocks(counts) for array in (some.indptr, some.indices, some.data))
    stretches = [] if votes is None else vote_blocks(votes)
    columns = (getattr(some, name) for _, some in stretches for name in _VOTE_COLUMNS)
    beliefs = [] if belief is None else [getattr(belief, spec.name) for spec in fields(belief)]
    return {
        "palda": package_version("palda"),
        **{name: _described(value) for name, value in settings.items() if name not in _OF_NO_CONSEQUENCE},
        "the counts of words": _digest(chain([np.array(counts.shape)], entries)),
        "the votes": _digest(columns),
        "the known labels": _digest([data.known]),
        "the prior beliefs about annotators": _digest(beliefs),
    }


def _described(setting: Any) -> Any:
    """A setting as JSON knows it. An open random state says nothing: what was drawn from it is kept in the journal."""
    if isinstance(setting, np.generic):
        return setting.item()
    if isinstance(setting, (str, int, float, bool, type(None))):
        return setting
    if isinstance(setting, (np.random.Generator, np.random.RandomState)):
        return None
    if hasattr(setting, "get_params"):
        own = {name: _described(value) for name, value in sorted(setting.get_params(deep=False).items())}
        return [_name(type(setting)), own]
    if isinstance(setting, (list, tuple)):
        return [_described(value) for value in setting]
    return _name(setting) if callable(setting) else repr(setting)


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _digest(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        whole = np.ascontiguousarray(array)
        digest.update(f"{whole.dtype.str}{whole.shape}".encode())
        digest.update(whole.data.cast("B") if whole.size else b"")
    return digest.hexdigest()
