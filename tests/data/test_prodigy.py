from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from palda.errors import DataError, PaldaWarning
from palda.io import read_prodigy

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset


def answers(data: Dataset) -> dict[tuple[str, str], dict[str, int]]:
    """What everybody said: an abstention is empty, the empty set is all zeros, a missing look is missing."""
    looks = data.votes.to_frame().groupby(["doc", "annotator"], observed=True)
    return {key: dict(look.dropna()[["label", "value"]].itertuples(index=False)) for key, look in looks}


def choice(
    who: str, *accept: Any, options: Any = ("crime", "sport"), number: int = 1, **changes: Any
) -> dict[str, Any]:
    return {
        "text": f"story {number}",
        "meta": {"source": "BBC"},
        "_input_hash": -1000 - number,
        "_task_hash": 2000 + number,
        "options": [{"id": name, "text": str(name).upper()} for name in options],
        "_view_id": "choice",
        "config": {"choice_style": "multiple"},
        "accept": list(accept),
        "answer": "accept",
        "_timestamp": 1715670000 + number,
        "_annotator_id": f"news-{who}",
        "_session_id": f"news-{who}",
    } | changes


def binary(who: str, label: str, answer: str, **changes: Any) -> dict[str, Any]:
    task = choice(who, **changes) | {"label": label, "answer": answer, "_view_id": "classification"}
    return {key: value for key, value in task.items() if key not in {"options", "accept", "config"}}


def without(task: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in task.items() if key not in keys}


def save(folder: Path, *tasks: dict[str, Any]) -> Path:
    path = folder / "news.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    return path


