"""``TextEmbedding``: embeddings of texts by models in folders and by objects."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tiny_models import WIDTH, save_static_model

from palda import DataError, TextEmbedding
from palda.data import Corpus, Dataset, Documents, names_array
from palda.errors import MissingDependencyError, PaldaError
from palda.io import embedding_models
from palda.io.embedding_models import library_of, model_folder

TEXTS = ["ships carry wheat", "rain on the harvest", "ships carry wheat", "", "goal"]


class Lengths:
    """A model that counts its calls."""

    def __init__(self, cache_key: str = "lengths", width: int = 3) -> None:
        self.cache_key = cache_key
        self.width = width
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> NDArray[np.float64]:
        self.calls.append(list(texts))
        return np.array([[len(text) + column for column in range(self.width)] for text in texts], dtype=np.float64)

    def __deepcopy__(self, memo: Any) -> Lengths:
        return self


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def static_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("model2vec", reason="the model is one of model2vec: pip install 'palda[embeddings]'")
    return save_static_model(tmp_path_factory.mktemp("static"))


# Models in folders


@pytest.mark.usefixtures("no_network")
def test_a_static_model_gives_the_vectors_of_its_library(static_model: Path) -> None:
    from model2vec import StaticModel

    found = TextEmbedding(static_model, batch_size=2).fit_transform(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, StaticModel.from_pretrained(static_model).encode(TEXTS))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the modules' place, which differs between versions
@pytest.mark.usefixtures("no_network")
def test_a_sentence_transformer_gives_the_vectors_of_its_library_without_the_network(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'palda[sentence-transformers]'")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: position for position, word in enumerate(["[UNK]", "ships", "carry", "wheat", "rain"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    modules = __import__("sentence_transformers.models", fromlist=["StaticEmbedding"])
    table = np.random.default_rng(0).normal(size=(len(words), WIDTH)).astype(np.float32)
    model = library.SentenceTransformer(modules=[modules.StaticEmbedding(tokenizer, embedding_weights=table)])
    model.save(str(tmp_path / "model"))
    assert library_of(tmp_path / "model") == "sentence-transformers"
    found = TextEmbedding(tmp_path / "model", cache=tmp_path / "cache").fit_transform(TEXTS)
    np.testing.assert_allclose(found, model.encode(TEXTS), atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("no_network")
def test_a_transformer_with_pooling_is_embedded_in_batches(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'palda[sentence-transformers]'")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nships\nwheat")
    config = BertConfig(
        vocab_size=7,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(tmp_path / "bert")
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    modules = __import__("sentence_transformers.models", fromlist=["Transformer", "Pooling"])
    transformer = modules.Transformer(str(tmp_path / "bert"))
    model = library.SentenceTransformer(modules=[transformer, modules.Pooling(8)], device="cpu")
    model.save(str(tmp_path / "model"))
    found = TextEmbedding(tmp_path / "model", batch_size=2).fit_transform(TEXTS)
    assert found.shape == (5, 8)
    np.testing.assert_allclose(found, model.encode(TEXTS), atol=1e-5)


def test_importing_and_creating_models_loads_no_library_that_only_some_need(static_model: Path) -> None:
    program = (
        "import sys; from palda import CrowdPALDA, TextEmbedding; "
        f"CrowdPALDA(); TextEmbedding({str(static_model)!r}); "
        "libraries = {'model2vec', 'sentence_transformers', 'huggingface_hub', 'torch', 'sklearn.cluster'}; "
        "sys.exit(bool(libraries & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("./models/mini", "there is no folder './models/mini'; check the path"),
        ("/nowhere/mini", "there is no folder '/nowhere/mini'; check the path"),
        ("~/nowhere/mini", "there is no folder '~/nowhere/mini'; check the path"),
        ("models/a/b", "there is no folder 'models/a/b'; check the path"),
        ("models/", "there is no folder 'models/'; check the path"),
        ("here/mini", "there is no folder 'here/mini', but there is 'here'; check the path"),
        (Path("owner/name"), "there is no folder 'owner/name'; check the path"),
        ("all-MiniLM-L6-v2", "a model of the Hugging Face hub has an owner, as in 'owner/all-MiniLM-L6-v2'"),
        ("a-file", "model 'a-file' is a file"),
        (3, "an object with a method encode, not 3"),
    ],
)
@pytest.mark.usefixtures("no_network")
def test_a_path_without_a_model_is_an_error_and_not_looked_up(
    model: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "a-file").touch()
    with pytest.raises(DataError, match=re.escape(message)):
        TextEmbedding(model).fit(TEXTS)


def test_a_hub_name_is_fetched_by_the_client_with_its_revision(
    static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[Any] = []

    def download(name: str, *, revision: str | None, **patterns: Any) -> str:
        asked.append((name, revision, patterns["allow_patterns"]))
        return str(static_model)

    monkeypatch.setattr(hub, "snapshot_download", download)
    embedding = TextEmbedding("some-owner/some.model@v1.0")
    assert embedding.fit(TEXTS).transform(TEXTS).shape == (5, WIDTH)
    assert model_folder("some-owner/some.model") == static_model
    assert [(name, revision) for name, revision, _ in asked] == [
        ("some-owner/some.model", "v1.0"),
        ("some-owner/some.model", None),
    ]
    assert not any("py" in pattern or "bin" in pattern for pattern in asked[0][2])  # neither code nor pickles


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def download(*_: object, **__: object) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(hub, "snapshot_download", download)
    with pytest.raises(PaldaError, match=r"^model 'owner/name' cannot be fetched .*: no route to host$"):
        TextEmbedding("owner/name").fit(TEXTS)


def test_a_missing_library_is_named_with_its_extra(
    static_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model2vec", "sentence_transformers", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'palda[embeddings]'")):
        TextEmbedding(static_model).fit(TEXTS)
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'palda[embeddings]'")):
        TextEmbedding("owner/name").fit(TEXTS)
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer"}]))
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'palda[sentence-transformers]'")):
        TextEmbedding(tmp_path).fit(TEXTS)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not an embedding model"),
        ({"config.json": "{}"}, "is not an embedding model"),
        ({"modules.json": "{"}, "is not a JSON file"),
        ({"modules.json": "[" * 100_000}, "is not a JSON file"),
        ({"modules.json": "3"}, "lists the module None"),
        ({"modules.json": "[]"}, "lists the module None"),
        ({"modules.json": '[{"type": "os.system"}]'}, "lists the module 'os.system'"),
        ({"model.safetensors": "x" * 20}, "is not an embedding model"),
        ({"model.safetensors": "\x02\0\0\0\0\0\0\0[]"}, "is not an embedding model"),
    ],
)
def test_a_folder_without_a_usable_model_is_one_line(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as raised:
        TextEmbedding(tmp_path).fit(TEXTS)
    assert "\n" not in str(raised.value)


def test_a_damaged_model_is_one_line(static_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(static_model, tmp_path / "model")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-8])
    with pytest.raises(DataError, match="the model cannot be loaded: ") as raised:
        TextEmbedding(folder).fit(TEXTS)
    assert "\n" not in str(raised.value)


def test_a_model_is_loaded_once_and_again_when_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("model2vec")
    loads = []
    load = embedding_models._load_static_model
    monkeypatch.setattr(embedding_models, "_load_static_model", lambda folder: loads.append(folder) or load(folder))
    embedding = TextEmbedding(save_static_model(tmp_path / "model")).fit(TEXTS)
    first = embedding.transform(TEXTS)
    assert len(loads) == 1
    save_static_model(tmp_path / "model", seed=1)
    os.utime(tmp_path / "model" / "model.safetensors", ns=(1, 1))
    assert not np.array_equal(embedding.transform(TEXTS), first)
    assert len(loads) == 2


# scikit-learn


def test_it_can_be_cloned_and_pickled_without_its_model(static_model: Path) -> None:
    embedding = TextEmbedding(static_model, normalize=True).fit(TEXTS)
    expected = embedding.transform(TEXTS)
    stored = pickle.dumps(embedding)
    assert b"StaticModel" not in stored
    np.testing.assert_array_equal(pickle.loads(stored).transform(TEXTS), expected)  # noqa: S301
    fresh = clone(embedding)
    assert fresh.get_params() == embedding.get_params()
    assert not hasattr(fresh, "width_")


def test_it_works_in_a_pipeline_and_names_its_columns() -> None:
    steps = make_pipeline(TextEmbedding(Lengths()), StandardScaler())
    assert steps.fit_transform(TEXTS).shape == (5, 3)
    assert steps.get_feature_names_out().tolist() == ["embedding[0]", "embedding[1]", "embedding[2]"]
    frame = TextEmbedding(Lengths()).set_output(transform="pandas").fit_transform(TEXTS)
    assert frame.columns.tolist() == ["embedding[0]", "embedding[1]", "embedding[2]"]


@pytest.mark.parametrize(
    "documents",
    [
        tuple(TEXTS),
        iter(TEXTS),
        np.array(TEXTS, dtype=object),
        Documents(names_array("abcde"), names_array(TEXTS)),
        Corpus.from_counts(np.ones((5, 2)), texts=names_array(TEXTS)),
        Dataset.of(Documents(names_array("abcde"), names_array(TEXTS))),
    ],
    ids=lambda documents: type(documents).__name__,
)
def test_texts_may_come_in_any_form(documents: Any) -> None:
    found = TextEmbedding(Lengths()).fit_transform(documents)
    np.testing.assert_array_equal(found[:, 0], [len(text) for text in TEXTS])


def test_no_texts_give_no_rows() -> None:
    assert TextEmbedding(Lengths()).fit([]).transform([]).shape == (0, 3)
    assert TextEmbedding(Lengths()).fit_transform([]).shape == (0, 3)


def test_equal_texts_are_embedded_once_in_calls_of_the_batch_size() -> None:
    model = Lengths()
    TextEmbedding(model, batch_size=3).fit_transform([*TEXTS, "rain"])
    assert model.calls == [["ships carry wheat", "rain on the harvest", ""], ["goal", "rain"]]


def test_normalized_vectors_have_unit_length_and_zeros_stay_zeros(static_model: Path) -> None:
    lengths = np.linalg.norm(TextEmbedding(static_model, normalize=True).fit_transform(TEXTS), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 0, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts must be a list, not one string"),
        (["a", None], "text 1 (counted from 0) is None"),
        (np.ones((2, 2)), "with 2 axes"),
        (Corpus.from_counts([[1, 0]]), "word counts only; embeddings need texts"),
    ],
)
def test_anything_but_texts_is_one_clear_line(texts: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        TextEmbedding(Lengths()).fit_transform(texts)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones(2), "an array of float64 and shape (2,) for 2 texts"),
        (np.ones((3, 2)), "shape (3, 2) for 2 texts"),
        (np.ones((2, 0)), "shape (2, 0) for 2 texts"),
        ([[1.0], [1.0, 2.0]], "vectors of different lengths"),
        (np.array([["a"], ["b"]]), "an array of <U1"),
        (np.array([[1.0], [np.nan]]), "NaN or infinity for text 1 (counted from 0)"),
    ],
)
def test_what_a_model_returns_is_checked(returned: Any, message: str) -> None:
    class Wrong:
        def encode(self, _: list[str]) -> Any:
            return returned

    with pytest.raises(DataError, match=re.escape(message)):
        TextEmbedding(Wrong()).fit_transform(["a", "b"])


def test_another_width_than_fitted_is_one_clear_line() -> None:
    model = Lengths()
    embedding = TextEmbedding(model).fit(TEXTS)
    model.width = 2
    with pytest.raises(DataError, match="vectors of width 2 instead of 3"):
        embedding.transform(TEXTS)


def test_progress_is_written_to_standard_error_if_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    TextEmbedding(Lengths()).fit_transform(TEXTS)
    assert capsys.readouterr() == ("", "")
    embedding = TextEmbedding(Lengths(), verbose=1, cache=tmp_path)
    embedding.fit_transform(TEXTS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "palda: embeddings: 1 of 5 texts are repeated or in the cache"
    assert lines[-1].startswith("palda: embeddings: 5 of 5 texts  done in ")
    embedding.transform(TEXTS)
    assert capsys.readouterr().err == "palda: embeddings: 5 of 5 texts are repeated or in the cache\n"
