"""Retrievers by the names that settings give them."""

from collections.abc import Mapping

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.runtime.imports import need
from seper_reward.runtime.pretrained import embedded_encoder_folder, no_accelerator
from seper_reward.types import Passage


def load_retriever(name: str, corpus: Mapping[str, Passage]) -> Retriever:
    """Return a retriever over a corpus.

    Args:
        name: ``"bm25"``, ``"minilm"`` (dense, the embedded all-MiniLM-L6-v2), or the hub id or folder of another
            bi-encoder.
        corpus: Passages by id.

    Raises:
        OSError: A bi-encoder cannot be loaded, or a library is not installed.
        ValueError: No passage has a word to search for.
    """
    if name == "bm25":
        return BM25Retriever(corpus)
    source = str(embedded_encoder_folder()) if name == "minilm" else name
    library = need("sentence_transformers", "retrieval")
    return DenseRetriever(library.SentenceTransformer(source, device="cpu" if no_accelerator() else None), corpus)
