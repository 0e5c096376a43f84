"""The app: endpoints over one worker, what they accept and refuse, and what they count.

What cannot be scored is ``null`` with a reason beside it, never 0. A request is refused as a whole only where it is at
fault itself (401, 413, 422), or where it should be sent again: 429 while the queue is full, 503 while the server stops
or the engine behind it is away.
"""

import asyncio
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from seper_reward.client import DEADLINE, belief_json
from seper_reward.data.rows import shown
from seper_reward.estimators.utility import utility
from seper_reward.reward.credit import credit_of, turn_rewards
from seper_reward.reward.formula import Formula
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.serving.bodies import BeliefsBody, OpenRLHFBody, QueryBody, RewardsBody, UtilitiesBody, VerifyBody
from seper_reward.serving.contracts import read_bodies, read_openrlhf, read_verify
from seper_reward.serving.worker import ClosedError, FullError, Worker
from seper_reward.types import Asked, Measured, UnscorableError

_LATE = "not measured before the deadline"
_OPEN = {"/health"}  # paths that need no token
_RETRY = {"Retry-After": "1"}
Deadline = Annotated[float | None, Header(alias=DEADLINE, gt=0, description="Seconds that the request may take.")]


@dataclass(frozen=True)
class Limits:
    """What the server accepts.

    Attributes:
        body: Most bytes of a request's body.
        contexts: Most contexts and texts of one request.
        deadline: Seconds that a request may take, also where it asks for more.
    """

    body: int
    contexts: int
    deadline: float


