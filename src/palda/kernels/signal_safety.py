"""Compiled functions and signals.

Python runs the handlers of signals between bytecodes of the main thread. Numba executes bytecode while it turns results
into Python objects, and the process crashes if a handler raises an exception there, as that of Ctrl-C does. A kernel
that runs in the main thread therefore defers signals until it has returned.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import functools
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# The functions of ``_signal`` are those of ``signal`` without conversions to enumerations, which would take 20 µs per
# call of a kernel.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_SIGNALS = [int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)]


class _Deferral:
    """Signals that arrive while a kernel runs in the main thread."""

    def __init__(self) -> None:
        self.active = False
        self.arrived: list[tuple[Callable[..., object], int, Any]] = []


_deferral = _Deferral()


class _DeferredHandler:
    """Handler of a signal that waits while a kernel is running; otherwise it is the original handler."""

    def __init__(self, handler: Callable[..., object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        if _deferral.active:
            _deferral.arrived.append((self.handler, number, frame))
        else:
            self.handler(number, frame)


def signal_safe(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with signals deferred until it has returned, if it is called in the main thread."""

    @functools.wraps(kernel)
    def run(*arguments: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return kernel(*arguments)
        handlers = {number: handler for number in _SIGNALS if callable(handler := _signal.getsignal(number))}
        try:
            for number, handler in handlers.items():
                _signal.signal(number, _DeferredHandler(handler))
            _deferral.active = True
            result = kernel(*arguments)
        finally:
            _deferral.active = False  # from here on, handlers that are not restored yet act as the original ones
            for number, handler in handlers.items():
                _signal.signal(number, handler)
        while _deferral.arrived:
            handler, number, frame = _deferral.arrived.pop(0)
            handler(number, frame)
        return result

    return run
