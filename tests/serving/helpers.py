"""A server in the test process, on a free port."""

import copy
import socket
import threading
import time
from collections.abc import Callable

import httpx2

from seper_reward.reward.formula import RewardWeights
from seper_reward.serving.app import build_app
from seper_reward.serving.scoring import Limits
from seper_reward.serving.server import Server, server_config
from seper_reward.serving.worker import Worker

DELTA = RewardWeights(answer_weight=0.0, price=0.0)
LIMITS = Limits(tokens=10_000, deadline=60.0)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(url: str, ended: Callable[[], int | None], seconds: float = 600) -> None:
    """Wait until a server answers; raise ``RuntimeError`` if it is late, or ``ended`` returns its exit status."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            httpx2.get(f"{url}/health").raise_for_status()
            return
        except httpx2.HTTPError:
            if (status := ended()) is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server ended with {status}, or is late") from None
            time.sleep(0.1)


class ServerThread:
    """A server over a scorer in a thread of this process, until the block ends."""

    def __init__(self, scorer, *, batch_size=None, queue=8192, memory=2**28, limits=LIMITS, weights=DELTA, **options):
        self.worker = Worker(lambda: scorer, batch_size=batch_size, queue=queue, memory=memory)
        self.app = build_app(self.worker, limits=limits, weights=weights, **options)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.server = Server(server_config(self.app, host="127.0.0.1", port=port), self.worker)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def stop(self):
        self.server.handle_exit(15, None)

    def __exit__(self, *_):
        if not self.worker.closed:
            self.stop()
        self.thread.join(30)
        assert not self.thread.is_alive()


class Hold:
    """A scorer's measurement of a block, which is written down and waits until it may go on."""

    def __init__(self, measure):
        self._measure, self.blocks, self.may_go_on = measure, [], threading.Event()
        self.reached = threading.Event()
        self.fails = {}

    def __call__(self, asked, batch_size=None):
        self.blocks.append([(each.question, len(each.contexts)) for each in asked])
        self.reached.set()
        assert self.may_go_on.wait(30)
        for each in asked:
            if each.question in self.fails:
                raise self.fails[each.question]
        return self._measure(asked, batch_size)


def held(scorer):
    """Return a scorer that is held, and its hold."""
    other = copy.copy(scorer)
    other.measure = Hold(scorer.measure)
    return other, other.measure
