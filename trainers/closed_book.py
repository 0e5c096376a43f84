"""What a reader believes without a passage, of many questions, resumable by the cache."""

from collections.abc import Sequence
from dataclasses import replace

from tqdm.auto import tqdm

from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.messages import say
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Query, UnscorableError


def closed_book_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[Belief | None]:
    """Return the reader's belief in each answer without a passage; all processes must call this together.

    Processes share the work. With a cache, what a killed run measured is not measured again.

    Args:
        scorer: Scorer of the reader.
        queries: The questions; their passages do not matter.

    Returns:
        One belief per question; ``None`` for a question that the reader cannot be asked, after a message.
    """
    mine = [replace(query, passages=()) for query in shard(queries)]
    silent = not process_state().is_main_process
    bar = tqdm(scorer.reader.ahead(mine), "closed-book beliefs", len(mine), unit="question", disable=silent)
    return gather_in_order([_belief(scorer, query) for query in bar])


def _belief(scorer: SePerScorer, query: Query) -> Belief | None:
    try:
        return scorer.beliefs(query.question, query.answers, [()])[0]
    except UnscorableError as error:
        say(f"question id={query.id!r} left out: {error}")
        return None
