"""What labelling costs: the labels of all questions, with the reader's calls, tokens and seconds."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from seper_reward.labels import loop
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.runtime.profiling import profiling
from seper_reward.statistics import rounded
from seper_reward.types import LabeledQuery, Query, UnscorableError


class Labelled(NamedTuple):
    """What a labeler made of questions.

    Attributes:
        rows: Per question its labels, or why it has none.
        costs: ``seconds``, and of the reader ``calls`` (prompts), ``prompt_tokens`` and ``response_tokens``, in all;
            what a cache knew already cost nothing.
    """

    rows: list[LabeledQuery | UnscorableError]
    costs: dict[str, float]

    @property
    def reasons(self) -> list[str]:
        """Why questions have no labels, one reason for each of them."""
        return [str(row) for row in self.rows if isinstance(row, UnscorableError)]

    def per(self, count: int) -> dict[str, float | None]:
        """Return the costs per one of so many labels or questions; ``None`` of none."""
        return {name: rounded(cost / count) if count else None for name, cost in self.costs.items()}


def label_all(labeler: PassageLabeler, queries: Sequence[Query]) -> Labelled:
    """Label questions in memory, and measure the cost."""
    before = time.perf_counter()
    with profiling() as profile:
        rows = [labeled for _, labeled in loop.label_all(labeler, queries)]
    counts = {name: float(profile.counts[name]) for name in ("calls", "prompt_tokens", "response_tokens")}
    return Labelled(rows, {"seconds": time.perf_counter() - before, **counts})
