"""Everything that touches a file: tables, exports of labelling platforms, corpora, shard folders, atomic writes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palda.io import json_rules
    from palda.io.array_archive import READ_ERRORS, ArrayArchive
    from palda.io.atomic import TEMPORARY_FILE, FileLock, FolderLock, replaceable, replacing, reserved, sibling
    from palda.io.corpora import catalog
    from palda.io.corpora.arff import read_arff
    from palda.io.corpora.reuters import read_reuters
    from palda.io.exports.doccano import read_doccano
    from palda.io.exports.labelstudio import (
        Control,
        LabelConfig,
        labelstudio_prediction,
        labelstudio_tasks,
        parse_label_config,
        read_label_config,
        read_labelstudio,
    )
    from palda.io.exports.mturk import read_mturk
    from palda.io.exports.prodigy import read_prodigy
    from palda.io.exports.toloka import read_toloka
    from palda.io.feature_files import FeatureReader, FeatureSource, load_features, open_features, read_features
    from palda.io.messages import duration, note
    from palda.io.regular_files import open_regular
    from palda.io.shards import ShardFolder, is_shards, open_shards, write_shards
    from palda.io.shards.build import Sources, Treatment, shard_files
    from palda.io.sources import (
        DocumentChunk,
        Judgements,
        ReadOptions,
        read,
        read_any_votes,
        read_gold,
        read_judgements,
        stream_documents,
    )
    from palda.io.table_files import read_chunks, read_table
    from palda.io.tables import read_documents, read_votes
    from palda.io.text_embedding import TextEmbedding
    from palda.io.transformer_state import WORDS_ARRAYS, check_words_state, has_array
    from palda.io.versions import package_version
    from palda.io.visible_text import visible

__all__ = [
    "READ_ERRORS",
    "TEMPORARY_FILE",
    "WORDS_ARRAYS",
    "ArrayArchive",
    "Control",
    "DocumentChunk",
    "FeatureReader",
    "FeatureSource",
    "FileLock",
    "FolderLock",
    "Judgements",
    "LabelConfig",
    "ReadOptions",
    "ShardFolder",
    "Sources",
    "TextEmbedding",
    "Treatment",
    "catalog",
    "check_words_state",
    "duration",
    "has_array",
    "is_shards",
    "json_rules",
    "labelstudio_prediction",
    "labelstudio_tasks",
    "load_features",
    "note",
    "open_features",
    "open_regular",
    "open_shards",
    "package_version",
    "parse_label_config",
    "read",
    "read_any_votes",
    "read_arff",
    "read_chunks",
    "read_doccano",
    "read_documents",
    "read_features",
    "read_gold",
    "read_judgements",
    "read_label_config",
    "read_labelstudio",
    "read_mturk",
    "read_prodigy",
    "read_reuters",
    "read_table",
    "read_toloka",
    "read_votes",
    "replaceable",
    "replacing",
    "reserved",
    "shard_files",
    "sibling",
    "stream_documents",
    "visible",
    "write_shards",
]

# Names are imported on first use: their modules import large packages.
_MODULES = {
    "array_archive": ("READ_ERRORS", "ArrayArchive"),
    "atomic": ("TEMPORARY_FILE", "FileLock", "FolderLock", "replaceable", "replacing", "reserved", "sibling"),
    "corpora.arff": ("read_arff",),
    "corpora.reuters": ("read_reuters",),
    "exports.doccano": ("read_doccano",),
    "exports.labelstudio": (
        "Control", "LabelConfig", "labelstudio_prediction", "labelstudio_tasks", "parse_label_config",
        "read_label_config", "read_labelstudio",
    ),
    "exports.mturk": ("read_mturk",),
    "exports.prodigy": ("read_prodigy",),
    "exports.toloka": ("read_toloka",),
    "feature_files": ("FeatureReader", "FeatureSource", "load_features", "open_features", "read_features"),
    "messages": ("duration", "note"),
    "shards": ("ShardFolder", "is_shards", "open_shards", "write_shards"),
    "shards.build": ("Sources", "Treatment", "shard_files"),
    "regular_files": ("open_regular",),
    "sources": (
        "DocumentChunk", "Judgements", "ReadOptions", "read", "read_any_votes", "read_gold", "read_judgements",
        "stream_documents",
    ),
    "table_files": ("read_chunks", "read_table"),
    "tables": ("read_documents", "read_votes"),
    "text_embedding": ("TextEmbedding",),
    "transformer_state": ("WORDS_ARRAYS", "check_words_state", "has_array"),
    "versions": ("package_version",),
    "visible_text": ("visible",),
}  # fmt: skip
_SUBMODULES = {"catalog": "palda.io.corpora.catalog", "json_rules": "palda.io.json_rules"}
_HOMES = {name: f"palda.io.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(_SUBMODULES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
