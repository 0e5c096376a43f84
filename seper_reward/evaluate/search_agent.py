"""A search agent without training: a causal language model that searches a given number of times and then answers."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from seper_reward.judge.reader_judge import yes_probs
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import Request
from seper_reward.reader.writer import Writer
from seper_reward.retrieval.base import Retriever
from seper_reward.reward.turns import Turn, tool_message
from seper_reward.runtime.cache import answers_through
from seper_reward.runtime.memory import in_batches
from seper_reward.types import Passage, Responses, unwrap

Turns = tuple[Turn, ...]
MAX_NEW_TOKENS = 16  # of queries and answers
_QUERY, _ANSWER = "Next search query:", "Short answer:"
_HELPS = "Does the last search result help to answer the question? Reply with one word: yes or no."
_PROMPTS = 8  # of similar length in a batch, which share the examples and need little padding


def _messages(question: str, searches: Sequence[tuple[str, str]], request: str) -> list[dict[str, str]]:
    """Return the messages up to a request; small models write queries best turn by turn, and answer best at once."""
    if request != _QUERY:
        shown = "".join(f"Search: {query}\nResult: {result}\n" for query, result in searches)
        return [{"role": "user", "content": f"{shown}Question: {question}\n{request}"}]
    heads = [f"Question: {question}", *(f"Result: {result}" for _, result in searches)]
    users = [{"role": "user", "content": f"{head}\n{request}"} for head in heads]
    queries = [{"role": "assistant", "content": query} for query, _ in searches]
    return [message for pair in itertools.zip_longest(users, queries) for message in pair if message]


_ROLLOUTS = [
    (rollout["question"], rollout["searches"], rollout["answer"])
    for rollout in yaml.safe_load(Path(__file__).with_name("search_agent.yaml").read_text(encoding="utf-8"))
]
_EXAMPLES = {
    _QUERY: [message for question, searches, _ in _ROLLOUTS for message in _messages(question, searches, _QUERY)[:-1]],
    _ANSWER: [
        message
        for question, searches, answer in _ROLLOUTS
        for message in (*_messages(question, searches, _ANSWER), {"role": "assistant", "content": answer})
    ],
}


class SearchAgent:
    """A causal language model that searches a given number of times and then answers, with two examples.

    Queries are written at temperature 0, answers sampled. A search shows the best passage that was not shown yet.
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
            messages = _messages(self._writer.as_data(question), list(zip(queries, results, strict=True)), request)
            return [*_EXAMPLES.get(request, ()), *messages]

        return self._writer.prompt([passage for turn in turns for passage in turn.passages], conversation)

    def search(self, rollouts: Sequence[tuple[str, Turns]], searches: Sequence[int]) -> list[Turns]:
        """Continue rollouts, each a question and its searches so far, up to a number of searches."""
        done = [turns for _, turns in rollouts]
        while left := [at for at, turns in enumerate(done) if len(turns) < searches[at]]:
            prompts = [self.prompt(rollouts[at][0], done[at], _QUERY) for at in left]
            for at, written in zip(left, self._writer.write(prompts), strict=True):
                query = unwrap(written).strip().partition("\n")[0]
                seen = {passage.full_text for turn in done[at] for passage in turn.passages}
                (passages,) = self._retriever.retrieve([query], len(seen) + 1)
                fresh = [passage for passage in passages if passage.full_text not in seen]
                done[at] = (*done[at], Turn(query, tuple(fresh[:1])))
        return done

    def answers(self, prompts: Mapping[str, Sequence[str]], seed: int = 0) -> dict[str, Responses]:
        """Sample answers to prompts, and read the probabilities of their gold answers as ``known_leaves``."""
        reader = self.reader.with_sampling(seed=self.reader.sampler.options.seed + seed)
        sampled: dict[str, Responses] = {}
        for batch in in_batches(sorted(prompts, key=lambda prompt: (len(prompt), prompt)), _PROMPTS):
            gold = [tuple(self.reader.prompts.response_texts(prompts[prompt])) for prompt in batch]
            drawn = reader.sample([Request(*arguments) for arguments in zip(batch, gold, strict=True)])
            sampled |= {prompt: unwrap(responses) for prompt, responses in zip(batch, drawn, strict=True)}
        return sampled

    def judge_results(self, rollouts: Sequence[tuple[str, Turns]]) -> list[tuple[float, float]]:
        """Return P(yes) that the last result of a rollout helps to answer, and the number of tokens for it."""
        sampler = self.reader.sampler
        prompts = [self.prompt(question, turns, _HELPS) for question, turns in rollouts]

        def compute(missing: list[int]) -> list[float]:
            probs: list[float] = yes_probs(sampler, [prompts[at] for at in missing])[:, 0].tolist()
            return probs

        probs = answers_through(self.reader.cache, "yes", sampler, [(prompt,) for prompt in prompts], compute)
        return [
            (prob, len(sampler.tokenizer(prompt).input_ids) + 1.0) for prob, prompt in zip(probs, prompts, strict=True)
        ]
