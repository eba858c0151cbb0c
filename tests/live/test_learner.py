"""The learner follows the log of a project: posteriors, queues, estimates, completion, and data that are removed."""

from __future__ import annotations

import csv
import io
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from tests.live_projects import Newsroom, run

from palda.data import Votes, names_array
from palda.live.learner import model_files
from palda.live.learner.fitting import FitProcess, TrainingSnapshot, fit_model, read_snapshot
from palda.live.learner.loop import Learner
from palda.live.learner.options import FitOptions
from palda.live.learner.supervisor import LearnerSupervisor
from palda.live.records import Answer, ProjectSettings
from palda.live.service import access, documents, exports, labelling, people, projects, results

NEVER = ProjectSettings(target_error=1e-6, gold_share=0.0)


@pytest.fixture(autouse=True)
def no_fit_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first fit the next one waits until a test asks for it, on a slow machine too."""
    monkeypatch.setattr("palda.live.learner.project_learner._MIN_PAUSE", 1e6)


@pytest.fixture
def news(tmp_path: Path) -> Iterator[Newsroom]:
    room = Newsroom(tmp_path / "news.db", settings=NEVER)
    yield room
    room.store.close()


def generation(room: Newsroom) -> int:
    return int(str(room.rows("project")[0]["generation"]))


def is_level(room: Newsroom, learner: Learner) -> bool:
    """Whether the learner has taken in the whole log."""
    one = learner._projects.get(room.id)
    return one is not None and one._position >= results.status(room.store, room.id).position and not one._is_changed


def fitted(room: Newsroom, n: int = 24) -> Learner:
    room.label(n)
    learner = room.learner()
    run(learner, lambda: generation(room) > 0 and is_level(room, learner))
    return learner


def test_first_fit_waits_for_ten_documents(news: Newsroom) -> None:
    news.label(9)
    learner = news.learner()
    for _ in range(3):
        learner.step()
    assert generation(news) == 0
    news.label(3)
    learner._projects[news.id]._fit_at = 0.0
    run(learner, lambda: generation(news) == 1)


def test_estimates_are_provisional_until_enough_documents_are_judged(news: Newsroom) -> None:
    learner = fitted(news, 12)
    first = results.status(news.store, news.id).estimate
    assert first is not None
    assert (first.n_judged, first.is_provisional) == (12, True)
    news.label(48)
    run(learner, lambda: is_level(news, learner))
    last = results.status(news.store, news.id).estimate
    assert last is not None
    assert (last.n_judged, last.is_provisional) == (20, False)


@pytest.mark.parametrize(
    ("n_single", "n_second", "n_gold", "has_enough"),
    [
        (40, 40, 0, False),
        (60, 24, 0, False),
        (60, 25, 0, True),
        (60, 20, 5, True),
        (399, 0, 0, False),
        (400, 0, 0, True),
    ],
)
def test_words_take_part_when_two_people_have_judged_some_documents_or_one_has_judged_many(
    n_single: int, n_second: int, n_gold: int, has_enough: bool
) -> None:
    doc = np.repeat([*range(n_single), *range(n_second)], 2)  # a vote on each of two classes
    annotator = np.repeat([0] * n_single + [1] * n_second, 2)
    names, label = names_array([f"d{number}" for number in range(500)]), np.tile([0, 1], len(doc) // 2)
    votes = Votes.from_codes(
        doc, annotator, label, label, doc_ids=names, annotators=names_array(["a", "b"]), classes=names_array(["x", "y"])
    )
    gold = np.full((500, 2), -1, dtype=np.int8)
    gold[n_second : n_second + n_gold] = 1
    assert TrainingSnapshot(0, [1, 2], names.tolist(), [], votes, gold).has_enough_for_words == has_enough


def test_posteriors_are_those_of_a_fit_to_the_same_votes(news: Newsroom) -> None:
    fitted(news)
    data = news.store.read(lambda connection: read_snapshot(connection, news.id))
    model, _ = fit_model(data, FitOptions(jobs=1))
    stored = {row.document: row.probabilities for row in results.consensus(news.store, news.id)}
    for name, expected in zip(model.doc_ids_, model.consensus_, strict=True):
        np.testing.assert_allclose(list(stored[name].values()), expected, atol=1e-6)


def test_a_vote_changes_the_posterior_of_its_document_and_the_annotator(news: Newsroom) -> None:
    learner = fitted(news)
    task = news.task(0)
    before, estimate = news.posteriors()[task.document_id], news.rows("annotator_estimate")
    news.answer(0, task)
    run(learner, lambda: is_level(news, learner) and news.rows("annotator_estimate") != estimate)
    assert generation(news) == 1
    assert not np.array_equal(news.posteriors()[task.document_id], before)
    row = next(row for row in news.rows("posterior") if row["document_id"] == task.document_id)
    assert row["position"] == results.status(news.store, news.id).position
    n_votes = [dict(row["estimate"])["n_votes"] for row in (estimate[0], news.rows("annotator_estimate")[0])]
    assert n_votes[1] == n_votes[0] + 4


def test_a_withdrawn_vote_brings_the_posterior_back(news: Newsroom) -> None:
    learner = fitted(news)
    task = news.task(0)
    before = news.posteriors()[task.document_id]
    news.answer(0, task)
    run(learner, lambda: is_level(news, learner))
    labelling.undo(news.store, news.people[0], news.id, "undo-1")
    run(learner, lambda: is_level(news, learner))
    np.testing.assert_allclose(news.posteriors()[task.document_id], before, atol=0.01)  # rates differ a little


def test_a_decision_becomes_a_known_label(news: Newsroom) -> None:
    learner = fitted(news)
    document = results.doubtful(news.store, news.id)[0].document_id
    labels = [label.id for label in projects.project(news.store, news.id).labels]
    documents.set_gold(news.store, news.id, document, dict(zip(labels, (1, 0, 1, 0), strict=True)), news.owner)
    run(learner, lambda: is_level(news, learner))
    assert news.posteriors()[document].tolist() == [1, 0, 1, 0]
    assert generation(news) == 1
    documents.set_gold(news.store, news.id, document, {})
    learner._projects[news.id]._fit_at = 0.0
    run(learner, lambda: generation(news) == 2, refit=True)
    assert news.posteriors()[document].tolist() != [1, 0, 1, 0]


def test_queues_hold_what_nobody_has_answered_or_holds(news: Newsroom) -> None:
    learner = fitted(news)
    for who in (0, 1, 2) * 4:
        task = news.task(who)
        news.answer(who, task)
        learner.step()
        taken = {(row["person_id"], row["document_id"]) for row in news.rows("answer") + news.rows("lease")}
        queued = [(row["person_id"], row["document_id"]) for row in news.rows("queue")]
        assert not taken & set(queued)
        assert len(set(queued)) == len(queued)
    run(learner, lambda: len({row["person_id"] for row in news.rows("queue")}) == 3)


def test_documents_that_were_declined_are_not_queued_again(news: Newsroom) -> None:
    learner = fitted(news)
    declined = set()
    for kind in ("skip", "cannot_tell") * 3:
        task = news.task(0)
        given = Answer(task.document_id, f"declined-{len(declined)}", kind)  # type: ignore[arg-type]
        labelling.submit(news.store, news.people[0], news.id, given)
        declined.add(task.document_id)
        learner.step()
        queued = {row["document_id"] for row in news.rows("queue") if row["person_id"] == news.people[0].person_id}
        assert not declined & queued


def test_single_classes_are_asked_for_if_the_project_wants_it(news: Newsroom) -> None:
    projects.change(news.store, news.id, settings={"ask": "labels"})
    learner = fitted(news, 45)
    run(learner, lambda: any(row["label_ids"] for row in news.rows("queue")))
    task = next(task for task in (news.task(who) for who in range(3)) if len(task.label_ids) < 4)
    news.send(0, task.document_id, dict.fromkeys(task.label_ids, 1))
    run(learner, lambda: is_level(news, learner))


def test_the_learner_works_on_every_kind_of_store(store_location: str) -> None:
    room = Newsroom(store_location, settings=NEVER)
    try:
        learner = fitted(room)
        news_task = room.task(0)
        before = room.posteriors()[news_task.document_id]
        room.answer(0, news_task)
        people.erase(room.store, room.owner, room.id, room.people[2].person_id)
        run(learner, lambda: generation(room) == 2 and is_level(room, learner), refit=True)
        assert not np.array_equal(room.posteriors()[news_task.document_id], before)
        again = room.learner()
        run(again, lambda: is_level(room, again) and bool(room.rows("queue")))
    finally:
        room.store.close()


def test_paused_annotators_get_no_documents(news: Newsroom) -> None:
    learner = fitted(news)
    run(learner, lambda: len({row["person_id"] for row in news.rows("queue")}) == 3)
    paused = news.people[1].person_id
    people.set_paused(news.store, news.id, paused, is_paused=True)
    run(learner, lambda: paused not in {row["person_id"] for row in news.rows("queue")})


def test_a_new_learner_continues_where_the_last_one_ended(news: Newsroom) -> None:
    learner = fitted(news)
    news.label(3)
    run(learner, lambda: is_level(news, learner))
    before = news.posteriors()
    again = news.learner()
    run(again, lambda: is_level(news, again))
    assert generation(news) == 1
    for document, probabilities in news.posteriors().items():
        np.testing.assert_allclose(probabilities, before[document], atol=0.02)
    news.label(1)
    run(again, lambda: is_level(news, again))


def test_an_unfinished_fit_leaves_nothing_behind(news: Newsroom, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = fitted(news)
    n_rows = len(news.rows("posterior"))

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    news.label(9)
    learner._projects[news.id]._fit_at = 0.0
    monkeypatch.setattr(model_files, "write_posteriors", fail)
    with pytest.raises(KeyboardInterrupt):
        run(learner, lambda: False)
    monkeypatch.undo()
    again = news.learner()
    run(again, lambda: is_level(news, again))
    assert len(news.rows("posterior")) == n_rows
    assert {row["generation"] for row in news.rows("model_file")} == {1}


def test_an_erased_annotator_disappears_from_the_model(news: Newsroom) -> None:
    learner = fitted(news)
    people.erase(news.store, news.owner, news.id, news.people[2].person_id)
    assert not news.rows("model_file")
    run(learner, lambda: generation(news) == 2 and is_level(news, learner), refit=True)
    content = b"".join(bytes(row["content"]) for row in sorted(news.rows("model_file"), key=lambda row: row["part"]))  # type: ignore[arg-type,return-value]
    members = zipfile.ZipFile(io.BytesIO(content))
    assert not any(b"annotator-2" in members.read(name) for name in members.namelist())
    run(learner, lambda: len(news.rows("annotator_estimate")) == 2)
    assert {row["person_id"] for row in news.rows("annotator_estimate")} == {one.person_id for one in news.people[:2]}


def test_a_fit_that_has_seen_an_erased_annotator_is_dropped(news: Newsroom) -> None:
    learner = fitted(news)
    news.label(9)
    one = learner._projects[news.id]
    one._fit = one._start_fit(news.id)
    people.erase(news.store, news.owner, news.id, news.people[2].person_id)
    one._poll_fit()
    assert generation(news) == 1
    assert not news.rows("model_file")
    run(learner, lambda: generation(news) == 2, refit=True)


def test_a_class_that_is_added_later_gets_into_the_model(news: Newsroom) -> None:
    learner = fitted(news)
    projects.change(news.store, news.id, settings={"target_error": 0.5})
    run(learner, lambda: projects.project(news.store, news.id).is_complete)
    added = projects.add_label(news.store, news.id, "new class", "")
    run(learner, lambda: is_level(news, learner))
    assert not projects.project(news.store, news.id).is_complete  # nobody has judged the class
    projects.change(news.store, news.id, settings={"target_error": 1e-6})
    run(learner, lambda: generation(news) == 2, refit=True)
    rows = csv.DictReader(io.StringIO(b"".join(exports.labels_csv(news.store, news.id)).decode()))
    assert not any("new class" in row["labels"] for row in rows)
    assert news.rows("fit")[-1]["label_ids"][-1] == added.id  # type: ignore[index]
    assert all(len(probabilities) == 5 for probabilities in news.posteriors().values())
    news.label(3)
    run(learner, lambda: is_level(news, learner))


def test_new_documents_get_into_the_model(news: Newsroom) -> None:
    learner = fitted(news)
    news.add([documents.DocumentRow("another", "wheat prices fell")])
    run(learner, lambda: generation(news) == 2, refit=True)
    assert len(news.posteriors()) == 21


def test_a_deleted_document_is_not_assigned(news: Newsroom) -> None:
    learner = fitted(news)
    run(learner, lambda: len(news.rows("queue")) > 0)
    gone = news.rows("queue")[0]["document_id"]
    documents.delete_document(news.store, news.id, int(str(gone)))
    run(learner, lambda: generation(news) == 2 and is_level(news, learner), refit=True)
    assert gone not in {row["document_id"] for row in news.rows("queue") + news.rows("posterior")}


def test_the_project_is_complete_when_the_target_is_met(news: Newsroom) -> None:
    learner = fitted(news, 45)
    assert not news.rows("project")[0]["is_complete"]
    projects.change(news.store, news.id, settings={"target_error": 0.4})
    run(learner, lambda: bool(news.rows("project")[0]["is_complete"]))
    assert not news.rows("queue")
    assert labelling.next_task(news.store, news.people[0], news.id) == labelling.NoTask("complete")
    projects.change(news.store, news.id, settings={"target_error": 1e-6})
    run(learner, lambda: not news.rows("project")[0]["is_complete"] and bool(news.rows("queue")))


def test_a_project_is_not_complete_before_a_new_class_was_fitted(news: Newsroom) -> None:
    learner = fitted(news, 45)
    projects.change(news.store, news.id, settings={"target_error": 0.4})
    run(learner, lambda: bool(news.rows("project")[0]["is_complete"]))
    projects.add_label(news.store, news.id, "new class")
    run(learner, lambda: is_level(news, learner))
    assert generation(news) == 1
    assert not news.rows("project")[0]["is_complete"]


def test_people_who_left_the_project_get_no_documents_and_can_be_erased_elsewhere(news: Newsroom) -> None:
    learner = fitted(news)
    run(learner, lambda: len({row["person_id"] for row in news.rows("queue")}) == 3)
    gone = news.people[1]
    other = projects.create(news.store, news.owner, "other", ["a"]).id
    access.accept(news.store, access.invite(news.store, news.owner, other, "annotator"), actor=gone)
    people.erase(news.store, news.owner, news.id, gone.person_id)
    run(learner, lambda: generation(news) == 2 and bool(news.rows("queue")), refit=True)
    for _ in range(5):
        learner.step()
    assert gone.person_id not in {row["person_id"] for row in news.rows("queue")}
    people.erase(news.store, news.owner, other, gone.person_id)


def test_a_clock_that_is_set_back_does_not_stop_the_learner(news: Newsroom, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = fitted(news)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    news.label(3)
    run(learner, lambda: is_level(news, learner))


def test_a_failed_fit_is_noted_and_repeated(news: Newsroom) -> None:
    news.label(24)
    fits = iter([FitProcess(news.url, 999, FitOptions())])
    learner = Learner(news.store, FitOptions(), lambda _: next(fits))

    def state() -> dict[str, object]:
        learner._beat_at = 0.0
        return next(iter(news.rows("learner_state")), {})

    run(learner, lambda: state().get("activity") == "failed")
    assert str(state()["message"]).startswith("the fit failed:")
    assert state()["n_failures"] == 1
    one = learner._projects[news.id]
    one._start_fit, one._fit_at = news.learner()._start_fit, 0.0
    run(learner, lambda: generation(news) == 1 and state()["activity"] == "waiting")


@pytest.mark.slow
def test_a_killed_learner_is_noted_and_started_again(news: Newsroom) -> None:
    news.label(24)
    supervisor = LearnerSupervisor(news.url, FitOptions(jobs=1))
    supervisor.start()
    try:
        _wait(lambda: generation(news) == 1)
        first = supervisor.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        _wait(lambda: news.rows("learner_state")[0]["activity"] == "failed")
        assert "signal 9" in str(news.rows("learner_state")[0]["message"])
        _wait(lambda: news.rows("learner_state")[0]["activity"] != "failed")
        assert supervisor.process_id != first
    finally:
        supervisor.stop()
    assert supervisor.process_id is None


def test_a_learner_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sqlalchemy.py").write_text("open('was_imported', 'w')")
    monkeypatch.chdir(tmp_path)
    supervisor = LearnerSupervisor(tmp_path / "project.db", FitOptions())
    supervisor.stop()  # the process ends as soon as it has started
    supervisor._run_once()
    assert not (tmp_path / "was_imported").exists()


def _wait(until: object, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not until():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)
