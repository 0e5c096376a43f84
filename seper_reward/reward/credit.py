"""Credit per turn: the reward of each message of a policy, and the advantages of the messages in a group; pure.

A rollout is a chain of messages: each may call searches, the last one answers. ``x_k`` is the reward of the k-th
search (its gain in SePer minus its price), ``f_m`` the remaining reward of the m-th message (minus the price of failed
calls), ``a`` the reward of the answer, and ``R`` their sum. Means are over the rollouts of the group; a search or
message that a rollout does not have counts as 0:

    own(m)   f_m − mean f_m, plus Σ (x_k − mean x_k) over the searches of message m
    A(m)     R − mean R − Σ_{l < m} own(l)

This is GRPO with process supervision (DeepSeekMath, arXiv:2402.03300, section 4.1.3), in which the advantage of a step
is the sum of all later rewards, except that the mean of each position is over all rollouts of the group, also the
shorter ones. Otherwise a policy that ends early would be compared with fewer means than a policy that goes on, which
rewards or penalises length.

Group means carry little information if the rollouts of a group act alike: if all of them search, the value of a search
does not show. The reader's belief shows it: SePer(q, A | D_t) is the reward of an immediate answer after t searches,
if the policy answers like the reader. With this belief as the value V before message m (VinePPO, arXiv:2410.01679,
estimates V by rollouts of the policy) and ``r_l`` as the reward of message l,

    A(m)     Σ_{l ≥ m} r_l − V(m)

A baseline that does not depend on the message leaves the mean of the gradient unchanged (Williams, 1992); the group
means do so up to a factor (G - 1)/G for groups of G rollouts, since each rollout is part of its mean. The variance
is lowest if the baseline of two actions is close to the value of the rarer action; the reader's belief is, if most
rollouts search.
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

    @property
    def by_message(self) -> tuple[float, ...]:
        """``others``, with 0 for each message if it is empty."""
        return self.others or (0.0,) * len(self.calls)


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
    searches = iter(credit.searches)
    rewards = [
        sum(itertools.islice(searches, calls), other)
        for calls, other in zip(credit.calls, credit.by_message, strict=True)
    ]
    return [*rewards[:-1], rewards[-1] + credit.answer]


def message_advantages(group: Sequence[Credit | None]) -> list[list[float]]:
    """Return the advantage of each message of the rollouts in one group, by the first formula of this module.

    A rollout whose credit is ``None`` has none.

    >>> from_memory, search = Credit((0,), (), 0.0), Credit((1, 0), (0.5,), 1.0)
    >>> message_advantages([from_memory, search])
    [[-0.75], [0.75, 0.5]]
    """
    known = [credit for credit in group if credit is not None]
    mean_reward = sum(sum(turn_rewards(credit)) for credit in known) / max(len(known), 1)
    searches = _column_means([credit.searches for credit in known])
    others = _column_means([credit.by_message for credit in known])
    advantages: list[list[float]] = []
    for credit in group:
        if credit is None:
            advantages.append([])
            continue
        earned = turn_rewards(credit)
        means = turn_rewards(Credit(credit.calls, searches, 0.0, others[: len(credit.calls)]))
        lacking = (mean - reward for reward, mean in zip(earned[:-1], means[:-1], strict=True))
        advantages.append(list(itertools.accumulate(lacking, initial=sum(earned) - mean_reward)))
    return advantages


def advantages_over_reader(credit: Credit, beliefs: Sequence[float]) -> list[float]:
    """Return the advantages of a rollout's messages over the reader's answer, by the second formula of this module.

    ``beliefs`` are the rewards of the reader's answer before a search and after each.

    >>> advantages_over_reader(Credit((1, 0), (0.5,), 1.0), [0.25, 0.75])
    [1.25, 0.25]
    """
    before = itertools.accumulate(credit.calls[:-1], initial=0)
    returns = list(itertools.accumulate(reversed(turn_rewards(credit))))[::-1]
    return [total - beliefs[done] for total, done in zip(returns, before, strict=True)]


def _column_means(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of each column; shorter rows are padded with 0."""
    return tuple(sum(column) / len(rows) for column in itertools.zip_longest(*rows, fillvalue=0.0))
