"""The likelihood of the answer (REPLUG, arXiv:2301.12652; perplexity distillation of Atlas, arXiv:2208.03299)."""

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query


class LikelihoodLabeler(PassageLabeler):
    """Labels a passage by the mean log-probability per token of the likeliest gold answer, less that without it.

    Unbounded, in nats per token; nothing is sampled, so there is no standard error. The difference, constant in a
    question, changes no softmax over its passages.

    Args:
        scorer: Whose reader is asked.
    """

    name = "likelihood"
    scorer: SePerScorer

    def __init__(self, scorer: SePerScorer) -> None:
        self.scorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return the difference of log-probabilities of each passage."""
        log_probs = self.scorer.reader.answer_log_probs(query.question, query.answers, query.contexts)
        baseline, *found = [max(row) for row in log_probs]
        return LabeledQuery(
            query,
            labels=tuple(value - baseline for value in found),
            std_errors=(0.0,) * len(found),
            baseline={self.name: baseline},
        )
