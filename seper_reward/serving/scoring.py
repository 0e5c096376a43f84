"""What endpoints ask the worker, within the limits of a request: beliefs, and scores of rollouts."""

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

#: Headers of an answer that asks the client to send its request again.
RETRY = {"Retry-After": "1"}
_LATE = "not measured before the deadline"


@dataclass(frozen=True)
class Limits:
    """What the server accepts.

    Attributes:
        body: Most bytes of a request's body.
        tokens: Most tokens of the contexts and texts of one request (``estimated_tokens``).
        deadline: Seconds that a request may take, also where it asks for more.
    """

    body: int
    tokens: int
    deadline: float


class Scoring:
    """Asks the worker for a request, waits no longer than it may take, and says why something was not measured.

    Args:
        worker: The worker that measures.
        limits: What is accepted.
    """

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self._worker, self._limits = worker, limits

    async def ask(self, asked: Sequence[Asked], deadline: float | None) -> list[Measured | str]:
        """Return what was measured, or the reason why not, in order.

        Args:
            asked: What to measure; equal ones are measured once.
            deadline: Seconds that the client waits; ``None``: as long as the server lets a request take.

        Raises:
            HTTPException: It is too much (413), the queue is full (429), or the server stops (503).
            ConnectionError: The engine behind the server is away.
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
            raise HTTPException(429, "the queue is full; ask again later", RETRY) from None
        except ClosedError:
            raise HTTPException(503, "the server is stopping", RETRY) from None
        answers = dict(zip(distinct, map(asyncio.wrap_future, submitted), strict=True))
        if answers:
            await asyncio.wait(answers.values(), timeout=min(deadline or math.inf, self._limits.deadline))
        outcomes = {each: _outcome(answer) for each, answer in answers.items()}
        return [outcomes[each] for each in asked]

    async def score(
        self, rollouts: Sequence[Rollout], weights: RewardWeights, deadline: float | None
    ) -> list[tuple[Score | None, str | None]]:
        """Return each rollout's score, or the reason why it has none; raise as ``ask``."""
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
    """Return a finished future's result, or the reason why there is none.

    Raises:
        ConnectionError: The engine behind the server is away.
        WeightsMovedError: The engine has other weights than before.
    """
    if not answer.done():
        answer.cancel()  # what has not begun is not measured
        return _LATE
    error = answer.exception()
    if isinstance(error, ConnectionError | WeightsMovedError):
        raise error
    if isinstance(error, UnscorableError):
        return str(error)
    return answer.result() if error is None else f"{type(error).__name__}: {error}"
