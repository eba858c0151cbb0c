"""What the learner leaves behind when people or votes are removed, and which classes tests ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from tests.live_projects import Newsroom, run

from palda.live.learner import estimates
from palda.live.learner.loop import Learner
from palda.live.records import Answer, ProjectSettings
from palda.live.service import documents, labelling, people, projects


@pytest.fixture
def news(tmp_path: Path) -> Iterator[Newsroom]:
    room = Newsroom(tmp_path / "news.db", settings=ProjectSettings(target_error=1e-6, gold_share=0.0))
    yield room
    room.store.close()


def generation(room: Newsroom) -> int:
    return int(str(room.rows("project")[0]["generation"]))


def fitted(room: Newsroom) -> Learner:
    room.label(24)
    learner = room.learner()
    run(learner, lambda: generation(room) > 0 and len(room.rows("annotator_estimate")) == len(room.people))
    return learner


def has_name(room: Newsroom) -> bool:
    """Whether an estimate names the third annotator; pseudonyms begin likewise."""
    return re.search(r"annotator-2(?![0-9a-f])", str(room.rows("annotator_estimate"))) is not None


def erase_all(room: Newsroom) -> None:
    for one in room.people:
        people.erase(room.store, room.owner, room.id, one.person_id)


def test_erased_annotators_leave_no_results_if_too_few_votes_are_left(news: Newsroom) -> None:
    learner = fitted(news)
    projects.change(news.store, news.id, settings={"target_error": 0.5})
    run(learner, lambda: bool(news.rows("project")[0]["is_complete"]))
    erase_all(news)
    run(learner, lambda: generation(news) == 0, refit=True)
    for table in ("posterior", "evidence", "model_file", "progress", "annotator_estimate", "queue"):
        assert not news.rows(table), table
    assert not news.rows("project")[0]["is_complete"]
    news.people = [news.join("somebody else")]
    news.label(12)
    run(learner, lambda: generation(news) == 2, refit=True)


def test_a_model_that_lost_its_votes_while_no_learner_ran_is_left(news: Newsroom) -> None:
    fitted(news).close()
    erase_all(news)
    learner = news.learner()
    run(learner, lambda: generation(news) == 0 and not news.rows("posterior"))


def test_a_model_that_has_left_the_memory_is_fitted_again_after_a_removal(
    news: Newsroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = fitted(news)
    monkeypatch.setattr("palda.live.learner.project_learner._IDLE_SECONDS", 0.0)
    run(learner, lambda: learner._projects[news.id].live is None)
    people.erase(news.store, news.owner, news.id, news.people[2].person_id)
    run(learner, lambda: generation(news) == 2, refit=True)


@pytest.mark.parametrize("change", [people.erase, people.pseudonymise])
def test_alarms_of_others_do_not_keep_a_name_that_is_gone(
    news: Newsroom, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]
) -> None:
    findings = estimates.AnnotatorFindings
    monkeypatch.setattr(findings, "_copy_alarms", lambda self, _: [f"copy: {', '.join(self._quality)}"])
    learner = fitted(news)
    assert has_name(news)
    written = findings.estimate

    def change_meanwhile(self: estimates.AnnotatorFindings, *given: object) -> object:
        if has_name(news):
            change(news.store, news.owner, news.id, news.people[2].person_id)
        return written(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(findings, "estimate", change_meanwhile)
    news.label(2, [0, 1])
    seen: list[bool] = []

    def is_fitted() -> bool:
        seen.append(has_name(news))
        return generation(news) == 2

    run(learner, is_fitted, refit=True)
    assert not seen[-1]
    assert not any(later for first, later in pairwise(seen) if not first)


def test_documents_that_nobody_could_judge_are_not_enough_for_a_fit(news: Newsroom) -> None:
    for number in range(12):
        given = Answer(news.task(0).document_id, f"c{number}", "cannot_tell")
        labelling.submit(news.store, news.people[0], news.id, given)
    learner = news.learner()
    for _ in range(3):
        learner.step()
        learner._projects[news.id]._fit_at = learner._beat_at = 0.0
    assert news.rows("learner_state")[0]["message"] == "waiting for votes"


def test_a_test_asks_for_as_many_classes_as_other_documents(tmp_path: Path) -> None:
    wanted = ProjectSettings(target_error=1e-6, gold_share=0.5, check_share=0.0, ask="labels")
    room = Newsroom(tmp_path / "news.db", settings=wanted)
    known = documents.documents(room.store, room.id)[:5]
    labels = [label.id for label in room.project.labels]
    for one in known:
        documents.set_gold(room.store, room.id, one.id, dict.fromkeys(labels, 0))
    fitted(room)
    shown: dict[object, list[int]] = {"gold": [], "gain": []}
    learner = room.learner()
    for _ in range(12):
        run(learner, lambda: any(row["person_id"] == room.people[0].person_id for row in room.rows("queue")))
        for row in room.rows("queue"):
            shown[row["purpose"]].append(len(row["label_ids"] or labels))  # type: ignore[arg-type]
        room.answer(0, room.task(0))
    learner.close()
    room.store.close()
    assert min(shown["gain"]) < len(labels)
    assert min(shown["gold"]) < len(labels)
