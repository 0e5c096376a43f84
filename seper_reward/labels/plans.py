"""Which sets of a question's passages are measured, and what follows from them. Pure.

A plan is a generator. It yields groups of contexts to measure next, reads what was measured from a mapping that its
caller fills before it resumes the plan, and returns which passage is labelled beside which given ones. A context is
the places of passages in the order in which the reader sees them; those of a group that begin with the same passages
are read faster together.
"""

import itertools
import math
import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seper_reward.estimators.draws import CONFIDENCE
from seper_reward.types import Estimate

Context = tuple[int, ...]
Labelled = list[tuple[Context, int]]  # the given passages, and the one that is labelled beside them
Plan = Generator[list[list[Context]], None, Labelled]
SetPlan = Literal["conditional", "pairs", "leave_one_out", "shapley"]


@dataclass(frozen=True)
class SetOptions:
    """Which sets of passages are measured.

    Attributes:
        plan: ``"conditional"``: what each passage adds to the best ones; ``"pairs"``: what it adds to each other one;
            ``"leave_one_out"``: what it adds to all others; ``"shapley"``: what it adds on average, where passages
            come one after the other in random order.
        given_top: ``conditional``: how many sets of each size are given, >= 1: those with the highest labels.
        depth: ``conditional``: size of the largest sets, 2 or 3.
        permutations: ``shapley``: how many random orders, >= 2; all are taken where there are no more.
        both_orders: Share of questions, by hash of their ids, whose pairs are measured in both orders, in [0, 1].

    Raises:
        ValueError: One of them is out of range.
    """

    plan: SetPlan = "conditional"
    given_top: int = 3
    depth: int = 2
    permutations: int = 8
    both_orders: float = 0.1

    def __post_init__(self) -> None:
        if self.plan not in get_args(SetPlan):
            raise ValueError(f"sets must be one of {', '.join(get_args(SetPlan))}, got {self.plan!r}")
        if self.given_top < 1 or self.depth not in (2, 3) or self.permutations < 2:
            raise ValueError(
                "expected given_top >= 1, depth 2 or 3 and permutations >= 2, got "
                f"{self.given_top}, {self.depth} and {self.permutations}"
            )
        if not 0 <= self.both_orders <= 1:
            raise ValueError(f"both_orders must be a share, in [0, 1], got {self.both_orders}")


def make_plan(options: SetOptions, passages: int, measured: Mapping[Context, Estimate], seed: str) -> Plan:
    """Return the plan for a question.

    Args:
        options: Which sets of passages are measured.
        passages: Number P of candidate passages.
        measured: What each context is worth, filled by the caller: no passage and single ones before the plan begins,
            the contexts of each group before it is resumed.
        seed: Text that decides the random orders of ``shapley``, such as the question's id.
    """
    if options.plan == "conditional":
        return _conditional(passages, measured, options)
    if options.plan == "pairs":
        return _pairs(passages)
    if options.plan == "leave_one_out":
        return _leave_one_out(passages)
    return _shapley(permutations(passages, options.permutations, seed))


def permutations(passages: int, most: int, seed: str) -> list[Context]:
    """Return at most so many distinct orders of P passages, random ones where there are more, always the same."""
    if math.factorial(passages) <= most:
        return list(itertools.permutations(range(passages)))
    draw = random.Random(seed)
    orders: dict[Context, None] = {}
    while len(orders) < most:
        orders[tuple(draw.sample(range(passages), passages))] = None
    return list(orders)


def prefixes(order: Context) -> list[tuple[Context, int]]:
    """Return what each passage of an order comes to: those before it, in the question's own order.

    >>> prefixes((2, 0, 1))
    [((), 2), ((2,), 0), ((0, 2), 1)]
    """
    return [(tuple(sorted(order[:at])), passage) for at, passage in enumerate(order)]


