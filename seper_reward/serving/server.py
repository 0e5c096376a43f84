"""The server process: uvicorn over the app, and a stop that answers what was accepted."""

import asyncio
import resource
import signal
import socket
import threading
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from seper_reward.serving.worker import Worker

_HEADER_SECONDS = 20.0  # from a connection, or the first byte of its next request, to the end of the headers
_MOST_CONNECTIONS = 10_000
_OTHER_FILES = 128  # descriptors for models, cache and sockets that listen


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of uvicorn that is closed if no request comes, and at once if there are too many."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.close()  # clients try again
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, and wait for the rest of its headers."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._is_idle() and self._late is None:
            self._late = self.loop.call_later(_HEADER_SECONDS, self._close_idle)
        elif not self._is_idle() and self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_idle(self) -> None:
        self._late = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no request is read or answered."""
        return self.cycle is None or bool(self.cycle.response_complete)


def most_connections() -> int:
    """Return how many connections this process can hold, by its limit of open files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(1, min(_MOST_CONNECTIONS, files - _OTHER_FILES))


class Server(uvicorn.Server):
    """Uvicorn that, told to stop, goes on listening until the worker has answered what it accepted.

    Meanwhile new requests get 503, so that their clients ask again where it is started anew. A second signal stops at
    once.

    Args:
        config: Uvicorn's settings.
        worker: The worker behind the app.
    """

    def __init__(self, config: uvicorn.Config, worker: Worker) -> None:
        super().__init__(config)
        self._worker = worker

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the worker, or at once if it was told before."""
        if self._worker.closed:
            self.force_exit = True
            super().handle_exit(sig, frame)
            return
        self._worker.close()
        threading.Thread(target=self._exit_after_worker, args=(sig,), name="stop", daemon=True).start()

    def _exit_after_worker(self, sig: int) -> None:
        self._worker.join()
        super().handle_exit(sig, None)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that has its address but does not listen yet: models take time to load, a clash shows at once.

    Raises:
        OSError: The address cannot be had; the message says what to do.
    """
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error}; name another with --host or --port") from error
    return found


def serve(app: FastAPI, worker: Worker, address: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; what was accepted by then is answered.

    Args:
        app: The app of ``build_app``.
        worker: Its worker.
        address: Where to listen (``bound``).
    """
    config = uvicorn.Config(app, http=Connection, log_level="warning", access_log=False, timeout_keep_alive=75)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it once more when it has stopped
    try:
        Server(config, worker).run([address])
    finally:
        signal.signal(signal.SIGTERM, before)
