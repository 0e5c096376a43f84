"""eRAG: the downstream metric of the answer given one passage (Salemi and Zamani, arXiv:2404.13781)."""

import math
import statistics

from seper_reward.data.answers import AnswerMetric, answer_metric
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query


class ERAGLabeler(PassageLabeler):
    """Labels a passage by the metric of the responses with it alone, less that without a passage, in [-1, 1].

    eRAG itself takes one response and no difference. The mean over the samples estimates the same with less noise.
    What is subtracted is constant in a question: rankings stay the same, and 0 means that a passage changes nothing.

    Args:
        scorer: Scorer whose reader answers.
        metric: Name of a metric (see ``answer_metric``), or a callable of a response and the gold answer's aliases.
    """

    scorer: SePerScorer
    samples = True

    def __init__(self, scorer: SePerScorer, metric: str | AnswerMetric = "exact_match") -> None:
        self.name = f"erag_{metric if isinstance(metric, str) else getattr(metric, '__name__', 'metric')}"
        self._metric = answer_metric(metric) if isinstance(metric, str) else metric
        self.scorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return, per passage, the difference of mean scores with and without it, and its standard error."""
        responses = self.scorer.reader.responses(query.question, query.contexts)
        scores = [[self._metric(text, query.answers) for text in row.texts] for row in responses]
        baseline, *means = [statistics.fmean(row) for row in scores]
        baseline_variance, *variances = [statistics.pvariance(row) / len(row) for row in scores]  # of the means
        baseline_error = math.sqrt(baseline_variance)
        baseline_details, *details = [
            {"responses": [{"text": text, "score": score} for text, score in zip(row.texts, row_scores, strict=True)]}
            for row, row_scores in zip(responses, scores, strict=True)
        ]
        return LabeledQuery(
            query,
            labels=tuple(mean - baseline for mean in means),
            std_errors=tuple(math.sqrt(baseline_variance + variance) for variance in variances),
            baseline_error=baseline_error,
            baseline={self.name: baseline, "std_error": baseline_error, **baseline_details},
            details=tuple(details),
        )
