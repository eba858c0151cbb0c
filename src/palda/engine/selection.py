"""Engines by name: threads, or Dask on this machine or on a cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from palda.engine.threads import Threads, resolve_n_jobs
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palda.engine.base import Engine


def check_engine(engine: Any) -> None:
    """Raise ``ValueError`` for an engine that cannot be opened."""
    is_address = isinstance(engine, str) and "://" in engine
    if engine is None or engine in ("threads", "dask") or is_address or hasattr(engine, "scatter"):
        return
    raise ValueError(
        f'engine={engine!r} is not known; choose None or "threads", "dask", the address of a scheduler '
        "(tcp://host:8786), or a dask.distributed.Client"
    )


@contextmanager
def open_engine(engine: Any, n_jobs: int | None) -> Iterator[Engine]:
    """Context manager with an engine: threads, or Dask."""
    with open_client(engine, n_jobs) as client:
        if client is None:
            yield Threads(resolve_n_jobs(n_jobs))
        else:
            from palda.engine.dask import Dask

            yield Dask(client)


@contextmanager
def open_client(engine: Any, n_jobs: int | None) -> Iterator[Any]:
    """Context manager with the client of a Dask cluster; None for threads.

    ``"dask"`` is the cluster of the current client, or else processes on this machine that end with the context.
    """
    check_engine(engine)
    if engine is None or engine == "threads":
        yield None
        return
    try:
        from distributed import Client, LocalCluster, default_client
    except ImportError:
        raise PaldaError("engine=\"dask\" needs Dask: pip install 'palda[dask]'") from None
    if not isinstance(engine, str):
        yield engine
        return
    if engine != "dask":
        try:
            client = Client(engine)
        except OSError:
            raise PaldaError(f"no Dask scheduler at {engine}; start one with: dask scheduler") from None
        with client:
            yield client
        return
    try:
        current = default_client()
    except ValueError:
        n_workers = resolve_n_jobs(n_jobs)
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    yield current
