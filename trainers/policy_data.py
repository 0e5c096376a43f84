"""Questions for a policy, and warm-up examples of both of its actions: answer, or search first."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers.utils import get_json_schema

from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import split_of
from seper_reward.retrieval import Retriever
from seper_reward.reward.environment import NOTHING_FOUND, RetrievalEnvironment
from seper_reward.types import Passage, Query, answer_items, answer_text
from trainers.adapters.reader_data import UNKNOWN, states

SEARCH = get_json_schema(RetrievalEnvironment.search)
CALL_END = "<|im_end|>"  # ends each message in ChatML


class PolicyQuestions(NamedTuple):
    """Questions to train on, questions held out, and the corpus to search, by passage id."""

    train: list[Query]
    held_out: list[Query]
    corpus: dict[str, Passage]


def read_policy_questions(limit: int | None = None, eval_limit: int | None = None) -> PolicyQuestions:
    """Return the demo's questions on known facts and on fiction; 3/8, by SHA-1 of their ids, are held out.

    Args:
        limit: Most training questions; ``None`` returns all.
        eval_limit: Most held-out questions; ``None`` returns all.
    """
    corpus = read_corpus(CORPUS)
    queries = [q for q in read_queries(QUESTIONS, corpus).queries if q.metadata["group"] in ("known", "fiction")]
    train = [query for query in queries if split_of(query.id, test_share=0.375, dev_share=0.0) == "train"]
    held_out = [query for query in queries if query not in train]
    return PolicyQuestions(train[:limit], held_out[:eval_limit], corpus)


def messages_of(question: str) -> list[dict[str, Any]]:
    """Return the conversation that asks a question."""
    return [{"role": "user", "content": question}]


def call_of(query: str) -> dict[str, Any]:
    """Return the assistant's message that calls the search tool with a query."""
    call = {"type": "function", "function": {"name": "search", "arguments": {"query": query}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def warm_up_rows(
    queries: Sequence[Query], retriever: Retriever, tokenizer: Any, seed: int, max_passage_words: int = 48
) -> list[dict[str, Any]]:
    """Make ``{prompt, completion, kind}`` rows that teach the format of both actions and prefer neither.

    Every question has one example of answering from memory and one of searching, so that the question tells nothing
    about the action. They follow each other, so that a step learns both; otherwise the last one would win. After a
    search the answer is the gold one where the passage holds it, else "unknown"; from memory it is the gold one for
    questions marked ``group: known``, else "unknown".

    Args:
        queries: Training questions.
        retriever: Retriever of the search tool.
        tokenizer: Tokenizer with a chat template for tools (``with_tool_template``).
        seed: Seed of the questions' order.
        max_passage_words: Longest tool result, in words.

    Raises:
        ValueError: The chat template changes earlier messages when one is added.
    """
    rows = []
    queries = random.Random(seed).sample(queries, len(queries))
    for query, found in zip(queries, retriever.retrieve([q.question for q in queries], 1), strict=True):
        messages, call = messages_of(query.question), call_of(query.question)
        text = " ".join(found[0].text.split()[:max_passage_words]) if found else NOTHING_FOUND
        result = {"role": "tool", "name": "search", "content": text}
        gold = answer_text(query.answers)
        from_memory = gold if query.metadata.get("group") == "known" else UNKNOWN
        from_passage = gold if all(states(text, item) for item in answer_items(query.answers)) else UNKNOWN
        rows += [
            _row(tokenizer, messages, {"role": "assistant", "content": from_memory}, "memory"),
            _row(tokenizer, messages, call, "search"),
            _row(
                tokenizer, [*messages, call, result], {"role": "assistant", "content": from_passage}, "after a search"
            ),
        ]
    return rows


def _row(tokenizer: Any, messages: list[dict[str, Any]], reply: dict[str, Any], kind: str) -> dict[str, Any]:
    prompt = tokenizer.apply_chat_template(messages, tools=[SEARCH], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([*messages, reply], tools=[SEARCH], tokenize=False)
    if not whole.startswith(prompt):
        raise ValueError("the chat template is not prefix-preserving; use with_tool_template, or one of TRL's")
    completion = whole[len(prompt) :].rstrip().removesuffix(CALL_END)  # the trainer adds the same token
    return {"prompt": prompt, "completion": completion, "kind": kind}
