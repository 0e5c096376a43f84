"""Credit per turn: what each message of a policy earned, and the advantages of a group from that; pure.

A rollout is a chain of messages: each asks for searches, the last one answers. With ``x_k`` what its k-th search
earned (its gain in SePer, less its price), ``a`` what its answer earned, and means over the group's rollouts, in which
a search that a rollout did without counts as 0:

    own(m)   Σ (x_k − mean x_k) over the searches that message m asked for
             and of the last message also (a − mean a) − Σ mean x_k over the searches that this rollout did without
    A(m)     Σ_{l ≥ m} γ^(l−m) own(l)

That is GRPO with process supervision (DeepSeekMath, arXiv:2402.03300, section 4.1.3), where the sum of what follows is
credited to a step, with two differences. The sum is discounted by γ: with 1 it is the return from here on, with 0 each
message answers for its own searches or answer alone. And the means are taken place by place over all rollouts of the
group, not over those that came so far: otherwise a policy that ends early is compared with fewer means than one that
goes on, a hidden prize or fine on going on. With γ = 1 the first message's advantage is that of the whole rollout,
reward less the group's mean reward, and a later one's is the same without what had been earned before.

The potential-based form (Ng, Harada and Russell, ICML 1999; TIPS, arXiv:2603.22293, whose potential is a teacher's
log-likelihood of the answer) takes Φ = β SePer(q, A | D_t) for a potential: a search earns γ Φ(D_t) − Φ(D_t−1), and
the answer pays Φ(D_n) back. What is credited to a message is then compared with what the reader believed when it was
written, and the best policy is that of a reward without ΔSePer.
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
    """

    calls: tuple[int, ...]
    searches: tuple[float, ...]
    answer: float


def credit_of(rollout: Rollout, score: Score | None) -> Credit | str:
    """Return what the parts of a rollout earned, or the reason why that is not known."""
    if score is None:
        return "not scored"
    if not rollout.calls:
        return "the completion does not show which message asked for which search"
    if score.search_rewards is None:
        return "the variant measures several searches together; take 'stepwise' or 'both'"
    return Credit(rollout.calls, score.search_rewards, score.answer_reward)


def turn_rewards(credit: Credit) -> list[float]:
    """Return what each message earned: its searches, and of the last one also the answer.

    The sum is the reward of the rollout, to the bit.

    >>> turn_rewards(Credit((1, 0, 2, 0), (0.5, -0.25, 0.25), 1.0))
    [0.5, 0.0, 0.0, 1.0]
    """
    searches = iter(credit.searches)
    rewards = [sum(itertools.islice(searches, calls), 0.0) for calls in credit.calls]
    return [*rewards[:-1], rewards[-1] + credit.answer]


def shaped(credit: Credit, potentials: Sequence[float], discount: float) -> Credit:
    """Return the same rollout's credit in potential-based form.

    Args:
        credit: What its parts earned; each search its potential after less that before, beside prices.
        potentials: Potentials before the first search and after each.
        discount: γ, in [0, 1].

    >>> shaped(Credit((1, 0), (0.75,), 1.0), [0.25, 1.0], 1.0)
    Credit(calls=(1, 0), searches=(0.75,), answer=0.0)
    >>> shaped(Credit((1, 0), (0.75,), 1.0), [0.25, 1.0], 0.5)
    Credit(calls=(1, 0), searches=(0.25,), answer=0.0)
    """
    searches = [earned - (1 - discount) * after for earned, after in zip(credit.searches, potentials[1:], strict=True)]
    return Credit(credit.calls, tuple(searches), credit.answer - potentials[-1])


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
    most = max((len(credit.searches) for credit in known), default=0)
    means = [
        sum(credit.searches[at] for credit in known if at < len(credit.searches)) / len(known) for at in range(most)
    ]
    mean_answer = sum(credit.answer for credit in known) / max(len(known), 1)
    return [[] if credit is None else _advantages(credit, means, mean_answer, discount) for credit in group]


def _advantages(credit: Credit, means: Sequence[float], mean_answer: float, discount: float) -> list[float]:
    count = len(credit.searches)
    searches = tuple(earned - mean for earned, mean in zip(credit.searches, means[:count], strict=True))
    answer = credit.answer - mean_answer - sum(means[count:])
    advantages: list[float] = []
    following = 0.0
    for own in reversed(turn_rewards(Credit(credit.calls, searches, answer))):
        following = own + discount * following
        advantages.insert(0, following)
    return advantages
