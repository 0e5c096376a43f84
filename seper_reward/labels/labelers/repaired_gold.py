"""People's marks with ΔSePer as repair of false negatives: passages that help but were never marked."""

from collections.abc import Sequence

from seper_reward.data.marks import is_relevant
from seper_reward.data.rows import BadRowError
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, UnscorableError


class RepairedGoldLabeler(PassageLabeler):
    """Labels a passage 1 if people marked it relevant or ΔSePer finds it helpful, else 0; standard errors are 0.

    People mark few of the passages that hold an answer, and a trainer takes the others for negatives (RocketQA,
    arXiv:2010.08191, drops them by a cross-encoder's score). Here a passage is helpful if the whole 95 % interval of
    its hard ΔSePer is above a margin: soft ΔSePer also rises where the reader's "unknown" becomes a wrong answer to
    which the entailment model gives some support (docs/results.md, "False negatives among mined ones").

    Args:
        scorer: Scorer that measures ΔSePer.
        margin: How far above 0 the interval must be, >= 0.
    """

    name = "repaired_gold"
    scorer: SePerScorer
    samples = side_by_side = True

    def __init__(self, scorer: SePerScorer, margin: float = 0.05) -> None:
        self.scorer, self._margin = scorer, margin

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that decides a label, JSON-able."""
        return {"labeler": self.name, "label": "delta_seper_hard", "margin": self._margin, **self.scorer.fingerprint}

    @property
    def _delta_seper(self) -> DeltaSePerLabeler:
        return DeltaSePerLabeler(self.scorer, "delta_seper_hard")  # of the scorer that it has now (``closed_book``)

    def label(self, query: Query) -> LabeledQuery:
        """Return the mark of each passage, repaired.

        Raises:
            BadRowError: A mark is neither true nor false.
        """
        return self._repaired(query, self._delta_seper.label(query))

    def label_block(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries, sampled side by side and judged in one batch."""
        found = self._delta_seper.label_block(queries)
        return [self._attempt(query, measured) for query, measured in zip(queries, found, strict=True)]

    def _attempt(self, query: Query, measured: LabeledQuery | UnscorableError) -> LabeledQuery | UnscorableError:
        if isinstance(measured, UnscorableError):
            return measured
        try:
            return self._repaired(query, measured)
        except BadRowError as error:
            return error

    def _repaired(self, query: Query, measured: LabeledQuery) -> LabeledQuery:
        labels = tuple(
            float(is_relevant(passage) or detail["low_hard"] > self._margin)
            for passage, detail in zip(query.passages, measured.details, strict=True)
        )
        details = tuple({"delta_seper_hard": value} for value in measured.labels)
        return LabeledQuery(query, labels, (0.0,) * len(labels), details=details)
