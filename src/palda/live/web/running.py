"""The web server: uvicorn with limits for slow clients, and an end within seconds."""

from __future__ import annotations

import gc
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from palda.errors import PaldaError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

    from fastapi import FastAPI

_MAX_HEADER_BYTES = 32_768
_HEADER_SECONDS = 20.0
_SHUTDOWN_SECONDS = 4
_SWITCH_SECONDS = 0.0005  # Python's default of 5 ms lets the writer of the store wait at each of its statements


class _LimitedProtocol(HttpToolsProtocol):
    """Closes connections whose headers are too long or too slow; uvicorn limits neither."""

    _n_header_bytes = 0
    _is_in_headers = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_headers:  # one header may have no end
            self._n_header_bytes += len(data)
            if self._n_header_bytes > _MAX_HEADER_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._n_header_bytes, self._is_in_headers = 0, True
        if self._timer is None:
            self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._n_header_bytes += len(name) + len(value)
        if self._n_header_bytes > _MAX_HEADER_BYTES:
            raise ValueError("the headers are too long")  # the parser stops: 400

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Serves an application on a listening socket.

    It ends streams of events before it waits for connections, and returns instead of raising the signal again.
    ``started`` is called when it accepts connections.
    """

    def __init__(self, app: FastAPI, started: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=_LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        super().__init__(config)
        self._end_streams, self._started = app.state.events.close, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then connections."""
        self._end_streams()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - of the signal module
        """End soon; at the second signal at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def run(app: FastAPI, host: str, port: int, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``started`` gets the server's URL when it accepts connections."""
    with listen(host, port) as listener:
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # a collection looks at what requests leave behind, not for a tenth of a second at all modules
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{listener.getsockname()[1]}"
        Server(app, partial(started, url)).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Listening socket; raises PaldaError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # the address is named already
        raise PaldaError(f"cannot listen on {host} port {port}: {reason}; choose another with --port") from None
