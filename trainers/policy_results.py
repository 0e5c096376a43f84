"""Policies that decide when to search, compared with fixed rules on the same held-out questions."""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from seper_reward.batching import measure_shared
from seper_reward.data.answers import exact_match
from seper_reward.evaluate.measuring import measured
from seper_reward.judge.extract import extract_answer
from seper_reward.reports.tables import lead_text, markdown_table
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, lead_over_questions, ratio_over_questions, rounded
from seper_reward.types import KNOWN, Belief, Query

MEASURES = (
    "search_rate_needed", "search_rate_not_needed", "accuracy", "answer_score", "reward", "searches_per_question",
)  # fmt: skip
LEADS = ("accuracy", "answer_score", "reward")
_BATCH = 16  # episodes that are scored together, whatever the number of processes


class Episode(NamedTuple):
    """Actions of a policy or a rule for one question, and their results.

    A search is ``needed`` if the reader's SePer without one is below ``KNOWN``. A rule answers as the reader: its
    ``answer`` is empty, and its numbers are means over the reader's responses. ``accuracy`` is the exact match of the
    answer, ``answer_score`` its support E as in the reward, both in [0, 1]; E is ``None`` if the reward has no weight
    for answers.
    """

    id: str
    needed: bool
    queries: tuple[str, ...]
    answer: str
    accuracy: float
    answer_score: float | None
    reward: float


#: Episodes by name of the policy or rule; ``None`` for an episode that could not be scored.
Played = Mapping[str, Sequence[Episode | None]]


def fixed_rules(
    scorer: SePerScorer,
    weights: RewardWeights,
    search: Callable[[Query], tuple[Turn, ...]],
    queries: Sequence[Query],
    tuning: Sequence[Query],
) -> tuple[dict[str, list[Episode | None]], dict[str, float]]:
    """Return the episodes of fixed rules with the reader's answers, and the thresholds of those that have one.

    ``search`` makes all searches that are allowed. The thresholds of entropies of the closed-book answer have the
    greatest reward on the ``tuning`` questions. All processes must call this together.
    """
    all_queries = [*queries, *tuning]
    searched = [Rollout(query.question, query.answers, search(query), "") for query in all_queries]
    beliefs = measured(scorer, all_queries, [((), rollout.passages) for rollout in searched], title="fixed rules")
    cases = [
        (query, turns, by_context and (by_context[()], by_context[rollout.passages if turns else ()]))
        for query, rollout, by_context in zip(all_queries, searched, beliefs, strict=True)
        for turns in ((), rollout.turns)
    ]
    score = functools.partial(_episodes, SePerReward(scorer, **asdict(weights)))
    played = measure_shared(cases, score, "rewards of fixed rules", size=_BATCH)
    choices = [
        None if by_context is None or without is None or searching is None else (by_context[()], without, searching)
        for by_context, without, searching in zip(beliefs, played[::2], played[1::2], strict=True)
    ]
    tuned = [choice for choice in choices[len(queries) :] if choice is not None]
    thresholds = {
        name: best_threshold([(getattr(known, name), one.reward, other.reward) for known, one, other in tuned])
        for name in ("entropy", "semantic_entropy")
    }
    rules: dict[str, Callable[[Belief], bool]] = {"never_search": lambda _: False, "always_search": lambda _: True}
    for name, limit in thresholds.items():
        rules[f"threshold_{name}"] = lambda known, name=name, limit=limit: getattr(known, name) > limit  # type: ignore[misc]
    episodes = {
        name: [
            None if choice is None else choice[2] if rule(choice[0]) else choice[1]
            for choice in choices[: len(queries)]
        ]
        for name, rule in rules.items()
    }
    return episodes, {f"threshold_{name}": limit for name, limit in thresholds.items()}


def _episodes(
    reward: SePerReward, cases: Sequence[tuple[Query, tuple[Turn, ...], tuple[Belief, Belief] | None]]
) -> list[Episode | None]:
    """Return the episodes of searches with the reader's answers, given its beliefs without and with the searches."""
    rollouts = [
        [Rollout(query.question, query.answers, turns, extract_answer(text)) for text in beliefs[1].responses]
        if beliefs
        else []
        for query, turns, beliefs in cases
    ]
    scores = iter(reward.score(list(itertools.chain.from_iterable(rollouts))))
    episodes: list[Episode | None] = []
    for (query, turns, beliefs), case_rollouts in zip(cases, rollouts, strict=True):
        scored = [score for score in itertools.islice(scores, len(case_rollouts)) if score is not None]
        if beliefs is None or len(scored) < len(case_rollouts):
            episodes.append(None)
            continue

        def mean(values: Sequence[float], weights: Sequence[float] = beliefs[1].weights) -> float:
            return sum(weight * value for weight, value in zip(weights, values, strict=True))

        answers = [score.answer for score in scored if score.answer is not None]
        episode = Episode(
            query.id,
            beliefs[0].seper < KNOWN,
            tuple(turn.query for turn in turns),
            "",
            mean([exact_match(rollout.answer, query.answers) for rollout in case_rollouts]),
            mean(answers) if answers else None,
            mean([score.reward for score in scored]),
        )
        episodes.append(episode)
    return episodes


