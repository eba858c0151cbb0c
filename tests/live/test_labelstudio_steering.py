from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.live.fake_labelstudio import LEGACY, label_studio
from tests.live.studio_world import SECRET, StudioWorld, new_world

from palda.live import migrations, schema
from palda.live.labelstudio import connections, steering
from palda.live.labelstudio.errors import RemoteError
from palda.live.labelstudio.following import ConnectOrder, dry_run
from palda.live.labelstudio.prelabels import AnnotationGroup, PrelabelInfluence, prelabel_influence
from palda.live.labelstudio.registration import disconnect, register

ADDRESS = "http://127.0.0.1:8600/labelstudio/1"
SHOWN = [False, True, True]
SURE, TORN = [0.999, 0.001, 0.001], [0.5, 0.3, 0.4]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StudioWorld]:
    """Three tasks with two annotations each, so that all are done; the first is certain."""
    with new_world(tmp_path, project={"max_votes_per_doc": 3}, settings={"prelabel_share": 1.0}) as made:
        for task in (1, 2, 3):
            for user in (2, 3):
                made.studio.annotate(task, user, "crime")
        made.reconciled()
        yield made


def annotations(world: StudioWorld) -> dict[int, list[object]]:
    return {number: copy.deepcopy(task["annotations"]) for number, task in world.studio.tasks.items()}


def registered(world: StudioWorld) -> None:
    register(world.store, world.client, world.sync(), ADDRESS, SECRET)


def test_doubtful_tasks_are_opened_for_one_more_and_certain_ones_stay_closed(world: StudioWorld) -> None:
    world.fit({1: SURE, 2: TORN, 3: SURE})
    before = annotations(world)
    assert world.steering().step() > 0
    state = {number: (task["overlap"], task["is_labeled"]) for number, task in world.studio.tasks.items()}
    assert state == {1: (2, True), 2: (3, False), 3: (2, True)}
    assert annotations(world) == before
    assert world.steering().step() == 0


def test_a_task_that_becomes_certain_is_closed_early_and_reopens_when_it_is_doubtful_again(world: StudioWorld) -> None:
    world.studio.project["maximum_annotations"] = 3
    new = world.studio.add_task("later")
    world.studio.annotate(new, 2, "sport")
    world.reconciled()
    world.fit({1: SURE, 2: SURE, 3: SURE, new: SURE})
    world.steering().step()
    assert (world.studio.tasks[new]["overlap"], world.studio.tasks[new]["is_labeled"]) == (1, True)
    world.fit({1: SURE, 2: SURE, 3: SURE, new: TORN}, generation=2)
    world.steering().step()
    assert (world.studio.tasks[new]["overlap"], world.studio.tasks[new]["is_labeled"]) == (2, False)


def test_no_task_gets_more_than_the_largest_number_of_votes(world: StudioWorld) -> None:
    world.studio.tasks[2]["overlap"] = 9
    world.studio.annotate(2, 1, "sport")
    world.reconciled()
    world.fit({1: SURE, 2: TORN, 3: SURE})
    world.steering().step()
    assert (world.studio.tasks[2]["overlap"], world.studio.tasks[2]["is_labeled"]) == (3, True)


def test_few_tasks_are_open_at_a_time_those_with_the_largest_gain(
    world: StudioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "_MIN_OPEN", 1)
    monkeypatch.setattr(steering, "_OPEN_PER_PERSON", 0)
    world.fit({1: [0.8, 0.1, 0.1], 2: TORN, 3: [0.9, 0.05, 0.05]})
    world.steering().step()
    assert [task for task, row in world.studio.tasks.items() if not row["is_labeled"]] == [2]


def test_tasks_without_annotations_or_a_fit_stay_as_they_are(world: StudioWorld) -> None:
    new = world.studio.add_task("later")
    world.reconciled()
    assert world.steering().step() == 0  # no fit
    world.fit({1: SURE, 2: SURE, 3: SURE})
    world.steering().step()
    assert world.studio.tasks[new]["is_labeled"] is False
    assert world.studio.tasks[new]["overlap"] == 2


