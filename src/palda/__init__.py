"""Consensus, annotator quality, a classifier and topics from multi-label data labelled by a noisy crowd."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.data import TextWords, ValueWords, Votes
    from palda.errors import DataError, PaldaError, PaldaWarning
    from palda.estimators import PALDA, Aggregation, Checkpoint, CrowdPALDA, aggregate, load
    from palda.io import ShardFolder, open_shards, read_documents, read_votes, write_shards

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
    "TextWords",
    "ValueWords",
    "Votes",
    "aggregate",
    "load",
    "open_shards",
    "read_documents",
    "read_votes",
    "write_shards",
]

# Names are imported when they are first used: `import palda` costs next to nothing, and so does `palda --help`.
_HOMES = {
    "PALDA": "palda.estimators",
    "Aggregation": "palda.estimators.aggregation",
    "Checkpoint": "palda.estimators.checkpoints",
    "CrowdPALDA": "palda.estimators",
    "DataError": "palda.errors",
    "PaldaError": "palda.errors",
    "PaldaWarning": "palda.errors",
    "ShardFolder": "palda.io.shards.folder",
    "TextWords": "palda.data.text_words",
    "ValueWords": "palda.data.text_words",
    "Votes": "palda.data.votes",
    "aggregate": "palda.estimators.aggregation",
    "load": "palda.estimators",
    "open_shards": "palda.io.shards.folder",
    "read_documents": "palda.io.tables",
    "read_votes": "palda.io.tables",
    "write_shards": "palda.io.shards.writer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'palda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
