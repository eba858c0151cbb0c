"""Every array of every file is checked against its schema when it is read; checksums are right in all these files.

The tampered arrays are derived from the schemas and from real files, so new arrays are covered as they come.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

import palda
from palda import (
    PALDA,
    Checkpoint,
    CrowdPALDA,
    DataError,
    PaldaWarning,
    ValueWords,
    open_shards,
    simulate,
    write_shards,
)
from palda.data import ArraySpec, Dataset, FeatureTable
from palda.data.array_schema import MAX_NUMBER
from palda.engine import stage_store
from palda.engine.stage_records import RecordSchema, read_record
from palda.estimators import ModelFileError, load_state
from palda.estimators.model_schema import model_schema
from palda.io import READ_ERRORS
from palda.io.shards.shard_file import SHARD_ARRAYS

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"

pytestmark = pytest.mark.filterwarnings("ignore:Trying to unpickle estimator", "ignore:EM did not converge")

FREE = {"lower_bounds", "vote_log_likelihoods"}
"""Arrays of any length, which nothing is computed from."""


def npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header_alone(shape: tuple[int, ...], dtype: str) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def with_first(array: NDArray[Any], value: Any) -> NDArray[Any]:
    changed = array.copy()
    changed.flat[0] = value
    return changed


def tampers(array: NDArray[Any], spec: ArraySpec) -> Iterator[tuple[str, bytes]]:
    """Files of arrays that differ from the schema in one way each."""
    yield "another rank", npy(array[None])
    yield "another rank", npy(np.zeros((), array.dtype) if array.ndim else array[None, None])
    for axis in range(array.ndim):
        if array.shape[axis]:
            yield "one less", npy(np.delete(array, -1, axis))
            yield "one more", npy(np.concatenate((array, array.take([0], axis)), axis))
    if array.ndim and array.size:
        yield "empty", npy(array[:0])
    for dtype in ("complex128", "U3", "M8[s]", "float16", array.dtype.newbyteorder(">")):
        if array.dtype.itemsize > 1 or dtype != array.dtype.newbyteorder(">"):
            yield f"type {dtype}", npy(np.zeros(array.shape, dtype))
    yield "objects", header_alone(array.shape, "|O") + bytes(8 * array.size)
    yield "records", header_alone(array.shape, "V8") + bytes(8 * array.size)
    yield "huge", header_alone((1 << 40, *array.shape[1:]), array.dtype.str) + array.tobytes()
    yield "no array", b"\x80\x04N."
    yield (
        "a header that is not closed",
        header_alone(array.shape, array.dtype.str).replace(b"}", b"{") + array.tobytes(),
    )
    if array.size:
        yield from ((f"value {value}", npy(with_first(array, value))) for value in wrong_values(array, spec))


def wrong_values(array: NDArray[Any], spec: ArraySpec) -> Iterator[Any]:
    if array.dtype.kind == "f":
        yield from [np.nan] * (not spec.nan) + [np.inf, -np.inf] * (not spec.infinite)
        if array.dtype == np.float64:
            yield from [1e300, *([2 * spec.high] * (1 < spec.high < MAX_NUMBER))]
        yield from [-1.0] * (spec.low >= 0 or spec.above is not None)
    elif array.dtype.kind in "iu" and spec.dtype != "uint8":
        yield from [np.iinfo(array.dtype).max] * (spec.below is not None or spec.high < MAX_NUMBER)
        yield from [-1] * (array.dtype.kind == "i" and spec.low >= 0)


# Model files


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    news = simulate.newsroom(110, seed=0)
    votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=2, seed=0)
    votes = replace(votes, probability=np.full(len(votes), 0.5, dtype=np.float32), time=np.arange(float(len(votes))))
    quick: dict[str, Any] = {"tol": 0.1, "max_iter": 3, "random_state": 0, "n_jobs": 1}
    crowd = CrowdPALDA(3, n_profiles=2, annotators="per_class", **quick).fit(news.corpus, votes)
    crowd.save(folder / "stacked.palda", texts=news.documents.texts, votes=votes)
    values = np.random.default_rng(0).normal(size=(60, 3))
    for scope in ("feature", "pooled"):
        words = ValueWords(n_bins=3, n_words=5, scope=scope, random_state=0)  # type: ignore[arg-type]
        model = PALDA(2, label_prior="base_rate", **quick).fit(words.fit_transform(values), values[:, :2] > 0)
        model.save(folder / f"values-{scope}.palda", words=words)
    table = pd.DataFrame({"length": np.arange(110.0), "desk": np.where(np.arange(110) % 3, "a", "b"), "gap": np.nan})
    table.loc[:50, "gap"] = np.arange(51.0)
    with pytest.warns(PaldaWarning, match="values are missing"):
        described = CrowdPALDA(2, label_prior="words", n_profiles=1, **quick).fit(news.corpus, votes, features=table)
    described.save(folder / "features.palda")
    shutil.copy(FIXTURES / "model-0.1-plugged-in.palda", folder)
    return sorted(folder.iterdir())


def write_model(path: Path, blobs: dict[str, bytes], state: dict[str, Any]) -> None:
    manifest = {
        "format": "palda-model",
        "format_version": 1,
        "versions": {},
        "arrays": {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()},
        "state": state,
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, blob in blobs.items():
            archive.writestr(f"{name}.npy", blob)


def check_models(models: list[Path], path: Path, step: int) -> int:
    n_cases = 0
    for model in models:
        saved = load_state(model)
        schema, _ = model_schema(saved.state)
        blobs = {name: npy(array) for name, array in saved.arrays.items()}
        for name, array in saved.arrays.items():
            cases = [*tampers(array, schema[name]), ("missing", b"")]
            for number in range(len(name) % step, len(cases), step):
                what, blob = cases[number]
                changed = {key: one for key, one in blobs.items() if key != name} | ({name: blob} if blob else {})
                write_model(path, changed, saved.state)
                check_model(path, f"{model.name}: {name}: {what}", must_fail=is_wrong(name, what, schema))
                n_cases += 1
        write_model(path, blobs | {"more": npy(np.zeros(3))}, saved.state)
        check_model(path, "an array more", must_fail=True)
    return n_cases


def is_wrong(name: str, what: str, schema: Any) -> bool:
    """Whether the change cannot leave a valid file."""
    if name in FREE:
        return what not in ("one less", "one more", "empty")
    if name == "plugged_in":
        return what != "one more"  # a byte after the end of a zip file
    optional = schema[name].group and sum(spec.group == schema[name].group for spec in schema.values()) == 1
    return not (what == "missing" and optional)


def check_model(path: Path, what: str, *, must_fail: bool) -> None:
    try:
        loaded = palda.load(path)
    except ModelFileError as error:
        assert "\n" not in str(error), what
        assert str(error).startswith(str(path)), what
        return
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    assert not must_fail, what
    features, columns = None, loaded._feature_columns
    if columns is not None:
        features = FeatureTable(np.zeros((1, len(columns.names))), columns.names, columns.categories)
    assert np.isfinite(loaded.predict_proba(np.ones((1, loaded.n_features_in_)), features=features)).all(), what


def test_tampered_arrays_of_model_files_are_refused_at_load(models: list[Path], tmp_path: Path) -> None:
    assert check_models(models, tmp_path / "model.palda", 7) > 150


@pytest.mark.long
def test_all_tampered_arrays_of_model_files_are_refused_at_load(models: list[Path], tmp_path: Path) -> None:
    assert check_models(models, tmp_path / "model.palda", 1) > 1500


def test_tampered_arrays_of_a_stored_classifier_are_refused_or_harmless(tmp_path: Path) -> None:
    saved = load_state(FIXTURES / "model-0.1-plugged-in.palda")
    blobs = {name: npy(array) for name, array in saved.arrays.items()}
    with zipfile.ZipFile(io.BytesIO(saved.arrays["plugged_in"].tobytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changes = []
    for member in [name for name in members if name.endswith(".npy")][:4]:
        array = np.load(io.BytesIO(members[member]))
        changes += [(member, blob) for _, blob in tampers(array, ArraySpec(array.shape, low=0.0))][::2]
    assert len(changes) > 20
    for member, blob in changes:
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            for name, content in (members | {member: blob}).items():
                archive.writestr(name, content)
        plugged_in = npy(np.frombuffer(inner.getvalue(), dtype=np.uint8))
        write_model(tmp_path / "model.palda", blobs | {"plugged_in": plugged_in}, saved.state)
        check_model(tmp_path / "model.palda", member, must_fail=False)


def test_a_stored_classifier_does_not_say_how_work_is_done(tmp_path: Path) -> None:
    news = simulate.newsroom(60, seed=0)
    inner = BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=2, n_jobs=2, verbose=1)
    classifier = Pipeline([("outer", OneVsRestClassifier(inner, n_jobs=2))], memory=str(tmp_path / "cache"))
    model = PALDA(2, label_prior=BernoulliNB(), tol=0.1, random_state=0).fit(news.corpus, news.labels)
    model.label_prior = classifier
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda").label_prior
    assert loaded.memory is None
    bagging = loaded.named_steps["outer"].estimator
    assert (loaded.named_steps["outer"].n_jobs, bagging.n_jobs, bagging.verbose) == (None, None, 0)
    assert bagging.n_estimators == 2


# Checkpoints


def is_refused(path: Path, expected: RecordSchema) -> bool:
    try:
        read_record(path, expected)
    except READ_ERRORS:
        return True
    return False


@pytest.mark.parametrize("label_prior", ["base_rate", "words"])
def test_tampered_arrays_of_checkpoints_are_refused(
    label_prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = simulate.documents(60, 2, 2, 12, seed=0, doc_length=8)
    votes, _ = simulate.crowd(news, [0.9, 0.8], votes_per_doc=1, seed=0)
    checkpoint = Checkpoint(tmp_path / "checkpoint", minutes=0)
    settings: dict[str, Any] = {"label_prior": label_prior, "n_profiles": "auto", "tol": 0.1, "max_iter": 2}
    model = CrowdPALDA(2, random_state=0, n_jobs=1, **settings)
    model.fit(news.corpus, votes, checkpoint=checkpoint)
    expected: dict[Path, RecordSchema] = {}

    def read_and_note(path: Path, schema: RecordSchema) -> Any:
        expected[path] = schema
        return read_record(path, schema)

    monkeypatch.setattr(stage_store, "read_record", read_and_note)
    model.fit(news.corpus, votes, checkpoint=checkpoint)
    kinds = {path.name.split("-")[1]: path for path in expected}  # one file of each kind
    more = {"votes.npz", "head.npz", "labels.npz", "final_head.npz"} if label_prior == "words" else set()
    assert kinds.keys() == {"seeds.npz", "em.npz"} | more
    for path in kinds.values():
        arrays = read_record(path, expected[path]).arrays
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        (schema,) = [one for one in expected[path].alternatives if set(arrays) <= set(one)]
        for name, array in arrays.items():
            for what, blob in tampers(array, schema[name]):
                with zipfile.ZipFile(path, "w") as archive:
                    for member, content in (members | {f"{name}.npy": blob}).items():
                        archive.writestr(member, content)
                assert is_refused(path, expected[path]), f"{path.name}: {name}: {what}"


# Shard folders


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    news = simulate.newsroom(9, seed=0)
    votes, _ = simulate.crowd(news, [0.9, 0.8], votes_per_doc=1, seed=0)
    return write_shards(tmp_path / "shards", Dataset.of(news.corpus, votes, news.labels)).path


def rewrite(folder: Path, change: Callable[[dict[str, pa.Array]], object], **options: Any) -> None:
    """Change the columns of the only shard, and its checksum."""
    path = folder / "shard-00000.arrow"
    with pa.OSFile(str(path)) as source:
        batch = pa.ipc.open_file(source).read_all().to_batches()[0]
    columns = {name: batch.column(name) for name in batch.schema.names}
    change(columns)
    changed = pa.RecordBatch.from_pydict(columns)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, changed.schema, options=pa.ipc.IpcWriteOptions(**options)) as file,
    ):
        file.write_batch(changed)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def check_refused(folder: Path, what: str) -> None:
    try:
        open_shards(folder).dataset()
    except DataError as error:
        assert "\n" not in str(error), what
    else:
        pytest.fail(what)


def list_tampers(column: pa.Array, spec: ArraySpec) -> Iterator[tuple[str, pa.Array]]:
    starts, values = column.offsets.to_numpy(), column.values.to_numpy()
    for value in wrong_values(values, spec) if len(values) else ():
        yield f"value {value}", pa.LargeListArray.from_arrays(pa.array(starts), pa.array(with_first(values, value)))
    for dtype in ("float16", "U3", "bool"):
        yield dtype, pa.LargeListArray.from_arrays(pa.array(starts), pa.array(values.astype(dtype)))
    yield "32-bit offsets", pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(values))
    yield "no lists", pa.array(np.zeros(len(column)))
    yield "empty", pa.LargeListArray.from_arrays(pa.array(np.zeros_like(starts)), pa.array(values[:0]))
    for place, start in ((1, -5), (0, 1)) if len(values) else ():
        changed = starts.copy()
        changed[place] = start
        yield f"offset {start}", pa.LargeListArray.from_arrays(pa.array(changed), pa.array(values))


def test_tampered_columns_of_shards_are_refused(shards: Path, tmp_path: Path) -> None:
    folder, n_cases = tmp_path / "copy", 0
    with pa.OSFile(str(shards / "shard-00000.arrow")) as source:
        batch = pa.ipc.open_file(source).read_all().to_batches()[0]
    for name in batch.schema.names:
        column = batch.column(name)
        cases: list[tuple[str, pa.Array | None]] = [("missing", None), ("nulls", pa.nulls(len(column), column.type))]
        if name in SHARD_ARRAYS and name != "gold":
            cases += list_tampers(column, SHARD_ARRAYS[name])
        for what, changed in cases:
            if name == "abstained" and what == "empty":
                continue  # nobody abstained
            if name == "text" and what == "missing":
                continue
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(shards, folder)

            def change(columns: dict[str, pa.Array], name: str = name, changed: pa.Array | None = changed) -> None:
                columns.pop(name)
                if changed is not None:
                    columns[name] = changed

            rewrite(folder, change)
            check_refused(folder, f"{name}: {what}")
            n_cases += 1
    assert n_cases > 50


def test_compressed_shards_and_columns_more_are_refused(shards: Path) -> None:
    rewrite(shards, lambda _: None)
    open_shards(shards).verify()
    rewrite(shards, lambda _: None, compression="zstd")
    check_refused(shards, "compressed")
    rewrite(shards, lambda columns: columns.update(more=pa.array(range(9))))
    check_refused(shards, "a column more")
