"""The protocol of all retrievers."""

from collections.abc import Sequence
from typing import Protocol

from seper_reward.types import Passage


class Retriever(Protocol):
    """Finds passages in one corpus."""

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages for each question, best first.

        Fewer are returned if the corpus is smaller or, for retrievers by words, if no further passage matches. Raises
        ``ValueError`` if ``top_k`` is below 1.
        """


def checked_top_k(top_k: int, most: int) -> int:
    """Return the smaller of ``top_k`` and ``most``, the size of a corpus; below 1 it raises ``ValueError``."""
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    return min(top_k, most)
