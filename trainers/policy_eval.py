"""Measure a policy on held-out questions beside fixed rules of when to search, with a table and a plot.

python -m trainers.policy_eval runs/policy-demo runs/policy-demo-1 ...     # table of runs: mean ± sd over seeds
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from trl import GRPOTrainer

from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.reports.figures import Tradeoff
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.reward.environment import RetrievalEnvironment
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.runtime.json_files import read_json
from seper_reward.scorer import SePerScorer
from seper_reward.types import Query

MEASURES = (
    "search_rate_needed", "search_rate_not_needed", "search_rate_fiction", "search_rate_known", "accuracy", "seper",
    "reward", "searches_per_question",
)  # fmt: skip


def fixed_rules(
    reward: SePerReward, scorer: SePerScorer, queries: Sequence[Query], tool: Callable[[], RetrievalEnvironment]
) -> dict[str, dict[str, float]]:
    """Measure the reader under three rules: search never, always, or where its SePer is below ``reward.needed``.

    Args:
        reward: Reward whose prices and threshold ``needed`` are taken.
        scorer: Scorer that measures beliefs; its responses are the answers.
        queries: Questions with ``group`` in their metadata.
        tool: Function that makes a search tool; a search takes the question as its query.

    Returns:
        The ``MEASURES`` by rule (``never_search``, ``always_search``, ``threshold``); ``accuracy`` is the expected
        exact match of the reader's responses, and ``reward`` is that of the variant ``delta``.
    """
    rollouts = []
    for query in queries:
        environment = tool()
        environment.search(query.question)
        rollouts.append(Rollout(query.question, query.answers, tuple(environment.turns), ""))
    pairs = [scorer.beliefs(row.question, row.answers, [(), row.passages]) for row in rollouts]
    needs = [without.seper < reward.needed for without, _ in pairs]
    rules = {"never_search": [False] * len(pairs), "always_search": [True] * len(pairs), "threshold": needs}
    measures = {}
    for rule, searches in rules.items():
        rows = []
        for query, rollout, pair, need, search in zip(queries, rollouts, pairs, needs, searches, strict=True):
            accuracy = expected_metric(pair[search], query.answers, exact_match)
            net_gain = pair[search].seper - pair[0].seper - (reward.cost(rollout) if search else 0.0)
            rows.append(_row(query, need, int(search), accuracy, pair[search].seper, net_gain))
        measures[rule] = summarize(rows)
    return measures


def measure(trainer: GRPOTrainer, reward: SePerReward, queries: Sequence[Query]) -> dict[str, float]:
    """Measure the policy's rollouts on the trainer's evaluation set; all processes must call this together.

    Args:
        trainer: TRL's trainer of the policy.
        reward: The trainer's reward.
        queries: Questions of the evaluation set, with ``group`` in their metadata.

    Returns:
        The ``MEASURES`` over all rollouts that could be scored, and ``unscored``, the share that could not. ``seper``
        is the reader's with the retrieved passages or, where the variant scores the policy's own answer, how far that
        entails a gold answer. With the variant ``answer`` there is no ``search_rate_needed`` or
        ``search_rate_not_needed``.
    """
    with reward.recording() as records:
        trainer.evaluate()
    rollouts = _as_often(gather_object(records), trainer.num_generations_eval)
    by_question = {query.question: query for query in queries}
    rows = [
        _row(
            by_question[rollout.question],
            score.beliefs[0].seper < reward.needed if score.beliefs else None,
            len(rollout.turns),
            exact_match(rollout.answer, rollout.answers),
            score.beliefs[-1].seper if score.answer is None else score.answer,
            score.reward,
        )
        for rollout, score in rollouts
        if score is not None
    ]
    return {**summarize(rows), "unscored": round(1 - len(rows) / len(rollouts), 4)}


def summarize(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the ``MEASURES``: means over rows of ``{group, needed, searches, accuracy, seper, reward}``.

    A measure without rows is left out.
    """
    searched = [(row, float(row["searches"] > 0)) for row in rows]
    values_of = {
        "search_rate_needed": [value for row, value in searched if row["needed"] is True],
        "search_rate_not_needed": [value for row, value in searched if row["needed"] is False],
        "search_rate_fiction": [value for row, value in searched if row["group"] == "fiction"],
        "search_rate_known": [value for row, value in searched if row["group"] == "known"],
        "accuracy": [row["accuracy"] for row in rows],
        "seper": [row["seper"] for row in rows],
        "reward": [row["reward"] for row in rows],
        "searches_per_question": [row["searches"] for row in rows],
    }
    return {name: round(statistics.fmean(values), 4) for name, values in values_of.items() if values}


