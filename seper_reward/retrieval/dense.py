"""Dense retrieval: embeddings by sentence-transformers, search by faiss."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seper_reward.retrieval.base import checked_top_k
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.imports import need
from seper_reward.types import Passage

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EXACT_BELOW = 50_000  # passages; larger corpora are searched approximately
_LISTS_PER_PROBE = 16  # approximate search compares one of this many lists


class DenseRetriever:
    """Search by similarity of a bi-encoder's embeddings, cosine or dot product, over a corpus in memory.

    It can be pickled, even for processes without an accelerator. ``encoder`` is a ``SentenceTransformer``, ``dtype``
    that of ``Embedder``; with ``share`` each process embeds its share of the corpus, and gets the whole index;
    ``cache_dir`` stores embeddings; ``index`` is a ready faiss index of inner products, in the order of the corpus.
    Raises ``OSError`` without faiss, ``ValueError`` if the index does not fit, or the similarity is neither of both.
    """

    def __init__(
        self,
        encoder: "SentenceTransformer",
        corpus: Mapping[str, Passage],
        share: bool = False,
        dtype: torch.dtype | None = None,
        cache_dir: Path | None = None,
        index: Any = None,
    ) -> None:
        self._embedder, self.passages = Embedder(encoder, dtype), list(corpus.values())
        if index is None:
            texts = [passage.full_text for passage in self.passages]
            index = build_index(self._embedder.passages(texts, cache_dir, share))
        elif (index.ntotal, index.d) != (shape := (len(corpus), encoder.get_embedding_dimension())):
            raise ValueError(
                f"index must hold {shape[0]} vectors, one per passage, of the encoder's {shape[1]} dimensions, got "
                f"{index.ntotal} of {index.d}"
            )
        self.index = index

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages of each question as ``Retriever.retrieve``."""
        top_k = checked_top_k(top_k, len(self.passages))
        if not questions:
            return []
        _, nearest = self.index.search(self._embedder.questions(questions), top_k)
        # -1 if an approximate index finds fewer
        return [tuple(self.passages[place] for place in places if place >= 0) for places in nearest.tolist()]


def build_index(vectors: np.ndarray, exact: bool | None = None) -> Any:
    """Return a faiss index of inner products over the rows of ``vectors``, fp32 of shape (passages, dimension).

    It is exact by default below ``EXACT_BELOW`` passages; else only the clusters nearest to a question are compared.
    """
    faiss = need("faiss", "retrieval")
    passages, dimension = vectors.shape
    if passages < EXACT_BELOW if exact is None else exact:
        index = faiss.index_factory(dimension, "Flat", faiss.METRIC_INNER_PRODUCT)
    else:
        lists = min(4 * math.isqrt(passages), passages)  # faiss recommends 4 to 16 times the root
        index = faiss.index_factory(dimension, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
        index.nprobe = math.ceil(lists / _LISTS_PER_PROBE)
    index.train(vectors)
    index.add(vectors)
    return index
