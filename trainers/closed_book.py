"""What a reader believes without a passage, of many questions, resumable by the cache."""

from collections.abc import Sequence

from seper_reward.batching import beliefs_of
from seper_reward.runtime.messages import say
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Query, UnscorableError


def closed_book_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[Belief | None]:
    """Return the reader's belief in each answer without a passage; all processes must call this together.

    Processes share the work. With a cache, what a killed run measured is not measured again.

    Args:
        scorer: Scorer of the reader.
        queries: The questions; their passages do not matter.

    Returns:
        One belief per question; ``None`` for a question that the reader cannot be asked, after a message.
    """
    asked = [Asked(query.question, query.answers, ((),)) for query in queries]
    found = beliefs_of(scorer, asked, "closed-book beliefs")
    return [_belief(query, beliefs) for query, beliefs in zip(queries, found, strict=True)]


def _belief(query: Query, beliefs: list[Belief] | UnscorableError) -> Belief | None:
    if isinstance(beliefs, UnscorableError):
        say(f"question id={query.id!r} left out: {beliefs}")
        return None
    return beliefs[0]
