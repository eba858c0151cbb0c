"""Consensus, annotator quality, a classifier and topics from multi-label data labelled by a noisy crowd."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.data import TextWords, ValueWords, Votes
    from palda.errors import DataError, PaldaError, PaldaWarning
    from palda.estimators import PALDA, Aggregation, Checkpoint, CrowdPALDA, aggregate, load
    from palda.io import (
        ShardFolder,
        TextEmbedding,
        open_shards,
        read,
        read_documents,
        read_features,
        read_votes,
        write_shards,
    )

__version__ = "0.2.0"

__all__ = [
    "PALDA",
    "Aggregation",
    "Checkpoint",
    "CrowdPALDA",
    "DataError",
    "PaldaError",
    "PaldaWarning",
    "ShardFolder",
    "TextEmbedding",
    "TextWords",
    "ValueWords",
    "Votes",
    "aggregate",
    "load",
    "open_shards",
    "read",
    "read_documents",
    "read_features",
    "read_votes",
    "write_shards",
]

# Names are imported on first use, so that `import palda` and `palda --help` are fast.
_PACKAGES = {
    "palda.data": ("TextWords", "ValueWords", "Votes"),
    "palda.errors": ("DataError", "PaldaError", "PaldaWarning"),
    "palda.estimators": ("PALDA", "Aggregation", "Checkpoint", "CrowdPALDA", "aggregate", "load"),
    "palda.io": (
        "ShardFolder",
        "TextEmbedding",
        "open_shards",
        "read",
        "read_documents",
        "read_features",
        "read_votes",
        "write_shards",
    ),
}
_HOMES = {name: package for package, names in _PACKAGES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'palda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
