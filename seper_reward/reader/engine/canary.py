"""A canary for the weights of a server: one prompt is read again and again, and its log-probabilities must stay.

A server's weights have a name and no hash, and trainers replace the weights under a fixed name (weight transfer of
vLLM, SGLang and others). Responses of replaced weights would be cached as those of the reader. The canary samples a
few tokens greedily and compares the log-probabilities of the likeliest ones. It does not echo a prompt: on a CPU, vLLM
0.32 with a loaded LoRA adapter ends at such a request.
"""

import asyncio
import math
import statistics
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seper_reward.reader.engine.completions import completion_request
from seper_reward.types import UnscorableError

PROBE = "Question: Which river flows through Vienna, and where does it end?\nAnswer:"
TOKENS, LIKELIEST = 4, 5
#: Mean difference in nats. Logits in bfloat16 are multiples of up to 1/4, so batches of another shape move them.
TOLERANCE = 0.25


class WeightsMovedError(OSError):
    """The weights of a server have changed, so all later responses would be wrong: the run stops."""


@dataclass(frozen=True)
class Reading:
    """T tokens of a greedy response, and for each of them the natural-log probabilities of the likeliest tokens."""

    tokens: tuple[str, ...]
    log_probs: tuple[Mapping[str, float], ...]

    def difference(self, other: "Reading") -> float:
        """Return the mean absolute difference in nats, over tokens that both have after the same tokens.

        >>> one = Reading(("a", "b"), ({"a": -1.0, "c": -2.0}, {"b": -0.5}))
        >>> one.difference(Reading(("c", "b"), ({"a": -1.25, "c": -1.0}, {"b": -9.0})))
        0.625
        """
        found: list[float] = []
        rows = zip(self.tokens, other.tokens, self.log_probs, other.log_probs, strict=False)
        for token, other_token, log_probs, others in rows:
            found += [abs(log_probs[each] - others[each]) for each in log_probs.keys() & others.keys()]
            if token != other_token:  # what follows was read behind other tokens
                break
        return statistics.fmean(found) if found else math.inf


def canary_request(model: str) -> dict[str, Any]:
    """Return the request whose answer ``read_canary`` reads."""
    return {**completion_request(model, PROBE, n=1, max_tokens=TOKENS, temperature=0.0), "logprobs": LIKELIEST}


def read_canary(answer: Mapping[str, Any]) -> Reading:
    """Return the reading in a server's answer; raise ``UnscorableError`` if it has no log-probabilities."""
    try:
        found = answer["choices"][0]["logprobs"]
        tokens = tuple(found["tokens"])[:TOKENS]
        rows = tuple({token: float(value) for token, value in row.items()} for row in found["top_logprobs"][:TOKENS])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnscorableError(f"engine gave half an answer: {type(error).__name__} {error}") from error
    return Reading(tokens, rows)


class Canary:
    """Confirms that a server still has the weights of a reference reading; ``server`` names both, for messages."""

    def __init__(self, read: Callable[[], Awaitable[Reading]], reference: Reading, server: str) -> None:
        self._read, self._server = read, server
        self.reference = reference
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def confirm(self) -> None:
        """Wait for a reading that began after this call; calls that wait at the same time share one.

        Raises the errors of ``compare`` and of reading.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._compare_after(self._running))
        await self._next

    async def _compare_after(self, running: "asyncio.Task[None] | None") -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None  # who comes from now on waits for another reading
        self.compare(await self._read())

    def compare(self, reading: Reading) -> None:
        """Raise ``WeightsMovedError`` if a reading differs from the reference by more than ``TOLERANCE``."""
        difference = self.reference.difference(reading)
        if difference > TOLERANCE:
            raise WeightsMovedError(
                f"{self._server} has other weights than before: log-probabilities of the same prompt differ by "
                f"{difference:.2f} nats (at most {TOLERANCE}). Earlier entries of the cache are valid. A server "
                "to which a trainer pushes its policy cannot be the reader: start a separate server, or train with "
                "LoRA and AsyncGRPOTrainer on `vllm serve BASE --enable-lora`, and name BASE. If it serves another "
                "model on purpose, name another cache file"
            )
