"""Dense retrieval is exact search."""

import numpy as np
import pytest

from seper_reward.retrieval import DenseRetriever
from seper_reward.types import Passage


def test_dense_retrieval_is_exact_search(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    texts = ["the mill by the river", "sheep on a hill", "a ferry in the fog", "the ferry sank", "bread and salt"]
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(texts)}
    questions = ["who owns the mill", "when did the ferry sink"]
    found = DenseRetriever(encoder, corpus).retrieve(questions, 3)
    vectors = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    for question, passages in zip(questions, found, strict=True):
        scores = vectors @ encoder.encode(question, normalize_embeddings=True)
        assert [passage.id for passage in passages] == [str(at) for at in np.argsort(-scores)[:3]]
    assert len(DenseRetriever(encoder, corpus).retrieve(questions, 99)[0]) == 5
    assert DenseRetriever(encoder, corpus).retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        DenseRetriever(encoder, corpus).retrieve(questions, 0)