def test_predictions_have_the_project_s_version_and_old_ones_are_deleted_when_nobody_has_them_open(
    world: StudioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(world)
    for generation in (1, 2, 3):
        if generation == 3:
            monkeypatch.setattr(steering, "KEPT_SECONDS", -1.0)
        world.fit({1: SURE, 2: TORN, 3: SURE}, generation)
        world.steering().step()
        assert world.studio.project["model_version"] == f"palda-{generation}"
        kept = {1: {"palda-1"}, 2: {"palda-1", "palda-2"}, 3: {"palda-3"}}[generation]
        assert {(one["task"], one["model_version"]) for one in world.studio.predictions} == {(2, name) for name in kept}
    assert [one["result"][0]["value"]["choices"] for one in world.studio.predictions] == [["crime"]]


def test_withheld_predictions_order_the_queue_and_show_nothing(tmp_path: Path) -> None:
    with new_world(tmp_path, settings={"prelabel_share": 0.0}) as world:
        world.studio.annotate(1, 2, "crime")
        world.reconciled()
        registered(world)
        world.fit({1: TORN})
        world.steering().step()
        assert [one["result"] for one in world.studio.predictions] == [[]]
        assert world.studio.predictions[0]["score"] < 1
        assert world.studio.project["show_collab_predictions"] is False


def test_a_read_only_connection_changes_no_task(tmp_path: Path) -> None:
    with new_world(tmp_path, settings={"steer": False}) as world:
        world.studio.annotate(1, 2, "crime")
        world.reconciled()
        world.fit({1: TORN})
        assert world.steering().step() == 0
        assert world.studio.changes == []


def test_webhook_comes_before_the_backend_and_both_carry_the_secret(world: StudioWorld) -> None:
    registered(world)
    posts = [path for method, path in world.studio.requests if method == "POST"]
    assert posts == ["/api/webhooks/", "/api/ml/"]
    (hook,), (backend,) = world.studio.webhooks.values(), world.studio.backends.values()
    assert hook["url"] == f"{ADDRESS}/webhook"
    assert hook["headers"] == {"X-Palda-Secret": SECRET}
    assert (backend["auth_method"], backend["basic_auth_user"], backend["basic_auth_pass"]) == (
        "BASIC_AUTH",
        "palda",
        SECRET,
    )
    assert world.studio.project["sampling"] == "Uncertainty sampling"


def test_registering_again_after_a_restart_adds_nothing(world: StudioWorld) -> None:
    registered(world)
    before = copy.deepcopy((world.studio.project, world.studio.webhooks, world.studio.backends))
    registered(world)
    assert (world.studio.project, world.studio.webhooks, world.studio.backends) == before


def test_a_refused_backend_is_one_line_that_says_what_to_set(world: StudioWorld) -> None:
    world.studio.refuse_backend = True
    with pytest.raises(RemoteError, match="SSRF_PROTECTION_ENABLED=false") as caught:
        registered(world)
    assert SECRET not in str(caught.value)


def test_disconnecting_restores_everything_and_keeps_the_votes(world: StudioWorld) -> None:
    first = copy.deepcopy(world.studio.project)
    tasks = {number: (task["overlap"], task["is_labeled"]) for number, task in world.studio.tasks.items()}
    answers, votes = annotations(world), world.votes()
    registered(world)
    world.fit({1: SURE, 2: TORN, 3: TORN})
    world.steering().step()
    assert world.studio.project != first
    found = world.store.read(lambda connection: connections.find(connection, world.project_id))
    assert found is not None
    lines: list[str] = []
    disconnect(world.store, world.client, found, lines.append, "delete")
    assert world.studio.project == first
    assert {number: (task["overlap"], task["is_labeled"]) for number, task in world.studio.tasks.items()} == tasks
    assert (world.studio.webhooks, world.studio.backends, world.studio.predictions) == ({}, {}, [])
    assert (annotations(world), world.votes()) == (answers, votes)
    assert any("overlap of 2 tasks" in line for line in lines)
    before = world.n_entries()
    world.reconciled()  # connected again
    assert world.n_entries() == before


def test_a_setting_that_somebody_changed_since_is_left_alone(world: StudioWorld) -> None:
    registered(world)
    world.studio.project["sampling"] = "Random sampling"
    found = world.store.read(lambda connection: connections.find(connection, world.project_id))
    assert found is not None
    disconnect(world.store, world.client, found, lambda _line: None)
    assert world.studio.project["sampling"] == "Random sampling"
    assert world.studio.project["show_collab_predictions"] is False


def test_an_interrupted_disconnection_can_be_finished(world: StudioWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(world)
    world.fit({1: SURE, 2: TORN, 3: TORN})
    world.steering().step()
    found = world.store.read(lambda connection: connections.find(connection, world.project_id))
    assert found is not None
    monkeypatch.setattr("palda.live.labelstudio.client._ATTEMPTS", 1)
    world.studio.faults = [200, 200, 200, 500]
    with pytest.raises(RemoteError):
        disconnect(world.store, world.client, found, lambda _line: None, "delete")
    disconnect(world.store, world.client, found, lambda _line: None, "delete")
    assert {(task["overlap"], task["is_labeled"]) for task in world.studio.tasks.values()} == {(2, True)}
    assert (world.studio.webhooks, world.studio.backends, world.studio.predictions) == ({}, {}, [])


@pytest.mark.slow
def test_a_dry_run_says_what_would_change_and_changes_nothing() -> None:
    with label_studio() as studio:
        for number in range(12):
            task = studio.add_task(f"text {number}")
            studio.annotate(task, 2, "crime")
            studio.annotate(task, 3, *(["sport"] if number % 3 == 0 else ["crime"]))
        before = copy.deepcopy((studio.project, studio.tasks))
        lines = list(dry_run(ConnectOrder(studio.url, 3, LEGACY)))
        assert studio.changes == []
        assert (studio.project, studio.tasks) == before
    text = "\n".join(lines)
    assert "would set sampling = 'Uncertainty sampling' (is 'Sequential sampling')" in text
    assert "read 12 tasks with 24 annotations" in text
    assert "would open for another annotator" in text


def connection_of(world: StudioWorld) -> connections.StoredConnection:
    found = world.store.read(lambda connection: connections.find(connection, world.project_id))
    assert found is not None
    return found


def test_predictions_that_somebody_may_have_open_stay_until_later(
    world: StudioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(world)
    world.fit({1: SURE, 2: TORN, 3: TORN})
    world.steering().step()
    disconnect(world.store, world.client, connection_of(world), lambda _line: None)
    assert [one["task"] for one in world.studio.predictions] == [2, 3]
    assert (world.studio.project["model_version"], world.studio.webhooks) == ("", {})
    monkeypatch.setattr("time.time", lambda: 1_900_000_000.0)  # long after the last annotation
    disconnect(world.store, world.client, connection_of(world), lambda _line: None)
    assert world.studio.predictions == []


def test_predictions_are_kept_if_asked_for(world: StudioWorld) -> None:
    registered(world)
    world.fit({1: SURE, 2: TORN, 3: TORN})
    world.steering().step()
    disconnect(world.store, world.client, connection_of(world), lambda _line: None, "keep")
    assert len(world.studio.predictions) == 2
    assert connection_of(world).versions == {}


def influence(world: StudioWorld) -> PrelabelInfluence:
    found = world.store.read(lambda connection: prelabel_influence(connection, world.project_id))
    assert found is not None
    return found


def test_the_influence_of_pre_labels_is_measured_against_tasks_that_withhold_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_world(tmp_path, project={"max_votes_per_doc": 9}, settings={"prelabel_share": 0.5}) as world:
        shows = connection_of(world).settings.shows_prelabel
        assert [shows(task) for task in (1, 2, 3)] == SHOWN
        for task in (1, 2, 3):
            world.studio.annotate(task, 2, "crime")
        world.reconciled()
        assert world.store.read(lambda connection: prelabel_influence(connection, world.project_id)) is None
        world.fit({task: [0.9, 0.4, 0.1] for task in (1, 2, 3)})  # crime is predicted
        world.steering().step()
        for task in (1, 2, 3):
            chosen = ["crime"] if shows(task) else ["crime", "sport"]
            world.studio.annotate(task, 3, *chosen, parent_prediction=17, lead_time=5.0 if shows(task) else 9.0)
        world.reconciled()
        found = influence(world)
        n_shown = sum(SHOWN)
        assert (found.n_annotations, found.n_prelabelled) == (6, n_shown)
        assert found.shown == AnnotationGroup(n_shown, 1.0, found.shown.like_prediction_error, 1.0, 5.0)
        assert found.withheld.n_annotations == 3 - n_shown
        assert (found.withheld.like_prediction, found.withheld.like_others) == pytest.approx((2 / 3, 2 / 3))
        assert found.withheld.seconds == 9.0
        assert "from 10 annotations" in found.summary()
        monkeypatch.setattr("palda.live.labelstudio.prelabels._MIN_COMPARED", 1)
        assert "by +33.3 percentage points more often" in found.summary()
        purposes = [row[0] for row in world.rows(select(schema.submission.c.purpose))]
        assert purposes.count("prelabel") == n_shown


def test_a_changed_annotation_is_compared_with_the_prediction_of_its_first_version(world: StudioWorld) -> None:
    world.fit({1: SURE, 2: TORN, 3: SURE})
    world.steering().step()
    number = world.studio.annotate(2, 1, "crime", parent_prediction=17)
    world.reconciled()
    world.fit({1: SURE, 2: [0.3, 0.6, 0.4], 3: SURE}, generation=2)
    world.steering().step()
    world.studio.change(number, "crime", "sport")
    world.reconciled()
    assert influence(world).shown.like_prediction == pytest.approx(2 / 3)


def test_a_version_2_store_keeps_its_rows(world: StudioWorld) -> None:
    def go_back(connection) -> None:  # type: ignore[no-untyped-def]
        for name in ("task", "annotation"):
            connection.exec_driver_sql(f"ALTER TABLE labelstudio_{name} DROP COLUMN predicted")
        connection.exec_driver_sql("UPDATE store_info SET value = '2' WHERE name = 'version'")

    before = connection_of(world), world.rows(select(schema.labelstudio_annotation))
    world.store.write(go_back)
    world.store.write(lambda connection: migrations.prepare(connection, "a store"))
    assert (connection_of(world), world.rows(select(schema.labelstudio_annotation))) == before
    world.reconciled()


def test_a_version_1_store_gets_the_tables(tmp_path: Path) -> None:
    from palda.live.store import open_store

    path = tmp_path / "old.db"
    store = open_store(path)
    names = ["event", "annotation", "task", "user", "connection"]

    def go_back(connection) -> None:  # type: ignore[no-untyped-def]
        for name in names:
            connection.exec_driver_sql(f"DROP TABLE labelstudio_{name}")
        connection.exec_driver_sql("UPDATE store_info SET value = '1' WHERE name = 'version'")

    store.write(go_back)
    store.close()
    store = open_store(path)
    assert store.read(connections.all_connections) == []
    assert store.read(lambda connection: connection.exec_driver_sql(
        "SELECT value FROM store_info WHERE name = 'version'").scalar()) == str(schema.VERSION)  # fmt: skip
    store.close()
