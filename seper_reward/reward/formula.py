"""The formula of a reward: the measurements that a rollout needs, and its score from them.

    w_answer E(answer) + w_gain Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n  [− w_answer SePer(q, A)]

``n`` counts the calls of the rollout's search tool. Failed calls count too, or else a failing call would be as good as
an answer; calls that are refused because no more searches are allowed do not count. ``D_t`` are the passages of the
first t searches, SePer is that of arXiv:2503.01478 (eq. 9-10), and ``E`` is the support of the policy's last stated
answer: max(0, 16p - 15) for the probability p that it and a gold answer entail each other
(``judge.support.mutual_supports``). The last term is subtracted with ``closed_book`` only.

With equal weights of answer and gain, the best search with a wrong answer (w_gain − λ) never earns more than a right
answer without a search (w_answer), at any price; with a greater weight of the gain this property is lost.
"""

import itertools

from seper_reward.options import WeightOptions
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.types import Asked, Measured

_GRID = 2.0**44  # parts of a belief; sums of their multiples are exact in any order, up to 512


class RewardWeights(WeightOptions):
    """The weights of a reward, and its score from them; see ``SePerReward``.

    ``closed_book`` lowers all rewards of a question by the same amount, which changes nothing if a trainer subtracts
    the mean of their group.
    """

    def asks(self, rollout: Rollout) -> Asked:
        """Return the measurements that the weights need: beliefs after the searches, and the policy's answer."""
        if self.gain_weight:
            searches = range(len(rollout.turns) + 1)
        else:
            searches = range(int(self.closed_book and self.answer_weight > 0))
        contexts = tuple(map(rollout.found_by, searches))
        return Asked(rollout.question, rollout.answers, contexts, (rollout.answer,) if self.answer_weight else ())

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches, failed calls included: λ n."""
        return self.price * (len(rollout.turns) + rollout.failed)

    def answer_values(self, score: Score) -> list[float]:
        """Return the rewards of the reader's answers before a search and after each."""
        paid = score.beliefs[0].seper if self.closed_book else 0.0
        return [self.answer_weight * (belief.seper - paid) for belief in score.beliefs]

    def score(self, rollout: Rollout, measured: Measured) -> Score:
        """Return the score of a rollout from the measurements that ``asks(rollout)`` returned.

        Beliefs and prices are rounded to a grid of 2^-44, so the parts of a reward sum up to it to the bit.
        """
        beliefs = measured.beliefs
        price, fine = _on_grid(self.price), rollout.failed * _on_grid(self.price)
        gains = [0.0] * len(rollout.turns)
        if self.gain_weight:
            weighted = [_on_grid(self.gain_weight * belief.seper) for belief in beliefs]
            gains = [after - before for before, after in itertools.pairwise(weighted)]
        answer = measured.supports[0] if measured.supports else None
        answer_reward = _on_grid(self.answer_weight * (answer or 0.0)) - fine
        if self.closed_book and self.answer_weight:
            answer_reward -= _on_grid(self.answer_weight * beliefs[0].seper)
        search_rewards = tuple(gain - price for gain in gains)
        reward = sum(search_rewards) + answer_reward
        return Score(reward, beliefs, self.cost(rollout), answer, search_rewards, answer_reward, fine)


def _on_grid(value: float) -> float:
    return round(value * _GRID) / _GRID
