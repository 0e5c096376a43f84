"""The server process: uvicorn over the app, and a stop that answers what was accepted."""

import signal
import socket
import threading
from types import FrameType

import uvicorn
from fastapi import FastAPI

from seper_reward.serving.worker import Worker


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
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=75)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it once more when it has stopped
    try:
        Server(config, worker).run([address])
    finally:
        signal.signal(signal.SIGTERM, before)
