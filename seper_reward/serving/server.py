"""The server process: uvicorn with the app, and a graceful shutdown that answers all accepted requests."""

import resource
import signal
import socket
import threading
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from seper_reward.serving.worker import Worker

_IDLE_SECONDS = 75
_MOST_FILES = 16_384  # open files, such as connections, of which many machines allow 1,024 at first


class Server(uvicorn.Server):
    """Uvicorn with a graceful shutdown: it listens until the worker has answered all accepted requests.

    Meanwhile new requests get 503, and their clients retry. A second signal stops the server immediately.
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
    bound_socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound_socket.bind((host, port))
    except OSError as error:
        bound_socket.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error}; name another with --host or --port") from error
    return bound_socket


def server_config(app: FastAPI, **address: Any) -> uvicorn.Config:
    """Return uvicorn's settings, with a limit on idle time; ``address`` has host and port."""
    return uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=_IDLE_SECONDS, **address)


def serve(app: FastAPI, worker: Worker, address: socket.socket) -> None:
    """Serve on a bound socket until SIGTERM or Ctrl-C, then answer the accepted requests."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if most == resource.RLIM_INFINITY else min(most, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, files), most))
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises the signal again after it has stopped
    try:
        Server(server_config(app), worker).run([address])
    finally:
        signal.signal(signal.SIGTERM, before)
