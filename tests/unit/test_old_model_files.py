"""Files of version 0.1: models predict as they did, checkpoints are refused. See ``tests/fixtures/README.md``."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import palda
from palda import CrowdPALDA, PaldaError

FOLDER = Path(__file__).resolve().parents[1] / "fixtures"
FILES = {
    "stacked": FOLDER / "model-0.1.palda",
    "base-rate": FOLDER / "model-0.1-base-rate.palda",
    "plugged-in": FOLDER / "model-0.1-plugged-in.palda",
}
WITHIN = {"rtol": 1e-6, "atol": 1e-9}  # other processors and libraries round differently

pytestmark = pytest.mark.filterwarnings("ignore:Trying to unpickle estimator")  # the file has an older scikit-learn
kinds = pytest.mark.parametrize("kind", FILES)


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[Any]]:
    with np.load(FOLDER / "model-0.1.npz") as arrays:
        return dict(arrays)


def loaded(kind: str) -> CrowdPALDA:
    model = palda.load(FILES[kind])
    assert isinstance(model, CrowdPALDA)
    return model


@kinds
def test_the_fixture_was_written_by_version_0_1(kind: str) -> None:
    with zipfile.ZipFile(FILES[kind]) as archive:
        assert json.loads(archive.read("manifest.json"))["versions"]["palda"] == "0.1.0.dev0"


@kinds
def test_a_model_of_version_0_1_predicts_as_it_did(kind: str, expected: dict[str, NDArray[Any]]) -> None:
    model = loaded(kind)
    for method in ("predict_proba", "transform"):
        found = getattr(model, method)(expected["counts"])
        np.testing.assert_allclose(found, expected[f"{kind}.{method}"], **WITHIN)


@kinds
def test_a_model_of_version_0_1_gives_the_same_consensus_of_new_votes(
    kind: str, expected: dict[str, NDArray[Any]]
) -> None:
    found = loaded(kind).consensus(expected["counts"], expected["votes"])
    np.testing.assert_allclose(found, expected[f"{kind}.consensus"], **WITHIN)


@kinds
def test_a_model_of_version_0_1_keeps_its_fitted_attributes(kind: str, expected: dict[str, NDArray[Any]]) -> None:
    model = loaded(kind)
    assert model.classes_.tolist() == ["arts", "été", "war"]
    assert model.annotators_.tolist() == [f"a{number}" for number in range(6)]
    assert model.doc_ids_.tolist() == [f"doc-{number:02}" for number in range(70)]
    for name in ("consensus_", "thresholds_", "topic_words_", "class_prior_"):
        np.testing.assert_allclose(getattr(model, name), expected[f"{kind}.{name}"], **WITHIN)
    for column in ("quality", "low", "high", "informedness"):
        np.testing.assert_allclose(model.annotator_quality_[column], expected[f"{kind}.{column}"], **WITHIN)


@kinds
def test_a_model_of_version_0_1_restores_its_words_texts_and_votes(
    kind: str, expected: dict[str, NDArray[Any]]
) -> None:
    model = loaded(kind)
    if kind != "stacked":
        assert (model.words_, model.texts_, model.votes_) == (None, None, None)
        return
    assert model.words_ is not None
    assert model.texts_ is not None
    assert model.votes_ is not None
    np.testing.assert_array_equal(model.words_.transform(expected["texts"].tolist()).toarray(), expected["counts"])
    np.testing.assert_array_equal(model.vocabulary_, model.words_.get_feature_names_out())
    assert len(model.texts_) == 70
    assert len(model.votes_) == 70 * 3 * 3


@kinds
def test_a_model_of_version_0_1_is_saved_again_under_the_same_array_names(kind: str, tmp_path: Path) -> None:
    loaded(kind).save(tmp_path / "again.palda")
    names = []
    for path in (FILES[kind], tmp_path / "again.palda"):
        with zipfile.ZipFile(path) as archive:
            names.append(sorted(archive.namelist()))
    assert names[0] == names[1]


def test_a_checkpoint_of_version_0_1_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(FOLDER / "checkpoint-0.1", folder)
    model = loaded("stacked")
    assert model.words_ is not None
    assert model.texts_ is not None
    assert model.votes_ is not None
    counts, votes = model.words_.transform(model.texts_.tolist())[:60], model.votes_.take(slice(0, 60))
    same_fit = CrowdPALDA(3, label_prior="base_rate", max_iter=4, random_state=0, n_jobs=1)
    with pytest.raises(PaldaError, match="checkpoint of another version of palda") as refused:
        same_fit.fit(counts, votes, checkpoint=folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)
