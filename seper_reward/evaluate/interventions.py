"""Interventions on an agent's searches: the change of its answers without a result, and credits of the search."""

import heapq
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from seper_reward.data.answers import exact_match, holds_answer
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.tokens import usage
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.search_agent import SearchAgent, Turns
from seper_reward.runtime.hashing import content_key
from seper_reward.scorer import SePerScorer, beliefs_of
from seper_reward.statistics import rounded
from seper_reward.types import KNOWN, Asked, Belief, Passage, Query, Responses, unwrap

ARMS = KEPT, REMOVED, SWAPPED = "kept", "removed", "swapped"
MEASURES = SUPPORT, EXACT = "E", "exact match"
_NEAREST = 20  # passages of similar length from which a random one is drawn
_CREDITED, _CLOSED_BOOK = 1, 2  # added to the seed: credits and what the agent knows share no samples with the effect


class Case(NamedTuple):
    """A question, the number of searches that the agent makes, and the rollout of a log, if there is one."""

    query: Query
    searches: int
    rollout: Rollout | None = None


@dataclass(frozen=True)
class CreditedSearch:
    """A search with its true effect and its credits; effects are by intervention and measure (``"removed, E"``).

    Attributes:
        id: Id of the question.
        question: The question.
        search: Number of the search in the rollout, from 1.
        query: Its query.
        hops: Number of hops of the question; ``None`` if unknown.
        known: Whether the agent answers rightly without a search, by samples that neither effects nor credits use.
        correct: Mean correctness of the continuations.
        effects: Correctness with the result minus correctness without it.
        std_errors: Standard errors of the effects over continuations.
        halves: Effect of removal on E in the continuations of even and of odd number.
        credits: Credits by name, NaN if unknown.
        tokens: Number of tokens that models read and write for each credit.
    """

    id: str
    question: str
    search: int
    query: str
    hops: int | None
    known: bool
    correct: Mapping[str, float]
    effects: Mapping[str, float]
    std_errors: Mapping[str, float]
    halves: tuple[float, float]
    credits: Mapping[str, float]
    tokens: Mapping[str, float]


class _Played(NamedTuple):
    """A rollout: its searches, prompts of an answer after 0, 1, ... searches, and all sampled texts."""

    query: Query
    turns: Turns
    answer: str
    prompts: Sequence[str]
    now: Sequence[Responses]  # to these prompts
    bare: Sequence[str]  # to the first of these, by other samples
    ends: Mapping[tuple[int, str], Sequence[str]]  # answers of the continuations, by position of the search and arm

    @property
    def asked(self) -> Asked:
        """The reader's contexts after 0, 1, ... searches and without the first, second ..., and the texts to judge."""
        every = range(len(self.turns) + 1)
        parts = [self.turns[:end] for end in every] + [(*self.turns[: at - 1], *self.turns[at:]) for at in every[1:]]
        contexts = tuple(tuple(dict.fromkeys(each for turn in own for each in turn.passages)) for own in parts)
        texts = dict.fromkeys([self.answer, *self.bare, *itertools.chain.from_iterable(self.ends.values())])
        return Asked(self.query.question, self.query.answers, contexts, tuple(texts))


def credited_searches(
    agent: SearchAgent, scorer: SePerScorer, corpus: Sequence[Passage], cases: Sequence[Case]
) -> list[list[CreditedSearch]]:
    """Measure the true effect and the credits of each search of several rollouts, which share batches.

    Args:
        agent: The agent, which makes the rollouts of cases without one, and all continuations.
        scorer: Scorer of a separate reader; its judge gives E.
        corpus: Passages for swapped results.
        cases: The questions.

    Raises:
        UnscorableError: A question is longer than a model's window.
    """
    rows = _play(agent, corpus, cases)
    asked = [row.asked for row in rows]
    measured = map(unwrap, scorer.measure(asked, len(rows)))
    sampled = [
        (each.question, each.answers, found) for row, each in zip(rows, asked, strict=True) for found in row.now
    ]
    own = iter(beliefs_of(scorer.judge, scorer.estimator, sampled))
    helps = iter(agent.judge_results([(row.query.question, row.turns[:end]) for row in rows for end in _ends(row)]))
    found = []
    for row, each, reader in zip(rows, asked, measured, strict=True):
        supports = zip(each.texts, reader.supports, strict=True)
        right = {text: (support, exact_match(text, each.answers)) for text, support in supports}
        beliefs = list(itertools.islice(own, len(row.now)))
        prompts = [scorer.reader.prompts.build(each.question, context) for context in each.contexts]
        last = len(row.turns)
        whole = reader.beliefs[last]
        costs = _costs("reader", scorer.reader, prompts[: last + 1], reader.beliefs[: last + 1])
        costs |= _costs("left out", scorer.reader, prompts[last:], reader.beliefs[last:])
        costs |= _costs("agent", agent.reader, row.prompts, beliefs)
        searches = []
        for end, turn in enumerate(row.turns, 1):
            helpful, tokens = next(helps)
            text = " ".join(passage.full_text for passage in turn.passages)
            named = _by_beliefs(reader.beliefs[end - 1 : end + 1], beliefs[end - 1 : end + 1], costs) | {
                "leave_one_out": (utility(whole, reader.beliefs[last + end]).delta_seper, costs["left out"]),
                "outcome": (2 * right[row.answer][0] - 1, 0.0),
                "contains": (float(holds_answer(text, each.answers)), 0.0),
                "judgment": (helpful - 0.5, tokens),
            }
            searches.append(
                CreditedSearch(
                    row.query.id,
                    each.question,
                    end,
                    turn.query,
                    row.query.metadata.get("hops"),
                    float(np.mean([right[text][0] for text in row.bare])) >= KNOWN,
                    **effects({arm: [right[text] for text in row.ends[end, arm]] for arm in ARMS}),
                    credits={name: math.nan if value is None else value for name, (value, _) in named.items()},
                    tokens={name: cost for name, (_, cost) in named.items()},
                )
            )
        found.append(searches)
    return found


