"""Batches of questions: how work is cut, weighed, shared among processes and announced to an engine."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tqdm.auto import tqdm

from seper_reward.reader.prompted import PromptedReader
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError

T = TypeVar("T")
Q = TypeVar("Q", Query, Asked)

_PROMPT_COST = 50  # sampling the responses to one prompt takes about as long as reading so many tokens


def in_batches(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide rows into batches of neighbours, before any work: in low digits, results depend on the batch."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def query_cost(query: Query) -> float:
    """Estimate the work of labelling a question, in tokens: a prompt per passage and one without a passage."""
    return sum(prompt_cost(query.question, context) for context in query.contexts)


def prompt_cost(question: str, passages: Sequence[Passage]) -> float:
    """Estimate the work of measuring one belief, in tokens that are read."""
    characters = len(question) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters / 4 + _PROMPT_COST


def ahead(
    reader: PromptedReader, batches: Iterable[Sequence[Q]], *, closed_book: bool = True
) -> Iterator[Sequence[Q]]:
    """Yield batches of questions, and have an engine begin with the next ones while the caller measures one.

    Servers answer many prompts at once; only the time depends on it.

    Args:
        reader: The reader that will be asked.
        batches: The batches.
        closed_book: Whether the caller also asks without a passage.
    """
    bare = int(not closed_book)
    waiting: deque[tuple[Sequence[Q], int]] = deque()
    prompts = 0
    for batch in batches:
        reader.expect(Asked(each.question, each.answers, tuple(each.contexts[bare:])) for each in batch)
        size = sum(len(each.contexts) - bare for each in batch)
        waiting.append((batch, size))
        prompts += size
        while prompts > reader.sampler.prompts_ahead:
            done, size = waiting.popleft()
            prompts -= size
            yield done
    yield from (batch for batch, _ in waiting)


def beliefs_of(scorer: SePerScorer, asked: Sequence[Asked], title: str) -> list[list[Belief] | UnscorableError]:
    """Measure the beliefs of many questions, ``scorer.batch_size`` of them side by side, with a progress bar.

    All processes must call this together; they share the work.

    Args:
        scorer: Scorer that measures the beliefs.
        asked: Questions with their contexts.
        title: Title of the progress bar.

    Returns:
        Per question its beliefs, or its error.
    """
    mine = shard(in_batches(asked, scorer.batch_size))
    bar = tqdm(total=sum(map(len, mine)), desc=title, unit="question", disable=not process_state().is_main_process)
    shares: list[list[list[Belief] | UnscorableError]] = []
    with bar:
        for batch in ahead(scorer.reader, mine):
            found = scorer.measure(batch, len(batch))
            shares.append([each if isinstance(each, UnscorableError) else list(each.beliefs) for each in found])
            bar.update(len(batch))
    return list(itertools.chain(*gather_in_order(shares)))
