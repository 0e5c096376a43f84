"""Retrieval utility from beliefs (ΔSePer, arXiv:2503.01478, eq. 11): pure."""

import math
from collections.abc import Sequence

from seper_reward.types import Belief, Query, Utility


def utility(belief: Belief, baseline: Belief, passage_id: str = "") -> Utility:
    """Return how far the passage moved the reader's belief: U = SePer(q, A | D) - SePer(q, A).

    The two beliefs come from independent samples, so their squared standard errors add up. A belief compared
    with itself has moved by exactly 0, with standard error 0.
    """
    same = belief is baseline
    return Utility(
        delta_seper=belief.seper - baseline.seper,
        delta_seper_hard=belief.seper_hard - baseline.seper_hard,
        std_error=0.0 if same else math.hypot(belief.std_error, baseline.std_error),
        belief=belief,
        baseline=baseline,
        passage_id=passage_id,
    )


def query_utilities(query: Query, beliefs: Sequence[Belief]) -> list[Utility]:
    """Return the utility of each passage of a query, from the beliefs in its ``contexts``: none, then each passage."""
    baseline, *others = beliefs
    return [utility(belief, baseline, passage.id) for passage, belief in zip(query.passages, others, strict=True)]
