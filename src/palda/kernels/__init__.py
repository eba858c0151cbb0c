"""The E-step on arrays. ``PALDA_KERNEL=reference`` selects readable NumPy instead of compiled code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from palda.errors import PaldaError
from palda.kernels.arrays import Bags, Beliefs, Labels, ShardResult, Stopping, Topics

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Bags", "Beliefs", "Labels", "ShardResult", "Stopping", "Topics", "active"]


def active() -> ModuleType:
    """The module whose kernels are in use; looked up at each call, so that the variable may change."""
    choice = os.environ.get("PALDA_KERNEL", "compiled")
    if choice == "compiled":
        from palda.kernels import compiled

        return compiled
    if choice == "reference":
        from palda.kernels import reference

        return reference
    raise PaldaError(f"PALDA_KERNEL is {choice!r}; it must be 'compiled' or 'reference'")
