"""Credit per turn: what each message of a policy earned, and the advantages of a group from that; pure.

A rollout is a chain of messages: each asks for searches, the last one answers. With ``x_k`` what its k-th search
earned (its gain in SePer, less its price), ``f_m`` what its m-th message earned otherwise (less the price of failed
calls), ``a`` what its answer earned, and means over the group's rollouts, in which a search or message that a rollout
did without counts as 0:

    own(m)   f_m − mean f_m, and Σ (x_k − mean x_k) over the searches that message m asked for
             and of the last message also (a − mean a), less Σ mean x_k and Σ mean f_m over the searches and messages
             that this rollout did without
    A(m)     Σ_{l ≥ m} γ^(l−m) own(l)

That is GRPO with process supervision (DeepSeekMath, arXiv:2402.03300, section 4.1.3), where the sum of what follows is
credited to a step, with two differences. The sum is discounted by γ: with 1 it is the return from here on, with 0 each
message answers for its own searches or answer alone. And the means are taken place by place over all rollouts of the
group, not over those that came so far: otherwise a policy that ends early is compared with fewer means than one that
goes on, a hidden prize or fine on going on. With γ = 1 the first message's advantage is that of the whole rollout,
reward less the group's mean reward, and a later one's is the same without what had been earned before.

Such means tell little where the rollouts of a group do the same: if all of them search, nothing tells what that was
worth. The reader's belief does: SePer(q, A | D_t) is what answering at once would earn after t searches, if the policy
answered as the reader does. With that for the value V of where message m stands (which VinePPO, arXiv:2410.01679,
measures by rollouts of the policy), and ``r_l`` for what message l earned,

    A(m)     Σ_{l ≥ m} γ^(l−m) r_l − V(m)

A baseline that the message has no part in leaves the mean of the gradient as it is (Williams, 1992); the group's means
do so up to the factor (G - 1)/G of groups of G rollouts, as each is in its own mean. The variance is least if the
baseline of two actions is nearly the value of the rarer one, which this is where most rollouts search. With γ < 1 the
two differ: here all that follows a search is discounted, its answer too, which fines going on, while the group's means
of what a rollout did without stand at its last message undiscounted.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from seper_reward.reward.rollouts import Rollout, Score


@dataclass(frozen=True)
class Credit:
    """What the parts of a rollout earned.

    Attributes:
        calls: How many searches each of its messages asked for, in order; at least one message.
        searches: What each of its searches earned, in order.
        answer: What its answer earned.
        others: What each message earned otherwise, such as the price of its failed calls; empty for nothing.
    """

    calls: tuple[int, ...]
    searches: tuple[float, ...]
    answer: float
    others: tuple[float, ...] = ()

    @property
    def by_message(self) -> tuple[float, ...]:
        """``others``, with 0 for each message where it is empty."""
        return self.others or (0.0,) * len(self.calls)


def credit_of(rollout: Rollout, score: Score | None) -> Credit | str:
    """Return what the parts of a rollout earned, or the reason why that is not known."""
    if score is None:
        return "not scored"
    if not rollout.calls:
        return "the completion does not show which message asked for which search"
    if not rollout.failed or not rollout.failed_calls:
        return Credit(rollout.calls, score.search_rewards, score.answer_reward)
    fine = score.fine / rollout.failed
    fines = tuple(-fine * count for count in rollout.failed_calls)
    return Credit(rollout.calls, score.search_rewards, score.answer_reward + score.fine, fines)


def turn_rewards(credit: Credit) -> list[float]:
    """Return what each message earned: its searches, its failed calls, and of the last one also the answer.

    The sum is the reward of the rollout, to the bit.

    >>> turn_rewards(Credit((1, 0, 2, 0), (0.5, -0.25, 0.25), 1.0))
    [0.5, 0.0, 0.0, 1.0]
    """
    searches = iter(credit.searches)
    rewards = [
        sum(itertools.islice(searches, calls), other)
        for calls, other in zip(credit.calls, credit.by_message, strict=True)
    ]
    return [*rewards[:-1], rewards[-1] + credit.answer]


def message_advantages(group: Sequence[Credit | None], discount: float) -> list[list[float]]:
    """Return the advantage of each message of the rollouts of one group, as at the top of this file.

    Args:
        group: What the parts of the group's rollouts earned; ``None`` where that is not known.
        discount: γ, in [0, 1]: how much of what a message's successors earned is credited to it.

    Returns:
        Per rollout one number per message; none where its credit is not known.

    >>> from_memory, search = Credit((0,), (), 0.0), Credit((1, 0), (0.5,), 1.0)
    >>> message_advantages([from_memory, search], discount=1.0)
    [[-0.75], [0.75, 0.5]]
    >>> message_advantages([from_memory, search], discount=0.0)
    [[-0.75], [0.25, 0.5]]
    """
    known = [credit for credit in group if credit is not None]
    mean = Credit(
        (),
        _means([credit.searches for credit in known]),
        sum(credit.answer for credit in known) / max(len(known), 1),
        _means([credit.by_message for credit in known]),
    )
    return [[] if credit is None else _advantages(credit, mean, discount) for credit in group]


def advantages_over_reader(credit: Credit, beliefs: Sequence[float], discount: float) -> list[float]:
    """Return the advantages of a rollout's messages over the reader answering in their place, as at the top.

    Args:
        credit: What its parts earned.
        beliefs: What the reader's answer would earn without a search and after each: SePer, in [0, 1].
        discount: γ, in [0, 1].

    >>> advantages_over_reader(Credit((1, 0), (0.5,), 1.0), [0.25, 0.75], discount=1.0)
    [1.25, 0.25]
    >>> advantages_over_reader(Credit((1, 0), (0.5,), 1.0), [0.25, 0.75], discount=0.0)
    [0.25, 0.25]
    """
    before = itertools.accumulate(credit.calls[:-1], initial=0)
    returns: list[float] = []
    for earned in reversed(turn_rewards(credit)):
        returns.insert(0, earned + discount * (returns[0] if returns else 0.0))
    return [total - beliefs[done] for total, done in zip(returns, before, strict=True)]


def _advantages(credit: Credit, mean: Credit, discount: float) -> list[float]:
    searches, did_without = _less(credit.searches, mean.searches)
    others, came_without = _less(credit.by_message, mean.others)
    answer = credit.answer - mean.answer - did_without - came_without
    advantages: list[float] = []
    following = 0.0
    for own in reversed(turn_rewards(Credit(credit.calls, searches, answer, others))):
        following = own + discount * following
        advantages.insert(0, following)
    return advantages


def _means(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of each place over rows, of which shorter ones have 0 there."""
    return tuple(sum(column) / len(rows) for column in itertools.zip_longest(*rows, fillvalue=0.0))


def _less(row: Sequence[float], means: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Return a row less the means of its places, and the sum of the means of places that it does not have."""
    return tuple(value - mean for value, mean in zip(row, means, strict=False)), sum(means[len(row) :])
