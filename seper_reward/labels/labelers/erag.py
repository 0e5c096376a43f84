"""eRAG: the downstream metric of the answer given one passage (Salemi and Zamani, arXiv:2404.13781)."""

import math
import statistics
from collections.abc import Iterable, Iterator

from seper_reward.data.answers import AnswerMetric, answer_metric
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query


class ERAGLabeler(PassageLabeler):
    """Labels a passage by the metric of the responses with it alone, less that without a passage, in [-1, 1].

    eRAG takes one response and no difference; the mean over the samples estimates the same thing with less noise,
    and the difference, constant in a question, changes no ranking but gives 0 its meaning.

    Args:
        scorer: Whose reader answers.
        metric: A name for ``answer_metric``, or any callable of a response and the aliases of the answer.
    """

    scorer: SePerScorer

    def __init__(self, scorer: SePerScorer, metric: str | AnswerMetric = "exact_match") -> None:
        self.name = f"erag_{metric if isinstance(metric, str) else getattr(metric, '__name__', 'metric')}"
        self._metric = answer_metric(metric) if isinstance(metric, str) else metric
        self.scorer = scorer

    def ahead(self, queries: Iterable[Query]) -> Iterator[Query]:
        """Yield the queries while an engine begins with the next."""
        return self.scorer.reader.ahead(queries)

    def label(self, query: Query) -> LabeledQuery:
        """Return the difference of means of each passage and its standard error."""
        sampled = self.scorer.reader.responses(query.question, query.contexts)
        scores = [[self._metric(text, query.answers) for text in row.texts] for row in sampled]
        baseline, *means = [statistics.fmean(row) for row in scores]
        noise, *noises = [statistics.pvariance(row) / len(row) for row in scores]
        without, *others = [
            {"responses": [{"text": text, "score": score} for text, score in zip(row.texts, scored, strict=True)]}
            for row, scored in zip(sampled, scores, strict=True)
        ]
        return LabeledQuery(
            query,
            labels=tuple(mean - baseline for mean in means),
            std_errors=tuple(math.sqrt(noise + other) for other in noises),
            baseline={self.name: baseline, **without},
            details=tuple(others),
        )
