"""Learned sparse retrieval (SPLADE v2, arXiv:2109.10086): words that a text has or implies, with weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from seper_reward.retrieval.base import checked_top_k
from seper_reward.types import Passage


class SparseRetriever:
    """Exact search by the inner product of a sparse encoder's vectors, over a corpus held in memory.

    Args:
        encoder: A ``SparseEncoder`` of sentence-transformers.
        corpus: Passages by id.
        batch_size: Number of texts per forward pass, and of questions that are compared with the corpus at once.
    """

    def __init__(self, encoder: Any, corpus: Mapping[str, Passage], batch_size: int = 64) -> None:
        self._encoder, self._passages, self._batch_size = encoder, list(corpus.values()), batch_size
        self._vectors = self._embed(encoder.encode_document, [passage.full_text for passage in self._passages])

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages for each question, best first: fewer where fewer share a word with it.

        Raises:
            ValueError: ``top_k`` is below 1.
        """
        top_k = checked_top_k(top_k, len(self._passages))
        found: list[tuple[Passage, ...]] = []
        for start in range(0, len(questions), self._batch_size):
            vectors = self._embed(self._encoder.encode_query, questions[start : start + self._batch_size])
            scores, places = torch.sparse.mm(self._vectors, vectors.to_dense().T).T.topk(top_k)
            found += [
                tuple(self._passages[place] for place, score in zip(*row, strict=True) if score > 0)
                for row in zip(places.tolist(), scores.tolist(), strict=True)
            ]
        return found

    def _embed(self, encode: Any, texts: Sequence[str]) -> Any:
        return encode(list(texts), batch_size=self._batch_size, show_progress_bar=False)
