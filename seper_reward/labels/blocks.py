"""Blocks: neighbouring questions that are measured side by side, and what a question costs."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tqdm.auto import tqdm

from seper_reward.estimators.judge import SampledQuestion
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, LabeledQuery, Passage, Query, UnscorableError

if TYPE_CHECKING:
    from seper_reward.labels.labelers.base import PassageLabeler

T = TypeVar("T")

_PROMPT_COST = 50  # sampling the responses to one prompt takes about as long as reading so many tokens


def default_block(scorer: SePerScorer | None) -> int:
    """Return how many questions are measured side by side where nobody says it.

    16 where a device or servers have room for them, 32 where waiting prompts take the room of finished ones, and 1 on
    a CPU, where it gains less and costs that labels depend on their neighbours in low digits; 1, too, with
    ``enough_std_error``, which decides question by question.
    """
    if scorer is None or scorer.adaptive is not None:
        return 1
    if scorer.sampler.refill:
        return 32
    on_cpu = scorer.sampler.device is not None and scorer.sampler.device.type == "cpu"
    return 1 if on_cpu else 16


def cut(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide rows into blocks of neighbours, all rows before any work: what is measured depends on the block."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def block_size(labeler: "PassageLabeler", wanted: int) -> int:
    """Return how many queries are measured side by side: as many as ``wanted``, or 1 where that saves nothing.

    An engine makes its own batches, and some labelers take one query after another anyway.

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


def block_beliefs(scorer: SePerScorer, queries: Sequence[Query | Asked]) -> list[list[Belief] | UnscorableError]:
    """Measure the beliefs of several queries in their ``contexts``, sampled and judged side by side.

    Returns:
        Per query, the beliefs that ``SePerScorer.beliefs`` returns, or the error that it would raise.

    Raises:
        ValueError: The scorer has ``enough_std_error``, which decides query by query.
    """
    if scorer.adaptive is not None:
        raise ValueError("enough_std_error does not go with blocks of queries, which sample all responses at once")
    reader = scorer.reader
    prompts: dict[int, list[str]] = {}
    beliefs: dict[int, list[Belief] | UnscorableError] = {}
    for place, query in enumerate(queries):
        try:
            prompts[place] = reader.build_prompts(query.question, query.contexts)
        except UnscorableError as error:
            beliefs[place] = error
    texts = {
        place: list(map(reader.prompts.response_text, scorer.known_answers(queries[place].answers)))
        for place in prompts
    }
    given: dict[str, list[str]] = {}
    own_leaves: dict[tuple[int, str], slice] = {}  # a prompt may be that of two queries with other answers
    for place, own in prompts.items():
        for prompt in dict.fromkeys(own):
            start = len(given.setdefault(prompt, []))
            given[prompt] += texts[place]
            own_leaves[place, prompt] = slice(start, len(given[prompt]))
    try:
        responses = reader.sample(sorted(given), given=given)
    except UnscorableError:  # one query's fault; by themselves the others can be measured
        return [_attempt(scorer, query) for query in queries]
    questions = []
    for place, own in prompts.items():
        rows = [
            replace(responses[prompt], known_leaves=responses[prompt].known_leaves[own_leaves[place, prompt]])
            for prompt in own
        ]
        questions.append(SampledQuestion(queries[place].question, queries[place].answers, rows))
    beliefs |= dict(zip(prompts, scorer.judge.beliefs(questions), strict=True))
    return [beliefs[place] for place in range(len(queries))]


def beliefs_of(scorer: SePerScorer, asked: Sequence[Asked], title: str) -> list[list[Belief] | UnscorableError]:
    """Measure the beliefs of many questions, ``default_block`` of them side by side, with a progress bar.

    All processes must call this together; they share the work.

    Args:
        scorer: Scorer that measures the beliefs.
        asked: Questions with their contexts.
        title: Title of the progress bar.

    Returns:
        Per question, the beliefs that ``SePerScorer.beliefs`` returns, or the error that it would raise.
    """
    size = default_block(scorer)
    if size > 1 and scorer.sampler.prompts_ahead:
        size = 1
    mine = shard(cut(asked, size))
    bar = tqdm(
        _beliefs_by_block(scorer, mine, size),
        title,
        total=sum(map(len, mine)),
        unit="question",
        disable=not process_state().is_main_process,
    )
    found = iter(list(bar))
    shares = gather_in_order([list(itertools.islice(found, len(block))) for block in mine])
    return list(itertools.chain(*shares))


def _beliefs_by_block(
    scorer: SePerScorer, blocks: Sequence[Sequence[Asked]], size: int
) -> Iterator[list[Belief] | UnscorableError]:
    if size == 1:
        for query in scorer.reader.ahead(itertools.chain(*blocks)):
            yield _attempt(scorer, query)
        return
    for block in blocks:
        yield from block_beliefs(scorer, block)


def query_cost(query: Query) -> float:
    """Estimate the work of labelling a question, in tokens: a prompt per passage and one without a passage."""
    return sum(prompt_cost(query.question, context) for context in query.contexts)


def prompt_cost(question: str, passages: Sequence[Passage]) -> float:
    """Estimate the work of measuring one belief, in tokens that are read."""
    characters = len(question) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters / 4 + _PROMPT_COST


def _attempt(scorer: SePerScorer, query: Query | Asked) -> list[Belief] | UnscorableError:
    try:
        return scorer.beliefs(query.question, query.answers, query.contexts)
    except UnscorableError as error:
        return error
