"""Interventions on the searches of an agent: the change of its answers without a result, and credits of the search."""

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
from seper_reward.judge.reader_judge import yes_probs
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.tokens import usage
from seper_reward.reader.writer import Writer
from seper_reward.retrieval.base import Retriever
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn, tool_message
from seper_reward.runtime.cache import answers_through
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import SePerScorer, beliefs_of
from seper_reward.statistics import rounded
from seper_reward.types import KNOWN, Asked, Belief, Passage, Query, Responses, unwrap

Turns = tuple[Turn, ...]
Searches = Sequence[tuple[str, str]]  # queries and texts of results
ARMS = KEPT, REMOVED, SWAPPED = "kept", "removed", "swapped"
MEASURES = SUPPORT, EXACT = "E", "exact match"
MAX_NEW_TOKENS = 16  # of the agent's queries and answers
_QUERY, _ANSWER = "Next search query:", "Short answer:"
_HELPS = "Does the last search result help to answer the question? Reply with one word: yes or no."
_NEAREST = 20  # passages of similar length from which a random one is drawn
_PROMPTS = 8  # of similar length in a batch, which share the examples and need little padding
_CREDITED, _CLOSED_BOOK = 1, 2  # added to the seed: credits and what the agent knows share no samples with the effect


def _messages(question: str, searches: Searches, request: str) -> list[dict[str, str]]:
    """Return the messages up to a request; small models write queries best turn by turn, and answer best at once."""
    if request != _QUERY:
        shown = "".join(f"Search: {query}\nResult: {result}\n" for query, result in searches)
        return [{"role": "user", "content": f"{shown}Question: {question}\n{request}"}]
    heads = [f"Question: {question}", *(f"Result: {result}" for _, result in searches)]
    users = [{"role": "user", "content": f"{head}\n{request}"} for head in heads]
    queries = [{"role": "assistant", "content": query} for query, _ in searches]
    return [message for pair in itertools.zip_longest(users, queries) for message in pair if message]


_ROLLOUTS = (  # question, searches and answer
    (
        "Who is the mother of the director of the film Hallow Mill?",
        (
            ("film Hallow Mill director", "Hallow Mill: Hallow Mill is a 1931 drama film directed by Peter Voss."),
            ("Peter Voss mother", "Peter Voss: Peter Voss was a film director, the son of the painter Ida Voss."),
        ),
        "Ida Voss",
    ),
    (
        "Which lake is deeper, Lake Orrin or Lake Tamm?",
        (
            ("Lake Orrin depth", "Lake Orrin: Lake Orrin is a mountain lake, 41 metres deep."),
            ("Lake Tamm depth", "Lake Tamm: Lake Tamm has many islands and a depth of 12 metres."),
        ),
        "Lake Orrin",
    ),
)
_EXAMPLES = {
    _QUERY: [message for asked, searches, _ in _ROLLOUTS for message in _messages(asked, searches, _QUERY)[:-1]],
    _ANSWER: [
        message
        for asked, searches, answer in _ROLLOUTS
        for message in (*_messages(asked, searches, _ANSWER), {"role": "assistant", "content": answer})
    ],
}


