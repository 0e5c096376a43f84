"""What a labeler is: whatever judges how much a passage helps to answer a question."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, UnscorableError


class PassageLabeler(Protocol):
    """Judges each passage of a query by itself; subclass it to write one.

    Attributes:
        name: Name of the labels: of the field of label rows that holds them.
        scorer: Whose reader is asked; ``None`` if no reader is.
    """

    name: str
    scorer: SePerScorer | None = None

    def label(self, query: Query) -> LabeledQuery:
        """Return one label and one standard error per passage.

        Raises:
            UnscorableError: This query cannot be judged, others can.
        """

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything of this labeler that decides a label, JSON-able."""
        return {"labeler": self.name, **(self.scorer.fingerprint if self.scorer is not None else {})}

    @property
    def device(self) -> torch.device:
        """Where labels are computed, for provenance; where the reader is on a server, where the judge is."""
        if self.scorer is None:
            return torch.device("cpu")
        return self.scorer.sampler.device or self.scorer.entailment.device

    def ahead(self, queries: Iterable[Query]) -> Iterator[Query]:
        """Yield the queries; one that samples lets an engine begin with the next (``PromptedReader.ahead``)."""
        return iter(queries)

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries, side by side where that is faster; return errors in the place of labels."""
        return [self.attempt(query) for query in queries]

    def attempt(self, query: Query) -> LabeledQuery | UnscorableError:
        """Return what ``label`` returns, or the error that it raises."""
        try:
            return self.label(query)
        except UnscorableError as error:
            return error
