"""Load on `seper-reward serve`: many clients at once, and the server killed and started again in the middle.

    python -m tests.benchmarks.serving --json out.json

Each request is one rollout of one client: a question and the passage that a search found, scored by `SePerReward` with
the server's URL. `SePerReward` in process scores the same requests first, one by one: those rewards are right. A
request is lost if its client raises or gets no reward, wrong if its reward differs by more than 0.001. Weights are
float32: in bfloat16 a reward depends by more than that on what is measured beside it.
"""

import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2

from seper_reward.client import SePerClient
from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reward.reward import SePerReward
from tests.benchmarks.common import CONTEXTS, finish, parser, questions
from tests.serving.helpers import free_port

PRICE = 0.1
WRONG = 1e-3


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--clients", type=int, default=64)
    made.add_argument("--requests", type=int, default=2000)
    made.add_argument("--questions", type=int, default=20, help=f"each has {CONTEXTS} passages")
    made.add_argument("--words", type=int, default=60, help="of a passage")
    made.add_argument("--reader", default="embedded")
    made.add_argument("--entailment", default="embedded")
    made.add_argument("--dtype", default="float32")
    made.add_argument("--timeout", type=float, default=1800.0, help="of a client, in seconds")
    options = made.parse_args(arguments)
    asked = rollouts(options.requests, options.questions, options.words)
    config = ScorerConfig(reader=options.reader, entailment=options.entailment, dtype=options.dtype)
    expected, in_process = alone(config, asked)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--reader", config.reader, "--entailment", config.entailment]
        words += ["--set", f"reader.dtype={config.dtype}"]
        words += ["--cache", f"{folder}/cache.sqlite"]
        found, latencies, wall, down, counts = under_load(words, asked, options.clients, options.timeout)
    pairs = [(one, other) for one, other in zip(found, expected, strict=True) if one is not None]
    shares = statistics.quantiles([1000 * each for each in latencies], n=100)
    finish(
        {
            "requests": len(asked),
            "clients": options.clients,
            "lost": len(asked) - len(pairs),
            "wrong": sum(abs(one - other) > WRONG for one, other in pairs),
            "greatest_difference": max(abs(one - other) for one, other in pairs),
            "p50_ms": round(shares[49]),
            "p90_ms": round(shares[89]),
            "p99_ms": round(shares[98]),
            "seconds_down": round(down, 1),
            "requests_per_second": round(len(asked) / (wall - down), 2),
            "requests_per_second_in_process": round(len(asked) / in_process, 2),
            "throughput_over_in_process": round(in_process / (wall - down), 2),
            "throughput_over_in_process_with_the_restart": round(in_process / wall, 2),
            "contexts_after_the_restart": counts,
        },
        options.json,
    )


def rollouts(requests: int, count: int, words: int) -> list[dict[str, Any]]:
    """Return the columns of each request: a question, and one of its passages or none."""
    chosen, rng = questions(count, words), random.Random(0)
    rows = []
    for _ in range(requests):
        query = rng.choice(chosen)
        passages = rng.choice([[], *([passage.full_text] for passage in query.passages)])
        rows.append({"question": [query.question], "answers": [list(query.answers)], "passages": [passages]})
    return rows


def alone(config: ScorerConfig, asked: Sequence[dict[str, Any]]) -> tuple[list[float], float]:
    """Return the rewards of one process that scores one request after the other, and its seconds."""
    reward = SePerReward(load_scorer(config, 0), answer_weight=0.0, price=PRICE)
    start = time.perf_counter()
    found = [reward(**columns)[0] for columns in asked]
    return [value for value in found if value is not None], time.perf_counter() - start


def under_load(
    words: Sequence[str], asked: Sequence[dict[str, Any]], clients: int, timeout: float
) -> tuple[list[float | None], list[float], float, float, dict[str, float]]:
    """Return rewards, latencies, seconds in all and without a server, and what the second server measured."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "seper_reward", "serve", "--port", str(port), *words]
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(asked)):
        waiting.put(place)
    found: list[float | None] = [None] * len(asked)
    latencies: list[float] = []

    def client() -> None:
        reward = SePerReward(SePerClient(url, timeout), answer_weight=0.0, price=PRICE)
        while True:
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                return
            begun = time.perf_counter()
            try:
                (found[place],) = reward(**asked[place])
            except (ConnectionError, ValueError) as error:
                print(f"request {place}: {error}", file=sys.stderr)
            latencies.append(time.perf_counter() - begun)

    server = started(words, url)
    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    while len(latencies) < len(asked) / 2:
        time.sleep(0.01)
    server.kill()
    server.wait()
    killed = time.perf_counter()
    server = started(words, url)
    down = time.perf_counter() - killed
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - start
    lines = httpx2.get(f"{url}/metrics").text.splitlines()
    counts = {
        name: float(line.split()[1])
        for name in ("measured", "reused")
        for line in lines
        if line.startswith(f"seper_{name}_total ")
    }
    server.send_signal(signal.SIGTERM)
    if server.wait(60):
        raise RuntimeError(f"the server ended with {server.returncode}")
    return found, latencies, wall, down, counts


def started(words: Sequence[str], url: str) -> "subprocess.Popen[bytes]":
    """Start a server, and wait until it answers."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    server = subprocess.Popen(words, env=environment)
    wait_for(url, server.poll)
    return server


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


if __name__ == "__main__":
    main()
