"""Questions for a policy, and warm-up examples of both actions: answer, or search first."""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers.utils import get_json_schema

from seper_reward.data.answers import normalize_answer
from seper_reward.data.queries import pool_passages
from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import split_of, spread
from seper_reward.reader.prompts import PromptStyle
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import KNOWN, Belief, Passage, Query, UnscorableError, attempt

from .policy_task import PolicyTaskConfig, SearchTool, closed_book_beliefs, found_by, simple_searches
from .ranking.data import Questions, read_source, split_questions

SEARCH = get_json_schema(SearchTool.search)
CALL_END = "<|im_end|>"  # ends each message in ChatML
_RIGHT = 0.5  # minimum support of a right response
#: Training facts of the embedded reader's adapter, rows of ``{question, answers}``.
COMMON_FACTS = Path(__file__).with_name("common_facts.jsonl")
# prefixes of the field ``source`` of its other training sets
_SOURCES = ("nq-open oracle", "hotpotqa", "2wikimultihopqa")


def read_policy_questions(task: PolicyTaskConfig) -> Questions:
    """Read the questions of a policy from all inputs, and split them by SHA-1 of their ids.

    ``train`` is for training, ``dev`` for thresholds, ``test`` for evaluation. The metadata have ``group``, by default
    the name of the file. Two inputs with the same id raise ``ValueError``.
    """
    queries: dict[str, Query] = {}
    corpus: dict[str, Passage] = {}
    for source in task.input:
        found, passages = _read(source, task)
        taken = [f"question id {query.id!r}" for query in found if query.id in queries]
        taken += [f"passage id {name!r}" for name, each in passages.items() if corpus.get(name, each) != each]
        if taken:
            raise ValueError(f"{source}: {taken[0]} is used in an earlier input; rename one")
        queries |= {query.id: query for query in found}
        corpus |= passages
    sources = ", ".join(task.input)
    if not queries:
        raise ValueError(f"{sources}: expected questions, got none with groups={task.groups}, unseen={task.unseen}")
    split = split_questions(
        list(queries.values()),
        task.split_by,
        source=sources,
        test_share=task.test_share,
        dev_share=task.dev_share,
        salt="unseen " if task.unseen else "",  # without salt it is the hash that chose the reader's own train split
    )
    return Questions(corpus, spread(split["train"], task.limit), split["dev"], spread(split["test"], task.eval_limit))


def _read(source: str, task: PolicyTaskConfig) -> tuple[list[Query], dict[str, Passage]]:
    """Return the questions of one input selected by the task, and its corpus."""
    queries, corpus = read_source(source, task.corpus, task)
    if corpus is None:  # also of unused questions, which must not make searching easier
        corpus, queries = pool_passages(queries)
    name = Path(source).name.partition(".")[0]
    queries = [replace(query, metadata={"group": name, **query.metadata}) for query in queries]
    wanted = [
        query
        for query in queries
        if (not task.groups or query.metadata["group"] in task.groups) and not (task.unseen and trained_on(query))
    ]
    return spread(wanted, task.limit_each), corpus


def trained_on(query: Query) -> bool:
    """Return whether the bundled adapter was trained on a question of ``../shared/data/qa`` or of our facts.

    A set is recognised by the field ``source`` of its rows, and a question by its id in the set.
    """
    of_set = str(query.metadata.get("source", "")).startswith(_SOURCES)
    return (of_set and split_of(query.id) == "train") or normalize_answer(query.question) in _asked_facts()


@functools.cache
def _asked_facts() -> frozenset[str]:
    return frozenset(normalize_answer(fact["question"]) for _, fact in read_valid_rows(COMMON_FACTS))


def messages_of(question: str, style: PromptStyle) -> list[dict[str, Any]]:
    """Return the conversation with a question in the reader's wording, which the policy was trained on."""
    return [{"role": "user", "content": style.ask(question)}]