def effects(right: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return ``correct``, ``effects``, ``std_errors`` and ``halves`` of a search (``CreditedSearch``).

    ``right`` has E and exact match of the N >= 2 continuations of each of ``ARMS``, which are independent samples.
    """
    scores = {f"{arm}, {name}": np.array(right[arm])[:, at] for arm in ARMS for at, name in enumerate(MEASURES)}
    kept = {f"{arm}, {name}": scores[f"{KEPT}, {name}"] for arm in (REMOVED, SWAPPED) for name in MEASURES}
    change = scores[f"{KEPT}, {SUPPORT}"] - scores[f"{REMOVED}, {SUPPORT}"]
    return {
        "correct": {name: rounded(float(own.mean())) for name, own in scores.items()},
        "effects": {name: rounded(float(own.mean() - scores[name].mean())) for name, own in kept.items()},
        "std_errors": {
            name: rounded(math.sqrt((own.var(ddof=1) + scores[name].var(ddof=1)) / len(own)))
            for name, own in kept.items()
        },
        "halves": (rounded(float(change[::2].mean())), rounded(float(change[1::2].mean()))),
    }


def _ends(row: _Played) -> range:
    return range(1, len(row.turns) + 1)


def _play(agent: SearchAgent, corpus: Sequence[Passage], cases: Sequence[Case]) -> list[_Played]:
    asked = [case.query.question for case in cases]
    logged = [() if case.rollout is None else case.rollout.turns for case in cases]
    played = agent.search(list(zip(asked, logged, strict=True)), [case.searches for case in cases])
    branches = {
        (number, end, arm): (*turns[: end - 1], replace(turns[end - 1], passages=result))
        for number, turns in enumerate(played)
        for end in range(1, len(turns) + 1)
        for arm, result in zip(ARMS, _results(asked[number], turns, end, corpus), strict=True)
    }
    starts = [(asked[number], turns) for (number, _, _), turns in branches.items()]
    ended = agent.search(starts, [len(played[number]) for number, _, _ in branches])
    after = {key: agent.prompt(asked[key[0]], turns) for key, turns in zip(branches, ended, strict=True)}
    now = [
        [agent.prompt(question, turns[:end]) for end in range(len(turns) + 1)]
        for question, turns in zip(asked, played, strict=True)
    ]
    gold = {prompt: case.query.answers for case, own in zip(cases, now, strict=True) for prompt in own}
    continued, credited = agent.answers(dict.fromkeys(after.values(), ())), agent.answers(gold, _CREDITED)
    bare = agent.answers({own[0]: () for own in now}, _CLOSED_BOOK)
    rows = []
    for number, (case, turns, own) in enumerate(zip(cases, played, now, strict=True)):
        ends = {key[1:]: continued[prompt].texts for key, prompt in after.items() if key[0] == number}
        answer = credited[own[-1]].texts[0] if case.rollout is None else case.rollout.answer
        rows.append(
            _Played(case.query, turns, answer, own, [credited[each] for each in own], bare[own[0]].texts, ends)
        )
    return rows


def _results(question: str, turns: Turns, end: int, corpus: Sequence[Passage]) -> tuple[Context, Context, Context]:
    """Return the last result of the first searches for each of ``ARMS``; swapped passages have about its length."""
    seen = {passage.full_text for turn in turns for passage in turn.passages}
    others = [passage for passage in corpus if passage.full_text not in seen]
    chance = random.Random(content_key("swapped", question, end - 1))

    def other(kept: Passage) -> Passage:
        near = heapq.nsmallest(_NEAREST, others, key=lambda each: abs(len(each.full_text) - len(kept.full_text)))
        return chance.choice(near)

    return turns[end - 1].passages, (), tuple(map(other, turns[end - 1].passages))


def _by_beliefs(
    reader: Sequence[Belief], agent: Sequence[Belief], costs: Mapping[str, float]
) -> dict[str, tuple[float | None, float]]:
    """Return credits by the beliefs before and after a search, each with its number of tokens."""
    gain, own = utility(reader[1], reader[0]), utility(agent[1], agent[0])
    probs = [math.nan if each.answer_log_prob is None else math.exp(each.answer_log_prob) for each in agent]
    return {
        "delta_seper": (gain.delta_seper, costs["reader"]),
        "agent_delta_seper": (own.delta_seper, costs["agent"]),
        "seper_gain": (None if gain.seper_gain is None else gain.seper_gain.value, costs["reader"]),
        "delta_belief": (None if gain.combined is None else gain.combined.value, costs["reader"]),
        "question_gain": (gain.question_gain, costs["reader prompts"]),
        "igpo": (probs[1] - probs[0], costs["agent prompts"]),
    }


def _costs(name: str, reader: PromptedReader, prompts: Sequence[str], beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the number of tokens per search of the prompts of beliefs, and with their responses."""
    rows = [zip(each.counts, each.sampled.token_log_probs, strict=True) for each in beliefs]
    drawn = [count * len(row) for count, row in itertools.chain.from_iterable(rows)]
    tokens = usage(reader.sampler.tokenizer, prompts, drawn)
    read, searches = tokens["prompt_tokens"], len(prompts) - 1
    return {f"{name} prompts": read / searches, name: (read + tokens["response_tokens"]) / searches}
