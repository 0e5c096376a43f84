"""The likelihood of the answer (REPLUG, arXiv:2301.12652; perplexity distillation of Atlas, arXiv:2208.03299)."""

from collections.abc import Sequence

from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Estimate, UnscorableError


class LikelihoodLabeler(ReaderLabeler[float]):
    """Labels a passage by the mean log-probability per token of the likeliest gold answer, less the one without it.

    In nats per token, unbounded, without errors. The baseline does not change a softmax over a question's passages.
    """

    name = "likelihood"

    def __init__(self, scorer: SePerScorer) -> None:
        self.scorer = scorer

    def read(self, requests: Sequence[Asked], batch_size: int) -> list[list[float] | UnscorableError]:
        """Return the mean log-probability of the answer's tokens in each context."""
        log_probs: list[list[float] | UnscorableError] = []
        for batch in in_batches(requests, batch_size):
            read = self.scorer.reader.answer_log_probs(batch, [request.answers for request in batch])
            log_probs += [values if isinstance(values, UnscorableError) else list(map(max, values)) for values in read]
        return log_probs

    def gain(self, reading: float, baseline: float) -> Estimate:
        """Return the difference of log-probabilities, which has no sampling error."""
        change = reading - baseline
        return Estimate(change, 0.0, change, change)

    def baseline_fields(self, reading: float) -> dict[str, object]:
        """Return the log-probability without a passage."""
        return {self.name: reading}
