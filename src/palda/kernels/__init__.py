"""The E-step on arrays. ``PALDA_KERNEL=reference`` selects readable NumPy instead of compiled code."""

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
    Labels,
    PassLimits,
    ShardResult,
    Topics,
    WordEvidence,
)

if TYPE_CHECKING:
    from types import ModuleType

    from palda.kernels.profiles import SetResult  # noqa: TC004 - its module imports Numba

__all__ = [
    "MIN_WORD_WEIGHT",
    "Bags",
    "Beliefs",
    "ClassWordProbs",
    "Labels",
    "PassLimits",
    "SetResult",
    "ShardResult",
    "Topics",
    "WordEvidence",
    "active",
]

_one_at_a_time = threading.Lock()


def active() -> ModuleType:
    """The module whose kernels are in use; looked up at each call, so that the variable may change."""
    choice = os.environ.get("PALDA_KERNEL", "compiled")
    if choice == "compiled":
        with _one_at_a_time:
            return _compiled()
    if choice == "reference":
        from palda.kernels import reference

        return reference
    raise PaldaError(f"PALDA_KERNEL is {choice!r}; it must be 'compiled' or 'reference'")


def _compiled() -> ModuleType:
    """The compiled kernels; where Numba may write its cache nowhere, they are compiled for this process only."""
    try:
        return import_module("palda.kernels.compiled")
    except RuntimeError as refused:
        if "no locator available" not in str(refused):
            raise
    warnings.warn(
        "Numba finds no folder to keep compiled code in, so every run compiles anew; "
        "point NUMBA_CACHE_DIR to a folder that can be written",
        PaldaWarning,
        stacklevel=2,
    )
    return _compiled_in_temporary_folder()


def _compiled_in_temporary_folder() -> ModuleType:
    config: Any = import_module("numba.core.config")
    folder = tempfile.mkdtemp(prefix="palda-numba-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return import_module("palda.kernels.compiled")
    finally:
        config.CACHE_DIR = before
