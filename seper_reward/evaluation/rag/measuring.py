"""Beliefs of many questions, each in contexts of its own, with a progress bar; a question that fails is left out."""

from collections.abc import Iterator, Sequence

from tqdm.auto import tqdm

from seper_reward.runtime.messages import say
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError

_SIDE_BY_SIDE = 64  # questions that a server is asked at once

Context = tuple[Passage, ...]


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
    found: list[dict[Context, Belief] | None] = []
    with tqdm(total=len(queries), desc=title, unit="question") as bar:
        for query, own, beliefs in _beliefs(scorer, queries, distinct):
            if isinstance(beliefs, UnscorableError):
                say(f"question id={query.id!r} is left out: {beliefs}")
                found.append(None)
            else:
                found.append(dict(zip(own, beliefs, strict=True)))
            bar.update()
    return found


def _beliefs(
    scorer: SePerScorer, queries: Sequence[Query], contexts: Sequence[Sequence[Context]]
) -> Iterator[tuple[Query, Sequence[Context], Sequence[Belief] | UnscorableError]]:
    size = _SIDE_BY_SIDE if scorer.sampler.prompts_ahead else 1
    for start in range(0, len(queries), size):
        block = list(zip(queries, contexts, strict=True))[start : start + size]
        asked = [Asked(query.question, query.answers, tuple(own)) for query, own in block]
        for (query, own), result in zip(block, scorer.measure(asked), strict=True):
            yield query, own, result if isinstance(result, UnscorableError) else result.beliefs
