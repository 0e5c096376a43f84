"""Were an agent's searches worth it? ΔSePer of each search, the decision to search, and the price that pays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from seper_reward.data.answers import exact_match
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.evaluate.statistics import ratio_over_questions, rounded
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query

KINDS = ("helpful", "useless", "harmful")


class Played(NamedTuple):
    """What an agent did with a question.

    Attributes:
        query: The question, with its gold answers; the same id stands for the same question.
        asked: The query of each of its n searches, "" where the log does not tell.
        found: What the reader knows after each search: n sets of passages, each with those before.
        answer: The agent's answer; empty where it gave none.
        failed: Number of its calls that failed.
    """

    query: Query
    asked: tuple[str, ...]
    found: tuple[Context, ...]
    answer: str
    failed: int = 0


def audit_searches(
    scorer: SePerScorer, rollouts: Sequence[Played], *, needed: float = 0.5, margin: float = 0.05
) -> dict[str, Any]:
    """Measure what each search did to a reader's belief in the gold answer.

    Args:
        scorer: Scorer of the reader: best the agent's own base model.
        rollouts: What the agent did; several rollouts of a question are resampled together.
        needed: SePer without a passage below which a question needs a search.
        margin: Least distance of ΔSePer from 0 of a search that helped or harmed.

    Returns:
        ``rollouts``, ``questions``, ``searches`` and how many rollouts are ``left_out`` because they cannot be
        measured; ``measures``, each ``mean`` and 95 % bootstrap ``interval`` over questions: ``accuracy`` (exact match
        of the agent's answers), ``searches_per_rollout``, ``failed_calls_per_rollout``, ``needed`` (share of rollouts
        whose question needs a search), ``search_rate_needed`` and ``search_rate_not_needed``, ``decision_f1`` (of the
        decision to search, right where it is needed), ``unsure_before`` (share of searches before which SePer was
        below ``needed``), ``break_even_price`` (mean ΔSePer of a search: at this price, in units of belief, the
        searches earn what they cost, failed calls apart) and that of questions that ``_needed`` one and did
        ``_not_needed``; ``kinds``, the share of searches that were ``helpful``,
        ``useless`` (within ``margin``) and ``harmful``, and how many were ``surely`` so (the whole interval is on that
        side of 0); ``by_search``, one row per search.

    Raises:
        ValueError: No rollout can be measured.
    """
    beliefs = measured(scorer, [each.query for each in rollouts], [((), *each.found) for each in rollouts])
    kept = [(each, own) for each, own in zip(rollouts, beliefs, strict=True) if own is not None]
    if not kept:
        raise ValueError("expected rollouts that can be measured, got none; messages above say why")
    rows = []
    for place, (played, own) in enumerate(kept):
        before = own[()]
        for number, (asked, context) in enumerate(zip(played.asked, played.found, strict=True), 1):
            gain = utility(own[context], before)
            rows.append(
                {
                    "rollout": place, "id": played.query.id, "question": played.query.question, "search": number,
                    "query": asked, "seper_before": rounded(before.seper), "needed": own[()].seper < needed,
                    "unsure_before": before.seper < needed,
                    "delta_seper": rounded(gain.delta_seper), "std_error": rounded(gain.std_error),
                    "low": rounded(gain.soft.low), "high": rounded(gain.soft.high),
                    "kind": _kind(gain.delta_seper, margin),
                }
            )  # fmt: skip
            before = own[context]
    return {
        "rollouts": len(kept),
        "questions": len({each.query.id for each, _ in kept}),
        "searches": len(rows),
        "left_out": len(rollouts) - len(kept),
        "needed_below": needed,
        "margin": margin,
        "measures": _measures([each for each, _ in kept], [own[()].seper < needed for _, own in kept], rows),
        "kinds": _kinds(rows),
        "by_search": rows,
    }


def _kind(gain: float, margin: float) -> str:
    return "helpful" if gain > margin else "harmful" if gain < -margin else "useless"


def _measures(rollouts: Sequence[Played], needs: Sequence[bool], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ids = [each.query.id for each in rollouts]
    pairs = list(zip(rollouts, needs, strict=True))

    def over_rollouts(part: Callable[[Played, bool], tuple[float, float]]) -> dict[str, Any]:
        return ratio_over_questions(ids, [part(*pair) for pair in pairs])

    def over_searches(chosen: Sequence[dict[str, Any]], part: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
        return ratio_over_questions([row["id"] for row in chosen], [(part(row), 1.0) for row in chosen])

    of_need = {need: [row for row in rows if needs[row["rollout"]] == need] for need in (True, False)}
    right = over_rollouts(lambda each, _: (exact_match(each.answer, each.query.answers), 1.0))
    return {
        **({"accuracy": right} if any(each.answer for each in rollouts) else {}),
        "searches_per_rollout": over_rollouts(lambda each, _: (len(each.found), 1.0)),
        "failed_calls_per_rollout": over_rollouts(lambda each, _: (each.failed, 1.0)),
        "needed": over_rollouts(lambda _, need: (need, 1.0)),
        "search_rate_needed": over_rollouts(lambda each, need: (need and bool(each.found), need)),
        "search_rate_not_needed": over_rollouts(lambda each, need: (not need and bool(each.found), not need)),
        "decision_f1": over_rollouts(lambda each, need: (2 * (need and bool(each.found)), need + bool(each.found))),
        "unsure_before": over_searches(rows, lambda row: row["unsure_before"]),
        "break_even_price": over_searches(rows, lambda row: row["delta_seper"]),
        "break_even_price_needed": over_searches(of_need[True], lambda row: row["delta_seper"]),
        "break_even_price_not_needed": over_searches(of_need[False], lambda row: row["delta_seper"]),
    }


def _kinds(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ids = [row["id"] for row in rows]
    surely = {"helpful": lambda row: row["low"] > 0, "harmful": lambda row: row["high"] < 0}
    return {
        kind: {
            **ratio_over_questions(ids, [(row["kind"] == kind, 1.0) for row in rows]),
            "searches": sum(row["kind"] == kind for row in rows),
            **({"surely": sum(row["kind"] == kind and surely[kind](row) for row in rows)} if kind in surely else {}),
        }
        for kind in KINDS
    }
