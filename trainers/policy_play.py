"""Evaluation of policies and fixed search rules on held-out questions, one episode per question."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from accelerate.utils import gather_object
from trl import GRPOTrainer

from seper_reward.data.answers import exact_match
from seper_reward.judge.extract import extract_answer
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.reward.turns import Turn
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.runtime.memory import in_batches
from seper_reward.types import KNOWN, Belief, Query

from .policy_task import SearchTool, simple_searches
from .runs import evaluated

NEVER, ALWAYS, ORACLE = "never_search", "always_search", "threshold"
_ENTROPIES = ("entropy", "semantic_entropy")
_BATCH = 16  # questions that are measured together, whatever the number of processes


class Bench(NamedTuple):
    """Components that measure policies and rules.

    ``reward`` is the policy's, also used for the reader's answers; ``judge`` has the same reader and price, and
    measures beliefs. A question needs a search if the reader's SePer without one is below ``KNOWN``.
    """

    reward: SePerReward
    judge: SePerReward
    tool: Callable[[], SearchTool]
    tokenizer: Any
    max_turns: int


class Episode(NamedTuple):
    """Actions of a policy or a rule for one question, and their results.

    A question is ``needed`` to be searched if the reader's SePer without a search is below ``KNOWN``.
    ``answer`` is empty if the numbers are means over the reader's responses, as is then ``accuracy``, the exact match
    of the stated answer, in [0, 1]. ``seper`` is the reader's with the passages found; ``reward`` has the full price.
    ``tokens`` are those of queries, passages and answer. ``failed`` calls find nothing and cost as much as a search.
    ``answer_score`` is the answer's support E, as in the reward, in [0, 1]; ``None`` if the reward has no weight for
    answers.
    """

    id: str
    group: str | None
    needed: bool
    queries: tuple[str, ...]
    answer: str
    accuracy: float
    seper: float
    reward: float
    tokens: float
    failed: int = 0
    answer_score: float | None = None

    @property
    def searched(self) -> bool:
        """Whether there was a search."""
        return bool(self.queries)


#: Episodes by name of the policy or rule; ``None`` for an episode that could not be scored.
Played = dict[str, list[Episode | None]]


class Rules(NamedTuple):
    """Episodes of fixed rules, and the thresholds of rules that are tuned on other questions."""

    played: Played
    thresholds: dict[str, float]


class _Read(NamedTuple):
    """An episode with the reader's answers, and the reader's belief without a search."""

    episode: Episode
    closed_book: Belief


def is_rule(name: str) -> bool:
    """Return whether a name in ``Played`` is a fixed rule's, not a policy's."""
    return name in (NEVER, ALWAYS) or name.startswith(ORACLE)


def fixed_rules(bench: Bench, queries: Sequence[Query], tuning: Sequence[Query]) -> Rules:
    """Measure the reader's answers under fixed search rules; all processes must call this together.

    ``never_search`` and ``always_search`` (as often as the tool allows, with ``simple_query``) ignore the question.
    ``threshold`` searches if the reader's SePer is below ``KNOWN``, which requires the gold answer.
    ``threshold_entropy`` and ``threshold_semantic_entropy`` search if the entropy of the closed-book answer is above
    the threshold with the greatest reward on the ``tuning`` questions: rules that a user could apply.
    """
    choices = _choices(bench, queries)
    others = [choice for choice in _choices(bench, tuning) if choice is not None]
    searches: dict[str, list[bool]] = {
        NEVER: [False] * len(choices),
        ALWAYS: [True] * len(choices),
        ORACLE: [choice is not None and choice[0].episode.needed for choice in choices],
    }
    thresholds = {}
    for entropy in _ENTROPIES:
        name = f"{ORACLE}_{entropy}"
        limit = best_threshold(
            [getattr(without.closed_book, entropy) for without, _ in others],
            [without.episode.reward for without, _ in others],
            [searching.episode.reward for _, searching in others],
        )
        thresholds[name] = limit
        searches[name] = [choice is not None and getattr(choice[0].closed_book, entropy) > limit for choice in choices]
    played: Played = {
        name: [
            None if choice is None else choice[search].episode for choice, search in zip(choices, rule, strict=True)
        ]
        for name, rule in searches.items()
    }
    return Rules(played, thresholds)


def best_threshold(scores: Sequence[float], without: Sequence[float], searching: Sequence[float]) -> float:
    """Return the threshold above which searching leads to the greatest mean reward; of equal ones, the median.

    Thresholds are halfway between neighbouring scores, inf (never search) and -inf (always search).

    Args:
        scores: Scores of Q questions, such as entropies.
        without: Rewards without a search.
        searching: Rewards with a search.

    Raises:
        ValueError: The lengths differ or are 0, or a score is NaN.

    >>> best_threshold([0.75, -0.5, 0.25], without=[0.1, 0.9, 0.5], searching=[0.7, 0.4, 0.6])
    -0.125
    """
    if not len(scores) == len(without) == len(searching) or not len(scores):
        raise ValueError(
            f"expected as many scores as rewards without and with a search, at least one, got {len(scores)}, "
            f"{len(without)} and {len(searching)}"
        )
    if any(map(math.isnan, scores)):
        raise ValueError("expected a score for every question, got NaN; leave out questions without a score")
    order = sorted(set(map(float, scores)), reverse=True)
    thresholds = [math.inf, *((high + low) / 2 for high, low in itertools.pairwise(order)), -math.inf]
    rows = list(zip(scores, without, searching, strict=True))
    rewards = [sum(after if score > limit else before for score, before, after in rows) for limit in thresholds]
    top = max(rewards)
    # sums in different order differ in the last digits
    best = [limit for limit, reward in zip(thresholds, rewards, strict=True) if math.isclose(reward, top)]
    return best[len(best) // 2]


def _choices(bench: Bench, queries: Sequence[Query]) -> list[tuple[_Read, _Read] | None]:
    """Return each question's answers without and with a search."""
    batches = in_batches(queries, _BATCH)
    return list(itertools.chain.from_iterable(gather_in_order([_choose(bench, batch) for batch in shard(batches)])))


