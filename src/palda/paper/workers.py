"""Worker processes for cells: each runs one cell at a time, and a crash affects only that cell.

A pool of the standard library breaks as a whole when one process crashes, as compiled baselines can. Workers ignore
interrupts: a fit that catches Ctrl-C and returns early must not be stored as finished.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BLAS_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_STOP_TIMEOUT = 5.0  # seconds that a process gets to end


class Failure(str):
    """Why a task failed, in one line."""

    __slots__ = ()


class Workers:
    """Processes that apply a function to tasks.

    The function gets ``n_threads`` threads to use. BLAS is limited to one thread: its own threads change sums in the
    last digits, and on small problems or a busy machine they mostly wait for each other.

    Parameters
    ----------
    function : str
        ``"module:name"`` of a function (task, n_threads). The processes import it after BLAS is limited.
    n_workers, n_threads : int
        Number of processes, and of threads per process.
    """

    def __init__(self, function: str, n_workers: int = 1, n_threads: int = 1) -> None:
        self._function = function
        self._n_workers = n_workers
        self._n_threads = n_threads
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Any]] = {}

    def close(self) -> None:
        """End all processes."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.stop()
        self._idle, self._busy = [], {}

    def map(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Pairs (task, result or ``Failure``) as they finish."""
        remaining = iter(tasks)
        exhausted = False
        while True:
            while not exhausted and len(self._busy) < self._n_workers:
                try:
                    self._assign(next(remaining))
                except StopIteration:
                    exhausted = True
            if not self._busy:
                return
            for ready in wait(list(self._busy)):
                yield self._collect(cast("Connection", ready))

    def _assign(self, task: Any) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._function, self._n_threads)
        worker.send(task)
        self._busy[worker.pipe] = (worker, task)

    def _collect(self, pipe: Connection) -> tuple[Any, Any]:
        worker, task = self._busy.pop(pipe)
        try:
            result = pipe.recv()
        except (EOFError, OSError):
            return task, Failure(f"the worker process died (exit code {worker.stop()})")
        self._idle.append(worker)
        return task, result


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, function: str, n_threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and their locks
        self.pipe, worker_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(worker_end, function, n_threads))
        self._process.start()
        worker_end.close()

    def send(self, task: Any) -> None:
        try:
            self.pipe.send(task)
        except OSError:
            self._process.join(_STOP_TIMEOUT)  # it is dead; ``_collect`` reports that

    def stop(self) -> int | None:
        """End the process, by force if needed, and return its exit code."""
        self.pipe.close()
        self._process.join(0 if self._process.is_alive() else _STOP_TIMEOUT)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_STOP_TIMEOUT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


def _serve(pipe: Connection, function: str, n_threads: int) -> None:
    """Run tasks until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(_BLAS_THREAD_VARIABLES, "1"))
    module, name = function.split(":")
    with suppress(EOFError, OSError):  # the parent process has ended
        while True:
            task = pipe.recv()
            try:
                result = getattr(import_module(module), name)(task, n_threads)
            except Exception as error:  # noqa: BLE001 - a failing task must not stop the others
                result = Failure(_one_line(error))
            pipe.send(result)


def _one_line(error: Exception) -> str:
    from palda.errors import PaldaError

    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, PaldaError) else f"{type(error).__name__}: {text}"
