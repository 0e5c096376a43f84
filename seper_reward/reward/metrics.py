"""What a reward logs: columns of TRL's table of completions, and metrics."""

from collections.abc import Sequence
from typing import Any

from seper_reward.data.answers import exact_match
from seper_reward.reward.credit import credit_of, turn_rewards
from seper_reward.reward.rollouts import OTHERS, Rollout, Score
from seper_reward.runtime.profiling import Profile
from seper_reward.types import Belief


def table_columns(rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> dict[str, list[Any]]:
    """Return columns of TRL's table of completions, one value per rollout.

    Args:
        rollouts: The rollouts.
        scores: Their scores; ``None`` where one could not be scored.
    """
    beliefs = [score.beliefs if score is not None else () for score in scores]
    return {
        "question": [rollout.question for rollout in rollouts],
        "query": [" | ".join(turn.query for turn in rollout.turns) for rollout in rollouts],
        "passages": [" | ".join(passage.text for passage in rollout.passages) for rollout in rollouts],
        "exact_match": [exact_match(row.answer, row.answers) if row.answers else None for row in rollouts],
        "baseline": [row[0].seper if row else None for row in beliefs],
        "gains": [None if score is None else score.gains for score in scores],
        "turn_rewards": [
            None if isinstance(credit, str) else turn_rewards(credit) for credit in map(credit_of, rollouts, scores)
        ],
        "cost": [None if score is None else score.cost for score in scores],
        "belief_before": [describe_belief(row[0]) if row else None for row in beliefs],
        "belief_after": [describe_belief(row[-1]) if len(row) > 1 else None for row in beliefs],
    }


def describe_belief(belief: Belief, most: int = 3) -> str:
    """Return the ``most`` heaviest clusters of a belief as text, each by its shortest response.

    >>> from seper_reward.types import Estimate, Responses
    >>> sampled, seper = Responses(("Ida", "Ida Voss", "Bob"), ()), Estimate(0.7, 0.1, 0.5, 0.9)
    >>> describe_belief(Belief(seper, seper, sampled=sampled, weights=(0.4, 0.3, 0.3), cluster_ids=(0, 0, 1)))
    'Ida 70 % | Bob 30 %'
    """
    from seper_reward.estimators.clustering import heaviest_clusters  # needs torch, which a client may lack

    clusters = heaviest_clusters(belief.cluster_ids, belief.weights)[:most]
    return " | ".join(
        f"{min((belief.responses[place] for place in places), key=len)} {100 * mass:.0f} %"
        for mass, places in clusters
    )


def seconds(rollouts: Sequence[Rollout], profile: Profile) -> dict[str, float]:
    """Return seconds by part of one call of the reward: ``sampling``, ``entailment``, and ``reward`` for the whole.

    ``retrieval`` is the time that the searches of the rollouts took before the call.
    """
    spent = profile.seconds
    parts = {
        "sampling": spent["prefill"] + spent["decode"] + spent["draw"],
        "entailment": spent["entailment"] + spent["clustering"],
        "retrieval": sum(turn.seconds for rollout in rollouts for turn in rollout.turns),
        "reward": profile.total_seconds,
    }
    return {f"seconds_{name}": value for name, value in parts.items()}


def rollout_metrics(
    rollouts: Sequence[Rollout], scores: Sequence[Score | None], needed: float
) -> dict[str, list[float]]:
    """Return metrics, each with one value per rollout that it concerns; TRL's trainers take the mean.

    Rows of other environments count nowhere.

    Args:
        rollouts: The rollouts.
        scores: Their scores; ``None`` where one could not be scored.
        needed: Baseline SePer below which a question needs a search.
    """
    pairs = [(rollout, score) for rollout, score in zip(rollouts, scores, strict=True) if score is not None]
    metrics = {
        "unscored": [
            float(score is None) for rollout, score in zip(rollouts, scores, strict=True) if rollout.problem != OTHERS
        ],
        "search_rate": [float(bool(rollout.turns)) for rollout, _ in pairs],
        "searches": [float(len(rollout.turns)) for rollout, _ in pairs],
        "failed_calls": [float(rollout.failed) for rollout, _ in pairs],
        "exact_match": [exact_match(rollout.answer, rollout.answers) for rollout, _ in pairs],
        "cost": [score.cost for _, score in pairs],
    }
    baselines = [(rollout, score.beliefs[0].seper) for rollout, score in pairs if score.beliefs]
    if baselines:
        metrics["baseline"] = [baseline for _, baseline in baselines]
        metrics["search_rate_needed"] = [float(bool(row.turns)) for row, baseline in baselines if baseline < needed]
        metrics["search_rate_not_needed"] = [
            float(bool(row.turns)) for row, baseline in baselines if baseline >= needed
        ]
    answers = [score.answer for _, score in pairs if score.answer is not None]
    if answers:
        metrics["answer"] = answers
    deltas = [sum(score.gains) for rollout, score in pairs if rollout.turns and len(score.beliefs) > 1]
    if deltas:
        metrics |= {"delta_of_searches": deltas, "share_harmful": [float(delta < 0) for delta in deltas]}
    return metrics
