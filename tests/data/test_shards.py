"""Shard folders: reading returns what was written, for any rows, and damage is an error."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from palda.data import Corpus, Dataset, TextWords, ValueWords, Votes, names_array, row_blocks
from palda.errors import DataError
from palda.io.shards import Manifest, is_shards, open_shards, write_names, write_part, write_shards

N_CLASSES, N_ANNOTATORS = 3, 4


def _dataset(
    n_docs: int, n_words: int = 7, seed: int = 0, *, texts: bool = True, fractions: bool = False, soft: bool = True
) -> Dataset:
    random = np.random.default_rng(seed)
    counts = random.poisson(0.6, (n_docs, n_words)).astype(np.float64)
    if fractions:
        counts *= random.choice([0.1, 1.0], counts.shape)
    doc_ids = names_array(f"d{n} ü" for n in range(n_docs))
    written = names_array(f"text {n}: 東京 \ud800" for n in range(n_docs)) if texts else None
    corpus = Corpus.from_counts(counts, [f"w{w}" for w in range(n_words)], doc_ids, written)
    cast = random.choice([-1, 0, 1], (n_docs, N_ANNOTATORS, N_CLASSES), p=[0.6, 0.2, 0.2])
    doc, annotator, label = np.indices(cast.shape).reshape(3, -1)
    extra = {}
    if soft:  # with documents, and mostly shards, that have none
        stated = np.where(random.random(cast.size) < 0.3, random.random(cast.size), np.nan)
        moments = np.where(doc % 3 > 0, 1.7e9 + random.random(cast.size), np.nan)
        traits = {
            "annotator_kinds": names_array(["model", "", "person", ""]),
            "annotator_families": names_array("fgf "),
        }
        extra = {"probability": np.where(doc < 9, stated, np.nan), "time": moments, **traits}
    votes = Votes.from_codes(
        doc, annotator, label, cast.ravel(), doc_ids=doc_ids,
        annotators=names_array("abcd"), classes=names_array(["x", "y", "z"]), **extra,
    )  # fmt: skip
    gold = random.choice([-1, -1, 0, 1], (n_docs, N_CLASSES))
    return Dataset.of(corpus, votes, gold)


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return _dataset(23)


@pytest.fixture(scope="module")
def written(whole: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("shards") / "corpus", whole, docs_per_shard=5).path


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


@settings(max_examples=25, deadline=None)
@given(
    n_docs=st.integers(0, 12),
    n_words=st.integers(1, 300),
    docs_per_shard=st.integers(1, 13),
    seed=st.integers(0, 100),
    texts=st.booleans(),
    fractions=st.booleans(),
    soft=st.booleans(),
)
def test_reading_returns_what_was_written(
    n_docs: int,
    n_words: int,
    docs_per_shard: int,
    seed: int,
    texts: bool,
    fractions: bool,
    soft: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = _dataset(n_docs, n_words, seed, texts=texts, fractions=fractions, soft=soft)
    folder = write_shards(tmp_path_factory.mktemp("shards") / "corpus", data, docs_per_shard=docs_per_shard)
    assert folder.dataset() == data
    assert len(folder) == folder.n_docs == n_docs
    assert len(folder.manifest.shards) == -(-n_docs // docs_per_shard)
    folder.verify()


_rows = st.one_of(
    st.slices(23).filter(lambda rows: rows.step is None or rows.step > 0),
    st.lists(st.integers(-23, 22), max_size=30).map(lambda rows: np.array(rows, dtype=np.int64)),
    st.lists(st.booleans(), min_size=23, max_size=23).map(np.array),
)


@settings(deadline=None)
@given(rows=_rows)
def test_any_rows_equal_those_of_the_matrix_in_memory(rows: slice | np.ndarray, whole: Dataset, written: Path) -> None:
    found, expected = open_shards(written).counts[rows], sparse.csr_array(whole.X[rows])
    assert (found != expected).nnz == 0
    assert found.shape == expected.shape
    assert (found.dtype, found.indices.dtype, found.has_canonical_format) == (np.float64, np.int32, True)
    assert found.data.flags.writeable


@settings(deadline=None)
@given(rows=_rows)
def test_any_documents_have_their_votes(rows: slice | np.ndarray, whole: Dataset, written: Path) -> None:
    folder = open_shards(written)
    positions = np.arange(23)[rows]
    if len(set(positions.tolist())) < len(positions):
        with pytest.raises(DataError, match="twice"):
            folder.votes.take(rows)
        return
    assert folder.dataset(rows) == whole.take(rows)
    unnamed = folder.votes.take(rows)
    assert unnamed.doc_ids.tolist() == positions.tolist()
    for part in ("doc", "annotator", "label", "value", "abstained", "probability", "time"):
        np.testing.assert_array_equal(getattr(unnamed, part), getattr(whole.votes.take(rows), part))


def test_sums_equal_those_in_memory_bit_by_bit(whole: Dataset, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_ENTRIES", 20)
    counts, dense = open_shards(written).counts, np.random.default_rng(0).random((23, 2))
    np.testing.assert_array_equal(row_blocks.word_totals(counts), whole.X.sum(axis=0))
    np.testing.assert_array_equal(row_blocks.document_lengths(counts), whole.X.sum(axis=1))
    np.testing.assert_array_equal(row_blocks.word_doc_counts(counts), (whole.X > 0).sum(axis=0))
    np.testing.assert_array_equal(row_blocks.weighted_sums(counts, dense), row_blocks.weighted_sums(whole.X, dense))
    np.testing.assert_array_equal(counts.indptr, whole.X.indptr)
    assert (counts.shape, counts.nnz) == (whole.X.shape, whole.X.nnz)


def test_votes_equal_those_in_memory(whole: Dataset, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_ENTRIES", 20)
    votes = open_shards(written).votes
    assert len(votes) == len(whole.votes)
    assert (votes.n_docs, votes.n_annotators, votes.n_classes) == (23, N_ANNOTATORS, N_CLASSES)
    pairs = zip(row_blocks.vote_blocks(votes), row_blocks.vote_blocks(whole.votes), strict=True)
    for (rows, found), (expected_rows, expected) in pairs:
        assert rows == expected_rows
        np.testing.assert_array_equal(found.per_pair(), expected.per_pair())
    for name in ("doc_starts", "doc_ids", "annotators", "classes"):
        np.testing.assert_array_equal(getattr(votes, name), getattr(whole.votes, name))


def test_a_folder_is_pickled_as_its_path(written: Path) -> None:
    folder = open_shards(written)
    for part in (folder, folder.counts, folder.votes):
        sent = pickle.dumps(part)
        assert len(sent) < 1000
        assert repr(pickle.loads(sent)) == repr(part)  # noqa: S301 - our own bytes


def test_threads_share_a_folder(whole: Dataset, written: Path) -> None:
    counts = open_shards(written).counts
    slices = [slice(start, start + 9) for start in range(20)] * 20
    with ThreadPoolExecutor(8) as pool:
        for rows, found in zip(slices, pool.map(counts.__getitem__, slices), strict=True):
            assert (found != whole.X[rows]).nnz == 0


def test_pandas_opens_a_shard_file_with_the_documented_columns(whole: Dataset, tmp_path: Path) -> None:
    valid = names_array(f"text {n}" for n in range(23))  # the texts of the other tests hold a lone surrogate
    assert isinstance(whole.corpus, Corpus)
    corpus = Corpus(whole.corpus.counts, whole.corpus.vocabulary, whole.corpus.doc_ids, valid)
    path = write_shards(tmp_path / "corpus", whole.with_corpus(corpus), docs_per_shard=5).path
    frame = pd.read_feather(path / "shard-00001.arrow")
    assert list(frame.columns) == [
        "id", "text", "words", "counts", "vote_annotators", "vote_classes", "vote_values", "vote_probabilities",
        "vote_times", "abstained", "gold",
    ]  # fmt: skip
    assert frame["id"].tolist() == whole.doc_ids[5:10].tolist()
    assert frame["text"].tolist() == valid[5:10].tolist()
    for row, (_, found) in enumerate(frame.iterrows(), start=5):
        expected = whole.X[[row]]
        assert found["words"].tolist() == expected.indices.tolist()
        assert found["counts"].tolist() == expected.data.tolist()
        votes = whole.votes.take([row])
        assert found["vote_annotators"].tolist() == votes.annotator.tolist()
        assert found["vote_classes"].tolist() == votes.label.tolist()
        assert found["vote_values"].tolist() == votes.value.tolist()
        assert found["abstained"].tolist() == votes.abstained[:, 1].tolist()
        assert found["gold"].tolist() == whole.gold[row].tolist()
    assert frame["words"][0].dtype == frame["counts"][0].dtype == np.uint8


def test_a_shard_of_version_0_1_is_refused_with_advice() -> None:
    old = Path(__file__).parent.parent / "fixtures" / "shards-0.1"
    _fails(old, "was written by palda 0.1 in an older format; run palda shard again")


def test_equal_data_give_equal_bytes(whole: Dataset, written: Path, tmp_path: Path) -> None:
    again = write_shards(tmp_path / "again", whole, docs_per_shard=5).path
    names = sorted(path.name for path in written.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert all((written / name).read_bytes() == (again / name).read_bytes() for name in names)


@pytest.mark.parametrize("kind", ["texts", "values", "pooled"])
def test_the_fitted_words_are_kept(kind: str, tmp_path: Path) -> None:
    texts = ["ships carry wheat", "wheat wheat prices", "ships"]
    values = np.random.default_rng(0).random((3, 2))
    words = {"texts": TextWords(), "values": ValueWords(2), "pooled": ValueWords(scope="pooled", n_words=2)}[kind]
    items = texts if kind == "texts" else values
    counts = words.fit_transform(items)
    folder = write_shards(tmp_path / "c", Corpus.from_counts(counts, words.get_feature_names_out()), words=words)
    assert folder.words is not None
    assert (folder.words.transform(items) != folder.counts[:]).nnz == 0
    assert folder.words.get_feature_names_out().tolist() == folder.vocabulary.tolist()


def test_a_corpus_alone_has_no_votes_and_no_gold(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "c", Corpus.from_counts([[1, 0], [0, 2]]))
    assert (len(folder.votes), folder.words, folder.has_gold, folder.has_texts) == (0, None, False, False)
    assert folder.gold.shape == (2, 0)


def test_an_existing_folder_is_not_overwritten(written: Path, whole: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="already exists; pass force=True"):
        write_shards(written, whole)
    with pytest.raises(DataError, match="already exists and is not a shard folder; choose another name"):
        write_shards(tmp_path, whole, force=True)
    folder = write_shards(tmp_path / "c", whole)
    replaced = write_shards(tmp_path / "c", whole.take(slice(3)), force=True)
    assert (len(folder), len(replaced), len(open_shards(tmp_path / "c"))) == (23, 3, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_negative_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not negative"):
        write_shards(tmp_path / "c", Corpus.from_counts([[-1.0]]))
    assert not list(tmp_path.iterdir())


# Damage


def _use(path: Path, *, by_verify: bool) -> None:
    folder = open_shards(path)
    if by_verify:
        folder.verify()
    else:
        folder.dataset()


def _fails(path: Path, message: str, *, by_verify: bool = False) -> None:
    with pytest.raises(DataError, match=message) as caught:
        _use(path, by_verify=by_verify)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def _altered_manifest(path: Path, **changes: object) -> None:
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))


def test_other_folders_are_refused(tmp_path: Path) -> None:
    assert not is_shards(tmp_path)
    _fails(tmp_path, "is not a shard folder")
    _fails(tmp_path / "nothing", "there is no such folder")


SHARD = {"file": "shard-00000.arrow", "documents": 0, "entries": 0, "votes": 0, "known": 0, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "zip"}, "is not the manifest"),
        ({"format_version": 99}, "format version 99, and this palda reads version 2"),
        ({"documents": 24}, "the numbers of documents do not add up"),
        ({"documents": -1}, "'documents' of the manifest must be an integer"),
        ({"files": {}}, "a file is missing"),
        ({"shards": [SHARD | {"file": "../../etc/passwd"}]}, "name of a file of the folder"),
        ({"shards": 3}, "is damaged"),
        ({"shards": None}, "is damaged"),
        ({"files": None}, "'files' of the manifest must be an object"),
    ],
)
def test_a_wrong_manifest_is_refused(copied: Path, changes: dict[str, object], message: str) -> None:
    _altered_manifest(copied, **changes)
    _fails(copied, message)


def test_a_truncated_manifest_is_refused(copied: Path) -> None:
    text = (copied / "manifest.json").read_bytes()
    (copied / "manifest.json").write_bytes(text[: len(text) // 2])
    _fails(copied, "manifest.json: is damaged or cut short")


@pytest.mark.parametrize("name", ["shard-00002.arrow", "names.json"])
@pytest.mark.parametrize("by_verify", [True, False])
def test_a_missing_file_is_named(copied: Path, name: str, by_verify: bool) -> None:
    (copied / name).unlink()
    _fails(copied, f"{name}: is missing; the folder is not complete", by_verify=by_verify)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_shard_is_refused(copied: Path, share: float) -> None:
    shard = copied / "shard-00001.arrow"
    shard.write_bytes(shard.read_bytes()[: int(share * shard.stat().st_size)])
    _fails(copied, "shard-00001.arrow: is damaged or cut short")
    _fails(copied, "shard-00001.arrow: was altered or damaged", by_verify=True)


def test_a_shard_truncated_after_its_validation_is_refused(copied: Path) -> None:
    folder = open_shards(copied)
    folder.dataset()
    shard = copied / "shard-00001.arrow"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DataError, match="is damaged or cut short"):
        folder.dataset()


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_never_crashes(
    place: float, bit: int, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = Path(shutil.copytree(written, tmp_path_factory.mktemp("flip") / "copy"))
    shard = copy / "shard-00001.arrow"
    content = bytearray(shard.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    shard.write_bytes(content)
    _fails(copy, "shard-00001.arrow: was altered", by_verify=True)
    try:
        open_shards(copy).dataset()
    except DataError as error:
        assert "shard-00001.arrow" in str(error) or "occurs twice" in str(error)  # two ids may have become equal


def _rewritten(shard: Path, change: Callable[[dict[str, pa.Array]], None]) -> None:
    """Change some columns of a shard file."""
    table = _table_of(shard)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    change(columns)
    changed = pa.RecordBatch.from_pydict(columns)
    with pa.OSFile(str(shard), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as file:
        file.write_batch(changed)


def _table_of(shard: Path) -> pa.Table:
    with pa.OSFile(str(shard)) as source:
        return pa.ipc.open_file(source).read_all()


def _with_value(column: pa.Array, part: str, position: int, value: int) -> pa.Array:
    """List column with one offset or value replaced."""
    parts = {"starts": column.offsets.to_numpy().copy(), "values": column.values.to_numpy().copy()}
    parts[part][position] = value
    return pa.LargeListArray.from_arrays(pa.array(parts["starts"]), pa.array(parts["values"]))


@pytest.mark.parametrize(
    ("name", "part", "position", "value", "message"),
    [
        ("words", "values", 0, 200, "a number of the array 'words' is out of range"),
        ("words", "starts", 1, 3, "the lists of words and counts differ in length"),
        ("vote_annotators", "values", 0, 9, "a number of the array 'vote_annotators' is out of range"),
        ("vote_classes", "values", 0, 9, "a number of the array 'vote_classes' is out of range"),
        ("vote_values", "values", 0, 2, "a number of the array 'vote_values' is out of range"),
        ("abstained", "starts", 1, -5, "the array 'abstained_starts' is out of range"),
    ],
)
def test_positions_out_of_bounds_are_refused(
    copied: Path, name: str, part: str, position: int, value: int, message: str
) -> None:
    def change(columns: dict[str, pa.Array]) -> None:
        columns[name] = _with_value(columns[name], part, position, value)

    _rewritten(copied / "shard-00000.arrow", change)
    _fails(copied, message)


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("gold", pa.array([[7, 0, 1]] * 5, pa.list_(pa.int8(), 3)), "the array 'gold' is out of range"),
        ("gold", pa.array([[0, 1]] * 5, pa.list_(pa.int8(), 2)), "the array 'gold' does not match"),
        ("id", pa.array([1, 2, 3, 4, 5]), "column 'id' holds no strings"),
        ("id", pa.array(["a", "b", "c", "d", None], pa.large_string()), "column 'id' has missing values"),
        ("words", pa.array([1, 2, 3, 4, 5]), "column 'words' is not a list of numbers"),
        ("counts", pa.array([["x"]] * 5, pa.large_list(pa.string())), "is damaged"),
        ("vote_classes", None, "column 'vote_classes' is missing"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(copied: Path, name: str, column: pa.Array | None, message: str) -> None:
    def change(columns: dict[str, pa.Array]) -> None:
        columns.pop(name)
        if column is not None:
            columns[name] = column

    _rewritten(copied / "shard-00000.arrow", change)
    _fails(copied, message)


def test_a_wrong_number_of_names_is_refused(copied: Path) -> None:
    (copied / "names.json").write_text('{"vocabulary": ["a"]}')
    _fails(copied, "names.json: is damaged")


def test_a_file_of_another_kind_is_refused(copied: Path) -> None:
    shutil.copy(
        Path(__file__).parent.parent / "fixtures" / "shards-0.1" / "shard-00000.npz", copied / "shard-00000.arrow"
    )
    _fails(copied, "is damaged or cut short")


def test_a_folder_has_a_short_description(written: Path) -> None:
    folder = open_shards(written)
    assert "23 documents, 7 words" in repr(folder)
    assert "23 x 7" in repr(folder.counts)


# Memory

_STREAM = """
import resource, sys
import numpy as np
from palda import open_shards
from palda.data import vote_blocks, weighted_sums, word_totals

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

