"""Summarise policies and fixed search rules: their measures, leads over each other, a table, and a path to plot."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.reports.figures import Point
from seper_reward.reports.tables import interval_cell, lead_text, markdown_table
from seper_reward.statistics import lead_over_questions, ratio_over_questions, rounded

from .policy_play import Episode, Rules, is_rule

MEASURES = (
    "search_rate_needed", "search_rate_not_needed", "decision_f1", "accuracy", "answer_score", "seper", "reward",
    "searches_per_question", "failed_calls_per_question", "tokens_per_question",
)  # fmt: skip
LEADS = ("accuracy", "answer_score", "reward")  # measures whose leads are reported
TRAINING = "training.jsonl"  # the log of the trainer, in a run's folder


def held_out_file(folder: Path, name: str = "results") -> Path:
    """Return the file of all episodes of held-out questions, next to ``NAME.json`` of a run."""
    return folder / f"{name}_held_out.jsonl"


def summarize(episodes: Sequence[Episode | None]) -> dict[str, Any]:
    """Return the ``MEASURES`` of episodes with their 95 % bootstrap intervals over questions (``intervals``).

    ``search_rate_needed``, ``search_rate_not_needed`` and ``search_rate_GROUP`` are shares of questions with a search.
    ``decision_f1`` is the F1 of the decision to search, with needed searches as positives: 2 · both / (searched +
    needed). ``unscored`` is the share of episodes that could not be scored. A question's episodes are resampled
    together; measures without episodes are left out.
    """
    scored = [episode for episode in episodes if episode is not None]
    parts: dict[str, Callable[[Episode], tuple[float, float]]] = {
        "search_rate_needed": lambda each: (each.searched and each.needed, each.needed),
        "search_rate_not_needed": lambda each: (each.searched and not each.needed, not each.needed),
        "decision_f1": lambda each: (2 * (each.searched and each.needed), each.searched + each.needed),
        "accuracy": lambda each: (each.accuracy, 1),
        "answer_score": lambda each: (each.answer_score or 0.0, each.answer_score is not None),
        "seper": lambda each: (each.seper, 1),
        "reward": lambda each: (each.reward, 1),
        "searches_per_question": lambda each: (len(each.queries), 1),
        "failed_calls_per_question": lambda each: (each.failed, 1),
        "tokens_per_question": lambda each: (each.tokens, 1),
    }
    for group in sorted({episode.group for episode in scored if episode.group is not None}):
        parts[f"search_rate_{group}"] = lambda each, own=group: (  # type: ignore[misc]
            each.searched and each.group == own,
            each.group == own,
        )
    values: dict[str, Any] = {}
    intervals: dict[str, list[float] | None] = {}
    for name, part in parts.items():
        found = ratio_over_questions([each.id for each in scored], list(map(part, scored)))
        if found["mean"] is not None:
            values[name], intervals[name] = found["mean"], found["interval"]
    unscored = rounded(1 - len(scored) / len(episodes))
    return {**values, "unscored": unscored, "intervals": intervals}


def results_of(played: Mapping[str, Sequence[Episode | None]], rules: Rules, policy: str) -> dict[str, dict[str, Any]]:
    """Return the measures of all policies and rules, the content of ``results.json``.

    ``accuracy_leads``, ``answer_score_leads`` and ``reward_leads`` are over each rule and the start of ``policy``.
    """
    results = {name: summarize(episodes) for name, episodes in {**played, **rules.played}.items()}
    for name, limit in rules.thresholds.items():
        # a finite threshold, or the equivalent rule
        results[name]["threshold"] = rounded(limit) if np.isfinite(limit) else "never" if limit > 0 else "always"
    others = {**({"before": played["before"]} if policy == "after" and "before" in played else {}), **rules.played}
    for measure in LEADS:
        own = _measure_by_question(played[policy], measure)
        if measure == "answer_score" and not own:
            continue  # the reward has no weight for answers
        results[policy][f"{measure}_leads"] = {
            name: paired_lead(own, _measure_by_question(episodes, measure)) for name, episodes in others.items()
        }
    return results


def leads_list(results: Mapping[str, Mapping[str, Any]], policy: str) -> str:
    """Return the leads of a policy on the same questions, with 95 % intervals over questions, as a Markdown list."""
    rows = [
        f"- {measure} of `{policy}` over `{name}`: {lead_text(lead)}"
        for measure in LEADS
        for name, lead in results[policy].get(f"{measure}_leads", {}).items()
    ]
    return "\n".join(rows)


def paired_lead(own: Mapping[str, float], other: Mapping[str, float]) -> dict[str, Any]:
    """Return ``lead_over_questions`` over the questions that both have."""
    both = [identity for identity in own if identity in other]
    return lead_over_questions([own[each] for each in both], [other[each] for each in both])


def _measure_by_question(episodes: Sequence[Episode | None], measure: str) -> dict[str, float]:
    found = ((episode.id, getattr(episode, measure)) for episode in episodes if episode is not None)
    return means_by_question((identity, value) for identity, value in found if value is not None)


def means_by_question(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean value of each question."""
    by_question: dict[str, list[float]] = {}
    for identity, value in values:
        by_question.setdefault(identity, []).append(value)
    return {identity: statistics.fmean(found) for identity, found in by_question.items()}


def tradeoff(
    results: Mapping[str, Any], log: Sequence[Mapping[str, Any]], block: int = 10
) -> tuple[dict[str, Point], list[Point]]:
    """Return accuracy and searches per question of the rules, and of the policy before, during and after training.

    The log of the trainer has training questions; ``block`` of its rows are averaged into one point.
    """

    def point(rows: Sequence[Mapping[str, float]], searches: str, accuracy: str) -> Point:
        return (statistics.fmean(row[searches] for row in rows), statistics.fmean(row[accuracy] for row in rows))

    rules = {name: point([row], "searches_per_question", "accuracy") for name, row in results.items() if is_rule(name)}
    steps = [row for row in log if "seper/searches" in row]
    blocks = [steps[start : start + block] for start in range(0, len(steps), block)]
    path = [point(rows, "seper/searches", "seper/exact_match") for rows in blocks]
    ends = [
        [point([results[name]], "searches_per_question", "accuracy")] if name in results else []
        for name in ("before", "after")
    ]
    return rules, [*ends[0], *path, *ends[1]]


def policy_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ``MEASURES`` of ``summarize``, by name, with intervals as a Markdown table."""
    rows = [
        [name, *(interval_cell({"mean": row.get(each), "interval": row["intervals"].get(each)}) for each in MEASURES)]
        for name, row in results.items()
    ]
    return markdown_table(["", *MEASURES], rows)
