"""Consensus, annotator quality, a classifier and topics from multi-label data labelled by a noisy crowd."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.aggregation import Aggregation, aggregate
    from palda.checkpoints import Checkpoint
    from palda.data.shard_writer import write_shards
    from palda.data.shards import ShardFolder, open_shards
    from palda.data.tables import read_documents, read_votes
    from palda.data.votes import Votes
    from palda.data.words import TextWords, ValueWords
    from palda.errors import DataError, PaldaError, PaldaWarning
    from palda.estimators import PALDA, CrowdPALDA, load

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
    "Aggregation": "palda.aggregation",
    "Checkpoint": "palda.checkpoints",
    "CrowdPALDA": "palda.estimators",
    "DataError": "palda.errors",
    "PaldaError": "palda.errors",
    "PaldaWarning": "palda.errors",
    "ShardFolder": "palda.data.shards",
    "TextWords": "palda.data.words",
    "ValueWords": "palda.data.words",
    "Votes": "palda.data.votes",
    "aggregate": "palda.aggregation",
    "load": "palda.estimators",
    "open_shards": "palda.data.shards",
    "read_documents": "palda.data.tables",
    "read_votes": "palda.data.tables",
    "write_shards": "palda.data.shard_writer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'palda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
