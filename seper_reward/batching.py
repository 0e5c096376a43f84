"""The cost of questions, and their beliefs measured batch by batch, shared among processes."""

import itertools
from collections.abc import Sequence

from tqdm.auto import tqdm

from seper_reward.reader.prompted import ahead
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError

_PROMPT_COST = 50  # sampling the responses to one prompt takes about as long as reading so many tokens


def query_cost(query: Query) -> float:
    """Estimate the work of labelling a question, in tokens: a prompt per passage and one without a passage."""
    return sum(prompt_cost(query.question, context) for context in query.contexts)


def prompt_cost(question: str, passages: Sequence[Passage]) -> float:
    """Estimate the work of measuring one belief, in tokens that are read."""
    characters = len(question) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters / 4 + _PROMPT_COST


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
