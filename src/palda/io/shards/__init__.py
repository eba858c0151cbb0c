"""Shard folders: counts, votes and gold labels on disk, for data larger than memory."""

from __future__ import annotations

from palda.io.shards.folder import ShardFolder, is_shards, open_shards
from palda.io.shards.format import Manifest
from palda.io.shards.vote_sorting import DocumentIndex, digests_of
from palda.io.shards.writer import write_names, write_part, write_shards

__all__ = [
    "DocumentIndex",
    "Manifest",
    "ShardFolder",
    "digests_of",
    "is_shards",
    "open_shards",
    "write_names",
    "write_part",
    "write_shards",
]
