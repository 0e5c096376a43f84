"""Milliseconds of a client's processor per context of 300 tokens, by the number of gold answers, while servers sample.

    python -m tests.benchmarks.client --json client.json

The server, another process, gives the same answer at once, so that one client's contexts per second have this limit.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Sequence
from functools import partial
from typing import Any

from tabulate import tabulate

from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.loading import load_tokenizer
from seper_reward.reader.sampler import Request
from seper_reward.types import unwrap
from tests.benchmarks.common import clocked, finish, parser

TOKENS = 7  # of a response


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.readline():
        length = 0
        while line := (await reader.readline()).strip():
            length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
        asked = json.loads(await reader.readexactly(length)) if length else {}
        said = {"data": [{"id": "stub"}]} if head.startswith(b"GET") else _completions(asked)
        body = json.dumps(said).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()


def _completions(asked: dict[str, Any]) -> dict[str, Any]:
    count = min(TOKENS, asked["max_tokens"])
    likeliest = {f"token_id:{token}": -1.0 - token for token in range(asked["logprobs"])}
    log_probs = {
        "tokens": ["token_id:9"] * count,
        "token_logprobs": [-0.5] * count,
        "top_logprobs": [likeliest] * count,
    }
    choice: dict[str, Any] = {"text": "Ida Voss", "finish_reason": "stop", "logprobs": log_probs}
    if "prompt_logprobs" not in asked:
        return {"choices": [{**choice, "index": place} for place in range(asked["n"])]}
    known = {"logprob": -1.5, "rank": 3, "decoded_token": " the"}
    read = [[None, *({str(token): known} for token in ids[1:])] for ids in asked["prompt"]]
    return {"choices": [{**choice, "index": place, "prompt_logprobs": rows} for place, rows in enumerate(read)]}


class _Unchecked(EngineSampler):
    def _verify(self) -> None:
        self._names_ids, self._reads_prompts = True, True


def serve(port: Any) -> None:
    """Serve, and tell the port."""

    async def forever() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--contexts", type=int, default=200)
    made.add_argument("--answers", type=int, nargs="+", default=[0, 1, 5])
    options = made.parse_args(arguments)
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True).start()
    reader = ReaderOptions(engine=[f"http://127.0.0.1:{ours.recv()}/v1"])
    sampler = _Unchecked(reader, load_tokenizer("embedded"))
    found = {}
    for answers in [1, *options.answers]:  # the first time opens connections
        texts = [f"Number {place} {answers} " + "and so on. " * 74 for place in range(options.contexts)]
        requests = [Request(text, tuple(f"Ida {place}" for place in range(answers))) for text in texts]
        spent, rows = clocked(partial(sampler.sample, requests))
        assert all(len(unwrap(row).known_leaves) == answers for row in rows)
        found[answers] = round(spent["cpu"] / options.contexts * 1000, 1)
    print(tabulate(found.items(), ["gold answers", "ms per context"], tablefmt="github"))
    finish({str(answers): spent for answers, spent in found.items()}, options.json)


if __name__ == "__main__":
    main()
