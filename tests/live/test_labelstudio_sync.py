from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.live.fake_labelstudio import CONFIG, label_studio
from tests.live.studio_world import StudioWorld, new_world, studio_world

from palda.errors import DataError
from palda.io import read_labelstudio
from palda.live import schema
from palda.live.errors import NotSignedInError
from palda.live.labelstudio import client as client_module
from palda.live.labelstudio import connections
from palda.live.labelstudio import sync as sync_module
from palda.live.labelstudio.registration import disconnect, register
from palda.live.service import access, documents, people, projects

SINGLE = CONFIG.replace(' choice="multiple"', "")
TAXONOMY = (
    '<View><Text name="text" value="$text"/><Taxonomy name="topics" toName="text">'
    '<Choice value="A"><Choice value="B"/></Choice><Choice value="C"/></Taxonomy></View>'
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudioWorld]:
    monkeypatch.setattr(client_module, "_FIRST_PAUSE", 0.001)
    with new_world(tmp_path) as made:
        yield made


def test_all_classes_are_there_whether_chosen_or_not(world: StudioWorld) -> None:
    world.reconciled()
    assert [label.name for label in projects.project(world.store, world.project_id).labels] == [
        "crime",
        "sport",
        "money",
    ]


def test_annotations_are_votes_on_every_class(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport", "money")
    world.studio.annotate(2, 2)
    world.reconciled()
    assert world.votes() == {
        ("1", "Ada Lovelace"): {"crime": 0, "sport": 1, "money": 1},
        ("2", "Ada Lovelace"): {"crime": 0, "sport": 0, "money": 0},
    }
    assert world.looks() == {"1": 1, "2": 1, "3": 0}


def test_people_have_names_that_differ_and_no_credentials(world: StudioWorld) -> None:
    for user in (1, 2, 3, 4, 77):
        world.studio.annotate(1, user, "sport")
    world.reconciled()
    names = [one.name for one in people.members(world.store, world.project_id)]
    assert names == ["u1@example.org", "Ada Lovelace", "Alan Turing", "Ada Lovelace (4)", "user 77"]
    held = select(schema.credential.c.person_id).where(schema.credential.c.person_id.in_(
        select(schema.member.c.person_id)))  # fmt: skip
    assert world.rows(held) == []


def test_a_changed_annotation_adds_entries_and_a_deleted_one_is_withdrawn(world: StudioWorld) -> None:
    first = world.studio.annotate(1, 2, "sport")
    second = world.studio.annotate(1, 3, "crime")
    world.reconciled()
    world.studio.change(first, "money")
    world.studio.delete(second)
    world.reconciled()
    assert world.votes() == {("1", "Ada Lovelace"): {"crime": 0, "sport": 0, "money": 1}}
    assert world.looks()["1"] == 1
    assert world.n_entries() == 6 + 3 + 3


def test_comparing_again_after_a_restart_changes_nothing(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport")
    world.studio.annotate(2, 3, "sport", was_cancelled=True)
    world.reconciled()
    before = world.n_entries(), world.rows(select(schema.log_head.c.position)), world.rows(select(schema.submission))
    for _ in range(2):
        assert world.sync().reconcile() == 0
        world.sync().take_tasks([world.studio.shown(one) for one in world.studio.tasks.values()])
    after = world.n_entries(), world.rows(select(schema.log_head.c.position)), world.rows(select(schema.submission))
    assert after == before
    assert world.studio.changes == []


def test_a_restart_in_the_middle_of_the_first_reading_loses_and_doubles_nothing(
    world: StudioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 1)
    for task in (1, 2, 3):
        world.studio.annotate(task, 2, "sport")
    seen = []

    def stop_after_the_second() -> None:
        seen.append(1)
        if len(seen) == 2:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        sync_module.Sync(world.store, world.client, world.project_id, stop_after_the_second).reconcile()
    assert len(world.votes()) == 2
    world.reconciled()
    assert (len(world.votes()), world.n_entries()) == (3, 9)


def test_a_skipped_task_is_no_vote_and_withdraws_an_earlier_one(world: StudioWorld) -> None:
    first = world.studio.annotate(1, 2, "sport")
    world.studio.annotate(2, 2, was_cancelled=True)
    world.reconciled()
    assert set(world.votes()) == {("1", "Ada Lovelace")}
    world.studio.change(first, was_cancelled=True)
    world.reconciled()
    assert world.votes() == {}
    assert world.looks() == {"1": 0, "2": 0, "3": 0}
    kinds = dict(world.rows(select(schema.submission.c.id, schema.submission.c.kind)))
    assert list(kinds.values()) == ["votes", "skip", "skip"]


def test_ground_truth_becomes_gold_and_stops_being_it(world: StudioWorld) -> None:
    marked = world.studio.annotate(1, 2, "sport", ground_truth=True)
    world.reconciled()
    (first, *_) = documents.documents(world.store, world.project_id)
    labels = {label.id: label.name for label in projects.project(world.store, world.project_id).labels}
    assert {labels[key]: value for key, value in first.gold.items()} == {"crime": 0, "sport": 1, "money": 0}
    assert world.votes() == {}
    world.studio.change(marked, ground_truth=False)
    world.reconciled()
    assert documents.documents(world.store, world.project_id)[0].gold == {}
    assert world.votes() == {("1", "Ada Lovelace"): {"crime": 0, "sport": 1, "money": 0}}


def test_a_decision_made_here_survives_ground_truth_made_there(world: StudioWorld) -> None:
    world.reconciled()
    owner = access.enter(world.store, access.start_tokens(world.store)[1])
    labels = [label.id for label in projects.project(world.store, world.project_id).labels]
    (first, *_) = documents.documents(world.store, world.project_id)
    documents.set_gold(world.store, world.project_id, first.id, dict.fromkeys(labels, 1), owner)
    world.studio.annotate(1, 2, "sport", ground_truth=True)
    world.reconciled()
    assert documents.find_document(world.store, world.project_id, first.id).gold == dict.fromkeys(labels, 1)
    assert world.studio.changes == []


def test_ground_truth_of_several_people_is_votes_because_imports_mark_everything(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport", ground_truth=True)
    world.studio.annotate(1, 3, "crime", ground_truth=True)
    world.reconciled()
    assert len(world.votes()) == 2


def test_two_annotations_of_one_person_count_as_the_last_and_then_as_the_other(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport")
    second = world.studio.annotate(1, 2, "crime")
    world.reconciled()
    assert world.votes()["1", "Ada Lovelace"]["crime"] == 1
    assert world.looks()["1"] == 1
    world.studio.delete(second)
    world.reconciled()
    assert world.votes()["1", "Ada Lovelace"] == {"crime": 0, "sport": 1, "money": 0}
    assert world.looks()["1"] == 1


def test_new_tasks_arrive_and_deleted_ones_go(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport")
    world.reconciled()
    new = world.studio.add_task("another text")
    world.studio.tasks.pop(1)
    world.reconciled()
    assert [one.name for one in documents.documents(world.store, world.project_id)] == ["2", "3", str(new)]
    assert world.votes() == {}


def test_annotations_that_began_from_a_pre_label_can_be_those_of_another_annotator(tmp_path: Path) -> None:
    with new_world(tmp_path, settings={"prelabelled": "separate", "prelabel_share": 1.0}) as world:
        world.studio.annotate(1, 2, "sport")
        began = world.studio.annotate(2, 2, "sport", parent_prediction=5)
        world.reconciled()
        assert set(world.votes()) == {("1", "Ada Lovelace"), ("2", "Ada Lovelace (pre-labelled)")}
        world.studio.change(began, "crime", parent_prediction=None)  # its prediction was deleted
        world.reconciled()
        assert world.votes()["2", "Ada Lovelace (pre-labelled)"]["crime"] == 1
        assert {
            row.purpose for row in world.rows(select(schema.submission).where(schema.submission.c.document_id == 2))
        } == {"prelabel"}
        assert len(world.votes()) == 2


def texts(world: StudioWorld) -> list[str]:
    return [one.text for one in documents.documents(world.store, world.project_id)]


def test_a_changed_text_is_followed_and_asks_for_a_new_fit(world: StudioWorld) -> None:
    world.reconciled()
    world.studio.tasks[2].update(data={"text": "another robbery"}, updated_at=world.studio.now())
    assert world.sync().reconcile() == 1
    assert texts(world) == ["the team won", "another robbery", "shares fell"]
    assert [row.kind for row in world.rows(select(schema.event.c.kind))].count("texts_changed") == 1
    assert world.sync().reconcile() == 0
    assert [row.kind for row in world.rows(select(schema.event.c.kind))].count("texts_changed") == 1


def test_two_questions_of_one_project_are_two_projects_of_one_store(tmp_path: Path) -> None:
    mood = '<Choices name="mood" toName="text"><Choice value="good"/><Choice value="bad"/></Choices></View>'
    with new_world(tmp_path, CONFIG.replace("</View>", mood), questions=("topics", "mood")) as world:
        first, second = world.store.read(connections.all_connections)
        assert [(one.question, one.settings.steer) for one in (first, second)] == [("topics", True), ("mood", False)]
        names = [projects.project(world.store, one.project_id).name for one in (first, second)]
        assert names == ["News: topics (Label Studio 3)", "News: mood (Label Studio 3)"]
        one = world.studio.annotate(1, 2, "crime")
        world.studio.find(one)[1]["result"] += [
            {"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": ["bad"]}}
        ]
        for number, found in enumerate((first, second), 1):
            sync = sync_module.Sync(world.store, world.client, found.project_id)
            sync.reconcile()
            register(world.store, world.client, sync, f"http://127.0.0.1:8600/labelstudio/{number}", "secret")
        votes = [
            {label: value for (task, _), row in world.votes(found.project_id).items() for label, value in row.items()}
            for found in (first, second)
        ]
        assert votes == [{"crime": 1, "sport": 0, "money": 0}, {"good": 0, "bad": 1}]
        assert (len(world.studio.webhooks), len(world.studio.backends)) == (2, 1)
        assert len(world.rows(select(schema.labelstudio_user.c.member_id).distinct())) == 1  # one person in both
        for found in world.store.read(connections.all_connections):
            disconnect(world.store, world.client, found, lambda _line: None)
        assert (world.studio.webhooks, world.studio.backends) == ({}, {})


def test_a_text_that_no_database_can_store_is_taken_in(world: StudioWorld) -> None:
    world.studio.tasks[1]["data"] = {"text": "a\ud800b\0c"}
    world.reconciled()
    assert texts(world)[0] == "a?bc"


def test_an_admin_of_one_question_does_not_get_into_another_as_its_annotator(tmp_path: Path) -> None:
    mood = '<Choices name="mood" toName="text"><Choice value="good"/><Choice value="bad"/></Choices></View>'
    with new_world(tmp_path, CONFIG.replace("</View>", mood), questions=("topics", "mood")) as world:
        first, second = (one.project_id for one in world.store.read(connections.all_connections))
        world.studio.annotate(1, 2, "crime")
        sync_module.Sync(world.store, world.client, first).reconcile()
        owner = access.enter(world.store, access.start_tokens(world.store)[1])
        admin = access.accept(world.store, access.invite(world.store, owner, first, "admin", "admin of the first"))[0]
        (ada,) = (one for one in people.members(world.store, first) if one.role == "annotator")
        token = access.create_api_token(world.store, access.enter(world.store, admin, first), ada.person_id)
        assert access.enter(world.store, token, first).role == "annotator"
        sync_module.Sync(world.store, world.client, second).reconcile()
        with pytest.raises(NotSignedInError):
            access.enter(world.store, token, second)


def test_an_erased_person_stays_away_and_a_renamed_one_keeps_the_new_name(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport")
    world.studio.annotate(1, 3, "sport")
    world.reconciled()
    owner = access.enter(world.store, access.start_tokens(world.store)[1])
    ada, alan = people.members(world.store, world.project_id)
    people.erase(world.store, owner, world.project_id, ada.person_id)
    alias = people.pseudonymise(world.store, owner, world.project_id, alan.person_id)
    world.studio.annotate(2, 2, "sport")
    world.studio.annotate(2, 3, "sport")
    world.reconciled()
    assert set(world.votes()) == {("1", alias), ("2", alias)}


@pytest.mark.parametrize("faults", [[500], [429, 429], [503, 500]])
def test_faults_in_the_middle_are_healed(world: StudioWorld, faults: list[int]) -> None:
    world.studio.annotate(1, 2, "sport")
    world.studio.faults = list(faults)
    world.reconciled()
    assert len(world.votes()) == 1


def test_annotations_without_a_user_or_form_are_counted_and_left_out(world: StudioWorld) -> None:
    world.studio.annotate(1, 2, "sport")
    world.studio.annotate(1, None, "sport")  # type: ignore[arg-type]
    world.studio.tasks[1]["annotations"].append({"id": "x", "result": 5, "was_cancelled": False, "completed_by": 2})
    assert world.reconciled().n_ignored == 2
    assert len(world.votes()) == 1


def test_a_single_choice_is_one_for_it_and_zero_for_the_others(tmp_path: Path) -> None:
    with new_world(tmp_path, SINGLE) as world:
        world.studio.annotate(1, 2, "sport")
        assert world.reconciled().question.control.is_single
        assert world.votes()["1", "Ada Lovelace"] == {"crime": 0, "sport": 1, "money": 0}


def test_paths_of_a_taxonomy_are_classes(tmp_path: Path) -> None:
    with new_world(tmp_path, TAXONOMY) as world:
        world.studio.annotate(1, 2, ["A", "B"], ["C"], kind="taxonomy")
        world.reconciled()
        assert world.votes()["1", "Ada Lovelace"] == {"A": 0, "A/B": 1, "C": 1}


def test_one_of_several_questions_must_be_chosen(tmp_path: Path) -> None:
    other = '<Choices name="mood" toName="text"><Choice value="good"/><Choice value="bad"/></Choices></View>'
    config = CONFIG.replace("</View>", other)
    with pytest.raises(DataError, match="--question"), new_world(tmp_path / "..", config):
        pass
    with new_world(tmp_path, config, questions=("mood",)) as world:
        world.studio.annotate(1, 2, "bad", name="mood")
        world.reconciled()
        assert world.votes() == {("1", "Ada Lovelace"): {"good": 0, "bad": 1}}


def test_a_class_that_is_added_to_the_config_is_added_here(world: StudioWorld) -> None:
    world.reconciled()
    world.studio.project["label_config"] = CONFIG.replace("</Choices>", '<Choice value="arts"/></Choices>')
    world.studio.annotate(1, 2, "arts")
    world.reconciled()
    assert world.votes()["1", "Ada Lovelace"]["arts"] == 1


def test_votes_equal_those_of_the_exported_file(world: StudioWorld, tmp_path: Path) -> None:
    for task, user, chosen in [(1, 2, ["sport"]), (1, 3, ["crime", "money"]), (2, 3, []), (3, 1, ["money"])]:
        world.studio.annotate(task, user, *chosen)
    world.reconciled()
    path, config = tmp_path / "export.json", tmp_path / "config.xml"
    path.write_text(json.dumps([world.studio.shown(one) for one in world.studio.tasks.values()]))
    config.write_text(CONFIG)
    export = read_labelstudio(path, label_config=config)
    table = export.votes.to_frame()
    from_file = sorted(
        (str(doc), label, int(value)) for doc, label, value in table[["doc", "label", "value"]].to_numpy()
    )
    here = sorted((task, label, value) for (task, _), votes in world.votes().items() for label, value in votes.items())
    assert here == from_file


def test_every_kind_of_change_on_either_database(store_location: str, tmp_path: Path) -> None:
    with label_studio() as studio:
        tasks = [studio.add_task(text) for text in ("the team won", "a robbery", "shares fell")]
        first, second = studio.annotate(tasks[0], 2, "sport"), studio.annotate(tasks[1], 3, "crime")
        studio.annotate(tasks[2], 3, "money", ground_truth=True)
        with studio_world(tmp_path, studio, store_location) as world:
            world.reconciled()
            studio.change(first, "money")
            studio.delete(second)
            studio.tasks.pop(tasks[2])
            world.reconciled()
            world.fit({tasks[0]: [0.5, 0.4, 0.5]})
            assert world.steering().step() > 0
            assert world.votes() == {(str(tasks[0]), "Ada Lovelace"): {"crime": 0, "sport": 0, "money": 1}}
            assert [one["task"] for one in studio.predictions] == [tasks[0]]
