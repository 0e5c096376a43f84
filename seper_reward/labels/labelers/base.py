"""What a labeler is: whatever measures how much a passage helps to answer a question."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, UnscorableError


class PassageLabeler(Protocol):
    """Labels each passage of a query by itself; subclass it to write one.

    Attributes:
        name: Name of the labels, which is the field of label rows that holds them.
        scorer: Scorer whose reader is asked; ``None`` if no reader is.
        samples: Whether labels come from the reader's sampled responses, which an engine can begin ahead.
        side_by_side: Whether ``label_block`` labels several queries faster than one after another.
    """

    name: str
    scorer: SePerScorer | None = None
    samples: bool = False
    side_by_side: bool = False

    def label(self, query: Query) -> LabeledQuery:
        """Return one label and one standard error per passage.

        Raises:
            UnscorableError: This query cannot be labelled, others can.
        """

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

    def ahead(self, queries: Iterable[Query]) -> Iterator[Query]:
        """Yield the queries; a labeler that samples tells an engine of the next ones before it yields one."""
        if self.scorer is None or not self.samples:
            return iter(queries)
        return self.scorer.reader.ahead(queries)

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries; one that cannot be labelled has its error in the place of labels."""
        return [self.attempt(query) for query in queries]

    def attempt(self, query: Query) -> LabeledQuery | UnscorableError:
        """Return what ``label`` returns, or the error that it raises."""
        try:
            return self.label(query)
        except UnscorableError as error:
            return error
