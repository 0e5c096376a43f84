"""Estimates over all possible responses of a reader, from a sample: pure functions on tensors.

A drawn response is a leaf of the reader's token tree, and its probability is known. So the mass of the responses that
were never drawn is known, too: 1 minus the probabilities of the leaves seen. Only the share of this unseen mass that
supports the answer has to be estimated, from the draws nearest to it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seper_reward.types import Estimate, Leaf, Responses

CONFIDENCE = 0.95
_PRIOR = 0.5  # Jeffreys' prior: half an observation that supports the answer, and half a one that does not


@dataclass(frozen=True)
class Draws:
    """The L distinct responses among S draws (in order of the first draw, then undrawn known leaves), and their mass.

    All tensors are ``(L,)``. ``counts`` are numbers of draws. ``weights`` are the estimated mass that each response
    represents, with sum 1; ``seen`` is its known part: the responses' own probabilities, or 0. ``stand_ins`` are the
    numbers of draws from the unseen part that each response is worth, >= 0.
    """

    responses: Responses
    counts: Tensor
    weights: Tensor
    seen: Tensor
    stand_ins: Tensor

    @property
    def unseen_mass(self) -> float:
        """The mass of all responses that were neither drawn nor are known leaves, in [0, 1]."""
        return max(0.0, 1.0 - float(self.seen.sum()))


def has_mass(sampled: Responses) -> bool:
    """Return whether the probability of each draw is known, and which draws were equal."""
    return bool(sampled.token_ids) and bool(sampled.draw_log_probs)


def drawn_by_mass(sampled: Responses) -> Draws:
    """Weigh each distinct response by its own probability, and divide the unseen mass among responses drawn once.

    Responses drawn once represent the unseen ones (Good-Turing estimate: Good, Biometrika 1953). Known leaves get no
    unseen mass, since they were not drawn at random. The draw probabilities must be known (``has_mass``).
    """
    responses, probs, counts, known = _with_known_leaves(sampled)
    probs = probs / max(1.0, float(probs.sum()))  # rounding of the reader's dtype
    unseen = max(0.0, 1.0 - float(probs.sum()))
    stand_ins = ((counts == 1) & ~known).double()
    # The unseen mass goes to responses drawn once; if there are none, to the other draws by their probability, without
    # and else with known leaves (gold answers); if these have no probability, to all draws alike.
    drawn = (counts > 0).double()
    candidates = (stand_ins, probs * drawn * ~known, probs * drawn, drawn)
    share = next(candidate for candidate in candidates if float(candidate.sum()) > 0)
    return Draws(responses, counts, probs + unseen * share / share.sum(), probs, stand_ins)


def drawn_by_weight(sampled: Responses, weights: Tensor, *, join: bool = True) -> Draws:
    """Treat S independent draws as a plain weighted sample whose probabilities are unknown.

    The weights ``(S,)`` sum to 1, and are worth 1 / Σ weights² equal draws (Kish's effective sample size). With
    ``join``, equal draws are merged into one response; the official code keeps them apart.
    """
    places, number, counts = _distinct(_keys(sampled) if join else range(len(weights)))
    joined = torch.zeros(len(places), dtype=torch.float64).index_add(0, number, weights.double())
    effective = 1.0 / float(weights.double().square().sum())
    return Draws(sampled.at(places), counts, joined, torch.zeros_like(joined), effective * joined)


def estimate(draws: Draws, values: Tensor) -> Estimate:
    """Estimate the mean of a value in [0, 1] over all responses, from its values ``(L,)`` on the distinct ones.

    The seen part is exact. The mean over the unseen part has a posterior, with the stand-ins as observations and
    Jeffreys' prior (half an observation of 0 and half a one of 1): a Beta distribution with the posterior's mean and
    variance. If all values are 0 or 1 and no probability is known, the interval is Jeffreys' interval of a proportion
    (Brown, Cai and DasGupta, Statistical Science 2001). The error is the posterior's standard deviation (if no
    probability is known, the standard error of a mean, with the prior's observations in the variance); the interval
    are the posterior's central 95 %, widened if necessary to contain the mean.
    """
    from scipy.special import betaincinv

    values, unseen = values.double(), draws.unseen_mass
    known = float(draws.seen @ values)
    # mean and variance over the unseen part, from the stand-ins and the prior's observations
    count = float(draws.stand_ins.sum())
    observations = count + 2 * _PRIOR
    mean = (float(draws.stand_ins @ values) + _PRIOR) / observations
    spread = (float(draws.stand_ins @ values.square()) + _PRIOR) / observations - mean**2
    variance = spread / (count + 2)
    total = mean * (1 - mean) / variance - 1  # the posterior's equivalent number of observations of 0 or 1
    tail = (1 - CONFIDENCE) / 2
    low, high = betaincinv(mean * total, (1 - mean) * total, [tail, 1 - tail])
    value = min(max(float(draws.weights @ values), 0.0), 1.0)
    std_error = unseen * math.sqrt(variance)
    if not bool(draws.seen.any()):
        squared = spread * observations / max(count, 1.0) ** 2
        std_error = min(math.sqrt(squared), 0.5)  # the largest one of a number in [0, 1]
    return Estimate(
        value,
        std_error,
        low=min(value, known + unseen * float(low)),
        high=max(value, known + unseen * float(high)),
    )


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return one estimate minus another, independent one.

    The distance of each end of the interval is the root of the summed squares of the two intervals' distances (MOVER:
    Newcombe, Statistics in Medicine 1998; Zou and Donner, 2008).

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


def _keys(sampled: Responses) -> Sequence[object]:
    """Return a key per draw, shared by equal draws; equal responses after other thoughts differ in probability."""
    responses: Sequence[object] = sampled.token_ids or sampled.texts
    if has_mass(sampled) or not sampled.token_log_probs:
        return responses
    return list(zip(responses, (tuple(log_probs.tolist()) for log_probs in sampled.token_log_probs), strict=True))


def _with_known_leaves(sampled: Responses) -> tuple[Responses, Tensor, Tensor, Tensor]:
    """Return the distinct responses with the probability and count of each, and whether it is known."""
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
    """Return the first position of each distinct key, each key's index among the distinct ones, and their counts."""
    numbers: dict[object, int] = {}
    number = [numbers.setdefault(key, len(numbers)) for key in keys]
    places = [number.index(one) for one in range(len(numbers))]
    return places, torch.tensor(number), torch.tensor(list(Counter(number).values()))
