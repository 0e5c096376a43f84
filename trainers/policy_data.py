"""What a policy is asked, and examples of both of its actions to warm it up: answer, or search first."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers.utils import get_json_schema

from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import split_of
from seper_reward.retrieval import Retriever
from seper_reward.reward.environment import RetrievalEnvironment
from seper_reward.types import Passage, Query
from trainers.adapters.reader_data import UNKNOWN, states

SEARCH = get_json_schema(RetrievalEnvironment.search)
CALL_END = "<|im_end|>"


class PolicyQuestions(NamedTuple):
    """Questions to train on, questions held out, and what a search can find."""

    train: list[Query]
    held_out: list[Query]
    corpus: dict[str, Passage]


def read_policy_questions(limit: int | None = None, eval_limit: int | None = None) -> PolicyQuestions:
    """Return the demo's known facts and fiction; 6 of 16 parts, by sha1 of the id, are held out.

    Args:
        limit: of the training questions.
        eval_limit: of those held out.
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
    """Return the assistant's message that searches."""
    call = {"type": "function", "function": {"name": "search", "arguments": {"query": query}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def warm_up_rows(
    queries: Sequence[Query], retriever: Retriever, tokenizer: Any, seed: int, max_passage_words: int = 48
) -> list[dict[str, Any]]:
    """Make ``{prompt, completion, kind}`` rows that teach the format of both actions and prefer neither.

    Every question has one example of answering from memory and one of searching, so that the question tells nothing
    about the action. They follow each other, to be learned in one step: else the last one seen would win. After a
    search the answer is the gold one where the passage holds it, else "unknown"; from memory it is the gold one for
    questions marked ``group: known``, else "unknown".

    Args:
        queries: training questions.
        retriever: what the search finds.
        tokenizer: with a tool template (see ``with_tool_template``).
        seed: of the questions' order.
        max_passage_words: longest tool result.
    """
    rows = []
    queries = random.Random(seed).sample(queries, len(queries))
    for query, (passage, *_) in zip(queries, retriever.retrieve([q.question for q in queries], 1), strict=True):
        asked, call = messages_of(query.question), call_of(query.question)
        found = " ".join(passage.text.split()[:max_passage_words])
        result = {"role": "tool", "name": "search", "content": found}
        gold = query.answers[0]
        memory = gold if query.metadata.get("group") == "known" else UNKNOWN
        read = gold if states(found, query.answers) else UNKNOWN
        rows += [
            _row(tokenizer, asked, {"role": "assistant", "content": memory}, "memory"),
            _row(tokenizer, asked, call, "search"),
            _row(tokenizer, [*asked, call, result], {"role": "assistant", "content": read}, "after a search"),
        ]
    return rows


def _row(tokenizer: Any, before: list[dict[str, Any]], said: dict[str, Any], kind: str) -> dict[str, Any]:
    prompt = tokenizer.apply_chat_template(before, tools=[SEARCH], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([*before, said], tools=[SEARCH], tokenize=False)
    if not whole.startswith(prompt):
        raise ValueError("the chat template is not prefix-preserving; use with_tool_template, or one of TRL's")
    completion = whole[len(prompt) :].rstrip().removesuffix(CALL_END)  # the trainer ends it with the same token
    return {"prompt": prompt, "completion": completion, "kind": kind}
