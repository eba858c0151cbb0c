"""Everything that touches a file: tables, exports of labelling platforms, corpora, shard folders, atomic writes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.io.atomic import replacing
    from palda.io.corpora import catalog
    from palda.io.corpora.arff import read_arff
    from palda.io.corpora.reuters import read_reuters
    from palda.io.exports.doccano import read_doccano
    from palda.io.exports.labelstudio import read_labelstudio
    from palda.io.exports.mturk import read_mturk
    from palda.io.exports.prodigy import read_prodigy
    from palda.io.exports.rows import moment
    from palda.io.exports.toloka import read_toloka
    from palda.io.files import read_bytes
    from palda.io.shards.build import Sources, Treatment, shard_files
    from palda.io.shards.folder import ShardFolder, is_shards, open_shards
    from palda.io.shards.writer import write_shards
    from palda.io.sources import (
        DocumentChunk,
        ReadOptions,
        guess_format,
        read_any_votes,
        read_dataset,
        read_gold,
        stream_documents,
    )
    from palda.io.table_files import read_chunks, read_table
    from palda.io.tables import read_documents, read_votes
    from palda.io.versions import package_version

__all__ = [
    "DocumentChunk",
    "ReadOptions",
    "ShardFolder",
    "Sources",
    "Treatment",
    "catalog",
    "guess_format",
    "is_shards",
    "moment",
    "open_shards",
    "package_version",
    "read_any_votes",
    "read_arff",
    "read_bytes",
    "read_chunks",
    "read_dataset",
    "read_doccano",
    "read_documents",
    "read_gold",
    "read_labelstudio",
    "read_mturk",
    "read_prodigy",
    "read_reuters",
    "read_table",
    "read_toloka",
    "read_votes",
    "replacing",
    "shard_files",
    "stream_documents",
    "write_shards",
]

# These names are imported when they are first used: their modules import large packages.
_HOMES = {
    "package_version": "palda.io.versions",
    "DocumentChunk": "palda.io.sources",
    "ReadOptions": "palda.io.sources",
    "ShardFolder": "palda.io.shards.folder",
    "Sources": "palda.io.shards.build",
    "Treatment": "palda.io.shards.build",
    "guess_format": "palda.io.sources",
    "is_shards": "palda.io.shards.folder",
    "moment": "palda.io.exports.rows",
    "open_shards": "palda.io.shards.folder",
    "read_any_votes": "palda.io.sources",
    "read_arff": "palda.io.corpora.arff",
    "read_bytes": "palda.io.files",
    "read_chunks": "palda.io.table_files",
    "read_dataset": "palda.io.sources",
    "read_doccano": "palda.io.exports.doccano",
    "read_documents": "palda.io.tables",
    "read_gold": "palda.io.sources",
    "read_labelstudio": "palda.io.exports.labelstudio",
    "read_mturk": "palda.io.exports.mturk",
    "read_prodigy": "palda.io.exports.prodigy",
    "read_reuters": "palda.io.corpora.reuters",
    "read_table": "palda.io.table_files",
    "read_toloka": "palda.io.exports.toloka",
    "read_votes": "palda.io.tables",
    "replacing": "palda.io.atomic",
    "shard_files": "palda.io.shards.build",
    "stream_documents": "palda.io.sources",
    "write_shards": "palda.io.shards.writer",
}


def __getattr__(name: str) -> Any:
    if name == "catalog":
        return import_module("palda.io.corpora.catalog")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
