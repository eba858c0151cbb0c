"""Files of earlier versions: models predict as they did, checkpoints are refused. See ``tests/fixtures/README.md``."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import palda
from palda import CrowdPALDA, PaldaError, Votes
from palda.estimators import ModelFileError, load_state, save_state

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


class TestEffectsOnRates:
    """A file whose annotator model is no longer fitted keeps its rates and their priors."""

    path = FOLDER / "model-0.2-effects.palda"

    @pytest.fixture
    def model(self) -> CrowdPALDA:
        model = palda.load(self.path)
        assert isinstance(model, CrowdPALDA)
        return model

    @pytest.fixture
    def found(self) -> dict[str, NDArray[Any]]:
        with np.load(FOLDER / "model-0.2-effects.npz") as arrays:
            return dict(arrays)

    @pytest.mark.parametrize("again", [False, True])
    def test_probabilities_and_qualities_are_those_of_the_file(
        self,
        model: CrowdPALDA,
        found: dict[str, NDArray[Any]],
        expected: dict[str, NDArray[Any]],
        tmp_path: Path,
        *,
        again: bool,
    ) -> None:
        if again:
            model.save(tmp_path / "again.palda")
            model = palda.load(tmp_path / "again.palda")  # type: ignore[assignment]
        np.testing.assert_allclose(model.predict_proba(expected["counts"]), found["predict_proba"], **WITHIN)
        np.testing.assert_allclose(model.consensus(expected["counts"], expected["votes"]), found["consensus"], **WITHIN)
        np.testing.assert_allclose(model.consensus_, found["consensus_"], **WITHIN)
        for column in ("quality", "low", "high", "informedness"):
            np.testing.assert_allclose(model.annotator_quality_[column], found[column], atol=5e-3)

    def test_votes_that_are_withdrawn_leave_no_trace(self, model: CrowdPALDA) -> None:
        before, doc = model.annotator_quality_, model.doc_ids_[0]
        rows = {"doc": doc, "annotator": "new", "label": model.classes_}
        model.update(pd.DataFrame({**rows, "value": 1}))
        assert (model.consensus_[0] > 0).all()
        assert model.annotator_quality_["n_votes"].tolist()[-1] == 3
        model.update(pd.DataFrame({**rows, "value": np.nan}))
        np.testing.assert_allclose(model.annotator_quality_["quality"][:-1], before["quality"], atol=1e-4)

    def test_later_votes_change_rates_and_labels(
        self, model: CrowdPALDA, expected: dict[str, NDArray[Any]], tmp_path: Path
    ) -> None:
        n_votes = model.annotator_quality_["n_votes"].sum()
        model.partial_fit(expected["counts"], expected["votes"])
        assert model.annotator_quality_["n_votes"].sum() == n_votes + (expected["votes"] >= 0).sum()
        assert len(model.consensus_) == 76
        model.update(documents="all")
        rates = model.annotator_rates_by_class_
        assert (rates["sensitivity_low"] < rates["sensitivity"]).all()
        model.save(tmp_path / "later.palda")
        later = palda.load(tmp_path / "later.palda")
        np.testing.assert_array_equal(later.annotator_quality_["quality"], model.annotator_quality_["quality"])

    def test_an_adversary_in_later_votes_is_found(self, model: CrowdPALDA) -> None:
        counts = np.random.default_rng(0).poisson(0.5, (60, 24))
        labels = np.random.default_rng(1).integers(0, 2, (60, 1, 3))
        votes = np.concatenate((np.repeat(labels, 3, axis=1), 1 - labels), axis=1)
        names = {"annotators": [*model.annotators_[:3], "liar"], "classes": model.classes_}
        model.partial_fit(counts, Votes.from_array(votes, doc_ids=[f"new {d}" for d in range(60)], **names))
        assert model.annotator_quality_["verdict"].iloc[-1] == "adversarial"

    def test_a_new_fit_has_the_model_of_today(self, model: CrowdPALDA, expected: dict[str, NDArray[Any]]) -> None:
        fresh = CrowdPALDA(**model.get_params()).fit(expected["counts"], expected["votes"])
        refitted = model.fit(expected["counts"], expected["votes"])
        np.testing.assert_array_equal(refitted.consensus_, fresh.consensus_)

    def test_beliefs_without_effects_and_priors_are_refused(self, model: CrowdPALDA, tmp_path: Path) -> None:
        model.save(tmp_path / "again.palda")
        arrays, state, _ = load_state(tmp_path / "again.palda")
        del arrays["annotators.kept.prior"]
        save_state(tmp_path / "damaged.palda", arrays, state)
        with pytest.raises(ModelFileError, match="another annotator model"):
            palda.load(tmp_path / "damaged.palda")


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
