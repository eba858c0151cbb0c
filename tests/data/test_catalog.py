from __future__ import annotations

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from palda.data import Corpus, Dataset, Values
from palda.errors import DataError, PaldaError
from palda.io import catalog, files

if TYPE_CHECKING:
    from collections.abc import Iterator

TOY = {
    "toy-train.arff": b"@attribute word {0,1}\n@attribute label {0,1}\n@data\n{0 1}\n{1 1}\n",
    "toy-test.arff": b"@attribute word {0,1}\n@attribute label {0,1}\n@data\n{}\n",
    "toy.xml": b"<labels><label name='label'/></labels>",
}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    """Address of a public home of the toy data set, on this machine."""
    folder = tmp_path / "home"
    folder.mkdir()
    for file, content in TOY.items():
        (folder / file).write_bytes(content)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def toy(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the toy data set in the user's cache, which is empty."""
    checksums = {file: hashlib.sha256(content).hexdigest() for file, content in TOY.items()}
    monkeypatch.setattr(catalog, "_SOURCES", {"toy": catalog._Source("toys", home, checksums)})
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("PALDA_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "palda" / "toys"


def test_names_are_those_of_the_paper() -> None:
    assert catalog.names() == ("reuters", "bibtex", "enron", "scene", "yeast")


def test_downloads_come_from_fixed_commits_with_a_checksum_each() -> None:
    for source in catalog._SOURCES.values():
        assert source.url.startswith("https://raw.githubusercontent.com/")
        assert len(source.url.split("/")[5]) == 40
        assert all(len(checksum) == 64 for checksum in source.checksums.values())


def test_nothing_is_downloaded_unasked(toy: Path) -> None:
    with pytest.raises(PaldaError, match=r"'toy' is not in .*toys; set PALDA_DATA .* toys/ .* download=True") as caught:
        catalog.load("toy")
    assert "\n" not in str(caught.value)
    assert not toy.exists()


def test_a_download_lands_in_the_cache_and_is_found_there_next_time(toy: Path) -> None:
    train, test = catalog.load("toy", download=True)
    assert train.X.toarray().tolist() == [[1], [0]]
    assert train.gold.tolist() == [[0], [1]]
    assert [*train.doc_ids, *test.doc_ids] == ["train-0", "train-1", "test-0"]
    assert sorted(path.name for path in toy.iterdir()) == sorted(TOY)
    assert catalog.load("toy") == (train, test)


def test_a_download_can_go_to_a_folder(toy: Path, tmp_path: Path) -> None:
    split = catalog.load("toy", download=True, folder=tmp_path / "mine")
    assert not toy.exists()
    assert catalog.load("toy", folder=str(tmp_path / "mine")) == split


def test_a_wrong_checksum_keeps_nothing(toy: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "toy-train.arff").write_bytes(b"something else")
    with pytest.raises(PaldaError, match=r"toy-train\.arff has the wrong checksum for 'toy'") as caught:
        catalog.load("toy", download=True)
    assert "\n" not in str(caught.value)
    assert list(toy.iterdir()) == []


def test_an_interrupted_download_goes_on_where_it_stopped(toy: Path, tmp_path: Path) -> None:
    missing = tmp_path / "home" / "toy.xml"
    missing.unlink()
    with pytest.raises(PaldaError, match=r"'toy' could not be downloaded from http://127\.0\.0\.1.*404"):
        catalog.load("toy", download=True)
    with pytest.raises(PaldaError, match="download=True"):
        catalog.load("toy")
    missing.write_bytes(TOY["toy.xml"])
    (tmp_path / "home" / "toy-train.arff").unlink()
    assert len(catalog.load("toy", download=True).train) == 2


def test_an_unreachable_home_is_one_clear_line(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = catalog._SOURCES["toy"]
    monkeypatch.setattr(catalog, "_SOURCES", {"toy": catalog._Source("toys", "http://127.0.0.1:9", source.checksums)})
    with pytest.raises(PaldaError, match="'toy' could not be downloaded") as caught:
        catalog.load("toy", download=True)
    assert "\n" not in str(caught.value)


def test_the_data_folder_comes_before_the_cache(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.load("toy", download=True)
    folder = tmp_path / "data" / "toys"
    folder.mkdir(parents=True)
    for file, content in TOY.items():
        (folder / file).write_bytes(content.replace(b"word", b"other"))
    monkeypatch.setenv("PALDA_DATA", str(tmp_path / "data"))
    assert catalog.load("toy").train.corpus.vocabulary.tolist() == ["other"]
    (folder / "toy.xml").unlink()
    assert catalog.load("toy").train.corpus.vocabulary.tolist() == ["word"]


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(PaldaError, match="there is no data set 'sceen'; did you mean 'scene'"):
        catalog.load("sceen")
    with pytest.raises(PaldaError, match="there are reuters, bibtex"):
        catalog.load("mnist")


def test_the_seed_decides_the_random_split() -> None:
    data = Dataset.of(Corpus.from_counts(np.eye(50)))
    train, test = catalog._random_split(data, seed=1)
    assert (len(train), len(test)) == (40, 10)
    assert {*train.doc_ids, *test.doc_ids} == set(data.doc_ids)
    assert catalog._random_split(data, seed=1) == (train, test)
    assert catalog._random_split(data, seed=2) != (train, test)
    with pytest.raises(DataError, match="seed must be an integer of at least 0, not -1"):
        catalog._random_split(data, seed=-1)


# Real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "n_train", "n_test", "n_features", "n_classes"),
    [
        ("scene", Values, 1211, 1196, 294, 6),
        ("yeast", Values, 1500, 917, 103, 14),
        ("enron", Corpus, 1123, 579, 1001, 53),
        ("bibtex", Corpus, 4880, 2515, 1836, 159),
    ],
)
def test_mulan_sets_have_the_sizes_of_the_paper(
    data_folder: Path, name: str, kind: type, n_train: int, n_test: int, n_features: int, n_classes: int
) -> None:
    train, test = catalog.load(name, folder=data_folder)
    assert isinstance(train.corpus, kind)
    assert train.X.shape == (n_train, n_features)
    assert test.X.shape == (n_test, n_features)
    assert train.classes.tolist() == test.classes.tolist()
    assert len(train.classes) == n_classes
    assert not set(train.doc_ids) & set(test.doc_ids)


@pytest.mark.data
@pytest.mark.parametrize("name", catalog.names())
def test_checksums_are_those_of_the_files(data_folder: Path, name: str) -> None:
    source = catalog._SOURCES[name]
    found = catalog._files_in(data_folder / source.folder, source)
    assert found is not None
    for file, path in found.items():
        assert hashlib.sha256(files.read_bytes(path)).hexdigest() == source.checksums[file]


@pytest.fixture(scope="module")
def reuters(data_folder: Path) -> catalog.Split:
    return catalog.load("reuters", folder=data_folder)


@pytest.mark.slow
@pytest.mark.data
def test_reuters_is_close_to_the_paper(reuters: catalog.Split) -> None:
    train, test = reuters
    assert len(train) + len(test) == 6558  # 6547 in the paper
    assert train.corpus.n_words == test.corpus.n_words == 1985  # 1996 in the paper
    assert len(train) == round(0.8 * 6558)
    assert train.classes.tolist() == [
        "acq", "corn", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade", "wheat",
    ]  # fmt: skip


@pytest.mark.data
def test_reuters_documents_meet_the_conditions(reuters: catalog.Split) -> None:
    assert not set(reuters.train.doc_ids) & set(reuters.test.doc_ids)
    for data in reuters:
        assert set(np.unique(data.gold)) == {0, 1}
        assert (data.gold.sum(axis=1) >= 1).all()
        assert (np.diff(data.X.indptr) > 20).all()
        assert not {"the", "of"} & set(data.corpus.vocabulary)
        assert all(len(text) > 100 for text in data.corpus.texts)
