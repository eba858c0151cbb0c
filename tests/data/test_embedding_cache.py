"""The cache of ``TextEmbedding``: a text is embedded once per model, whatever happens to processes and files."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tiny_models import save_static_model

from palda import DataError, TextEmbedding
from palda.errors import PaldaError
from palda.io import embedding_cache
from palda.io.atomic import temporary_name
from palda.io.embedding_cache import EmbeddingCache, text_keys

TEXTS = [f"text {number}" for number in range(100)]


class Counted:
    """A model that counts the texts it embeds, and may stop at one of them."""

    def __init__(self, cache_key: Any = "counted", stops_at: str | None = None) -> None:
        self.cache_key = cache_key
        self.stops_at = stops_at
        self.n_texts = 0

    def encode(self, texts: list[str]) -> NDArray[np.float64]:
        if self.stops_at in texts:
            raise KeyboardInterrupt
        self.n_texts += len(texts)
        return np.array([[len(text), int(text.split()[1]), 0.5] for text in texts])


EXPECTED = Counted().encode(TEXTS).astype(np.float32)


def n_embedded(cache: Path, texts: list[str] = TEXTS, **options: Any) -> int:
    """Number of texts that the model embeds; the result is checked."""
    model = Counted()
    found = TextEmbedding(model, cache=cache, **options).fit_transform(texts)
    np.testing.assert_array_equal(found, Counted().encode(texts))
    return model.n_texts


def segments(cache: Path) -> list[Path]:
    return sorted(cache.rglob("segment-*.npz"))


def test_stored_texts_are_not_embedded_again(tmp_path: Path) -> None:
    assert n_embedded(tmp_path, TEXTS[:60]) == 60
    assert n_embedded(tmp_path) == 40
    assert n_embedded(tmp_path, TEXTS[::-1]) == 0
    assert n_embedded(tmp_path, ["text 7", "text 200", "text 7"]) == 1


def test_a_model_is_not_even_loaded_if_all_texts_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("model2vec")
    folder = save_static_model(tmp_path / "model")
    expected = TextEmbedding(folder, cache=tmp_path / "cache").fit_transform(["ship", "wheat"])

    def refuse(_: Path) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("palda.io.text_embedding.load_encoder", refuse)
    found = TextEmbedding(shutil.copytree(folder, tmp_path / "copy"), cache=tmp_path / "cache").fit_transform(
        ["wheat", "ship"]
    )
    np.testing.assert_array_equal(found, expected[::-1])


def test_another_model_in_the_same_folder_has_vectors_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("model2vec")
    found = [
        TextEmbedding(save_static_model(tmp_path / "model", seed), cache=tmp_path / "cache").fit_transform(["ship"])
        for seed in (0, 1, 0)
    ]
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_unit_length_is_not_stored(tmp_path: Path) -> None:
    TextEmbedding(Counted(), cache=tmp_path, normalize=True).fit_transform(TEXTS)
    assert n_embedded(tmp_path) == 0


@pytest.mark.parametrize("cache_key", [None, "", 3])
def test_an_object_without_a_name_cannot_be_cached(cache_key: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="set the attribute cache_key of the Counted to a string"):
        TextEmbedding(Counted(cache_key), cache=tmp_path).fit(TEXTS)


def test_objects_with_other_names_have_vectors_of_their_own(tmp_path: Path) -> None:
    n_embedded(tmp_path)
    other = Counted("other")
    TextEmbedding(other, cache=tmp_path).fit_transform(TEXTS)
    assert other.n_texts == 100


def test_an_interrupted_computation_keeps_what_it_has(tmp_path: Path) -> None:
    model = Counted(stops_at="text 64")
    with pytest.raises(KeyboardInterrupt):
        TextEmbedding(model, cache=tmp_path, batch_size=2).fit_transform(TEXTS)
    assert n_embedded(tmp_path) == 100 - 64


def test_a_killed_computation_keeps_what_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_MAX_UNWRITTEN_SECONDS", -1.0)  # write after every call
    monkeypatch.setattr(EmbeddingCache, "write", _killed_at_the_third(EmbeddingCache.write))
    child = os.fork()
    if not child:
        TextEmbedding(Counted(), cache=tmp_path, batch_size=2).fit_transform(TEXTS)
        os._exit(0)
    assert os.waitpid(child, 0)[1] != 0
    monkeypatch.undo()
    assert n_embedded(tmp_path) == 100 - 64


def _killed_at_the_third(write: Any) -> Any:
    n_calls = [0]

    def killed(cache: EmbeddingCache) -> None:
        n_calls[0] += 1
        if n_calls[0] == 3:
            os._exit(9)
        write(cache)

    return killed


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_segment_is_embedded_again(share: float, tmp_path: Path) -> None:
    n_embedded(tmp_path, TEXTS[:50])
    n_embedded(tmp_path, TEXTS[50:])
    damaged = segments(tmp_path)[0]
    os.truncate(damaged, int(share * damaged.stat().st_size))
    assert n_embedded(tmp_path) == 50
    assert n_embedded(tmp_path) == 0


def test_any_changed_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    n_embedded(tmp_path)
    (segment,) = segments(tmp_path)
    whole = segment.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(whole), 150, replace=False):
        shutil.rmtree(tmp_path)
        segment.parent.mkdir(parents=True)
        changed = bytearray(whole)
        changed[position] ^= 1 << int(rng.integers(8))
        segment.write_bytes(changed)
        n_embedded(tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"keys": np.zeros((2, 16), np.uint8)},
        {"keys": np.zeros((2, 16), np.uint8), "vectors": np.zeros((3, 3), np.float32)},
        {"keys": np.zeros((2, 8), np.uint8), "vectors": np.zeros((2, 3), np.float32)},
        {"keys": np.zeros((2, 16), np.uint8), "vectors": np.zeros((2, 3), np.float64)},
        {"keys": np.zeros((0, 16), np.uint8), "vectors": np.zeros((0, 3), np.float32)},
        {"keys": np.array([{}]), "vectors": np.zeros((1, 3), np.float32)},
        {"keys": text_keys(TEXTS[:1]).view(np.uint8)[None], "vectors": np.full((1, 3), np.nan, np.float32)},
    ],
)
def test_a_file_of_other_content_is_replaced(arrays: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    n_embedded(tmp_path, TEXTS[:1])
    (segment,) = segments(tmp_path)
    np.savez(segment, **arrays)
    assert n_embedded(tmp_path) == 100
    assert n_embedded(tmp_path) == 0


def test_many_small_segments_are_merged(tmp_path: Path) -> None:
    for text in TEXTS:
        assert n_embedded(tmp_path, [text]) == 1
        assert len(segments(tmp_path)) <= 17
    assert n_embedded(tmp_path) == 0


def test_full_segments_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_SEGMENT_BYTES", 500)
    for start in range(0, 100, 4):
        n_embedded(tmp_path, TEXTS[start : start + 4])
    assert len(segments(tmp_path)) == 25
    assert n_embedded(tmp_path) == 0


def test_a_large_set_is_written_in_segments_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_SEGMENT_BYTES", 300)
    n_embedded(tmp_path, batch_size=1)
    assert len(segments(tmp_path)) == 4  # three of 32 texts with 12 bytes each, and the rest
    assert n_embedded(tmp_path) == 0


def test_what_killed_processes_left_is_removed_after_a_day(tmp_path: Path) -> None:
    n_embedded(tmp_path)
    folder = segments(tmp_path)[0].parent
    old, new = folder / temporary_name("old"), folder / temporary_name("new")
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 100_000,) * 2)
    n_embedded(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_cache_that_cannot_be_written_is_one_line_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = Counted()
    with pytest.raises(PaldaError, match="the cache cannot be written: ") as raised:
        TextEmbedding(model, cache=tmp_path / "file").fit(TEXTS)
    assert "\n" not in str(raised.value)
    assert model.n_texts == 0


def test_a_cache_filled_by_a_model_of_another_width_is_one_clear_line(tmp_path: Path) -> None:
    n_embedded(tmp_path, TEXTS[:3])

    class Wider(Counted):
        def encode(self, texts: list[str]) -> NDArray[np.float64]:
            return np.ones((len(texts), 5))

    with pytest.raises(DataError, match="width 5 instead of 3; it is not the one that was fitted, or that the cache"):
        TextEmbedding(Wider(), cache=tmp_path).fit_transform(TEXTS)