def build_app(
    worker: Worker,
    *,
    limits: Limits,
    formula: Formula,
    token: str | None = None,
    unscored: float | None = None,
    passage_tag: str | None = None,
) -> FastAPI:
    """Return the app.

    Args:
        worker: The worker that measures.
        limits: What is accepted.
        formula: Formula of rewards whose requests do not name another.
        token: Bearer token that all requests but ``/health`` must carry; ``None`` asks for none.
        unscored: Number that stands for a rollout that cannot be scored where a trainer's contract has no null;
            ``None`` refuses such a request.
        passage_tag: Tag around what a search found in OpenRLHF's texts (``read_openrlhf``).
    """
    app = FastAPI(title="seper-reward", version=version("seper-reward"), description=__doc__)
    numbers = Numbers(worker)
    app.add_middleware(Gate, token=token, most_bytes=limits.body, numbers=numbers)

    async def ask(asked: Sequence[Asked], deadline: float | None) -> list[Measured | str]:
        """Return what was measured, or the reason why not, in order."""
        if sum(len(each.contexts) * each.draws + len(each.texts) for each in asked) > limits.contexts:
            raise HTTPException(413, f"expected at most {limits.contexts} contexts and texts a request; split it")
        distinct = list(dict.fromkeys(asked))
        try:
            submitted = worker.submit(distinct)
        except FullError:
            raise HTTPException(429, "the queue is full; ask again later", _RETRY) from None
        except ClosedError:
            raise HTTPException(503, "the server is stopping", _RETRY) from None
        answers = dict(zip(distinct, map(asyncio.wrap_future, submitted), strict=True))
        if answers:
            await asyncio.wait(answers.values(), timeout=min(deadline or math.inf, limits.deadline))
        outcomes = {each: _outcome(answer) for each, answer in answers.items()}
        return [outcomes[each] for each in asked]

    async def score(
        rollouts: Sequence[Rollout], formula: Formula, deadline: float | None
    ) -> list[tuple[Score | None, str | None]]:
        """Return each rollout's score, or the reason why it has none."""
        asked = {place: formula.asks(rollout) for place, rollout in enumerate(rollouts) if rollout.answers}
        found = dict(zip(asked, await ask(list(asked.values()), deadline), strict=True))
        scored: list[tuple[Score | None, str | None]] = []
        for place, rollout in enumerate(rollouts):
            measured = found.get(place, rollout.problem or "no gold answer")
            if isinstance(measured, str):
                scored.append((None, measured))
            else:
                scored.append((formula.score(rollout, measured), None))
        return scored

    def number(score: Score | None, reason: str | None) -> float:
        """Return the reward for a contract that has no null."""
        if score is not None:
            return score.reward
        if unscored is None:
            raise HTTPException(
                422, f"a rollout cannot be scored: {reason}; drop it, or start the server with --unscored"
            )
        return unscored

    @app.post("/utilities")
    async def utilities(body: UtilitiesBody, deadline: Deadline = None) -> JSONResponse:
        """ΔSePer of passages, or of sets of passages, with the beliefs that it is the difference of."""
        found = await ask([query.asked for query in body.queries], deadline)
        return _results([_utilities(*pair) for pair in zip(body.queries, found, strict=True)], found)

    @app.post("/beliefs")
    async def beliefs(body: BeliefsBody, deadline: Deadline = None) -> JSONResponse:
        """Beliefs given sets of passages, and how surely texts state a gold answer; `SePerReward(url)` asks for it."""
        found = await ask([each.asked for each in body.asked], deadline)
        return _results([None if isinstance(each, str) else _measured(each) for each in found], found)

    @app.post("/rewards")
    async def rewards(body: RewardsBody, deadline: Deadline = None) -> dict[str, Any]:
        """Rewards of rollouts, with their parts."""
        rollouts = read_bodies(body.rollouts)
        scored = await score(rollouts, body.formula(formula), deadline)
        return {
            "rewards": [None if each is None else each.reward for each, _ in scored],
            "reasons": [reason for _, reason in scored],
            "scores": [None if each is None else _parts(each) for each, _ in scored],
            "turn_rewards": [_turn_rewards(*pair) for pair in zip(rollouts, scored, strict=True)],
        }

    @app.post("/openrlhf")
    async def openrlhf(body: OpenRLHFBody, deadline: Deadline = None) -> dict[str, Any]:
        """OpenRLHF's remote reward: rewards, scores for its dynamic sampling, and numbers for its log."""
        scored = await score(read_openrlhf(body, passage_tag), formula, deadline)
        found = [number(*pair) for pair in scored]
        logs = {"unscored": [float(each is None) for each, _ in scored], "cost": [_cost(each) for each, _ in scored]}
        return {"rewards": found, "scores": found, "extra_logs": logs, "reasons": [reason for _, reason in scored]}

    @app.post("/verify")
    async def verify(body: VerifyBody, deadline: Deadline = None) -> dict[str, Any]:
        """NeMo Gym's `verify`: the request with its reward; a rollout that cannot be scored is masked."""
        ((found, reason),) = await score([read_verify(body)], formula, deadline)
        masked = {"mask_sample": True, "failure_kind": "seper:unscored", "failure_reason": reason}
        return {
            **body.model_dump(exclude_unset=True),
            "reward": number(found, reason),
            **(masked if found is None else _parts(found)),
        }

    @app.post("/seed_session")
    async def seed_session() -> dict[str, Any]:
        """NeMo Gym's `seed_session`: nothing is kept between requests."""
        return {}

    @app.get("/health")
    async def health() -> JSONResponse:
        """200 while requests are accepted, 503 while the server stops."""
        status = "stopping" if worker.closed else "ok" if worker.alive else "dead"
        told = {"status": status, "version": app.version, "waiting": worker.waiting}
        return JSONResponse(told, 200 if status == "ok" else 503)

    @app.get("/scorer")
    async def scorer() -> dict[str, Any]:
        """Models and settings that decide a belief."""
        return worker.about

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        """Numbers for Prometheus."""
        return PlainTextResponse(generate_latest(numbers.registry), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RequestValidationError)
    async def unusable(_: Request, error: RequestValidationError) -> JSONResponse:
        """Say of each field what was expected and what came, without giving the whole body back."""
        problems = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}, got {shown(each.get('input'))}"
            for each in error.errors()[:10]
        ]
        return JSONResponse({"detail": "; ".join(problems)}, 422)

    @app.exception_handler(ConnectionError)
    async def engine_away(_: Request, error: ConnectionError) -> JSONResponse:
        return JSONResponse({"detail": f"the engine does not answer: {error}"}, 503, _RETRY)

    return app


