"""Endpoints of the server, which share one worker.

Items that cannot be scored are ``null`` with a reason, never 0. A whole request is refused only if it is invalid (401,
413, 422) or must be retried: 429 if the queue is full, 503 if the server is stopping or its engine is unavailable, 504
if a question was not measured before the deadline.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from seper_reward.client import DEADLINE, belief_json
from seper_reward.data.rows import shown
from seper_reward.estimators.utility import utility
from seper_reward.reader.engine.canary import WeightsMovedError
from seper_reward.reward.credit import credit_of, turn_rewards
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.rollouts import Score
from seper_reward.serving.bodies import BeliefsBody, QueryBody, RewardsBody, RolloutFormat, UtilitiesBody, read_bodies
from seper_reward.serving.scoring import RETRY, Limits, Scoring
from seper_reward.serving.token import TokenGuard
from seper_reward.serving.worker import Worker
from seper_reward.types import Measured

Deadline = Annotated[float | None, Header(alias=DEADLINE, gt=0, description="Seconds that the request may take.")]


def build_app(
    worker: Worker,
    *,
    limits: Limits,
    weights: RewardWeights,
    token: str | None = None,
    reading: RolloutFormat = RolloutFormat(),
) -> FastAPI:
    """Return the app; without a token, requests need none. ``weights`` are the default weights of ``/rewards``."""
    app = FastAPI(title="seper-reward", version=version("seper-reward"), description=__doc__, redoc_url=None)
    scoring = Scoring(worker, limits)
    if token is not None:
        app.add_middleware(TokenGuard, token=token)

    @app.post("/utilities")
    async def utilities(request: Request, body: UtilitiesBody, deadline: Deadline = None) -> JSONResponse:
        """ΔSePer of passages, or of sets of passages, with the beliefs before and after."""
        outcomes = await scoring.ask([query.asked for query in body.queries], deadline, request.receive)
        return _results([_utilities(*pair) for pair in zip(body.queries, outcomes, strict=True)], outcomes)

    @app.post("/beliefs")
    async def beliefs(request: Request, body: BeliefsBody, deadline: Deadline = None) -> JSONResponse:
        """Beliefs given sets of passages, and the support of a gold answer by each text; for `SePerReward`."""
        outcomes = await scoring.ask(body.asked, deadline, request.receive)
        return _results(list(map(_measured, outcomes)), outcomes)

    @app.post("/rewards")
    async def rewards(request: Request, body: RewardsBody, deadline: Deadline = None) -> dict[str, Any]:
        """Rewards of rollouts, with their parts."""
        rollouts = read_bodies(body.rollouts, reading)
        scored = await scoring.score(rollouts, body.weights(weights), deadline, request.receive)
        credited = [credit_of(rollout, score) for rollout, (score, _) in zip(rollouts, scored, strict=True)]
        return {
            "rewards": [None if score is None else score.reward for score, _ in scored],
            "reasons": [reason for _, reason in scored],
            "scores": [None if score is None else _parts(score) for score, _ in scored],
            "turn_rewards": [None if isinstance(credit, str) else turn_rewards(credit) for credit in credited],
        }

    @app.get("/health")
    async def health() -> JSONResponse:
        """200 while requests are accepted, 503 while the server stops."""
        status = "stopping" if worker.closed else "ok" if worker.alive else "dead"
        report = {"status": status, "version": app.version, "waiting": worker.waiting}
        return JSONResponse(report, 200 if status == "ok" else 503)

    @app.get("/scorer")
    async def scorer() -> dict[str, Any]:
        """Models and settings that affect a belief."""
        return worker.about

    _handle_errors(app)
    return app


def _handle_errors(app: FastAPI) -> None:
    """Let an app answer invalid bodies, and errors of its engine."""

    @app.exception_handler(RequestValidationError)
    async def unusable(request: Request, error: RequestValidationError) -> JSONResponse:
        """Return for each invalid field the expectation and the value, without the whole body."""
        kind = request.headers.get("content-type", "none")
        if "json" not in kind:  # the body was not parsed
            detail = f"expected the header Content-Type: application/json, got {kind[:80]}"
            return JSONResponse({"detail": detail}, 422)
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}, got {_shown(problem.get('input'))}"
            for problem in error.errors()[:10]
        ]
        # names of fields may contain half a surrogate pair, which cannot be encoded
        detail = "; ".join(problems).encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"detail": detail}, 422)

    @app.exception_handler(ConnectionError)
    async def engine_away(_: Request, error: ConnectionError) -> JSONResponse:
        return JSONResponse({"detail": f"the engine is unavailable: {error}"}, 503, RETRY)

    @app.exception_handler(WeightsMovedError)
    async def engine_moved(_: Request, error: WeightsMovedError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 500)  # not 503: clients must not retry


def _shown(value: object) -> str:
    """Return the beginning of a value, or its type if it is nested too deeply to be printed."""
    try:
        return shown(value)
    except RecursionError:
        return f"a deep {type(value).__name__}"


def _results(results: Sequence[object], outcomes: Sequence[Measured | str]) -> JSONResponse:
    return JSONResponse(
        {"results": results, "reasons": [outcome if isinstance(outcome, str) else None for outcome in outcomes]}
    )


def _measured(measured: Measured | str) -> dict[str, object] | None:
    if isinstance(measured, str):
        return None
    return {"beliefs": list(map(belief_json, measured.beliefs)), "supports": list(measured.supports)}


def _parts(score: Score) -> dict[str, object]:
    baseline = score.beliefs[0].seper if score.beliefs else None
    return {"baseline_seper": baseline, "gains": score.gains, "cost": score.cost, "answer_support": score.answer}


def _utilities(query: QueryBody, measured: Measured | str) -> dict[str, object] | None:
    if isinstance(measured, str):
        return None
    baseline, *beliefs = measured.beliefs
    utilities = []
    for passages, belief in zip(query.sets, beliefs, strict=True):
        effect = utility(belief, baseline)
        utilities.append(
            {
                "passage_ids": [passage.id for passage in passages],
                "delta_seper": effect.delta_seper,
                "std_error": effect.std_error,
                "low": effect.soft.low,
                "high": effect.soft.high,
                "delta_seper_hard": effect.delta_seper_hard,
                "delta_belief": effect.delta_belief and effect.delta_belief.value,
                "seper_gain": effect.seper_gain and effect.seper_gain.value,
                "question_gain": effect.question_gain,
                "seper": effect.seper,
                "belief": belief_json(belief),
            }
        )
    return {"seper": baseline.seper, "baseline": belief_json(baseline), "utilities": utilities}
