"""ΔSePer as a label (SePer, arXiv:2503.01478, eq. 11)."""

from collections.abc import Iterable, Iterator

from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query


class DeltaSePerLabeler:
    """Labels a passage by how far it moves the reader's belief in the gold answer, in [-1, 1].

    Args:
        scorer: measures the beliefs.
        hard: hard matching of clusters instead of soft; its standard error is that of the soft label.
    """

    def __init__(self, scorer: SePerScorer, hard: bool = False) -> None:
        self.name = "delta_seper_hard" if hard else "delta_seper"
        self._scorer, self._hard = scorer, hard

    def ahead(self, queries: Iterable[Query]) -> Iterator[Query]:
        """Yield the queries while an engine begins with the next (see ``SePerScorer.ahead``)."""
        return self._scorer.ahead(queries)

    def label(self, query: Query) -> LabeledQuery:
        """Return ΔSePer of each passage and its standard error."""
        utilities = self._scorer.query_utilities(query)
        return LabeledQuery(
            query,
            labels=tuple(row.delta_seper_hard if self._hard else row.delta_seper for row in utilities),
            std_errors=tuple(row.std_error for row in utilities),
        )
