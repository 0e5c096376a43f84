"""The protocols of labelers, which measure how much a passage helps to answer a question."""

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import torch

from seper_reward.reader.prompted import ahead
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Estimate, LabeledQuery, Query, UnscorableError, attempt, unwrap

R = TypeVar("R")


class PassageLabeler(Protocol):
    """Labels each passage of a query separately; subclasses define either ``label`` or ``label_batch``."""

    name: str  # of the labels, and of their field in label rows
    scorer: SePerScorer | None = None  # with the reader; None for labelers without a reader
    samples: bool = False  # whether labels come from the reader's sampled responses, which an engine can sample ahead
    needs_answers: bool = True  # whether a query must have a gold answer

    def label(self, query: Query) -> LabeledQuery:
        """Return one label and one error per passage of a query; ``UnscorableError`` if it cannot be labelled."""
        if type(self).label_batch is PassageLabeler.label_batch:
            raise TypeError(f"{type(self).__name__} must define label(query) or label_batch(queries)")
        return unwrap(self.label_batch([query])[0])

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries in one batch, on which low digits can depend; an error replaces a query's labels."""
        return [attempt(functools.partial(self.label, query)) for query in queries]

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything in this labeler that affects a label, JSON-able; of a callable only the name."""
        return {"labeler": self.name, **(self.scorer.fingerprint if self.scorer is not None else {})}

    @property
    def device(self) -> torch.device:
        """Device that affects low digits: the reader's, or the judge's if the reader is on a server; else the CPU."""
        if self.scorer is None:
            return torch.device("cpu")
        return self.scorer.sampler.device or self.scorer.entailment.device

    def ahead(self, batches: Iterable[Sequence[Query]]) -> Iterator[Sequence[Query]]:
        """Yield batches of queries; a labeler that samples announces the next batches to an engine first."""
        if self.scorer is None or not self.samples:
            return iter(batches)
        return ahead(self.scorer.reader, batches, self.scorer.known_answers)


@runtime_checkable
class ReaderLabeler(PassageLabeler, Protocol[R]):
    """Labels by a measure ``R`` of the reader in a context: the gain of the measure from added passages, or sets."""

    scorer: SePerScorer

    @abstractmethod
    def read(self, requests: Sequence[Asked], batch_size: int) -> list[list[R] | UnscorableError]:
        """Return per question the reader's measure in each context, or its error; ``batch_size`` records are a batch.

        Contexts that begin with the same passages are cheaper in one record (prefix sharing).
        """

    @abstractmethod
    def gain(self, reading: R, baseline: R) -> Estimate:
        """Return the label of passages: the measure with them less the measure in the context they are added to."""

    def error(self, reading: R) -> float:
        """Return the standard error in labels that is due to the context that passages are added to."""
        return 0.0

    def baseline_fields(self, reading: R) -> Mapping[str, object]:
        """Return the fields of a label row for the context without a passage."""
        return {}

    def passage_fields(self, reading: R, baseline: R) -> Mapping[str, object]:
        """Return the fields of a label row for a single passage, next to the label and its error."""
        return {}

    def set_fields(self, reading: R, baseline: R) -> Mapping[str, object]:
        """Return the fields of a label row for several passages together, next to labels and errors."""
        return {}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries in one batch, which is faster if one query does not fill the device."""
        requests = [Asked(query.question, query.answers, tuple(query.contexts)) for query in queries]
        readings = self.read(requests, len(queries))
        return [
            read if isinstance(read, UnscorableError) else attempt(functools.partial(self.labeled, query, read))
            for query, read in zip(queries, readings, strict=True)
        ]

    def labeled(self, query: Query, readings: Sequence[R]) -> LabeledQuery:
        """Return the labels of a query's passages from the measures in its ``contexts``."""
        baseline, *others = readings
        gains = [self.gain(reading, baseline) for reading in others]
        return LabeledQuery(
            query,
            labels=tuple(gain.value for gain in gains),
            std_errors=tuple(gain.std_error for gain in gains),
            baseline_error=self.error(baseline),
            baseline=self.baseline_fields(baseline),
            details=tuple(self.passage_fields(reading, baseline) for reading in others),
        )
