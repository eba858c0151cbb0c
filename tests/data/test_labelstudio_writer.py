"""Labels for Label Studio, and what its server makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palda.errors import DataError
from palda.io import Control, labelstudio_prediction, labelstudio_tasks, parse_label_config, read_labelstudio

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = ["crime", "sport"]
PROBS = np.array([[0.9, 0.2], [0.3, 0.05], [0.6, 0.95]])
CONTROL = Control("topics", "article", paths=(("crime",), ("sport",), ("money",)))
TAXONOMY = parse_label_config(
    '<View><Taxonomy name="place" toName="text"><Choice value="Europe"><Choice value="Wales"/></Choice>'
    '<Choice value="and/or"/></Taxonomy></View>'
).control()

# What Label Studio 1.23.2 exports after the import of a ground truth annotation without completed_by.
EXPORTED = {
    "id": 72, "drafts": [], "predictions": [], "data": {"body": "theft", "doc": "d1"}, "meta": {}, "inner_id": 1,
    "annotations": [{
        "id": 184, "completed_by": 1, "was_cancelled": False, "ground_truth": True, "lead_time": None, "prediction": {},
        "created_at": "2026-11-18T02:09:46.103127Z", "updated_at": "2026-11-18T02:09:46.103156Z", "result_count": 0,
        "parent_prediction": None, "parent_annotation": None,
    }],
}  # fmt: skip


def tasks(**options: Any) -> list[dict[str, Any]]:
    return list(labelstudio_tasks(["d1", "d2", "d3"], PROBS, CLASSES, CONTROL, **options))


def test_a_prediction_has_chosen_classes_a_score_and_a_score_per_class() -> None:
    first, second, third = (
        task["predictions"][0] for task in tasks(texts=["theft", "rain", "match"], model_version="v1")
    )
    assert first == {
        "model_version": "v1",
        "score": 0.8,
        "result": [
            {
                "id": "palda-topics", "from_name": "topics", "to_name": "article", "type": "choices",
                "value": {"choices": ["crime"]}, "score": 0.8, "scores": {"crime": 0.9, "sport": 0.2},
            }
        ],
    }  # fmt: skip
    assert second["result"][0]["value"] == {"choices": []}
    assert second["score"] == 0.7
    assert third["result"][0]["value"] == {"choices": ["crime", "sport"]}
    assert third["score"] == 0.6


def test_thresholds_decide_and_the_score_is_that_of_the_least_certain_decision() -> None:
    prediction = labelstudio_prediction({"crime": 0.3, "sport": 0.4}, CONTROL, thresholds={"crime": 0.25, "sport": 0.5})
    assert prediction["result"][0]["value"] == {"choices": ["crime"]}
    assert prediction["score"] == 0.3


def test_new_tasks_have_the_text_and_the_id_as_data() -> None:
    assert tasks(texts=["theft", "rain", "match"], field="body")[1]["data"] == {"body": "rain", "doc": "d2"}


def test_annotations_are_ground_truth_and_uncertain_documents_can_be_left_out() -> None:
    found = tasks(texts=["theft", "rain", "match"], form="annotations", min_score=0.65)
    assert [task["data"]["doc"] for task in found] == ["d1", "d2"]
    assert [task["annotations"][0]["ground_truth"] for task in found] == [True, True]
    assert found[1]["annotations"][0]["result"] == []


def test_without_texts_results_belong_to_tasks_by_number() -> None:
    found = list(labelstudio_tasks(["17"], PROBS[:1], CLASSES, CONTROL))
    assert found[0]["task"] == 17
    assert found[0]["score"] == 0.8
    with pytest.raises(DataError, match="'d1' is not the number of a task"):
        tasks()


def test_choices_of_a_taxonomy_are_written_as_paths() -> None:
    classes = ["Europe/Wales", "and/or"]
    (task,) = labelstudio_tasks(["1"], np.array([[0.9, 0.8]]), classes, TAXONOMY)
    assert task["result"][0]["type"] == "taxonomy"
    assert task["result"][0]["value"] == {"taxonomy": [["Europe", "Wales"], ["and/or"]]}


def test_a_class_that_the_control_does_not_have_is_refused() -> None:
    with pytest.raises(DataError, match=r"'topics' has no such choice: class 'sports' .* did you mean 'sport'"):
        list(labelstudio_tasks(["1"], PROBS[:1], ["crime", "sports"], CONTROL))


def test_what_was_written_is_read_back_as_gold(tmp_path: Path) -> None:
    (written,) = labelstudio_tasks(
        ["d1"], PROBS[:1], CLASSES, CONTROL, texts=["theft"], field="body", form="annotations"
    )
    exported = json.loads(json.dumps(EXPORTED))
    exported["annotations"][0]["result"] = written["annotations"][0]["result"]
    path = tmp_path / "export.json"
    path.write_text(json.dumps([exported]))
    with pytest.warns(UserWarning, match="none of 1 annotations are votes: 1 ground truth"):
        data = read_labelstudio(path, id="doc", classes=CLASSES)
    assert data.doc_ids.tolist() == ["d1"]
    assert data.gold.tolist() == [[1, 0]]