@dataclass(frozen=True)
class CreditedSearch:
    """A search with its true effect and its credits.

    Attributes:
        id: Id of the question.
        question: The question.
        search: Number of the search in the rollout, from 1.
        query: Its query.
        hops: Number of hops of the question; ``None`` if unknown.
        known: Whether the agent answers rightly without a search, by samples that neither effects nor credits use.
        correct: Mean correctness of the continuations, by intervention and measure (``"kept, E"``).
        effects: Correctness with the result minus correctness without it, by intervention and measure.
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


class Case(NamedTuple):
    """A question, and the rollout of a log or the number of searches that the agent makes itself."""

    query: Query
    searches: int
    rollout: Rollout | None = None


class Agent:
    """A causal language model that searches a given number of times and then answers, after two examples.

    Queries are written at temperature 0, answers sampled. A search shows the best passage that its rollout has not
    shown yet.

    Args:
        reader: The model, with the number and length of its answers, and the limit of a passage.
        retriever: The search engine.
    """

    def __init__(self, reader: PromptedReader, retriever: Retriever) -> None:
        self.reader, self._retriever = reader, retriever
        self._writer = Writer(reader, MAX_NEW_TOKENS)

    def prompt(self, question: str, turns: Turns, request: str = _ANSWER) -> str:
        """Return the prompt of the next message after some searches: an answer, or as requested."""

        def conversation(texts: Sequence[str]) -> list[dict[str, str]]:
            left = iter(texts)
            results = [tool_message([Passage(next(left)) for _ in turn.passages]) for turn in turns]
            queries = map(self._writer.as_data, (turn.query for turn in turns))
            asked = _messages(self._writer.as_data(question), list(zip(queries, results, strict=True)), request)
            return [*_EXAMPLES.get(request, ()), *asked]

        return self._writer.prompt([passage for turn in turns for passage in turn.passages], conversation)

    def search(self, rollouts: Sequence[tuple[str, Turns]], searches: Sequence[int]) -> list[Turns]:
        """Continue rollouts, each a question and its searches so far, up to a number of searches."""
        done = [turns for _, turns in rollouts]
        while left := [at for at, turns in enumerate(done) if len(turns) < searches[at]]:
            prompts = [self.prompt(rollouts[at][0], done[at], _QUERY) for at in left]
            for at, written in zip(left, self._writer.write(prompts), strict=True):
                query = unwrap(written).strip().partition("\n")[0]
                seen = {passage.full_text for turn in done[at] for passage in turn.passages}
                (found,) = self._retriever.retrieve([query], len(seen) + 1)
                fresh = [passage for passage in found if passage.full_text not in seen]
                done[at] = (*done[at], Turn(query, tuple(fresh[:1])))
        return done

    def answers(self, prompts: Mapping[str, Sequence[str]], seed: int = 0) -> dict[str, Responses]:
        """Sample answers to prompts, and read the probabilities of their gold answers as ``known_leaves``."""
        reader = self.reader.with_sampling(seed=self.reader.sampler.options.seed + seed)
        sampled: dict[str, Responses] = {}
        for batch in in_batches(sorted(prompts, key=lambda prompt: (len(prompt), prompt)), _PROMPTS):
            gold = {prompt: self.reader.prompts.response_texts(prompts[prompt]) for prompt in batch}
            sampled |= {prompt: unwrap(row) for prompt, row in reader.sample(batch, given=gold).items()}
        return sampled

    def judge_results(self, rollouts: Sequence[tuple[str, Turns]]) -> list[tuple[float, float]]:
        """Return P(yes) that the last result of a rollout helps to answer, and the number of tokens for it."""
        sampler = self.reader.sampler
        prompts = [self.prompt(question, turns, _HELPS) for question, turns in rollouts]

        def compute(missing: list[int]) -> list[float]:
            probs: list[float] = yes_probs(sampler, [prompts[at] for at in missing])[:, 0].tolist()
            return probs

        probs = answers_through(self.reader.cache, "yes", sampler, [(prompt,) for prompt in prompts], compute)
        return [(prob, _tokens(self.reader, [prompt], 1)) for prob, prompt in zip(probs, prompts, strict=True)]


def _tokens(reader: PromptedReader, prompts: Sequence[str], written: float) -> float:
    return usage(reader.sampler.tokenizer, prompts, [])["prompt_tokens"] + written


class _Played(NamedTuple):
    """A rollout: its searches, prompts of an answer after 0, 1, ... searches, and all texts that were sampled."""

    case: Case
    turns: Turns
    prompts: Sequence[str]
    now: Sequence[Responses]  # to these prompts
    bare: Sequence[str]  # to the first of these, by other samples
    ends: Mapping[tuple[int, str], Sequence[str]]  # answers of the continuations, by position of the search and arm

    @property
    def answer(self) -> str:
        return self.now[-1].texts[0] if self.case.rollout is None else self.case.rollout.answer

    @property
    def asked(self) -> Asked:
        """The reader's contexts after 0, 1, ... searches, and the texts to judge."""
        query = self.case.query
        found = [tuple(passage for turn in self.turns[:end] for passage in turn.passages) for end in self._ends]
        texts = dict.fromkeys([self.answer, *self.bare, *itertools.chain.from_iterable(self.ends.values())])
        return Asked(query.question, query.answers, tuple(found), tuple(texts))

    @property
    def _ends(self) -> range:
        return range(len(self.turns) + 1)


