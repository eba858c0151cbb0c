"""Size and latency beside a real Label Studio: ``python -m benchmarks labelstudio [--tasks 10000] [--folder FOLDER]``.

Label Studio is installed into build/labelstudio the first time, or taken from the virtual environment that the variable
PALDA_LABELSTUDIO names. Measured are

- how long ``palda labelstudio connect`` takes until all annotations are votes, and the processor time of both servers;
- how long a webhook takes until it is acknowledged, while the first fit runs and after it;
- the processor time of the server per webhook until its annotation is a vote.

Webhooks have the form that Label Studio sends, with a new time of change and another answer each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.labelstudio.real_studio import Palda, RealStudio, wait_until

from benchmarks.processes import children
from palda import simulate

CLASSES = ("crime", "sport", "money", "arts", "travel")
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topics" toName="text" choice="multiple">'
    + "".join(f'<Choice value="{name}"/>' for name in CLASSES)
    + "</Choices></View>"
)
TASKS_PER_IMPORT = 1000
N_WEBHOOKS = 300
WEBHOOK_SECONDS = 0.05  # between two
TARGETS = {"connect, s": 120.0, "webhook, ms of processor time": 50.0, "acknowledged while a fit runs, ms": 200.0}
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks labelstudio")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--annotations", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep Label Studio's data here, and use those that are there")
    parser.add_argument("--prepare", action="store_true", help="only fill Label Studio, in --folder")
    given = parser.parse_args(sys.argv[2:])
    with tempfile.TemporaryDirectory(prefix="palda-labelstudio-") as name:
        studio = RealStudio(given.folder or Path(name))
        studio.start()
        try:
            project = filled(studio, given.tasks, given.annotations)
            if not given.prepare:
                palda = Palda(Path(name), studio.url, project)
                try:
                    measure(studio, palda, project, given.tasks, given.tasks * given.annotations)
                finally:
                    palda.kill()
        finally:
            studio.kill()


def filled(studio: RealStudio, n_tasks: int, n_annotations: int) -> int:
    """Number of the project that is there already, or of a new one."""
    found = studio.get("/api/projects/")["results"]
    if found:
        assert found[0]["task_number"] == n_tasks, "the folder holds another number of tasks"
        return int(found[0]["id"])
    start = time.monotonic()
    project = fill(studio, n_tasks, n_annotations)
    say(f"{n_tasks:,} tasks with {n_annotations} annotations each were imported", start)
    return project


def fill(studio: RealStudio, n_tasks: int, n_annotations: int) -> int:
    """A project with tasks and annotations; returns its number."""
    users = []
    for number in range(n_annotations):
        body = {"email": f"u{number}@example.org", "username": f"u{number}", "first_name": f"User {number}"}
        users.append(studio.send("POST", "/api/users/", body)["id"])
    body = {"title": "News", "label_config": CONFIG, "maximum_annotations": n_annotations}
    project = int(studio.send("POST", "/api/projects/", body)["id"])
    texts = simulate.newsroom(n_tasks, seed=1).documents.texts
    draw = random.Random(0)  # noqa: S311 - no secret
    for first in range(0, n_tasks, TASKS_PER_IMPORT):
        rows = []
        for text in texts[first : first + TASKS_PER_IMPORT]:
            truth = {name for name in CLASSES if draw.random() < 0.3}
            votes = [[name for name in CLASSES if (name in truth) == (draw.random() < 0.85)] for _ in users]
            annotations = [
                {"result": [answer(chosen)], "completed_by": user, "ground_truth": False, "lead_time": 5.0}
                for user, chosen in zip(users, votes, strict=True)
            ]
            rows.append({"data": {"text": str(text)}, "annotations": annotations})
        studio.send("POST", f"/api/projects/{project}/import", rows)
    return project


def answer(chosen: list[str]) -> dict[str, Any]:
    """An item of a result."""
    return {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": chosen}}


def measure(studio: RealStudio, palda: Palda, project: int, n_tasks: int, n_annotations: int) -> None:
    """Connect, then send webhooks during the first fit and after it."""
    start = time.monotonic()
    before = processor_seconds(studio.process_id)
    palda.start(wait=False)
    wait_until(lambda: any("compared all tasks" in line for line in palda.lines), 600, "all tasks are read")
    seconds = time.monotonic() - start
    n_known = count(palda, "SELECT count(*) FROM labelstudio_annotation")
    assert n_known == n_annotations, f"{n_known:,} of {n_annotations:,} annotations were read"
    report("connect, s", seconds)
    say(f"  processor time: Label Studio {processor_seconds(studio.process_id) - before:.1f} s, "
        f"palda {processor_seconds(palda.process_id, alone=True):.1f} s")  # fmt: skip
    wait_until(lambda: any("registered" in line for line in palda.lines), 120, "the backend is registered")
    wait_until(lambda: activity(palda) == "fitting" or n_fits(palda), 120, "the first fit runs")
    hooks = Webhooks(studio, palda, project, n_tasks)
    during = hooks.send(lambda: activity(palda) == "fitting")
    if during:
        report("acknowledged while a fit runs, ms", max(during))
        say(f"  {len(during)} webhooks: median {np.median(during):.1f} ms, 95% {np.percentile(during, 95):.1f} ms")
    else:
        say("the first fit was too short for webhooks: take more tasks")
    wait_until(lambda: n_fits(palda) and activity(palda) != "fitting" and not waiting(palda), 900, "the fit is over")
    before = processor_seconds(palda.process_id, alone=True)
    after = hooks.send(lambda: True)
    wait_until(lambda: not waiting(palda), 120, "webhooks are taken in")
    used = processor_seconds(palda.process_id, alone=True) - before
    report("webhook, ms of processor time", 1000 * used / len(after))
    say(f"  {len(after)} webhooks: acknowledged in {np.median(after):.1f} ms (median), at most {max(after):.1f} ms; "
        "the time includes everything else that the server did meanwhile")  # fmt: skip


class Webhooks:
    """Webhooks about annotations that change."""

    def __init__(self, studio: RealStudio, palda: Palda, project: int, n_tasks: int) -> None:
        (secrets,) = json.loads(Path(f"{palda.store}.labelstudio").read_text()).values()
        address = f"{palda.links['url']}/labelstudio/{palda.links['project']}"
        headers = {"X-Palda-Secret": secrets["secret"]}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=30, trust_env=False)
        self._project = studio.get(f"/api/projects/{project}")
        found = studio.get("/api/tasks", project=project, page_size=min(n_tasks, N_WEBHOOKS), fields="all")
        self._tasks = found["tasks"]
        self._moments = itertools.count(int(time.time()) + 60)

    def send(self, goes_on: Any) -> list[float]:
        """Milliseconds until each was acknowledged."""
        found = []
        for number, task in enumerate(self._tasks):
            if number % 20 == 0 and not goes_on():
                break
            moment = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(next(self._moments)))
            one = {**task["annotations"][0], "updated_at": moment, "result": [answer([CLASSES[number % 5]])]}
            body = {"action": "ANNOTATION_UPDATED", "annotation": one, "task": task, "project": self._project}
            start = time.perf_counter()
            self._http.post("/webhook", json=body).raise_for_status()
            found.append(1000 * (time.perf_counter() - start))
            time.sleep(WEBHOOK_SECONDS)
        return found


def activity(palda: Palda) -> str:
    """What the learner does."""
    return str((palda.get("/status")["learner"] or {}).get("activity"))


def n_fits(palda: Palda) -> int:
    """Finished fits."""
    return count(palda, "SELECT count(*) FROM fit")


def waiting(palda: Palda) -> int:
    """Webhooks that are not taken in yet."""
    return count(palda, "SELECT count(*) FROM labelstudio_event")


def count(palda: Palda, query: str) -> int:
    """A number of the store."""
    connection = sqlite3.connect(f"file:{palda.store}?mode=ro", uri=True)
    try:
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


def processor_seconds(process: int, *, alone: bool = False) -> float:
    """Processor time of a process, with its children unless alone."""
    ticks = 0
    for one in [process, *([] if alone else children(process))]:
        fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICK


def report(name: str, value: float) -> None:
    """Print a figure beside its target."""
    say(f"{name}: {value:.1f} (target: at most {TARGETS[name]:.0f})")


def say(text: str, since: float | None = None) -> None:
    """Print a line."""
    sys.stdout.write(text + ("" if since is None else f" in {time.monotonic() - since:.1f} s") + "\n")
    sys.stdout.flush()