def best_threshold(outcomes: Sequence[tuple[float, float, float]]) -> float:
    """Return the threshold above which searching leads to the greatest mean reward; of equal ones, the median.

    Outcomes are a question's score, such as an entropy, and its rewards without and with a search. Thresholds are
    halfway between neighbouring scores, inf (never search) and -inf (always search).

    >>> best_threshold([(0.75, 0.1, 0.7), (-0.5, 0.9, 0.4), (0.25, 0.5, 0.6)])
    -0.125
    """
    order = sorted({score for score, *_ in outcomes}, reverse=True)
    thresholds = [math.inf, *((high + low) / 2 for high, low in itertools.pairwise(order)), -math.inf]
    rewards = [sum(after if score > limit else before for score, before, after in outcomes) for limit in thresholds]
    top = max(rewards)
    # sums in different order differ in the last digits
    best = [limit for limit, reward in zip(thresholds, rewards, strict=True) if math.isclose(reward, top)]
    return best[len(best) // 2]


def summarize(episodes: Sequence[Episode | None]) -> dict[str, object]:
    """Return the ``MEASURES`` of episodes that have them, with their 95 % bootstrap ``intervals`` over questions."""
    scored = [episode for episode in episodes if episode is not None]
    parts: dict[str, list[tuple[float, float]]] = {
        "search_rate_needed": [(bool(episode.queries) and episode.needed, episode.needed) for episode in scored],
        "search_rate_not_needed": [
            (bool(episode.queries) and not episode.needed, not episode.needed) for episode in scored
        ],
        "accuracy": [(episode.accuracy, 1) for episode in scored],
        "answer_score": [(episode.answer_score or 0.0, episode.answer_score is not None) for episode in scored],
        "reward": [(episode.reward, 1) for episode in scored],
        "searches_per_question": [(len(episode.queries), 1) for episode in scored],
    }
    measures = {name: ratio_over_questions([episode.id for episode in scored], part) for name, part in parts.items()}
    measures = {name: measure for name, measure in measures.items() if measure.value is not None}
    return {
        **{name: measure.value for name, measure in measures.items()},
        "unscored": rounded(1 - len(scored) / len(episodes)),
        "intervals": {name: measure.interval for name, measure in measures.items()},
    }


def compare_policies(played: Played, thresholds: Mapping[str, float], policy: str) -> dict[str, dict[str, object]]:
    """Return the summaries of all policies and rules, and one policy's leads over all others (``MEASURE_leads``)."""
    results = {name: summarize(episodes) for name, episodes in played.items()}
    for name, limit in thresholds.items():
        results[name]["threshold"] = rounded(limit) if np.isfinite(limit) else "never" if limit > 0 else "always"
    for measure in LEADS:
        values = {name: _by_question(episodes, measure) for name, episodes in played.items()}
        ours = values.pop(policy)
        leads = {}
        for name, other in values.items():
            both = [identity for identity in ours if identity in other]
            leads[name] = asdict(
                lead_over_questions([ours[identity] for identity in both], [other[identity] for identity in both])
            )
        if ours:
            results[policy][f"{measure}_leads"] = leads
    return results


def _by_question(episodes: Sequence[Episode | None], measure: str) -> dict[str, float]:
    by_question: dict[str, list[float]] = {}
    for episode in episodes:
        if episode is not None and (value := getattr(episode, measure)) is not None:
            by_question.setdefault(episode.id, []).append(value)
    return {identity: statistics.fmean(values) for identity, values in by_question.items()}


def policies_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ``MEASURES`` of all policies and rules with intervals, and the leads of one policy, as Markdown."""
    rows = [
        [name, *(Statistic(measures.get(measure), measures["intervals"].get(measure)) for measure in MEASURES)]
        for name, measures in results.items()
    ]
    leads = [
        f"- {measure} of `{policy}` over `{name}`: {lead_text(Statistic(**lead))}"
        for policy, measures in results.items()
        for measure in LEADS
        for name, lead in measures.get(f"{measure}_leads", {}).items()
    ]
    return "\n".join([markdown_table(["", *MEASURES], rows), "", *leads])