def _choose(bench: Bench, batch: Sequence[Query]) -> list[tuple[_Read, _Read] | None]:
    found = _read(bench, [(query, turns, 0) for query in batch for turns in ((), _all_searches(bench, query))])
    return [
        None if without is None or searching is None else (without, searching)
        for without, searching in zip(found[::2], found[1::2], strict=True)
    ]


def _all_searches(bench: Bench, query: Query) -> tuple[Turn, ...]:
    tool = bench.tool()
    list(simple_searches(tool, query.question, bench.max_turns))
    return tuple(tool.turns)


def read_by_reader(bench: Bench, searched: Sequence[tuple[Query, tuple[Turn, ...], int]]) -> list[Episode | None]:
    """Return the episodes of questions, their searches and numbers of failed calls, with the reader's answers.

    Their numbers are means over the reader's responses. An episode is ``None`` if it cannot be scored.
    """
    return [None if each is None else each.episode for each in _read(bench, searched)]


def _read(bench: Bench, searched: Sequence[tuple[Query, tuple[Turn, ...], int]]) -> list[_Read | None]:
    asked = [replace(_rollout(query, turns), failed=failed) for query, turns, failed in searched]
    scores = bench.judge.score(asked)
    answered = [
        []
        if score is None
        else [replace(rollout, answer=extract_answer(text)) for text in score.beliefs[-1].responses]
        for rollout, score in zip(asked, scores, strict=True)
    ]
    rewards = iter(bench.reward.score(list(itertools.chain.from_iterable(answered))))
    paid = [list(itertools.islice(rewards, len(answers))) for answers in answered]
    return [
        None if score is None else _read_episode(bench, query, rollout, score, rewards)
        for (query, *_), rollout, score, rewards in zip(searched, asked, scores, paid, strict=True)
    ]


