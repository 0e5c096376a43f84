"""Beliefs and scores of rollouts for one request, within its limits."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException

from seper_reward.client import estimated_tokens
from seper_reward.reader.engine.canary import WeightsMovedError
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.serving.worker import ClosedError, FullError, Worker
from seper_reward.types import Asked, Measured, UnscorableError

#: Headers of a response after which the client must retry.
RETRY = {"Retry-After": "1"}


@dataclass(frozen=True)
class Limits:
    """Limits of a request: bytes of its body, ``estimated_tokens`` of its contexts and texts, and seconds."""

    body: int
    tokens: int
    deadline: float


class Scoring:
    """Submits requests to the worker, waits until their deadline, and returns results or reasons."""

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self._worker, self._limits = worker, limits

    async def ask(self, asked: Sequence[Asked], deadline: float | None) -> list[Measured | str]:
        """Return the measurements of each question, or the reason why there are none, in order; equal ones only once.

        Raises ``HTTPException`` if the request is too long (413), the queue is full (429), the server is stopping
        (503), or a question is late (504), and ``ConnectionError`` if the engine is unavailable.
        """
        if (size := sum(estimated_tokens(each, self._worker.window) for each in asked)) > self._limits.tokens:
            most = self._limits.tokens
            raise HTTPException(
                413, f"expected contexts and texts of at most {most} tokens a request, got about {size}; split it"
            )
        distinct = list(dict.fromkeys(asked))
        try:
            submitted = self._worker.submit(distinct)
        except FullError:
            raise HTTPException(429, "the queue is full; retry later", RETRY) from None
        except ClosedError:
            raise HTTPException(503, "the server is stopping", RETRY) from None
        answers = dict(zip(distinct, map(asyncio.wrap_future, submitted), strict=True))
        if answers:
            done, late = await asyncio.wait(answers.values(), timeout=min(deadline or math.inf, self._limits.deadline))
            for answer in late:
                answer.cancel()  # the worker skips cancelled questions
            for answer in done:
                _outcome(answer)  # an error of the engine counts before the deadline
            if late:
                raise HTTPException(504, "not measured before the deadline; retry later", RETRY)
        outcomes = {each: _outcome(answer) for each, answer in answers.items()}
        return [outcomes[each] for each in asked]

    async def score(
        self, rollouts: Sequence[Rollout], weights: RewardWeights, deadline: float | None
    ) -> list[tuple[Score | None, str | None]]:
        """Return each rollout's score, or the reason why it has none; raises the errors of ``ask``."""
        asked = {place: weights.asks(rollout) for place, rollout in enumerate(rollouts) if rollout.answers}
        found = dict(zip(asked, await self.ask(list(asked.values()), deadline), strict=True))
        scored: list[tuple[Score | None, str | None]] = []
        for place, rollout in enumerate(rollouts):
            measured = found.get(place, rollout.problem or "no gold answer")
            if isinstance(measured, str):
                scored.append((None, measured))
            else:
                scored.append((weights.score(rollout, measured), None))
        return scored


def _outcome(answer: "asyncio.Future[Measured]") -> Measured | str:
    """Return a future's result, or the reason why there is none; raise errors of the engine."""
    error = answer.exception()
    if isinstance(error, ConnectionError | WeightsMovedError):
        raise error
    if isinstance(error, UnscorableError):
        return str(error)
    return answer.result() if error is None else f"{type(error).__name__}: {error}"
