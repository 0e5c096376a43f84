"""Contexts of marked questions: each passage alone, and all relevant passages together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from seper_reward.data.marks import relevance_of
from seper_reward.runtime.messages import plural
from seper_reward.types import Asked, Passage, Query


@dataclass(frozen=True)
class Context:
    """Passages that a reader sees together, and their relevance by people's marks in [0, 1]; 1 is enough to answer."""

    passages: tuple[Passage, ...]
    relevance: float


def contexts_of(query: Query) -> list[Context]:
    """Return a question's contexts: each passage alone and, if several are relevant, all of these together."""
    marks = relevance_of(query)
    together = tuple(passage for passage, mark in zip(query.passages, marks, strict=True) if mark)
    alone = [
        Context((passage,), 1 / len(together) if mark else 0.0)
        for passage, mark in zip(query.passages, marks, strict=True)
    ]
    return [*alone, Context(together, 1.0)] if len(together) > 1 else alone


def baseline_and_contexts(query: Query) -> Asked:
    """Return the request to measure a question without passages, and then in each of ``contexts_of``."""
    return Asked(query.question, query.answers, ((), *(context.passages for context in contexts_of(query))))


def choose_passages(query: Query, count: int) -> Query:
    """Keep ``count`` passages in their order, all relevant ones first; ``ValueError`` if more are relevant."""
    marks = relevance_of(query)
    relevant = sum(marks)
    if count < max(relevant, 1):
        raise ValueError(f"question id={query.id!r} has {relevant} relevant passages, more than {count}; keep more")
    ranked = sorted(range(len(query.passages)), key=lambda position: not marks[position])
    kept = sorted(ranked[:count])
    return replace(query, passages=tuple(query.passages[position] for position in kept))


def with_passages(queries: Sequence[Query], count: int | None) -> list[Query]:
    """Return the questions with ``count`` passages each, the relevant ones first; ``None`` keeps all passages."""
    return list(queries) if count is None else [choose_passages(query, count) for query in queries]


def marked_contexts(queries: Sequence[Query]) -> list[list[Context]]:
    """Return the contexts of each question; ``ValueError`` if all are equally relevant, so that nothing correlates."""
    contexts = [contexts_of(query) for query in queries]
    levels = {context.relevance for row in contexts for context in row}
    if len(levels) < 2:
        raise ValueError(f"passages must be marked relevant and not relevant, got only {levels or 'none'}")
    return contexts


def none_asked(queries: Sequence[Query]) -> ValueError:
    """Return the error if all questions are too long for the reader; the reasons were logged for each question."""
    return ValueError(
        f"the reader can be asked none of {plural(len(queries), 'question')}; shorten them, or use a reader with a "
        "longer window"
    )
