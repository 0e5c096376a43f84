"""The likelihood of the answer (REPLUG, arXiv:2301.12652; perplexity distillation of Atlas, arXiv:2208.03299)."""

from collections.abc import Sequence
from typing import Any

from seper_reward.data.answers import best_alias_mean
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Estimate, UnscorableError, answer_aliases


class LikelihoodLabeler(ReaderLabeler[float]):
    """Labels a passage by the mean log-probability per token of the likeliest gold answer, less that without it.

    Where the answer is a list, it is the mean over its items, each by its likeliest alias and as if it were all of the
    answer.

    Labels are in nats per token and unbounded. Nothing is sampled, so that standard errors are 0. What is subtracted
    is constant in a question and changes no softmax over its passages.

    Args:
        scorer: Scorer whose reader is asked.
    """

    name = "likelihood"
    side_by_side = True

    def __init__(self, scorer: SePerScorer) -> None:
        self.scorer = scorer

    def read(self, asked: Sequence[Asked], *, together: bool = False) -> list[list[float] | UnscorableError]:
        """Return the mean log-probability of the answer's tokens in each context."""
        blocks = [asked] if together else [[each] for each in asked]
        return [row for block in blocks for row in self._read(block)]

    def gain(self, reading: float, given: float) -> Estimate:
        """Return the difference of log-probabilities, which is known."""
        change = reading - given
        return Estimate(change, 0.0, change, change)

    def error(self, reading: float) -> float:
        """Return 0: nothing is sampled."""
        return 0.0

    def baseline_fields(self, reading: float) -> dict[str, Any]:
        """Return the log-probability without a passage."""
        return {self.name: reading}

    def _read(self, block: Sequence[Asked]) -> list[list[float] | UnscorableError]:
        read = self.scorer.reader.block_answer_log_probs(block, [answer_aliases(each.answers) for each in block])
        return [
            rows if isinstance(rows, UnscorableError) else [best_alias_mean(row, each.answers) for row in rows]
            for each, rows in zip(block, read, strict=True)
        ]
