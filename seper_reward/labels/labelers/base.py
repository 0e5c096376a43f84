"""What a labeler is: whatever measures how much a passage helps to answer a question."""

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch

from seper_reward.reader.prompted import ahead
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Estimate, LabeledQuery, Query, UnscorableError, attempt, unwrap

R = TypeVar("R")


class PassageLabeler(Protocol):
    """Labels each passage of a query by itself; subclass it to write one, with either ``label`` or ``label_batch``.

    Attributes:
        name: Name of the labels, which is the field of label rows that holds them.
        scorer: Scorer whose reader is asked; ``None`` if no reader is.
        samples: Whether labels come from the reader's sampled responses, which an engine can begin ahead.
        whole: Whether labels depend on which passages a query has, so that they are made anew with any other ones.
        needs_answers: Whether a query must have a gold answer.
    """

    name: str
    scorer: SePerScorer | None = None
    samples: bool = False
    whole: bool = False
    needs_answers: bool = True

    def label(self, query: Query) -> LabeledQuery:
        """Return one label and one standard error per passage of one query.

        Raises:
            UnscorableError: This query cannot be labelled, others can.
        """
        if type(self).label_batch is PassageLabeler.label_batch:
            raise TypeError(f"{type(self).__name__} must define label(query) or label_batch(queries)")
        return unwrap(self.label_batch([query])[0])

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries side by side; a query that cannot be labelled has its error in the place of labels.

        In low digits, labels may depend on the whole batch.
        """
        return [attempt(functools.partial(self.label, query)) for query in queries]

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything of this labeler that decides a label, JSON-able; a callable counts by its name alone."""
        return {"labeler": self.name, **(self.scorer.fingerprint if self.scorer is not None else {})}

    @property
    def device(self) -> torch.device:
        """Device that decides low digits: the reader's, or the judge's if the reader is on a server; else the CPU."""
        if self.scorer is None:
            return torch.device("cpu")
        return self.scorer.sampler.device or self.scorer.entailment.device

    def ahead(self, batches: Iterable[Sequence[Query]]) -> Iterator[Sequence[Query]]:
        """Yield batches of queries; a labeler that samples announces the next ones to an engine before."""
        if self.scorer is None or not self.samples:
            return iter(batches)
        return ahead(self.scorer.reader, batches)


@runtime_checkable
class ReaderLabeler(PassageLabeler, Protocol[R]):
    """Labels by a measure of the reader in a context: a label is what the measure gains with more passages there.

    ``R`` is what is measured in one context. Subclass it to write a labeler that asks a reader; it then labels sets
    of passages, too.
    """

    scorer: SePerScorer

    @abstractmethod
    def read(self, asked: Sequence[Asked], batch_size: int) -> list[list[R] | UnscorableError]:
        """Measure the reader in the contexts of several questions.

        Args:
            asked: Questions with their contexts. Contexts that begin with the same passages are cheaper in one record.
            batch_size: Number of the records that are measured side by side, >= 1.

        Returns:
            Per record what was measured in each context, or why it cannot be measured.
        """

    @abstractmethod
    def gain(self, reading: R, given: R) -> Estimate:
        """Return the label of passages: the measure with them less that in the context they are added to.

        Raises:
            UnscorableError: This labeler has no label for such a question.
        """

    @abstractmethod
    def error(self, reading: R) -> float:
        """Return the standard error that a context, as the one that passages are added to, leaves in their labels."""

    def baseline_fields(self, reading: R) -> Mapping[str, Any]:
        """Return the fields of a label row for the context without a passage."""
        return {}

    def passage_fields(self, reading: R, baseline: R) -> Mapping[str, Any]:
        """Return the fields of a label row for a passage by itself, beside the label and its error."""
        return {}

    def set_fields(self, reading: R) -> Mapping[str, Any]:
        """Return the fields of a label row for several passages together, beside labels and errors."""
        return {}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries side by side, which is faster if one query does not fill the device."""
        asked = [Asked(query.question, query.answers, tuple(query.contexts)) for query in queries]
        readings = self.read(asked, len(queries))
        return [
            row if isinstance(row, UnscorableError) else attempt(functools.partial(self.labeled, query, row))
            for query, row in zip(queries, readings, strict=True)
        ]

    def labeled(self, query: Query, readings: Sequence[R]) -> LabeledQuery:
        """Return the labels of a query's passages from what was measured in its ``contexts``."""
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
