"""Runs functions over shards, in threads or on Dask, and stores finished stages. Never sees a formula."""

from __future__ import annotations

from palda.engine.base import FAN_IN, Engine, tree_sum
from palda.engine.checkpoint import (
    CheckpointError,
    FolderStageLog,
    Stage,
    StageLog,
    StageRecord,
    is_checkpoint,
    prefixed,
    remove,
    under,
)
from palda.engine.dask import Dask
from palda.engine.selection import check_engine, open_client, open_engine
from palda.engine.threads import Threads, one_blas_thread, resolve_n_jobs

__all__ = [
    "FAN_IN",
    "CheckpointError",
    "Dask",
    "Engine",
    "FolderStageLog",
    "Stage",
    "StageLog",
    "StageRecord",
    "Threads",
    "check_engine",
    "is_checkpoint",
    "one_blas_thread",
    "open_client",
    "open_engine",
    "prefixed",
    "remove",
    "resolve_n_jobs",
    "tree_sum",
    "under",
]
