"""Dense retrieval is exact search."""

import numpy as np
import pytest
import torch

from seper_reward.retrieval import BM25Retriever, DenseRetriever, dense, load_retriever
from seper_reward.types import Passage


def test_dense_retrieval_is_exact_search(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    texts = ["the mill by the river", "sheep on a hill", "a ferry in the fog", "the ferry sank", "bread and salt"]
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(texts)}
    questions = ["who owns the mill", "when did the ferry sink"]
    found = DenseRetriever(encoder, corpus, dtype=torch.float32).retrieve(questions, 3)
    vectors = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    for question, passages in zip(questions, found, strict=True):
        scores = vectors @ encoder.encode(question, normalize_embeddings=True)
        assert [passage.id for passage in passages] == [str(at) for at in np.argsort(-scores)[:3]]
    assert len(DenseRetriever(encoder, corpus).retrieve(questions, 99)[0]) == 5
    assert DenseRetriever(encoder, corpus).retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        DenseRetriever(encoder, corpus).retrieve(questions, 0)


def test_retrievers_by_name(tiny_encoder):
    corpus = {name: Passage(f"the {name} in the fog", id=name) for name in ("mill", "ferry")}
    assert isinstance(load_retriever("bm25", corpus), BM25Retriever)
    found = load_retriever(str(tiny_encoder), corpus)
    assert isinstance(found, DenseRetriever)
    assert len(found.retrieve(["mill"], 2)[0]) == 2
    with pytest.raises(
        OSError, match="retriever='no-such/encoder' could not be loaded: expected bm25, minilm, a local"
    ):
        load_retriever("no-such/encoder", corpus)


@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16])
def test_texts_are_embedded_in_the_dtype_that_is_fast(tiny_encoder, monkeypatch, fast):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    seen = []
    encoder[0].register_forward_hook(
        lambda *_: seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
    )
    monkeypatch.setattr(dense, "fast_dtype", lambda device: fast)
    corpus = {name: Passage(f"the {name} in the fog", id=name) for name in ("mill", "ferry")}
    retriever = DenseRetriever(encoder, corpus)
    assert retriever.retrieve(["the ferry in the fog"], 1) == [(corpus["ferry"],)]
    assert seen == [fast, fast]  # the corpus, then the question
    embedded = retriever._index.reconstruct_n(0, 2)
    exact = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    assert np.allclose(embedded, exact, atol=0.02)
    assert np.allclose(embedded, exact, atol=1e-6) == (fast == torch.float32)