def _read_episode(
    bench: Bench, query: Query, rollout: Rollout, score: Score, rewards: Sequence[Score | None]
) -> _Read | None:
    scored = [each for each in rewards if each is not None]
    if len(scored) < len(rewards):
        return None
    belief = score.beliefs[-1]

    def mean(values: Sequence[float]) -> float:
        return sum(weight * value for weight, value in zip(belief.weights, values, strict=True))

    answers = [each.answer for each in scored if each.answer is not None]
    episode = Episode(
        **_of(query, score.beliefs[0].seper < KNOWN, rollout.turns),
        answer="",
        accuracy=mean([exact_match(extract_answer(text), query.answers) for text in belief.responses]),
        seper=belief.seper,
        reward=mean([each.reward for each in scored]),
        tokens=_count(bench, rollout.turns) + mean([_tokens(bench, text) for text in belief.responses]),
        failed=rollout.failed,
        answer_score=mean(answers) if answers else None,
    )
    return _Read(episode, score.beliefs[0])


def measure(trainer: GRPOTrainer, bench: Bench, queries: Sequence[Query], name: str) -> Played:
    """Roll out the policy on the trainer's evaluation set; all processes must call this together.

    Returns the policy's episodes under ``name``, and the same searches with the reader's answers under
    ``NAME_reader_answers``.
    """
    with bench.reward.recording() as records:
        evaluated(trainer)
    by_key = {(query.question, query.answers): query for query in queries}
    rollouts, scores = [rollout for rollout, _ in records], [score for _, score in records]
    keys = [(rollout.question, rollout.answers) for rollout in rollouts]
    own = [
        _own_episode(bench, by_key.get(key), rollout, score, judgement)
        for key, rollout, score, judgement in zip(keys, rollouts, scores, bench.judge.score(rollouts), strict=True)
    ]
    searched = [
        (by_key[key], rollout.turns, rollout.failed)
        for key, rollout, episode in zip(keys, rollouts, own, strict=True)
        if episode is not None
    ]
    read = iter(read_by_reader(bench, searched))
    mine = [(key, episode, None if episode is None else next(read)) for key, episode in zip(keys, own, strict=True)]
    rows = as_often(gather_object(mine), trainer.num_generations_eval)
    return {name: [own for _, own, _ in rows], f"{name}_reader_answers": [read for *_, read in rows]}


def _own_episode(
    bench: Bench, query: Query | None, rollout: Rollout, score: Score | None, judgement: Score | None
) -> Episode | None:
    if query is None or score is None or judgement is None:
        return None
    return Episode(
        **_of(query, judgement.beliefs[0].seper < KNOWN, rollout.turns),
        answer=rollout.answer,
        accuracy=exact_match(rollout.answer, rollout.answers),
        seper=judgement.beliefs[-1].seper,
        reward=score.reward,
        tokens=_count(bench, rollout.turns) + _tokens(bench, rollout.answer),
        failed=rollout.failed,
        answer_score=score.answer,
    )


def as_often(rows: Sequence[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
    """Return the first ``most`` rows of each question (first item); drops rows repeated to fill up processes."""
    count: Counter[Any] = Counter()
    kept = []
    for row in rows:
        count[row[0]] += 1
        if count[row[0]] <= most:
            kept.append(row)
    return kept


def _rollout(query: Query, turns: tuple[Turn, ...]) -> Rollout:
    return Rollout(query.question, query.answers, turns, "")


def _of(query: Query, needed: bool, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the fields of an episode that depend only on the question and the searches."""
    queries = tuple(turn.query for turn in turns)
    return {"id": query.id, "group": query.metadata.get("group"), "needed": needed, "queries": queries}


def _count(bench: Bench, turns: Sequence[Turn]) -> int:
    texts = [text for turn in turns for text in (turn.query, *(passage.text for passage in turn.passages))]
    return sum(_tokens(bench, text) for text in texts)


def _tokens(bench: Bench, text: str) -> int:
    return len(bench.tokenizer(text, add_special_tokens=False).input_ids)
