"""A retriever that is asked once for each query, and for those of several rollouts together."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from seper_reward.retrieval.base import Retriever
from seper_reward.types import Passage


class CachedRetriever:
    """Remembers what a retriever found, and asks it for many queries at once.

    A dense retriever embeds a batch of queries much faster than one query after another. Batches are made of queries
    that threads asked for while another search was under way, as with ``AsyncGRPOTrainer``, and of queries that
    ``expect`` announced, as ``prefetch_searches`` does for TRL's other trainers. Embeddings of a batch differ from
    those of single queries in low digits, so that near-ties may rank otherwise.

    Args:
        retriever: Retriever to ask.
        size: Number of queries that are remembered, >= 1; when there are more, all are forgotten.

    Raises:
        ValueError: ``size`` is below 1.
    """

    def __init__(self, retriever: Retriever, size: int = 65536) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self._retriever, self._size = retriever, size
        self._found: dict[tuple[str, int], tuple[Passage, ...]] = {}
        self._expected: dict[str, None] = {}  # in order, each once
        self._asking = threading.Lock()

    def expect(self, queries: Iterable[str]) -> None:
        """Announce queries that will be asked: the next search that is not remembered asks for all of them."""
        self._expected |= dict.fromkeys(queries)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages for each question, best first.

        Raises:
            ValueError: ``top_k`` is below 1, or the retriever refuses one of these questions; what it refuses of
                others, it is asked without.
        """
        found = [self._found.get((each, top_k)) for each in questions]
        if None not in found:
            return [each for each in found if each is not None]
        self.expect(questions)  # whoever asks next asks for these, too
        with self._asking:
            known, expected, self._expected = self._found, self._expected, {}
            missing = [each for each in dict.fromkeys([*questions, *expected]) if (each, top_k) not in known]
            if missing:
                if len(known) + len(missing) > self._size:
                    known = {key: known[key] for each in questions if (key := (each, top_k)) in known}
                known |= self._ask(missing, set(questions), top_k)
                self._found = known
            return [known[each, top_k] for each in questions]

    def _ask(self, missing: Sequence[str], wanted: set[str], top_k: int) -> dict[tuple[str, int], tuple[Passage, ...]]:
        try:
            passages = self._retriever.retrieve(missing, top_k)
        except ValueError:
            if wanted.issuperset(missing):
                raise
            missing = [each for each in missing if each in wanted]
            passages = self._retriever.retrieve(missing, top_k)
        return {(each, top_k): row for each, row in zip(missing, passages, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave what was found, and the lock, out of a pickle."""
        return CachedRetriever, (self._retriever, self._size)
