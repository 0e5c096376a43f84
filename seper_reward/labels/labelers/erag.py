"""eRAG: the downstream metric of the answer given one passage (Salemi and Zamani, arXiv:2404.13781)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch

from seper_reward.data.answers import AnswerMetric, answer_metric
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import difference, estimate
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.options import check_choice
from seper_reward.reader.prompted import ahead
from seper_reward.reader.sampler import GREEDY
from seper_reward.runtime.memory import in_batches
from seper_reward.scorer import SePerScorer
from seper_reward.types import Answers, Asked, Estimate, Passage, Query, Responses, UnscorableError

ERAGPreset = Literal["default", "paper", "official"]


@dataclass(frozen=True)
class ERAGOptions:
    """How a passage's label is computed from the reader's answers."""

    greedy: bool = False  # one greedy response (temperature 0), or the mean metric of the N responses of the scorer
    baseline: bool = True  # whether the metric without a passage is subtracted

    @classmethod
    def preset(cls, name: ERAGPreset) -> "ERAGOptions":
        """Return published options by name: ``"paper"`` and ``"official"`` (the package ``erag``) are greedy.

        ``"default"`` takes the mean over samples, which has less noise, less the mean without a passage: 0 means no
        change.
        """
        check_choice("preset", name, get_args(ERAGPreset))
        return cls() if name == "default" else cls(greedy=True, baseline=False)


class _Scored(NamedTuple):
    """The mean score of the responses in one context, and the score of each response."""

    mean: Estimate
    responses: list[dict[str, object]]


_NOT_ASKED = _Scored(Estimate(0.0, 0.0, 0.0, 0.0), [])


class ERAGLabeler(ReaderLabeler[_Scored]):
    """Labels a passage by the metric of the reader's responses with this passage alone.

    By default the label is the mean over samples, less the mean without a passage, in [-1, 1]; with the preset
    ``"paper"`` that of one greedy response, in [0, 1] and without errors. ``metric`` is a name of ``answer_metric``,
    or a callable of a response and the aliases.
    """

    samples = True

    def __init__(
        self, scorer: SePerScorer, metric: str | AnswerMetric = "exact_match", options: ERAGOptions = ERAGOptions()
    ) -> None:
        self._metric_name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        self.name = f"erag_{self._metric_name.rpartition(':')[2]}"
        self.options = options
        self._metric = answer_metric(metric) if isinstance(metric, str) else metric
        self.scorer = scorer.with_sampling(**GREEDY) if options.greedy else scorer

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that affects a label, JSON-able; of a metric only the name."""
        return {**super().fingerprint, "metric": self._metric_name, "erag": vars(self.options)}

    def ahead(self, batches: Iterable[Sequence[Query]]) -> Iterator[Sequence[Query]]:
        """Yield batches of queries; the next batches are announced to an engine first."""
        return ahead(self.scorer.reader, batches, self._known_answers, closed_book=self.options.baseline)

    def read(self, requests: Sequence[Asked], batch_size: int) -> list[list[_Scored] | UnscorableError]:
        """Score the reader's responses in each context; if no baseline is subtracted, the empty context scores 0."""
        reader = self.scorer.reader
        read = [replace(request, contexts=tuple(filter(self._is_read, request.contexts))) for request in requests]
        reader.expect(read[1:], self._known_answers)
        scores: list[list[_Scored] | UnscorableError] = []
        for batch, whole in zip(in_batches(read, batch_size), in_batches(requests, batch_size), strict=True):
            answers = list(map(self._known_answers, batch))
            for request, sampled in zip(whole, reader.responses(batch, answers), strict=True):
                if isinstance(sampled, UnscorableError):
                    scores.append(sampled)
                    continue
                scored = (self._score(responses, request.answers) for responses in sampled)
                scores.append([next(scored) if self._is_read(context) else _NOT_ASKED for context in request.contexts])
        return scores

    def gain(self, reading: _Scored, baseline: _Scored) -> Estimate:
        """Return the difference of the mean scores."""
        return difference(reading.mean, baseline.mean)

    def error(self, reading: _Scored) -> float:
        """Return the standard error of the mean score."""
        return reading.mean.std_error

    def baseline_fields(self, reading: _Scored) -> dict[str, object]:
        """Return the mean score without a passage and the responses; nothing if it is not subtracted."""
        if not self.options.baseline:
            return {}
        return {self.name: reading.mean.value, "std_error": reading.mean.std_error, "responses": reading.responses}

    def passage_fields(self, reading: _Scored, baseline: _Scored) -> dict[str, object]:
        """Return the interval of the label and the responses."""
        gain = self.gain(reading, baseline)
        return {"low": gain.low, "high": gain.high, "responses": reading.responses}

    def set_fields(self, reading: _Scored, baseline: _Scored) -> dict[str, object]:
        """Return the responses."""
        return {"responses": reading.responses}

    def _known_answers(self, request: Query | Asked) -> Sequence[str]:
        # the probabilities of the answers would not affect the weight of a single greedy response
        return () if self.options.greedy else self.scorer.known_answers(request)

    def _is_read(self, context: Sequence[Passage]) -> bool:
        return bool(context) or self.options.baseline

    def _score(self, sampled: Responses, answers: Answers) -> _Scored:
        """Return the mean score over all responses, weighted by the scorer's estimator, and the score of each."""
        draws = weigh(self.scorer.estimator, sampled)
        scores = [float(self._metric(text, answers)) for text in draws.responses.texts]
        if any(not 0 <= score <= 1 for score in scores):
            raise ValueError(f"the metric of {self.name} must be in [0, 1], got {scores}; scale it")
        scored = [
            {"text": text, "count": count, "score": score}
            for text, count, score in zip(draws.responses.texts, draws.counts.tolist(), scores, strict=True)
        ]
        if self.options.greedy:  # greedy responses have no sampling error
            return _Scored(Estimate(scores[0], 0.0, scores[0], scores[0]), scored)
        return _Scored(estimate(draws, torch.tensor(scores)), scored)
