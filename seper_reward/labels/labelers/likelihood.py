"""The likelihood of the answer (REPLUG, arXiv:2301.12652; perplexity distillation of Atlas, arXiv:2208.03299)."""

from seper_reward.data.answers import best_alias_mean
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, answer_aliases


class LikelihoodLabeler(PassageLabeler):
    """Labels a passage by the mean log-probability per token of the likeliest gold answer, less that without it.

    Where the answer is a list, it is the mean over its items, each by its likeliest alias and as if it were all of the
    answer.

    Labels are in nats per token and unbounded. Nothing is sampled, so that standard errors are 0. What is subtracted
    is constant in a question and changes no softmax over its passages.

    Args:
        scorer: Scorer whose reader is asked.
    """

    name = "likelihood"
    scorer: SePerScorer

    def __init__(self, scorer: SePerScorer) -> None:
        self.scorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return, per passage, the difference of log-probabilities with and without it."""
        aliases = answer_aliases(query.answers)
        log_probs = self.scorer.reader.answer_log_probs(query.question, aliases, query.contexts)
        baseline, *likelihoods = [best_alias_mean(row, query.answers) for row in log_probs]
        return LabeledQuery(
            query,
            labels=tuple(value - baseline for value in likelihoods),
            std_errors=(0.0,) * len(likelihoods),
            baseline={self.name: baseline},
        )
