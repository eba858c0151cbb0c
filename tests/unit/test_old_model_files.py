"""Model files of earlier versions predict as they did; ``tests/fixtures/README.md`` says how they were made."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import palda
from palda import CrowdPALDA

FOLDER = Path(__file__).resolve().parents[1] / "fixtures"
FILES = {
    "stacked": FOLDER / "model-0.1.palda",
    "base-rate": FOLDER / "model-0.1-base-rate.palda",
    "plugged-in": FOLDER / "model-0.1-plugged-in.palda",
}
WITHIN = {"rtol": 1e-6, "atol": 1e-9}  # other processors and libraries round differently

pytestmark = [
    pytest.mark.parametrize("kind", FILES),
    pytest.mark.filterwarnings(
        "ignore:Trying to unpickle estimator"
    ),  # scikit-learn, of a later version than the file's
]


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[Any]]:
    with np.load(FOLDER / "model-0.1.npz") as arrays:
        return dict(arrays)


def loaded(kind: str) -> CrowdPALDA:
    model = palda.load(FILES[kind])
    assert isinstance(model, CrowdPALDA)
    return model


def test_the_file_was_written_by_version_0_1(kind: str) -> None:
    with zipfile.ZipFile(FILES[kind]) as archive:
        assert json.loads(archive.read("manifest.json"))["versions"]["palda"] == "0.1.0.dev0"


def test_a_model_file_of_version_0_1_predicts_as_it_did(kind: str, expected: dict[str, NDArray[Any]]) -> None:
    model = loaded(kind)
    for method in ("predict_proba", "transform"):
        found = getattr(model, method)(expected["counts"])
        np.testing.assert_allclose(found, expected[f"{kind}.{method}"], **WITHIN)


def test_a_model_file_of_version_0_1_weighs_new_votes_as_it_did(kind: str, expected: dict[str, NDArray[Any]]) -> None:
    found = loaded(kind).consensus(expected["counts"], expected["votes"])
    np.testing.assert_allclose(found, expected[f"{kind}.consensus"], **WITHIN)


def test_a_model_file_of_version_0_1_keeps_what_was_learned(kind: str, expected: dict[str, NDArray[Any]]) -> None:
    model = loaded(kind)
    assert model.classes_.tolist() == ["arts", "été", "war"]
    assert model.annotators_.tolist() == [f"a{number}" for number in range(6)]
    assert model.doc_ids_.tolist() == [f"doc-{number:02}" for number in range(70)]
    for name in ("consensus_", "thresholds_", "topic_words_", "class_prior_"):
        np.testing.assert_allclose(getattr(model, name), expected[f"{kind}.{name}"], **WITHIN)
    for column in ("quality", "low", "high", "informedness"):
        np.testing.assert_allclose(model.annotator_quality_[column], expected[f"{kind}.{column}"], **WITHIN)


def test_a_model_file_of_version_0_1_reads_new_texts_if_it_keeps_its_words(
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
