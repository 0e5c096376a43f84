"""Blocks: neighbouring questions measured side by side, and the order in which a run measures them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from seper_reward.estimators.judge import SampledQuestion
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, LabeledQuery, Query, UnscorableError

if TYPE_CHECKING:
    from seper_reward.labels.labelers.base import PassageLabeler

_PROMPT_COST = 50  # tokens to read that cost as much as the responses to one prompt, about


def block_size(labeler: "PassageLabeler", wanted: int) -> int:
    """Return how many queries are measured side by side: as many as wanted; with an engine one after another.

    Raises:
        ValueError: ``wanted`` is below 1, or above 1 with ``enough_std_error``, which decides query by query.
    """
    scorer = labeler.scorer
    if wanted < 1 or (wanted > 1 and scorer is not None and scorer.adaptive is not None):
        raise ValueError(f"block must be at least 1, and 1 with enough_std_error, got {wanted}")
    return 1 if reads_ahead(labeler) else wanted


def reads_ahead(labeler: "PassageLabeler") -> bool:
    """Tell whether an engine is told of the next queries, so that a process holds many at once."""
    return labeler.scorer is not None and bool(labeler.scorer.sampler.prompts_ahead)


def label_blocks(
    labeler: "PassageLabeler", blocks: Iterable[Sequence[Query]]
) -> Iterator[tuple[Query, LabeledQuery | UnscorableError]]:
    """Label block after block and yield each query with its labels, or with the error in their place.

    An engine is told of the next queries instead: it makes its batches itself.
    """
    if reads_ahead(labeler):
        for query in labeler.ahead(itertools.chain.from_iterable(blocks)):
            yield query, labeler.attempt(query)
        return
    for block in blocks:
        yield from zip(block, labeler.label_block(block), strict=True)


def block_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[list[Belief] | UnscorableError]:
    """Measure several queries together in their ``contexts``: sampled side by side, and judged.

    Returns:
        Per query, what ``SePerScorer.beliefs`` returns, or the error that it would raise.

    Raises:
        ValueError: With ``enough_std_error``, which decides query by query.
    """
    if scorer.adaptive is not None:
        raise ValueError("enough_std_error does not go with blocks of queries, which draw all samples at once")
    reader = scorer.reader
    prompts: dict[int, list[str]] = {}
    found: dict[int, list[Belief] | UnscorableError] = {}
    for place, query in enumerate(queries):
        try:
            prompts[place] = reader.build_prompts(query.question, query.contexts)
        except UnscorableError as error:
            found[place] = error
    try:
        sampled = reader.sample(sorted({prompt for some in prompts.values() for prompt in some}))
    except UnscorableError:  # of one query: the others are measured by themselves
        return [_attempt(scorer, query) for query in queries]
    questions = [
        SampledQuestion(queries[place].question, queries[place].answers, [sampled[prompt] for prompt in some])
        for place, some in prompts.items()
    ]
    found |= dict(zip(prompts, scorer.judge.beliefs(questions), strict=True))
    return [found[place] for place in range(len(queries))]


def query_cost(query: Query) -> float:
    """Estimate the work that labelling a question is, in tokens: a prompt per passage and one without."""
    characters = sum(len(passage.title) + len(passage.text) for passage in query.passages)
    return characters / 4 + len(query.contexts) * (len(query.question) / 4 + _PROMPT_COST)


def _attempt(scorer: SePerScorer, query: Query) -> list[Belief] | UnscorableError:
    try:
        return scorer.beliefs(query.question, query.answers, query.contexts)
    except UnscorableError as error:
        return error
