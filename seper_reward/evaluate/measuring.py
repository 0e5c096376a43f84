"""Beliefs of many questions in many contexts."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tqdm.auto import tqdm

from seper_reward.batching import beliefs_of
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError

Context = tuple[Passage, ...]
T = TypeVar("T")


def measured(
    scorer: SePerScorer, queries: Sequence[Query], contexts: Sequence[Sequence[Context]], *, title: str = "measuring"
) -> list[dict[Context, Belief] | None]:
    """Measure the beliefs of questions in contexts of their own; equal contexts of a question are measured once.

    Args:
        scorer: Scorer that measures the beliefs.
        queries: Questions with gold answers.
        contexts: For each question what the reader sees each time; ``()`` is no passage.
        title: Title of the progress bar.

    Returns:
        Per question its beliefs by context; ``None`` where it cannot be measured, which a line on the terminal says.
    """
    distinct = [list(dict.fromkeys(each)) for each in contexts]
    asked = [Asked(query.question, query.answers, tuple(own)) for query, own in zip(queries, distinct, strict=True)]
    found: list[dict[Context, Belief] | None] = []
    for query, own, beliefs in zip(queries, distinct, beliefs_of(scorer, asked, title), strict=True):
        if isinstance(beliefs, UnscorableError):
            tell_left_out(query.id, beliefs)
            found.append(None)
        else:
            found.append(dict(zip(own, beliefs, strict=True)))
    return found


def each_scorable(queries: Sequence[Query], function: Callable[[Query], T], *, title: str) -> list[tuple[Query, T]]:
    """Return the questions with what a function returns for each, with a progress bar.

    Args:
        queries: Questions.
        function: Function of a question; one for which it raises ``UnscorableError`` is left out, and a line on the
            terminal says so.
        title: Title of the progress bar.
    """
    found = []
    for query in tqdm(queries, desc=title, unit="question"):
        try:
            found.append((query, function(query)))
        except UnscorableError as error:
            tell_left_out(query.id, error)
    return found
