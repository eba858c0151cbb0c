"""A small Label Studio for tests: what palda calls of its API, in memory, on the loopback address."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LEGACY = "0123456789abcdef0123456789abcdef01234567"
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topics" toName="text" choice="multiple">'
    '<Choice value="crime"/><Choice value="sport"/><Choice value="money"/></Choices></View>'
)


def jwt(kind: str, **claims: Any) -> str:
    """A token of the form of a JSON Web Token."""
    parts = ({"alg": "HS256"}, {"token_type": kind, **claims})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2ln"])


PERSONAL = jwt("refresh", exp=4102444800)


@dataclass
class FakeLabelStudio:
    """State of the server; tests change it directly."""

    config: str = CONFIG
    project: dict[str, Any] = field(default_factory=dict)
    tasks: dict[int, dict[str, Any]] = field(default_factory=dict)
    users: dict[int, dict[str, Any]] = field(default_factory=dict)
    webhooks: dict[int, dict[str, Any]] = field(default_factory=dict)
    backends: dict[int, dict[str, Any]] = field(default_factory=dict)
    predictions: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)  # statuses of the next answers; 0: no answer in time
    redirect_to: str = ""
    access_tokens: list[str] = field(default_factory=list)
    access_seconds: float = 3600.0
    refuse_backend: bool = False
    url: str = ""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _times: Iterator[int] = field(default_factory=lambda: itertools.count(1_800_000_000))

    def __post_init__(self) -> None:
        self.project = {
            "id": 3, "title": "News", "label_config": self.config, "maximum_annotations": 2, "model_version": "",
            "sampling": "Sequential sampling", "show_collab_predictions": False,
        }  # fmt: skip
        for number, (first, last) in enumerate(
            [("", ""), ("Ada", "Lovelace"), ("Alan", "Turing"), ("Ada", "Lovelace")], 1
        ):
            self.users[number] = {
                "id": number,
                "first_name": first,
                "last_name": last,
                "email": f"u{number}@example.org",
            }

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Requests that may change something."""
        return [one for one in self.requests if one[0] != "GET" and "token" not in one[1]]

    def now(self) -> str:
        """The next moment."""
        return datetime.fromtimestamp(next(self._times), UTC).isoformat().replace("+00:00", "Z")

    def add_task(self, text: str = "a text", **data: Any) -> int:
        """A new task."""
        number = next(self._numbers)
        state = {"overlap": self.project["maximum_annotations"], "is_labeled": False, "updated_at": self.now()}
        self.tasks[number] = {"id": number, "data": {"text": text, **data}, "annotations": [], **state}
        return number

    def annotate(
        self, task: int, user: int, *chosen: Any, kind: str = "choices", name: str = "topics", **fields: Any
    ) -> int:
        """A new annotation."""
        number = next(self._numbers)
        result = [{"id": "x", "from_name": name, "to_name": "text", "type": kind, "value": {kind: list(chosen)}}]
        moment = self.now()
        row = {"id": number, "task": task, "result": result, "completed_by": user, "was_cancelled": False,
               "ground_truth": False, "created_at": moment, "updated_at": moment, "lead_time": 4.2,
               "parent_prediction": None}  # fmt: skip
        self.tasks[task]["annotations"].append({**row, **fields})
        self._touch(task)
        return number

    def change(self, annotation: int, *chosen: str, **fields: Any) -> None:
        """Another answer, or other fields."""
        task, one = self.find(annotation)
        if chosen:
            one["result"][0]["value"]["choices"] = list(chosen)
        one.update(updated_at=self.now(), **fields)
        self._touch(task)

    def delete(self, annotation: int) -> None:
        """Delete an annotation."""
        task, one = self.find(annotation)
        self.tasks[task]["annotations"].remove(one)
        self._touch(task)

    def find(self, annotation: int) -> tuple[int, dict[str, Any]]:
        """Task and body of an annotation."""
        for number, task in self.tasks.items():
            for one in task["annotations"]:
                if one["id"] == annotation:
                    return number, one
        raise KeyError(annotation)

    def _touch(self, task: int) -> None:
        row = self.tasks[task]
        done = [one for one in row["annotations"] if not one["was_cancelled"]]
        row.update(updated_at=self.now(), is_labeled=len(done) >= row["overlap"])

    def shown(self, task: dict[str, Any]) -> dict[str, Any]:
        """A task as the API shows it."""
        skipped = sum(one["was_cancelled"] for one in task["annotations"])
        counts = {"total_annotations": len(task["annotations"]) - skipped, "cancelled_annotations": skipped}
        return {**task, **counts}

    def webhook(self, action: str, annotation: int) -> dict[str, Any]:
        """Body of a webhook about an annotation."""
        task, one = self.find(annotation)
        return {"action": action, "annotation": one, "task": self.shown(self.tasks[task]), "project": self.project}

    # Answers

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        parts = [part for part in path.split("/") if part][1:]
        if parts[0] == "tasks":
            return self._tasks(method, parts, query, body)
        if parts[0] == "users":
            return 200, list(self.users.values())
        if parts[0] in ("webhooks", "ml"):
            return self._hooks(method, parts, body)
        if parts[:2] == ["projects", "3"]:
            return self._project(method, parts[2:], body)
        return 404, {"detail": "not found"}

    def _tasks(self, method: str, parts: list[str], query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if method == "PATCH":
            row = self.tasks.get(int(parts[1]))
            if row is None:
                return 404, {}
            row.update(body, updated_at=self.now())
            return 200, self.shown(row)
        wanted = json.loads(query["query"][0]).get("selectedItems", {}).get("included")
        found = [self.shown(one) for number, one in sorted(self.tasks.items()) if wanted is None or number in wanted]
        size, page = int(query["page_size"][0]), int(query["page"][0])
        fields = set(query["include"][0].split(","))
        some = found[(page - 1) * size : page * size]
        if page > 1 and not some:
            return 404, {"detail": "Invalid page."}
        return 200, {"total": len(found), "tasks": [_only(one, fields) for one in some]}

    def _project(self, method: str, rest: list[str], body: Any) -> tuple[int, Any]:
        if not rest:
            if method == "PATCH":
                self.project.update(body)
            return 200, self.project
        if rest == ["import", "predictions"]:
            known = set(json.dumps(self.config).replace('\\"', '"').split('"'))
            for one in body:
                for item in one["result"]:
                    assert all(name in known for name in item["value"].get("choices", ()))
            self.predictions += body
            return 201, {"created": len(body)}
        versions = {one["model_version"] for one in self.predictions}
        if method == "DELETE":
            self.predictions = [one for one in self.predictions if one["model_version"] != body["model_version"]]
        return 200, dict.fromkeys(versions, 1)

    def _hooks(self, method: str, parts: list[str], body: Any) -> tuple[int, Any]:
        rows = self.webhooks if parts[0] == "webhooks" else self.backends
        if method == "GET":
            return 200, [
                {key: value for key, value in row.items() if key != "basic_auth_pass"} for row in rows.values()
            ]
        if method == "POST":
            if parts[0] == "ml" and self.refuse_backend:
                return 400, {"validation_errors": {"non_field_errors": ["Can't connect to ML backend"]}}
            number = next(self._numbers)
            rows[number] = {**body, "id": number}
            if parts[0] == "ml":
                self.project["model_version"] = body["title"]
            return 201, rows[number]
        number = int(parts[1])
        if number not in rows:
            return 404, {}
        if method == "DELETE":
            if rows.pop(number).get("title") == self.project["model_version"]:
                self.project["model_version"] = ""
            return 204, None
        rows[number].update(body)
        return 200, rows[number]


def _only(one: Any, fields: set[str]) -> Any:
    """Label Studio selects fields of tasks and annotations by the same list."""
    found = {key: value for key, value in one.items() if key in fields}
    if "annotations" in found:
        found["annotations"] = [
            {key: value for key, value in row.items() if key in fields} for row in one["annotations"]
        ]
    return found


class _Handler(BaseHTTPRequestHandler):
    studio: FakeLabelStudio
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are sent separately; the body would wait for an acknowledgement

    def _handle(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        content = self.rfile.read(length)
        parts = urlsplit(self.path)
        studio = self.studio
        studio.requests.append((self.command, parts.path))
        status, answer = self._status(studio, parts.path)
        if status == 0:
            return
        if status == 200:
            body = json.loads(content) if content else None
            status, answer = studio.answer(self.command, parts.path, parse_qs(parts.query), body)
        self._send(status, answer)

    def _status(self, studio: FakeLabelStudio, path: str) -> tuple[int, Any]:
        if studio.faults:
            fault = studio.faults.pop(0)
            if fault == 0:
                time.sleep(1.0)
                self.close_connection = True
            return fault, {"detail": "a fault"}
        if studio.redirect_to:
            return 302, None
        if path == "/api/token/refresh/":
            studio.access_tokens.append(
                jwt("access", exp=time.time() + studio.access_seconds, jti=len(studio.requests))
            )
            return 201, {"access": studio.access_tokens[-1]}
        given = self.headers.get("authorization", "")
        studio.authorizations.append(given)
        allowed = {f"Token {LEGACY}", *(f"Bearer {token}" for token in studio.access_tokens[-1:])}
        return (200, None) if given in allowed else (401, {"detail": f"Invalid token {given}"})

    def _send(self, status: int, answer: Any) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("location", self.studio.redirect_to)
        if status == 429:
            self.send_header("retry-after", "0")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def label_studio(**options: Any) -> Iterator[FakeLabelStudio]:
    """A server in a thread."""
    studio = FakeLabelStudio(**options)
    handler = type("Handler", (_Handler,), {"studio": studio})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        studio.url = f"http://127.0.0.1:{server.server_port}"
        yield studio
        server.shutdown()
        thread.join(10)
