"""Beliefs and scores of rollouts for one request, within its limits."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException

from seper_reward.client import estimated_tokens
from seper_reward.reader.engine.canary import WeightsMovedError
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.serving.worker import ClosedError, FullError, Worker
from seper_reward.types import Asked, Measured, UnscorableError

#: Headers of a response after which the client must retry.
RETRY = {"Retry-After": "1"}
Receive = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Limits:
    """Limits of a request: ``estimated_tokens`` of its contexts and texts, and seconds."""

    tokens: int
    deadline: float


class Scoring:
    """Submits requests to the worker, waits until their deadline, and returns results or reasons."""

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self._worker, self._limits = worker, limits

    async def ask(self, requests: Sequence[Asked], deadline: float | None, receive: Receive) -> list[Measured | str]:
        """Return the measurements of each question, or the reason why there are none, in order; equal ones only once.

        ``receive`` is that of the request, whose questions are dropped if its client disconnects. Raises
        ``HTTPException`` if the request is too long (413), the queue is full (429), the client has gone (499), the
        server is stopping (503), or a question is late (504), and ``ConnectionError`` if the engine is unavailable.
        """
        size, most = sum(estimated_tokens(request, self._worker.window) for request in requests), self._limits.tokens
        if size > most:
            expected = f"expected contexts and texts of at most {most} tokens a request"
            raise HTTPException(413, f"{expected}, got about {size}; split it")
        distinct = list(dict.fromkeys(requests))
        try:
            submitted = self._worker.submit(distinct)
        except FullError:
            raise HTTPException(429, "the queue is full; retry later", RETRY) from None
        except ClosedError:
            raise HTTPException(503, "the server is stopping", RETRY) from None
        answers = dict(zip(distinct, map(asyncio.wrap_future, submitted), strict=True))
        if answers:
            together = asyncio.gather(*answers.values(), return_exceptions=True)
            gone = asyncio.ensure_future(_disconnect(receive))
            seconds = min(deadline or math.inf, self._limits.deadline)
            await asyncio.wait((together, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            left = gone.done()
            gone.cancel()
            late = [answer for answer in answers.values() if not answer.done()]
            for answer in late:
                answer.cancel()  # the worker skips cancelled questions
            for answer in answers.values():
                if answer not in late:
                    _outcome(answer)  # an error of the engine counts before the deadline
            if late and left:
                raise HTTPException(499, "the client has disconnected")
            if late:
                raise HTTPException(504, "not measured before the deadline; retry later", RETRY)
        outcomes = {request: _outcome(answer) for request, answer in answers.items()}
        return [outcomes[request] for request in requests]

    async def score(
        self, rollouts: Sequence[Rollout], weights: RewardWeights, deadline: float | None, receive: Receive
    ) -> list[tuple[Score | None, str | None]]:
        """Return each rollout's score, or the reason why it has none; raises the errors of ``ask``."""
        requests = {place: weights.asks(rollout) for place, rollout in enumerate(rollouts) if rollout.answers}
        outcomes = dict(zip(requests, await self.ask(list(requests.values()), deadline, receive), strict=True))
        scored: list[tuple[Score | None, str | None]] = []
        for place, rollout in enumerate(rollouts):
            measured = outcomes.get(place, rollout.problem or "no gold answer")
            reason = measured if isinstance(measured, str) else None
            scored.append((None if isinstance(measured, str) else weights.score(rollout, measured), reason))
        return scored


async def _disconnect(receive: Receive) -> None:
    """Wait until the client of a request, whose body was read, disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _outcome(answer: "asyncio.Future[Measured]") -> Measured | str:
    """Return a future's result, or the reason why there is none; raise errors of the engine."""
    error = answer.exception()
    if isinstance(error, ConnectionError | WeightsMovedError):
        raise error
    if isinstance(error, UnscorableError):
        return str(error)
    return answer.result() if error is None else f"{type(error).__name__}: {error}"