class Numbers:
    """What Prometheus is told: requests by path and status, their seconds, and what the worker has done."""

    def __init__(self, worker: Worker) -> None:
        self.registry = CollectorRegistry()
        self._worker = worker
        self.registry.register(self)
        self._requests = Counter("seper_requests", "Requests answered.", ["path", "status"], registry=self.registry)
        self._seconds = Histogram(
            "seper_request_seconds",
            "Seconds from a request to its answer.",
            ["path"],
            registry=self.registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
        )

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's numbers."""
        yield GaugeMetricFamily("seper_waiting", "Contexts and texts that wait.", value=self._worker.waiting)
        abouts = {
            "blocks": "Blocks measured.",
            "measured": "Contexts whose beliefs were measured, or found in the cache.",
            "reused": "Contexts asked for that were known, or measured for another request.",
            "unscorable": "Questions that cannot be scored.",
            "errors": "Questions whose measurement failed.",
        }
        for name, count in asdict(self._worker.counts).items():
            yield CounterMetricFamily(f"seper_{name}", abouts[name], value=count)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)


class Gate:
    """ASGI middleware before all endpoints: asks for the token, bounds the body, and counts.

    Args:
        app: The app behind it.
        token: Bearer token; ``None`` asks for none.
        most_bytes: Most bytes of a body, also of one whose length is not announced.
        numbers: Where requests are counted.
    """

    def __init__(self, app: Any, *, token: str | None, most_bytes: int, numbers: Numbers) -> None:
        self._app, self._most_bytes, self._numbers = app, most_bytes, numbers
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        headers = dict(scope["headers"])
        received = 0

        async def bounded() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most_bytes:
                raise HTTPException(413, self._too_long)
            return message

        async def watched(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        length = headers.get(b"content-length", b"0")
        given = headers.get(b"authorization", b"")
        if self._expected and scope["path"] not in _OPEN and not secrets.compare_digest(given, self._expected):
            app: Any = JSONResponse({"detail": "expected a bearer token"}, 401, {"WWW-Authenticate": "Bearer"})
        elif length.isdigit() and int(length) > self._most_bytes:
            while (await receive()).get("more_body"):
                pass  # or the client would be cut off before it has read the answer
            app = JSONResponse({"detail": self._too_long}, 413)
        else:
            app = self._app
        try:
            await app(scope, bounded, watched)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # not what clients make up
            self._numbers.add(path, status, time.perf_counter() - start)

    @property
    def _too_long(self) -> str:
        return f"expected a body of at most {self._most_bytes} bytes; split the request"


def _outcome(answer: "asyncio.Future[Measured]") -> Measured | str:
    """Return a finished future's result, or the reason why there is none.

    Raises:
        ConnectionError: The engine behind the server is away.
    """
    if not answer.done():
        answer.cancel()  # what has not begun is not measured
        return _LATE
    error = answer.exception()
    if isinstance(error, ConnectionError):
        raise error
    if isinstance(error, UnscorableError):
        return str(error)
    return answer.result() if error is None else f"{type(error).__name__}: {error}"


def _results(results: Sequence[Any], found: Sequence[Measured | str]) -> JSONResponse:
    return JSONResponse({"results": results, "reasons": [each if isinstance(each, str) else None for each in found]})


def _utilities(query: QueryBody, measured: Measured | str) -> dict[str, Any] | None:
    if isinstance(measured, str):
        return None
    baseline, *beliefs = measured.beliefs
    rows = []
    for passages, belief in zip(query.sets, beliefs, strict=True):
        found = utility(belief, baseline)
        rows.append(
            {
                "passage_ids": [passage.id for passage in passages],
                "delta_seper": found.delta_seper,
                "std_error": found.std_error,
                "low": found.soft.low,
                "high": found.soft.high,
                "delta_seper_hard": found.delta_seper_hard,
                "delta_belief": None if found.combined is None else found.combined.value,
                "delta_log_odds": found.delta_log_odds,
                "seper": found.seper,
                "belief": belief_json(belief),
            }
        )
    return {"seper": baseline.seper, "baseline": belief_json(baseline), "utilities": rows}


def _measured(measured: Measured) -> dict[str, Any]:
    return {"beliefs": list(map(belief_json, measured.beliefs)), "supports": list(measured.supports)}


def _parts(score: Score) -> dict[str, Any]:
    beliefs = score.beliefs
    return {
        "baseline_seper": beliefs[0].seper if beliefs else None,
        "gains": list(score.gains),
        "cost": score.cost,
        "answer_support": score.answer,
    }


def _turn_rewards(rollout: Rollout, scored: tuple[Score | None, str | None]) -> list[float] | None:
    credit = credit_of(rollout, scored[0])
    return None if isinstance(credit, str) else turn_rewards(credit)


def _cost(score: Score | None) -> float:
    return 0.0 if score is None else score.cost
