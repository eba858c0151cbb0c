"""A labelling project in a real Label Studio from the first annotation to ``disconnect``: make test-labelstudio."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.labelstudio.real_studio import EMAIL, PASSWORD, Palda, RealStudio, wait_until
from tests.live.watched import CHROMIUM, running_browser

from palda import simulate
from palda.data import Documents
from palda.io import read_labelstudio
from palda.live.learner.fitting import TrainingSnapshot, fit_model, read_snapshot
from palda.live.learner.options import FitOptions
from palda.live.store import open_store

pytestmark = pytest.mark.labelstudio

CLASSES = ["crime", "sport", "money"]
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topics" toName="text" choice="multiple">'
    + "".join(f'<Choice value="{name}"/>' for name in [*CLASSES, "arts"])
    + "</Choices></View>"
)
N_TASKS = 60
OURS = {"model_version", "sampling", "show_collab_predictions"}
COUNTS = {
    "num_tasks_with_annotations", "useful_annotation_number", "total_annotations_number", "total_predictions_number",
    "finished_task_number", "queue_total", "queue_done", "skipped_annotations_number", "ground_truth_number",
    "task_number", "state",
}  # fmt: skip


class Crowd:
    """Three people who are right to different degrees; what they said, by annotation."""

    def __init__(self, studio: RealStudio, users: list[int], tasks: list[int]) -> None:
        draw = random.Random(0)  # noqa: S311 - no secret
        self._studio, self._random = studio, draw
        self.users = users
        self.truth = {task: {name for name in CLASSES if draw.random() < 0.4} for task in tasks}
        self._accuracy = dict(zip(users, (0.97, 0.9, 0.75), strict=True))
        self.said: dict[int, dict[str, Any]] = {}
        self._seen: set[tuple[int, int]] = set()

    def annotate(self, task: int, user: int, **fields: Any) -> int:
        """One annotation."""
        right = self._accuracy[user]
        chosen = [name for name in CLASSES if (name in self.truth[task]) == (self._random.random() < right)]
        found = self._studio.annotate(task, user, chosen, **fields)
        self.said[found["id"]] = found
        self._seen.add((task, user))
        return int(found["id"])

    def new_task(self, user: int) -> int:
        """A task that a person has not annotated."""
        return next(task for task in self.truth if (task, user) not in self._seen)


@dataclass
class Scene:
    """A project in Label Studio, its crowd, and palda beside it. The tests below are its acts, in this order."""

    studio: RealStudio
    palda: Palda
    project: int
    crowd: Crowd
    first: dict[str, Any]  # the project before it was connected
    first_tasks: dict[int, dict[str, Any]]
    folder: Path
    figures: dict[str, object]

    @property
    def path(self) -> str:
        """Address of the project in the API."""
        return f"/api/projects/{self.project}"

    def tasks(self) -> dict[int, dict[str, Any]]:
        """Tasks as they are now; every annotation must be as its author left it."""
        found = self.studio.tasks(self.project)
        untouched(found, self.crowd)
        return found

    def wait_in_step(self, what: str) -> None:
        """Wait until the votes are those of Label Studio, and note how long it took."""
        self.figures[f"{what}, s until in step"] = wait_until(
            lambda: store_votes(self.palda) == remote_votes(self.studio, self.project), 120, what
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, figures: dict[str, object]) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("studio")
    studio = RealStudio(folder)
    studio.start()
    project, users, tasks = make_project(studio, N_TASKS, overlap=2)
    options = ("--target-error", "0.02", "--max-votes", "3", "--prelabel-share", "0.8")
    palda = Palda(folder, studio.url, project, *options)
    first, first_tasks = studio.get(f"/api/projects/{project}"), studio.tasks(project)
    found = Scene(studio, palda, project, Crowd(studio, users, tasks), first, first_tasks, folder, figures)
    yield found
    palda.kill()
    studio.kill()
    studio.api.close()


def make_project(studio: RealStudio, n_tasks: int, overlap: int) -> tuple[int, list[int], list[int]]:
    """Project, users and tasks."""
    users = []
    present = {user["email"]: user["id"] for user in studio.get("/api/users/")}
    for name in ("ada", "alan", "grace"):
        email = f"{name}@example.org"
        body = {"email": email, "username": name, "first_name": name.title(), "last_name": "Tester"}
        users.append(present.get(email) or studio.send("POST", "/api/users/", body)["id"])
    body = {"title": "News", "label_config": CONFIG, "maximum_annotations": overlap}
    project = studio.send("POST", "/api/projects/", body)["id"]
    texts = simulate.newsroom(n_tasks, seed=1).documents.texts
    studio.send("POST", f"/api/projects/{project}/import", [{"text": str(text)} for text in texts])
    return project, users, sorted(studio.tasks(project))


def store_votes(palda: Palda) -> set[tuple[str, str, str, int]]:
    table = snapshot(palda).votes.to_frame()
    return {(str(a), str(b), str(c), int(d)) for a, b, c, d in table[["doc", "annotator", "label", "value"]].to_numpy()}


def user_names(studio: RealStudio) -> dict[int, str]:
    users = studio.get("/api/users/")
    return {user["id"]: f"{user['first_name']} {user['last_name']}".strip() or user["email"] for user in users}


def remote_votes(studio: RealStudio, project: int) -> set[tuple[str, str, str, int]]:
    names = user_names(studio)
    found = set()
    for number, task in studio.tasks(project).items():
        for one in task["annotations"]:
            if not one["was_cancelled"]:
                chosen = {name for item in one["result"] for name in item["value"]["choices"]}
                for label in [*CLASSES, "arts"]:
                    found.add((str(number), names[one["completed_by"]], label, int(label in chosen)))
    return found


def untouched(tasks: dict[int, dict[str, Any]], crowd: Crowd) -> None:
    """Every annotation is as its author left it."""
    for task in tasks.values():
        for one in task["annotations"]:
            said = crowd.said.get(one["id"])
            if said is not None:
                kept = ("result", "completed_by", "updated_at", "was_cancelled", "ground_truth")
                assert {name: one[name] for name in kept} == {name: said[name] for name in kept}


def from_export(studio: RealStudio, project: int, folder: Path) -> TrainingSnapshot:
    """What a fit of the exported file reads, with the names of users: a fit depends a little on the order of names."""
    path, config = folder / "export.json", folder / "config.xml"
    tasks = studio.get(f"/api/projects/{project}/export", exportType="JSON", download_all_tasks="true")
    names = user_names(studio)
    for one in (one for task in tasks for one in task["annotations"]):
        one["completed_by"] = {"email": names[one["completed_by"]]}
    path.write_text(json.dumps(sorted(tasks, key=lambda task: task["id"])))
    config.write_text(CONFIG)
    export = read_labelstudio(path, label_config=config, prelabelled="keep")
    assert isinstance(export.corpus, Documents)
    texts, ids = ([str(one) for one in found] for found in (export.corpus.texts, export.corpus.doc_ids))
    return TrainingSnapshot(0, list(range(len(export.classes))), ids, texts, export.votes, export.gold)


def is_open(task: dict[str, Any]) -> bool:
    """Whether a task waits for a third annotator."""
    return task["overlap"] == 3 and not task["is_labeled"]


def test_annotations_become_votes_while_people_label(scene: Scene) -> None:
    scene.palda.start()
    for task in list(scene.crowd.truth):
        for user in scene.crowd.users[:2]:
            scene.crowd.annotate(task, user)
    scene.wait_in_step("120 annotations by webhook")
    assert {"Ada Tester", "Alan Tester"} <= {one["name"] for one in scene.palda.get("/people")}


def test_doubtful_tasks_reopen_and_certain_ones_stay_closed(scene: Scene) -> None:
    wait_until(lambda: any(map(is_open, scene.tasks().values())), 120, "doubtful tasks reopen")
    wait_until(lambda: str(scene.studio.get(scene.path)["model_version"]).startswith("palda-"), 60, "model version")
    now = scene.tasks()
    scene.figures["tasks open for a third annotator"] = sum(map(is_open, now.values()))
    scene.figures["tasks closed with two"] = n_closed = sum(task["is_labeled"] for task in now.values())
    assert n_closed


def test_predictions_appear_and_have_the_model_version_of_the_project(scene: Scene) -> None:
    def agree() -> bool:
        found = {one["model_version"] for task in scene.tasks().values() for one in task["predictions"]}
        assert all(name.startswith("palda-") for name in found)
        return scene.studio.get(scene.path)["model_version"] in found

    wait_until(agree, 60, "predictions have the current version")
    predicted = [task for task in scene.tasks().values() if task["predictions"]]
    chosen = [task for task in predicted if task["predictions"][0]["result"]]
    scene.figures["tasks with predictions, and with classes in them"] = (len(predicted), len(chosen))
    assert chosen


def test_ten_tasks_are_annotated_in_a_browser(scene: Scene) -> None:
    """By "Label All Tasks": Label Studio chooses, from the tasks that are open."""
    assert CHROMIUM is not None, "no Chromium found: install one, or name it in PALDA_CHROMIUM"
    now = scene.tasks()
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 700})
        page.set_default_timeout(120_000)
        page.goto(f"{scene.studio.url}/user/login/")
        page.fill("input[name=email]", EMAIL)
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.goto(f"{scene.studio.url}/projects/{scene.project}/data?labeling=1")
        served = [annotate_in_browser(page, scene, now) for _ in range(10)]
        scene.wait_in_step("ten annotations in a browser")
        page.goto(scene.palda.links["admin_link"])
        page.click("main button")
        page.goto(f"{scene.palda.links['url']}/projects/{scene.palda.links['project']}/dashboard")
        page.get_by_text("is labelled there").wait_for()
        assert page.locator("#prelabels").count() == 1
        page.set_viewport_size({"width": 1200, "height": 900})
        page.wait_for_timeout(1500)
        photograph(page, "dashboard")
        page.goto(f"{scene.palda.links['url']}/projects/{scene.palda.links['project']}/adjudicate")
        link = page.get_by_role("link", name="Open in Label Studio")
        link.wait_for()
        page.wait_for_function("document.getElementById('task-link').href.includes('task=')")
        assert str(link.get_attribute("href")).startswith(f"{scene.studio.url}/projects/{scene.project}/data?task=")
    after = scene.tasks()
    mine = [one for task in after.values() for one in task["annotations"] if one["completed_by"] == 1]
    assert sorted(one["task"] for one in mine) == sorted(served)
    scene.figures["of ten annotations in a browser, began from a prediction"] = n_began = sum(
        one["parent_prediction"] is not None for one in mine
    )
    assert len(mine) == 10
    assert n_began


def annotate_in_browser(page: Any, scene: Scene, tasks: dict[int, dict[str, Any]]) -> int:
    """Choose the right classes of the task that is served, and submit; returns the task."""
    page.locator("label:has-text('arts')").first.wait_for()
    page.wait_for_timeout(1500)
    shown = " ".join(page.inner_text("body").split())
    number = next(number for number, task in tasks.items() if " ".join(task["data"]["text"].split()) in shown)
    if any(one["result"] for one in tasks[number]["predictions"]):
        page.get_by_text("Annotation saved successfully").first.wait_for(state="hidden")
        photograph(page, "task")
    for name in sorted(scene.crowd.truth[number]):
        box = page.locator(f"label:has-text('{name}')").first
        if not box.locator("input").is_checked():
            box.click()
    with page.expect_response(lambda answer: "/annotations" in answer.url and answer.request.method == "POST"):
        page.locator("[data-testid=bottombar-submit-button], button[aria-label=submit]").first.click()
    page.wait_for_timeout(1500)
    return number


def photograph(page: Any, name: str) -> None:
    """Save a picture for the guide, if asked to by PALDA_PICTURES."""
    folder = os.environ.get("PALDA_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"labelstudio-{name}.png")


def test_votes_that_began_from_a_prediction_and_early_certainty(scene: Scene) -> None:
    third = scene.crowd.users[2]
    for number, task in scene.tasks().items():
        if is_open(task):
            parent = task["predictions"][0]["id"] if task["predictions"] else None
            scene.crowd.annotate(number, third, parent_prediction=parent)
    scene.wait_in_step("third votes")
    settled = [number for number, task in scene.tasks().items() if task["is_labeled"]]
    wanted = settled[0]
    scene.studio.send("PATCH", f"/api/tasks/{wanted}/", {"overlap": 5, "is_labeled": False})  # somebody opens it
    body = {"result": scene.crowd.said[min(scene.crowd.said)]["result"]}
    touched = min(scene.crowd.said)
    scene.crowd.said[touched] = scene.studio.send("PATCH", f"/api/annotations/{touched}/", body)
    text = scene.first_tasks[wanted]["data"]["text"]
    scene.studio.send(
        "POST", "/api/tasks/", {"project": scene.project, "data": {"text": text}}
    )  # asks for a comparison
    wait_until(lambda: scene.tasks()[wanted]["is_labeled"], 180, "a certain task closes")


def test_changed_and_deleted_annotations_are_followed(scene: Scene) -> None:
    changed, deleted = sorted(scene.crowd.said)[2:4]
    item = {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": ["arts"]}}
    scene.crowd.said[changed] = scene.studio.send("PATCH", f"/api/annotations/{changed}/", {"result": [item]})
    scene.studio.send("DELETE", f"/api/annotations/{deleted}/")
    scene.crowd.said.pop(deleted)
    scene.wait_in_step("a changed and a deleted annotation")


def test_a_changed_text_is_followed(scene: Scene) -> None:
    number = min(scene.crowd.truth)
    scene.studio.send("PATCH", f"/api/tasks/{number}/", {"data": {"text": "quite another text"}})
    one = min(key for key, said in scene.crowd.said.items() if said["task"] == number)
    result = scene.crowd.said[one]["result"]
    scene.crowd.said[one] = scene.studio.send("PATCH", f"/api/annotations/{one}/", {"result": result})
    scene.figures["a changed text, s until it is here"] = wait_until(
        lambda: "quite another text" in snapshot(scene.palda).texts, 60, "the text is followed"
    )


def test_both_servers_are_killed_and_nothing_is_lost(scene: Scene) -> None:
    third = scene.crowd.users[2]
    scene.palda.kill()
    scene.crowd.annotate(scene.crowd.new_task(third), third)
    scene.studio.kill()
    scene.studio.start()
    gone = sorted(scene.crowd.said)[4]
    scene.studio.send("DELETE", f"/api/annotations/{gone}/")
    scene.crowd.said.pop(gone)
    scene.palda.start()
    scene.wait_in_step("both killed")
    scene.studio.kill()
    scene.studio.start()
    scene.crowd.annotate(scene.crowd.new_task(third), third)
    scene.wait_in_step("Label Studio killed beside palda")


def test_the_consensus_equals_a_fit_from_the_exported_file(scene: Scene) -> None:
    mine = snapshot(scene.palda)
    theirs = from_export(scene.studio, scene.project, scene.folder)
    assert theirs.doc_ids == mine.doc_ids
    fits = [fit_model(data, FitOptions(jobs=1))[0] for data in (mine, theirs)]
    tables = [np.asarray(fit.consensus_) for fit in fits]
    order = [list(fits[1].classes_).index(name) for name in fits[0].classes_]
    np.testing.assert_allclose(tables[0], tables[1][:, order], atol=1e-6)
    labels = [str(label["id"]) for label in scene.palda.get("")["labels"]]

    def live() -> np.ndarray[Any, Any]:
        served = {row["document"]: row["probabilities"] for row in scene.palda.get("/consensus", limit=1000)}
        return np.array([[served[name].get(label, np.nan) for label in labels] for name in mine.doc_ids])

    def agreement() -> float:
        return float(((live() > 0.5) == (tables[0] > 0.5)).mean())

    wait_until(lambda: agreement() > 0.97, 60, "the live consensus is that of the fit")
    scene.figures["labels where live consensus and new fit agree"] = agreement()
    truth = np.array(
        [[name in scene.crowd.truth.get(int(task), ()) for name in fits[0].classes_] for task in mine.doc_ids]
    )
    known = [int(task) in scene.crowd.truth for task in mine.doc_ids]
    scene.figures["labels right"] = float(((live() > 0.5) == truth)[known].mean())


def test_nothing_but_what_is_listed_was_changed(scene: Scene) -> None:
    last = scene.studio.get(scene.path)
    differing = {name for name, value in scene.first.items() if value != last.get(name)}
    assert differing <= OURS | COUNTS
    url = f"{scene.palda.links['url']}/labelstudio/{scene.palda.links['project']}/health"
    assert httpx.get(url, timeout=10, trust_env=False).status_code == 401
    report = scene.palda.get("/exports/report.html")
    assert "Influence of pre-labels" in report
    scene.palda.end()
    told = run("status", str(scene.palda.store))
    (scene.figures["pre-labels"],) = (
        line.split(":", 1)[1].strip() for line in told.splitlines() if "pre-labels:" in line
    )


def test_disconnecting_restores_what_was_set(scene: Scene) -> None:
    command = "disconnect", "--project", str(scene.project), "--store", str(scene.palda.store)
    run(*command)
    assert any(task["predictions"] for task in scene.tasks().values())  # somebody may have one open
    run(*command, "--predictions", "delete")
    end, tasks = scene.studio.get(scene.path), scene.tasks()
    assert {name: end[name] for name in OURS} == {name: scene.first[name] for name in OURS}
    assert scene.studio.get("/api/webhooks/", project=scene.project) == []
    assert scene.studio.get("/api/ml/", project=scene.project) == []
    assert all(not task["predictions"] for task in tasks.values())
    for number, before in scene.first_tasks.items():
        n_done = len([one for one in tasks[number]["annotations"] if not one["was_cancelled"]])
        assert tasks[number]["is_labeled"] == (n_done >= tasks[number]["overlap"])
        if tasks[number]["overlap"] != 5:  # which somebody else set
            assert tasks[number]["overlap"] == before["overlap"]


def test_two_questions_are_followed_side_by_side(scene: Scene) -> None:
    config = CONFIG.replace("</View>", '<Choices name="mood" toName="text"><Choice value="good"/></Choices></View>')
    body = {"title": "Two questions", "label_config": config}
    project = scene.studio.send("POST", "/api/projects/", body)["id"]
    scene.studio.send("POST", f"/api/projects/{project}/import", [{"text": "one"}, {"text": "two"}])
    folder = scene.folder / "two"
    folder.mkdir()
    palda = Palda(folder, scene.studio.url, project, "--question", "topics", "--question", "mood")
    palda.start()
    wait_until(lambda: sum("registered" in line for line in palda.lines) == 2, 60, "both questions are registered")
    result = [
        {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [chosen]}}
        for name, chosen in (("topics", "sport"), ("mood", "good"))
    ]
    for task in scene.studio.tasks(project):
        scene.studio.send("POST", f"/api/tasks/{task}/annotations/", {"result": result})

    def votes() -> list[int]:
        store = open_store(palda.store, as_learner=True)
        found = [store.read(partial(read_snapshot, project_id=number)).votes for number in (1, 2)]
        store.close()
        return [len(one) for one in found]

    scene.figures["two questions, s until in step"] = wait_until(lambda: votes() == [8, 2], 60, "both are followed")
    assert len(scene.studio.get("/api/webhooks/", project=project)) == 2
    assert len(scene.studio.get("/api/ml/", project=project)) == 1
    palda.end()
    run("disconnect", "--project", str(project), "--store", str(palda.store), "--predictions", "delete")
    assert scene.studio.get("/api/webhooks/", project=project) == []


def snapshot(palda: Palda) -> TrainingSnapshot:
    """What a fit of the store reads."""
    store = open_store(palda.store, as_learner=True)
    found = store.read(lambda connection: read_snapshot(connection, palda.links["project"]))
    store.close()
    return found


def run(*arguments: str) -> str:
    """Output of a command."""
    command = [sys.executable, "-m", "palda", "labelstudio", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