small, large = (open_shards(path) for path in sys.argv[1:])
def use(folder):
    folder.verify()
    word_totals(folder.counts)
    weighted_sums(folder.counts, np.ones((len(folder), 1)))
    for _ in vote_blocks(folder.votes):
        pass
    for start in range(0, len(folder), 5000):
        folder.counts[start : start + 5000]
use(small)
before = peak()
use(large)
print(peak() - before)
"""


def _large_folder(path: Path, n_shards: int) -> Path:
    """A folder with 8 MB per shard, written without ever being whole in memory."""
    random = np.random.default_rng(0)
    n_docs, n_words, length = 1 << 14, 90_000, 43
    path.mkdir()
    files = write_names(path, {"vocabulary": map(str, range(n_words)), "classes": ["c"], "annotators": ["a"]})
    entries = []
    for number in range(n_shards):
        words = np.cumsum(random.integers(1, 2000, (n_docs, length)), axis=1)
        starts = np.arange(n_docs + 1) * length
        counts = sparse.csr_array((random.random(words.size), words.ravel(), starts), shape=(n_docs, n_words))
        doc_ids = names_array(range(n_docs))
        axes = {"doc_ids": doc_ids, "annotators": names_array("a"), "classes": names_array("c")}
        once = np.zeros(n_docs, dtype=np.int32)
        votes = Votes.from_codes(np.arange(n_docs), once, once, once.astype(np.int8), **axes)
        corpus = Corpus(counts, names_array(range(n_words)), doc_ids)
        entries.append(write_part(path, number, Dataset.of(corpus, votes)))
    Manifest(n_docs * n_shards, n_words, 1, 1, False, tuple(entries), files).write(path)
    return path


@pytest.mark.slow
def test_memory_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    small, large = _large_folder(tmp_path / "small", 3), _large_folder(tmp_path / "large", 12)
    size = sum(file.stat().st_size for file in large.iterdir())
    assert size > 100e6
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", _STREAM, small, large], env=environment, capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) < size / 5


def test_a_shard_file_without_records_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    from palda.io.shards.shard_file import mapped_shard

    schema = pa.schema({"id": pa.large_string()})
    with pa.OSFile(str(tmp_path / "shard-00000.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema):
        pass
    with pytest.raises(DataError, match="it has no record batch"):
        mapped_shard(tmp_path / "shard-00000.arrow")
