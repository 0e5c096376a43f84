"""The log of a reward: metrics, columns of TRL's table of completions, warnings, and recordings."""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from seper_reward.data.answers import exact_match
from seper_reward.reward.rollouts import OTHERS, Rollout, Score
from seper_reward.reward.tools import SearchTools, counted, unread_results
from seper_reward.runtime.messages import plural
from seper_reward.runtime.profiling import Profile
from seper_reward.types import KNOWN, Belief

_CALLS, _EQUAL = 10, 1e-6  # calls in a row without a spread, and the largest difference of equal rewards
Scored = tuple[Rollout, Score | None]


class RewardLog:
    """Logs the calls of one reward to its trainer, warns of bad settings, and records rollouts with scores."""

    def __init__(self) -> None:
        self._last_call: float | None = None
        self._warned: set[str] = set()
        self._recordings: list[list[Scored]] = []
        self._calls_without_spread = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave recordings out of a pickle."""
        return {**self.__dict__, "_recordings": []}

    @contextmanager
    def recording(self) -> Iterator[list[Scored]]:
        """Yield a list that collects each rollout of this process and its score until the block ends."""
        recorded: list[Scored] = []
        self._recordings.append(recorded)
        try:
            yield recorded
        finally:
            # by identity: an outer recording may be an equal list
            self._recordings = [recording for recording in self._recordings if recording is not recorded]

    def record(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> None:
        """Add rollouts and their scores to all open recordings."""
        for recorded in self._recordings:
            recorded += zip(rollouts, scores, strict=True)

    def columns(
        self, name: str, rollouts: Sequence[Rollout], scores: Sequence[Score | None], log: Callable[[str, Any], None]
    ) -> None:
        """Log the queries with their gains, and the belief before and after them, with the trainer's ``log_extra``."""
        alone = _is_alone(name, log)
        beliefs = [score.beliefs if score is not None else () for score in scores]
        columns: dict[str, list[object]] = {
            "searches": list(map(_searches, rollouts, scores)),
            "belief": [" → ".join(map(describe_belief, (*steps[:1], *steps[1:][-1:]))) or None for steps in beliefs],
        }
        for column, values in columns.items():
            log(column if alone else f"{name}/{column}", values)

    def metrics(
        self,
        name: str,
        rollouts: Sequence[Rollout],
        scores: Sequence[Score | None],
        log: Callable[[str, float], None],
        *,
        profile: Profile,
        reused: Sequence[float],
    ) -> None:
        """Log metrics with the trainer's ``log_metric``; ``reused`` is 1 for a belief in the cache, else 0."""
        prefix = "seper" if _is_alone(name, log) else name
        now = time.perf_counter()
        single = seconds(rollouts, profile)
        if self._last_call is not None:  # the time since the previous call is that of a step
            single["share_of_step"] = profile.total_seconds / (now - self._last_call)
        self._last_call = now
        many: Mapping[str, Sequence[float]] = rollout_metrics(rollouts, scores) | {"reused_beliefs": list(reused)}
        for metric, values in {**{metric: [value] for metric, value in single.items()}, **many}.items():
            for value in values:
                log(f"{prefix}/{metric}", value)

    def warn_of_scaling(self, log: Callable[..., None] | None) -> None:
        """Warn once if the trainer of the method ``log`` divides rewards by the deviation of their group."""
        if getattr(getattr(log, "__self__", None), "scale_rewards", None) == "group":
            self._warn_once(
                "scale_rewards='group' divides rewards by their deviation within a group: if searches have similar "
                "gains, any price of a search counts the same; set scale_rewards='none' or 'batch'"
            )

    def warn_of_blindness(self, rollouts: Sequence[Rollout], passage_tag: str | None) -> None:
        """Warn once if searches are read from completions only, and no completion contains one."""
        seen = [rollout for rollout in rollouts if not rollout.problem]
        if seen and not any(rollout.turns or rollout.failed for rollout in seen):
            self._warn_once(
                f"no search is seen in {plural(len(seen), 'completion')}, so each has the reward 0 with "
                "answer_weight=0: searches are read from environments, a column passages, results of tools, or text "
                f"between the tags of passage_tag={passage_tag!r}"
            )

    def warn_of_unread(self, completions: Sequence[object], passage_tag: str | None) -> None:
        """Warn once if a completion seems to have results of searches that are not read."""
        if "unread" in self._warned:
            return
        places = [place for completion in completions if (place := unread_results(completion, passage_tag))]
        if places:
            self._warn_once(
                f"results of searches seem to be in {len(places)} of {plural(len(completions), 'completion')}, but "
                f"are not read, so these searches have neither gain nor price: {places[0]}",
                "unread",
            )

    def warn_of_digits(self, rollouts: Sequence[Rollout]) -> None:
        """Warn once if all gold answers are single digits, as the numbers of a ``ClassLabel`` are."""
        answers = [alias for rollout in rollouts for alias in rollout.answers]
        if answers and all(len(alias) == 1 and alias.isdecimal() for alias in answers):
            self._warn_once(
                f"all gold answers are single digits, such as {answers[0]!r}: if they are the numbers of classes "
                "(ClassLabel of datasets), give the names, dataset.features['answers'].int2str(number)",
                "digits",
            )

    def warn_of_no_spread(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> None:
        """Warn once if all rollouts of each question had the same reward in ``_CALLS`` calls in a row."""
        by_question: dict[str, list[float]] = defaultdict(list)
        for rollout, score in zip(rollouts, scores, strict=True):
            if score is not None:
                by_question[rollout.question].append(score.reward)
        groups = [rewards for rewards in by_question.values() if len(rewards) > 1]
        if not groups:
            return
        spread = max(max(rewards) - min(rewards) for rewards in groups)
        self._calls_without_spread = 0 if spread > _EQUAL else self._calls_without_spread + 1
        if self._calls_without_spread == _CALLS:
            self._warn_once(
                f"in the last {_CALLS} calls all rollouts of a question had the same reward, which trains nothing: "
                "warm the policy up longer if it never searches, sample at a higher temperature or with more "
                "generations, or use questions that it answers only sometimes",
                "spread",
            )

    def warn_of_tools(self, tools: SearchTools) -> None:
        """Warn once if only tools that are not in ``tools.names`` have results."""
        if tools.names is not None and tools.seen and not any(name in tools.seen for name in tools.names):
            self._warn_once(
                f"search_tools={tools.names} have no results so far, but {counted(tools.seen)} have: no search has "
                "a gain or a price",
                "tools",
            )

    def _warn_once(self, text: str, kind: str | None = None) -> None:
        if (kind or text) not in self._warned:
            self._warned.add(kind or text)
            warnings.warn(text, stacklevel=4)


def _is_alone(name: str, log: Callable[..., None]) -> bool:
    """Return whether a trainer has one reward with a ``RewardLog``; raise ``ValueError`` if two have the same name."""
    rewards = getattr(getattr(log, "__self__", None), "reward_funcs", ())
    names = [reward.__name__ for reward in rewards if isinstance(getattr(reward, "log", None), RewardLog)]
    if names.count(name) > 1:
        raise ValueError(f"{len(names)} rewards are named {', '.join(names)}; set reward.__name__ of each")
    return len(names) < 2


def _searches(rollout: Rollout, score: Score | None) -> str:
    """Return the queries of a rollout, each with its gain if gains were measured."""
    gains = () if score is None else score.gains
    if len(gains) != len(rollout.turns):
        return " | ".join(turn.query for turn in rollout.turns)
    return " | ".join(f"{turn.query} {gain:+.2f}" for turn, gain in zip(rollout.turns, gains, strict=True))


def describe_belief(belief: Belief) -> str:
    """Return the three heaviest clusters of a belief as text, each by its shortest response.

    >>> from seper_reward.types import Estimate, Responses
    >>> sampled, seper = Responses(("Ida", "Ida Voss", "Bob"), ()), Estimate(0.7, 0.1, 0.5, 0.9)
    >>> describe_belief(Belief(seper, seper, sampled=sampled, weights=(0.4, 0.3, 0.3), cluster_ids=(0, 0, 1)))
    'Ida 70 % | Bob 30 %'
    """
    from seper_reward.estimators.clustering import heaviest_clusters  # needs torch, which a client may lack

    clusters = heaviest_clusters(belief.cluster_ids, belief.weights)[:3]
    return " | ".join(
        f"{min((belief.responses[place] for place in places), key=len)} {100 * mass:.0f} %"
        for mass, places in clusters
    )


def seconds(rollouts: Sequence[Rollout], profile: Profile) -> dict[str, float]:
    """Return the seconds of one call of the reward by part; ``retrieval`` are those of the searches before it."""
    spent = profile.seconds
    parts = {
        "sampling": spent["prefill"] + spent["decode"] + spent["draw"],
        "entailment": spent["entailment"] + spent["clustering"],
        "retrieval": sum(turn.seconds for rollout in rollouts for turn in rollout.turns),
        "reward": profile.total_seconds,
    }
    return {f"seconds_{name}": value for name, value in parts.items()}


def rollout_metrics(rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> dict[str, list[float]]:
    """Return lists of metrics with one value per rollout that has the metric, without rows of other environments."""
    pairs = [(rollout, score) for rollout, score in zip(rollouts, scores, strict=True) if score is not None]
    own_scores = [score for rollout, score in zip(rollouts, scores, strict=True) if rollout.problem != OTHERS]
    metrics = {
        "unscored": [float(score is None) for score in own_scores],
        "search_rate": [float(bool(rollout.turns)) for rollout, _ in pairs],
        "searches": [float(len(rollout.turns)) for rollout, _ in pairs],
        "failed_calls": [float(rollout.failed) for rollout, _ in pairs],
        "exact_match": [exact_match(rollout.answer, rollout.answers) for rollout, _ in pairs],
        "cost": [score.cost for _, score in pairs],
    }
    baselines = [(rollout, score.beliefs[0].seper) for rollout, score in pairs if score.beliefs]
    if baselines:
        metrics["baseline"] = [baseline for _, baseline in baselines]
        for name, needed in (("search_rate_needed", True), ("search_rate_not_needed", False)):
            metrics[name] = [float(bool(rollout.turns)) for rollout, value in baselines if (value < KNOWN) is needed]
    answers = [score.answer for _, score in pairs if score.answer is not None]
    if answers:
        metrics["answer"] = answers
    deltas = [sum(score.gains) for rollout, score in pairs if rollout.turns and len(score.beliefs) > 1]
    if deltas:
        metrics |= {"delta_of_searches": deltas, "share_harmful": [float(delta < 0) for delta in deltas]}
    return metrics
