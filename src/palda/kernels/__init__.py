"""The E-steps on arrays: compiled by Numba, or readable NumPy with ``PALDA_KERNEL=reference``."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError, PaldaWarning
from palda.kernels.arrays import (
    MIN_WORD_WEIGHT,
    Bags,
    Beliefs,
    ClassWordProbs,
    GridEvidence,
    GridPrior,
    Labels,
    LabelSetResult,
    LabelVotes,
    PassLimits,
    ShardResult,
    SoftLabels,
    StepRing,
    Topics,
    VoteArrays,
    WordEvidence,
    WordRows,
)

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "MIN_WORD_WEIGHT",
    "Bags",
    "Beliefs",
    "ClassWordProbs",
    "GridEvidence",
    "GridPrior",
    "LabelSetResult",
    "LabelVotes",
    "Labels",
    "PassLimits",
    "ShardResult",
    "SoftLabels",
    "StepRing",
    "Topics",
    "VoteArrays",
    "WordEvidence",
    "WordRows",
    "active",
]

_import_lock = threading.Lock()


def active() -> ModuleType:
    """The module of kernels that ``PALDA_KERNEL`` selects; the variable is read at each call."""
    choice = os.environ.get("PALDA_KERNEL", "compiled")
    if choice == "compiled":
        with _import_lock:
            return _compiled()
    if choice == "reference":
        from palda.kernels import reference

        return reference
    raise PaldaError(f"PALDA_KERNEL is {choice!r}; it must be 'compiled' or 'reference'")


def _compiled() -> ModuleType:
    """The compiled kernels. If Numba can write its cache nowhere, they are compiled for this process only."""
    try:
        return import_module("palda.kernels.compiled")
    except RuntimeError as refused:
        if "no locator available" not in str(refused):
            raise
    warnings.warn(
        "Numba found no writable folder for compiled code, so every run compiles again; "
        "set NUMBA_CACHE_DIR to a writable folder",
        PaldaWarning,
        stacklevel=2,
    )
    config: Any = import_module("numba.core.config")
    folder = tempfile.mkdtemp(prefix="palda-numba-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return import_module("palda.kernels.compiled")
    finally:
        config.CACHE_DIR = before
