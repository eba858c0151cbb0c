from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palda.cli.commands.serve import ProjectOptions
from palda.live.service import access, documents, projects
from palda.live.serving import NewProject, set_up
from palda.live.store import open_store

if TYPE_CHECKING:
    from tests.cli.conftest import Palda

TABLE = "id,text\nd1,the team won\nd2,the bank lends\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "documents.csv"
    path.write_text(TABLE)
    return path


def test_one_command_serves_a_project_and_the_same_command_goes_on_with_it(tmp_path: Path, table: Path) -> None:
    command = [
        sys.executable, "-m", "palda", "serve", str(tmp_path / "project.db"), "--documents", str(table),
        "--classes", "sport,money", "--port", "0", "--json",
    ]  # fmt: skip
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603
            assert server.stdout is not None
            line = json.loads(server.stdout.readline())
            assert set(line) == {"url", "admin_link", "admin_token", "project"}
            for path in ("/api/v1/openapi.json", "/api/v1/health"):
                with urllib.request.urlopen(line["url"] + path, timeout=60) as answer:  # noqa: S310 - our own server
                    assert answer.status == 200
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=60) == 0
            assert server.stderr is not None
            assert server.stderr.read() == ""
    store = open_store(tmp_path / "project.db")
    owner = access.enter(store, line["admin_token"])
    (project,) = projects.projects_of(store, owner)
    assert [one.name for one in documents.documents(store, project.id)] == ["d1", "d2"]
    assert (project.name, [label.name for label in project.labels]) == ("documents", ["sport", "money"])
    store.close()


def test_options_change_an_existing_project_and_leave_other_settings(tmp_path: Path) -> None:
    store = open_store(tmp_path / "project.db")
    owner = access.enter(store, access.start_tokens(store)[1])
    set_up(store, owner, NewProject("news", [("a", "")], settings={"max_votes_per_doc": 3}))
    number = set_up(
        store,
        owner,
        NewProject("news", [("a", ""), ("b", "the second")], settings={"target_error": 0.1}, guidelines="Read."),
    )
    project = projects.project(store, number)
    assert (project.settings.max_votes_per_doc, project.settings.target_error) == (3, 0.1)
    assert project.guidelines == "Read."
    assert [(label.name, label.description) for label in project.labels] == [("a", ""), ("b", "the second")]
    store.close()


def test_a_file_of_classes_has_names_and_meanings(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("crime: acts against the law: all of them\n\n sport \n", encoding="utf-8-sig")
    new = ProjectOptions(None, str(path), "news", None, None, None, None).new_project()
    assert new is not None
    assert new.labels == [("crime", "acts against the law: all of them"), ("sport", "")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--documents", "missing.csv", "--classes", "a"), "missing.csv"),
        (("--documents", "documents.csv"), "a new project needs classes"),
        (("--documents", "broken.csv", "--classes", "a"), "broken.csv, row 3"),
        (("--guidelines", "latin.txt", "--classes", "a"), "latin.txt: it is not a text in UTF-8"),
        (
            ("--documents", "documents.csv", "--classes", "a", "--gold", "gold.csv"),
            "class 'b' is not among the 1 known ones; correct the name, or leave it out; leave the column out of",
        ),
        (("--documents", "documents.csv", "--classes", "a", "--target-error", "5"), "target_error: "),
        (("--backup", "copy.db"), "there is no such file"),
        (("--restore", "nothing.db"), "there is no such file"),
        (("--host", "256.1.1.1", "--name", "x", "--classes", "a"), "cannot listen"),
    ],
)
def test_mistakes_are_one_line(
    palda: Palda, table: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(table.parent)
    Path("broken.csv").write_text("id,text\nd1,a\nd1,b\n")
    Path("gold.csv").write_text("doc,a,b\nd1,1,0\n")
    Path("latin.txt").write_bytes("Fußball".encode("latin-1"))
    done = palda("serve", "project.db", *arguments)
    assert done.code == 1
    lines = [line for line in done.err.splitlines() if not line.startswith("palda: warning")]
    assert len(lines) == 1, done.err
    assert message in lines[0]


def test_backup_and_restore(palda: Palda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(tmp_path / "project.db")
    access.start_tokens(store)
    assert palda("serve", "project.db", "--backup", "copy.db").code == 0  # while it is in use
    store.close()
    assert palda("serve", "again.db", "--restore", "copy.db").code == 0
    assert "it has projects already" in palda("serve", "again.db", "--restore", "copy.db").error_line


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['sqlalchemy'] = None\n"
        "sys.argv = ['palda', 'serve', 'project.db']\n"
        "from palda.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == "palda: the server needs more packages; install them with: pip install 'palda[live]'\n"


@pytest.mark.parametrize(
    "code", ["import palda", "import sys; sys.argv = ['palda', '--help']; from palda.cli import main; main()"]
)
def test_help_and_the_library_load_nothing_of_the_server(code: str) -> None:
    program = f"import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"sqlalchemy", "fastapi", "starlette", "uvicorn", "pydantic"}
    assert "palda.live" not in done.stderr.split()
