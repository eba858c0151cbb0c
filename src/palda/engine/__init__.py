"""Runs functions over shards, in threads or on Dask, and stores finished stages. It knows no formulas."""

from __future__ import annotations

from palda.engine.dask import Dask, check_engine, open_client, open_engine
from palda.engine.stage_records import RecordSchema, StageRecord
from palda.engine.stage_store import (
    NO_CHECKPOINT,
    CheckpointError,
    FolderStageStore,
    Stage,
    StageStore,
    add_prefix,
    is_checkpoint,
    remove_checkpoint,
    strip_prefix,
)
from palda.engine.stored_classifiers import restore_classifiers
from palda.engine.threads import FAN_IN, Engine, Threads, one_blas_thread, resolve_n_jobs, tree_sum

__all__ = [
    "FAN_IN",
    "NO_CHECKPOINT",
    "CheckpointError",
    "Dask",
    "Engine",
    "FolderStageStore",
    "RecordSchema",
    "Stage",
    "StageRecord",
    "StageStore",
    "Threads",
    "add_prefix",
    "check_engine",
    "is_checkpoint",
    "one_blas_thread",
    "open_client",
    "open_engine",
    "remove_checkpoint",
    "resolve_n_jobs",
    "restore_classifiers",
    "strip_prefix",
    "tree_sum",
]
