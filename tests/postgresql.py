"""A PostgreSQL server of its own for tests: on a Unix socket in a temporary folder, without any network address."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USERS = ("postgres", "nobody")  # PostgreSQL does not run as root


def program(name: str) -> Path | None:
    """Path of a program of PostgreSQL, None if it is not installed."""
    on_path = shutil.which(name)
    if on_path and name != "initdb":
        return Path(on_path)
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found[-1] if found else Path(on_path) if on_path else None


def unprivileged_user() -> str | None:
    """User to run the server as, None for the present one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _USERS if name in names)


class PostgreSQL:
    """A running server."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder, self._user = folder, user

    def run(self, name: str, *arguments: str) -> None:
        """Run a program of PostgreSQL as the user of the server."""
        path = program(name)
        assert path is not None
        done = subprocess.run(  # noqa: S603 - found above
            [path, *arguments],
            user=self._user,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def new_database(self) -> str:
        """Address of a new, empty database."""
        name = f"test_{uuid.uuid4().hex}"
        import psycopg

        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self._address(name)

    def _address(self, database: str) -> str:
        return f"postgresql://palda@/{database}?host={self.folder}"


@contextmanager
def running_server() -> Iterator[PostgreSQL]:
    """A new server, which ends with the block."""
    folder, user = Path(tempfile.mkdtemp(prefix="palda-postgresql-")), unprivileged_user()
    try:
        if user is not None:
            shutil.chown(folder, user)
        server, data = PostgreSQL(folder, user), str(folder / "data")
        server.run("initdb", "--pgdata", data, "--auth", "trust", "--username", "palda", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c shared_buffers=16MB"
        server.run("pg_ctl", "--pgdata", data, "--options", settings, "--log", str(folder / "log"), "--wait", "start")
        try:
            yield server
        finally:
            server.run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
