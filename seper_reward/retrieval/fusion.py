"""Reciprocal rank fusion of several retrievers."""

from collections.abc import Sequence

from seper_reward.retrieval.base import Retriever, checked_top_k
from seper_reward.types import Passage

_DEPTH = 100  # passages of each retriever, or more if more are wanted
_DAMPING = 60  # the paper's constant: larger values flatten the weights of the first ranks


class FusedRetriever:
    """Merges the results of several retrievers by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

    A passage's score is the sum of 1 / (60 + rank) over the retrievers that have it in their 100 (or ``top_k``) best.
    """

    def __init__(self, retrievers: Sequence[Retriever]) -> None:
        if not retrievers:
            raise ValueError("expected at least one retriever to fuse, got none")
        self._retrievers = list(retrievers)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages of each question as ``Retriever.retrieve``; in a tie, the passage found first."""
        depth = max(_DEPTH, top_k)
        checked_top_k(top_k, depth)
        rankings = [retriever.retrieve(questions, depth) for retriever in self._retrievers]
        return [reciprocal_rank_fusion(lists)[:top_k] for lists in zip(*rankings, strict=True)]


def reciprocal_rank_fusion(lists: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
    """Return all passages of several ranked lists, best first by the sum of 1 / (60 + rank), ranks from 1.

    >>> a, b, c = (Passage(text) for text in "abc")
    >>> [passage.text for passage in reciprocal_rank_fusion([[a, b, c], [b, c]])]
    ['b', 'c', 'a']
    """
    scores: dict[Passage, float] = {}
    for ranked in lists:
        for rank, passage in enumerate(ranked, 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (_DAMPING + rank)
    return tuple(sorted(scores, key=lambda passage: -scores[passage]))
