"""Retrieval utility from beliefs (ΔSePer, arXiv:2503.01478, eq. 11): pure."""

from collections.abc import Sequence

from seper_reward.estimators.draws import difference
from seper_reward.types import Belief, Estimate, Query, Utility


def utility(belief: Belief, baseline: Belief, passage_id: str = "") -> Utility:
    """Return how far the passage moved the reader's belief: U = SePer(q, A | D) - SePer(q, A).

    The two beliefs come from independent samples (``difference``). A belief compared with itself has moved by exactly
    0, with standard error 0.
    """
    unmoved = Estimate(0.0, 0.0, 0.0, 0.0)
    same = belief is baseline
    return Utility(
        soft=unmoved if same else difference(belief.soft, baseline.soft),
        hard=unmoved if same else difference(belief.hard, baseline.hard),
        belief=belief,
        baseline=baseline,
        passage_id=passage_id,
    )


def query_utilities(query: Query, beliefs: Sequence[Belief]) -> list[Utility]:
    """Return the utility of each passage of a query, from the beliefs in its ``contexts``: none, then each passage."""
    baseline, *others = beliefs
    return [utility(belief, baseline, passage.id) for passage, belief in zip(query.passages, others, strict=True)]
