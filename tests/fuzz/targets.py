"""What is fuzzed: every reader and every loader, with the use of what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.fuzz import formats

if TYPE_CHECKING:
    import random

    Files = dict[str, bytes]
    ChangeFiles = Callable[[random.Random, Files, Files], Files]

Call = Callable[[Path], object]


@dataclass(frozen=True)
class Target:
    """A format: how its files are changed, and the calls that read them, one of which is drawn for each case."""

    change: ChangeFiles
    calls: tuple[Call, ...]
    file: str = ""
    """The file to read; the folder of the case if it is empty."""


def _table_calls() -> tuple[Call, ...]:
    from palda import io

    return (
        io.read,
        io.read_documents,
        io.read_votes,
        lambda path: list(io.stream_documents(path, size=1)),
        lambda path: [chunk.table.frame for chunk in io.read_chunks(path, 1)],
        lambda path: io.read_gold(path, ["d1", "d2"], ["a", "b"]),
        lambda path: io.read_votes(path, partial=True, duplicates="last", blank="none"),
        lambda path: io.read_votes(path, present_at=0.5, duplicates="drop"),
        lambda path: io.read_any_votes(path, documents=["d1", "d2"]),
    )


def _feature_calls() -> tuple[Call, ...]:
    from palda import io

    def stored(path: Path) -> None:
        reader = io.open_features(io.FeatureSource(path), path.parent)
        reader.rows(np.array(["d2", "d1"], dtype=object), 0)

    return (
        lambda path: _require_features(io.read_features(path)),
        lambda path: _require_features(io.read_features(path, ["d2", "d3", "d1"])),
        stored,
    )


def _feature_array_calls() -> tuple[Call, ...]:
    from palda import io

    return (
        *_feature_calls(),
        lambda path: _require_features(io.read_features(path, ["d1", "d3"], ids=path.with_name("ids.txt"))),
    )


def _require_features(table: Any) -> None:
    """Values are finite or missing, and categories exist."""
    values = table.values[:]
    sizes = np.array([np.inf if names is None else len(names) for names in table.categories])
    if np.isinf(values).any() or (values >= sizes).any():
        raise AssertionError("features that were read are infinite, or no categories")


def _labelstudio_calls() -> tuple[Call, ...]:
    from palda import io

    return (
        io.read,
        io.read_labelstudio,
        lambda path: io.read_labelstudio(path, ground_truth="votes", predictions="votes", prelabelled="separate"),
        lambda path: io.read_labelstudio(
            path, ground_truth="gold", predictions="votes", prelabelled="drop", partial=True
        ),
        lambda path: io.read_labelstudio(path, predictions="votes", prelabelled="keep", id="source", from_name="t"),
    )


def _label_config(path: Path) -> None:
    """Read a label config, and an export with it; write labels for each of its controls."""
    from palda import io

    config = io.read_label_config(path)
    for control in config.controls:
        classes = control.classes[:3] or ("a",)
        list(io.labelstudio_tasks(["1"], np.full((1, len(classes)), 0.5), classes, control))
    io.read_labelstudio(path.with_name("e.json"), label_config=path, from_name=config.controls[0].name)


def _model(path: Path, trusted: Any = None) -> None:
    """Load a model and use it: whatever it returns must be finite."""
    import palda

    del trusted
    model = palda.load(path)
    counts = np.eye(5, model.n_features_in_, dtype=np.int64) * 3
    _require_probabilities(model.predict_proba(counts))
    model.predict(counts)
    if hasattr(model, "consensus_"):
        _require_probabilities(model.consensus_)
        quality = model.annotator_quality_
        _require_probabilities(quality[["quality", "low", "high", "sensitivity", "specificity"]].to_numpy())
        model.suggest(3)
    if model.words_ is not None:
        model.words_.transform(["ships carry wheat"])
    if model.votes_ is not None:
        model.votes_.per_pair()


_ROUNDING = 1e-9  # as in the schema of model files


def _require_probabilities(values: Any) -> None:
    if not ((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all():
        raise AssertionError("a loaded model gives values that are no probabilities")


def _shards(path: Path) -> None:
    from palda import open_shards

    folder = open_shards(path)
    folder.verify()
    dataset = folder.dataset()
    np.asarray(folder.counts[:].sum(axis=0))
    dataset.votes.take(slice(0, 5)).per_pair()
    folder.texts([0, len(dataset) - 1])
    if folder.features is not None:
        _require_features(folder.features.take(np.array([len(dataset) - 1, 0])))


def _checkpoint(path: Path) -> None:
    from tests.fuzz.seeds import checkpoint_fit

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "EM did not converge")
        model = checkpoint_fit(path)
    _require_probabilities(model.predict_proba(np.eye(4, dtype=int)))


def _cells(path: Path) -> None:
    from palda.paper.cells import Store

    for record in Store(path).load_everything():
        record.to_json()
        str(record.cell)


def all_targets() -> dict[str, Target]:
    """Every target by name."""
    from palda import io

    table = _table_calls()
    csv, tsv = formats.table(","), formats.table("\t")
    one = formats.single
    read = (io.read,)
    return {
        "csv": Target(one(csv), table, "t.csv"),
        "tsv": Target(one(tsv), table, "t.tsv"),
        "jsonl": Target(one(formats.json_lines), table, "t.jsonl"),
        "json": Target(one(formats.json_file), table, "t.json"),
        "parquet": Target(one(formats.columns), table, "t.parquet"),
        "csv-gz": Target(one(formats.gzipped(csv)), table, "t.csv.gz"),
        "jsonl-gz": Target(one(formats.gzipped(formats.json_lines)), table, "t.jsonl.gz"),
        "json-gz": Target(one(formats.gzipped(formats.json_file)), table, "t.json.gz"),
        "parquet-gz": Target(one(formats.gzipped(formats.columns)), table, "t.parquet.gz"),
        "labelstudio-json": Target(one(formats.json_file), _labelstudio_calls(), "e.json"),
        "labelstudio-config": Target(one(formats.lines), (_label_config,), "c.xml"),
        "labelstudio-project": Target(one(formats.json_file), (_label_config,), "c.json"),
        "labelstudio-csv": Target(one(csv), (*read, io.read_labelstudio), "e.csv"),
        "doccano-zip": Target(one(formats.archive), (*read, io.read_doccano), "e.zip"),
        "doccano-jsonl": Target(one(formats.json_lines), (io.read_doccano,), "ann.jsonl"),
        "doccano-json": Target(one(formats.json_file), (io.read_doccano,), "ann.json"),
        "doccano-csv": Target(one(csv), (io.read_doccano,), "ann.csv"),
        "prodigy": Target(one(formats.json_lines), (*read, io.read_prodigy), "e.jsonl"),
        "mturk": Target(one(csv), (*read, io.read_mturk), "e.csv"),
        "mturk-json": Target(one(formats.json_file), (*read, io.read_mturk), "e.json"),
        "toloka": Target(one(tsv), (*read, io.read_toloka), "e.tsv"),
        "toloka-json": Target(one(formats.json_file), (*read, io.read_toloka), "e.json"),
        "arff": Target(one(formats.lines), read, "a.arff"),
        "features-csv": Target(one(csv), _feature_calls(), "f.csv"),
        "features-jsonl": Target(one(formats.json_lines), _feature_calls(), "f.jsonl"),
        "features-parquet": Target(one(formats.columns), _feature_calls(), "f.parquet"),
        "features-arrow": Target(one(formats.columns), _feature_calls(), "f.arrow"),
        "features-npy": Target(formats.by_suffix, _feature_array_calls(), "f.npy"),
        "reuters": Target(one(formats.lines), (io.read_reuters,), "r.sgm"),
        "model": Target(one(formats.model), (_model,), "m.palda"),
        "model-external": Target(one(formats.model), (_model,), "m.palda"),
        "shards": Target(formats.shards, (_shards, io.read)),
        "checkpoint": Target(formats.checkpoint, (_checkpoint,)),
        "cells": Target(formats.by_suffix, (_cells,)),
    }
