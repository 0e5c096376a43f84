"""eRAG: the downstream metric of the answer given one passage (Salemi and Zamani, arXiv:2404.13781)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from seper_reward.data.answers import AnswerMetric, answer_metric
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import difference, estimate
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import Answers, Asked, Estimate, Responses, UnscorableError


class _Scored(NamedTuple):
    """The mean score of the responses in one context, and each response with its own."""

    mean: Estimate
    responses: list[dict[str, Any]]


class ERAGLabeler(ReaderLabeler[_Scored]):
    """Labels a passage by the metric of the responses with it alone, less that without a passage, in [-1, 1].

    eRAG itself takes one response and no difference. The mean over the samples estimates the same with less noise.
    What is subtracted is constant in a question: rankings stay the same, and 0 means that a passage changes nothing.

    Args:
        scorer: Scorer whose reader answers.
        metric: Name of a metric (see ``answer_metric``), or a callable of a response and the gold answer (aliases or,
            where it is a list, the aliases of each item) that returns a number in [0, 1].
    """

    samples = True

    def __init__(self, scorer: SePerScorer, metric: str | AnswerMetric = "exact_match") -> None:
        self.name = f"erag_{metric if isinstance(metric, str) else getattr(metric, '__name__', 'metric')}"
        self._metric = answer_metric(metric) if isinstance(metric, str) else metric
        self.scorer = scorer

    def read(self, asked: Sequence[Asked], *, together: bool = False) -> list[list[_Scored] | UnscorableError]:
        """Score the reader's responses in each context."""
        for each in asked[1:]:
            self.scorer.reader.expect(each.question, each.contexts)
        return [self._read(each) for each in asked]

    def gain(self, reading: _Scored, given: _Scored) -> Estimate:
        """Return the difference of the mean scores."""
        return difference(reading.mean, given.mean)

    def error(self, reading: _Scored) -> float:
        """Return the standard error of the mean score."""
        return reading.mean.std_error

    def baseline_fields(self, reading: _Scored) -> dict[str, Any]:
        """Return the mean score without a passage and the responses."""
        return {self.name: reading.mean.value, "std_error": reading.mean.std_error, "responses": reading.responses}

    def passage_fields(self, reading: _Scored, baseline: _Scored) -> dict[str, Any]:
        """Return the interval of the label and the responses."""
        gain = self.gain(reading, baseline)
        return {"low": gain.low, "high": gain.high, "responses": reading.responses}

    def set_fields(self, reading: _Scored) -> dict[str, Any]:
        """Return the responses."""
        return {"responses": reading.responses}

    def _read(self, asked: Asked) -> list[_Scored] | UnscorableError:
        try:
            sampled = self.scorer.responses(asked.question, asked.answers, asked.contexts)
        except UnscorableError as error:
            return error
        return [self._scored(row, asked.answers) for row in sampled]

    def _scored(self, sampled: Responses, answers: Answers) -> _Scored:
        """Return the mean score over all responses, as the scorer's estimator weighs them, and each one's score."""
        draws = weigh(self.scorer.estimator, sampled)
        scores = [float(self._metric(text, answers)) for text in draws.responses.texts]
        if any(not 0 <= score <= 1 for score in scores):
            raise ValueError(f"the metric of {self.name} must be in [0, 1], got {scores}; scale it")
        rows = [
            {"text": text, "count": count, "score": score}
            for text, count, score in zip(draws.responses.texts, draws.counts.tolist(), scores, strict=True)
        ]
        return _Scored(estimate(draws, torch.tensor(scores)), rows)
