"""What draws tell of all responses that the reader could give: pure functions on tensors.

A drawn response is a leaf of the reader's token tree, and its probability is known. So the mass of what was never
drawn is known, too: 1 less the probabilities of the leaves seen. Only the share of this unseen mass that supports the
answer has to be estimated, from the draws that come nearest to it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seper_reward.types import Estimate, Leaf, Responses

CONFIDENCE = 0.95
_PRIOR = 0.5  # of Jeffreys: half an observation that supports the answer, and half a one that does not
_LEAST_ODDS = 0.02  # of a sample's resolution: a few tens of responses tell nothing finer


@dataclass(frozen=True)
class Draws:
    """The distinct responses among S draws, and how the mass of all responses falls on them.

    Attributes:
        responses: The L distinct responses, in order of their first draw, then the known leaves that were not drawn.
        counts: ``(L,)`` integers: how often each was drawn.
        weights: ``(L,)`` estimated probabilities of what each response stands for; they sum to 1.
        seen: ``(L,)`` the part of ``weights`` that is known: the responses' own probabilities, or 0.
        stand_ins: ``(L,)`` how many draws from the unknown part each response is worth, >= 0.
    """

    responses: Responses
    counts: Tensor
    weights: Tensor
    seen: Tensor
    stand_ins: Tensor

    @property
    def unseen_mass(self) -> float:
        """The mass of weights that is not known, in [0, 1]."""
        return max(0.0, 1.0 - float(self.seen.sum()))


def has_mass(sampled: Responses) -> bool:
    """Return whether the probability that each response was drawn with is known, and which draws were the same."""
    return bool(sampled.token_ids) and bool(sampled.draw_log_probs)


def drawn_by_mass(sampled: Responses) -> Draws:
    """Weigh each distinct response by its own probability, and give the unseen mass to those that stand for it.

    These are the responses drawn once (Good and Turing's estimate: Good, Biometrika 1953). Known leaves stand for
    themselves alone: they were not chosen by chance.

    Args:
        sampled: S responses with the probabilities that they were drawn with (``has_mass``).
    """
    responses, probs, counts, known = _with_known_leaves(sampled)
    probs = probs / max(1.0, float(probs.sum()))  # rounding of the reader's dtype
    unseen = max(0.0, 1.0 - float(probs.sum()))
    stand_ins = ((counts == 1) & ~known).double()
    # where nothing stands for the unseen, it is taken for the like of what was drawn, the gold answer last
    drawn = (counts > 0).double()
    candidates = (stand_ins, probs * drawn * ~known, probs * drawn, drawn)
    share = next(each for each in candidates if float(each.sum()) > 0)
    return Draws(responses, counts, probs + unseen * share / share.sum(), probs, stand_ins)


def drawn_by_weight(sampled: Responses, weights: Tensor, *, join: bool = True) -> Draws:
    """Take the draws as a plain sample, each with a given weight; nothing is known of their probabilities.

    Args:
        sampled: S independent draws.
        weights: ``(S,)`` weights that sum to 1. They are worth 1 / Σ weights² equal ones (Kish's effective size).
        join: Whether equal draws are one response; otherwise each is one of its own (official code).
    """
    places, number, counts = _distinct(_keys(sampled) if join else range(len(weights)))
    joined = torch.zeros(len(places), dtype=torch.float64).index_add(0, number, weights.double())
    effective = 1.0 / float(weights.double().square().sum())
    return Draws(sampled.at(places), counts, joined, torch.zeros_like(joined), effective * joined)


def estimate(draws: Draws, values: Tensor) -> Estimate:
    """Estimate the mean of a number over all responses, by its values on the distinct ones.

    What is seen is known. The mean over the unseen part has a posterior, after the stand-ins as observations and
    Jeffreys' prior (half an observation of 0 and half a one of 1): a Beta distribution with the posterior's mean and
    variance. Where all draws are 0 or 1 and nothing is known, this is Jeffreys' interval of a proportion (Brown, Cai
    and DasGupta, Statistical Science 2001).

    Args:
        draws: The distinct responses.
        values: ``(L,)`` numbers in [0, 1].

    Returns:
        The weighted mean, the posterior's standard deviation (where nothing is known, the standard error of a mean,
        with the prior's observations in the variance), and the posterior's central 95 %, widened to hold the mean.
    """
    from scipy.stats import beta

    values, unseen = values.double(), draws.unseen_mass
    known = float(draws.seen @ values)
    mean, spread = _unseen(draws.stand_ins, values)
    count = float(draws.stand_ins.sum())
    variance = spread / (count + 2)
    total = mean * (1 - mean) / variance - 1  # observations of 0 or 1 that the posterior is worth
    tail = (1 - CONFIDENCE) / 2
    low, high = beta.ppf([tail, 1 - tail], mean * total, (1 - mean) * total)
    value = min(max(float(draws.weights @ values), 0.0), 1.0)
    return Estimate(
        value,
        std_error=unseen * math.sqrt(variance) if bool(draws.seen.any()) else _error_of_mean(spread, count),
        low=min(value, known + unseen * float(low)),
        high=max(value, known + unseen * float(high)),
    )


def log_odds(probability: float) -> float:
    """Return log (s + ε) / (1 - s + ε) in nats with ε = 0.02, which is finite at 0 and 1, within ±3.93.

    >>> round(log_odds(0.5), 6), round(log_odds(1.0), 2)
    (0.0, 3.93)
    """
    return math.log((probability + _LEAST_ODDS) / (1 - probability + _LEAST_ODDS))


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return an estimate less an independent one.

    The distances of the interval's ends are those of the two intervals, squared and added (MOVER: Newcombe, Statistics
    in Medicine 1998; Zou and Donner, 2008).

    >>> difference(Estimate(0.7, 0.3, 0.4, 0.9), Estimate(0.2, 0.4, 0.1, 0.6)).std_error
    0.5
    """
    value = one.value - other.value
    return Estimate(
        value,
        std_error=math.hypot(one.std_error, other.std_error),
        low=value - math.hypot(one.value - one.low, other.high - other.value),
        high=value + math.hypot(one.high - one.value, other.value - other.low),
    )


def _unseen(stand_ins: Tensor, values: Tensor) -> tuple[float, float]:
    """Return mean and variance of a number over the unseen, by the stand-ins and the prior's observations."""
    observations = float(stand_ins.sum()) + 2 * _PRIOR
    mean = (float(stand_ins @ values) + _PRIOR) / observations
    return mean, (float(stand_ins @ values.square()) + _PRIOR) / observations - mean**2


def _error_of_mean(spread: float, count: float) -> float:
    """Return the standard error of the mean of so many draws, by their variance with the prior's observations."""
    return min(math.sqrt(spread * (count + 2 * _PRIOR) / count**2), 0.5)  # the largest deviation of a number in [0, 1]


def _keys(sampled: Responses) -> Sequence[object]:
    """Return what is equal of equal draws; after unlike thoughts, equal responses have unlike probabilities."""
    said: Sequence[object] = sampled.token_ids or sampled.texts
    if has_mass(sampled) or not sampled.token_log_probs:
        return said
    return list(zip(said, (tuple(row.tolist()) for row in sampled.token_log_probs), strict=True))


def _with_known_leaves(sampled: Responses) -> tuple[Responses, Tensor, Tensor, Tensor]:
    """Return the distinct responses, drawn or known, and of each its probability, its count, and whether it is known.

    A known leaf is one response, whatever token ends it.
    """
    leaves = {leaf.token_ids: leaf for leaf in sampled.known_leaves if leaf.draw_log_prob > -math.inf}.values()
    keys: list[object] = list(sampled.token_ids)
    for leaf in leaves:
        for place in leaf.among(sampled):
            keys[place] = leaf
    places, _, counts = _distinct(keys)
    absent = [leaf for leaf in leaves if leaf not in keys]
    distinct = [*(keys[place] for place in places), *absent]
    responses = sampled.at(places).and_leaves(absent)
    log_probs = [
        key.draw_log_prob if isinstance(key, Leaf) else log_prob
        for key, log_prob in zip(distinct, responses.draw_log_probs, strict=True)
    ]
    return (
        responses,
        torch.tensor(log_probs, dtype=torch.float64).exp(),
        torch.nn.functional.pad(counts, (0, len(absent))),
        torch.tensor([isinstance(key, Leaf) for key in distinct]),
    )


def _distinct(keys: Sequence[object]) -> tuple[list[int], Tensor, Tensor]:
    """Return the first place of each distinct key, the number of each key among these, and their counts."""
    numbers: dict[object, int] = {}
    number = [numbers.setdefault(key, len(numbers)) for key in keys]
    counts = torch.bincount(torch.tensor(number), minlength=len(numbers))
    return [number.index(one) for one in range(len(numbers))], torch.tensor(number), counts