def smallest_sufficient(
    measured: Mapping[Context, Estimate], error: Callable[[Context], float], tolerance: float = 0.05
) -> Context:
    """Return the smallest measured context that is not seen to be worth less than the best one.

    One that is worth less is so by more than the tolerance, and by more than the error of the difference allows for
    (95 %): the larger the errors, the smaller is what suffices. Of several such contexts the best is taken. It was
    chosen among many noisy numbers: what it is worth is a little too high.

    Args:
        measured: What each context is worth.
        error: Standard error of what was measured in a context, without that of no passage, which all have in common.
        tolerance: Difference that does not matter, >= 0, in the unit of what contexts are worth.
    """
    from scipy.stats import norm

    quantile = float(norm.ppf((1 + CONFIDENCE) / 2))
    best = max(measured, key=lambda context: measured[context].value)

    def suffices(context: Context) -> bool:
        missing = measured[best].value - measured[context].value
        return missing <= max(tolerance, quantile * math.hypot(error(best), error(context)))

    return min(filter(suffices, measured), key=lambda context: (len(context), -measured[context].value))


def shapley_values(
    orders: Sequence[Context], gain: Callable[[Context, int], float], error: Callable[[Context], float]
) -> list[Estimate]:
    """Return the Shapley value of each passage: what it adds to those before it, mean over orders (Shapley, 1953).

    Args:
        orders: Orders of all P passages: all there are, or a random sample (Castro, Gómez and Tejada, 2009).
        gain: What a passage adds to a context, which has the question's own order.
        error: Standard error of what is measured in a context.

    Returns:
        P estimates. Their variance is that of the measurements, which orders share, and, of a sample of orders, that
        of the mean over these, which holds some of the former again: intervals are rather too wide than too narrow.
    """
    from scipy.stats import t

    passages, count = len(orders[0]), len(orders)
    exact = count == math.factorial(passages)
    gains: list[list[float]] = [[] for _ in range(passages)]
    weights: list[dict[Context, float]] = [{} for _ in range(passages)]  # of each context in a passage's value
    for before, passage in itertools.chain.from_iterable(map(prefixes, orders)):
        gains[passage].append(gain(before, passage))
        after = tuple(sorted((*before, passage)))
        for context, sign in ((before, -1), (after, 1)):
            weights[passage][context] = weights[passage].get(context, 0.0) + sign / count
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, math.inf if exact else count - 1))
    found = []
    for row, of_contexts in zip(gains, weights, strict=True):
        mean = math.fsum(row) / count
        variance = math.fsum((weight * error(context)) ** 2 for context, weight in of_contexts.items())
        if not exact:
            variance += math.fsum((each - mean) ** 2 for each in row) / (count - 1) / count
        half = quantile * math.sqrt(variance)
        found.append(Estimate(mean, math.sqrt(variance), mean - half, mean + half))
    return found


def _conditional(passages: int, measured: Mapping[Context, Estimate], options: SetOptions) -> Plan:
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


def _pairs(passages: int) -> Plan:
    yield [[(one, other) for other in range(one + 1, passages)] for one in range(passages - 1)]
    return [((one,), other) for one in range(passages) for other in range(passages) if one != other]


def _leave_one_out(passages: int) -> Plan:
    everything = tuple(range(passages))
    without = [tuple(place for place in everything if place != passage) for passage in everything]
    yield [[each for each in (everything, *without) if len(each) > 1]]
    return [(given, passage) for given, passage in zip(without, everything, strict=True) if given]


def _shapley(orders: Sequence[Context]) -> Plan:
    labelled = dict.fromkeys(itertools.chain.from_iterable(map(prefixes, orders)))
    contexts = dict.fromkeys(tuple(sorted((*before, passage))) for before, passage in labelled)
    yield [sorted(context for context in contexts if len(context) > 1)]
    return [(before, passage) for before, passage in labelled if before]


def _new(contexts: Iterable[Context], known: set[frozenset[int]]) -> list[Context]:
    """Return the contexts whose passages are not yet known together, and add them."""
    new = [context for context in contexts if frozenset(context) not in known]
    known.update(map(frozenset, new))
    return new
