"""Credit per turn: the reward of each message of a policy, and the advantages of its messages; pure.

A rollout is a chain of messages: each may call searches, the last one answers. The reward ``r_l`` of message l is the
gain in SePer of its searches minus their price, minus the price of its failed calls, and for the last one plus the
reward of the answer. SePer(q, A | D_t) is the reward of an immediate answer after t searches, if the policy answers
like the reader. With this belief as the value V before message m (VinePPO, arXiv:2410.01679, estimates V by rollouts
of the policy),

    A(m)     Σ_{l ≥ m} r_l − V(m)

A baseline that does not depend on the message leaves the mean of the gradient unchanged (Williams, 1992). The variance
is lowest if the baseline of two actions is close to the value of the rarer action; the reader's belief is, if most
rollouts search. Means over a group carry little information then: if all of its rollouts search, the value of a search
does not show.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from seper_reward.reward.rollouts import Rollout, Score


@dataclass(frozen=True)
class Credit:
    """Rewards of the parts of a rollout: of each search and of the answer.

    ``calls`` is the number of searches of each message, at least one message. ``others`` are remaining rewards of
    messages, such as the price of failed calls; empty if all are 0.
    """

    calls: tuple[int, ...]
    searches: tuple[float, ...]
    answer: float
    others: tuple[float, ...] = ()


def credit_of(rollout: Rollout, score: Score | None) -> Credit | str:
    """Return the rewards of the parts of a rollout, or the reason why they are unknown."""
    if score is None:
        return "not scored"
    if not rollout.calls:
        return "the completion does not show which message called which search"
    if not rollout.failed or not rollout.failed_calls:
        return Credit(rollout.calls, score.search_rewards, score.answer_reward)
    fine = score.fine / rollout.failed
    fines = tuple(-fine * count for count in rollout.failed_calls)
    return Credit(rollout.calls, score.search_rewards, score.answer_reward + score.fine, fines)


def turn_rewards(credit: Credit) -> list[float]:
    """Return the reward of each message: of its searches, its failed calls and, for the last one, the answer.

    The sum is exactly the reward of the rollout.

    >>> turn_rewards(Credit((1, 0, 2, 0), (0.5, -0.25, 0.25), 1.0))
    [0.5, 0.0, 0.0, 1.0]
    """
    searches, others = iter(credit.searches), credit.others or [0.0] * len(credit.calls)
    parts = zip(credit.calls, others, strict=True)
    rewards = [sum(itertools.islice(searches, calls), other) for calls, other in parts]
    return [*rewards[:-1], rewards[-1] + credit.answer]


def advantages_over_reader(credit: Credit, beliefs: Sequence[float]) -> list[float]:
    """Return the advantages of a rollout's messages over the reader's answer, by the formula of this module.

    ``beliefs`` are the rewards of the reader's answer before a search and after each.

    >>> advantages_over_reader(Credit((1, 0), (0.5,), 1.0), [0.25, 0.75])
    [1.25, 0.25]
    """
    before = itertools.accumulate(credit.calls[:-1], initial=0)
    returns = list(itertools.accumulate(reversed(turn_rewards(credit))))[::-1]
    return [total - beliefs[done] for total, done in zip(returns, before, strict=True)]
