"""Questions of all ranks of a trainer: questions are cut into parts of similar cost, one part per rank."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from seper_reward.batching import prompt_cost
from seper_reward.reward.beliefs import merged
from seper_reward.runtime.distributed import cut_by_cost, gathered, met
from seper_reward.types import Asked, Measured, Responses, UnscorableError, all_or_error

_UNEVEN = 1.2  # largest part, relative to the mean, without dividing a question


def union(requests: Sequence[Asked]) -> list[Asked]:
    """Return the questions of all ranks, each once; all ranks call it together."""
    return merged(itertools.chain.from_iterable(gathered(list(requests))))


def scatter(requests: Sequence[Asked]) -> list[Asked]:
    """Return this rank's part of questions that are the same on all ranks; it may be empty."""
    rank, ranks = met()
    return list(cut(requests, ranks)[rank].values())


def gather(requests: Sequence[Asked], share: Sequence[Measured | UnscorableError]) -> list[Measured | UnscorableError]:
    """Return the results of questions on every rank, from the results of each rank's part (``scatter``).

    A question fails as a whole if one of its contexts or texts does. Only texts of responses are sent to other ranks.
    """
    parts = cut(requests, met()[1])
    by_rank = gathered([_drop_tokens(result) for result in share])
    pieces = [dict(zip(part, results, strict=True)) for part, results in zip(parts, by_rank, strict=True)]
    return [_join([part[place] for part in pieces if place in part]) for place in range(len(requests))]


def cut(requests: Sequence[Asked], parts: int) -> list[dict[int, Asked]]:
    """Cut questions into parts of similar cost, each a contiguous range, by their index in ``requests``.

    Questions are divided only if whole questions make very uneven parts: the contexts of a question share responses,
    which are judged once.

    >>> from seper_reward.types import Passage
    >>> contexts = [(Passage("Ida Voss runs it."),), (Passage("Rain fell on it."),)]
    >>> mill, lake = Asked("Who runs it?", ("Ida Voss",), ((), *contexts)), Asked("How deep is it?", ("9 m",), ((),))
    >>> [{place: len(share.contexts) for place, share in part.items()} for part in cut([mill, lake], 2)]
    [{0: 2}, {0: 1, 1: 1}]
    """
    by_question = [sum(_costs(request)) for request in requests]
    whole = cut_by_cost(by_question, parts)
    if max(sum(by_question[place] for place in part) for part in whole) <= _UNEVEN * sum(by_question) / parts:
        return [{place: requests[place] for place in part} for part in whole]
    units = [
        (place, at)
        for place, request in enumerate(requests)
        for at in range(len(request.contexts) + len(request.texts))  # texts after contexts
    ]
    costs = [cost for request in requests for cost in _costs(request)]
    return [
        {
            place: _share(requests[place], [at for _, at in of_question])
            for place, of_question in itertools.groupby((units[at] for at in part), key=lambda unit: unit[0])
        }
        for part in cut_by_cost(costs, parts)
    ]


def _costs(request: Asked) -> list[float]:
    contexts = [prompt_cost(request.question, context) for context in request.contexts]
    # a text costs a few pairs of the entailment model, each about as long as the text
    return contexts + [(len(request.question) + len(text)) / 4 for text in request.texts]


def _share(request: Asked, places: Sequence[int]) -> Asked:
    count = len(request.contexts)
    return replace(
        request,
        contexts=tuple(request.contexts[at] for at in places if at < count),
        texts=tuple(request.texts[at - count] for at in places if at >= count),
    )


def _join(pieces: Sequence[Measured | UnscorableError]) -> Measured | UnscorableError:
    """Return the measurements of one question from its pieces, in order."""
    whole = all_or_error(pieces)
    if isinstance(whole, UnscorableError):
        return whole
    return Measured(
        tuple(belief for piece in whole for belief in piece.beliefs),
        tuple(support for piece in whole for support in piece.supports),
    )


def _drop_tokens(measured: Measured | UnscorableError) -> Measured | UnscorableError:
    """Return measurements without the tokens of the responses, which a reward does not need."""
    if isinstance(measured, UnscorableError):
        return measured
    beliefs = (replace(belief, sampled=Responses(belief.responses, ())) for belief in measured.beliefs)
    return replace(measured, beliefs=tuple(beliefs))