def credited_searches(
    agent: Agent, scorer: SePerScorer, corpus: Sequence[Passage], cases: Sequence[Case]
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
    ends = [(row.case.query.question, row.turns[: place + 1]) for row in rows for place in range(len(row.turns))]
    helps = iter(agent.judge_results(ends))
    found = []
    for row, each, reader in zip(rows, asked, measured, strict=True):
        right = {
            text: (support, exact_match(text, each.answers))
            for text, support in zip(each.texts, reader.supports, strict=True)
        }
        beliefs = list(itertools.islice(own, len(row.now)))
        prompts = [scorer.reader.prompts.build(each.question, context) for context in each.contexts]
        costs = _costs("reader", scorer.reader, prompts, reader.beliefs)
        costs |= _costs("agent", agent.reader, row.prompts, beliefs)
        outcome = 2 * right[row.answer][0] - 1
        known = float(np.mean([right[text][0] for text in row.bare])) >= KNOWN
        searches = []
        for place, turn in enumerate(row.turns):
            named = _credits(reader.beliefs[place : place + 2], beliefs[place : place + 2], costs)
            text = " ".join(passage.full_text for passage in turn.passages)
            prob, tokens = next(helps)
            named |= {
                "outcome": (outcome, 0.0),
                "contains": (float(holds_answer(text, each.answers)), 0.0),
                "judgment": (prob - 0.5, float(tokens)),
            }
            searches.append(
                CreditedSearch(
                    id=row.case.query.id,
                    question=each.question,
                    search=place + 1,
                    query=turn.query,
                    hops=row.case.query.metadata.get("hops"),
                    known=known,
                    **effects({arm: [right[text] for text in row.ends[place, arm]] for arm in ARMS}),
                    credits={name: math.nan if value is None else value for name, (value, _) in named.items()},
                    tokens={name: cost for name, (_, cost) in named.items()},
                )
            )
        found.append(searches)
    return found


def _play(agent: Agent, corpus: Sequence[Passage], cases: Sequence[Case]) -> list[_Played]:
    asked = [case.query.question for case in cases]
    logged = [() if case.rollout is None else case.rollout.turns for case in cases]
    played = agent.search(list(zip(asked, logged, strict=True)), [case.searches for case in cases])
    branches = {
        (number, place, arm): (*turns[:place], replace(turns[place], passages=result))
        for number, turns in enumerate(played)
        for place in range(len(turns))
        for arm, result in zip(ARMS, _results(asked[number], turns, place, corpus), strict=True)
    }
    ended = agent.search(
        [(asked[number], turns) for (number, _, _), turns in branches.items()],
        [len(played[number]) for number, _, _ in branches],
    )
    after = {key: agent.prompt(asked[key[0]], turns) for key, turns in zip(branches, ended, strict=True)}
    now = [
        [agent.prompt(question, turns[:end]) for end in range(len(turns) + 1)]
        for question, turns in zip(asked, played, strict=True)
    ]
    gold = {prompt: case.query.answers for case, own in zip(cases, now, strict=True) for prompt in own}
    continued, credited = agent.answers(dict.fromkeys(after.values(), ())), agent.answers(gold, _CREDITED)
    bare = agent.answers({own[0]: () for own in now}, _CLOSED_BOOK)
    return [
        _Played(
            case,
            turns,
            own,
            [credited[prompt] for prompt in own],
            bare[own[0]].texts,
            {key[1:]: continued[prompt].texts for key, prompt in after.items() if key[0] == number},
        )
        for number, (case, turns, own) in enumerate(zip(cases, played, now, strict=True))
    ]


def _results(question: str, turns: Turns, place: int, corpus: Sequence[Passage]) -> tuple[Context, Context, Context]:
    """Return the result of a search for each of ``ARMS``; a swapped passage has about the length of the result's."""
    seen = {passage.full_text for turn in turns for passage in turn.passages}
    others = [passage for passage in corpus if passage.full_text not in seen]
    chance = random.Random(content_key("swapped", question, place))
    kept = turns[place].passages

    def other(passage: Passage) -> Passage:
        def distance(each: Passage) -> int:
            return abs(len(each.full_text) - len(passage.full_text))

        return chance.choice(heapq.nsmallest(_NEAREST, others, key=distance))

    return kept, (), tuple(map(other, kept))


def effects(right: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return ``correct``, ``effects``, ``std_errors`` and ``halves`` of a search (``CreditedSearch``).

    ``right`` has E and exact match of the N continuations of each of ``ARMS``, which are independent samples; N >= 2.
    """
    scores = {arm: np.array(own, dtype=float).T for arm, own in right.items()}  # (measures, N)
    errors = {arm: own.var(-1, ddof=1) / own.shape[-1] for arm, own in scores.items()}
    names = [(arm, at, f"{arm}, {name}") for arm in ARMS for at, name in enumerate(MEASURES)]
    change = scores[KEPT][0] - scores[REMOVED][0]
    return {
        "correct": {name: rounded(float(scores[arm][at].mean())) for arm, at, name in names},
        "effects": {
            name: rounded(float(scores[KEPT][at].mean() - scores[arm][at].mean()))
            for arm, at, name in names
            if arm != KEPT
        },
        "std_errors": {
            name: rounded(float(np.sqrt(errors[KEPT][at] + errors[arm][at]))) for arm, at, name in names if arm != KEPT
        },
        "halves": (rounded(float(change[::2].mean())), rounded(float(change[1::2].mean()))),
    }


def _credits(
    reader: Sequence[Belief], agent: Sequence[Belief], costs: Mapping[str, float]
) -> dict[str, tuple[float | None, float]]:
    """Return credits by the beliefs before and after a search, each with its number of tokens."""
    gain, own = utility(reader[1], reader[0]), utility(agent[1], agent[0])
    probs = [math.nan if each.answer_log_prob is None else math.exp(each.answer_log_prob) for each in agent]
    return {
        "delta_seper": (gain.delta_seper, costs["reader"]),
        "agent_delta_seper": (own.delta_seper, costs["agent"]),
        "delta_belief": (None if gain.combined is None else gain.combined.value, costs["reader"]),
        "question_gain": (gain.question_gain, costs["reader prompts"]),
        "igpo": (probs[1] - probs[0], costs["agent prompts"]),
    }


def _costs(name: str, reader: PromptedReader, prompts: Sequence[str], beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the number of tokens per search of the prompts of beliefs, and with their responses."""
    read = _tokens(reader, prompts, 0)
    drawn = sum(
        count * len(row)
        for belief in beliefs
        for count, row in zip(belief.counts, belief.sampled.token_log_probs, strict=True)
    )
    searches = len(prompts) - 1
    return {f"{name} prompts": read / searches, name: (read + drawn) / searches}
