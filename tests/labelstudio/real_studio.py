"""A real Label Studio in its own environment, for tests; palda beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path
from typing import Any

import httpx

VERSION = "1.23.2"
TOKEN = "0123456789abcdef0123456789abcdef01234567"  # noqa: S105 - of a server that lives for a test
EMAIL, PASSWORD = "admin@example.org", "secret-pass-1"
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = Path(os.environ.get("PALDA_LABELSTUDIO", ROOT / "build" / "labelstudio"))
"""Virtual environment of Label Studio; installed the first time."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def install() -> Path:
    """The program of Label Studio."""
    program = ENVIRONMENT / "bin" / "label-studio"
    if not program.exists():
        venv.create(ENVIRONMENT, with_pip=True)
        command = [str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", f"label-studio=={VERSION}"]
        subprocess.run(command, check=True)  # noqa: S603
    return program


class Process:
    """A process of its own group, whose output is kept."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log.open("ab")
        self.process = subprocess.Popen(  # noqa: S603
            command, env=environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the group and wait."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait(timeout=60)
        self._log.close()


class RealStudio:
    """Starts, kills and restarts one Label Studio on the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Token {TOKEN}"}, timeout=120, trust_env=False
        )
        self._running: Process | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        variables = {
            "LABEL_STUDIO_BASE_DATA_DIR": str(self._folder / "data"), "LABEL_STUDIO_USERNAME": EMAIL,
            "LABEL_STUDIO_PASSWORD": PASSWORD, "LABEL_STUDIO_USER_TOKEN": TOKEN,
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true", "COLLECT_ANALYTICS": "false", "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "", "LATEST_VERSION_CHECK": "false", "DISABLE_SIGNUP_WITHOUT_LINK": "true",
            "ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false",
        }  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables
        program = str(install())
        command = [program, "start", "--no-browser", "--port", str(self.port), "--internal-host", "127.0.0.1"]
        self._running = Process(command, environment, self._folder / "labelstudio.log")
        wait_until(self._answers, 300, "Label Studio answers")

    def _answers(self) -> bool:
        try:
            return self.api.get("/api/projects/").status_code == 200
        except httpx.TransportError:
            return False

    @property
    def process_id(self) -> int:
        """Id of the process that runs."""
        assert self._running is not None
        return self._running.process.pid

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        if self._running is not None:
            self._running.end(signal.SIGKILL)

    def get(self, path: str, **query: Any) -> Any:
        """Answer to a read."""
        answer = self.api.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Answer to a change."""
        answer = self.api.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def annotate(self, task: int, user: int, chosen: list[str], **fields: Any) -> dict[str, Any]:
        """A new annotation."""
        result = [{"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": chosen}}]
        body = {"result": result if chosen else [], "completed_by": user, "lead_time": 5.0, **fields}
        found: dict[str, Any] = self.send("POST", f"/api/tasks/{task}/annotations/", body)
        return found

    def tasks(self, project: int) -> dict[int, dict[str, Any]]:
        """All tasks with annotations and predictions."""
        found = self.get("/api/tasks", project=project, page_size=1000, fields="all")
        return {task["id"]: task for task in found["tasks"]}


class Palda:
    """``palda labelstudio connect`` on one store."""

    def __init__(self, folder: Path, url: str, project: int, *options: str) -> None:
        self._folder, self.port = folder, free_port()
        self.store = folder / "project.db"
        self._command = [
            sys.executable, "-m", "palda", "labelstudio", "connect", url, "--project", str(project), "--store",
            str(self.store), "--port", str(self.port), "--json", *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []
        self.links: dict[str, Any] = {}

    def start(self, *, wait: bool = True) -> None:
        """Start; with ``wait``, until Label Studio knows the backend."""
        self.lines = []
        environment = {**os.environ, "LABEL_STUDIO_API_KEY": TOKEN}
        self._process = subprocess.Popen(  # noqa: S603
            self._command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.links = json.loads(self._process.stdout.readline())
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        if wait:
            wait_until(lambda: any("registered" in line for line in self.lines), 300, "the backend is registered")

    @property
    def process_id(self) -> int:
        """Id of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append(line)

    def kill(self) -> None:
        """End it at once; its learner ends by itself."""
        if self._process is not None:
            self._process.kill()
            self._finish(self._process)

    def end(self) -> None:
        """Ctrl-C."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            assert self._process.wait(timeout=60) == 0
            self._finish(self._process)

    def _finish(self, process: subprocess.Popen[str]) -> None:
        process.wait()
        self._reader.join(timeout=30)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def get(self, path: str, **query: Any) -> Any:
        """Answer of the JSON API to the owner."""
        url = f"{self.links['url']}/api/v1/projects/{self.links['project']}{path}"
        headers = {"Authorization": f"Bearer {self.links['admin_token']}"}
        answer = httpx.get(url, params=query, headers=headers, timeout=60, trust_env=False)
        answer.raise_for_status()
        return answer.json() if "json" in answer.headers["content-type"] else answer.text


def wait_until(condition: Any, seconds: float, what: str) -> float:
    """Seconds until something holds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)
    return time.monotonic() - start
