"""Dense retrieval: embeddings by sentence-transformers, exact search by faiss."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from seper_reward.retrieval.base import checked_top_k
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.runtime.imports import need
from seper_reward.runtime.pretrained import fast_dtype
from seper_reward.types import Passage


class DenseRetriever:
    """Exact search by cosine similarity of a bi-encoder's embeddings, over a corpus held in memory.

    Args:
        encoder: A ``SentenceTransformer``; its ``query`` and ``document`` prompts are used, if it has any.
        corpus: Passages by id.
        batch_size: Number of texts per forward pass.
        share: Whether each process embeds a share of the corpus only; all must then construct the retriever together,
            and each gets the whole index.
        dtype: The dtype of the encoder's matrix products: ``torch.float32`` leaves the encoder as it is, a shorter one
            is autocast; ``None`` takes bf16 where the device multiplies it natively (``fast_dtype``). Embeddings are
            kept and compared in fp32.

    Raises:
        OSError: faiss is not installed.
    """

    def __init__(
        self,
        encoder: Any,
        corpus: Mapping[str, Passage],
        batch_size: int = 64,
        share: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._encoder, self._passages, self._batch_size = encoder, list(corpus.values()), batch_size
        self._dtype = dtype or fast_dtype(encoder.device)
        texts = [passage.full_text for passage in self._passages]
        rows = list(self._embed(encoder.encode_document, shard(texts) if share else texts))
        vectors = _stack(gather_in_order(rows) if share else rows)
        self._index = need("faiss", "retrieval").IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages for each question, best first.

        Raises:
            ValueError: ``top_k`` is below 1.
        """
        top_k = checked_top_k(top_k, len(self._passages))
        if not questions:
            return []
        _, rows = self._index.search(_stack(list(self._embed(self._encoder.encode_query, questions))), top_k)
        return [tuple(self._passages[index] for index in row) for row in rows.tolist()]

    def _embed(self, encode: Any, texts: Sequence[str]) -> Any:
        if not texts:
            return []
        with torch.autocast(self._encoder.device.type, self._dtype, enabled=self._dtype != torch.float32):
            return encode(
                list(texts), batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
            ).astype("float32")


class WordLlamaEncoder:
    """WordLlama's mean token embeddings, in the shape of a ``SentenceTransformer`` as ``DenseRetriever`` asks it.

    Args:
        model: A loaded WordLlama model.
    """

    device = torch.device("cpu")

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def load(cls) -> "WordLlamaEncoder":
        """Load the model of 256 dimensions that the package brings with it.

        Raises:
            OSError: WordLlama is not installed.
        """
        library = need("wordllama", "wordllama")
        # without a cache_dir it looks for its own tokenizer in another folder, and then asks the hub for it
        folder = Path(library.__file__).parent
        return cls(library.WordLlama.load(cache_dir=folder, disable_download=True))

    def encode_document(self, texts: Sequence[str], batch_size: int = 64, **options: Any) -> Any:
        """Return ``(n, 256)`` embeddings of length 1; ``options`` of sentence-transformers have no effect."""
        return self._model.embed(list(texts), norm=True, batch_size=batch_size)

    encode_query = encode_document


def _stack(rows: Sequence[Any]) -> Any:
    import numpy as np

    return np.stack(rows)
