from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.live.fake_labelstudio import LEGACY, PERSONAL, FakeLabelStudio, label_studio

from palda.errors import PaldaError
from palda.live.labelstudio import client as client_module
from palda.live.labelstudio.client import Client, checked_url
from palda.live.labelstudio.errors import RemoteError, UnreachableError
from palda.live.labelstudio.tokens import SecretsFile, checked_token, given_token
from palda.live.store import open_store


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLabelStudio]:
    monkeypatch.setattr(client_module, "_FIRST_PAUSE", 0.001)
    with label_studio() as found:
        yield found


@pytest.fixture
def client(studio: FakeLabelStudio) -> Iterator[Client]:
    found = Client(studio.url, LEGACY)
    yield found
    found.close()


@pytest.mark.parametrize("faults", [[429], [500, 503], [502, 429, 504]])
def test_reads_are_repeated_while_the_server_is_overloaded_or_fails(
    studio: FakeLabelStudio, client: Client, faults: list[int]
) -> None:
    studio.faults = list(faults)
    assert client.get("/api/projects/3")["title"] == "News"
    assert len(studio.requests) == len(faults) + 1


def test_a_server_that_keeps_failing_is_one_line_without_the_token(studio: FakeLabelStudio, client: Client) -> None:
    studio.faults = [500] * 50
    with pytest.raises(UnreachableError) as caught:
        client.get("/api/projects/3")
    assert "500" in str(caught.value)
    assert LEGACY not in str(caught.value)
    assert len(studio.requests) == 6


def test_what_may_not_be_sent_twice_is_sent_once(studio: FakeLabelStudio, client: Client) -> None:
    studio.faults = [500]
    with pytest.raises(UnreachableError):
        client.send("POST", "/api/webhooks/", {"url": "x"})
    assert studio.requests == [("POST", "/api/webhooks/")]


def test_a_server_that_does_not_answer_in_time_is_asked_again(
    studio: FakeLabelStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_TIMEOUT", httpx.Timeout(0.2))
    client = Client(studio.url, LEGACY)
    studio.faults = [0]
    assert client.get("/api/projects/3")["id"] == 3
    client.close()


def test_no_server_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_FIRST_PAUSE", 0.001)
    client = Client("http://127.0.0.1:9", LEGACY)
    with pytest.raises(UnreachableError, match="is it running"):
        client.get("/api/projects/3")
    client.close()


def test_tasks_come_in_pages_and_each_once(
    studio: FakeLabelStudio, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    numbers = [studio.add_task() for _ in range(5)]
    pages = [[task["id"] for task in page] for page in client.tasks(3, ("id",), with_annotations=True)]
    assert pages == [numbers[:2], numbers[2:4], numbers[4:]]
    assert [task["id"] for task in client.tasks_by_id(3, [numbers[4], 999], ("id",))] == [numbers[4]]


def test_pages_that_vanish_while_they_are_read_end_the_list(
    studio: FakeLabelStudio, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    numbers = [studio.add_task() for _ in range(5)]
    found = []
    for page in client.tasks(3, ("id",), with_annotations=True):
        found += [task["id"] for task in page]
        for number in numbers[2:]:
            studio.tasks.pop(number, None)
    assert found[:2] == numbers[:2]


def test_personal_tokens_are_exchanged_and_renewed_before_they_expire(studio: FakeLabelStudio) -> None:
    client = Client(studio.url, PERSONAL)
    client.get("/api/projects/3")
    client.get("/api/projects/3")
    assert studio.requests.count(("POST", "/api/token/refresh/")) == 1
    assert all(one.startswith("Bearer ") for one in studio.authorizations)
    assert not any(PERSONAL in one for one in studio.authorizations)
    studio.access_seconds = 5.0
    client._expires_at = 0.0
    client.get("/api/projects/3")
    client.get("/api/projects/3")
    assert studio.requests.count(("POST", "/api/token/refresh/")) == 3
    client.close()


def test_an_access_token_that_expired_early_is_renewed_once(studio: FakeLabelStudio) -> None:
    client = Client(studio.url, PERSONAL)
    client.get("/api/projects/3")
    studio.access_tokens.append("revoked.all.others")
    assert client.get("/api/projects/3")["id"] == 3
    client.close()


def test_a_refused_token_is_one_line_without_it(studio: FakeLabelStudio) -> None:
    wrong = "f" * 40
    client = Client(studio.url, wrong)
    with pytest.raises(RemoteError, match="token is not accepted") as caught:
        client.get("/api/projects/3")
    assert wrong not in f"{caught.value} {caught.value!r} {client!r}"
    client.close()


def test_redirects_to_other_hosts_are_not_followed(studio: FakeLabelStudio, client: Client) -> None:
    with label_studio() as other:
        studio.redirect_to = f"{other.url}/api/projects/3"
        with pytest.raises(RemoteError, match="redirects to"):
            client.get("/api/projects/3")
        assert other.requests == []


@pytest.mark.parametrize(
    "address", ["localhost:8080", "file:///etc/passwd", "http://user:secret@host", "ftp://host", ""]
)
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with pytest.raises(PaldaError, match="such as http://localhost:8080"):
        checked_url(address)


def test_tokens_come_from_the_option_then_the_file_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{PERSONAL}\n")
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a" * 40)
    assert given_token(LEGACY, file) == LEGACY
    assert given_token(None, file) == PERSONAL
    assert given_token(None, None) == "a" * 40
    monkeypatch.delenv("LABEL_STUDIO_API_KEY")
    assert given_token(None, None) is None
    with pytest.raises(PaldaError, match="no token of Label Studio") as caught:
        checked_token("my password!")
    assert "my password!" not in str(caught.value)


def test_secrets_are_beside_the_store_for_its_owner_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "project.db")
    file = SecretsFile(store)
    kept = file.keep("http://h/projects/3", LEGACY)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert (file.path.parent, len(kept.secret) > 30) == (tmp_path, True)
    assert file.keep("http://h/projects/3", PERSONAL).secret == kept.secret
    assert LEGACY not in repr(kept)
    file.path.chmod(0o644)
    assert SecretsFile(store).read("http://h/projects/3").token == PERSONAL  # type: ignore[union-attr]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    store.close()
    assert all(LEGACY.encode() not in path.read_bytes() for path in tmp_path.glob("project.db") if path.is_file())
    file.forget("http://h/projects/3")
    assert not file.path.exists()


def test_a_damaged_file_of_secrets_is_one_line(tmp_path: Path) -> None:
    store = open_store(tmp_path / "project.db")
    file = SecretsFile(store)
    for content in ("{", "[]", '{"a": {"token": 1}}'):
        file.path.write_text(content)
        with pytest.raises(PaldaError, match="give the token again"):
            file.read("a")
    store.close()
