"""ΔSePer as a label (SePer, arXiv:2503.01478, eq. 11)."""

from collections.abc import Sequence
from typing import Any

from seper_reward.estimators.seper import check_choice
from seper_reward.estimators.utility import query_utilities
from seper_reward.labels.blocks import block_beliefs
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.rows import DELTA_SEPER, SUFFIXES, baseline_error, belief_fields, utility_fields
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, LabeledQuery, Query, UnscorableError


class DeltaSePerLabeler(PassageLabeler):
    """Labels a passage by how far it moves the reader's belief in the gold answer, in [-1, 1].

    Args:
        scorer: Scorer that measures the beliefs.
        name: Which of the numbers in the rows is the label: ``"delta_seper"`` (soft), ``"delta_seper_hard"``, or
            ``"delta_belief"``, half ΔSePer and half the change of the answer's own likelihood
            (``utility.combined``).

    Raises:
        ValueError: There is no such label, or the scorer does not know how likely the answer is.
    """

    scorer: SePerScorer
    samples = side_by_side = True

    def __init__(self, scorer: SePerScorer, name: str = DELTA_SEPER) -> None:
        check_choice("label", name, tuple(SUFFIXES))
        if name == "delta_belief" and not (scorer.known_answers(["x"]) and scorer.sampler.knows_leaves):
            raise ValueError(
                "delta_belief needs the answers' own probabilities: a reader in this process that does not think, and "
                "weighting=mass; take delta_seper"
            )
        self.name, self.scorer = name, scorer

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides a label; equal for all three labels, which the same rows hold."""
        return self.scorer.fingerprint

    def label(self, query: Query) -> LabeledQuery:
        """Return the label of each passage and its standard error."""
        return self._labeled(query, self.scorer.beliefs(query.question, query.answers, query.contexts))

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries together: sampled side by side, and judged in the same batches.

        This is faster where one query does not fill the device. In low digits the labels depend on the whole block.
        """
        if len(queries) == 1:
            return [self.attempt(queries[0])]
        return [
            self._labeled_or_error(query, beliefs)
            for query, beliefs in zip(queries, block_beliefs(self.scorer, queries), strict=True)
        ]

    def _labeled_or_error(
        self, query: Query, beliefs: Sequence[Belief] | UnscorableError
    ) -> LabeledQuery | UnscorableError:
        try:
            return beliefs if isinstance(beliefs, UnscorableError) else self._labeled(query, beliefs)
        except UnscorableError as error:
            return error

    def _labeled(self, query: Query, beliefs: Sequence[Belief]) -> LabeledQuery:
        details = tuple(map(utility_fields, query_utilities(query, beliefs)))
        baseline = belief_fields(beliefs[0])
        if any(detail[self.name] is None for detail in details):
            raise UnscorableError(
                f"{self.name} needs to know how likely the answer is, but a list has no one wording; take delta_seper"
            )
        return LabeledQuery(
            query,
            labels=tuple(detail[self.name] for detail in details),
            std_errors=tuple(detail[f"std_error{SUFFIXES[self.name]}"] for detail in details),
            baseline_error=baseline_error(baseline, self.name),
            baseline=baseline,
            details=details,
        )
