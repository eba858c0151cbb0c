"""Features in shard folders: what is written is read, a run resumes to the same bytes, and damage is refused."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from palda import DataError, open_shards, write_shards
from palda.data import Corpus, FeatureTable
from palda.io import Sources, Treatment, feature_files, shard_files
from palda.io.shards import build, vote_sorting
from palda.io.shards.format import file_sha256

N_DOCS = 11
IDS = [f"d{number}" for number in range(N_DOCS)]
CORPUS = Corpus.from_counts(np.arange(2 * N_DOCS).reshape(N_DOCS, 2), doc_ids=IDS)
FRAME = pd.DataFrame(
    {
        "length": [None, *np.arange(1.0, N_DOCS)],
        "source": [("web", "print", None)[number % 3] for number in range(N_DOCS)],
        "vector": list(np.arange(2 * N_DOCS, dtype=np.float32).reshape(N_DOCS, 2)),
    },
    index=IDS,
)
TABLE = FeatureTable.of(FRAME)
TREATMENT = Treatment(docs_per_shard=4)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_DOCS_PER_CHUNK", 3)
    monkeypatch.setattr(vote_sorting, "_ROWS_PER_CHUNK", 4)
    monkeypatch.setattr(feature_files, "_ROWS_PER_CHUNK", 3)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_shards(tmp_path / "corpus", CORPUS, features=FRAME, docs_per_shard=4).path


def _features(folder: Any) -> FeatureTable:
    assert folder.features is not None
    return folder.features  # type: ignore[no-any-return]


# In memory


@pytest.mark.parametrize(
    "rows", [slice(None), slice(2, 9), slice(4, 4), np.array([10, 0, 5, 5]), np.arange(N_DOCS) % 2 == 0, np.array([-1])]
)
def test_any_rows_equal_those_in_memory(rows: Any, written: Path) -> None:
    features = _features(open_shards(written))
    np.testing.assert_array_equal(features.values[rows], np.asarray(TABLE.values)[rows])
    assert features.values.shape == (N_DOCS, 4)
    assert features.names.tolist() == ["length", "source", "vector[0]", "vector[1]"]
    assert [None if one is None else one.tolist() for one in features.categories] == [
        None,
        ["print", "web"],
        None,
        None,
    ]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_precision_is_kept(kind: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(N_DOCS, 3)).astype(kind)
    folder = write_shards(tmp_path / "corpus", CORPUS, features=values, docs_per_shard=4)
    assert _features(folder).values.dtype == kind
    np.testing.assert_array_equal(_features(folder).values[:], values)
    assert json.loads((folder.path / "manifest.json").read_text())["feature_type"] == kind


def test_features_are_matched_by_id(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "corpus", CORPUS, features=FRAME.iloc[::-1], docs_per_shard=4)
    np.testing.assert_array_equal(_features(folder).values[:], TABLE.values)
    with pytest.raises(DataError, match="no row for document 'd0'"):
        write_shards(tmp_path / "other", CORPUS, features=FRAME.iloc[1:])
    with pytest.raises(DataError, match="there are 11 documents, but features have 10 rows"):
        write_shards(tmp_path / "other", CORPUS, features=np.zeros((10, 2)))
    with pytest.raises(DataError, match="is not a finite number"):
        write_shards(tmp_path / "other", CORPUS, features=np.full((N_DOCS, 2), np.inf))
    assert not (tmp_path / "other").exists()


def test_features_are_pickled_as_the_path(written: Path) -> None:
    features = _features(open_shards(written))
    content = pickle.dumps(features.take(np.array([7, 1])))
    np.testing.assert_array_equal(pickle.loads(content).values[:], np.asarray(TABLE.values)[[7, 1]])  # noqa: S301
    assert len(content) < 3000
    assert "MappedFeatures(11 x 4, float64 in" in repr(features.values)


def test_pandas_reads_the_column(written: Path) -> None:
    frame = pd.read_feather(written / "shard-00000.arrow")
    np.testing.assert_array_equal(np.stack(frame["features"].tolist()), np.asarray(TABLE.values)[:4])


def test_a_folder_without_features_has_the_manifest_of_older_versions(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "corpus", CORPUS)
    assert folder.features is None
    assert not {"features", "feature_type"} & json.loads((folder.path / "manifest.json").read_text()).keys()
    assert "features" not in json.loads((folder.path / "names.json").read_text())


# From files


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    documents, votes = tmp_path / "documents.csv", tmp_path / "votes.csv"
    random = np.random.default_rng(0)
    texts = (" ".join(random.choice(["ship", "wheat", "bank"], 4)) for _ in IDS)
    documents.write_text("doc,text\n" + "".join(f"{name},{text}\n" for name, text in zip(IDS, texts, strict=True)))
    rows = [f"d{n % N_DOCS},x{n},{'a;b' if n % 3 else '[]'}\n" for n in range(24)]
    votes.write_text("doc,annotator,labels\n" + "".join(rows))
    FRAME.iloc[::-1].rename_axis("doc").reset_index().to_parquet(tmp_path / "features.parquet")
    np.save(tmp_path / "features.npy", np.asarray(TABLE.values, dtype=np.float32)[::-1])
    (tmp_path / "ids.txt").write_text("\n".join(reversed(IDS)))
    return Sources(documents, votes, features=tmp_path / "features.parquet")


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_features_of_a_file_are_matched_by_id(sources: Sources, tmp_path: Path) -> None:
    folder = shard_files(tmp_path / "corpus", sources, TREATMENT)
    assert len(folder.manifest.shards) == 3
    features = _features(folder)
    np.testing.assert_array_equal(features.values[:], TABLE.values)
    assert features.names.tolist() == TABLE.names.tolist()
    folder.verify()
    array = Sources(sources.documents, sources.votes, None, tmp_path / "features.npy", tmp_path / "ids.txt")
    by_array = _features(shard_files(tmp_path / "array", array, TREATMENT))
    np.testing.assert_array_equal(by_array.values[:], np.asarray(TABLE.values, dtype=np.float32))
    assert by_array.values.dtype == np.float32


def test_features_in_row_order_need_as_many_rows_as_there_are_documents(sources: Sources, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(2 * N_DOCS).reshape(N_DOCS, 2))
    given = Sources(sources.documents, sources.votes, features=tmp_path / "f.npy")
    folder = shard_files(tmp_path / "corpus", given, TREATMENT)
    np.testing.assert_array_equal(_features(folder).values[:], np.arange(2 * N_DOCS).reshape(N_DOCS, 2))
    np.save(tmp_path / "f.npy", np.zeros((N_DOCS + 1, 2)))
    with pytest.raises(DataError, match=r"^f\.npy: has 12 rows, but there are 11 documents; add ids"):
        shard_files(tmp_path / "other", given, TREATMENT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.iloc[1:], r"^f\.parquet: has no row for document 'd0'; add one per document"),
        (lambda frame: frame.assign(length=np.inf), r"^f\.parquet, row 1, column 'length': inf is infinite"),
        (
            lambda frame: pd.concat([frame, frame.iloc[:1]]),
            r"^f\.parquet, row 12, column 'doc': the id is in row 1 too",
        ),
    ],
)
def test_wrong_features_are_refused(
    sources: Sources, change: Callable[[pd.DataFrame], pd.DataFrame], message: str, tmp_path: Path
) -> None:
    change(FRAME).rename_axis("doc").reset_index().to_parquet(tmp_path / "f.parquet")
    given = Sources(sources.documents, sources.votes, features=tmp_path / "f.parquet")
    with pytest.raises(DataError, match=message):
        shard_files(tmp_path / "corpus", given, TREATMENT)
    assert not (tmp_path / "corpus").exists()


class _StoppedError(Exception):
    pass


def _stop_after(n_steps: int) -> Callable[[str, float, int], None]:
    left = n_steps

    def watch(step: str, share: float, n_done: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _StoppedError

    return watch


def test_a_run_with_features_resumes_to_the_same_bytes_wherever_it_was_stopped(
    sources: Sources, tmp_path: Path
) -> None:
    expected = _content(shard_files(tmp_path / "whole", sources, TREATMENT).path)
    n_stopped = 0
    for n_steps in range(0, 40, 3):
        target = tmp_path / f"corpus-{n_steps}"
        try:
            shard_files(target, sources, TREATMENT, watch=_stop_after(n_steps))
        except _StoppedError:
            n_stopped += 1
            shard_files(target, sources, TREATMENT, resume=True)
        assert _content(target) == expected
        assert not target.with_name(f"{target.name}.part").exists()
    assert n_stopped > 4
    with pytest.raises(_StoppedError):
        shard_files(tmp_path / "changed", sources, TREATMENT, watch=_stop_after(10))
    FRAME.assign(length=1.0).rename_axis("doc").reset_index().to_parquet(tmp_path / "features.parquet")
    with pytest.raises(DataError, match="cannot resume: the features changed since"):
        shard_files(tmp_path / "changed", sources, TREATMENT, resume=True)
    forced = shard_files(tmp_path / "changed", sources, TREATMENT, force=True)
    assert _features(forced).values[:][:, 0].tolist() == [1.0] * N_DOCS


def test_documents_that_are_numbers_are_their_own_features(sources: Sources, tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(N_DOCS, 3))
    frame = pd.DataFrame(values, columns=["x", "y", "z"]).assign(doc=IDS)
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    folder = shard_files(tmp_path / "corpus", Sources(tmp_path / "numbers.csv", sources.votes), TREATMENT)
    assert _features(folder).names.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(_features(folder).values[:], values)
    given = Sources(tmp_path / "numbers.csv", sources.votes, features=sources.features)
    assert _features(shard_files(tmp_path / "given", given, TREATMENT)).names.tolist() == TABLE.names.tolist()


# Damage


def _rewrite(folder: Path, name: str, content: bytes | None = None, **manifest: Any) -> None:
    """Change a file and the manifest, with right checksums."""
    path = folder / "manifest.json"
    stored = json.loads(path.read_text()) | manifest
    stored = {key: value for key, value in stored.items() if value is not None}
    if content is not None:
        (folder / name).write_bytes(content)
        digest = file_sha256(folder / name)
        if name in stored["files"]:
            stored["files"][name] = digest
        for entry in stored["shards"]:
            entry["sha256"] = digest if entry["file"] == name else entry["sha256"]
    path.write_text(json.dumps(stored))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": 5}, "is damaged|too small|wrong number"),
        ({"features": 0}, "'features' of the manifest must be an integer from 1"),
        ({"features": 10**9}, "'features' of the manifest must be an integer from 1"),
        ({"features": 100_000}, "it is too small|is damaged"),
        ({"features": None}, "'features' and 'feature_type' belong together"),
        ({"feature_type": None}, "'features' and 'feature_type' belong together"),
        ({"feature_type": "object"}, "'feature_type' of the manifest must be one of"),
        ({"feature_type": "float32"}, "it has other features than the manifest says"),
        ({"feature_type": None, "features": None}, "it has other features than the manifest says|does not match"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(written: Path, changes: dict[str, Any], message: str) -> None:
    _rewrite(written, "manifest.json", **changes)
    with pytest.raises(DataError, match=message):
        open_shards(written).verify()


_NAMES: list[tuple[dict[str, Any], str]] = [
    ({"features": ["a", "b"]}, "features: wrong number or type of names"),
    ({"features": ["a", "b", "c", "a"]}, "features: wrong names or categories"),
    ({"features": ["a", "b", "c", 4]}, "features: wrong number or type of names"),
    ({"features": ["a", "b", "c", "\ud800"]}, "features: wrong names or categories"),
    ({"feature_categories": [None]}, "features: wrong names or categories"),
    ({"feature_categories": {"a": 1}}, "features: wrong names or categories"),
    ({"feature_categories": [None, ["print", "print"], None, None]}, "features: wrong names or categories"),
    ({"feature_categories": [None, [1], None, None]}, "features: wrong names or categories"),
    ({"feature_categories": [None, ["print"], None, None]}, "is damaged .*features: 1.0 in row"),
    ({"feature_categories": [["a"], ["print", "web"], None, None]}, "is damaged .*features: 1.0 in row"),
]


@pytest.mark.parametrize(("changes", "message"), _NAMES)
def test_wrong_names_and_categories_are_refused(written: Path, changes: dict[str, Any], message: str) -> None:
    names = json.loads((written / "names.json").read_text()) | changes
    _rewrite(written, "names.json", json.dumps(names).encode())
    with pytest.raises(DataError, match=message):
        _features(open_shards(written)).values[:]
    with pytest.raises(DataError, match=message):
        open_shards(written).verify()


def _with_column(path: Path, column: pa.Array | None) -> bytes:
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        place = table.schema.get_field_index("features")
        table = table.drop_columns("features") if column is None else table.set_column(place, "features", column)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        return bytes(sink.getvalue().to_pybytes())


def _lists(values: Any, size: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.asarray(values).ravel()), size)


_SOUND = np.asarray(TABLE.values)[:4]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (None, "it has other features than the manifest says"),
        (_lists(_SOUND[:, :2], 2), "does not match"),
        (_lists(_SOUND.astype(np.float32), 4), "it has other features than the manifest says"),
        (_lists(np.nan_to_num(_SOUND).astype(np.int64), 4), "it has other features"),
        (_lists(np.where(_SOUND == 1.0, np.inf, _SOUND), 4), "infinite number"),
        (_lists(np.where(_SOUND == 1.0, 1e60, _SOUND), 4), "out of range"),
        (pa.array([[1.0, 0.0, 1.0, None]] * 4, pa.list_(pa.float64(), 4)), "has missing values"),
        (pa.array([[1.0, 0.0, 1.0, 1.0], None] * 2, pa.list_(pa.float64(), 4)), "has missing values"),
        (pa.array([[1.0, 0.0, 1.0, 1.0]] * 4, pa.list_(pa.float64())), "column 'features' is not a list of numbers"),
        (pa.array([["a"] * 4] * 4, pa.list_(pa.string(), 4)), "column 'features' is not a list of numbers"),
        (_lists(np.where(np.arange(4) == 1, 0.5, _SOUND), 4), "features: 0.5 in row 0"),
        (_lists(np.where(np.arange(4) == 1, -1.0, _SOUND), 4), "features: -1.0 in row 0"),
    ],
)  # fmt: skip
def test_columns_that_are_not_those_features_are_refused(written: Path, column: pa.Array, message: str) -> None:
    name = "shard-00000.arrow"
    _rewrite(written, name, _with_column(written / name, column))
    with pytest.raises(DataError, match=message) as caught:
        _features(open_shards(written)).values[np.array([0, 9])]
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=message):
        open_shards(written).verify()
    shutil.rmtree(written)


def test_a_file_that_changes_after_it_was_validated_is_validated_again(written: Path) -> None:
    features = _features(open_shards(written))
    features.values[:4]
    name = "shard-00000.arrow"
    (written / name).write_bytes(_with_column(written / name, _lists(np.full((4, 4), np.inf), 4)))
    with pytest.raises(DataError, match="infinite number"):
        features.values[:4]
