"""Dense retrieval: embeddings by sentence-transformers, search by faiss."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seper_reward.retrieval.base import checked_top_k
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.imports import need
from seper_reward.types import Passage

EXACT_BELOW = 50_000  # passages; larger corpora are searched approximately
_LISTS_PER_PROBE = 16  # approximate search compares one of this many lists


class DenseRetriever:
    """Search by similarity of a bi-encoder's embeddings, cosine or dot product, over a corpus in memory.

    It can be pickled, even for processes without an accelerator: a copy embeds questions on the CPU.

    Args:
        encoder: A ``SentenceTransformer``; its ``similarity_fn_name``, prompts and routes are used (``Embedder``).
        corpus: Passages by id.
        share: Whether each process embeds only its share of the corpus; all processes must then construct the
            retriever together, and each gets the whole index.
        dtype: The dtype of the encoder's matrix products, as in ``Embedder``; similarities are computed in fp32.
        cache_dir: Folder for the corpus's embeddings, by the encoder's weights; ``None`` does not store them.
        index: A ready faiss index of inner products of this encoder's vectors, in the order of the corpus (default:
            ``build_index`` of the corpus).

    Attributes:
        index: The faiss index.
        passages: The passages, in the order of the index.

    Raises:
        OSError: faiss is not installed.
        ValueError: A ready index does not fit the corpus and the encoder, or the encoder's similarity is neither
            cosine nor dot product.
    """

    def __init__(
        self,
        encoder: Any,
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
        elif (index.ntotal, index.d) != (given := (len(corpus), encoder.get_embedding_dimension())):
            raise ValueError(
                f"index must hold {given[0]} vectors, one per passage, of the encoder's {given[1]} dimensions, got "
                f"{index.ntotal} of {index.d}"
            )
        self.index = index

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages of each question as ``Retriever.retrieve``."""
        top_k = checked_top_k(top_k, len(self.passages))
        if not questions:
            return []
        _, rows = self.index.search(self._embedder.questions(questions), top_k)
        # -1 if an approximate index finds fewer
        return [tuple(self.passages[place] for place in row if place >= 0) for row in rows.tolist()]


def build_index(vectors: np.ndarray, exact: bool | None = None) -> Any:
    """Return a faiss index of inner products over the rows of ``vectors``, fp32 of shape (passages, dimension).

    It compares a question with all passages (default below ``EXACT_BELOW`` passages), or only with those in the
    clusters nearest to it.
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
