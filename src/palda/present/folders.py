"""The work of ``palda fit`` on a folder of shards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palda.data import checks
from palda.data.shards import open_shards
from palda.data.sources import ReadOptions, read_gold
from palda.errors import PaldaError, PaldaWarning

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from palda.checkpoints import Checkpoint
    from palda.data.mapped import MappedVotes
    from palda.data.shards import ShardFolder
    from palda.estimators import CrowdPALDA
    from palda.present.fitting import Plan

__all__ = ["StoredData", "fit_folder_and_save", "read_folder"]

_MOST_KEPT_DOCS, _MOST_KEPT_VOTES = 200_000, 20_000_000  # in a model file
_USUAL_COUNTING = ("english", 2, 1, 5)


@dataclass(frozen=True)
class StoredData:
    """A folder of shards, and the labels that are known."""

    folder: ShardFolder
    gold: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.folder)

    @property
    def votes(self) -> MappedVotes:
        """Votes, where the folder has them."""
        return self.folder.votes


def read_folder(
    path: Path, votes: Path | None, gold: Path | None, options: ReadOptions, plan: Plan, *, keep_gold: bool
) -> StoredData:
    """Folder of shards to learn from, every byte compared with its checksum.

    It has its votes and has counted its words, so whoever says how to do so is told that it is too late.
    """
    if votes is not None:
        raise PaldaError(f"{path} is a folder of shards, which holds its votes; leave {votes} out, or shard it again")
    if plan.counting != _USUAL_COUNTING or options != ReadOptions():
        raise PaldaError(f"{path} is a folder of shards: how files are read and words counted is said to palda shard")
    folder = open_shards(path)
    folder.verify()
    known = folder.gold
    if not keep_gold:
        known[:] = checks.BLANK
    if gold is not None:
        given = read_gold(gold, folder.doc_ids, folder.classes)
        known = np.where(given >= 0, given, known)
    return StoredData(folder, known)


def fit_folder_and_save(
    data: StoredData, plan: Plan, output: Path, checkpoint: Checkpoint | None, *, keep_texts: bool, verbose: bool
) -> CrowdPALDA:
    """Model fitted on a folder of shards, which is in the file as well.

    The file holds texts and votes for reports, unless they are too many for it: then they stay in the folder.
    """
    folder = data.folder
    model = plan.model(verbose=verbose)
    model.fit(folder, gold=data.gold, checkpoint=checkpoint)
    is_small = len(folder) <= _MOST_KEPT_DOCS and len(folder.votes) <= _MOST_KEPT_VOTES
    if not is_small:
        warnings.warn("texts and votes stay in the folder: too many for a model file", PaldaWarning, stacklevel=2)
    model.save(
        output,
        words=folder.words,
        texts=folder.texts() if is_small and keep_texts else None,
        votes=folder.votes.take(slice(None), named=True) if is_small else None,
    )
    if checkpoint is not None and not model.interrupted_:
        checkpoint.remove()
    return model
