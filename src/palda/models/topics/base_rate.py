"""One number a class, as published: ξ, the share of documents that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["log_odds", "update"]

_LEAST = 1e-6  # ξ is maximised within [_LEAST, 1 - _LEAST]: a class nobody has seen may still exist


def update(label_sums: Array, n_docs: int) -> Array:
    """ξ = mean of Δ (maths, eq. 14)."""
    return np.clip(label_sums / max(n_docs, 1), _LEAST, 1.0 - _LEAST)


def log_odds(class_prior: Array) -> Array:
    """logit ξ."""
    return np.log(class_prior) - np.log1p(-class_prior)
