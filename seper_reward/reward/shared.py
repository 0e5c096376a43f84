"""What the ranks of a trainer measure together: a list of questions cut by cost, each part measured by one rank."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from seper_reward.batching import prompt_cost
from seper_reward.runtime.distributed import cut_by_cost, gathered, met
from seper_reward.types import Asked, Belief, Measure, Measured, Responses, UnscorableError

_UNEVEN = 1.2  # how much more than its share a rank may take before a question is divided

T = TypeVar("T")


def measure_together(asked: Sequence[Asked], measure: Measure) -> list[Measured | UnscorableError]:
    """Measure questions on all ranks, each context and text on one of them; every rank gets all results.

    All ranks call it together, with the same questions. As on one rank, a question of which anything cannot be
    measured cannot be measured at all. Of sampled responses only the texts travel.

    Args:
        asked: The questions.
        measure: Measures a rank's part of them; it is called on every rank, also with an empty part.

    Returns:
        Per question what was measured, or the reason why it cannot be.

    Raises:
        RuntimeError: Another rank failed; the message names it. A rank that fails itself raises its own error.
    """
    if not asked:
        return []
    rank, ranks = met()
    parts = cut(asked, ranks)
    mine = parts[rank]
    found = gathered(lambda: [_to_travel(each) for each in measure(list(mine.values()))])
    pieces = [dict(zip(part, results, strict=True)) for part, results in zip(parts, found, strict=True)]
    return [_joined([part[place] for part in pieces if place in part]) for place in range(len(asked))]


def agreed(act: Callable[[], T]) -> T:
    """Run ``act`` on every rank and return this one's result; if it fails on one, all raise, as ``gathered`` does."""
    results: list[T] = []
    gathered(lambda: results.append(act()))
    return results[0]


def cut(asked: Sequence[Asked], parts: int) -> list[dict[int, Asked]]:
    """Cut questions into parts of similar cost, each of neighbours.

    A question is divided only where that makes parts much more even: its contexts have responses in common, which are
    judged once for all of them, and a whole question is measured as one rank alone would: to the bit where questions
    are measured one by one (``SePerScorer.batch_size``), else but for low digits.

    Args:
        asked: The questions.
        parts: Number of parts, >= 1.

    Returns:
        Per part its share of each question that it has any of, by place in ``asked``.

    >>> from seper_reward.types import Passage
    >>> found = [(Passage("Ida Voss runs it."),), (Passage("Rain fell on it."),)]
    >>> mill, lake = Asked("Who runs it?", ("Ida Voss",), ((), *found)), Asked("How deep is it?", ("9 m",), ((),))
    >>> [{place: len(share.contexts) for place, share in part.items()} for part in cut([mill, lake], 2)]
    [{0: 2}, {0: 1, 1: 1}]
    """
    by_question = [sum(_costs(each)) for each in asked]
    whole = cut_by_cost(by_question, parts)
    if max(sum(by_question[place] for place in part) for part in whole) <= _UNEVEN * sum(by_question) / parts:
        return [{place: asked[place] for place in part} for part in whole]
    units = [
        (place, at)
        for place, each in enumerate(asked)
        for at in range(len(each.contexts) + len(each.texts))  # texts after contexts
    ]
    costs = [cost for each in asked for cost in _costs(each)]
    return [
        {
            place: _share(asked[place], [at for _, at in of_question])
            for place, of_question in itertools.groupby((units[at] for at in part), key=lambda unit: unit[0])
        }
        for part in cut_by_cost(costs, parts)
    ]


def _costs(asked: Asked) -> list[float]:
    contexts = [prompt_cost(asked.question, context) for context in asked.contexts]
    # a text is a few pairs for the entailment model, as long as the text itself
    return contexts + [(len(asked.question) + len(text)) / 4 for text in asked.texts]


def _share(asked: Asked, places: Sequence[int]) -> Asked:
    count = len(asked.contexts)
    return replace(
        asked,
        contexts=tuple(asked.contexts[at] for at in places if at < count),
        texts=tuple(asked.texts[at - count] for at in places if at >= count),
    )


def _joined(pieces: Sequence[Measured | UnscorableError]) -> Measured | UnscorableError:
    """Return what was measured about one question, whose pieces come in order."""
    whole: list[Measured] = []
    for piece in pieces:
        if isinstance(piece, UnscorableError):
            return piece
        whole.append(piece)
    return Measured(
        tuple(belief for piece in whole for belief in piece.beliefs),
        tuple(support for piece in whole for support in piece.supports),
    )


def _to_travel(measured: Measured | UnscorableError) -> Measured | UnscorableError:
    """Return what was measured without the tokens of the responses, which a reward has no use for."""
    if isinstance(measured, UnscorableError):
        return measured
    return replace(measured, beliefs=tuple(map(_without_tokens, measured.beliefs)))


def _without_tokens(belief: Belief) -> Belief:
    return replace(belief, sampled=Responses(belief.responses, ()))
