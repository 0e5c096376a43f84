"""Find candidate passages: BM25 (bm25s) and dense (sentence-transformers, faiss)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from seper_reward.reader.prompts import passage_text
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.runtime.imports import need
from seper_reward.types import Passage


class Retriever(Protocol):
    """Finds passages of one corpus."""

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages of each question, best first (all, if the corpus is smaller).

        Raises:
            ValueError: ``top_k`` is below 1.
        """


class BM25Retriever:
    """BM25 over a corpus held in memory, with English stop words and stemming.

    Args:
        corpus: passages by id.
    """

    def __init__(self, corpus: Mapping[str, Passage]) -> None:
        import bm25s
        import Stemmer

        self._passages = list(corpus.values())
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25()
        self._index.index(self._tokens([passage_text(passage) for passage in self._passages]), show_progress=False)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages; see ``Retriever``."""
        top_k = _checked(top_k, len(self._passages))
        found, _ = self._index.retrieve(self._tokens(questions), k=top_k, show_progress=False)
        return [tuple(self._passages[int(index)] for index in row) for row in found]

    def _tokens(self, texts: Sequence[str]) -> object:
        import bm25s

        return bm25s.tokenize(
            list(texts),
            stopwords="en",
            stemmer=self._stemmer,
            token_pattern=r"(?u)\b\w+\b",  # bm25s's own drops single digits, which tell "mill 3" from "mill 5"
            show_progress=False,
        )


class DenseRetriever:
    """Cosine similarity of a bi-encoder's embeddings, exact, over a corpus held in memory.

    Args:
        encoder: a ``SentenceTransformer``; its ``query`` and ``document`` prompts are used, if it has any.
        corpus: passages by id.
        batch_size: texts per forward pass.
        share: processes embed a share of the corpus each and all hold the whole index; all must come here together.

    Raises:
        OSError: faiss is not installed.
    """

    def __init__(self, encoder: Any, corpus: Mapping[str, Passage], batch_size: int = 64, share: bool = False) -> None:
        self._encoder, self._passages, self._batch_size = encoder, list(corpus.values()), batch_size
        texts = [passage_text(passage) for passage in self._passages]
        rows = list(self._embed(encoder.encode_document, shard(texts) if share else texts))
        vectors = _stack(gather_in_order(rows) if share else rows)
        self._index = need("faiss", "retrieval").IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages; see ``Retriever``."""
        top_k = _checked(top_k, len(self._passages))
        if not questions:
            return []
        _, found = self._index.search(_stack(list(self._embed(self._encoder.encode_query, questions))), top_k)
        return [tuple(self._passages[index] for index in row) for row in found.tolist()]

    def _embed(self, encode: Any, texts: Sequence[str]) -> Any:
        if not texts:
            return []
        return encode(
            list(texts), batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
        ).astype("float32")


def _stack(rows: Sequence[Any]) -> Any:
    import numpy as np

    return np.stack(rows)


def _checked(top_k: int, most: int) -> int:
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    return min(top_k, most)
