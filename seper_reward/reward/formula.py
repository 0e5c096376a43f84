"""The formula of a reward: what has to be measured about a rollout, and its score from that.

With ``n`` the number of the rollout's searches, ``D_t`` the passages of the first t of them, ``w`` the number of
retrieved words, SePer as in arXiv:2503.01478 (eq. 9-10), and ``E`` how surely the answer that the policy states last
and a gold answer entail each other (``BeliefJudge.mutual_support``):

    delta       SePer(q, A | D_n) − SePer(q, A) − λ n − μ w                       0 without a search
    stepwise    Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n − μ w          equal to delta; logs each term
    answer      max_a E(answer, a) − λ n − μ w                                     takes the policy's answer alone
    advantage   max_a E(answer, a) − SePer(q, A) − λ n − μ w                       compares it with the reader's belief
"""

from dataclasses import dataclass
from typing import Literal, get_args

from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.types import Asked, Measured

Variant = Literal["delta", "stepwise", "answer", "advantage"]


@dataclass(frozen=True)
class Formula:
    """A variant of the reward and its prices.

    Attributes:
        variant: ``"delta"``, ``"stepwise"``, ``"answer"`` or ``"advantage"``: formulas at the top of this file.
        price: Price λ of a search, in units of belief, >= 0.
        word_price: Price μ of a retrieved word, in units of belief, >= 0.

    Raises:
        ValueError: The variant is unknown, or a price is negative.
    """

    variant: Variant = "delta"
    price: float = 0.0
    word_price: float = 0.0

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {self.variant!r}")
        if self.price < 0 or self.word_price < 0:
            raise ValueError(f"prices must be at least 0, got {self.price} and {self.word_price}")

    def asks(self, rollout: Rollout) -> Asked:
        """Return what the variant needs to know: the beliefs after some of the searches, and the policy's answer."""
        count = len(rollout.turns)
        searches = {"answer": [], "advantage": [0], "delta": sorted({0, count}), "stepwise": list(range(count + 1))}
        contexts = tuple(rollout.found_by(each) for each in searches[self.variant])
        texts = (rollout.answer,) if self.variant in ("answer", "advantage") else ()
        return Asked(rollout.question, rollout.answers, contexts, texts)

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches: λ n + μ w."""
        return self.price * len(rollout.turns) + self.word_price * rollout.words

    def score(self, rollout: Rollout, measured: Measured) -> Score:
        """Return the score of a rollout from what was measured about ``asks(rollout)``."""
        beliefs, cost = measured.beliefs, self.cost(rollout)
        if self.variant in ("delta", "stepwise"):
            return Score(beliefs[-1].seper - beliefs[0].seper - cost, beliefs, cost)
        (answer,) = measured.supports
        return Score(answer - (beliefs[0].seper if beliefs else 0.0) - cost, beliefs, cost, answer)
