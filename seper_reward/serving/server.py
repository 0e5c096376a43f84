"""The server process: uvicorn with the app, and a graceful shutdown that answers all accepted requests."""

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

_HEADER_SECONDS = 20.0  # time limit for the headers, from the connection or the first byte of the next request
_MOST_CONNECTIONS = 10_000
_OTHER_FILES = 128  # file descriptors of models, cache and listening sockets


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of uvicorn that is closed if no request arrives, or immediately if there are too many."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.close()  # clients retry
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Process a part of a request, and wait for the rest of its headers."""
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
        """Whether no request is being received or answered."""
        return self.cycle is None or bool(self.cycle.response_complete)


def most_connections() -> int:
    """Return the maximum number of connections of this process, by its limit of open files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(1, min(_MOST_CONNECTIONS, files - _OTHER_FILES))


class Server(uvicorn.Server):
    """Uvicorn with a graceful shutdown: it listens until the worker has answered all accepted requests.

    During the shutdown new requests get 503, and their clients retry until a new server runs. A second signal stops
    the server immediately.
    """

    def __init__(self, config: uvicorn.Config, worker: Worker) -> None:
        super().__init__(config)
        self._worker = worker

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the worker has finished, or immediately at the second signal."""
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
    """Return a socket that is bound but does not listen, so an address in use fails before the models load."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error}; name another with --host or --port") from error
    return found


def serve(app: FastAPI, worker: Worker, address: socket.socket) -> None:
    """Serve on a bound socket until SIGTERM or Ctrl-C, then answer the accepted requests."""
    config = uvicorn.Config(app, http=Connection, log_level="warning", access_log=False, timeout_keep_alive=75)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises the signal again after it has stopped
    try:
        Server(config, worker).run([address])
    finally:
        signal.signal(signal.SIGTERM, before)
