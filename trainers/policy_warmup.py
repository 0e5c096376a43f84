"""Warm-up examples of a policy, of both actions: answer from memory, or search first."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from tqdm.auto import tqdm

from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import KNOWN, Asked, Belief, Query, UnscorableError

from .policy_task import SEARCH, SearchTool, closed_book_beliefs, messages_of, simple_searches

CALL_END = "<|im_end|>"  # ends each message in ChatML
_RIGHT = 0.5  # minimum support of a right response


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
    rows = []
    for query, belief in bar:
        messages = messages_of(query.question, scorer.reader.prompts.style)
        own = []
        from_memory = _likeliest(belief, right=belief.seper >= KNOWN) or _likeliest(belief)
        if from_memory is not None:
            own.append(row_of(tokenizer, messages, _answer(from_memory), "memory"))
        searching = tool()
        for turn, (words, result) in enumerate(simple_searches(searching, query.question, max_turns)):
            call = {"type": "function", "function": {"name": "search", "arguments": {"query": words}}}
            reply = {"role": "assistant", "content": "", "tool_calls": [call]}
            own.append(row_of(tokenizer, messages, reply, "another search" if turn else "search"))
            messages = [*messages, reply, {"role": "tool", "name": "search", "content": result}]
            found = dict.fromkeys(passage for turn in searching.turns for passage in turn.passages)
            (read,) = scorer.measure([Asked(query.question, query.answers, (tuple(found),))])
            answer = None if isinstance(read, UnscorableError) else _likeliest(read.beliefs[0], right=True)
            if answer is not None:
                own.append(row_of(tokenizer, messages, _answer(answer), "after a search"))
        rows.append(own)
    return [row for rows_of_question in gather_in_order(rows) for row in rows_of_question]


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
