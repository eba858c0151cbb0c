from __future__ import annotations

import copy
import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.live.fake_labelstudio import CONFIG, LEGACY, FakeLabelStudio, label_studio

if TYPE_CHECKING:
    from tests.cli.conftest import Palda

TWO = CONFIG.replace("</View>", '<Choices name="mood" toName="text"><Choice value="good"/></Choices></View>')


@pytest.fixture
def studio() -> Iterator[FakeLabelStudio]:
    with label_studio() as found:
        for number in range(3):
            found.annotate(found.add_task(f"text {number}"), 2, "crime")
        yield found


@pytest.fixture
def labelstudio(palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Palda:
    """Runs ``palda labelstudio`` in the folder of the test, without a token in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    return lambda *arguments: palda("labelstudio", *arguments)


def follow(folder: Path, studio: FakeLabelStudio, *options: str) -> str:
    """Connect until the backend is registered, then Ctrl-C; returns what was said."""
    command = [
        sys.executable,
        "-m",
        "palda",
        "labelstudio",
        "connect",
        studio.url,
        "--project",
        "3",
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen(  # noqa: S603
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        links: dict[str, Any] = json.loads(server.stdout.readline())
        assert links["project"] == 1
        said = ""
        while "registered" not in said:
            line = server.stderr.readline()
            assert line, said
            said += line
        time.sleep(0.3)
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0
        return said + server.stderr.read()


@pytest.mark.slow
def test_connect_again_status_and_disconnect(tmp_path: Path, studio: FakeLabelStudio, labelstudio: Palda) -> None:
    before = copy.deepcopy(studio.project)
    (tmp_path / "token").write_text(LEGACY)
    assert "3 were new or changed" in follow(tmp_path, studio, "--token-file", "token")
    assert (len(studio.webhooks), len(studio.backends)) == (1, 1)
    (backend,) = studio.backends.values()
    assert backend["url"].endswith("/labelstudio/1")
    secrets = tmp_path / "labelstudio-3.db.labelstudio"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    assert LEGACY.encode() not in (tmp_path / "labelstudio-3.db").read_bytes()
    follow(tmp_path, studio)  # the token is known
    assert (len(studio.webhooks), len(studio.backends)) == (1, 1)
    assert "tasks: 3, annotations: 3" in labelstudio("status", "labelstudio-3.db").out
    ended = labelstudio("disconnect", "--project", 3)
    assert (ended.code, ended.out) == (0, "")
    assert studio.project == before
    assert (studio.webhooks, studio.backends, secrets.exists()) == ({}, {}, False)


@pytest.mark.parametrize(
    ("options", "token", "message"),
    [
        (("--project", "3"), None, "a token of Label Studio is needed"),
        (("--project", "3"), "f" * 40, "the token is not accepted"),
        (("--project", "4"), LEGACY, "check the address and the number of the project"),
        (("--project", "3", "--token", "secret word"), None, "this is no token of Label Studio"),
    ],
)
def test_what_cannot_be_connected_is_one_line(
    studio: FakeLabelStudio,
    labelstudio: Palda,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    token: str | None,
    message: str,
) -> None:
    if token is not None:
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", token)
    line = labelstudio("connect", studio.url, *options).error_line
    assert message in line
    assert "secret word" not in line
    assert "f" * 40 not in line
    assert studio.changes == []


def test_several_questions_are_named(labelstudio: Palda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", LEGACY)
    with label_studio(config=TWO) as studio:
        line = labelstudio("connect", studio.url, "--project", 3).error_line
    assert "--question" in line
    assert "mood" in line


def test_no_connection_is_one_line(labelstudio: Palda) -> None:
    assert "there is no such file" in labelstudio("disconnect", "--project", 3).error_line
