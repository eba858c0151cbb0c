"""Folders of shards: what was written is what is read, whatever rows are asked for, and damage is an error."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from palda.data import Corpus, Dataset, TextWords, ValueWords, Votes, names_array, row_blocks
from palda.errors import DataError
from palda.io import Manifest, array_places, is_shards, open_shards, write_names, write_part, write_shards

N_CLASSES, N_ANNOTATORS = 3, 4


def _dataset(n_docs: int, n_words: int = 7, seed: int = 0, *, texts: bool = True, fractions: bool = False) -> Dataset:
    random = np.random.default_rng(seed)
    counts = random.poisson(0.6, (n_docs, n_words)).astype(np.float64)
    if fractions:
        counts *= random.choice([0.1, 1.0], counts.shape)
    doc_ids = names_array(f"d{n} ü" for n in range(n_docs))
    written = names_array(f"text {n}: 東京 \ud800" for n in range(n_docs)) if texts else None
    corpus = Corpus.from_counts(counts, [f"w{w}" for w in range(n_words)], doc_ids, written)
    cast = random.choice([-1, 0, 1], (n_docs, N_ANNOTATORS, N_CLASSES), p=[0.6, 0.2, 0.2])
    doc, annotator, label = np.indices(cast.shape).reshape(3, -1)
    votes = Votes.from_codes(
        doc, annotator, label, cast.ravel(), doc_ids=doc_ids,
        annotators=names_array("abcd"), classes=names_array(["x", "y", "z"]),
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
)
def test_what_was_written_is_read(
    n_docs: int,
    n_words: int,
    docs_per_shard: int,
    seed: int,
    texts: bool,
    fractions: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = _dataset(n_docs, n_words, seed, texts=texts, fractions=fractions)
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
def test_any_rows_are_those_of_the_matrix_in_memory(rows: slice | np.ndarray, whole: Dataset, written: Path) -> None:
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
    for part in ("doc", "annotator", "label", "value", "abstained"):
        np.testing.assert_array_equal(getattr(unnamed, part), getattr(whole.votes.take(rows), part))


def test_sums_are_those_in_memory_to_the_last_bit(
    whole: Dataset, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_blocks, "_ENTRIES", 20)
    counts, dense = open_shards(written).counts, np.random.default_rng(0).random((23, 2))
    np.testing.assert_array_equal(row_blocks.word_totals(counts), whole.X.sum(axis=0))
    np.testing.assert_array_equal(row_blocks.document_lengths(counts), whole.X.sum(axis=1))
    np.testing.assert_array_equal(row_blocks.word_doc_counts(counts), (whole.X > 0).sum(axis=0))
    np.testing.assert_array_equal(row_blocks.weighted_sums(counts, dense), row_blocks.weighted_sums(whole.X, dense))
    np.testing.assert_array_equal(counts.indptr, whole.X.indptr)
    assert (counts.shape, counts.nnz) == (whole.X.shape, whole.X.nnz)


def test_votes_are_those_in_memory(whole: Dataset, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_ENTRIES", 20)
    votes = open_shards(written).votes
    assert len(votes) == len(whole.votes)
    assert (votes.n_docs, votes.n_annotators, votes.n_classes) == (23, N_ANNOTATORS, N_CLASSES)
    pairs = zip(row_blocks.vote_blocks(votes), row_blocks.vote_blocks(whole.votes), strict=True)
    for (rows, found), (expected_rows, expected) in pairs:
        assert rows == expected_rows
        np.testing.assert_array_equal(found.per_pair(), expected.per_pair())
    for name in ("doc_starts", "doc_ids", "annotators", "classes"):
        np.testing.assert_array_equal(getattr(votes, name), getattr(whole.votes, name))


def test_another_process_is_sent_the_path_alone(written: Path) -> None:
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


def test_arrays_are_aligned_and_numpy_reads_them_too(written: Path) -> None:
    shard = written / "shard-00000.npz"
    places = array_places(shard)
    assert {place.offset % 64 for place in places.values()} == {0}
    with np.load(shard, allow_pickle=False) as archive:
        assert set(archive.files) == set(places)
        assert archive["counts.indices"].dtype == np.uint8
        assert archive["counts.data"].dtype == np.uint8


def test_equal_data_give_equal_bytes(whole: Dataset, written: Path, tmp_path: Path) -> None:
    again = write_shards(tmp_path / "again", whole, docs_per_shard=5).path
    names = sorted(path.name for path in written.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert all((written / name).read_bytes() == (again / name).read_bytes() for name in names)


@pytest.mark.parametrize("kind", ["texts", "values", "pooled"])
def test_words_come_along(kind: str, tmp_path: Path) -> None:
    texts = ["ships carry wheat", "wheat wheat prices", "ships"]
    values = np.random.default_rng(0).random((3, 2))
    words = {"texts": TextWords(), "values": ValueWords(2), "pooled": ValueWords(scope="pooled", n_words=2)}[kind]
    items = texts if kind == "texts" else values
    counts = words.fit_transform(items)
    folder = write_shards(tmp_path / "c", Corpus.from_counts(counts, words.get_feature_names_out()), words=words)
    assert folder.words is not None
    assert (folder.words.transform(items) != folder.counts[:]).nnz == 0
    assert folder.words.get_feature_names_out().tolist() == folder.vocabulary.tolist()


def test_a_corpus_alone_has_no_votes_and_no_truth(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "c", Corpus.from_counts([[1, 0], [0, 2]]))
    assert (len(folder.votes), folder.words, folder.has_gold, folder.has_texts) == (0, None, False, False)
    assert folder.gold.shape == (2, 0)


def test_a_folder_that_is_there_stays(written: Path, whole: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is there already; pass force=True"):
        write_shards(written, whole)
    with pytest.raises(DataError, match="is there already; choose another name"):
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


def test_what_is_no_folder_of_shards(tmp_path: Path) -> None:
    assert not is_shards(tmp_path)
    _fails(tmp_path, "is not a folder of shards")
    _fails(tmp_path / "nothing", "there is no such folder")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "zip"}, "is not the manifest"),
        ({"format_version": 99}, "format version 99, and this palda reads up to 1"),
        ({"documents": 24}, "another number of documents"),
        ({"documents": -1}, "-1 is not a number of things"),
        ({"files": {}}, "a file is missing"),
        ({"shards": [{"file": "../../etc/passwd"}]}, "there should be no file"),
        ({"shards": 3}, "is damaged"),
    ],
)
def test_another_manifest(copied: Path, changes: dict[str, object], message: str) -> None:
    _altered_manifest(copied, **changes)
    _fails(copied, message)


def test_a_manifest_that_is_cut_short(copied: Path) -> None:
    text = (copied / "manifest.json").read_bytes()
    (copied / "manifest.json").write_bytes(text[: len(text) // 2])
    _fails(copied, "manifest.json: is damaged or cut short")


@pytest.mark.parametrize("name", ["shard-00002.npz", "names.json"])
@pytest.mark.parametrize("by_verify", [True, False])
def test_a_missing_file(copied: Path, name: str, by_verify: bool) -> None:
    (copied / name).unlink()
    _fails(copied, f"{name}: is missing; the folder is not complete", by_verify=by_verify)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_shard_that_is_cut_short(copied: Path, share: float) -> None:
    shard = copied / "shard-00001.npz"
    shard.write_bytes(shard.read_bytes()[: int(share * shard.stat().st_size)])
    _fails(copied, "shard-00001.npz: is damaged or cut short")
    _fails(copied, "shard-00001.npz: was altered or damaged", by_verify=True)


def test_a_shard_that_is_cut_short_while_it_is_in_use(copied: Path) -> None:
    folder = open_shards(copied)
    folder.dataset()
    shard = copied / "shard-00001.npz"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DataError, match="cut short while it was in use"):
        folder.dataset()


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_never_crashes(
    place: float, bit: int, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = Path(shutil.copytree(written, tmp_path_factory.mktemp("flip") / "copy"))
    shard = copy / "shard-00001.npz"
    content = bytearray(shard.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    shard.write_bytes(content)
    _fails(copy, "shard-00001.npz: was altered", by_verify=True)
    try:
        open_shards(copy).dataset()
    except DataError as error:
        assert "shard-00001.npz" in str(error)


def test_a_packed_shard_is_refused(copied: Path) -> None:
    shard = copied / "shard-00000.npz"
    with np.load(shard) as archive:
        arrays = dict(archive)
    np.savez_compressed(shard, **arrays)
    _fails(copied, "is packed, so that it cannot be mapped")


def test_objects_are_never_unpickled(copied: Path) -> None:
    shard = copied / "shard-00000.npz"
    with np.load(shard) as archive:
        arrays = dict(archive)
    np.savez(shard, **(arrays | {"gold": np.array([print], dtype=object)}))
    _fails(copied, "gold.npy is not an array of plain numbers")


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("counts.indices", 0, 200, "one of the words is not there"),
        ("counts.indptr", 1, -5, "end before they start"),
        ("counts.indptr", -1, 1000, "the counts do not fit the documents"),
        ("votes.annotator", 0, 9, "one of the annotators is not there"),
        ("votes.label", 0, 9, "one of the classes is not there"),
        ("votes.value", 0, 2, "one of the votes is not there"),
        ("ids.starts", 1, 10**6, "the ids of a document end before they start"),
        ("gold", 0, 7, "the known labels do not fit"),
    ],
)
def test_positions_that_lead_nowhere(copied: Path, name: str, position: int, value: int, message: str) -> None:
    shard = copied / "shard-00000.npz"
    with np.load(shard) as archive:
        arrays = dict(archive)
    arrays[name][position] = value
    np.savez(shard, **arrays)
    _fails(copied, message)


def test_an_array_that_is_missing(copied: Path) -> None:
    shard = copied / "shard-00000.npz"
    with np.load(shard) as archive:
        arrays = dict(archive)
    del arrays["votes.label"]
    np.savez(shard, **arrays)
    _fails(copied, "the array 'votes.label' is missing")


def test_names_that_do_not_fit(copied: Path) -> None:
    (copied / "names.json").write_text('{"vocabulary": ["a"]}')
    _fails(copied, "names.json: is damaged")


def test_a_zip_file_of_something_else(copied: Path) -> None:
    with zipfile.ZipFile(copied / "shard-00000.npz", "w") as archive:
        archive.writestr("counts.indptr.npy", "not an array")
    _fails(copied, "is damaged or cut short")


def test_a_folder_has_a_short_description(written: Path) -> None:
    folder = open_shards(written)
    assert "23 documents, 7 words" in repr(folder)
    assert "23 x 7" in repr(folder.counts)


# Memory

_STREAM = """
import resource, sys
import numpy as np
from palda.data.shards import open_shards
from palda.data.stretches import votes_of, weighted_sums, word_totals

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

small, large = (open_shards(path) for path in sys.argv[1:])
def use(folder):
    folder.verify()
    word_totals(folder.counts)
    weighted_sums(folder.counts, np.ones((len(folder), 1)))
    for _ in votes_of(folder.votes):
        pass
    for start in range(0, len(folder), 5000):
        folder.counts[start : start + 5000]
use(small)
before = peak()
use(large)
print(peak() - before)
"""


def _large_folder(path: Path, n_shards: int) -> Path:
    """A folder with 8 MB a shard, written without ever being whole in memory."""
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