def tradeoff(results: Mapping[str, Any], log: Sequence[Mapping[str, Any]], block: int = 10) -> Tradeoff:
    """Return accuracy and searches per question of the rules, and of the policy before, during and after training.

    Args:
        results: Content of ``results.json``.
        log: Log of the trainer, whose rows concern training questions.
        block: Number of log rows that are averaged to one point.
    """

    def point(rows: Sequence[Mapping[str, float]], searches: str, accuracy: str) -> tuple[float, float]:
        return (statistics.fmean(row[searches] for row in rows), statistics.fmean(row[accuracy] for row in rows))

    rules = {
        name: point([results[name]], "searches_per_question", "accuracy")
        for name in ("never_search", "always_search", "threshold")
    }
    steps = [row for row in log if "seper/searches" in row]
    blocks = [steps[start : start + block] for start in range(0, len(steps), block)]
    path = [point(rows, "seper/searches", "seper/exact_match") for rows in blocks]
    ends = [
        [point([results[name]], "searches_per_question", "accuracy")] if name in results else []
        for name in ("before", "after")
    ]
    return Tradeoff(rules, [*ends[0], *path, *ends[1]])


def policy_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ``MEASURES`` as a Markdown table.

    Args:
        results: By name, one row each, and measure: a number or ``{"mean", "sd"}``.
    """
    rows = [[name, *(cell(row.get(measure)) for measure in MEASURES)] for name, row in results.items()]
    return markdown_table(["", *MEASURES], rows)


def over_seeds(runs: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``mean`` and ``sd`` (sample standard deviation) over runs, by name and measure; one run has ``sd`` 0."""
    return {
        name: {
            measure: {
                "mean": statistics.fmean(run[name][measure] for run in runs),
                "sd": statistics.stdev(run[name][measure] for run in runs) if len(runs) > 1 else 0.0,
            }
            for measure in MEASURES
            if all(measure in run[name] for run in runs)
        }
        for name in runs[0]
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of the results of some runs, mean ± sd; return 0."""
    parser = argparse.ArgumentParser(prog="python -m trainers.policy_eval", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, help="Output folders of trainers.policy, one per seed.")
    runs = [read_json(run / "results.json") for run in parser.parse_args(argv).runs]
    print(policy_table(over_seeds(runs)))
    return 0


def _as_often(rollouts: Sequence[tuple[Rollout, Score | None]], most: int) -> list[tuple[Rollout, Score | None]]:
    """Return the first ``most`` rollouts of each question; processes repeat questions to have equally many."""
    count: Counter[str] = Counter()
    kept = []
    for rollout, score in rollouts:
        count[rollout.question] += 1
        if count[rollout.question] <= most:
            kept.append((rollout, score))
    return kept


def _row(
    query: Query, needed: bool | None, searches: int, accuracy: float, seper: float, reward: float
) -> dict[str, Any]:
    return {
        "group": query.metadata.get("group"),
        "needed": needed,
        "searches": searches,
        "accuracy": accuracy,
        "seper": seper,
        "reward": reward,
    }


if __name__ == "__main__":
    sys.exit(main())