def call_of(query: str) -> dict[str, Any]:
    """Return the assistant's message that calls the search tool with a query."""
    call = {"type": "function", "function": {"name": "search", "arguments": {"query": query}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def warm_up_rows(
    queries: Sequence[Query],
    scorer: SePerScorer,
    tool: Callable[[], SearchTool],
    tokenizer: Any,
    *,
    max_turns: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return ``{prompt, completion, kind}`` rows that teach the format of both actions without preferring one.

    Every question has one example of answering from memory and one of searching (``simple_query``), so the question
    does not predict the action. Both are adjacent, so a step learns both; otherwise the last one would dominate.
    Answers are the reader's own, so only the format is new: from memory its likeliest right one if it knows the answer
    (SePer of at least ``KNOWN``), else the likeliest; after a search its likeliest right one with the passages found,
    if any. All processes must call this together.
    """
    queries = random.Random(seed).sample(queries, len(queries))
    known = closed_book_beliefs(scorer, queries)
    asked = [(query, belief) for query, belief in zip(queries, known, strict=True) if belief is not None]
    mine = shard(asked)
    bar = tqdm(mine, "answers after a search", unit="question", disable=not process_state().is_main_process)
    style = scorer.reader.prompts.style
    rows = []
    for query, belief in bar:
        messages = messages_of(query.question, style)
        from_memory = _likeliest(belief, right=belief.seper >= KNOWN) or _likeliest(belief)
        told = [] if from_memory is None else [(messages, _answer(from_memory), "memory")]
        rows.append(told + _after_searches(query, messages, scorer, tool(), max_turns))
    return [row_of(tokenizer, *row) for rows_of_question in gather_in_order(rows) for row in rows_of_question]


_Reply = tuple[list[dict[str, Any]], dict[str, Any], str]  # messages, the reply to them, and its kind


def _after_searches(
    query: Query, messages: list[dict[str, Any]], scorer: SePerScorer, tool: SearchTool, max_turns: int
) -> list[_Reply]:
    """Return each call of the tool, and the reader's right answer after it, if it has one."""
    replies: list[_Reply] = []
    for turn, (before, call, after) in enumerate(_searches(query.question, messages, tool, max_turns)):
        replies.append((before, call, "search" if not turn else "another search"))
        passages = tuple(dict.fromkeys(found_by(tool)))
        beliefs = attempt(functools.partial(scorer.beliefs, query.question, query.answers, [passages]))
        answer = None if isinstance(beliefs, UnscorableError) else _likeliest(beliefs[0], right=True)
        if answer is not None:
            replies.append((after, _answer(answer), "after a search"))
    return replies


def _searches(
    question: str, messages: list[dict[str, Any]], tool: SearchTool, max_turns: int
) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]]:
    """Search by ``simple_query``; yield for each search the messages before it, its call, and the messages after."""
    for query, said in simple_searches(tool, question, max_turns):
        call = call_of(query)
        after = [*messages, call, {"role": "tool", "name": "search", "content": said}]
        yield messages, call, after
        messages = after


def rollout_lengths(
    queries: Sequence[Query], tool: SearchTool, tokenizer: Any, style: PromptStyle, max_turns: int
) -> list[int]:
    """Return the tokens of each question's rollout before its answer, after all searches by ``simple_query``."""

    def tokens(messages: list[dict[str, Any]]) -> int:
        text = tokenizer.apply_chat_template(messages, tools=[SEARCH], add_generation_prompt=True, tokenize=False)
        return len(tokenizer(text, add_special_tokens=False).input_ids)

    lengths = []
    for query in queries:
        prompt = messages_of(query.question, style)
        *_, (_, _, whole) = _searches(query.question, prompt, tool, max_turns)
        lengths.append(tokens(whole) - tokens(prompt))
    return lengths


def _likeliest(belief: Belief, right: bool = False) -> str | None:
    """Return the likeliest sampled response; if ``right``, among those that support the answer, or ``None``."""
    places = [
        place
        for place, text in enumerate(belief.responses)
        if belief.counts[place] and text.strip() and not (right and belief.best_support[place] < _RIGHT)
    ]
    return belief.responses[max(places, key=belief.weights.__getitem__)] if places else None


def _answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def row_of(tokenizer: Any, messages: list[dict[str, Any]], reply: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a ``{prompt, completion, kind}`` row: a conversation in the policy's template, and its reply."""
    prompt = tokenizer.apply_chat_template(messages, tools=[SEARCH], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([*messages, reply], tools=[SEARCH], tokenize=False)
    if not whole.startswith(prompt):
        raise ValueError("the chat template is not prefix-preserving; use with_tool_template, or one of TRL's")
    completion = whole[len(prompt) :].rstrip().removesuffix(CALL_END)  # the trainer adds this token
    begin = tokenizer.bos_token
    if begin and tokenizer(prompt).input_ids[:2] == [tokenizer.bos_token_id] * 2:
        prompt = prompt.removeprefix(begin)  # and this one, too
    return {"prompt": prompt, "completion": completion, "kind": kind}
