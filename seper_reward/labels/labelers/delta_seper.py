"""ΔSePer as a label (SePer, arXiv:2503.01478, eq. 11)."""

from collections.abc import Sequence
from typing import Any

from seper_reward.estimators.utility import query_utilities
from seper_reward.labels.blocks import block_beliefs
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.rows import belief_fields, utility_fields
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, LabeledQuery, Query, UnscorableError


class DeltaSePerLabeler(PassageLabeler):
    """Labels a passage by how far it moves the reader's belief in the gold answer, in [-1, 1].

    Args:
        scorer: Scorer that measures the beliefs.
        hard: Whether labels come from hard SePer instead of soft; standard errors are those of the soft labels.
    """

    scorer: SePerScorer
    samples = side_by_side = True

    def __init__(self, scorer: SePerScorer, hard: bool = False) -> None:
        self.name = "delta_seper_hard" if hard else "delta_seper"
        self.scorer, self._hard = scorer, hard

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides a label; equal for soft and hard labels, which the same rows hold."""
        return self.scorer.fingerprint

    def label(self, query: Query) -> LabeledQuery:
        """Return ΔSePer of each passage and its standard error."""
        return self._labeled(query, self.scorer.beliefs(query.question, query.answers, query.contexts))

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries together: sampled side by side, and judged in the same batches.

        This is faster where one query does not fill the device. In low digits the labels depend on the whole block.
        """
        if len(queries) == 1:
            return [self.attempt(queries[0])]
        return [
            beliefs if isinstance(beliefs, UnscorableError) else self._labeled(query, beliefs)
            for query, beliefs in zip(queries, block_beliefs(self.scorer, queries), strict=True)
        ]

    def _labeled(self, query: Query, beliefs: Sequence[Belief]) -> LabeledQuery:
        utilities = query_utilities(query, beliefs)
        return LabeledQuery(
            query,
            labels=tuple(row.delta_seper_hard if self._hard else row.delta_seper for row in utilities),
            std_errors=tuple(row.std_error for row in utilities),
            baseline_error=beliefs[0].std_error,
            baseline=belief_fields(beliefs[0]),
            details=tuple(map(utility_fields, utilities)),
        )
