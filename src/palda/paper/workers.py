"""Processes that run cells: each takes one at a time, and may die without taking the others along.

A pool of the standard library breaks as a whole when one process crashes, as compiled rivals can. Interrupts are left
to the parent: a fit that catches Ctrl-C and returns what it has must never be taken for a finished one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

__all__ = ["Failure", "Workers"]

_THREADS_OF_BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PATIENCE = 5.0  # seconds that a process gets to end


class Failure(str):
    """Why a task failed, in one line."""

    __slots__ = ()


class Workers:
    """Processes that apply a function to tasks, with as many threads each as they are allowed.

    Those are for methods to use; threads that BLAS would start on its own are switched off: they change sums in the
    last digits, and on small problems or a busy machine they spend most of their time waiting for each other.

    Parameters
    ----------
    function
        ``"module:name"`` of a function (task, n_threads); it is imported in the processes, after BLAS was told.
    n_workers, n_threads
        Processes, and threads that each may use.
    """

    def __init__(self, function: str, n_workers: int = 1, n_threads: int = 1) -> None:
        self._function = function
        self._n_workers = n_workers
        self._n_threads = n_threads
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.stop()
        self._idle, self._busy = [], {}

    def map(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Pairs (task, result or ``Failure``) as they finish."""
        waiting = iter(tasks)
        exhausted = False
        while True:
            while not exhausted and len(self._busy) < self._n_workers:
                try:
                    self._assign(next(waiting))
                except StopIteration:
                    exhausted = True
            if not self._busy:
                return
            for ready in wait(list(self._busy)):
                yield self._collect(cast("Connection", ready))

    def _assign(self, task: Any) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._function, self._n_threads)
        worker.give(task)
        self._busy[worker.pipe] = (worker, task)

    def _collect(self, pipe: Connection) -> tuple[Any, Any]:
        worker, task = self._busy.pop(pipe)
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            return task, Failure(f"its process died (exit code {worker.stop()})")
        self._idle.append(worker)
        return task, answer


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, function: str, n_threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and their locks
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, function, n_threads))
        self._process.start()
        theirs.close()

    def give(self, task: Any) -> None:
        try:
            self.pipe.send(task)
        except OSError:
            self._process.join(_PATIENCE)  # it is dead; whoever waits for its answer will notice

    def stop(self) -> int | None:
        """End the process, whatever it does, and say with which code it ended."""
        self.pipe.close()
        self._process.join(0 if self._process.is_alive() else _PATIENCE)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        return self._process.exitcode


def _serve(pipe: Connection, function: str, n_threads: int) -> None:
    """Answer tasks until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(_THREADS_OF_BLAS, "1"))
    module, name = function.split(":")
    with suppress(EOFError, OSError):  # the parent has gone
        while True:
            task = pipe.recv()
            try:
                answer = getattr(import_module(module), name)(task, n_threads)
            except Exception as error:  # noqa: BLE001 - whatever a method raises, the other tasks go on
                answer = Failure(_one_line(error))
            pipe.send(answer)


def _one_line(error: Exception) -> str:
    from palda.errors import PaldaError

    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, PaldaError) else f"{type(error).__name__}: {text}"
