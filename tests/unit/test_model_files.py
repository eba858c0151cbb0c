"""Model files: saving and loading, damaged files."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import palda
from palda import PALDA, CrowdPALDA, simulate
from palda.data import ArraySpec
from palda.estimators import FORMAT_VERSION, ModelFileError, load_state, save_state

WORLD = simulate.documents(30, 3, 3, 20, seed=1, doc_length=15)
X = WORLD.corpus.counts
VOTES, _ = simulate.crowd(WORLD, [0.9, 0.8, 0.7], seed=1, votes_per_doc=2)
QUICK = {"n_topics": 3, "tol": 1e-2, "random_state": 0, "n_jobs": 1}


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def fitted(kind: str, *, smoothing: bool) -> PALDA | CrowdPALDA:
    if kind == "crowd":
        return CrowdPALDA(**QUICK, smoothing=smoothing).fit(X, VOTES)
    names = ["war", "été", "a b"] if kind == "named" else None
    return PALDA(**QUICK, smoothing=smoothing).fit(X, pd.DataFrame(WORLD.labels, columns=names))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model.palda"
    fitted("named", smoothing=True).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("smoothing", [False, True])
@pytest.mark.parametrize("kind", ["numbered", "named", "crowd"])
def test_loaded_model_equals_saved_model_bit_by_bit(tmp_path: Path, kind: str, smoothing: bool) -> None:
    model = fitted(kind, smoothing=smoothing)
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params() | {"n_jobs": None}  # files do not say how work is done
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.classes_.dtype == model.classes_.dtype
    for name in ("lower_bounds_", "topic_words_", "topic_prior_", "class_prior_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("n_iter_", "converged_", "lower_bound_", "worst_fall_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    if isinstance(model, CrowdPALDA):
        assert isinstance(loaded, CrowdPALDA)
        np.testing.assert_array_equal(loaded.consensus_, model.consensus_)
        pd.testing.assert_frame_equal(loaded.annotator_quality_, model.annotator_quality_)


def test_out_of_fold_probabilities_are_saved_in_single_precision(tmp_path: Path) -> None:
    world = simulate.documents(60, 3, 3, 20, seed=1, doc_length=15)
    votes, _ = simulate.crowd(world, [0.9, 0.8, 0.7], seed=1, votes_per_doc=2)
    model = CrowdPALDA(**QUICK, label_prior="words").fit(world.corpus.counts, votes)
    model.save(tmp_path / "model")
    loaded = palda.load(tmp_path / "model")
    assert loaded.out_of_fold_probs_.dtype == np.float64
    np.testing.assert_array_equal(loaded.out_of_fold_probs_, model.out_of_fold_probs_.astype(np.float32))
    arrays, state, _ = load_state(tmp_path / "model")
    found = arrays.pop("out_of_fold_probs")
    save_state(tmp_path / "older", arrays, state)
    assert not hasattr(palda.load(tmp_path / "older"), "out_of_fold_probs_")
    save_state(tmp_path / "wrong", arrays | {"out_of_fold_probs": found[1:]}, state)
    with pytest.raises(ModelFileError, match="out_of_fold_probs"):
        palda.load(tmp_path / "wrong")
    assert isinstance(loaded, CrowdPALDA)
    loaded.set_params(label_prior="base_rate").fit(world.corpus.counts, votes)
    assert not hasattr(loaded, "out_of_fold_probs_")  # those of the earlier fit are dropped


def test_loaded_model_can_be_saved_and_fitted_again(tmp_path: Path) -> None:
    fitted("named", smoothing=True).save(tmp_path / "one")
    loaded = palda.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    np.testing.assert_array_equal(palda.load(tmp_path / "two").predict_proba(X), loaded.predict_proba(X))
    assert isinstance(loaded, PALDA)
    loaded.fit(X, WORLD.labels)


@pytest.mark.parametrize(
    "settings_given",
    [
        {"random_state": np.random.RandomState(0)},
        {"random_state": np.int64(3)},
        {"n_topics": np.int64(3)},
        {"tol": np.float64(1e-2)},
        {"smoothing": np.bool_(False)},
        {"verbose": np.bool_(False)},
    ],
)
def test_numpy_scalars_as_parameters_can_be_saved(tmp_path: Path, settings_given: dict[str, object]) -> None:
    model = PALDA(**(QUICK | settings_given)).fit(X, WORLD.labels)
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_feature_names_survive_save_and_load(tmp_path: Path) -> None:
    frame = pd.DataFrame(X.toarray(), columns=[f"word{k}" for k in range(X.shape[1])])
    model = PALDA(**QUICK).fit(frame, WORLD.labels)
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))


def test_versions_are_recorded(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(saved)
    versions = load_state(tmp_path / "m").versions
    assert versions["numpy"] == np.__version__
    assert set(versions) == {"palda", "numpy", "python"}


def test_arrays_and_state_survive_save_and_load(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3)[:, ::-1], "none": np.zeros((0, 4)), "whole": np.array(3)}
    save_state(tmp_path / "s", arrays, {"text": "ü", "list": [1, None, True]})
    schema = {"a": ArraySpec((2, 3)), "none": ArraySpec(("rows", 4)), "whole": ArraySpec((), "integer")}
    back = load_state(str(tmp_path / "s"), lambda _: (schema, {}))
    assert back.state == {"text": "ü", "list": [1, None, True]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].shape == array.shape


# Writing: completely or not at all.


class DiskFullError(OSError):
    def __init__(self) -> None:
        super().__init__(28, "No space left on device")


def full_disk(*_: object) -> None:
    raise DiskFullError


def test_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model.palda"
    save_state(target, {"a": np.ones(3)}, {})
    before = target.read_bytes()
    for owner, name in ((zipfile.ZipFile, "writestr"), (os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, full_disk)
            with pytest.raises(ModelFileError, match=r"model\.palda: cannot be written: No space left"):
                save_state(target, {"a": np.zeros(3)}, {})
        assert target.read_bytes() == before
        assert names_in(tmp_path) == ["model.palda"]


def test_ctrl_c_while_writing_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_state(tmp_path / "model.palda", {"a": np.ones(3)}, {})
    assert names_in(tmp_path) == []


def test_state_that_is_no_json_keeps_the_old_file(tmp_path: Path) -> None:
    save_state(tmp_path / "m", {}, {"good": 1})
    with pytest.raises(TypeError):
        save_state(tmp_path / "m", {}, {"bad": object()})
    assert load_state(tmp_path / "m", lambda _: ({}, {})).state == {"good": 1}
    assert names_in(tmp_path) == ["m"]


def test_missing_target_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"nowhere/model\.palda: cannot be written: No such file"):
        save_state(tmp_path / "nowhere" / "model.palda", {}, {})


def test_folder_as_target_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.palda").mkdir()
    with pytest.raises(ModelFileError, match="cannot be written"):
        save_state(tmp_path / "model.palda", {}, {})
    assert names_in(tmp_path) == ["model.palda"]


# Reading: errors are one line, and nothing is executed.


def assert_refused(path: Path, says: str | None = None) -> None:
    with pytest.raises(ModelFileError, match=says) as caught:
        palda.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))


def test_missing_files_folders_and_other_formats_are_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "nothing", "there is no such file")
    assert_refused(tmp_path, "cannot be read")
    (tmp_path / "text").write_text("hello")
    assert_refused(tmp_path / "text", "is not a palda model")
    (tmp_path / "empty").write_bytes(b"")
    assert_refused(tmp_path / "empty", "is not a palda model")
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("readme.txt", "another zip file")
    assert_refused(tmp_path / "foreign.zip", "no manifest.json")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    assert_refused(tmp_path / "arrays.npz", "no manifest.json")


def test_truncated_files_are_refused(tmp_path: Path, saved: bytes) -> None:
    path = tmp_path / "short"
    for length in [*range(0, len(saved), 97), *range(len(saved) - 40, len(saved))]:
        path.write_bytes(saved[:length])
        assert_refused(path)


@settings(
    deadline=None, max_examples=250, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_altered_bytes_are_refused_or_have_no_effect(tmp_path: Path, saved: bytes, data: st.DataObject) -> None:
    """Only bytes without effect (time stamps, attributes) may change."""
    damaged = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(saved) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(bytes(damaged))
    try:
        loaded = palda.load(path)
    except ModelFileError as refused:
        assert "\n" not in str(refused)
        return
    (tmp_path / "whole").write_bytes(saved)
    np.testing.assert_array_equal(loaded.predict_proba(X), palda.load(tmp_path / "whole").predict_proba(X))


@settings(
    deadline=None, max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bytes").write_bytes(content)
    assert_refused(tmp_path / "bytes")


Manifest = dict[str, object]


def rewritten(saved: bytes, path: Path, change: Callable[[Manifest], object], drop: str = "") -> Path:
    """The same file with a changed manifest, or without one of its members."""
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                changed = change(manifest)
                content = json.dumps(manifest if changed is None else changed).encode()
            if name != drop:
                new.writestr(name, content)
    return path


def test_a_file_cannot_choose_the_engine(tmp_path: Path, saved: bytes) -> None:
    def add_scheduler(manifest: Manifest) -> None:
        manifest["state"]["settings"]["engine"] = "tcp://127.0.0.1:1"  # type: ignore[index]

    model = palda.load(rewritten(saved, tmp_path / "model.palda", add_scheduler))
    assert model.engine is None


def test_newer_format_version_advises_an_upgrade(tmp_path: Path, saved: bytes) -> None:
    path = rewritten(saved, tmp_path / "new", lambda m: m.update(format_version=FORMAT_VERSION + 1))
    assert_refused(path, "pip install --upgrade palda")


@pytest.mark.parametrize("version", [None, "1", 1.5, True, 0, -1, []])
def test_invalid_format_versions_are_refused(tmp_path: Path, saved: bytes, version: object) -> None:
    assert_refused(rewritten(saved, tmp_path / "odd", lambda m: m.update(format_version=version)), "version")


@pytest.mark.parametrize("name", ["topic_prior", "topic_words", "class_prior", "word_counts", "lower_bounds"])
def test_missing_array_is_named(tmp_path: Path, saved: bytes, name: str) -> None:
    assert_refused(rewritten(saved, tmp_path / "less", lambda _: None, drop=f"{name}.npy"), name)


@pytest.mark.parametrize("name", ["topic_prior", "topic_words", "class_prior", "lower_bounds"])
def test_array_missing_from_the_manifest_is_refused(tmp_path: Path, saved: bytes, name: str) -> None:
    def drop_array(manifest: Manifest) -> None:
        manifest["arrays"].pop(name)  # type: ignore[attr-defined]

    assert_refused(rewritten(saved, tmp_path / "less", drop_array), "not a complete model")


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        "text",
        None,
        {},
        {"format": "palda-model"},
        {"format": "palda-model", "format_version": 1, "arrays": [], "state": {}, "versions": {}},
        {"format": "palda-model", "format_version": 1, "arrays": {}, "state": {}, "versions": {}},
        {"format": "palda-model", "format_version": 1, "arrays": {"../x": 5}, "state": {}, "versions": {}},
    ],
)
def test_invalid_manifests_are_refused(tmp_path: Path, saved: bytes, manifest: object) -> None:
    path = tmp_path / "odd"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    assert_refused(path)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_manifest_that_is_no_json_is_refused(tmp_path: Path, raw: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "odd", "w") as archive:
        archive.writestr("manifest.json", raw)
    assert_refused(tmp_path / "odd", "manifest is damaged")


@pytest.mark.parametrize(
    "state",
    [
        {"estimator": "os.system"},
        {"estimator": ["PALDA"]},
        {"settings": {"unheard_of": 1}},
        {"settings": [1]},
        {"classes": 5},
        {"classes": ["a", "b"]},
        {"feature_names": ["one", "two"]},
        {"lower_bound": "low"},
    ],
)
def test_invalid_state_is_refused(tmp_path: Path, saved: bytes, state: Manifest) -> None:
    path = rewritten(saved, tmp_path / "odd", lambda m: m["state"].update(state))  # type: ignore[attr-defined]
    assert_refused(path, "not a complete model")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("topic_prior", np.ones(3)),
        ("topic_prior", np.ones((3, 2, 4))),
        ("topic_words", np.ones((3, 19))),
        ("class_prior", np.ones(4)),
        ("word_counts", np.ones((1, 1))),
        ("topic_words", np.array([["a"]])),
        ("word_prior", np.ones(3)),
        ("class_prior", np.array([np.nan, 0.5, 0.5])),
    ],
)
def test_arrays_of_inconsistent_shapes_are_refused(tmp_path: Path, saved: bytes, name: str, array: np.ndarray) -> None:
    (tmp_path / "m").write_bytes(saved)
    _, state, _ = whole = load_state(tmp_path / "m")
    save_state(tmp_path / "odd", whole.arrays | {name: array}, state)
    assert_refused(tmp_path / "odd", "not a complete model")


def test_exchanged_array_is_refused(tmp_path: Path, saved: bytes) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([0.1, 0.2, 0.3]))
    path = rewritten(saved, tmp_path / "odd", lambda _: None, drop="class_prior.npy")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("class_prior.npy", buffer.getvalue())
    assert_refused(path, "'class_prior' was altered")


class Payload:
    executed = False

    def __reduce__(self) -> tuple[object, ...]:
        return setattr, (Payload, "executed", True)


def test_pickles_in_a_file_are_refused_and_not_executed(tmp_path: Path, saved: bytes) -> None:
    import hashlib

    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload()], dtype=object), allow_pickle=True)
    for blob in (buffer.getvalue(), pickle.dumps(Payload())):
        path = tmp_path / "payload"
        with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
            manifest = json.loads(old.read("manifest.json"))
            manifest["arrays"]["class_prior"] = hashlib.sha256(blob).hexdigest()
            new.writestr("manifest.json", json.dumps(manifest))
            for name in manifest["arrays"]:
                new.writestr(f"{name}.npy", blob if name == "class_prior" else old.read(f"{name}.npy"))
        assert_refused(path, "class_prior")
    assert not Payload.executed


def test_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        PALDA().save(tmp_path / "model.palda")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("names", ["annotators", "doc_ids", "classes"])
def test_half_of_a_surrogate_pair_in_a_name_is_refused(tmp_path: Path, names: str) -> None:
    path = tmp_path / "model.palda"
    fitted("crowd", smoothing=True).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    manifest["state"][names][0] = "\ud800"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.json": json.dumps(manifest).encode()}).items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match=f"'{names}' of .* half of a surrogate pair"):
        palda.load(path)


def test_a_damaged_member_name_of_any_length_gives_a_message_of_usual_length(tmp_path: Path, saved: bytes) -> None:
    place = saved.index(b"PK\x03\x04", 40) + 26  # length of the second member's name
    (tmp_path / "model.palda").write_bytes(saved[:place] + (3000).to_bytes(2, "little") + saved[place + 2 :])
    with pytest.raises(ModelFileError) as caught:
        palda.load(tmp_path / "model.palda")
    assert len(str(caught.value)) < 500