def problem(folder: Path, *tasks: dict[str, Any], **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_prodigy(save(folder, *tasks), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_accepted_options_are_present_and_the_others_absent(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", "sport"), choice("bob", "crime", "sport"), choice("eve")))
    assert data.doc_ids.tolist() == ["-1001"]
    assert list(data.corpus) == ["story 1"]
    assert {name: cells.tolist() for name, cells in data.corpus.fields.items()} == {"source": ["BBC"]}
    assert answers(data) == {
        ("-1001", "news-ann"): {"crime": 0, "sport": 1},
        ("-1001", "news-bob"): {"crime": 1, "sport": 1},
        ("-1001", "news-eve"): {"crime": 0, "sport": 0},
    }


@pytest.mark.parametrize("answer", ["ignore", "reject"])
def test_a_choice_task_ignored_or_rejected_is_an_abstention(tmp_path: Path, answer: str) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", "sport", answer=answer), choice("bob", "sport")))
    assert answers(data)["-1001", "news-ann"] == {}


def test_options_of_ignored_tasks_are_classes_too(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", options=["tax"], answer="ignore"), choice("bob", "sport")))
    assert data.classes.tolist() == ["crime", "sport", "tax"]


def test_options_that_were_not_offered_were_not_judged(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", "sport"), choice("ann", "tax", options=["tax", "law"], number=2)))
    assert answers(data)["-1002", "news-ann"] == {"law": 0, "tax": 1}


def test_a_binary_answer_is_about_its_label_only(tmp_path: Path) -> None:
    tasks = [binary("ann", "sport", "accept"), binary("ann", "crime", "reject"), binary("bob", "sport", "ignore")]
    data = read_prodigy(save(tmp_path, *tasks))
    assert answers(data) == {("-1001", "news-ann"): {"crime": 0, "sport": 1}, ("-1001", "news-bob"): {}}


def test_without_options_what_was_not_accepted_is_absent(tmp_path: Path) -> None:
    tasks = [without(choice("ann", "sport"), "options"), without(choice("bob", "crime"), "options")]
    assert answers(read_prodigy(save(tmp_path, *tasks)))["-1001", "news-ann"] == {"crime": 0, "sport": 1}


def test_partial_leaves_options_unjudged_but_not_rejected_labels(tmp_path: Path) -> None:
    tasks = [choice("ann", "sport"), binary("bob", "crime", "reject")]
    data = read_prodigy(save(tmp_path, *tasks), partial=True)
    assert answers(data) == {("-1001", "news-ann"): {"sport": 1}, ("-1001", "news-bob"): {"crime": 0}}


def test_option_ids_may_be_numbers(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", 2, options=[1, 2])))
    assert answers(data) == {("-1001", "news-ann"): {"1": 0, "2": 1}}


def test_the_latest_answer_counts(tmp_path: Path) -> None:
    late, early = choice("ann", "sport", _timestamp=1715679999), choice("ann", "crime", _timestamp=1715670000)
    for pair in ([late, early], [early, late]):
        assert answers(read_prodigy(save(tmp_path, *pair))) == {("-1001", "news-ann"): {"crime": 0, "sport": 1}}


def test_without_timestamps_a_contradiction_follows_the_rule(tmp_path: Path) -> None:
    tasks = [without(choice("ann", name), "_timestamp") for name in ("sport", "crime")]
    assert "news.jsonl, row 2: the vote" in problem(tmp_path, *tasks)
    data = read_prodigy(save(tmp_path, *tasks, choice("bob", "sport")), duplicates="drop")
    assert set(data.votes.to_frame()["annotator"]) == {"news-bob"}
    assert "has no votes: the 2 answers contradict each other" in problem(tmp_path, *tasks, duplicates="drop")


def test_the_session_stands_in_for_the_annotator(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, without(choice("ann", "sport", _session_id="news-eve"), "_annotator_id")))
    assert data.votes.annotators.tolist() == ["news-eve"]
    nobody = without(choice("ann", "sport"), "_annotator_id", "_session_id")
    assert "news.jsonl, row 1: the annotator is blank" in problem(tmp_path, nobody)


def test_annotators_that_are_server_starts_are_warned_about(tmp_path: Path) -> None:
    path = save(tmp_path, choice("ann", "sport", _annotator_id="2024-02-06_10-17-19"))
    with pytest.warns(PaldaWarning, match="'2024-02-06_10-17-19' are server start times") as seen:
        read_prodigy(path)
    assert seen[0].filename == __file__


def test_documents_are_told_apart_by_input_hash_else_text_else_the_given_field(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", "sport", text="same"), choice("ann", number=2, text="same")))
    assert data.doc_ids.tolist() == ["-1001", "-1002"]
    tasks = [without(choice(who, "sport"), "_input_hash") for who in ("ann", "bob")]
    assert read_prodigy(save(tmp_path, *tasks)).doc_ids.tolist() == ["story 1"]
    tasks = [choice("ann", "sport", meta={"key": 7}), choice("ann", number=2, key="k8")]
    data = read_prodigy(save(tmp_path, *tasks), id="key")
    assert data.doc_ids.tolist() == ["7", "k8"]


def test_another_field_can_be_the_text(tmp_path: Path) -> None:
    data = read_prodigy(save(tmp_path, choice("ann", "sport", html="<b>goal</b>")), text="html")
    assert list(data.corpus) == ["<b>goal</b>"]
    assert data.corpus.fields["text"].tolist() == ["story 1"]
    assert "no task has a field 'body'" in problem(tmp_path, choice("ann"), text="body")


def test_given_classes_fix_the_axis_and_refuse_others(tmp_path: Path) -> None:
    path = save(tmp_path, choice("ann", "sport"))
    assert read_prodigy(path, classes=["tax", "sport", "crime"]).classes.tolist() == ["tax", "sport", "crime"]
    with pytest.raises(DataError, match="row 1: class 'crime' is not among"):
        read_prodigy(path, classes=["sport"])


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (choice("ann", "golf"), "row 1, column 'accept': option 'golf' is not among the 2 known ones"),
        (choice("ann", answer="maybe"), "row 1, column 'answer': 'maybe' is not accept, reject or ignore"),
        (without(choice("ann"), "answer"), "row 1, column 'answer': None is not accept"),
        (choice("ann") | {"options": "all"}, "row 1, column 'options': 'all' is not a list of options"),
        (choice("ann") | {"accept": [["a"]]}, "row 1, column 'accept': [['a']] is not a list of option ids"),
        (without(choice("ann"), "options", "accept"), "row 1: has neither options nor a label"),
        (choice("ann") | {"text": None, "_input_hash": None}, "row 1: has neither an _input_hash nor a text"),
        (choice("ann") | {"text": ["a"]}, "row 1, column 'text': ['a'] is not text"),
    ],
)
def test_broken_tasks_are_one_clear_line(tmp_path: Path, task: dict[str, Any], words: str) -> None:
    assert words in problem(tmp_path, task)


def test_an_empty_file_and_a_missing_id_are_named(tmp_path: Path) -> None:
    assert "news.jsonl: is empty" in problem(tmp_path)
    assert "row 1, column 'key': the document id is blank or missing" in problem(tmp_path, choice("ann"), id="key")
