"""A cache of search results that also batches the queries of several threads."""

import threading
from collections.abc import Sequence
from typing import Any

from seper_reward.retrieval.base import Retriever
from seper_reward.types import Passage

_SIZE = 65536  # queries


class CachedRetriever:
    """Caches the results of a retriever, and sends it many queries in one call.

    A batch consists of the queries that other threads sent during the previous search. Embeddings of a batch differ in
    low digits, so near-ties can be ranked differently. A full cache is emptied.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._found: dict[tuple[str, int], tuple[Passage, ...]] = {}
        self._waiting: dict[str, None] = {}  # in order, each once
        self._asking = threading.Lock()

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages of each question; other threads' queries that the retriever rejects are dropped."""
        results = [self._found.get((question, top_k)) for question in questions]
        if None not in results:
            return [passages for passages in results if passages is not None]
        self._waiting |= dict.fromkeys(questions)  # batched into the next search
        with self._asking:
            known, waiting, self._waiting = self._found, self._waiting, {}
            missing = [query for query in dict.fromkeys([*questions, *waiting]) if (query, top_k) not in known]
            if missing:
                if len(known) + len(missing) > _SIZE:
                    known = {key: known[key] for question in questions if (key := (question, top_k)) in known}
                known |= self._ask(missing, set(questions), top_k)
                self._found = known
            return [known[question, top_k] for question in questions]

    def _ask(self, missing: Sequence[str], wanted: set[str], top_k: int) -> dict[tuple[str, int], tuple[Passage, ...]]:
        try:
            passages = self._retriever.retrieve(missing, top_k)
        except ValueError:
            if wanted.issuperset(missing):
                raise
            missing = [query for query in missing if query in wanted]
            passages = self._retriever.retrieve(missing, top_k)
        return {(query, top_k): ranked for query, ranked in zip(missing, passages, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the cache and the lock out of a pickle."""
        return CachedRetriever, (self._retriever,)
