"""Rerankers and mixed retrievers: by hand, with scripted scores, and by name."""

from types import SimpleNamespace

import numpy as np
import pytest

from seper_reward.retrieval import FusedRetriever, fusion, load_reranker
from seper_reward.retrieval.fusion import reciprocal_rank_fusion
from seper_reward.retrieval.reranking import BiEncoderReranker, CrossEncoderReranker
from seper_reward.types import Passage
from tests.helpers import FindsThese

A, B, C, D = (Passage(f"text {name}", id=name) for name in "abcd")


def test_cross_encoder_reranker_orders_by_score():
    def predict(pairs, **_):
        return np.array([{"text a": 0.1, "text b": 2.0, "text c": 0.1, "T: x": -1.0}[text] for _, text in pairs])

    reranker = CrossEncoderReranker(SimpleNamespace(predict=predict))
    titled = Passage("x", "T")
    assert reranker.rerank("Who?", [titled, C, A, B]) == (B, C, A, titled)
    assert reranker.rerank("Who?", []) == ()


def test_bi_encoder_reranker_orders_by_similarity(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    passages = [Passage(text) for text in ("the mill", "sheep on a hill", "a ferry in the fog", "the ferry sank")]
    scores = encoder.encode([each.full_text for each in passages]) @ encoder.encode("when did the ferry sink")
    norms = np.linalg.norm(encoder.encode([each.full_text for each in passages]), axis=1)
    expected = tuple(passages[at] for at in np.argsort(-scores / norms))
    assert BiEncoderReranker(encoder).rerank("when did the ferry sink", passages) == expected
    assert BiEncoderReranker(encoder).rerank("when", []) == ()


def test_load_reranker_by_name(tiny_encoder, tiny_entailment, tmp_path):
    assert isinstance(load_reranker("minilm"), BiEncoderReranker)
    for name, got in ((tiny_encoder, "BertModel with 1"), (tiny_entailment, "BertForSequenceClassification with 3")):
        with pytest.raises(ValueError, match=f"must be a cross-encoder with one score per pair, got {got}"):
            load_reranker(str(name))
    with pytest.raises(OSError, match="reranker='no-such/model' could not be loaded: expected minilm, or a cross-enc"):
        load_reranker("no-such/model")
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu").save_pretrained(str(tmp_path))
    ranked = load_reranker(str(tmp_path)).rerank("Who?", [A, B])
    assert sorted(passage.id for passage in ranked) == ["a", "b"]


def test_reciprocal_rank_fusion_by_hand():
    # a 1/61 + 1/63, b 1/62 + 1/61, c 1/63, d 1/62
    assert reciprocal_rank_fusion([(A, B, C), (B, D, A)]) == (B, A, D, C)
    assert reciprocal_rank_fusion([(A, C, B), (D, C, B)]) == (C, B, A, D)
    assert reciprocal_rank_fusion([(), ()]) == ()


def test_fused_retriever_looks_deeper_than_it_returns(monkeypatch):
    monkeypatch.setattr(fusion, "_DEPTH", 3)
    one, other = FindsThese([A, B, C]), FindsThese([B, D, A])
    mixed = FusedRetriever([one, other])
    assert mixed.retrieve(["Who?", "Why?"], 2) == [(B, A), (B, A)]
    assert mixed.retrieve(["Who?"], 7) == [(B, A, D, C)]
    assert one.asked == other.asked == [(["Who?", "Why?"], 3), (["Who?"], 7)]
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        mixed.retrieve(["Who?"], 0)
    with pytest.raises(ValueError, match="expected at least one retriever to fuse, got none"):
        FusedRetriever([])
