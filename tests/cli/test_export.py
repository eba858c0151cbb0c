"""``palda export``."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import palda as library
from palda import CrowdPALDA

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Palda, World


@pytest.fixture(scope="module")
def crowd(world: World) -> CrowdPALDA:
    model = library.load(world.model)
    assert isinstance(model, CrowdPALDA)
    return model


@pytest.fixture
def config(tmp_path: Path, crowd: CrowdPALDA) -> Path:
    choices = "".join(f'<Choice value="{name}"/>' for name in crowd.classes_)
    path = tmp_path / "config.xml"
    path.write_text(
        f'<View><Text name="article" value="$body"/><Choices name="topics" toName="article">{choices}</Choices></View>'
    )
    return path


def test_predictions_are_the_consensus_with_a_score_per_class(
    palda: Palda, world: World, crowd: CrowdPALDA, config: Path, tmp_path: Path
) -> None:
    target = tmp_path / "tasks.json"
    arguments = ("export", world.model, "--to", "labelstudio", "--label-config", config, "-o", target)
    assert palda(*arguments).code == 0
    tasks = json.loads(target.read_text())
    assert [task["data"]["doc"] for task in tasks] == crowd.doc_ids_.tolist()
    assert crowd.texts_ is not None
    assert [task["data"]["body"] for task in tasks] == crowd.texts_.tolist()
    items = [task["predictions"][0]["result"][0] for task in tasks]
    np.testing.assert_allclose([list(item["scores"].values()) for item in items], crowd.consensus_, atol=1e-6)
    assert {(item["from_name"], item["to_name"]) for item in items} == {("topics", "article")}
    assert {task["predictions"][0]["model_version"] for task in tasks} == {"model"}
    assert "already exists" in palda(*arguments).error_line
    assert palda(*arguments, "--force", "--model-version", "v2").code == 0
    assert json.loads(target.read_text())[0]["predictions"][0]["model_version"] == "v2"


def test_ground_truth_of_the_certain_documents(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    certain = np.maximum(crowd.consensus_, 1 - crowd.consensus_).min(axis=1)
    level = float(np.median(certain))
    result = palda(
        "export",
        world.model,
        "--to",
        "labelstudio",
        "--as",
        "annotations",
        "--question",
        "topics",
        "--min-score",
        level,
    )
    tasks = json.loads(result.out)
    assert len(tasks) == np.count_nonzero(certain >= level)
    assert all(task["annotations"][0]["ground_truth"] for task in tasks)
    assert "text" in tasks[0]["data"]


def test_new_documents_get_predictions(palda: Palda, world: World, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("doc,text\nn1,the council voted\nn2,the match ended\n")
    result = palda("export", world.model, tmp_path / "new.csv", "--to", "labelstudio", "--question", "topics")
    tasks = json.loads(result.out)
    assert [task["data"] for task in tasks] == [
        {"doc": "n1", "text": "the council voted"},
        {"doc": "n2", "text": "the match ended"},
    ]
    assert palda("export", world.model, tmp_path / "new.csv", "--to", "csv").out.startswith("doc,labels,p_")


def test_tables_have_probabilities_and_numbers_of_votes(palda: Palda, world: World, crowd: CrowdPALDA) -> None:
    rows = list(csv.DictReader(io.StringIO(palda("export", world.model, "--to", "csv").out)))
    names = crowd.classes_.tolist()
    assert list(rows[0]) == [
        "doc", "labels", *(f"{kind}_{name}" for kind in ("p", "n_votes", "n_present") for name in names),
    ]  # fmt: skip
    assert crowd.votes_ is not None
    counts = [[int(row[f"n_present_{name}"]) for name in names] for row in rows]
    np.testing.assert_array_equal(counts, crowd.votes_.yes_per_pair())
    lines = palda("export", world.model, "--to", "jsonl").out.splitlines()
    assert json.loads(lines[0])["n_votes"] == dict(zip(names, crowd.votes_.per_pair()[0].tolist(), strict=True))


def test_what_cannot_be_exported_is_one_clear_line(palda: Palda, world: World, config: Path) -> None:
    to = ("export", world.model, "--to")
    assert "pass --label-config FILE, or --question NAME" in palda(*to, "labelstudio").error_line
    assert (
        "'news-0001' is not the number of a task"
        in palda(*to, "labelstudio", "--label-config", config, "--existing").error_line
    )
    config.write_text(config.read_text().replace('value="crime"', 'value="offences"'))
    assert "has no such choice: class 'crime'" in palda(*to, "labelstudio", "--label-config", config).error_line
    config.write_text("<!DOCTYPE a><View/>")
    assert "has no document type" in palda(*to, "labelstudio", "--label-config", config).error_line
    for wrong in (("jsonl", "--spreadsheet-safe"), ("csv", "--question", "topics"), ("xml",)):
        assert palda(*to, *wrong).code == 2


def test_a_model_without_texts_needs_existing_tasks(palda: Palda, world: World, tmp_path: Path) -> None:
    model = tmp_path / "m.palda"
    fitting = ("--topics", 2, "--label-prior", "base_rate", "--jobs", 1, "--quiet", "--no-texts")
    assert palda("fit", world.documents, world.votes, "-o", model, *fitting).code == 0
    assert (
        "has no texts for new tasks; pass --existing"
        in palda("export", model, "--to", "labelstudio", "--question", "topics").error_line
    )
