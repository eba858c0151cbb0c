"""Models as annotators: predictions in Label Studio exports, and annotations that started from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import palda
from palda.errors import DataError, PaldaWarning
from palda.io import Control, labelstudio_prediction
from palda.io.exports.labelstudio.predictions import model_family

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset


def result(*names: Any, **others: Any) -> dict[str, Any]:
    return {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": list(names)}} | others


def annotation(who: Any, *names: str, **changes: Any) -> dict[str, Any]:
    stated = {"id": 5, "completed_by": who, "result": [result(*names)], "ground_truth": False, "prediction": {}}
    return stated | changes


def prediction(number: int, version: str | None, *results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"id": number, "model_version": version, "result": list(results), "score": None} | changes


def save(folder: Path, *tasks: tuple[list[Any], list[Any]]) -> Path:
    """An export whose tasks have these annotations and predictions."""
    records = [
        {"id": number, "annotations": annotations, "predictions": predictions, "data": {"text": f"story {number}"}}
        for number, (annotations, predictions) in enumerate(tasks, start=1)
    ]
    path = folder / "export.json"
    path.write_text(json.dumps(records))
    return path


def stated(data: Dataset, annotator: str) -> dict[str, tuple[int, float | None]]:
    """Value and stated probability per class of the votes of an annotator on the first document."""
    votes = data.votes
    mine = (votes.annotator == votes.annotators.tolist().index(annotator)) & (votes.doc == 0)
    probability = votes.probability if len(votes.probability) else np.full(len(votes), np.nan)
    return {
        str(votes.classes[label]): (int(value), None if np.isnan(p) else round(float(p), 4))
        for label, value, p in zip(votes.label[mine], votes.value[mine], probability[mine], strict=True)
    }


def traits(data: Dataset) -> dict[str, tuple[str, str]]:
    names, kinds, families = data.votes.annotators, data.votes.annotator_kinds, data.votes.annotator_families
    return {str(name): (str(kind), str(family)) for name, kind, family in zip(names, kinds, families, strict=True)}


def test_a_prediction_is_the_vote_of_its_model_version(tmp_path: Path) -> None:
    full = labelstudio_prediction({"crime": 0.9, "sport": 0.2}, Control("topics", "text"), model_version="palda-1")
    path = save(tmp_path, ([annotation("ann", "sport")], [{"id": 7} | full]))
    data = palda.read(path, predictions="votes")
    assert stated(data, "palda-1") == {"crime": (1, 0.9), "sport": (0, 0.2)}
    assert stated(data, "ann") == {"crime": (0, None), "sport": (1, None)}
    assert traits(data) == {"ann": ("person", ""), "palda-1": ("model", "palda")}


def test_predictions_are_not_read_by_default(tmp_path: Path) -> None:
    data = palda.read(save(tmp_path, ([annotation("ann", "sport")], [prediction(7, "m", result("crime"))])))
    assert data.classes.tolist() == ["sport"]
    assert len(data.votes.annotator_kinds) == 0


def test_the_score_is_the_confidence_in_the_chosen_classes(tmp_path: Path) -> None:
    both = prediction(1, "both", result("crime", "law", score=0.7), score=0.3)
    each = prediction(2, "each", result("crime", score=0.9), result("law", score=0.6))
    whole = prediction(3, "whole", result("crime"), score=0.8)
    hard = prediction(4, None, result("crime"))
    data = palda.read(save(tmp_path, ([annotation("ann", "sport")], [both, each, whole, hard])), predictions="votes")
    assert stated(data, "both") == {"crime": (1, 0.7), "law": (1, 0.7), "sport": (0, None)}
    assert stated(data, "each") == {"crime": (1, 0.9), "law": (1, 0.6), "sport": (0, None)}
    assert stated(data, "whole") == {"crime": (1, 0.8), "law": (0, None), "sport": (0, None)}
    assert stated(data, "unnamed model") == {"crime": (1, None), "law": (0, None), "sport": (0, None)}


def test_scores_make_judgements_even_of_partial_lists(tmp_path: Path) -> None:
    full = labelstudio_prediction({"crime": 0.9, "sport": 0.2}, Control("topics", "text"), model_version="m")
    path = save(tmp_path, ([annotation("ann", "law")], [full]))
    data = palda.read(path, predictions="votes", partial=True)
    assert stated(data, "m") == {"crime": (1, 0.9), "sport": (0, 0.2)}


def test_a_prediction_without_an_answer_is_an_abstention(tmp_path: Path) -> None:
    path = save(tmp_path, ([annotation("ann", "law")], [prediction(1, "m")]))
    data = palda.read(path, predictions="votes")
    assert data.votes.abstained.tolist() == [[0, 1]]


def test_scores_that_are_no_probabilities_are_reported(tmp_path: Path) -> None:
    path = save(tmp_path, ([annotation("ann", "law")], [prediction(1, "m", result("law", score=3.2))]))
    with pytest.warns(PaldaWarning, match="scores of 1 predictions are not between 0 and 1"):
        data = palda.read(path, predictions="votes")
    assert stated(data, "m") == {"law": (1, None)}


def test_ids_of_predictions_alone_are_not_enough(tmp_path: Path) -> None:
    path = save(tmp_path, ([annotation("ann", "law")], [7, 8]))
    with pytest.raises(DataError, match="has only the ids of 2 predictions; export a snapshot with full predictions"):
        palda.read(path, predictions="votes")
    stored = prediction(7, "m", result("law"), score=0.9)
    path = save(tmp_path, ([annotation("ann", "law", prediction=stored)], [7, 8]))
    with pytest.warns(PaldaWarning, match="of 1 predictions there are only the ids"):
        data = palda.read(path, predictions="votes", prelabelled="keep")
    assert stated(data, "m") == {"law": (1, 0.9)}


def test_a_model_and_a_person_of_one_name_are_two_annotators(tmp_path: Path) -> None:
    path = save(tmp_path, ([annotation(1, "law")], [prediction(1, "1", result("law"))]))
    assert traits(palda.read(path, predictions="votes")) == {"1": ("person", ""), "1 (model)": ("model", "1")}


@pytest.mark.parametrize(
    ("version", "family"),
    [
        ("news-bert-v1.2", "news-bert"), ("news-bert-v2", "news-bert"), ("palda_3", "palda"), ("palda", "palda"),
        ("gpt-4o-2024-08-06", "gpt-4o"), ("llama3", "llama"), ("17", "17"), ("", ""),
        ("claude-3-opus", "claude-3-opus"),
    ],
)  # fmt: skip
def test_the_family_is_the_name_without_the_version_number(version: str, family: str) -> None:
    assert model_family(version) == family


# Annotations that started from a prediction

STARTED = annotation("ann", "law", parent_prediction=7)
SHOWN = annotation("ann", "law", prediction=prediction(9, "other-3", result("law")))
OWN = annotation("ann", "law")


def prelabelled(folder: Path) -> Path:
    model = prediction(7, "bert-2", result("law"))
    return save(folder, ([STARTED], [model]), ([SHOWN], []), ([OWN], []), ([annotation("bob", "law")], []))


def test_annotations_that_started_from_a_prediction_cause_a_warning_with_their_number(tmp_path: Path) -> None:
    with pytest.warns(PaldaWarning, match="1 annotations started from a prediction and 1 more were made while"):
        data = palda.read(prelabelled(tmp_path))
    assert len(data.votes) == 4
    assert len(palda.read(prelabelled(tmp_path), prelabelled="keep").votes) == 4  # no warning


def test_they_can_be_left_out(tmp_path: Path) -> None:
    data = palda.read(prelabelled(tmp_path), prelabelled="drop")
    assert data.votes.doc.tolist() == [2, 3]


def test_they_can_be_annotators_of_their_own_in_the_family_of_the_model(tmp_path: Path) -> None:
    data = palda.read(prelabelled(tmp_path), prelabelled="separate")
    assert traits(data) == {
        "ann": ("person", ""),
        "ann (pre-labelled)": ("person", "bert"),
        "bob": ("person", ""),
    }
    assert data.votes.per_annotator().tolist() == [1, 2, 1]


def test_tables_have_neither_predictions_nor_their_marks(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("id,text,topics,annotator,annotation_id,lead_time\n1,a story,sport,1,7,2.5\n")
    for options in ({"predictions": "votes"}, {"prelabelled": "drop"}):
        with pytest.raises(DataError, match="needs an export in the format JSON"):
            palda.read(path, **options)


def test_times_of_votes_are_those_of_annotations(tmp_path: Path) -> None:
    dated = annotation("ann", "law", created_at="1970-01-01T00:01:00Z", updated_at="1970-01-01T00:02:00Z")
    data = palda.read(save(tmp_path, ([dated, annotation("bob", "law")], [])))
    assert data.votes.time.tolist()[0] == 120.0
    assert np.isnan(data.votes.time[1])


def test_imported_annotations_have_no_time_of_their_own(tmp_path: Path) -> None:
    dated = annotation("ann", "law", updated_at="2026-11-16T16:05:55Z", ground_truth=True)
    path = save(tmp_path, ([dated, dated | {"completed_by": "bob"}], []))
    assert len(palda.read(path, ground_truth="votes").votes.time) == 0
    later = annotation("ann", "sport", updated_at="2026-11-17T16:05:55Z")
    data = palda.read(save(tmp_path, ([dated, later, dated | {"completed_by": "bob"}], [])), ground_truth="votes")
    assert stated(data, "ann") == {"law": (0, None), "sport": (1, None)}  # the latest
