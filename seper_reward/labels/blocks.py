"""Blocks: neighbouring questions that are measured side by side, and what a question costs."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tqdm.auto import tqdm

from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, LabeledQuery, Passage, Query, UnscorableError

if TYPE_CHECKING:
    from seper_reward.labels.labelers.base import PassageLabeler

T = TypeVar("T")

_PROMPT_COST = 50  # sampling the responses to one prompt takes about as long as reading so many tokens


def default_block(labeler: "PassageLabeler") -> int:
    """Return how many questions a labeler measures side by side where nobody says it: as its scorer does."""
    return 1 if labeler.scorer is None else labeler.scorer.block


def cut(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide rows into blocks of neighbours, all rows before any work: what is measured depends on the block."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def block_size(labeler: "PassageLabeler", wanted: int) -> int:
    """Return how many queries are measured side by side: as many as ``wanted``, or 1 where that saves nothing.

    A server that is told coming queries makes its own batches, and some labelers take one query after another anyway.

    Raises:
        ValueError: ``wanted`` is below 1, or above 1 with ``enough_std_error``, which decides query by query.
    """
    scorer = labeler.scorer
    if wanted < 1 or (wanted > 1 and scorer is not None and scorer.adaptive is not None):
        raise ValueError(f"block must be at least 1, and 1 with enough_std_error, got {wanted}")
    return wanted if labeler.side_by_side and not reads_ahead(labeler) else 1


def reads_ahead(labeler: "PassageLabeler") -> bool:
    """Tell whether the labeler announces coming queries to an engine, so that a process holds many at once."""
    return labeler.samples and labeler.scorer is not None and bool(labeler.scorer.sampler.prompts_ahead)


def label_blocks(
    labeler: "PassageLabeler", blocks: Iterable[Sequence[Query]]
) -> Iterator[tuple[Query, LabeledQuery | UnscorableError]]:
    """Label block after block and yield each query with its labels, or with the error in their place.

    Where that saves nothing, queries are labelled one by one, and coming ones are announced: an engine makes its
    batches itself.
    """
    if not labeler.side_by_side or reads_ahead(labeler):
        for query in labeler.ahead(itertools.chain.from_iterable(blocks)):
            yield query, labeler.attempt(query)
        return
    for block in blocks:
        yield from zip(block, labeler.label_block(block), strict=True)


def beliefs_of(scorer: SePerScorer, asked: Sequence[Asked], title: str) -> list[list[Belief] | UnscorableError]:
    """Measure the beliefs of many questions, ``scorer.block`` of them side by side, with a progress bar.

    All processes must call this together; they share the work.

    Args:
        scorer: Scorer that measures the beliefs.
        asked: Questions with their contexts.
        title: Title of the progress bar.

    Returns:
        Per question, the beliefs that ``SePerScorer.beliefs`` returns, or the error that it would raise.
    """
    mine = shard(cut(asked, scorer.block))
    bar = tqdm(
        _beliefs_by_block(scorer, mine),
        title,
        total=sum(map(len, mine)),
        unit="question",
        disable=not process_state().is_main_process,
    )
    found = iter(list(bar))
    shares = gather_in_order([list(itertools.islice(found, len(block))) for block in mine])
    return list(itertools.chain(*shares))


def _beliefs_by_block(
    scorer: SePerScorer, blocks: Sequence[Sequence[Asked]]
) -> Iterator[list[Belief] | UnscorableError]:
    if scorer.block == 1:
        for query in scorer.reader.ahead(itertools.chain(*blocks)):
            yield scorer.attempt(query)
        return
    for block in blocks:
        yield from scorer.block_beliefs(block)


def query_cost(query: Query) -> float:
    """Estimate the work of labelling a question, in tokens: a prompt per passage and one without a passage."""
    return sum(prompt_cost(query.question, context) for context in query.contexts)


def prompt_cost(question: str, passages: Sequence[Passage]) -> float:
    """Estimate the work of measuring one belief, in tokens that are read."""
    characters = len(question) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters / 4 + _PROMPT_COST
