"""eRAG: the downstream metric of the answer given one passage (Salemi and Zamani, arXiv:2404.13781)."""

from typing import Any

import torch

from seper_reward.data.answers import AnswerMetric, answer_metric
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import difference, estimate
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import Answers, Estimate, LabeledQuery, Query, Responses


class ERAGLabeler(PassageLabeler):
    """Labels a passage by the metric of the responses with it alone, less that without a passage, in [-1, 1].

    eRAG itself takes one response and no difference. The mean over the samples estimates the same with less noise.
    What is subtracted is constant in a question: rankings stay the same, and 0 means that a passage changes nothing.

    Args:
        scorer: Scorer whose reader answers.
        metric: Name of a metric (see ``answer_metric``), or a callable of a response and the gold answer (aliases or,
            where it is a list, the aliases of each item) that returns a number in [0, 1].
    """

    scorer: SePerScorer
    samples = True

    def __init__(self, scorer: SePerScorer, metric: str | AnswerMetric = "exact_match") -> None:
        self.name = f"erag_{metric if isinstance(metric, str) else getattr(metric, '__name__', 'metric')}"
        self._metric = answer_metric(metric) if isinstance(metric, str) else metric
        self.scorer = scorer

    def label(self, query: Query) -> LabeledQuery:
        """Return, per passage, the difference of mean scores with and without it, and its standard error."""
        responses = self.scorer.responses(query.question, query.answers, query.contexts)
        baseline, *others = [self._mean(row, query.answers) for row in responses]
        differences = [difference(mean, baseline[0]) for mean, _ in others]
        return LabeledQuery(
            query,
            labels=tuple(row.value for row in differences),
            std_errors=tuple(row.std_error for row in differences),
            baseline_error=baseline[0].std_error,
            baseline={self.name: baseline[0].value, "std_error": baseline[0].std_error, "responses": baseline[1]},
            details=tuple(
                {"low": row.low, "high": row.high, "responses": scored}
                for row, (_, scored) in zip(differences, others, strict=True)
            ),
        )

    def _mean(self, sampled: Responses, answers: Answers) -> tuple[Estimate, list[dict[str, Any]]]:
        """Return the mean score over all responses, as the scorer's estimator weighs them, and each one's score."""
        draws = weigh(self.scorer.estimator, sampled)
        scores = [float(self._metric(text, answers)) for text in draws.responses.texts]
        if any(not 0 <= score <= 1 for score in scores):
            raise ValueError(f"the metric of {self.name} must be in [0, 1], got {scores}; scale it")
        rows = [
            {"text": text, "count": count, "score": score}
            for text, count, score in zip(draws.responses.texts, draws.counts.tolist(), scores, strict=True)
        ]
        return estimate(draws, torch.tensor(scores)), rows
