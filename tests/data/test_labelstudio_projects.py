"""Exports of real projects: imported annotations, label configs, and files of which little can be used."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import palda
from palda.errors import DataError, PaldaWarning
from palda.io import parse_label_config, read_label_config, read_labelstudio

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """<View>
  <!-- the article, then two questions -->
  <Header value="What is it about?"/>
  <Text name="article" value="$body"/>
  <Choices name="topics" toName="article" choice="multiple">
    <Choice value="sport"/><Choice value="crime"/><Choice value="weather" alias="wx"/>
  </Choices>
  <Taxonomy name="place" toName="article"><Choice value="Europe"><Choice value="Wales"/></Choice></Taxonomy>
</View>"""
TOPICS = ("sport", "crime", "wx")


def result(*names: Any, control: str = "topics", kind: str = "choices", **others: Any) -> dict[str, Any]:
    return {"from_name": control, "to_name": "text", "type": kind, "value": {kind: list(names)}} | others


def annotation(who: Any, *results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"id": 5, "completed_by": who, "result": list(results), "ground_truth": False} | changes


def imported(who: int, *names: str) -> dict[str, Any]:
    """An annotation as import through the API leaves it."""
    return annotation(who, result(*names), ground_truth=True, was_cancelled=False, lead_time=None, prediction={})


def save(folder: Path, *annotations: list[dict[str, Any]], **data: Any) -> Path:
    """An export whose tasks have these annotations."""
    tasks = [
        {"id": number, "annotations": of_task, "predictions": [number], "data": data or {"text": f"story {number}"}}
        for number, of_task in enumerate(annotations, start=1)
    ]
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    return path


def config_file(folder: Path, text: str = CONFIG, name: str = "config.xml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problem(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        palda.read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Ground truth


def test_ground_truth_of_several_annotators_of_a_task_is_votes_with_a_warning(tmp_path: Path) -> None:
    path = save(tmp_path, [imported(1, "sport"), imported(2, "crime")], [imported(3, "sport"), imported(1)], [])
    with pytest.warns(
        PaldaWarning, match=r"export.json: 4 annotations marked as ground truth were read as votes.*2 ta"
    ):
        data = palda.read(path)
    assert len(data.votes) == 8
    assert data.votes.annotators.tolist() == ["1", "2", "3"]
    assert (data.gold == -1).all()


def test_an_imported_project_may_have_tasks_with_one_annotation(tmp_path: Path) -> None:
    several = [imported(1, "sport"), imported(2, "crime")]
    path = save(tmp_path, several, several, [imported(3, "sport")])
    with pytest.warns(PaldaWarning, match="5 annotations marked as ground truth were read as votes"):
        assert len(palda.read(path).votes) == 10


def test_ground_truth_beside_other_annotations_stays_gold(tmp_path: Path) -> None:
    expert, vote = imported(9, "sport"), annotation(1, result("crime"))
    several = [imported(8, "crime"), imported(7, "crime")]
    path = save(tmp_path, several, several, [expert, vote])
    with pytest.warns(PaldaWarning, match="4 annotations marked.*2 tasks.*those of 1 other tasks are gold labels"):
        data = palda.read(path)
    np.testing.assert_array_equal(data.gold, [[-1, -1], [-1, -1], [0, 1]])
    assert data.votes.annotators.tolist() == ["1", "7", "8"]


def test_single_annotations_stay_gold_where_few_tasks_have_several(tmp_path: Path) -> None:
    expert = [imported(9, "sport")]
    path = save(tmp_path, [imported(8, "crime"), *expert], expert, expert)
    with pytest.warns(PaldaWarning, match="2 annotations marked.*1 tasks.*those of 2 other tasks are gold labels"):
        data = palda.read(path)
    np.testing.assert_array_equal(data.gold, [[-1, -1], [0, 1], [0, 1]])


@pytest.mark.parametrize(("rule", "n_votes", "n_gold"), [("votes", 6, 0), ("gold", 2, 4)])
def test_the_user_may_say_what_ground_truth_is(tmp_path: Path, rule: Any, n_votes: int, n_gold: int) -> None:
    same = [imported(1, "sport"), imported(2, "sport")]
    path = save(tmp_path, same, [annotation(1, result("crime"))])
    data = palda.read(path, ground_truth=rule)  # no warning
    assert len(data.votes) == n_votes
    assert np.count_nonzero(data.gold >= 0) == n_gold // 2


def test_gold_alone_is_read_with_a_warning_that_names_the_option(tmp_path: Path) -> None:
    path = save(tmp_path, [imported(1, "sport")], [imported(2, "crime")])
    with pytest.warns(PaldaWarning, match="none of 2 annotations are votes: 2 ground truth; pass ground_truth='votes'"):
        data = palda.read(path)
    assert len(data.votes) == 0
    np.testing.assert_array_equal(data.gold, [[0, 1], [1, 0]])


def test_tables_do_not_say_what_is_ground_truth(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("id,text,topics,annotator,annotation_id,lead_time\n1,a story,sport,1,7,2.5\n")
    assert len(palda.read(path).votes) == 1
    assert "ground_truth='gold' needs an export in the format JSON" in problem(path, ground_truth="gold")


# Label configs


def test_classes_that_nobody_chose_come_from_the_label_config(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1, result("sport"))], body="goal", headline="late")
    data = palda.read(path, label_config=config_file(tmp_path), question="topics")
    assert data.classes.tolist() == list(TOPICS)
    assert len(data.votes) == 3
    assert list(data.corpus) == ["goal"]  # the field that the config shows


def test_a_project_in_json_has_the_label_config(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1, result("sport"))])
    parsed = {"topics": {"type": "Choices", "to_name": ["text"], "inputs": [{"value": "text"}], "labels": [*TOPICS]}}
    for project in ({"label_config": CONFIG, "parsed_label_config": parsed}, {"parsed_label_config": parsed}):
        file = config_file(tmp_path, json.dumps(project | {"id": 1}), "project.json")
        data = read_labelstudio(path, label_config=file, from_name="topics")
        assert data.classes.tolist() == list(TOPICS)


def test_choices_of_a_taxonomy_are_paths() -> None:
    control = parse_label_config(CONFIG).control("place")
    assert control.classes == ("Europe", "Europe/Wales")
    assert control.path("Europe/Wales") == ("Europe", "Wales")
    leaves = parse_label_config(CONFIG.replace('"place"', '"place" leafsOnly="true"')).control("place")
    assert leaves.classes == ("Europe/Wales",)


def test_nobody_chose_anything_but_the_config_names_classes(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1)], [annotation(2)])
    assert "none of 2 annotations chooses a class; name the classes with classes=[...] or label_config" in problem(path)
    data = palda.read(path, label_config=config_file(tmp_path), question="topics")
    assert data.votes.value.tolist() == [0] * 6


def test_a_chosen_class_must_be_in_the_config_unless_tasks_bring_their_own(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1, result("sports"))])
    config = config_file(tmp_path)
    assert "class 'sports' is not among the 3 known ones; did you mean 'sport'?" in problem(
        path, label_config=config, question="topics"
    )
    dynamic = config_file(tmp_path, CONFIG.replace('choice="multiple"', 'value="$options"'))
    assert palda.read(path, label_config=dynamic, question="topics").classes.tolist() == sorted((*TOPICS, "sports"))


def test_a_config_with_several_questions_needs_a_choice(tmp_path: Path) -> None:
    path, config = save(tmp_path, [annotation(1, result("sport"))]), config_file(tmp_path)
    assert "config.xml: there are several questions; choose from_name= among 'topics', 'place'" in problem(
        path, label_config=config
    )
    assert "config.xml: no Choices or Taxonomy has the name 'topic'" in problem(
        path, label_config=config, question="topic"
    )


BOMB = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><View>&b;</View>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("plain words", "is not XML"),
        ("<View><Choices", "is not XML"),
        (BOMB, "a label config has no document type; remove the <!DOCTYPE> part"),
        ("<View>" * 200 + "</View>" * 200, "is nested deeper than 100 levels"),
        ("<View>&nbsp;</View>", "is not XML: undefined entity"),
        ("<View><Text name='t' value='$t'/></View>", "has no Choices or Taxonomy tag"),
        ("<View><Choices toName='t'/></View>", "the <Choices> has no name"),
        ("<View><Choices name='c'/></View>", "the <Choices> has no toName"),
        ("<View><Choices name='c' toName='t'><Choice/></Choices></View>", "the <Choice> has no value"),
        ("<Choices name='c' toName='t'><Choices name='d' toName='t'/></Choices>", "inside another control"),
        ("<V><Choices name='c' toName='t'/><Choices name='c' toName='t'/></V>", "two controls with the name 'c'"),
        ("{", "is not JSON"),
        ("[1]", "is neither a label config in XML nor a project"),
        ('{"label_config": null, "parsed_label_config": 3}', "3 is not an object"),
        ('{"parsed_label_config": {"c": {"type": "Choices", "labels": [1]}}}', "needs lists of labels"),
        ('{"parsed_label_config": {"c": {"type": "Taxonomy"}}}', "does not say how a taxonomy is nested"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=r"^config.xml") as caught:
        read_label_config(config_file(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_of_too_many_choices_is_refused(tmp_path: Path) -> None:
    choices = "".join(f"<Choice value='{number}'/>" for number in range(100_001))
    with pytest.raises(DataError, match="has 100,001 choices; the limit is 100,000"):
        read_label_config(config_file(tmp_path, f"<Choices name='c' toName='t'>{choices}</Choices>"))


# Little is used


def test_a_file_that_leaves_nothing_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    skipped = annotation(1, result("sport"), was_cancelled=True)
    assert "none of 2 annotations can be used: 2 skipped" in problem(save(tmp_path, [skipped], [skipped]))
    assert "has no votes: there are no annotations" in problem(save(tmp_path, [], []))


def test_a_file_of_which_less_than_a_tenth_is_votes_is_read_with_numbers(tmp_path: Path) -> None:
    skipped = annotation(1, was_cancelled=True)
    vote = annotation(2, result("sport"))
    with pytest.warns(PaldaWarning, match="only 1 of 11 annotations are votes: 10 skipped"):
        palda.read(save(tmp_path, [vote], *([skipped] for _ in range(10))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        palda.read(save(tmp_path, [vote], *([skipped] for _ in range(9))))


def test_answers_to_another_question_only_are_reported(tmp_path: Path) -> None:
    other = annotation(1, result(["Europe"], control="place", kind="taxonomy"))
    path = save(tmp_path, [annotation(2, result("sport"))], *([other] for _ in range(20)))
    with pytest.warns(PaldaWarning, match="20 of 21 annotations have results of other controls only"):
        palda.read(path, question="topics")


def test_ids_may_come_from_a_data_field(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1, result("sport"))], text="goal", ref="d7")
    assert palda.read(path, id="ref").doc_ids.tolist() == ["d7"]
    assert "there is no column 'reff'" in problem(path, id="reff")


def test_gold_of_an_export_reaches_the_documents_of_a_table(tmp_path: Path) -> None:
    path = save(tmp_path, [annotation(1, result("sport")), imported(9, "crime")], [annotation(1, result("sport"))])
    table = tmp_path / "documents.csv"
    table.write_text("doc,text,gold_sport\n2,b,1\n1,a,\n")
    np.testing.assert_array_equal(palda.read(table, path).gold, [[-1, 1], [1, 0]])
    table.write_text("doc,text\n2,b\n")
    with pytest.raises(DataError, match="'1' is not among"):
        palda.read(table, path)
