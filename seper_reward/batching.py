"""Cost estimates of questions, and measurements of many questions shared by processes."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tqdm.auto import tqdm

from seper_reward.reader.prompted import ahead
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query

T = TypeVar("T")
R = TypeVar("R")

_PROMPT_COST = 50  # tokens whose prefill takes about as long as sampling the responses to one prompt


def query_cost(query: Query) -> float:
    """Estimate the work of labelling a question, in tokens: a prompt per passage and one without a passage."""
    return sum(prompt_cost(query.question, context) for context in query.contexts)


def prompt_cost(question: str, passages: Sequence[Passage]) -> float:
    """Estimate the work of measuring one belief, in prefill tokens."""
    characters = len(question) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters / 4 + _PROMPT_COST


def measure_shared(
    items: Sequence[T],
    measure: Callable[[Sequence[T]], Sequence[R]],
    title: str,
    *,
    size: int = 1,
    scorer: SePerScorer | None = None,
    unit: str = "question",
) -> list[R]:
    """Measure items batch by batch, with a progress bar; processes share the batches, and get all results in order.

    All processes must call this together. Batches do not depend on the number of processes, so neither do results.
    ``measure`` returns one picklable result per item of a batch. With a ``scorer`` the items are ``Query`` or
    ``Asked``, and an engine starts on the next items while a batch is measured.
    """
    mine: Any = shard(in_batches(items, size))
    bar = tqdm(total=sum(map(len, mine)), desc=title, unit=unit, disable=not process_state().is_main_process)
    shares: list[list[R]] = []
    with bar:
        for batch in mine if scorer is None else ahead(scorer.reader, mine, scorer.known_answers):
            shares.append(list(measure(batch)))
            bar.update(len(batch))
    return list(itertools.chain(*gather_in_order(shares)))
