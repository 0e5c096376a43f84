"""The server process: uvicorn over the app, and a stop that answers what was accepted."""

import signal
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


def serve(app: FastAPI, worker: Worker, *, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; what was accepted by then is answered.

    Args:
        app: The app of ``build_app``.
        worker: Its worker.
        host: Address to listen on.
        port: Port to listen on.
    """
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False, timeout_keep_alive=75)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it once more when it has stopped
    try:
        Server(config, worker).run()
    finally:
        signal.signal(signal.SIGTERM, before)
