"""A file that names a Dask scheduler never makes palda connect to it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import run_main

import palda
from palda import CrowdPALDA
from palda.report import write_report

MODEL = Path(__file__).resolve().parents[1] / "fixtures" / "model-0.1.palda"


class Hostile:
    """An object that leaves a mark where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


class Relay:
    """A listener on 127.0.0.1 that passes connections on to another address and counts them."""

    def __init__(self, target: str) -> None:
        host, port = target.removeprefix("tcp://").split(":")
        self.n_connections = 0
        self._open: list[socket.socket] = []
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # until it is closed
            while True:
                ours, _ = self._listener.accept()
                self.n_connections += 1
                theirs = socket.create_connection(self._target)
                self._open += [ours, theirs]
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def scheduler() -> Iterator[Relay]:
    """A relay before a Dask scheduler, whose worker returns whatever it is asked for."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        relay = Relay(cluster.scheduler_address)
        yield relay
        relay.close()


def tampered(path: Path, address: str) -> Path:
    """A model file that names the scheduler wherever a setting may stand."""
    with zipfile.ZipFile(MODEL) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                manifest["state"]["settings"] |= {"engine": address, "n_jobs": address, "verbose": address}
                content = json.dumps(manifest).encode()
            new.writestr(name, content)
    return path


@pytest.mark.cluster
def test_a_model_file_that_names_a_scheduler_makes_no_connection(scheduler: Relay, tmp_path: Path) -> None:
    path = tampered(tmp_path / "model.palda", scheduler.address)
    model = palda.load(path)
    assert isinstance(model, CrowdPALDA)
    assert model.engine is None
    counts = np.ones((2, model.n_features_in_))
    np.testing.assert_array_equal(model.predict_proba(counts), palda.load(MODEL).predict_proba(counts))
    model.explain(counts)
    write_report(model, tmp_path / "report.html")
    (tmp_path / "new.csv").write_text("id,text\n1,some words\n")
    for command in (("predict", path, tmp_path / "new.csv"), ("report", path, "-o", tmp_path / "again.html")):
        assert run_main(*command) == 0
    assert scheduler.n_connections == 0
    # The control: whoever does connect is counted, and unpickles what the worker returns.
    from distributed import Client

    with Client(scheduler.address, set_as_default=False) as client:
        client.submit(Hostile, str(tmp_path / "mark")).result()
    assert scheduler.n_connections > 0
    assert (tmp_path / "mark").is_dir()
