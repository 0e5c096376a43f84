"""The formula of a reward: what has to be measured about a rollout, and its score from that.

With ``n`` the number of calls of the rollout's search tool, failed ones included, since otherwise a call that fails is
as good as an answer (those that are told that there are no more searches are not counted), ``D_t`` the passages of the
first t searches, ``w`` the number of retrieved words, SePer as in arXiv:2503.01478 (eq. 9-10), and ``E`` how surely
the answer that the policy states last and a gold answer entail each other (``BeliefJudge.mutual_support``):

    delta       SePer(q, A | D_n) − SePer(q, A) − λ n − μ w                       0 without a search
    stepwise    Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n − μ w          equal to delta; knows each term
    answer      max_a E(answer, a) − λ n − μ w                                     takes the policy's answer alone
    advantage   max_a E(answer, a) − SePer(q, A) − λ n − μ w                       compares it with the reader's belief
    both        max_a E(answer, a) + β Σ_t [SePer(q, A | D_t) − SePer(q, A | D_t−1)] − λ n − μ w [− SePer(q, A)]

``delta`` pays for what was found, whatever is said of it afterwards; ``both`` pays for the answer as well. β is 1
unless given: the greatest weight at which, for every price, the best search with a wrong answer (β − λ) earns no more
than a right answer without a search (1). The last term of ``both`` is left out unless asked for.
"""

import itertools
from dataclasses import dataclass
from typing import Literal, get_args

from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.types import Asked, Measured, Passage

Variant = Literal["delta", "stepwise", "answer", "advantage", "both"]
_GRID = 2.0**44  # parts of a belief; sums of their multiples are exact in any order, up to 512


@dataclass(frozen=True)
class Formula:
    """A variant of the reward, its prices and its weights.

    Attributes:
        variant: ``"delta"``, ``"stepwise"``, ``"answer"``, ``"advantage"`` or ``"both"``: formulas at the top of this
            file.
        price: Price λ of a search, also of a call that failed, in units of belief, >= 0.
        word_price: Price μ of a retrieved word, in units of belief, >= 0.
        gain_weight: Weight β, >= 0, of what the searches gained in ``"both"``; other variants do not use it.
        closed_book: Whether ``"both"`` subtracts SePer(q, A), as ``"advantage"`` does. All rollouts of a question then
            earn less by the same, which changes nothing where a trainer subtracts the mean of their group.

    Raises:
        ValueError: The variant is unknown, or a price or the weight is negative.
    """

    variant: Variant = "delta"
    price: float = 0.0
    word_price: float = 0.0
    gain_weight: float = 1.0
    closed_book: bool = False

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {self.variant!r}")
        if self.price < 0 or self.word_price < 0:
            raise ValueError(f"prices must be at least 0, got {self.price} and {self.word_price}")
        if self.gain_weight < 0:
            raise ValueError(f"gain_weight must be at least 0, got {self.gain_weight}")

    @property
    def priced(self) -> bool:
        """Whether a search costs anything."""
        return self.price > 0 or self.word_price > 0

    @property
    def pays_searches_only(self) -> bool:
        """Whether a rollout without a search earns 0, whatever it answers."""
        return self.variant in ("delta", "stepwise")

    def asks(self, rollout: Rollout, reference: tuple[Passage, ...] = ()) -> Asked:
        """Return what the variant needs to know: the beliefs after some of the searches, and the policy's answer.

        Args:
            rollout: The rollout.
            reference: What the reader is shown where nothing was found, in place of no passage.
        """
        count = len(rollout.turns)
        each_search = list(range(count + 1))
        searches = {
            "answer": [],
            "advantage": [0],
            "delta": sorted({0, count}),
            "stepwise": each_search,
            "both": each_search,
        }
        contexts = tuple(rollout.found_by(each) or reference for each in searches[self.variant])
        texts = (rollout.answer,) if self.variant in ("answer", "advantage", "both") else ()
        return Asked(rollout.question, rollout.answers, contexts, texts)

    def cost(self, rollout: Rollout) -> float:
        """Return the price of a rollout's searches, failed calls included: λ n + μ w."""
        return self.price * (len(rollout.turns) + rollout.failed) + self.word_price * rollout.words

    def potentials(self, score: Score) -> list[float]:
        """Return the weighted beliefs of ``"both"`` without passages and after each search: β SePer(q, A | D_t)."""
        return [_on_grid(self.gain_weight * belief.seper) for belief in score.beliefs]

    def answer_values(self, score: Score) -> list[float]:
        """Return what the reader's answer would earn in ``"both"`` before a search and after each.

        Before a search it has no passage, or the one that gains are compared with.
        """
        paid = score.beliefs[0].seper if self.closed_book else 0.0
        return [belief.seper - paid for belief in score.beliefs]

    def score(self, rollout: Rollout, measured: Measured) -> Score:
        """Return the score of a rollout from what was measured about ``asks(rollout)``.

        Beliefs and prices are rounded to a grid of 2^-44, so that the parts of a reward sum up to it to the bit.
        """
        beliefs = measured.beliefs
        weight = {"delta": 1.0, "stepwise": 1.0, "both": self.gain_weight}.get(self.variant)
        weighted = [] if weight is None else [_on_grid(weight * belief.seper) for belief in beliefs]
        gains = [after - before for before, after in itertools.pairwise(weighted)]
        costs = [_on_grid(self.price) + turn.words * _on_grid(self.word_price) for turn in rollout.turns]
        answer = measured.supports[0] if measured.supports else None
        fine = rollout.failed * _on_grid(self.price)
        answer_reward = _on_grid(answer or 0.0) - fine
        if self.variant == "advantage" or (self.variant == "both" and self.closed_book):
            answer_reward -= _on_grid(beliefs[0].seper)
        if weight is None:
            gains = [0.0] * len(costs)
        search_rewards = None
        if len(gains) == len(costs):
            search_rewards = tuple(gain - cost for gain, cost in zip(gains, costs, strict=True))
        reward = sum(gains) - sum(costs) + answer_reward
        return Score(reward, beliefs, self.cost(rollout), answer, search_rewards, answer_reward, fine)


def _on_grid(value: float) -> float:
    return round(value * _GRID) / _GRID
