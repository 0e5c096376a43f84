"""The likelihood of the answer (REPLUG, arXiv:2301.12652; perplexity distillation of Atlas, arXiv:2208.03299)."""

from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query


class LikelihoodLabeler:
    """Labels a passage by the mean log-probability per token of the likeliest gold answer, less that without it.

    Unbounded, in nats per token; nothing is sampled, so there is no standard error. The difference, constant in a
    question, changes no softmax over its passages.

    Args:
        scorer: whose reader is asked.
    """

    name = "likelihood"

    def __init__(self, scorer: SePerScorer) -> None:
        self._scorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return the difference of log-probabilities of each passage."""
        log_probs = self._scorer.answer_log_probs(query.question, query.answers, query.contexts)
        baseline, *found = [max(row) for row in log_probs]
        return LabeledQuery(query, tuple(value - baseline for value in found), (0.0,) * len(found))
