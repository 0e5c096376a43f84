"""Which sets of a question's passages are measured, and the labels that follow from them. Pure.

A plan is a generator. It yields groups of contexts to measure next, reads the results from a mapping that its caller
fills before resuming the plan, and returns which passages are labelled next to which given passages. A context is a
tuple of passage positions in the order in which the reader sees them; contexts of a group that begin with the same
passages are read faster together.
"""

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass

from seper_reward.estimators.draws import CONFIDENCE
from seper_reward.types import Estimate

Context = tuple[int, ...]
Labelled = list[tuple[Context, int]]  # given passages, and the passage that is labelled next to them
_TOLERANCE = 0.05  # difference of utilities that does not matter
Plan = Generator[list[list[Context]], None, Labelled]


@dataclass(frozen=True)
class SetOptions:
    """Which sets of passages are measured: each passage next to the best passages (``conditional``).

    Raises:
        ValueError: An option is out of range.
    """

    given_top: int = 3  # number of sets of each size that are given, >= 1: the sets with the highest labels
    depth: int = 2  # size of the largest sets, 2 or 3

    def __post_init__(self) -> None:
        if self.given_top < 1 or self.depth not in (2, 3):
            raise ValueError(f"expected given_top >= 1 and depth 2 or 3, got {self.given_top} and {self.depth}")


def plan_sets(options: SetOptions, passages: int, measured: Mapping[Context, Estimate]) -> Plan:
    """Return the plan for a question with P candidate passages.

    ``measured`` is the utility of each context, filled by the caller: no passage and single passages before the plan
    begins, the contexts of each group before it is resumed.
    """
    labelled: Labelled = []
    for size in range(1, options.depth):
        order = sorted((context for context in measured if len(context) == size), key=lambda at: -measured[at].value)
        fronts = order[: options.given_top]
        known = set(map(frozenset, measured))
        groups = []
        for front in fronts:
            others = [passage for passage in range(passages) if passage not in front]
            labelled += [(front, passage) for passage in others]
            groups.append(_new([(*front, passage) for passage in others], known))
        yield groups
    return labelled


def smallest_sufficient(measured: Mapping[Context, Estimate], error: Callable[[Context], float]) -> Context:
    """Return the smallest measured context that is not worth significantly less than the best context.

    A context is worth less if the difference of utilities exceeds 0.05 and the 95 % error of the difference.
    Larger errors therefore give smaller contexts. Among several contexts of that size the best is returned. Its
    utility is biased upwards, as it was chosen among many noisy numbers.

    Args:
        measured: Utility of each context.
        error: Standard error of a context's measure, without the error of the shared baseline.
    """
    from scipy.stats import norm

    quantile = float(norm.ppf((1 + CONFIDENCE) / 2))
    best = max(measured, key=lambda context: measured[context].value)

    def suffices(context: Context) -> bool:
        missing = measured[best].value - measured[context].value
        return missing <= max(_TOLERANCE, quantile * math.hypot(error(best), error(context)))

    return min(filter(suffices, measured), key=lambda context: (len(context), -measured[context].value))


def _new(contexts: Iterable[Context], known: set[frozenset[int]]) -> list[Context]:
    """Return the contexts whose set of passages is not in ``known``, and add these sets."""
    new = [context for context in contexts if frozenset(context) not in known]
    known.update(map(frozenset, new))
    return new
