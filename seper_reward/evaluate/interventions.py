"""Interventions on the searches of rollouts: a result is kept, removed or swapped, and the agent goes on."""

import heapq
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from seper_reward.evaluate.search_agent import SearchAgent, Turns
from seper_reward.reward.rollouts import Rollout
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Asked, Passage, Query, Responses

ARMS = KEPT, REMOVED, SWAPPED = "kept", "removed", "swapped"
_NEAREST = 20  # passages of similar length from which a random one is drawn
_CREDITED, _CLOSED_BOOK = 1, 2  # added to the seed


class Case(NamedTuple):
    """A question, the number of searches that the agent makes, and the rollout of a log, if there is one."""

    query: Query
    searches: int
    rollout: Rollout | None = None


class Played(NamedTuple):
    """A rollout with the agent's answers; those of ``now``, ``bare`` and ``ends`` share no samples."""

    query: Query
    turns: Turns
    answer: str
    prompts: Sequence[str]  # of an answer after 0, 1, ... searches
    now: Sequence[Responses]  # answers to these prompts
    bare: Sequence[str]  # answers to the first of them
    # answers of the continuations, by number of the search, from 1, and one of `ARMS`
    ends: Mapping[tuple[int, str], Sequence[str]]

    @property
    def asked(self) -> Asked:
        """The reader's contexts after 0, 1, ... searches and without the first, second ..., and the texts to judge."""
        every = range(len(self.turns) + 1)
        parts = [self.turns[:end] for end in every] + [(*self.turns[: at - 1], *self.turns[at:]) for at in every[1:]]
        contexts = tuple(tuple(dict.fromkeys(passage for turn in part for passage in turn.passages)) for part in parts)
        texts = dict.fromkeys([self.answer, *self.bare, *itertools.chain.from_iterable(self.ends.values())])
        return Asked(self.query.question, self.query.answers, contexts, tuple(texts))


def intervene(agent: SearchAgent, corpus: Sequence[Passage], cases: Sequence[Case]) -> list[Played]:
    """Play rollouts, and continue them, with new later searches, after each intervention on each of their searches."""
    questions = [case.query.question for case in cases]
    logged = [() if case.rollout is None else case.rollout.turns for case in cases]
    played = agent.search(list(zip(questions, logged, strict=True)), [case.searches for case in cases])
    branches = {
        (number, end, arm): (*turns[: end - 1], replace(turns[end - 1], passages=result))
        for number, turns in enumerate(played)
        for end in range(1, len(turns) + 1)
        for arm, result in zip(ARMS, _results(questions[number], turns, end, corpus), strict=True)
    }
    starts = [(questions[number], turns) for (number, _, _), turns in branches.items()]
    ended = agent.search(starts, [len(played[number]) for number, _, _ in branches])
    after = {key: agent.prompt(questions[key[0]], turns) for key, turns in zip(branches, ended, strict=True)}
    now = [
        [agent.prompt(question, turns[:end]) for end in range(len(turns) + 1)]
        for question, turns in zip(questions, played, strict=True)
    ]
    gold = {prompt: case.query.answers for case, prompts in zip(cases, now, strict=True) for prompt in prompts}
    continued, credited = agent.answers(dict.fromkeys(after.values(), ())), agent.answers(gold, _CREDITED)
    bare = agent.answers({prompts[0]: () for prompts in now}, _CLOSED_BOOK)
    rollouts = []
    for number, (case, turns, prompts) in enumerate(zip(cases, played, now, strict=True)):
        ends = {key[1:]: continued[prompt].texts for key, prompt in after.items() if key[0] == number}
        answer = credited[prompts[-1]].texts[0] if case.rollout is None else case.rollout.answer
        rollouts.append(Played(
            case.query, turns, answer, prompts, [credited[prompt] for prompt in prompts], bare[prompts[0]].texts, ends
        ))  # fmt: skip
    return rollouts


def _results(question: str, turns: Turns, end: int, corpus: Sequence[Passage]) -> list[tuple[Passage, ...]]:
    """Return the last result of the first searches for each of ``ARMS``; swapped passages have about its length."""
    seen = {passage.full_text for turn in turns for passage in turn.passages}
    others = [passage for passage in corpus if passage.full_text not in seen]
    chance = random.Random(content_key("swapped", question, end - 1))

    def other(hit: Passage) -> Passage:
        near = heapq.nsmallest(_NEAREST, others, key=lambda passage: abs(len(passage.full_text) - len(hit.full_text)))
        return chance.choice(near)

    return [turns[end - 1].passages, (), tuple(map(other, turns[end - 1].passages))]
