"""Plans of measurements, which run side by side in batches, and the sets of passages to measure. Pure.

A plan is a generator that yields the next requests, receives their answers, and returns a result.
"""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from seper_reward.estimators.draws import CONFIDENCE
from seper_reward.types import Estimate, UnscorableError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Context = tuple[int, ...]  # positions of passages, in the order in which the reader sees them
_TOLERANCE = 0.05  # difference of utilities that does not matter


def run_plans(
    plans: Iterable[Generator[list[A], Any, C]], answer: Callable[[list[A]], Sequence[B | UnscorableError]]
) -> list[C | UnscorableError]:
    """Run plans in rounds, and return their results or errors; the requests of all plans in a round are one batch."""
    running = dict(enumerate(plans))
    results: dict[int, C | UnscorableError] = {}
    answers: dict[int, Any] = dict.fromkeys(running)
    while answers:
        wanted: dict[int, list[A]] = {}
        for number, batch in answers.items():
            error = next((reply for reply in batch or () if isinstance(reply, UnscorableError)), None)
            try:
                wanted[number] = running[number].send(batch) if error is None else running[number].throw(error)
            except StopIteration as end:
                results[number] = end.value
            except UnscorableError as failure:
                results[number] = failure.with_traceback(None)
        requests = [request for batch in wanted.values() for request in batch]
        replies = iter(answer(requests) if requests else ())
        answers = {number: [next(replies) for _ in batch] for number, batch in wanted.items()}
    return [results[number] for number in running]


def sets_to_label(measured: Mapping[Context, Estimate], size: int, given_top: int) -> list[tuple[Context, int]]:
    """Return each passage to label next to one of the ``given_top`` best sets of a size, as (given set, passage)."""
    best = sorted((context for context in measured if len(context) == size), key=lambda at: -measured[at].value)
    singles = [context[0] for context in measured if len(context) == 1]
    return [(context, passage) for context in best[:given_top] for passage in singles if passage not in context]


def smallest_sufficient(measured: Mapping[Context, Estimate], error: Callable[[Context], float]) -> Context:
    """Return the smallest measured context that is not worth significantly less than the best one.

    A context is worth less if it lacks more than 0.05 and the 95 % error of the difference; ``error`` is that of a
    context's measure, without the shared baseline. Its utility is biased upwards, as it was chosen among noisy
    numbers.
    """
    from scipy.stats import norm

    quantile = float(norm.ppf((1 + CONFIDENCE) / 2))
    best = max(measured, key=lambda context: measured[context].value)

    def suffices(context: Context) -> bool:
        missing = measured[best].value - measured[context].value
        return missing <= max(_TOLERANCE, quantile * math.hypot(error(best), error(context)))

    return min(filter(suffices, measured), key=lambda context: (len(context), -measured[context].value))
