"""The options of the command line for Label Studio files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Palda

CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topics" toName="text" choice="multiple">'
    '<Choice value="crime"/><Choice value="money"/><Choice value="sport"/></Choices></View>'
)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of imported annotations, all of them ground truth; nobody chose money."""

    def annotation(who: int, name: str) -> dict[str, Any]:
        result = {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": [name]}}
        return {"completed_by": who, "ground_truth": True, "was_cancelled": False, "result": [result]}

    tasks = [
        {"id": n, "data": {"text": f"story {n} of ships"}, "annotations": [annotation(1, "crime"), annotation(2, name)]}
        for n, name in enumerate(("crime", "sport"))
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    return path


def test_imported_annotations_are_votes_with_a_warning_in_terms_of_options(palda: Palda, export: Path) -> None:
    result = palda("aggregate", export, "--json")
    assert result.code == 0
    assert "warning: export.json: 4 annotations marked as ground truth were read as votes" in result.err
    assert "pass --ground-truth votes or --ground-truth gold to choose" in result.err


def test_ground_truth_can_be_votes_or_gold(palda: Palda, export: Path) -> None:
    assert "warning" not in palda("aggregate", export, "--json", "--ground-truth", "votes").err
    result = palda("aggregate", export, "--json", "--ground-truth", "gold")
    assert result.code == 1
    assert "contradicts an earlier one on class 'crime'" in result.err


def test_gold_of_an_export_is_gold_for_aggregate(palda: Palda, export: Path) -> None:
    tasks = json.loads(export.read_text())
    for task in tasks:
        task["annotations"][1]["ground_truth"] = False
    export.write_text(json.dumps(tasks))
    records = json.loads(palda("aggregate", export, "--json").out)
    assert [record["labels"] for record in records] == [["crime"], ["crime"]]


def test_gold_alone_is_refused_with_the_option_that_helps(palda: Palda, export: Path) -> None:
    tasks = json.loads(export.read_text())
    for task in tasks:
        del task["annotations"][1]
    export.write_text(json.dumps(tasks))
    for command in (("aggregate", export), ("fit", export, "-o", export.with_name("m.palda"))):
        result = palda(*command)
        assert result.code == 1
        assert (
            "none of 2 annotations are votes: 2 ground truth; pass --ground-truth votes if they are votes" in result.err
        )
        assert "only gold labels" in result.err.splitlines()[-1]


@pytest.mark.parametrize("command", ["aggregate", "fit", "shard"])
def test_the_label_config_names_the_classes(palda: Palda, export: Path, tmp_path: Path, command: str) -> None:
    config = tmp_path / "config.xml"
    config.write_text(CONFIG)
    output = tmp_path / ("out.json" if command == "aggregate" else "out")
    fitting = ("--topics", 1, "--label-prior", "base_rate", "--jobs", 1, "--min-count", 1) if command == "fit" else ()
    result = palda(
        command, export, "-o", output, "--label-config", config, "--ground-truth", "votes", *fitting,
        *(("--json",) if command != "aggregate" else ()), "--quiet",
    )  # fmt: skip
    assert result.code == 0, result.err
    if command == "aggregate":
        assert list(json.loads(output.read_text())[0]["probabilities"]) == ["crime", "money", "sport"]
    else:
        assert json.loads(result.out)["classes"] in (["crime", "money", "sport"], 3)


def test_predictions_can_be_votes_and_prelabelled_annotations_left_out(
    palda: Palda, export: Path, tmp_path: Path
) -> None:
    tasks = json.loads(export.read_text())
    for task in tasks:
        result = task["annotations"][0]["result"]
        task["predictions"] = [{"id": 3, "model_version": "bert-2", "score": 0.75, "result": result}]
        task["annotations"][0]["parent_prediction"] = 3
    export.write_text(json.dumps(tasks))
    people = tmp_path / "people.json"
    votes = ("aggregate", export, "--ground-truth", "votes", "--annotators-output", people, "--force", "--json")
    result = palda(*votes)
    assert "2 annotations started from a prediction" in result.err
    assert "pass --prelabelled drop to leave them out" in result.err
    result = palda(*votes, "--predictions", "votes", "--prelabelled", "separate")
    assert result.code == 0
    assert "warning" not in result.err
    assert {row["annotator"] for row in json.loads(people.read_text())} == {"1 (pre-labelled)", "2", "bert-2"}
    assert palda(*votes, "--prelabelled", "drop").code == 0
    assert {row["annotator"] for row in json.loads(people.read_text())} == {"2"}
